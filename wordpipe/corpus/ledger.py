"""What happened to the input: one flat table of counts, and the messages worth showing."""

from collections import Counter
from collections.abc import Mapping

__all__ = ["Ledger"]

_NAMES = 50  # different names under one heading; an input with random field names must not fill the memory


class Ledger:
    """Counts and warnings of one ingest, handed down to everything that reads or drops."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._warned: dict[str, str] = {}
        self._names: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        """Count `number` more of `what`."""
        self._counts[what] += number

    def add_named(self, what: str, name: str, number: int = 1) -> None:
        """Count under `what.name`; after 50 names of one heading the others share `what.(other)`."""
        key = f"{what}.{name[:100].encode(errors='replace').decode()}"
        if key not in self._counts:
            if self._names[what] >= _NAMES:
                key = f"{what}.(other)"
            else:
                self._names[what] += 1
        self._counts[key] += number

    def warn(self, kind: str, message: str) -> None:
        """Keep the first message of each kind; the counts tell how many more there were."""
        self._warned.setdefault(kind, message)

    @property
    def warnings(self) -> list[str]:
        """The messages kept, in the order in which they came."""
        return list(self._warned.values())

    @property
    def warned(self) -> dict[str, str]:
        """The message of each kind."""
        return dict(self._warned)

    def take_over(self, counts: Mapping[str, int], warnings: Mapping[str, str]) -> None:
        """Add what another ledger counted (`counts()`) and warned of (`warned`)."""
        for name, number in counts.items():
            heading, _, rest = name.partition(".")
            if rest:
                self.add_named(heading, rest, number)
            else:
                self.add(name, number)
        for kind, message in warnings.items():
            self.warn(kind, message)

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def counts(self) -> dict[str, int]:
        """All counts that are not zero, in alphabetical order."""
        return {name: number for name, number in sorted(self._counts.items()) if number}

    def named(self, what: str) -> dict[str, int]:
        """The counts under one heading by their names, the largest first."""
        found = {key[len(what) + 1 :]: n for key, n in self._counts.items() if key.startswith(f"{what}.")}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
