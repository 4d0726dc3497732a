"""`wordpipe train static --teacher`: what another encoder says of words and texts, as the first table of a static encoder.

The teacher reads each word (or token) alone, and texts of the corpus behind the tokens: passages of documents, with their
titles, for search; sentences for similarity. It reads a bounded number of them, evenly spread.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact, DocumentStarts, read_batches
from wordpipe.errors import InputError
from wordpipe.stages.job import Job
from wordpipe.stages.train.run import corpus_of
from wordpipe.training.contrastive import PairText, distilled_table, held_words, nearness, word_weights
from wordpipe.training.contrastive.settings import StaticSettings

if TYPE_CHECKING:
    from wordpipe.encoders import TextEncoder

Floats = npt.NDArray[np.float32]
_PASSAGE = 128  # words of a passage, at least, unless its document ends
_AT_ONCE = 1_024  # texts that the teacher is given
_HELD_OUT = 500  # held-out texts, at most, by which the table is measured


def teacher_table(
    job: Job, source: Artifact, settings: StaticSettings, text: PairText, spelled: Sequence[str],
    ids_of: Callable[[Sequence[str]], list[list[int]]],
) -> Floats:  # fmt: skip
    """Return the static table that is near a teacher, weights of the words included, (V, D).

    Args:
        job: the teacher and the corpus become its inputs.
        source: the tokens.
        settings: `teacher`, `teacher_texts`, `goal`, `sif_a`.
        text: says how often words come, and which documents are held out.
        spelled: V words or tokens as the teacher reads them.
        ids_of: texts to rows of the table.

    Raises:
        ArtifactError: no corpus that fits the tokens.
        InputError: no text with a word.
    """
    corpus = corpus_of(job, source, what="the texts for the teacher")
    encoder = opened_teacher(job.open_input(settings.teacher, ["model", "words"]), settings.threads)  # type: ignore[arg-type]
    texts = [*islice(_texts(corpus, settings, text, split=0), settings.teacher_texts)]
    if not texts:
        raise InputError("there is no text that the teacher can read", where=corpus.path)
    held_out = [*islice(_texts(corpus, settings, text, split=1), _HELD_OUT)]
    job.note(
        f"the teacher ({settings.teacher}) reads {len(spelled):,} words one by one, and {len(texts) + len(held_out):,} texts"
    )
    read = Reading(job, encoder, len(spelled) + len(texts) + len(held_out))
    words_VD, taught_ND, others_ND = read(spelled), read(texts), read(held_out)
    weights_V = word_weights(text.counts, settings.sif_a)
    held_NV = held_words(ids_of(texts), len(spelled))
    table_VD = distilled_table(
        words_VD, weights_V, held_NV, taught_ND, lambda done: job.report("learning from the teacher", done, 1.0)
    )
    # how near it has come
    job.counts |= {"teacher_words": len(spelled), "teacher_texts": len(texts)}
    job.metrics["teacher_cosine"] = round(nearness(table_VD, held_NV, taught_ND), 6)
    said = (
        f"mean cosine of the table and the teacher: {job.metrics['teacher_cosine']:.3f} for the texts it learned from"
    )
    if held_out:
        near = nearness(table_VD, held_words(ids_of(held_out), len(spelled)), others_ND)
        job.metrics["teacher_cosine_held_out"] = round(near, 6)
        said += f", {near:.3f} for {len(held_out):,} held-out texts"
    job.note(said)
    return table_VD


def opened_teacher(
    origin: Artifact, threads: int, device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
) -> "TextEncoder":
    """Return the encoder in an artifact that others learn from; in bfloat16 where the machine is faster so."""
    from wordpipe.encoders.settings import EmbedSettings
    from wordpipe.runtime import pick_device
    from wordpipe.stages.encoders import open_encoder
    from wordpipe.training import resolve_dtype

    dtype = str(resolve_dtype("auto", pick_device(device))).removeprefix("torch.")
    return open_encoder(origin, EmbedSettings.make({"dtype": dtype, "threads": threads, "device": device}))


class Reading:
    """A teacher at work, which reports how far it is.

    Args:
        job: that reports.
        encoder: the teacher.
        total: texts that it will read.
    """

    def __init__(self, job: Job, encoder: "TextEncoder", total: int) -> None:
        self._job, self._encoder, self._total, self._done = job, encoder, total, 0

    def __call__(self, texts: Sequence[str], *, as_queries: bool = False) -> Floats:
        """Return the teacher's unit vectors of some texts, (N, D)."""
        vectors = [np.zeros((0, self._encoder.dim), np.float32)]
        encoder = self._encoder.for_queries if as_queries else self._encoder
        for first in range(0, len(texts), _AT_ONCE):
            vectors.append(encoder.encode(texts[first : first + _AT_ONCE]).vectors)
            self._done += len(vectors[-1])
            self._job.report("reading by the teacher", self._done, self._total, "texts")
        return np.concatenate(vectors)


def _texts(corpus: Artifact, settings: StaticSettings, text: PairText, split: int) -> Iterator[str]:
    """Yield the texts of a split that the teacher of a static table reads, evenly spread where there are too many."""
    chosen = text.splits == split
    wanted = settings.teacher_texts if split == 0 else _HELD_OUT
    if settings.goal == "similarity":
        there = int(np.diff(text.documents)[chosen].sum())
        found = (row for row, _, _ in _rows(corpus, chosen))
    else:
        words_N = np.diff(text.rows.offsets[text.documents])
        there = int(np.ceil(words_N[chosen] / _PASSAGE).sum())
        found = (" ".join(parts) for parts in passages(corpus, chosen))
    return islice(found, 0, None, max(1, there // max(1, wanted)))


def passages(corpus: Artifact, chosen: npt.NDArray[np.bool_] | None = None) -> Iterator[list[str]]:
    """Yield the passages of documents that a teacher reads, as their sentences in a row, before the first one the title.

    Args:
        corpus: of the documents.
        chosen: (N,) which documents; None: all.
    """
    waiting: list[str] = []
    words = 0
    for text, title, is_first in _rows(corpus, chosen):
        if waiting and (is_first or words >= _PASSAGE):
            yield waiting
            waiting, words = [], 0
        waiting += [title, text] if is_first and title else [text]
        words += text.count(" ") + 1
    if waiting:
        yield waiting


def _rows(corpus: Artifact, chosen: npt.NDArray[np.bool_] | None) -> Iterator[tuple[str, str, bool]]:
    """Yield text, title, and whether a document begins, of the rows of some documents for a static table's teacher."""
    starts, document = DocumentStarts(), -1
    for batch in read_batches(corpus, "corpus", ["doc_id", "sentence_id", "text", "title"]):
        if not batch.num_rows:
            continue
        columns = starts.of(batch).tolist(), batch["text"].to_pylist(), batch["title"].to_pylist()
        for is_first, text, title in zip(*columns, strict=True):
            document += is_first
            if chosen is None or chosen[document]:
                yield text.strip(), (title or "").strip(), is_first
