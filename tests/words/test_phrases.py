"""Phrases against a plain Python twin and gensim's, on random texts cut into blocks at random places."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import ConfigError, InputError
from wordpipe.words.phrases.known import KnownPhrases
from wordpipe.words.phrases.learning import Phrases
from wordpipe.words.phrases.pairs import PairCounts, key_of_pair, pairs_of_keys
from wordpipe.words.text import Words

Text = list[int]
SIZE = 12


def texts_of(size: int = SIZE) -> st.SearchStrategy[list[Text]]:
    """Random texts, some empty, some of one word again and again."""
    return st.lists(st.lists(st.integers(0, size - 1), max_size=25), max_size=6)


def cut(texts: list[Text], cuts: list[int]) -> list[Words]:
    """The texts as blocks that end at `cuts` (any numbers, taken around the length) and at the end.

    A text that begins on a border begins at the end of the block before it where the border is at an odd place.
    """
    ids = np.array([word for text in texts for word in text], np.int32)
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    ends = sorted({*(c % (len(ids) + 1) for c in cuts), len(ids)})
    blocks, begin, told = [], 0, 0
    for end in ends:
        until = len(starts) if end == len(ids) else int(np.searchsorted(starts, end, "right" if end % 2 else "left"))
        blocks.append(Words(ids[begin:end], starts[told:until] - begin))
        begin, told = end, until
    return blocks


def uncut(blocks: Iterator[Words]) -> list[Text]:
    texts: list[Text] = []
    for block in blocks:
        first, *others = np.split(block.ids, block.starts)
        if len(first):
            texts[-1] += first.tolist()
        texts += [text.tolist() for text in others]
    return texts


def twin_scores(texts: list[list[str]], discount: int) -> dict[tuple[str, str], float]:
    counts = Counter(word for text in texts for word in text)
    pairs = Counter(pair for text in texts for pair in pairwise(text))
    total = sum(counts.values())
    return {(a, b): (n - discount) / counts[a] / counts[b] * total for (a, b), n in pairs.items()}


def twin_join(text: list[str], pairs: set[tuple[str, str]]) -> list[str]:
    joined: list[str] = []
    at = 0
    while at < len(text):
        size = 2 if tuple(text[at : at + 2]) in pairs else 1
        joined.append("_".join(text[at : at + size]))
        at += size
    return joined


def twin(texts: list[Text], threshold: float, min_count: int, passes: int) -> list[list[str]]:
    spelled = [[chr(ord("a") + word) for word in text] for text in texts]
    for _ in range(passes):
        pairs = {pair for pair, score in twin_scores(spelled, min_count).items() if score > threshold}
        spelled = [twin_join(text, pairs) for text in spelled]
    return spelled


def learned(
    texts: list[Text], folder: Path, cuts: list[int], size: int = SIZE, **options: float
) -> tuple[Phrases, list[str], list[list[str]]]:
    """The phrases, the spelling of every id, and the joined text spelled out."""
    blocks = cut(texts, cuts)
    counts = np.bincount(np.concatenate([b.ids for b in blocks]), minlength=size)
    phrases = Phrases.learn(lambda: iter(blocks), counts, scratch=folder, **options)  # type: ignore[arg-type]
    words = [chr((ord("a") if size == SIZE else 0x4E00) + number) for number in range(size)]
    spelled = words + phrases.spell(words)
    return phrases, spelled, [[spelled[i] for i in text] for text in uncut(phrases.join(blocks))]


@settings(deadline=None)
@given(
    texts=texts_of(), cuts=st.lists(st.integers(0, 999), max_size=8), threshold=st.floats(0, 6),
    min_count=st.integers(0, 3), passes=st.integers(1, 3),
)  # fmt: skip
def test_as_the_twin_wherever_the_blocks_are_cut(
    texts: list[Text], cuts: list[int], threshold: float, min_count: int, passes: int, tmp_path_factory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    phrases, spelled, joined = learned(texts, folder, cuts, threshold=threshold, min_count=min_count, passes=passes)
    assert joined == twin(texts, threshold, min_count, passes)
    counts = Counter(word for text in joined for word in text)
    assert len(set(spelled)) == len(spelled) == len(phrases.counts)
    assert phrases.counts.tolist() == [counts[word] for word in spelled]


@pytest.mark.parametrize("max_bytes", [1 << 28, 1 << 17])
def test_as_gensim(max_bytes: int, tmp_path: Path) -> None:
    """The same phrases and the same text, in memory and by way of runs on disk."""
    rng = np.random.default_rng()
    texts = [(1000 * rng.random(1000) ** 3).astype(int).tolist() for _ in range(100)]
    for text in texts:
        for at in rng.integers(0, len(text) - 1, 150):
            text[at + 1] = (text[at] * 7 + 1) % 1000  # pairs that belong together
    spelled = [[chr(0x4E00 + word) for word in text] for text in texts]
    theirs = pytest.importorskip("gensim.models.phrases").Phrases(
        spelled, min_count=3, threshold=20, scoring=word2phrase_score
    )
    phrases, _, joined = learned(
        texts, tmp_path, [1, 500, 77_777], 1000, threshold=20, min_count=3, passes=1, max_bytes=max_bytes
    )
    assert joined == [theirs[text] for text in spelled]
    assert len(phrases) == len(theirs.export_phrases()) > 50


def word2phrase_score(
    worda_count: int, wordb_count: int, bigram_count: int, len_vocab: int, min_count: int, corpus_word_count: int
) -> float:
    """gensim looks at the names of the arguments."""
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


@pytest.mark.parametrize("spilling", [False, True])
def test_counts_of_pairs_are_exact_when_they_do_not_fit(spilling: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng()
    text = (300 * rng.random(60_000) ** 2).astype(int).tolist()
    pairs = PairCounts(tmp_path, max_bytes=1 << 17 if spilling else 1 << 28)
    keys = np.array([key_of_pair(left, right) for left, right in pairwise(text)], np.uint64)
    for part in np.array_split(keys, 7):
        pairs.add(part)
    assert (pairs.runs > 3) == spilling
    found: dict[tuple[int, int], int] = {}
    seen: list[int] = []
    for some, counts in pairs.counted():
        left, right = pairs_of_keys(some)
        found |= dict(zip(zip(left.tolist(), right.tolist(), strict=True), counts.tolist(), strict=True))
        seen += some.tolist()
    assert seen == sorted(set(keys.tolist()))
    assert found == Counter(pairwise(text))
    assert not list(tmp_path.iterdir())


def test_a_pair_and_its_key_are_one_to_one() -> None:
    rng = np.random.default_rng()
    left, right = rng.integers(0, 2**31, (2, 200))
    keys = np.array([key_of_pair(a, b) for a, b in zip(left, right, strict=True)], np.uint64)
    assert [side.tolist() for side in pairs_of_keys(keys)] == [left.tolist(), right.tolist()]


def test_one_endless_line_in_blocks_of_one_word(tmp_path: Path) -> None:
    text = np.random.default_rng().integers(0, 5, 400).tolist() + [6, 7] * 40
    options = {"threshold": 1.2, "min_count": 2, "passes": 2}
    _, _, whole = learned([text], tmp_path, [], **options)
    _, _, cut_up = learned([text], tmp_path, list(range(480)), **options)
    assert whole == cut_up == twin([text], 1.2, 2, 2)
    assert "g_h_g_h" in whole[0]  # a phrase of phrases


def test_a_score_equal_to_the_threshold_is_not_enough(tmp_path: Path) -> None:
    text = [0, 1, 0, 1, 2, 3, 4, 5]  # (2 - 1) / 2 / 2 * 8
    for threshold, found in ((2.0, 0), (1.99, 1)):
        phrases, _, _ = learned([text], tmp_path, [], threshold=threshold, min_count=1)
        assert len(phrases) == found


def test_neighbours_in_two_texts_are_no_pair(tmp_path: Path) -> None:
    """Whether the second text begins with its block or at the end of the block before."""
    for cuts in ([], list(range(0, 18, 2)), list(range(1, 18, 2)), list(range(18))):
        phrases, _, joined = learned([[0], [1]] * 9, tmp_path, cuts, threshold=0, min_count=0)
        assert len(phrases) == 0
        assert joined == [["a"], ["b"]] * 9
        phrases, _, joined = learned([[2, 0], [1, 3]] * 9, tmp_path, cuts, threshold=0, min_count=0)
        assert joined == [["c_a"], ["b_d"]] * 9


def test_nothing_found_and_nothing_there(tmp_path: Path) -> None:
    for texts in ([], [[]], [[1], [], [2]]):
        phrases, _, joined = learned(texts, tmp_path, [], passes=3)
        assert len(phrases) == 0
        assert phrases.joiners == ()
        assert joined == [[chr(ord("a") + w) for w in text] for text in texts]


def test_wrong_threshold_and_wrong_ids_are_told(tmp_path: Path) -> None:
    counts = np.array([3, 4])
    for threshold in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="threshold"):
            Phrases.learn(list, counts, scratch=tmp_path, threshold=threshold)
    for wrong in (2, -1):
        block = Words(np.array([0, wrong], np.int32), np.array([0]))
        with pytest.raises(InputError, match=f"got {wrong}"):
            Phrases.learn(lambda block=block: [block], counts, scratch=tmp_path)


def test_a_new_text_is_joined_by_the_longest_known_phrases() -> None:
    known = KnownPhrases(["new", "york", "new_york", "new_york_city", "york_city", "_", "snake_", "a_b_c"])
    assert len(known) == 4
    assert known.join(["the", "new", "york", "city", "of", "new", "york"]) == ["the", "new_york_city", "of", "new_york"]
    assert known.join(["york", "city", "new"]) == ["york_city", "new"]
    assert known.join(["a", "b", "a", "b", "c"]) == ["a", "b", "a_b_c"]
    assert known.join([]) == []


def test_phrases_having_a_word_are_found() -> None:
    known = KnownPhrases(["new_orleans", "orleans_parish", "orleansville", "new_orleansville", "the_new_orleans"])
    assert known.having("orleans") == ["new_orleans", "orleans_parish", "the_new_orleans"]
    assert known.having("new_orleans") == known.having("york") == []


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=12), st.sets(st.lists(st.integers(0, 3), min_size=2, max_size=4).map(tuple))
)
def test_known_phrases_as_a_regular_expression_has_them(text: list[int], phrases: set[tuple[int, ...]]) -> None:
    spelled = sorted(("_".join(map(str, phrase)) for phrase in phrases), key=len, reverse=True)
    pattern = re.compile("|".join([*(rf"{one}(?=_|$)" for one in spelled), "[^_]+"]))
    assert KnownPhrases(spelled).join([*map(str, text)]) == pattern.findall("_".join(map(str, text)))
