"""The text that word vectors are trained on: read from a tokens artifact, its phrases joined, its rare words dropped."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.layout import VOCABULARY
from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.stages.making import Job
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.vocabulary import number_of_ids
from wordpipe.words.phrases.learning import Phrases
from wordpipe.words.reading import kept_rows, read_words
from wordpipe.words.settings import Word2VecSettings
from wordpipe.words.text import Words
from wordpipe.words.vocabulary import COLUMN_OF_UNIT, Vocabulary, count_ids

__all__ = ["SourceText"]


class SourceText:
    """The words of a tokens artifact.

    Args:
        job: told how far the reading is; gets the counts.
        source: a tokens artifact.
        settings: unit, context, phrases and min_count are looked at.

    Attributes:
        plan: the settings with nothing left open.
        vocabulary: the words that get vectors.
    """

    def __init__(self, job: Job, source: Artifact, settings: Word2VecSettings) -> None:
        self._job, self._source, self._settings = job, source, settings
        self._words = _spellings(source, settings.unit)
        counts = count_ids(self._rows("counting"), len(self._words), column=COLUMN_OF_UNIT[settings.unit])
        self.plan = settings.plan(int(counts.sum()))
        self._phrases = self._find_phrases(counts)
        self.vocabulary = self._keep(counts if self._phrases is None else self._phrases.counts)

    def spelled(self) -> pa.StringArray:
        """The word of every row of the vocabulary."""
        words = self._words
        if self._phrases is not None:
            words = pa.concat_arrays([words, pa.array(self._phrases.spell(words.to_pylist()), words.type)])
        return words.take(pa.array(self.vocabulary.ids))

    def rows(self, split: str, phase: str | None = None) -> Iterator[Words]:
        """The text of a split as rows of the vocabulary; the reading is reported as `phase`."""
        yield from kept_rows(self._joined(split, phase), self.vocabulary.row_of_id)

    def _find_phrases(self, counts: npt.NDArray[np.int64]) -> Phrases | None:
        if not self._settings.phrases:
            return None
        folder = self._job.scratch / "phrases"
        folder.mkdir()
        found = Phrases.learn(
            lambda: self._ids("train", "finding phrases"),
            counts,
            scratch=folder,
            threshold=self._settings.phrase_threshold,
            passes=self._settings.phrases,
        )
        self._job.counts["phrases"] = len(found)
        self._job.counts["words_joined_into_phrases"] = int(counts.sum() - found.counts.sum())
        return found

    def _keep(self, counts: npt.NDArray[np.int64]) -> Vocabulary:
        vocabulary = Vocabulary.keep(counts, self.plan.min_count)
        self._job.counts |= {
            "words_kept": vocabulary.tokens,
            "words_dropped_rare": vocabulary.dropped_tokens,
            "distinct_kept": len(vocabulary),
            "distinct_dropped_rare": vocabulary.dropped_kinds,
        }
        return vocabulary

    def _joined(self, split: str, phase: str | None) -> Iterator[Words]:
        ids = self._ids(split, phase)
        return ids if self._phrases is None else self._phrases.join(ids)

    def _ids(self, split: str, phase: str | None) -> Iterator[Words]:
        column = COLUMN_OF_UNIT[self._settings.unit]
        return read_words(self._rows(phase), column=column, context=self._settings.context, split=split)

    def _rows(self, phase: str | None) -> Iterator[pa.RecordBatch]:
        read_schema(self._source, "tokens")
        total, done = row_count(self._source, "tokens"), 0
        column = COLUMN_OF_UNIT[self._settings.unit]
        for batch in read_batches(self._source, "tokens", ["doc_id", "sentence_id", "split", column]):
            yield batch
            done += len(batch)
            if phase is not None:
                self._job.report(phase, done, total, "sentences")


def _spellings(source: Artifact, unit: Literal["word", "token"]) -> pa.StringArray:
    """The word (or token) of every id."""
    if unit == "token":
        tokenizer = open_tokenizer(source.read(TOKENIZER), where=str(source.path / TOKENIZER))
        return pa.array([tokenizer.id_to_token(number) or f"<{number}>" for number in range(number_of_ids(tokenizer))])
    batches = read_batches(source, "words", ["word"], expected=VOCABULARY)
    words: Sequence[pa.Array] = [batch.column("word") for batch in batches]
    return pa.concat_arrays(words) if words else pa.array([], pa.string())
