"""The lexical half of an index: built from the same rows, carried in the same folder, asked beside the vectors."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, read_batches
from wordpipe.search import LexicalIndex
from wordpipe.search.settings import LexicalSettings

if TYPE_CHECKING:
    from wordpipe.stages.job import Job

LEXICAL = "lexical/"  # files of the lexical index within an index artifact


def bundle_lexical(
    job: "Job",
    source: Artifact,
    settings: LexicalSettings,
    *,
    previous: Artifact | None = None,
    old_rows: npt.NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Put a lexical index over the rows of `source` into the index artifact that `job` makes.

    Args:
        job: the index in the making.
        source: a sentences artifact; of words nothing is written.
        settings: language, k1 and b; settings that inherit from them do too.
        previous: an earlier index: where its lexical settings are the same, its rows are taken over, with language and weight.
        old_rows: (N,) for each row of `source` its row in `previous`, -1 for a new one.

    Returns:
        What belongs into the index's facts as `lexical`: language, terms, weight (share of the dense score in a hybrid
        one), mode (which way of asking found best) and how that was measured. Empty for words.
    """
    if source.kind != "sentences":
        return {}
    job.report("counting words")
    earlier = None if previous is None else _same(previous, settings)
    if previous is not None and earlier is not None and old_rows is not None:
        lexical = earlier.updated(old_rows, _texts(source, old_rows < 0))
        facts = {name: previous.manifest.facts["lexical"][name] for name in ("weight", "mode", "measured")}
    else:
        lexical = LexicalIndex.build(_texts(source), settings)
        from wordpipe.stages.search.index_hybrid_weight import measured_weight

        facts = measured_weight(job, source, lexical)
    lexical.save(lambda name, data: job.write(LEXICAL + name, data))
    return {"language": lexical.settings.language, "terms": len(lexical.terms), **facts}


def has_lexical(index: Artifact) -> bool:
    """Whether an index can be asked by words; those of words, and those made before, cannot."""
    return bool(index.names(LEXICAL))


def reads_titles(source: Artifact) -> bool:
    """Whether a sentences artifact's rows were embedded with their titles before them; so they are counted in words."""
    settings = source.manifest.settings
    return bool(settings.get("with_title", False)) and settings.get("unit", "sentence") != "sentence"


def open_lexical(index: Artifact) -> LexicalIndex:
    """The lexical index that an index carries."""
    return LexicalIndex.load(lambda name: index.read(LEXICAL + name))


def _same(previous: Artifact, settings: LexicalSettings) -> LexicalIndex | None:
    """The lexical index of an earlier artifact, if it was built with these settings."""
    if not has_lexical(previous):
        return None
    found = open_lexical(previous)
    language = found.settings.language if settings.language == "auto" else settings.language
    asked = LexicalSettings(language=language, k1=settings.k1, b=settings.b)
    return found if found.settings == asked else None


def _texts(source: Artifact, wanted: npt.NDArray[np.bool_] | None = None) -> Iterator[str]:
    """What is found by its words: the text as it was embedded, its title before it where that was read too."""
    titled = reads_titles(source)
    first = 0
    for batch in read_batches(source, "sentences", ["title", "text"] if titled else ["text"]):
        rows = range(len(batch)) if wanted is None else np.flatnonzero(wanted[first : first + len(batch)]).tolist()
        first += len(batch)
        texts = _some(batch.column("text"), rows)
        if titled:
            titles = _some(batch.column("title"), rows)
            texts = [f"{title}\n{text}" if title else text for title, text in zip(titles, texts, strict=True)]
        yield from texts


def _some(column: pa.Array, rows: Sequence[int]) -> list[str]:
    """The values of some rows; `take` would import pyarrow.compute, which takes 0.17 s."""
    return column.to_pylist() if len(rows) == len(column) else [column[row].as_py() for row in rows]
