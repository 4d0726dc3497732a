"""Golden files: small files that real programs made, each beside what a person reads in it.

`some.docx` has `some.docx.expected` beside it, written by hand:

    = the title of a document, after "="; nothing after it where there is none
    @ slide=4                    columns that its rows must have, a line each
    its text, as many lines as it has

`tests/golden/README` says which program made which file.
"""

from pathlib import Path
from typing import Any, NamedTuple

from wordpipe.corpus import Ingest, expand
from wordpipe.corpus.settings import IngestSettings

GOLDEN = Path(__file__).parents[1] / "golden"


class Read(NamedTuple):
    """A document of a golden file: its title, its text, and its other columns."""

    title: str
    text: str
    columns: dict[str, Any]


def golden_files(folder: str) -> list[Path]:
    """All golden files of a folder, each of which has an expectation."""
    return sorted(path.with_suffix("") for path in (GOLDEN / folder).glob("*.expected"))


def read(path: Path, **given: Any) -> tuple[list[Read], Ingest]:
    """The documents that are read in a file, and the ingest that read them."""
    settings = IngestSettings.make({"deduplicate": False} | given)
    ingest = Ingest(expand([str(path)], read_as=settings.format), settings)
    rows = [row for batch in [*ingest.batches()] for row in ingest.converted(batch).to_pylist()]
    found: list[Read] = []
    for row in rows:
        if row["sentence_id"] == 0:
            columns = {name: value for name, value in row.items() if value is not None}
            found.append(Read(row["title"] or "", row["text"], columns))
        else:
            found[-1] = found[-1]._replace(text=found[-1].text + row["text"])
    return found, ingest


def expected(path: Path) -> list[Read]:
    """The documents that a person reads in a golden file."""
    found: list[Read] = []
    for line in path.with_name(f"{path.name}.expected").read_text(encoding="utf-8").splitlines():
        if line.startswith("="):
            found.append(Read(line[1:].strip(), "", {}))
        elif line.startswith("@"):
            name, _, value = line[1:].strip().partition("=")
            found[-1].columns[name] = value
        else:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}{line}\n")
    return [one._replace(text=one.text.strip()) for one in found]


def assert_read_as_expected(path: Path) -> tuple[list[Read], Ingest]:
    """Compare what is read in a golden file with what a person reads, and return it."""
    found, ingest = read(path)
    wanted = expected(path)
    assert [(one.title, one.text) for one in found] == [(one.title, one.text) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert {name: str(one.columns.get(name)) for name in other.columns} == other.columns
    return found, ingest


def parts_left_out(ingest: Ingest) -> dict[str, int]:
    """The numbers of parts that a reader has left out, by what they are."""
    return {what.partition(".")[2]: n for what, n in ingest.counts.items() if what.startswith("parts_left_out.")}
