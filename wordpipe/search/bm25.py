"""BM25 as Lucene scores it, over an inverted index of plain arrays: texts are found by their words.

Kept are counts, not scores: an index then grows and shrinks without its old texts, and a score can be taken apart. It is no
wrapper around bm25s, whose import takes 1.2 s with the numba that it wants (a cold query answers in less) and whose index
keeps scores; the tests compare the two.
"""

import io
import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError
from wordpipe.search.knn import Hits, Mask, Rows, best_of
from wordpipe.search.knn import Vectors as Floats
from wordpipe.search.settings import Language, LexicalSettings
from wordpipe.search.stemming import Analyser, looks_english

LEXICAL = "lexical/"  # the folder of these files within an index artifact
_SETTINGS = "lexical.json"
_ARRAYS = ("letters", "ends", "starts", "rows", "counts", "lengths")
_SAMPLE = 1_000  # texts that tell the language
_BLOCK = 4_096  # texts whose words are counted at a time
_HINT = "build it again with: wordpipe index"

Int32s = npt.NDArray[np.int32]
Counts = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Terms:
    """V terms in the order of their UTF-8 bytes, each once, as one run of bytes: nothing to unpack when it is opened."""

    letters: npt.NDArray[np.uint8]  # uint8, the terms' bytes one after the other
    ends: Rows  # (V,) int64, where each ends

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> "Terms":
        """Terms that are sorted already."""
        ends = np.cumsum([len(term) for term in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        letters, start = self.letters.tobytes(), 0
        for end in self.ends.tolist():
            yield letters[start:end]
            start = end

    def __getitem__(self, number: int) -> bytes:
        start = self.ends[number - 1] if number else 0
        return self.letters[start : self.ends[number]].tobytes()

    def find(self, term: str) -> int:
        """The number of a term, -1 where it is not there. About 10 microseconds of a million terms."""
        wanted = term.encode("utf-8", "replace")
        at = bisect_left(self, wanted)
        return at if at < len(self) and self[at] == wanted else -1


@dataclass(frozen=True, slots=True)
class Postings:
    """P postings of V terms in N texts, those of a term together and in the order of the texts."""

    starts: Rows  # (V + 1,) int64, where the postings of each term begin
    rows: Int32s  # (P,) int32, the text
    # (P,) unsigned, how often the term stands in it; as narrow as the largest count allows
    counts: Counts
    lengths: Int32s  # (N,) int32, terms of each text

    @classmethod
    def of(cls, texts_V: Rows, keys_P: Rows, counts_P: Int32s, lengths_N: Int32s) -> "Postings":
        """Out of sorted keys (see `_keys`), how often each term stands in its text, and in how many texts each term stands."""
        starts = np.concatenate([[0], np.cumsum(texts_V)]).astype(np.int64)
        narrow = np.min_scalar_type(int(counts_P.max(initial=0)))
        return cls(starts, (keys_P & 0xFFFF_FFFF).astype(np.int32), counts_P.astype(narrow), lengths_N)

    def of_term(self, term: int) -> tuple[Int32s, Counts]:
        """The texts of a term, and how often it stands in each."""
        here = slice(int(self.starts[term]), int(self.starts[term + 1]))
        return self.rows[here], self.counts[here]

    def terms_of_postings(self) -> Int32s:
        """(P,) the term of every posting."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))


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
        return cls(settings, *counted(texts, Analyser(settings.language)))

    def updated(self, old_rows_N: Rows, texts: Iterable[str]) -> "LexicalIndex":
        """The index of N texts of which some are in this one: the same bytes as one built of all of them in this language.

        Args:
            old_rows_N: for each text its row in this index, -1 for a new one.
            texts: the new ones, in order.
        """
        new_terms, new = counted(texts, self.analyser)
        return LexicalIndex(self.settings, *merged(self.terms, self.postings, new_terms, new, old_rows_N))

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
        for stem, times, term in self._known_terms(query):
            if counts[stem]:
                score += times * self._idf(term) * counts[stem] / (counts[stem] + damping)
        return float(score)

    def explain(self, query: str, row: int) -> list[dict[str, Any]]:
        """What each term of the query adds to the score of one text, most first; terms that are not in it left out.

        Returns:
            stem; score, its share: the shares of all terms add up to the score; count, how often it stands in the text;
            texts, in how many texts it stands.
        """
        shares = []
        for stem, times, term in self._known_terms(query):
            rows, counts = self.postings.of_term(term)
            at = int(np.searchsorted(rows, row))
            if at < len(rows) and rows[at] == row:
                score = self._share(term, times, rows[at : at + 1], counts[at : at + 1])[0]
                shares.append({"stem": stem, "score": float(score), "count": int(counts[at]), "texts": len(rows)})
        return sorted(shares, key=lambda share: -share["score"])

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Name and content of each file: lexical.json and one .npy per array."""
        about = {"format": 1, "settings": self.settings.model_dump(mode="json")}
        yield _SETTINGS, json.dumps(about, indent=2, sort_keys=True).encode()
        terms, postings = self.terms, self.postings
        arrays: tuple[npt.NDArray[Any], ...] = (
            terms.letters,
            terms.ends,
            postings.starts,
            postings.rows,
            postings.counts,
            postings.lengths,
        )
        for name, array in zip(_ARRAYS, arrays, strict=True):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            yield f"{name}.npy", buffer.getvalue()

    @classmethod
    def load(cls, files: Mapping[str, bytes]) -> "LexicalIndex":
        """Read what `files` gave; the arrays stay where they were read to.

        Raises:
            ArtifactError: the files do not belong together.
        """
        try:
            settings = LexicalSettings.make(json.loads(files[_SETTINGS])["settings"])
            letters, ends, starts, rows, counts, lengths = (_array(files[f"{name}.npy"]) for name in _ARRAYS)
        except (ValueError, KeyError, TypeError, EOFError) as error:
            raise ArtifactError("not a readable lexical index", where=_SETTINGS, got=error, hint=_HINT) from None
        fits = len(starts) == len(ends) + 1 and len(rows) == len(counts) == starts[-1]
        if not fits or len(letters) != ends[-1:].sum():
            raise ArtifactError("the files of the lexical index do not belong together", where=_SETTINGS, hint=_HINT)
        return cls(settings, Terms(letters, ends), Postings(starts, rows, counts, lengths))

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

    def _share(self, term: int, times: int, rows: Int32s, counts: Counts) -> Floats:
        """What a term that stands `times` times in the query adds to the scores of these rows."""
        tf = counts.astype(np.float32)
        return np.float32(times * self._idf(term)) * (tf / (tf + self._damping[rows]))

    def _add_scores(self, query: str, scores_N: Floats) -> None:
        for _, times, term in self._known_terms(query):
            rows, counts = self.postings.of_term(term)
            scores_N[rows] += self._share(term, times, rows, counts)

    def _known_terms(self, query: str) -> Iterator[tuple[str, int, int]]:
        """Each term of a query that any text has: its stem, how often it stands in the query, its number."""
        for stem, times in Counter(self.analyser(query)).items():
            if (term := self.terms.find(stem)) >= 0:
                yield stem, times, term

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


class _Numbers(dict[str, int]):
    """Word as written → the number of its stem, -1 for a stop word; a new stem gets the next number."""

    def __init__(self, analyser: Analyser) -> None:
        super().__init__()
        self.stems: dict[str, int] = {}
        self._analyser = analyser

    def __missing__(self, word: str) -> int:
        stem = self._analyser.stem(word)
        self[word] = number = self.stems.setdefault(stem, len(self.stems)) if stem else -1
        return number

    def of(self, text: str) -> list[int]:
        """The numbers of a text's words, in order."""
        if text.isascii():
            return [self[word] for word in self._analyser.ascii_words(text)]
        return [self.stems.setdefault(stem, len(self.stems)) for stem in self._analyser(text)]


def counted(texts: Iterable[str], analyser: Analyser) -> tuple[Terms, Postings]:
    """The terms of texts that stream by, in the order of their bytes, and their postings; no texts are kept in memory."""
    iterator, numbers, n_texts = iter(texts), _Numbers(analyser), 0
    lengths, keys, counts = ([np.zeros(0, dtype=dtype)] for dtype in (np.int32, np.int64, np.int32))
    while some := list(islice(iterator, _BLOCK)):
        found = [numbers.of(text) for text in some]
        text_of = np.repeat(np.arange(len(some)), [len(numbered) for numbered in found])
        number_of = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(text_of))
        text_of, number_of = text_of[number_of >= 0], number_of[number_of >= 0]
        lengths.append(np.bincount(text_of, minlength=len(some)).astype(np.int32))
        block_keys, block_counts = np.unique((text_of + n_texts) << 32 | number_of, return_counts=True)
        keys.append(block_keys)
        counts.append(block_counts.astype(np.int32))
        n_texts += len(some)
    stems = sorted((stem.encode("utf-8", "replace"), number) for stem, number in numbers.stems.items())
    rank_V = np.empty(len(stems), dtype=np.int64)
    rank_V[[number for _, number in stems]] = np.arange(len(stems))
    keys_P, counts_P = np.concatenate(keys), np.concatenate(counts)
    keys_P = rank_V[keys_P & 0xFFFF_FFFF] << 32 | keys_P >> 32  # by term, then by text
    order = np.argsort(keys_P)
    texts_V = np.bincount(keys_P >> 32, minlength=len(stems))
    postings = Postings.of(texts_V, keys_P[order], counts_P[order], np.concatenate(lengths))
    return Terms.of([stem for stem, _ in stems]), postings


def merged(terms: Terms, old: Postings, new_terms: Terms, new: Postings, old_rows_N: Rows) -> tuple[Terms, Postings]:
    """Terms and postings of N texts, some of them old, the others new; terms that no text has any more are gone.

    Args:
        terms: of the old texts.
        old: their postings.
        new_terms: of the new texts.
        new: their postings.
        old_rows_N: for each text its row among the old ones, -1 for the next of the new ones.
    """
    is_new_N = old_rows_N < 0
    new_rows, kept_rows = np.flatnonzero(is_new_N).astype(np.int32), np.flatnonzero(~is_new_N).astype(np.int32)
    row_of_old = np.full(len(old.lengths), -1, dtype=np.int32)
    row_of_old[old_rows_N[kept_rows]] = kept_rows
    lengths_N = np.empty(len(old_rows_N), dtype=np.int32)
    lengths_N[kept_rows], lengths_N[new_rows] = old.lengths[old_rows_N[kept_rows]], new.lengths

    all_terms, numbers = _joined(terms, new_terms)
    keys_P = _keys(numbers[0][old.terms_of_postings()], row_of_old[old.rows])
    counts_P = old.counts.astype(np.int32)
    if not (there := keys_P >= 0).all():
        keys_P, counts_P = keys_P[there], counts_P[there]
    if not (keys_P[1:] > keys_P[:-1]).all():  # rows have changed places
        order = np.argsort(keys_P)
        keys_P, counts_P = keys_P[order], counts_P[order]
    keys_C = _keys(numbers[1][new.terms_of_postings()], new_rows[new.rows])
    places = np.searchsorted(keys_P, keys_C)
    keys_P, counts_P = np.insert(keys_P, places, keys_C), np.insert(counts_P, places, new.counts)

    texts_V = np.bincount(keys_P >> 32, minlength=len(all_terms))
    left = [term for term, texts in zip(all_terms, texts_V.tolist(), strict=True) if texts]
    return Terms.of(left), Postings.of(texts_V[texts_V > 0], keys_P, counts_P, lengths_N)


def _joined(terms: Terms, new_terms: Terms) -> tuple[list[bytes], list[Rows]]:
    """All terms in order, and for those of either side their numbers among them."""
    joined = sorted({*terms, *new_terms})
    number_of = {term: number for number, term in enumerate(joined)}
    return joined, [np.array([number_of[term] for term in side], dtype=np.int64) for side in (terms, new_terms)]


def _keys(terms_P: Rows, rows_P: Int32s) -> Rows:
    """Numbers that grow as postings are kept: by term, then by text; negative where the text is gone."""
    return np.where(rows_P >= 0, terms_P << 32 | rows_P, -1)
