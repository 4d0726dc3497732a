"""Span corruption: the reference as plain loops on the same random numbers, and the text put together again."""

import doctest
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from wordpipe.errors import ConfigError
from wordpipe.training.recipes import SpanCorruption, random_spans

EOS, SEPARATOR = 1, 2
SENTINELS = tuple(range(999, 899, -1))

corruptions = st.builds(
    SpanCorruption, noise_density=st.floats(0.01, 0.9), mean_span=st.floats(1.0, 8.0), sentinels=st.just(SENTINELS),
    eos_id=st.just(EOS), special_ids=st.sampled_from([(), (0, EOS, SEPARATOR)]),
)  # fmt: skip


def t5(**values):
    return SpanCorruption(**({"sentinels": SENTINELS, "eos_id": EOS} | values))


def texts(B, T, seed, special_share=0.0):
    random = np.random.default_rng(seed)
    ids = random.integers(10, 800, (B, T))
    ids[random.random((B, T)) < special_share] = SEPARATOR
    return ids


def sequences(flat):
    ids, lengths = flat
    assert ids.dtype == lengths.dtype == np.int64
    assert len(ids) == lengths.sum()
    return [part.tolist() for part in np.split(ids, lengths.cumsum()[:-1])]


def slow_parts(total, n_parts, random):
    """A sequence is cut before n_parts - 1 of its items but the first, drawn by a shuffle: the lengths of the parts."""
    cuts = [True] * (n_parts - 1) + [False] * (total - n_parts)
    lengths = [1]
    for is_cut in random.permuted(np.array(cuts, dtype=bool)):
        if is_cut:
            lengths.append(1)
        else:
            lengths[-1] += 1
    return lengths


def slow_masks(B, T, density, mean_span, random):
    """As the reference says it, a sequence at a time."""
    if T == 1:
        return [[False]] * B
    n_noise = min(max(round(T * density), 1), T - 1)
    n_spans = min(max(round(n_noise / mean_span), 1), T - n_noise)
    taken = [slow_parts(n_noise, n_spans, random) for _ in range(B)]
    kept = [slow_parts(T - n_noise, n_spans, random) for _ in range(B)]
    return [
        [flag for k, t in zip(kept[b], taken[b], strict=True) for flag in [False] * k + [True] * t] for b in range(B)
    ]


def slow_pair(ids, noise, sentinels):
    """The pair of a text: every change from kept to taken or back writes a sentinel on one of the two sides."""
    n_out, n_in, inputs, labels = 0, 0, [], []
    before = None
    for token, is_noise in zip(ids, noise, strict=True):
        if is_noise and before is not True:
            inputs.append(sentinels[n_out])
            n_out += 1
        if not is_noise and before is not False:
            labels.append(sentinels[n_in])
            n_in += 1
        (labels if is_noise else inputs).append(token)
        before = is_noise
    return [*inputs, EOS], [*labels, EOS]


def put_together(inputs, labels, sentinels=SENTINELS):
    """The text, from the pair alone: each sentinel of the input stands for what follows it in the labels."""
    assert inputs[-1] == labels[-1] == EOS
    spans, order = {}, []
    for token in labels[:-1]:
        if token in sentinels:
            order.append(token)
            spans[token] = []
        else:
            spans[order[-1]].append(token)
    assert order == list(sentinels[: len(order)])
    shown = [token for token in inputs[:-1] if token in sentinels]
    assert shown == order[: len(shown)]
    assert len(order) - len(shown) in (0, 1)  # the sentinel that says that text follows the last span
    assert all(spans[token] for token in shown)
    assert not any(spans[token] for token in order[len(shown) :])
    return [token for one in inputs[:-1] for token in spans.get(one, [one])]


def test_its_example():
    tests = doctest.DocTestFinder().find(SpanCorruption, globs={"SpanCorruption": SpanCorruption, "np": np})
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert [sum(column) for column in zip(*results, strict=True)][:2] == [0, 7]


@given(corruptions, st.integers(1, 4), st.integers(1, 70), st.floats(0.0, 1.0), st.integers(0, 999))
def test_it_is_the_reference_by_loops(corruption, B, T, special_share, seed):
    rows = (ids := texts(B, T, seed, special_share)).tolist()
    inputs, labels = corruption.corrupt(ids, np.random.default_rng(seed))
    masks = slow_masks(B, T, corruption.noise_density, corruption.mean_span, np.random.default_rng(seed))
    if corruption.sentinels_for(T) > corruption.noise_of(T)[1]:  # it knows of special ids
        masks = [[m and i != SEPARATOR for m, i in zip(*row, strict=True)] for row in zip(masks, rows, strict=True)]
    pairs = [slow_pair(row, mask, SENTINELS) for row, mask in zip(rows, masks, strict=True)]
    assert list(zip(sequences(inputs), sequences(labels), strict=True)) == pairs


@given(corruptions, st.integers(1, 4), st.integers(1, 300), st.floats(0.0, 1.0), st.integers(0, 999))
def test_the_text_can_be_put_together_again(corruption, B, T, special_share, seed):
    ids = texts(B, T, seed, special_share)
    if corruption.sentinels_for(T) > len(SENTINELS):
        with pytest.raises(ConfigError, match="need more sentinel tokens"):
            corruption.corrupt(ids, np.random.default_rng(seed))
        return
    inputs, labels = corruption.corrupt(ids, np.random.default_rng(seed))
    pairs = list(zip(sequences(inputs), sequences(labels), strict=True))
    assert [put_together(*pair) for pair in pairs] == ids.tolist()


@given(corruptions, st.integers(1, 4), st.integers(1, 70), st.integers(0, 999))
def test_lengths_are_those_that_it_said(corruption, B, T, seed):
    (_, n_inputs), (labels, n_labels) = corruption.corrupt(texts(B, T, seed), np.random.default_rng(seed))
    n_noise, n_spans = corruption.noise_of(T)
    assert [*zip(n_inputs, n_labels, strict=True)] == [corruption.lengths_of(T)] * B
    assert np.isin(labels, SENTINELS).sum() == B * max(n_spans, 1)
    assert (labels < 900).sum() == B * (n_noise + 1)  # and eos


@pytest.mark.parametrize(("T", "noise", "spans"), [(1, 0, 0), (2, 1, 1), (3, 1, 1), (5, 1, 1), (568, 85, 28)])
def test_noise_of_short_and_of_usual_texts(T, noise, spans):
    assert t5().noise_of(T) == (noise, spans)


def test_a_text_of_one_token_is_all_kept():
    inputs, labels = t5().corrupt(np.array([[7], [8]]), np.random.default_rng(0))
    assert sequences(inputs) == [[7, EOS], [8, EOS]]
    assert sequences(labels) == [[999, EOS], [999, EOS]]


def test_512_ids_are_made_of_568_tokens():
    assert t5().lengths_for(512) == (568, 114)
    assert t5().lengths_of(568) == (512, 114)
    assert t5().lengths_of(569)[0] == 513


@given(corruptions, st.integers(2, 120))
def test_lengths_for_an_input_are_those_of_the_longest_text(corruption, wanted):
    raw, n_labels = corruption.lengths_for(wanted)
    fitting = [T for T in range(1, 12 * wanted) if corruption.lengths_of(T)[0] <= wanted]
    assert raw == fitting[-1] == len(fitting)
    assert n_labels == corruption.lengths_of(raw)[1]


def test_all_masks_are_equally_likely():
    masks = random_spans(15_000, 10, 4, 2, np.random.default_rng(3))
    assert (masks.sum(axis=1) == 4).all()
    assert not masks[:, 0].any()
    assert masks[:, -1].all()
    assert ((masks[:, 1:] & ~masks[:, :-1]).sum(axis=1) == 2).all()
    _, counts = np.unique(masks, axis=0, return_counts=True)
    assert len(counts) == 3 * 5  # ways to part four, and six, in two
    assert chisquare(counts).pvalue > 0.01


def test_special_ids_part_a_span_and_stay():
    corruption = t5(special_ids=(SEPARATOR,))
    noise = np.array([[0, 1, 0, 1, 1, 0]], dtype=bool)
    inputs, labels = corruption.split(np.array([[10, 11, SEPARATOR, 12, 13, SEPARATOR]]), noise)
    assert sequences(inputs) == [[10, 999, SEPARATOR, 998, SEPARATOR, EOS]]
    assert sequences(labels) == [[999, 11, 998, 12, 13, 997, EOS]]
    ids = texts(50, 300, 0, special_share=0.3)
    inputs, labels = corruption.corrupt(ids, np.random.default_rng(0))
    assert (inputs[0] == SEPARATOR).sum() == (ids == SEPARATOR).sum()
    assert SEPARATOR not in labels[0]
    assert len(set(inputs[1].tolist())) > 1


def test_texts_of_special_ids_alone_lose_nothing():
    inputs, labels = t5(special_ids=(SEPARATOR,)).corrupt(np.full((2, 9), SEPARATOR), np.random.default_rng(0))
    assert sequences(inputs) == [[SEPARATOR] * 9 + [EOS]] * 2
    assert sequences(labels) == [[999, EOS]] * 2


def test_pieces_without_a_sentinel_stay_in_the_text():
    corruption = SpanCorruption(noise_density=0.5, mean_span=15.0, sentinels=(99, 98, 97), eos_id=EOS, special_ids=(2,))
    ids = np.tile([10, 2], (4, 30))  # every other id cuts a span
    assert corruption.sentinels_for(60) == 3
    inputs, labels = corruption.corrupt(ids, np.random.default_rng(0))
    assert sequences(labels) == [[99, 10, 98, 10, 97, EOS]] * 4
    for one, other in zip(sequences(inputs), sequences(labels), strict=True):
        assert put_together(one, other, (99, 98, 97)) == [10, 2] * 30


@pytest.mark.parametrize(("special_ids", "needed"), [((), 28), ((SEPARATOR,), 29)])
def test_too_few_sentinels_are_counted(special_ids, needed):
    ids, random = texts(1, 568, 0), np.random.default_rng(0)
    assert t5(special_ids=special_ids).sentinels_for(568) == needed
    t5(sentinels=SENTINELS[:needed], special_ids=special_ids).corrupt(ids, random)
    with pytest.raises(
        ConfigError, match=f"texts of 568 tokens need more sentinel tokens .*; got {needed - 1}; expected {needed}"
    ):
        t5(sentinels=SENTINELS[: needed - 1], special_ids=special_ids).corrupt(ids, random)


@pytest.mark.parametrize(
    "values",
    [
        {"noise_density": 0.0}, {"noise_density": 1.0}, {"noise_density": float("nan")}, {"mean_span": 0.5},
        {"mean_span": float("nan")}, {"sentinels": (9, 8, 9)}, {"sentinels": (9, EOS)},
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(values):
    with pytest.raises(ConfigError, match="expected"):
        t5(**values)


def test_no_text_has_an_input_of_one_id():
    with pytest.raises(ConfigError, match="got 1; expected at least 2 ids"):
        t5().lengths_for(1)


def test_the_generator_alone_decides():
    ids = texts(8, 100, 0)
    runs = [t5().corrupt(ids.copy(), np.random.default_rng(seed)) for seed in (1, 1, 2)]
    as_bytes = [[part.tobytes() for side in run for part in side] for run in runs]
    assert as_bytes[0] == as_bytes[1]
    assert all(one != other for one, other in pairwise(as_bytes[1:]))
    random = np.random.default_rng(1)
    assert t5().corrupt(ids, random)[0][0].tobytes() != t5().corrupt(ids, random)[0][0].tobytes()
