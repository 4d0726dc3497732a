from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from wordpipe.words import HeldOutLoss, Vocabulary, Words, keep_probabilities, noise_distribution
from wordpipe.words import heldout_loss as heldout_module
from wordpipe.words.kernels.draws_and_huffman import Tree
from wordpipe.words.settings import Word2VecPlan


def words_of(texts: list[list[int]]) -> Words:
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    return Words(np.array([word for text in texts for word in text], dtype=np.int32), starts)


def vocabulary(size: int, seed: int) -> Vocabulary:
    return Vocabulary.keep(np.random.default_rng(seed).integers(1, 500, size=size), 1)


def log_sigmoid(x: float) -> float:
    return float(-np.log1p(np.exp(-x)))


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("seed", range(3))
def test_loss_is_equation_4_summed_naively(architecture: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = vocabulary(9, seed)
    lines = [rng.integers(9, size=size).tolist() for size in (1, 2, 30, 11)]
    settings = Word2VecPlan(architecture=architecture, window=3, negatives=4, subsample=0, seed=seed)
    sample = HeldOutLoss.sample([words_of(lines)], words, settings, split="valid", targets=200)
    assert sample is not None
    vectors_VD, outputs_VD = rng.standard_normal((2, 9, 6)).astype(np.float32)
    total = 0.0
    for inputs, target, noise in zip(sample.inputs, sample.targets, sample.noise, strict=True):
        hidden = np.mean([vectors_VD[i] for i in inputs if i >= 0], axis=0)
        total -= log_sigmoid(float(hidden @ outputs_VD[target]))
        total -= sum(log_sigmoid(-float(hidden @ outputs_VD[n])) for n in noise if n != target)
    assert sample.loss(vectors_VD, outputs_VD) == pytest.approx(total / len(sample.targets), rel=1e-5)
    assert sample.noise.shape == (len(sample.targets), 4)


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_loss_of_the_tree_is_that_of_every_turn(architecture: str, size: int) -> None:
    rng = np.random.default_rng(size)
    words = vocabulary(size, 4)
    plan = Word2VecPlan(architecture=architecture, loss="hs", subsample=0)
    sample = HeldOutLoss.sample(
        [words_of([rng.integers(size, size=40).tolist()])], words, plan, split="valid", targets=300
    )
    assert sample is not None
    vectors_VD, nodes_VD = rng.standard_normal((2, size, 6)).astype(np.float32)
    tree, total = Tree.of(words.counts), 0.0
    for inputs, target in zip(sample.inputs, sample.targets, strict=True):
        hidden = np.mean([vectors_VD[i] for i in inputs if i >= 0], axis=0)
        for turn in range(tree.path_starts[target], tree.path_starts[target + 1]):
            total -= log_sigmoid(float(tree.path_signs[turn] * (hidden @ nodes_VD[tree.path_nodes[turn]])))
    assert sample.loss(vectors_VD, nodes_VD, tree) == pytest.approx(total / len(sample.targets), rel=1e-5)
    with pytest.raises(AssertionError, match="tree"):
        sample.loss(vectors_VD, nodes_VD)


@pytest.mark.parametrize("scores", [1, 50, 4_000_000])
def test_loss_of_the_full_softmax_is_exact_in_any_blocks(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heldout_module, "_NUMBERS", scores)
    rng = np.random.default_rng(scores)
    plan = Word2VecPlan(architecture="cbow", loss="softmax", subsample=0)
    blocks = [words_of([rng.integers(9, size=40).tolist()])]
    sample = HeldOutLoss.sample(blocks, vocabulary(9, 4), plan, split="valid", targets=300)
    assert sample is not None
    vectors_VD, outputs_VD = (30 * rng.standard_normal((2, 9, 6))).astype(np.float32)  # exp of such scores overflows
    total = 0.0
    for inputs, target in zip(sample.inputs, sample.targets, strict=True):
        scores_V = outputs_VD @ np.mean([vectors_VD[i] for i in inputs if i >= 0], axis=0).astype(np.float64)
        total += np.logaddexp.reduce(scores_V) - scores_V[target]
    assert sample.loss(vectors_VD, outputs_VD) == pytest.approx(total / len(sample.targets), rel=1e-4)


def test_an_untrained_model_has_the_loss_of_a_coin_per_score() -> None:
    words = Vocabulary.keep(np.full(5_000, 3), 1)
    settings = Word2VecPlan(negatives=5)
    lines = [np.arange(5_000).tolist()]
    sample = HeldOutLoss.sample([words_of(lines)], words, settings, split="valid")
    assert sample is not None
    zero = np.zeros((5_000, 4), dtype=np.float32)
    assert sample.loss(zero, zero) == pytest.approx(6 * np.log(2), rel=1e-3)


def test_skipgram_pairs_have_the_distribution_of_all_windows() -> None:
    lines, window = [[0, 1, 2, 3, 4], [5, 6], [7]], 3
    exact: Counter[tuple[int, int]] = Counter()
    for line in lines:
        for i, centre in enumerate(line):
            for j, other in enumerate(line):
                if 0 < abs(i - j) <= window:
                    exact[centre, other] += window - abs(i - j) + 1
    settings = Word2VecPlan(window=window, subsample=0, seed=3)
    sample = HeldOutLoss.sample([words_of(lines)], vocabulary(8, 1), settings, split="valid")
    assert sample is not None
    drawn = Counter(zip(sample.inputs[:, 0].tolist(), sample.targets.tolist(), strict=True))
    assert set(drawn) == set(exact)
    for pair, weight in exact.items():
        assert drawn[pair] / drawn.total() == pytest.approx(weight / exact.total(), abs=0.01)


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_a_fixed_window_reaches_equally_far_from_every_word(architecture: str) -> None:
    text = list(range(8))
    plan = Word2VecPlan(architecture=architecture, window=3, dynamic_window=False, subsample=0)
    sample = HeldOutLoss.sample([words_of([text])], vocabulary(8, 1), plan, split="valid")
    assert sample is not None
    pairs = Counter(
        (target, other)
        for target, inputs in zip(sample.targets.tolist(), sample.inputs.tolist(), strict=True)
        for other in inputs
        if other >= 0
    )
    possible = {(one, other) for one in text for other in text if 0 < abs(one - other) <= 3}
    assert set(pairs) == possible
    for pair in possible:
        assert pairs[pair] / pairs.total() == pytest.approx(1 / len(possible), abs=0.004)


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_it_does_not_matter_where_blocks_end(architecture: str) -> None:
    rng = np.random.default_rng(2)
    texts = [rng.integers(9, size=size).tolist() for size in (5, 1, 30, 12)]
    whole = words_of(texts)
    cuts = [0, 3, 3, 5, 20, 48]
    parts = [
        Words(whole.ids[a:b], np.array([s - a for s in whole.starts if a <= s < b], dtype=np.int64))
        for a, b in pairwise(cuts)
    ]
    plan = Word2VecPlan(architecture=architecture, subsample=1e-2)
    one, other = (
        HeldOutLoss.sample(blocks, vocabulary(9, 2), plan, split="valid", targets=50) for blocks in ([whole], parts)
    )
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.inputs, other.inputs)
    np.testing.assert_array_equal(one.targets, other.targets)


def test_cbow_windows_are_the_neighbours_and_nothing_else() -> None:
    lines, window = [[0, 1, 2, 3, 4], [5, 6], [7]], 2
    settings = Word2VecPlan(architecture="cbow", window=window, subsample=0)
    sample = HeldOutLoss.sample([words_of(lines)], vocabulary(8, 1), settings, split="valid", targets=5_000)
    assert sample is not None
    possible = set()
    for line in lines:
        for i, target in enumerate(line):
            for reach in range(1, window + 1):
                possible.add((target, tuple(line[max(0, i - reach) : i] + line[i + 1 : i + 1 + reach])))
    possible.discard((7, ()))
    drawn = {
        (target, tuple(w for w in inputs if w >= 0))
        for target, inputs in zip(sample.targets.tolist(), sample.inputs.tolist(), strict=True)
    }
    assert drawn == possible


@pytest.mark.landing
def test_probabilities_match_gensim() -> None:
    models = pytest.importorskip("gensim.models")

    words = vocabulary(300, 5)
    model = models.Word2Vec(sample=1e-3, min_count=1, ns_exponent=0.75, sorted_vocab=0)
    model.build_vocab_from_freq({str(i): int(c) for i, c in enumerate(words.counts)})
    kept = np.array(model.wv.expandos["sample_int"]) / (2**32 - 1)
    np.testing.assert_allclose(keep_probabilities(words.counts, 1e-3), kept, rtol=1e-6)
    noise = np.diff(model.cum_table, prepend=0) / model.cum_table[-1]
    np.testing.assert_allclose(noise_distribution(words.counts, 0.75), noise, atol=1e-8)


def test_frequent_words_are_subsampled_and_the_seed_decides() -> None:
    lines = [[0] * 9_000 + list(range(1, 100))]
    words = Vocabulary.keep(np.array([9_000] + [1] * 99), 1)
    samples = [
        HeldOutLoss.sample(
            [words_of(lines)], words, Word2VecPlan(seed=seed, subsample=1e-4), split="train", targets=500
        )
        for seed in (1, 1, 2)
    ]
    assert samples[0] is not None
    assert samples[1] is not None
    assert samples[2] is not None
    assert (samples[0].targets == 0).mean() < 0.75  # of the text it is 99 %
    np.testing.assert_array_equal(samples[0].noise, samples[1].noise)
    assert not np.array_equal(samples[0].noise, samples[2].noise)


def test_text_without_pairs_gives_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    for architecture in ("skipgram", "cbow"):
        settings = Word2VecPlan(architecture=architecture, subsample=0)
        assert HeldOutLoss.sample([], vocabulary(3, 1), settings, split="valid") is None
        assert HeldOutLoss.sample([words_of([[0], [1], [2]])], vocabulary(3, 1), settings, split="valid") is None
    monkeypatch.setattr(heldout_module, "_MAX_WORDS", 10)
    long = [words_of([[0] * 10]), words_of([[1, 2] * 10])]
    sample = HeldOutLoss.sample(long, vocabulary(3, 1), Word2VecPlan(subsample=0), split="valid", targets=300)
    assert sample is not None
    assert not sample.targets.any()  # nothing beyond the first ten words was looked at
