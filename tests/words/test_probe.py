from collections import Counter

import numpy as np
import pytest

from tests.words.test_corpus_file import lines_of
from wordpipe.words import probe as probe_module
from wordpipe.words.probe import Probe, keep_probabilities, noise_distribution
from wordpipe.words.settings import Word2VecSettings
from wordpipe.words.vocabulary import Vocabulary


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
    settings = Word2VecSettings(architecture=architecture, window=3, negatives=4, subsample=0, seed=seed)
    probe = Probe.sample([lines_of(lines)], words, settings, split="valid", targets=200)
    assert probe is not None
    vectors_VD, outputs_VD = rng.standard_normal((2, 9, 6)).astype(np.float32)
    total = 0.0
    for inputs, target, noise in zip(probe.inputs, probe.targets, probe.noise, strict=True):
        hidden = np.mean([vectors_VD[i] for i in inputs if i >= 0], axis=0)
        total -= log_sigmoid(float(hidden @ outputs_VD[target]))
        total -= sum(log_sigmoid(-float(hidden @ outputs_VD[n])) for n in noise if n != target)
    assert probe.loss(vectors_VD, outputs_VD) == pytest.approx(total / len(probe.targets), rel=1e-5)
    assert probe.noise.shape == (len(probe.targets), 4)


def test_an_untrained_model_has_the_loss_of_a_coin_per_score() -> None:
    words = Vocabulary.keep(np.full(5_000, 3), 1)
    settings = Word2VecSettings(negatives=5)
    lines = [np.arange(5_000).tolist()]
    probe = Probe.sample([lines_of(lines)], words, settings, split="valid")
    assert probe is not None
    zero = np.zeros((5_000, 4), dtype=np.float32)
    assert probe.loss(zero, zero) == pytest.approx(6 * np.log(2), rel=1e-3)


def test_skipgram_pairs_have_the_distribution_of_all_windows() -> None:
    lines, window = [[0, 1, 2, 3, 4], [5, 6], [7]], 3
    exact: Counter[tuple[int, int]] = Counter()
    for line in lines:
        for i, centre in enumerate(line):
            for j, other in enumerate(line):
                if 0 < abs(i - j) <= window:
                    exact[centre, other] += window - abs(i - j) + 1
    settings = Word2VecSettings(window=window, subsample=0, seed=3)
    probe = Probe.sample([lines_of(lines)], vocabulary(8, 1), settings, split="valid")
    assert probe is not None
    drawn = Counter(zip(probe.inputs[:, 0].tolist(), probe.targets.tolist(), strict=True))
    assert set(drawn) == set(exact)
    for pair, weight in exact.items():
        assert drawn[pair] / drawn.total() == pytest.approx(weight / exact.total(), abs=0.01)


def test_cbow_windows_are_the_neighbours_and_nothing_else() -> None:
    lines, window = [[0, 1, 2, 3, 4], [5, 6], [7]], 2
    settings = Word2VecSettings(architecture="cbow", window=window, subsample=0)
    probe = Probe.sample([lines_of(lines)], vocabulary(8, 1), settings, split="valid", targets=5_000)
    assert probe is not None
    possible = set()
    for line in lines:
        for i, target in enumerate(line):
            for reach in range(1, window + 1):
                possible.add((target, tuple(line[max(0, i - reach) : i] + line[i + 1 : i + 1 + reach])))
    possible.discard((7, ()))
    drawn = {
        (target, tuple(w for w in inputs if w >= 0))
        for target, inputs in zip(probe.targets.tolist(), probe.inputs.tolist(), strict=True)
    }
    assert drawn == possible


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
    probes = [
        Probe.sample([lines_of(lines)], words, Word2VecSettings(seed=seed, subsample=1e-4), split="train", targets=500)
        for seed in (1, 1, 2)
    ]
    assert probes[0] is not None
    assert probes[1] is not None
    assert probes[2] is not None
    assert (probes[0].targets == 0).mean() < 0.75  # of the text it is 99 %
    np.testing.assert_array_equal(probes[0].noise, probes[1].noise)
    assert not np.array_equal(probes[0].noise, probes[2].noise)


def test_text_without_pairs_gives_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    for architecture in ("skipgram", "cbow"):
        settings = Word2VecSettings(architecture=architecture, subsample=0)
        assert Probe.sample([], vocabulary(3, 1), settings, split="valid") is None
        assert Probe.sample([lines_of([[0], [1], [2]])], vocabulary(3, 1), settings, split="valid") is None
    monkeypatch.setattr(probe_module, "_MAX_WORDS", 10)
    long = [lines_of([[0] * 10]), lines_of([[1, 2] * 10])]
    probe = Probe.sample(long, vocabulary(3, 1), Word2VecSettings(subsample=0), split="valid", targets=300)
    assert probe is not None
    assert not probe.targets.any()  # nothing beyond the first ten words was looked at
