"""Word vectors as an encoder of texts, against plain sums and equation 3."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.encoders import (
    FoundRows,
    Moments,
    WordEncoder,
    sif_weights,
    sum_rows,
    text_rows,
    text_runs,
    word_encoder,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.tokens import WordSplitter
from wordpipe.words import NGrams, WordVectors


def table(seed: int = 0, size: int = 20, dim: int = 6) -> WordVectors:
    rng = np.random.default_rng(seed)
    counts = np.sort(rng.integers(1, 1000, size=size))[::-1].copy()
    return WordVectors([f"w{i}" for i in range(size)], counts, rng.standard_normal((size, dim)).astype(np.float32))


def encoder(seed: int = 0, **values: object) -> WordEncoder:
    return WordEncoder(table(seed), str.split, EmbedSettings(**values))  # type: ignore[arg-type]


texts = st.lists(st.lists(st.sampled_from([f"w{i}" for i in range(23)]), max_size=9).map(" ".join), max_size=8)


@settings(deadline=None)
@given(texts, st.integers(0, 99), st.sampled_from(["sif", "mean", "auto"]))
def test_vectors_match_a_loop(some: list[str], seed: int, pooling: str) -> None:
    words, a = table(seed), 1e-2
    row_of = {word: row for row, word in enumerate(words.words)}
    batch = encoder(seed, pooling=pooling, sif_a=a).encode(some)
    share = words.counts / words.counts.sum()
    for number, text in enumerate(some):
        known = [row_of[w] for w in text.split() if w in row_of]
        weights = [1.0 if pooling == "mean" else a / (a + share[row]) for row in known]
        assert batch.unknown[number] == [w for w in text.split() if w not in row_of]
        assert batch.empty[number] == (not known)
        assert batch.windows[number] == bool(known)
        if known:
            mean = np.average(words.vectors[known].astype(np.float64), axis=0, weights=weights)
            np.testing.assert_allclose(batch.vectors[number], mean / np.linalg.norm(mean), atol=1e-4)
        else:
            assert not batch.vectors[number].any()


def test_a_text_has_the_same_vector_alone_and_in_any_batch() -> None:
    one = encoder()
    rng = np.random.default_rng(1)
    some = [" ".join(f"w{i}" for i in rng.integers(20, size=rng.integers(1, 60))) for _ in range(200)]
    together = one.encode(some).vectors
    np.testing.assert_array_equal(together[::-1], one.encode(some[::-1]).vectors)
    np.testing.assert_array_equal(together[:1], one.encode(some[:1]).vectors)


@settings(deadline=None)
@given(texts, st.integers(1, 40))
def test_runs_change_nothing_and_stay_within_their_size(some: list[str], characters: int) -> None:
    one, runs = encoder(), text_runs(some, characters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_encoder, "text_runs", lambda texts: text_runs(texts, characters))
        parts = one.encode(some)
    whole = one.encode(some)
    np.testing.assert_array_equal(parts.vectors, whole.vectors)
    np.testing.assert_array_equal(parts.empty, whole.empty)
    np.testing.assert_array_equal(parts.windows, whole.windows)
    assert parts.unknown == whole.unknown
    assert [text for run in runs for text in run] == some
    assert all(sum(map(len, run)) <= characters or sum(map(bool, run)) == 1 for run in runs)


def test_a_long_text_and_no_text() -> None:
    batch = encoder().encode(["w1 " * 100_000, "", " \n"])
    np.testing.assert_allclose(np.abs(batch.vectors[0] @ encoder().encode(["w1"]).vectors[0]), 1, atol=1e-5)
    assert batch.empty.tolist() == [False, True, True]
    assert encoder().encode([]).vectors.shape == (0, 6)
    assert encoder().lengths(["w1 w2 zz", ""]).tolist() == [3, 0]


def test_saved_and_loaded_it_gives_the_same_bytes() -> None:
    some = [f"w{i} w{i + 1} w{i * 7 % 20}" for i in range(19)]
    plain = WordEncoder(table(), str.split, EmbedSettings(sif_a=0.01), identity={"words": "abc", "keep_case": False})
    moments = Moments(6)
    moments.add(plain.encode(some).vectors)
    mended = plain.with_transform(moments.fit("remove-components", 2))
    files = dict(mended.files())
    assert sorted(files) == ["encoder.json", "transform.safetensors", "words.parquet"]
    about = json.loads(files["encoder.json"])
    loaded = WordEncoder.load(about, files, str.split)
    np.testing.assert_array_equal(loaded.encode(some).vectors, mended.encode(some).vectors)
    assert not np.array_equal(loaded.encode(some).vectors, plain.encode(some).vectors)
    assert loaded.identity == {"words": "abc", "keep_case": False}
    assert dict(loaded.files()) == files


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_poolings_of_models_are_refused(pooling: str) -> None:
    with pytest.raises(ConfigError, match="word vectors do not support this pooling"):
        encoder(pooling=pooling)


def test_a_poisoned_table_is_an_error() -> None:
    words = table()
    words.vectors[3, 0] = np.nan
    with pytest.raises(DivergedError):
        WordEncoder(words, str.split, EmbedSettings()).encode(["w1 w3"])


def with_ngrams(**values: object) -> WordEncoder:
    """Words and n-grams of two characters, and of words that are not in the table only their n-grams."""
    found = NGrams.of(["aba", "abba", "bab"], np.array([9, 5, 2]), 2, 2)
    rng = np.random.default_rng(7)
    vectors_GD = rng.standard_normal((len(found.spelled), 6)).astype(np.float32)
    ngrams = NGrams(found.spelled, found.min_n, found.max_n, vectors_GD)
    words = WordVectors(
        ["aba", "abba", "bab"], np.array([9, 5, 2]), rng.standard_normal((3, 6)).astype(np.float32), ngrams
    )
    return WordEncoder(words, str.split, EmbedSettings(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize("pooling", ["sif", "mean"])
def test_unknown_words_are_guessed_from_their_ngrams(pooling: str) -> None:
    one = with_ngrams(pooling=pooling, sif_a=0.1)
    words = one._table
    guess = words.vector_of("abbb")
    assert guess is not None
    weights = (
        dict.fromkeys(range(3), 1.0)
        if pooling == "mean"
        else {r: 0.1 / (0.1 + c / 16) for r, c in enumerate((9, 5, 2))}
    )
    some = ["aba abbb xyz bab abbb", "abbb", "xyz", "", "abba"]
    batch = one.encode(some)
    expected = [
        weights[0] * words.vectors[0] + weights[2] * (words.vectors[2] + 2 * guess),  # as the rarest word is weighted
        guess,
        None,
        None,
        words.vectors[1],
    ]
    for vector, sum_D in zip(batch.vectors, expected, strict=True):
        if sum_D is None:
            assert not vector.any()
        else:
            np.testing.assert_allclose(vector, sum_D / np.linalg.norm(sum_D), atol=1e-5)
    assert batch.unknown == [["xyz"], [], ["xyz"], [], []]
    assert batch.empty.tolist() == [False, False, True, True, False]
    assert batch.windows.tolist() == [1, 1, 0, 0, 1]
    for number, text in enumerate(some):
        np.testing.assert_array_equal(one.encode([text]).vectors[0], batch.vectors[number])


def test_an_encoder_with_ngrams_is_saved_and_loaded() -> None:
    one = with_ngrams()
    files = dict(one.files())
    assert sorted(files) == ["encoder.json", "ngrams.parquet", "transform.safetensors", "words.parquet"]
    loaded = WordEncoder.load(json.loads(files["encoder.json"]), files, str.split)
    some = ["aba abbb", "baba", "xyz"]
    np.testing.assert_array_equal(loaded.encode(some).vectors, one.encode(some).vectors)
    assert dict(loaded.files()) == files


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=25), st.integers(0, 9_999), st.booleans())
def test_sums_match_a_loop_and_keep_their_bits_in_any_company(lengths: list[int], seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    table_VD = rng.standard_normal((50, 6)).astype(np.float32)
    rows = rng.integers(-1, 50, size=sum(lengths)).astype(np.int32)
    ends = np.cumsum([0, *lengths])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_rows, "MAX_PLAIN_ROWS", -1 if compiled else 1_000)
        sums_ND = sum_rows(table_VD, FoundRows(rows, ends, []))
    for number, length in enumerate(lengths):
        part = rows[ends[number] : ends[number + 1]]
        np.testing.assert_allclose(sums_ND[number], table_VD[part[part >= 0]].astype(np.float64).sum(axis=0), atol=1e-5)
        alone = sum_rows(table_VD, FoundRows(part, np.array([0, length]), []))
        np.testing.assert_array_equal(sums_ND[number], alone[0])


LETTERS = "aB9.,'-’‐ éÉςΣσ中日本ーกİßǅ½٣अ\u0301\n\ud800"


@settings(deadline=None)
@given(st.lists(st.text(alphabet=LETTERS, max_size=14), max_size=6), st.sampled_from(["", "日", "本中"]), st.booleans())
def test_many_texts_are_cut_as_a_few_are(texts: list[str], cut_before: str, keep_case: bool) -> None:
    def parts(run: str) -> list[str]:  # as a tokenizer cuts a run of a script without spaces
        return [part for part in re.split(f"(?=[{cut_before}])", run) if part] if cut_before else [run]

    words = sorted({"a", "b", "B", "é", "aé", "σ", "ας", "中", "日本", "本", "9.9", "ß", "i̇", "a-b", "½"})
    table = WordVectors(words, np.arange(len(words), 0, -1), np.eye(len(words), 6, dtype=np.float32))
    one = WordEncoder(table, WordSplitter(parts, keep_case=keep_case), EmbedSettings(pooling="mean"))
    plain = one.encode(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_rows, "_MAX_PLAIN_CHARACTERS", -1)
        patch.setattr(text_rows, "MAX_PLAIN_ROWS", -1)
        for most in (0, 1 << 18):  # what is remembered is forgotten when it is too much
            patch.setattr(text_rows, "_MAX_UNKNOWN", most)
            for _ in range(2):
                many = one.encode(texts)
                assert many.unknown == plain.unknown
                assert many.vectors.tobytes() == plain.vectors.tobytes()
                assert many.windows.tolist() == plain.windows.tolist()
                assert many.empty.tolist() == plain.empty.tolist()


def test_weights_are_equation_3() -> None:
    counts = np.array([90, 9, 1])
    np.testing.assert_allclose(sif_weights(counts, 1e-3), [1e-3 / (1e-3 + p) for p in (0.9, 0.09, 0.01)], rtol=1e-6)


def test_uncounted_words_are_as_common_as_zipfs_law_says() -> None:
    harmonic = 1 + 1 / 2 + 1 / 3
    expected = [1e-3 / (1e-3 + 1 / rank / harmonic) for rank in (1, 2, 3)]
    np.testing.assert_allclose(sif_weights(np.zeros(3, np.int64), 1e-3), expected, rtol=1e-6)
