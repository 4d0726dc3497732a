"""Judging the systems of `wordpipe evaluate retrieval`, one after the other, and against the first of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wordpipe.artifacts.writer import whole_file
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import Progress
from wordpipe.search.collection import Collection
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.judged_encoders import open_judged
from wordpipe.stages.making import RunOptions
from wordpipe.stages.retrieval_figures import Array, differences, figures, judge, rankings, trec_lines
from wordpipe.stages.retrieval_systems import Answers, encode_collection

__all__ = ["Judging", "Norms"]


@dataclass(frozen=True)
class Norms:
    """How to judge, as `evaluate_retrieval` takes it.

    Raises:
        ConfigError: a number out of its bounds.
    """

    depth: int
    weight: float | None
    lsi_dim: int
    drop_identical: bool
    draws: int
    feedback: int

    def __post_init__(self) -> None:
        for name, least in (("depth", 1), ("lsi_dim", 1), ("draws", 0), ("feedback", 0)):
            if getattr(self, name) < least:
                raise ConfigError("no such number", where=name, got=getattr(self, name), expected=f"{least} or more")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise ConfigError("not a share", where="weight", got=self.weight, expected="0 to 1")


@dataclass
class Judging:
    """Judges one system after the other; the first, BM25, is what the others are compared with.

    Attributes:
        collection: documents, queries, judgements.
        norms: how to judge.
        run: progress, verification.
        runs: where answers are written as TREC runs; None: nowhere.
        systems: what was found, one for each system.

    Raises:
        InputError: runs are wanted, and an id would not be read back from them.
    """

    collection: Collection
    norms: Norms
    run: RunOptions
    runs: Path | None
    systems: list[dict[str, Any]] = field(default_factory=list)
    _first: Array | None = None

    def __post_init__(self) -> None:
        if self.runs is not None:
            _refuse_other_than_words("document", self.collection.documents)
            _refuse_other_than_words("query", self.collection.queries)

    @property
    def reach(self) -> int:
        """How many documents a system has to find, so that `depth` are left when the query's own is dropped."""
        return self.norms.depth + self.norms.drop_identical

    def add(self, system: str, name: str, answers: Answers, facts: Mapping[str, Any]) -> None:
        """Judge a system's answers, and write them down where that is wanted."""
        self.run.report(Progress(f"judging {system}"))
        found = rankings(self.collection, answers, drop_identical=self.norms.drop_identical)
        found = [ranking[: self.norms.depth] for ranking in found]
        table_QM = judge(self.collection, found)
        self._first = table_QM if self._first is None else self._first
        self.systems.append(
            {
                "system": system,
                "name": name,
                **figures(table_QM, self.norms.draws),
                "unanswered": sum(not ranking for ranking in found),
                "against_bm25": differences(table_QM, self._first, self.norms.draws) if self.systems else None,
                "facts": dict(facts),
            }
        )
        if self.runs is not None:
            self._write(system, trec_lines(self.collection, found, system))

    def encoder(self, system: str, path: str, settings: EmbedSettings) -> None:
        """Judge the vectors of an encoder as it is."""
        with open_judged(path, settings, self.run) as judged:
            encoded = encode_collection(judged, self.collection)
        self.add(system, path, encoded.answers(self.reach), {"transform": encoded.kind})

    def _write(self, system: str, lines: str) -> None:
        assert self.runs is not None
        often = sum(one["system"] == system for one in self.systems)
        with whole_file(self.runs / f"{system}{f'-{often}' if often > 1 else ''}.trec") as file:
            file.write(lines.encode())


def _refuse_other_than_words(what: str, names: Iterable[str]) -> None:
    """A line of a TREC run is parted at its blanks, and is UTF-8."""
    for name in names:
        if name.encode(errors="ignore").decode().split() != [name]:  # ignored: half a character, as JSON may have it
            raise InputError(
                f"the id of a {what} is not one word, so no TREC run can name it",
                where="runs",
                got=repr(name),
                expected="no blanks, not empty",
                hint="judge without writing runs, or give it another id in the collection and its judgements",
            )
