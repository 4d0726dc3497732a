"""Finding texts by their words: BM25 as Lucene scores it, over an inverted index of plain arrays.

Kept are counts, not scores: an index then grows and shrinks without its old texts, and a score can be taken apart. It is no
wrapper around bm25s, whose import takes 1.2 s with the numba that it wants (a cold query answers in less) and whose index
keeps scores; the tests compare the two.
"""

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError
from wordpipe.search.analysis import Analyser, looks_english
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.postings import Postings, TermCounter, Terms, merged
from wordpipe.search.settings import Language, LexicalSettings

ABOUT_FILE = "lexical.json"
_ARRAYS = ("letters", "ends", "starts", "rows", "counts", "lengths")
_SAMPLE = 1_000  # texts that tell the language
_HINT = "build it again with: wordpipe index"

Read = Callable[[str], bytes]
Write = Callable[[str, bytes], None]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TermScore:
    """What one term of a query adds to the score of a text."""

    stem: str  # the term
    score: float  # its share; the shares of all terms add up to the score
    count: int  # how often it stands in the text
    texts: int  # in how many texts it stands


@dataclass(frozen=True)
class LexicalIndex:
    """BM25 over N texts: sum over query terms of idf · tf / (tf + k1 · (1 - b + b · length / mean length)).

    idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n texts. A term that comes twice in the query counts twice.

    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework"; as in Lucene from version 8, which leaves
    out the factor k1 + 1, but for its rounding of lengths to one byte.
    """

    settings: LexicalSettings  # with the language that auto came to
    terms: Terms  # the terms
    postings: Postings  # where they stand

    @classmethod
    def build(cls, texts: Iterable[str], settings: LexicalSettings) -> "LexicalIndex":
        """Index N texts, in the order of their rows, each read once."""
        texts, settings = _language_known(texts, settings)
        counter = TermCounter(Analyser(settings.language))
        counter.add(texts)
        return cls(settings, *counter.finish())

    def updated(self, old_rows_N: npt.NDArray[np.int64], texts: Iterable[str]) -> "LexicalIndex":
        """The index of N texts of which some are in this one: the same bytes as one built of all of them in this language.

        Args:
            old_rows_N: for each text its row in this index, -1 for a new one.
            texts: the new ones, in order.
        """
        counter = TermCounter(self.analyser)
        counter.add(texts)
        return LexicalIndex(self.settings, *merged(self.terms, self.postings, *counter.finish(), old_rows_N))

    def __len__(self) -> int:
        return len(self.postings.lengths)

    @cached_property
    def analyser(self) -> Analyser:
        """Text to stems."""
        return Analyser(self.settings.language)

    def scores(self, query: str) -> Floats:
        """(N,) float32, the score of every text; 0 where no term of the query stands."""
        scores_N = np.zeros(len(self), dtype=np.float32)
        self._add_scores(query, scores_N)
        return scores_N

    def knows(self, word: str) -> bool:
        """Whether the word stands in any of the texts, in whatever form; stop words stand in none."""
        return any(self.terms.find(stem) >= 0 for stem in self.analyser(word))

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> list[Hits]:
        """The k best texts of every query among those `allowed`, (N,), those without any of its words left out."""
        scores_N = np.zeros(len(self), dtype=np.float32)
        return [self._best(query, k, allowed, scores_N) for query in queries]

    def score_of(self, query: str, text: str) -> float:
        """The score that a text would have that is not in the index; terms that no text has count for nothing."""
        stems = self.analyser(text)
        counts, score = Counter(stems), 0.0
        damping = self._damping_of(np.array([len(stems)]))[0]
        for stem, times in Counter(self.analyser(query)).items():
            if counts[stem] and (term := self.terms.find(stem)) >= 0:
                score += times * self._idf(term) * counts[stem] / (counts[stem] + damping)
        return float(score)

    def explain(self, query: str, row: int) -> list[TermScore]:
        """What each term of the query adds to the score of one text, most first; terms that are not in it left out."""
        shares = []
        for stem, times in Counter(self.analyser(query)).items():
            if (term := self.terms.find(stem)) < 0:
                continue
            rows, counts = self.postings.of(term)
            at = int(np.searchsorted(rows, row))
            if at < len(rows) and rows[at] == row:
                score = self._share(term, times, rows[at : at + 1], counts[at : at + 1])[0]
                shares.append(TermScore(stem, float(score), int(counts[at]), len(rows)))
        return sorted(shares, key=lambda share: -share.score)

    def save(self, write: Write) -> None:
        """Write lexical.json and one .npy per array."""
        about = {"format": 1, "settings": self.settings.model_dump(mode="json")}
        write(ABOUT_FILE, json.dumps(about, indent=2, sort_keys=True).encode())
        for name, array in self._arrays().items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            write(f"{name}.npy", buffer.getvalue())

    @classmethod
    def load(cls, read: Read) -> "LexicalIndex":
        """Read what `save` wrote; the arrays stay where they were read to.

        Raises:
            ArtifactError: the files do not belong together.
        """
        try:
            settings = LexicalSettings.make(json.loads(read(ABOUT_FILE))["settings"])
            letters, ends, starts, rows, counts, lengths = (_array(read(f"{name}.npy")) for name in _ARRAYS)
        except (ValueError, KeyError, TypeError, EOFError) as error:
            raise ArtifactError("not a readable lexical index", where=ABOUT_FILE, got=error, hint=_HINT) from None
        fits = len(starts) == len(ends) + 1 and len(rows) == len(counts) == starts[-1]
        if not fits or len(letters) != ends[-1:].sum():
            raise ArtifactError("the files of the lexical index do not belong together", where=ABOUT_FILE, hint=_HINT)
        return cls(settings, Terms(letters, ends), Postings(starts, rows, counts, lengths))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        terms, postings = self.terms, self.postings
        arrays = (terms.letters, terms.ends, postings.starts, postings.rows, postings.counts, postings.lengths)
        return dict(zip(_ARRAYS, arrays, strict=True))

    @cached_property
    def _damping(self) -> Floats:
        """(N,) what stands beside tf in the denominator."""
        return self._damping_of(self.postings.lengths)

    def _damping_of(self, lengths: npt.NDArray[np.integer[Any]]) -> Floats:
        """k1 · (1 - b + b · length / mean length)."""
        k1, b, all_lengths = self.settings.k1, self.settings.b, self.postings.lengths
        mean = all_lengths.mean() if all_lengths.any() else 1.0
        return (k1 * (1 - b + b * lengths / mean)).astype(np.float32)

    def _idf(self, term: int) -> float:
        within = int(self.postings.starts[term + 1] - self.postings.starts[term])
        return math.log1p((len(self) - within + 0.5) / (within + 0.5))

    def _share(
        self, term: int, times: int, rows: npt.NDArray[np.int32], counts: npt.NDArray[np.unsignedinteger[Any]]
    ) -> Floats:
        """What a term that stands `times` times in the query adds to the scores of these rows."""
        tf = counts.astype(np.float32)
        return np.float32(times * self._idf(term)) * (tf / (tf + self._damping[rows]))

    def _add_scores(self, query: str, scores_N: Floats) -> None:
        for stem, times in Counter(self.analyser(query)).items():
            if (term := self.terms.find(stem)) >= 0:
                rows, counts = self.postings.of(term)
                scores_N[rows] += self._share(term, times, rows, counts)

    def _best(self, query: str, k: int, allowed: Mask | None, scores_N: Floats) -> Hits:
        """The k best; `scores_N` is zero, and is so again at the end."""
        self._add_scores(query, scores_N)
        found = np.flatnonzero(scores_N)
        scores = scores_N[found]
        scores_N[found] = 0
        if allowed is not None:
            found, scores = found[allowed[found]], scores[allowed[found]]
        return best_of(found, scores, k)


def _language_known(texts: Iterable[str], settings: LexicalSettings) -> tuple[Iterable[str], LexicalSettings]:
    """The texts, none missing, and the settings with what auto comes to."""
    if settings.language != "auto":
        return texts, LexicalSettings(language=settings.language, k1=settings.k1, b=settings.b)
    iterator = iter(texts)
    first = list(islice(iterator, _SAMPLE))
    language: Language = "english" if looks_english(first) else "none"
    return chain(first, iterator), LexicalSettings(language=language, k1=settings.k1, b=settings.b)


def _array(data: bytes) -> npt.NDArray[Any]:
    """An array out of the bytes of a .npy file, without a copy."""
    file = io.BytesIO(data)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return np.frombuffer(data, dtype=dtype, offset=file.tell()).reshape(shape)
