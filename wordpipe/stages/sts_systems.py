"""What is judged on scored pairs of sentences: encoders, and the floors that need none.

Every system gives a pair a number from -1 to 1. The floors learn how rare a word is from the sentences of the set that they
are judged on, without its scores; so their figure for one set does not depend on the others.

There is no BM25 among them: its scores have no bound and differ from one sentence to the other and back; on sentences the
cosine of TF-IDF vectors is what it comes to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.search.analysis import looks_english
from wordpipe.search.tfidf import LatentSpace, Tfidf
from wordpipe.sentences.scored_pairs import ScoredPairs
from wordpipe.stages.judged_encoders import JudgedEncoder
from wordpipe.tokens.words import WordSplitter

__all__ = ["FLOORS", "SetScores", "check_language", "encoder_scores", "floor_scores"]

FLOORS = ("tfidf", "lsi", "overlap")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SetScores:
    """What a system says of the pairs of a set.

    Attributes:
        cosines: (P,) float64.
        without_vector: sentences (all different) that the system knows nothing of; their pairs have cosine 0.
        unknown: words without a vector, each time they came.
    """

    cosines: Array
    without_vector: int = 0
    unknown: list[str] = field(default_factory=list)


def encoder_scores(judged: JudgedEncoder, pairs: ScoredPairs) -> SetScores:
    """Cosines of an encoder's vectors; a transform that is asked for is fitted on the sentences of the set."""
    texts, first_P, second_P = _numbered(pairs)
    raw = judged.encode(texts)
    found = raw.transformed(judged.fitted(raw)) if judged.settings.transform != "auto" else raw
    return SetScores(_cosines(found.vectors, first_P, second_P), int(found.empty.sum()), found.unknown)


def check_language(language: str) -> None:
    """Refuse a language whose endings nobody knows, before anything is judged.

    Raises:
        ConfigError: names those that are known.
    """
    _analyser(language)


def floor_scores(pairs: ScoredPairs, language: str, lsi_dim: int) -> dict[str, SetScores]:
    """What plain words say: TF-IDF over stems, latent semantic indexing of it, and the share of stems in common.

    Stop words count: without them TF-IDF scored 79.7 instead of 78.7 on STS-B dev and 72.9 instead of 72.5 on its training
    part, but 47.7 instead of 49.7 on STS12 and 58.0 instead of 61.2 on SICK (Spearman x 100).

    Args:
        pairs: the set.
        language: whose endings are cut off (Snowball); none; or auto: English where the sentences look so, else none.
        lsi_dim: directions of latent semantic indexing.

    Raises:
        ConfigError: no such language.
    """
    texts, first_P, second_P = _numbered(pairs)
    analyse = _analyser("english" if language == "auto" and looks_english(texts) else language)
    tfidf = Tfidf.fit(texts, analyse)
    sparse_NV = tfidf.vectors(texts)
    latent_NK = LatentSpace.fit(sparse_NV, lsi_dim).vectors(sparse_NV)
    products_PV = sparse_NV[first_P].multiply(sparse_NV[second_P])
    return {
        "tfidf": SetScores(_rounded(products_PV.sum(axis=1)), int((np.diff(sparse_NV.indptr) == 0).sum())),
        "lsi": SetScores(_cosines(latent_NK, first_P, second_P), int((~latent_NK.any(axis=1)).sum())),
        "overlap": SetScores(_overlap([{*analyse(text)} for text in texts], first_P, second_P)),
    }


def _numbered(pairs: ScoredPairs) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All different sentences, and for each pair the places of its two among them."""
    number_of = {text: number for number, text in enumerate(dict.fromkeys([*pairs.first, *pairs.second]))}
    first_P, second_P = (np.array([number_of[text] for text in side]) for side in (pairs.first, pairs.second))
    return [*number_of], first_P, second_P


def _cosines(
    vectors_ND: npt.NDArray[np.float32], first_P: npt.NDArray[np.int64], second_P: npt.NDArray[np.int64]
) -> Array:
    return _rounded(np.einsum("pd,pd->p", vectors_ND[first_P], vectors_ND[second_P], dtype=np.float64))


def _rounded(cosines_P: npt.ArrayLike) -> Array:
    """Equal to six digits is equal: the same sentence twice is a tie with any other such pair, not above or below it."""
    rounded_P: Array = np.asarray(cosines_P, dtype=np.float64).round(6)
    return rounded_P


def _overlap(stems: Sequence[set[str]], first_P: npt.NDArray[np.int64], second_P: npt.NDArray[np.int64]) -> Array:
    """Jaccard's coefficient of the stems; 0 where neither sentence has any."""
    both = ((stems[one], stems[other]) for one, other in zip(first_P, second_P, strict=True))
    return np.array([len(one & other) / max(len(one | other), 1) for one, other in both], dtype=np.float64)


def _analyser(language: str) -> Callable[[str], list[str]]:
    """Text to the stems of its words, none left out."""
    split = WordSplitter()
    if language in ("none", "auto"):
        return split
    import Stemmer

    try:
        stem = Stemmer.Stemmer(language).stemWords
    except KeyError:
        known = ", ".join(["auto", "none", *Stemmer.algorithms()])
        raise ConfigError(
            "not a language that can be stemmed", where="language", got=language, expected=known
        ) from None
    return partial(_stems, split, stem)


def _stems(split: Callable[[str], list[str]], stem: Callable[[list[str]], list[str]], text: str) -> list[str]:
    return stem(split(text))
