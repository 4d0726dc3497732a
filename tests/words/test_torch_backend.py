from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.words.texts import topics
from wordpipe.errors import BudgetError, ConfigError, DivergedError
from wordpipe.runtime import StopFlag
from wordpipe.words.probe import noise_distribution
from wordpipe.words.settings import Word2VecPlan, Word2VecSettings
from wordpipe.words.step import Step
from wordpipe.words.text import TrainingText
from wordpipe.words.torch_backend import shards
from wordpipe.words.torch_backend.ascent import LEAST, Ascent, cbow, skipgram
from wordpipe.words.torch_backend.batch_size import batch_words, largest_batch, steep_share, variety
from wordpipe.words.torch_backend.climbing import climb
from wordpipe.words.torch_backend.draws import DRAWS, draw, key_of
from wordpipe.words.torch_backend.matrices import check_memory
from wordpipe.words.torch_backend.shards import read_shards
from wordpipe.words.torch_backend.training import TorchTraining
from wordpipe.words.torch_backend.windows import GROUP, NOISE, Sampler, Windows
from wordpipe.words.vocabulary import Vocabulary

CPU = torch.device("cpu")
SHARE = 0.4
TEXTS = st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=90), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    """A training sets torch's threads and choice of kernels for the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def plan(**values: Any) -> Word2VecPlan:
    """Settings with nothing left open."""
    return Word2VecPlan(**({"backend": "torch", "dim": 8, "subsample": 0, "threads": 1} | values))


def marked(texts: list[list[int]]) -> np.ndarray:
    """The texts as they lie on disk."""
    return np.array([~row if at == 0 else row for text in texts for at, row in enumerate(text)], dtype=np.int32)


def vocabulary(size: int, texts: list[list[int]]) -> Vocabulary:
    """Rows as they are; every one of them occurs once at least."""
    counts = 1 + np.bincount([row for text in texts for row in text], minlength=size)
    return Vocabulary(np.arange(size), counts, np.arange(size, dtype=np.int32), 0, 0)


def write(folder: Path, texts: list[list[int]]) -> TrainingText:
    """A training text on disk."""
    marked(texts).astype("<i4").tofile(folder / "text")
    return TrainingText(folder / "text", sum(map(len, texts)), len(texts))


def training(folder: Path, texts: list[list[int]], size: int, **values: Any) -> TorchTraining:
    return TorchTraining(write(folder, texts), vocabulary(size, texts), plan(**values), None, "cpu")


def finish(run: TorchTraining) -> list[Step]:
    return list(run.steps(StopFlag()))


def pairs_of(drawn: Windows) -> list[tuple[int, int]]:
    """(centre, context) of every window, in order."""
    inside = drawn.inside().numpy()
    centres, contexts = drawn.centres.numpy(), drawn.contexts.numpy()
    return [(int(centres[g, a]), int(contexts[g, c])) for g, a, c in np.argwhere(inside)]


def slow_pairs(texts: list[list[int]], chosen: Word2VecPlan, keep: np.ndarray, epoch: int) -> list[tuple[int, int]]:
    """The same pairs, word by word."""
    pairs, position = [], 0
    skip_key, reach_key = key_of(chosen.seed, epoch, 1), key_of(chosen.seed, epoch, 2)
    for text in texts:
        left = []
        for row in text:
            counter = torch.tensor([position])
            if draw(skip_key, counter).item() < round(keep[row] * DRAWS):
                reach = 1 + draw(reach_key, counter).item() * chosen.window // DRAWS
                left.append((row, reach if chosen.dynamic_window else chosen.window))
            position += 1
        for at, (row, reach) in enumerate(left):
            near = range(max(at - reach, 0), min(at + reach + 1, len(left)))
            pairs += [(row, left[other][0]) for other in near if other != at]
    return pairs


@settings(max_examples=40)
@given(
    texts=TEXTS, window=st.integers(1, 40), dynamic=st.booleans(), subsample=st.sampled_from([0, 0.02]),
    epoch=st.integers(0, 3),
)  # fmt: skip
def test_the_windows_hold_the_pairs_of_a_slow_twin(texts, window, dynamic, subsample, epoch):
    chosen = plan(window=window, dynamic_window=dynamic, subsample=subsample, seed=7)
    words = vocabulary(9, texts)
    text = torch.from_numpy(marked(texts))
    drawn, positions = Sampler(words, chosen, CPU).windows(text, 0, 0, len(text), epoch)
    keep = np.ones(9)
    if subsample:
        ratio = subsample * words.counts.sum() / words.counts
        keep = np.minimum(1, np.sqrt(ratio) + ratio)
    assert pairs_of(drawn) == slow_pairs(texts, chosen, keep, epoch)
    assert len(positions) == len(drawn) + 1
    assert positions[0] in (0, len(text))
    assert positions[-1] == len(text)
    assert (np.diff(positions) > 0).all()


@settings(max_examples=30)
@given(texts=TEXTS, window=st.integers(1, 6), size=st.integers(5, 70))
def test_shards_draw_what_the_whole_text_draws(texts, window, size, tmp_path_factory):
    chosen, words = plan(window=window, seed=3), vocabulary(9, texts)
    text = write(tmp_path_factory.mktemp("text"), texts)
    sampler = Sampler(words, chosen, CPU)
    whole, _ = sampler.windows(torch.from_numpy(marked(texts)), 0, 0, text.words, 1)
    found = []
    for shard in read_shards(text, 0, window, CPU, size=size):
        found += pairs_of(sampler.windows(shard.text, shard.first, shard.begin, shard.end, 1)[0])
    assert found == pairs_of(whole)
    later = [shard.begin for shard in read_shards(text, text.words - 1, window, CPU, size=size)]
    assert later == [(text.words - 1) // size * size]


def test_draws_are_uniform_and_streams_differ():
    counter = torch.arange(200_000)
    shares = torch.stack([draw(key_of(1, epoch, 1), counter) / DRAWS for epoch in range(2)]).double().numpy()
    assert abs(shares.mean() - 0.5) < 0.003
    assert abs(shares.var() - 1 / 12) < 0.001
    assert abs(np.corrcoef(shares)[0, 1]) < 0.01
    assert abs(np.corrcoef(shares[0][1:], shares[0][:-1])[0, 1]) < 0.01
    far = draw(key_of(1, 0, 1), counter[:1000] + (1 << 40))
    assert 0 <= int(far.min()) <= int(far.max()) < DRAWS


def test_noise_words_come_by_count_to_a_power():
    texts = [[0] * 1000 + [1] * 100 + [2] * 10 + [3]] * 60
    words = vocabulary(4, texts)
    drawn, _ = Sampler(words, plan(window=2), CPU).windows(torch.from_numpy(marked(texts)), 0, 0, 66_660, 0)
    shares = np.bincount(drawn.noise.flatten(), minlength=4) / drawn.noise.numel()
    np.testing.assert_allclose(shares, noise_distribution(words.counts, 0.75), atol=0.005)


def some_windows(architecture: str, *, size: int = 9, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, Windows]:
    """Random matrices, and the windows of random texts."""
    random = np.random.default_rng(seed)
    texts = [random.integers(size, size=n).tolist() for n in (1, 40, 2, 30)]
    chosen = plan(window=4, architecture=architecture)
    drawn, _ = Sampler(vocabulary(size, texts), chosen, CPU).windows(torch.from_numpy(marked(texts)), 0, 0, 73, 0)
    matrices = torch.from_numpy(random.normal(size=(2, size + 1, 5)).astype(np.float32))
    matrices[:, -1] = 0
    return matrices[0], matrices[1], drawn


def windows_one_by_one(drawn: Windows) -> list[tuple[int, int, list[int]]]:
    """Group, centre and context words of every window."""
    inside, contexts, centres = drawn.inside(), drawn.contexts, drawn.centres
    return [
        (g, int(centres[g, a]), contexts[g][inside[g, a]].tolist()) for g in range(len(drawn)) for a in range(GROUP)
    ]


def numpy_skipgram(vectors: np.ndarray, outputs: np.ndarray, drawn: Windows, negatives: int) -> tuple[Any, ...]:
    """Loss, gradients and curvatures, pair by pair."""
    loss, up, bend = 0.0, [np.zeros_like(vectors) for _ in range(2)], [np.zeros(len(vectors)) for _ in range(2)]
    for group, centre, context in windows_one_by_one(drawn):
        for word in context:
            noise = [(int(n), 0, negatives / NOISE) for n in drawn.noise[group] if int(n) != word]
            for other, label, weight in [(word, 1, 1.0), *noise]:
                p = 1 / (1 + np.exp(-vectors[centre] @ outputs[other]))
                loss -= weight * np.log(p if label else 1 - p)
                up[0][centre] += weight * (label - p) * outputs[other]
                up[1][other] += weight * (label - p) * vectors[centre]
                for side, row, far in ((0, centre, outputs[other]), (1, other, vectors[centre])):
                    bend[side][row] += weight * (SHARE * p * (1 - p) * (far @ far) + LEAST)
    return loss, up, bend


def numpy_cbow(vectors: np.ndarray, outputs: np.ndarray, drawn: Windows, negatives: int) -> tuple[Any, ...]:
    """The same for CBOW; each word of a window receives the whole gradient of their mean."""
    loss, up, bend = 0.0, [np.zeros_like(vectors) for _ in range(2)], [np.zeros(len(vectors)) for _ in range(2)]
    for group, centre, context in windows_one_by_one(drawn):
        if not context:
            continue
        hidden = vectors[context].mean(0)
        noise = [(int(n), 0, negatives / NOISE) for n in drawn.noise[group] if int(n) != centre]
        for other, label, weight in [(centre, 1, 1.0), *noise]:
            p = 1 / (1 + np.exp(-hidden @ outputs[other]))
            loss -= weight * np.log(p if label else 1 - p)
            up[1][other] += weight * (label - p) * hidden
            bend[1][other] += weight * (SHARE * p * (1 - p) * (hidden @ hidden) + LEAST)
            for word in context:
                up[0][word] += weight * (label - p) * outputs[other]
                square = SHARE * outputs[other] @ outputs[other]
                bend[0][word] += weight * (p * (1 - p) * square + LEAST)
    return loss, up, bend


def summed(found: Ascent, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Movements and curvatures, summed per row."""
    movement, curvature = torch.zeros(size, found.ascent.shape[1]), torch.zeros(size)
    movement.index_add_(0, found.rows, found.ascent)
    curvature.index_add_(0, found.rows, found.curvature)
    return movement.numpy(), curvature.numpy()


@pytest.mark.parametrize(("step", "twin"), [(skipgram, numpy_skipgram), (cbow, numpy_cbow)])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_batch_gives_the_loss_and_gradients_of_a_plain_twin(step, twin, size):
    vectors, outputs, drawn = some_windows(step.__name__, size=size, seed=size)
    found = step(vectors, outputs, drawn, 5, SHARE)
    loss, up, bend = twin(vectors.double().numpy(), outputs.double().numpy(), drawn, 5)
    assert float(found.loss) == pytest.approx(loss, rel=1e-4)
    windows_held = [context for _, _, context in windows_one_by_one(drawn)]
    assert int(found.predictions) == (sum(map(len, windows_held)) if step is skipgram else sum(map(bool, windows_held)))
    for one, wanted_up, wanted_bend in zip((found.inputs, found.outputs), up, bend, strict=True):
        movement, curvature = summed(one, size + 1)
        np.testing.assert_allclose(movement, wanted_up, atol=2e-4)
        np.testing.assert_allclose(curvature, wanted_bend, rtol=1e-3, atol=1e-4)
        assert (movement[-1] == 0).all()
        assert curvature[-1] == 0


@pytest.mark.parametrize("step", [skipgram, cbow])
def test_the_gradients_are_those_of_autograd(step):
    vectors, outputs, drawn = some_windows(step.__name__, seed=5)
    found = step(vectors, outputs, drawn, 5, SHARE)
    leaves = [matrix.double().requires_grad_() for matrix in (vectors, outputs)]
    inside = drawn.inside().double()
    noise = leaves[1][drawn.noise.long()]
    if step is skipgram:
        hidden, targets = leaves[0][drawn.centres.long()], leaves[1][drawn.contexts.long()]
        scores = hidden @ targets.mT
        differ = (drawn.contexts[:, :, None] != drawn.noise[:, None, :]).double()
        true = -(torch.nn.functional.logsigmoid(scores) * inside).sum()
        weight = inside @ differ
    else:
        total = inside @ leaves[0][drawn.contexts.long()]
        mean = total / drawn.pairs.clamp(min=1)[..., None]
        hidden = total + (mean - total).detach()  # the value of the mean, the gradient of the sum: word2vec's own way
        own = (hidden * leaves[1][drawn.centres.long()]).sum(2)
        true = -(torch.nn.functional.logsigmoid(own) * (drawn.pairs > 0)).sum()
        weight = (drawn.centres[:, :, None] != drawn.noise[:, None, :]) * (drawn.pairs > 0)[..., None]
    loss = true - (torch.nn.functional.logsigmoid(-(hidden @ noise.mT)) * weight).sum() * (5 / NOISE)
    loss.backward()
    assert float(found.loss) == pytest.approx(float(loss.detach()), rel=1e-4)
    for one, leaf in zip((found.inputs, found.outputs), leaves, strict=True):
        np.testing.assert_allclose(summed(one, len(leaf))[0], -leaf.grad.numpy(), atol=2e-4)


def test_noise_weighs_as_many_words_per_pair_as_were_asked_for():
    """But for those that are the word to be predicted: at scores of zero the loss per pair is (1 + K (1 - p)) log 2."""
    random = np.random.default_rng(4)
    texts = [random.integers(50, size=20_000).tolist()]
    words = vocabulary(50, texts)
    drawn, _ = Sampler(words, plan(window=3), CPU).windows(torch.from_numpy(marked(texts)), 0, 0, 20_000, 0)
    for negatives in (1, 5, 100):
        found = skipgram(torch.zeros(51, 4), torch.zeros(51, 4), drawn, negatives, SHARE)
        per_pair = float(found.loss / found.predictions) / np.log(2)
        assert per_pair == pytest.approx(1 + negatives * (1 - 1 / 50), rel=0.002)


@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_a_climb_adds_the_sum_of_each_row_once(rows, seed):
    random = np.random.default_rng(seed)
    before = random.normal(size=(7, 3)).astype(np.float32)
    ascent, curvature = random.normal(size=(len(rows), 3)).astype(np.float32), random.random(len(rows)) * 50
    matrix = torch.from_numpy(before.copy())
    slots = torch.from_numpy(random.integers(-9, 99, size=7))
    found = Ascent(*map(torch.from_numpy, (np.array(rows, np.int32), ascent, curvature.astype(np.float32))))
    climb(matrix, found, slots, 0.05)
    for row in range(7):
        mine = np.array(rows) == row
        c = curvature[mine].sum()
        step = (1 - np.exp(-0.05 * c)) / c * ascent[mine].sum(0) if mine.any() else 0
        np.testing.assert_allclose(matrix[row].numpy(), before[row] + step, atol=1e-4)


def test_the_step_is_that_of_small_steps_one_after_the_other():
    """On a bowl of known curvature a thousand gradients taken at one place end where a thousand steps do."""
    top, start, lr = 2.0, -1.0, 0.025
    at = start
    for _ in range(1000):
        at += lr * 0.3 * (top - at)
    matrix = torch.tensor([[start]])
    gradients = torch.full((1000, 1), 0.3 * (top - start))
    many = Ascent(torch.zeros(1000, dtype=torch.int32), gradients, torch.full((1000,), 0.3))
    climb(matrix, many, torch.zeros(1, dtype=torch.int64), lr)
    assert float(matrix) == pytest.approx(at, abs=1e-3)


def topic_texts(words: int = 40_000) -> list[list[int]]:
    return [sentence for doc in topics(words, seed=7) for sentence in doc]


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_words_that_keep_company_become_neighbours(tmp_path, architecture):
    run = training(tmp_path, topic_texts(), 40, architecture=architecture, dim=16, window=5, epochs=4, lr=0.05)
    steps = finish(run)
    losses = [step.loss for step in steps if step.loss is not None]
    assert len(losses) == 4
    assert losses[-1] < losses[0] < 6 * np.log(2)
    assert steps[-1].resting
    assert steps[-1].tokens == steps[-1].total == run.total == run.progress["words"] == 160_000
    assert steps[-1].lr == pytest.approx(1e-4)
    unit = run.vectors / np.linalg.norm(run.vectors, axis=1, keepdims=True)
    nearest = np.argsort(-(unit @ unit[7]))[1:20]
    assert sum(int(row) % 2 for row in nearest) >= 18
    assert run.bitwise
    assert run.threads == 1


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch, architecture):
    monkeypatch.setattr("wordpipe.words.torch_backend.training.read_shards", small_shards)
    values = {
        "architecture": architecture,
        "dim": 12,
        "window": 4,
        "epochs": 3,
        "subsample": 0.03,
        "deterministic": True,
    }
    texts = topic_texts(12_000)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, first = (training(tmp_path / name, texts, 40, **values) for name in "ab")
    whole_steps = finish(whole)
    flag, seen = StopFlag(), 0
    checkpoints = {3, 5}

    def due() -> bool:
        nonlocal seen
        seen += 1
        if seen == 9:
            flag.signum = 15
        return seen in checkpoints

    resting = [step for step in first.steps(flag, due) if step.resting]
    assert len(resting) == 3
    assert 0 < first.progress["words"] < whole.total
    assert first.progress["words"] % 12_000
    again = training(tmp_path / "b", texts, 40, **values)
    again.progress = dict(first.progress)
    for name, array in again.arrays().items():
        assert array.flags.c_contiguous
        array[:] = first.arrays()[name]
    steps = finish(again)
    np.testing.assert_array_equal(again.vectors, whole.vectors)
    np.testing.assert_array_equal(again.outputs, whole.outputs)
    losses = [[step.loss for step in run if step.loss is not None] for run in (steps, whole_steps)]
    np.testing.assert_allclose(losses[0], losses[1][-len(losses[0]) :], rtol=1e-5)


def test_a_device_with_memory_of_its_own_is_filled_before_and_read_after(tmp_path):
    """As on a GPU: the matrices that are trained are not the arrays that are read and restored."""
    values = {"epochs": 2, "window": 3, "deterministic": True}
    texts = topic_texts(6_000)
    whole, first, again = (training(tmp_path, texts, 40, **values) for _ in range(3))
    for run in (first, again):
        for name in ("inputs", "outputs"):
            setattr(run._matrices, name, getattr(run._matrices, name).clone())
    finish(whole)
    flag = StopFlag()
    resting = 0
    for step in first.steps(flag, lambda: True):
        resting += step.resting
        flag.signum = 15 if resting == 20 else None
        seen = first.arrays()["outputs"].copy()
    assert first.progress["words"] < first.total
    np.testing.assert_array_equal(first.outputs, seen)
    for _ in range(2):  # asking for the arrays again must not undo what was written to them
        for name, array in again.arrays().items():
            array[:] = first.arrays()[name]
    assert again.arrays()["outputs"].any()
    again.progress = dict(first.progress)
    finish(again)
    finish(first)  # and so does the one that was stopped
    np.testing.assert_array_equal(again.vectors, whole.vectors)
    np.testing.assert_array_equal(first.vectors, whole.vectors)


def small_shards(*args: Any) -> Any:
    return read_shards(*args, size=5_000)


def test_the_last_word_of_a_long_text_is_trained(tmp_path):
    texts = [[0, 1] * 15_000 + [2, 3]]
    run = training(tmp_path, texts, 4, epochs=1, window=1)
    before = run.vectors.copy()
    finish(run)
    assert (run.outputs[2:] != 0).all()  # noise alone leaves rows as they are as long as the others' vectors are zero
    assert (run.vectors[3] != before[3]).any()
    assert run.progress["words"] == 30_002


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("texts", [[[0]], [[0, 0, 0]], [[0, 1]], [[0], [1], [0, 1, 1, 0]]])
@pytest.mark.parametrize("subsample", [0, 1e-3])
def test_tiny_texts_and_vocabularies(tmp_path, architecture, texts, subsample):
    size = 1 + max(map(max, texts))
    run = training(tmp_path, texts, size, architecture=architecture, epochs=4, subsample=subsample, window=3)
    assert finish(run)[-1].tokens == run.total
    assert np.isfinite(run.vectors).all()
    assert run.vectors.shape == run.outputs.shape == (size, 8)


def test_the_size_of_a_batch_changes_no_draw(tmp_path, monkeypatch):
    seen: list[list[tuple[int, int]]] = []
    for words in (1_024, 4_096):
        monkeypatch.setattr("wordpipe.words.torch_backend.training.batch_words", lambda *_, words=words: words)
        run = training(tmp_path, topic_texts(9_000), 40, epochs=2, window=3, subsample=0.03)
        seen.append([])
        monkeypatch.setattr(run, "_train", lambda part, pairs=seen[-1]: pairs.extend(pairs_of(part)))
        finish(run)
    assert seen[0] == seen[1]
    half = len(seen[0]) // 2
    assert seen[0][:half] != seen[0][half:]


def test_batches_grow_with_what_is_learned_with_the_text_and_with_its_variety():
    assert [largest_batch(10**9, various) for various in (1, 40, 750, 10**5)] == [GROUP, 512, 8_192, 32_768]
    assert [largest_batch(words, 750) for words in (9, 300_000, 1_200_000)] == [GROUP, 1_024, 4_096]
    sizes = [batch_words(position, 16_384) for position in (0, 60_000, 70_000, 600_000, 10**7)]
    assert sizes == [512, 512, 1_024, 8_192, 16_384]
    assert batch_words(10**7, 32) == 32


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_the_variety_is_that_of_so_many_equal_words(counts):
    some = Vocabulary(np.arange(len(counts)), np.array(counts), np.arange(len(counts), dtype=np.int32), 0, 0)
    assert 1 - 1e-9 <= variety(some, 0) <= len(counts) + 1e-9
    equal = Vocabulary(some.ids, np.full(len(counts), 7), some.row_of_id, 0, 0)
    assert variety(equal, 0) == pytest.approx(len(counts))
    assert variety(some, 1e-5) >= variety(some, 0) - 1e-9


def test_few_words_and_few_dimensions_make_steps_careful():
    shares = [steep_share(various, dim) for various, dim in [(750, 100), (40, 100), (750, 4), (200, 100), (1, 1)]]
    assert shares == pytest.approx([0.3, 1, 1, 0.566, 1], abs=1e-3)


def test_vectors_that_are_not_finite_end_the_training(tmp_path):
    run = training(tmp_path, topic_texts(9_000), 40, epochs=2)
    run.arrays()["outputs"][3, 0] = np.nan
    with pytest.raises(DivergedError, match="epoch 1"):
        finish(run)


@pytest.mark.parametrize("values", [{"loss": "hs"}, {"max_n": 4}])
def test_what_only_the_native_backend_does_is_refused(values):
    with pytest.raises(ConfigError, match="backend = native, not torch"):
        Word2VecSettings.make({"backend": "torch", **values})


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_a_gpu_learns_what_the_cpu_learns_and_its_bytes_can_be_had_again(tmp_path, architecture):
    values = {"architecture": architecture, "dim": 16, "window": 4, "epochs": 2, "deterministic": True}
    text, words = write(tmp_path, topic_texts(20_000)), vocabulary(40, topic_texts(20_000))
    runs = [TorchTraining(text, words, plan(**values), None, device) for device in ("cpu", "cuda", "cuda")]
    for run in runs:
        finish(run)
    np.testing.assert_array_equal(runs[1].vectors, runs[2].vectors)
    np.testing.assert_allclose(runs[0].vectors, runs[1].vectors, atol=1e-2)


def test_a_device_that_is_not_there_is_refused(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ConfigError, match="no such device"):
        TorchTraining(write(tmp_path, [[0, 1]]), vocabulary(2, [[0, 1]]), plan(), None, "cuda")


def test_matrices_that_do_not_fit_are_refused_with_their_numbers():
    check_memory(1_000_000, 300, 10**9, 4 * 10**9)
    with pytest.raises(BudgetError, match=r"1,000,000 words × 300 numbers.*3\.0 GB free.*3\.4 GB") as error:
        check_memory(1_000_000, 300, 10**9, 3 * 10**9)
    assert "--backend native" in (error.value.hint or "")


def test_shards_hold_whole_groups():
    assert shards.SHARD % GROUP == 0
