"""`wordpipe predict READER QUESTION --index INDEX`, or `--passages SOURCE`: the best answers out of many passages.

An index is searched for the question as `query` searches it, and its best texts are read; of a corpus, or of sources, every
document is. Answers of several passages are compared by how far the model puts each above "no answer" in its passage.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import Artifact, read_batches, read_schema
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.stages.infer.predict import Predictor, open_predictor
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.job import PathLike, RunOptions
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike

if TYPE_CHECKING:
    from wordpipe.heads import Answered

_SHOWN = ("title", "text", "source", "line", "record_id")

Passages = Callable[[str], Iterable[Mapping[str, Any]]]
"""The passages to be read for a question: `text`, and what else there is to show."""


@dataclass(frozen=True)
class FoundAnswer:
    """An answer with its passage.

    Attributes:
        rank: 1 of the best.
        said: the answer, its place in `text` and its probability there.
        text: the passage.
        title: of its document, or None.
        source: where it came from.
        line: of the source.
        id: of its record, or None.
    """

    rank: int
    said: "Answered"
    text: str
    title: str | None
    source: str
    line: int
    id: str | None


@public()
def ask(
    model: PathLike | Predictor, question: str, *, index: PathLike | None = None, passages: SourceLike | None = None,
    k: int = 5, read: int = 10, verify: bool = True,
) -> list[FoundAnswer]:  # fmt: skip
    """Ask a reader: find its best answers to a question in the texts of an index or of a corpus.

    Args:
        model: a model of train reader, a folder of transformers with a class for answers, or what `open_predictor` has opened.
        question: one text.
        index: an index over texts: it is searched, and the best texts are read.
        passages: a corpus, or any source of text: every document is read.
        k: answers wanted, at most.
        read: texts of the index that are read.
        verify: check artifacts' hashes first.

    Raises:
        ConfigError: not one of index and passages.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"{i}: {n} is here.", "q": "Who?", "a": [[len(f"{i}: "), len(f"{i}: {n}"), None]]}
        ...         for i, n in enumerate(["Ada", "Ben", "Eve"] * 20)]
        >>> _ = wordpipe.ingest(rows, output="new/asked", text_b="q", spans_field="a")
        >>> _ = wordpipe.train_reader("new/asked", output="new/reader", init="run/model", epochs=1)
        >>> found = wordpipe.ask("new/reader", "Who?", passages="new/asked", k=2)
        >>> len(found), found[0].text[found[0].said.start : found[0].said.end] == found[0].said.answer
        (2, True)
    """
    opened = model if isinstance(model, Predictor) else open_predictor(model, verify=verify)
    with open_passages(index=index, passages=passages, read=read, verify=verify) as texts:
        return best_answers(opened, question, texts, k)


@contextmanager
def open_passages(
    *, index: PathLike | None, passages: SourceLike | None, read: int, verify: bool
) -> Iterator[Passages]:
    """Open an index, or passages, for a reader; yield a function from a question to passages. Raises: see `ask`."""
    if (index is None) == (passages is None):
        raise ConfigError(
            "give an index or passages in which the model finds answers",
            got="both" if index else "neither",
            expected="either an index or passages",
        )
    if index is not None:
        from wordpipe.stages.search.opening import open_artifact

        with open_artifact(index, "index", verify=verify) as opened:
            yield lambda question: opened.query(question, read)
        return
    assert passages is not None
    with corpus_to_evaluate(passages, RunOptions(verify=verify)) as (corpus, _):
        yield lambda question: _documents(corpus)


def best_answers(opened: Predictor, question: str, passages: Passages, k: int) -> list[FoundAnswer]:
    """Return a reader's k best answers to a question, the best one of each passage; a passage may have none.

    Raises:
        ArtifactError: the model finds no answers.
        InputError: the question is blank.
    """
    if not opened.finds_answers:
        raise ArtifactError(
            "the model cannot find answers in passages", where=opened.path, expected="a model made by `train reader`",
            hint="wordpipe train reader QUESTIONS --init MODEL -o OUTPUT",
        )  # fmt: skip
    from wordpipe.heads import Answered

    given: list[Mapping[str, Any]] = []  # of the passages that are being read

    def read() -> Iterator[tuple[str, str]]:
        for row in passages(question):
            given.append(row)
            yield row["text"], question

    best: list[tuple[float, int, Answered, Mapping[str, Any]]] = []
    for number, one in enumerate(opened.predict(read())):
        row = given.pop(0)
        assert isinstance(one, Answered)
        if one.answer:  # of equal ones the first
            heapq.heappush(best, (one.score, -number, one, row))
        if len(best) > k:
            heapq.heappop(best)
    return [
        FoundAnswer(
            rank, one, row["text"], row.get("title"), row.get("source", ""), row.get("line", 0),
            row.get("id", row.get("record_id")),
        )
        for rank, (_, _, one, row) in enumerate(sorted(best, key=lambda found: found[:2], reverse=True), start=1)
    ]  # fmt: skip


def _documents(corpus: Artifact) -> Iterator[dict[str, Any]]:
    """Yield the documents of a corpus, whole, as passages for a reader; a passage with several questions once."""
    columns = ["doc_id", *(name for name in _SHOWN if name in read_schema(corpus, "corpus").names)]
    row: dict[str, Any] = {}
    texts: list[str] = []
    seen: set[bytes] = set()
    for batch in read_batches(corpus, "corpus", columns):
        for one in batch.to_pylist():
            if row and one["doc_id"] != row["doc_id"]:
                yield from _once(row, texts, seen)
                row, texts = {}, []
            row = row or one
            texts.append(one["text"])
    if row:
        yield from _once(row, texts, seen)


def _once(row: dict[str, Any], texts: list[str], seen: set[bytes]) -> Iterator[dict[str, Any]]:
    """Yield a document as a passage for a reader, unless the same text came before."""
    text = "".join(texts)
    if (key := blake2b(text.encode(), digest_size=10).digest()) not in seen:
        seen.add(key)
        yield row | {"text": text}
