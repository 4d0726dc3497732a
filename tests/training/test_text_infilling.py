"""Text infilling: plain loops on the same random numbers, and what must hold whatever is drawn."""

import doctest
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson

from wordpipe.errors import ConfigError
from wordpipe.training.recipes import TextInfilling

BOS, EOS, SEPARATOR, MASK = 0, 2, 3, 4
SPECIAL, N_TOKENS = (0, 1, BOS, EOS, SEPARATOR, MASK), 900

infillings = st.builds(
    TextInfilling, rate=st.floats(0.0, 1.0), mean_span=st.floats(0.2, 9.0), random_share=st.floats(0.0, 1.0),
    permute=st.booleans(), mask_id=st.just(MASK), bos_id=st.just(BOS), eos_id=st.just(EOS),
    special_ids=st.just(SPECIAL), n_tokens=st.just(N_TOKENS),
)  # fmt: skip


def bart(**values):
    usual = {"mask_id": MASK, "bos_id": BOS, "eos_id": EOS, "special_ids": SPECIAL, "n_tokens": N_TOKENS}
    return TextInfilling(**(usual | values))


def only_masks(**values):
    return bart(random_share=0.0, permute=False, **values)


def texts(B, T, seed, special_share=0.0):
    random = np.random.default_rng(seed)
    ids = random.integers(10, N_TOKENS, (B, T))
    ids[random.random((B, T)) < special_share] = SEPARATOR
    return ids


def all_different(B, T):
    return np.tile(np.arange(10, 10 + T), (B, 1))


def flags(B, T, seed, share):
    return np.random.default_rng(seed + 1000).random((B, T)) < share


def sequences(flat):
    ids, lengths = flat
    assert ids.dtype == lengths.dtype == np.int64
    assert len(ids) == lengths.sum()
    return [part.tolist() for part in np.split(ids, lengths.cumsum()[:-1])]


def stretches(ids):
    """Positions of what lies between special ids, and of each special id, from left to right."""
    parts = []
    for t, token in enumerate(ids):
        if token == SEPARATOR or t == 0 or ids[t - 1] == SEPARATOR:
            parts.append([])
        parts[-1].append(t)
    return parts


def cut(positions, starts):
    parts = []
    for t in positions:
        if not parts or starts[t]:
            parts.append([])
        parts[-1].append(t)
    return parts


def slow_orders(infilling, rows, sentences, random):
    """Each text's positions, sentences shuffled between one special id and the next; which positions begin a sentence."""
    T = len(rows[0])
    if not infilling.permute or sentences is None:
        return [(list(range(T)), set()) for _ in rows]
    orders = []
    for ids, starts, draws in zip(rows, sentences, random.random((len(rows), T)).tolist(), strict=True):
        order, begins = [], []
        for stretch in stretches(ids):
            parts = cut(stretch, starts)
            key = {part[0]: draws[len(begins) + n] for n, part in enumerate(parts)}
            order += [t for part in sorted(parts, key=lambda part: key[part[0]]) for t in part]
            begins += key
        orders.append((order, set(begins)))
    return orders


def slow_lengths(infilling, hidden, random):
    """Each text's spans: draws until they sum to what is hidden, the last cut to fit."""
    shape = (len(hidden), int(1.5 * max(hidden) / infilling.mean_span) + 4)
    drawn = [[] for _ in hidden]
    while not drawn[0] or any(sum(d) < h for d, h in zip(drawn, hidden, strict=True)):
        more = random.poisson(infilling.mean_span, shape).tolist()
        drawn = [[*d, *m] for d, m in zip(drawn, more, strict=True)]
    spans = []
    for d, left in zip(drawn, hidden, strict=True):
        spans.append([])
        while left > 0:
            spans[-1].append(min(d[len(spans[-1])], left))
            left -= spans[-1][-1]
    return spans


def slow_shown(ids, units, lengths, key):
    """A text with None for each mask. The spans and the units that are shown stand in the order of their keys."""
    places = sorted(range(len(key)), key=lambda item: key[item])[: len(lengths)]
    length_at = dict(zip(places, lengths, strict=True))
    masks_before, is_hidden, unit = [0] * (len(ids) + 1), [False] * len(ids), 0
    for item in range(len(key)):
        length = length_at.get(item)
        if length is None:
            unit += 1
        elif length == 0:
            masks_before[units[unit][0] if unit < len(units) else units[-1][-1] + 1] += 1
        else:
            positions = [t for part in units[unit : unit + length] for t in part]
            for t, previous in zip(positions, [-2, *positions], strict=False):
                is_hidden[t] = True
                masks_before[t] += previous != t - 1  # a special id lies between
            unit += length
    assert unit == len(units)
    shown = [BOS]
    for t, token in enumerate(ids):
        shown += [None] * masks_before[t] + [token] * (not is_hidden[t])
    return [*shown, *[None] * masks_before[-1], EOS]


def slow_source(infilling, ids_BT, random, sentences_BT, words_BT):
    """A text at a time, with lists; only the draws are made for all texts at once."""
    rows, parted = [], []
    orders = slow_orders(infilling, ids_BT.tolist(), sentences_BT, random)
    for b, (order, sentence_begins) in enumerate(orders):
        ids = [int(ids_BT[b, t]) for t in order]
        begins = [words_BT is None or words_BT[b, t] or t in sentence_begins for t in order]
        rows.append(ids)
        parted.append([part for s in stretches(ids) if ids[s[0]] != SEPARATOR for part in cut(s, begins)])
    hidden = [math.ceil(infilling.rate * len(units)) for units in parted]
    spans = slow_lengths(infilling, hidden, random)
    n_items = [len(units) - h + len(s) for units, h, s in zip(parted, hidden, spans, strict=True)]
    keys = [key[:n] for key, n in zip(random.random((len(rows), max(n_items))).tolist(), n_items, strict=True)]
    shown = [slow_shown(*text) for text in zip(rows, parted, spans, keys, strict=True)]

    n_masks = sum(row.count(None) for row in shown)
    ordinary = [token for token in range(N_TOKENS) if token not in SPECIAL]
    is_random = random.random(n_masks) < infilling.random_share
    others = [ordinary[i] for i in random.integers(len(ordinary), size=n_masks)]
    masks = iter([other if use else MASK for other, use in zip(others, is_random, strict=True)])
    return [[next(masks) if token is None else token for token in row] for row in shown]


def test_its_example():
    tests = doctest.DocTestFinder().find(TextInfilling, globs={"TextInfilling": TextInfilling, "np": np})
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert [sum(column) for column in zip(*results, strict=True)][:2] == [0, 5]


@given(
    infillings, st.integers(1, 4), st.integers(1, 60), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.booleans(),
    st.booleans(), st.integers(0, 999),
)  # fmt: skip
def test_it_is_the_same_by_loops(infilling, B, T, special_share, sentences, words, seed):
    ids = texts(B, T, seed, special_share)
    sentences_BT = flags(B, T, seed, 0.2) if sentences else None
    words_BT = flags(B, T, seed + 1, 0.7) if words else None
    source, labels = infilling.corrupt(
        ids, np.random.default_rng(seed), sentence_starts_BT=sentences_BT, word_starts_BT=words_BT
    )
    assert sequences(source) == slow_source(infilling, ids, np.random.default_rng(seed), sentences_BT, words_BT)
    assert sequences(labels) == [[*row, EOS] for row in ids.tolist()]


@given(st.floats(0.0, 1.0), st.floats(0.2, 9.0), st.integers(1, 4), st.integers(1, 300), st.integers(0, 999))
def test_exactly_the_share_is_hidden_and_the_rest_stands_in_its_order(rate, mean_span, B, T, seed):
    ids = texts(B, T, seed, 0.1)
    source, _ = only_masks(rate=rate, mean_span=mean_span).corrupt(ids, np.random.default_rng(seed))
    for row, shown in zip(ids.tolist(), sequences(source), strict=True):
        assert (shown[0], shown[-1]) == (BOS, EOS)
        kept = [token for token in shown[1:-1] if token != MASK]
        n_ordinary = T - row.count(SEPARATOR)
        assert len(kept) == T - math.ceil(rate * n_ordinary)
        assert kept.count(SEPARATOR) == row.count(SEPARATOR)
        rest = iter(row)
        assert all(token in rest for token in kept)  # a subsequence


def test_a_tenth_of_the_masks_are_ordinary_tokens_at_random():
    ids = all_different(64, 512)
    random = np.random.default_rng(5)
    (source, _), _ = bart(n_tokens=30_000).corrupt(ids, random)
    n_masks, n_other = (source == MASK).sum(), (source >= 10 + 512).sum()
    n_any = n_masks + n_other * (29_994 / (29_994 - 512))  # some are drawn from among those of the texts
    assert n_masks / n_any == pytest.approx(0.9, abs=0.02)
    (drawn, _), _ = bart(rate=1.0, random_share=1.0).corrupt(ids, random)
    inside = drawn[(drawn != BOS) & (drawn != EOS)]
    assert not np.isin(inside, SPECIAL).any()
    assert (
        chisquare(np.bincount(inside, minlength=N_TOKENS)[[i for i in range(N_TOKENS) if i not in SPECIAL]]).pvalue
        > 0.01
    )


def test_lengths_are_poisson():
    T = 20_000  # so thinly that hardly two spans touch
    (source, _), _ = only_masks(rate=0.02, n_tokens=10 + T).corrupt(all_different(60, T), np.random.default_rng(1))
    at = np.flatnonzero(source == MASK)
    at = at[(source[at - 1] >= 10) & (source[at + 1] >= 10)]
    lengths = source[at + 1] - source[at - 1] - 1
    most = 10
    seen = np.bincount(np.minimum(lengths, most), minlength=most + 1)
    wanted = poisson(3.5).pmf(np.arange(most + 1))
    wanted[most] = poisson(3.5).sf(most - 1)
    assert len(lengths) > 5_000
    assert chisquare(seen, wanted * len(lengths)).pvalue > 0.01


def test_empty_spans_insert_masks():
    ids = all_different(200, 20)
    (source, lengths), _ = only_masks(rate=0.05, mean_span=0.3).corrupt(ids, np.random.default_rng(0))
    masks = (source == MASK).sum()
    assert (source >= 10).sum() == 200 * 19  # one token of each text is hidden
    assert masks == lengths.sum() - 200 * (19 + 2)
    # the draws before the first that is not 0: as many as failures before a success of probability 1 - e^-λ
    assert masks / 200 - 1 == pytest.approx(math.exp(-0.3) / (1 - math.exp(-0.3)), rel=0.15)
    gaps = [tuple(pair) for row in sequences((source, lengths)) for pair in pairwise(row) if MASK in pair]
    assert (BOS, MASK) in gaps
    assert (MASK, EOS) in gaps


def test_spans_stand_anywhere_with_equal_chance():
    """One span of one token: any of the ten places."""
    (source, lengths), _ = only_masks(rate=0.1, mean_span=50.0).corrupt(
        all_different(5_000, 10), np.random.default_rng(2)
    )
    assert set(lengths.tolist()) == {12}
    places = np.nonzero(source.reshape(-1, 12) == MASK)[1]
    assert chisquare(np.bincount(places - 1, minlength=10)).pvalue > 0.01


@pytest.mark.parametrize("T", [1, 2, 3, 4, 5, 512])
def test_one_text_of_any_length(T):
    source, labels = only_masks().corrupt(all_different(1, T), np.random.default_rng(T))
    assert sequences(labels) == [[*range(10, 10 + T), EOS]]
    assert sum(token >= 10 for token in source[0]) == T - math.ceil(0.3 * T)
    assert MASK in source[0]


def test_nothing_special_is_hidden_or_moved():
    ids = texts(20, 200, 0, 0.15)
    sentences = flags(20, 200, 0, 0.3)
    source, _ = bart(rate=0.9, random_share=0.0).corrupt(
        ids, np.random.default_rng(0), sentence_starts_BT=sentences, word_starts_BT=flags(20, 200, 1, 0.5)
    )
    for row, shown in zip(ids.tolist(), sequences(source), strict=True):
        assert shown.count(SEPARATOR) == row.count(SEPARATOR)
        # between two separators: tokens of the same stretch
        pieces, whole = [[]], [[]]
        for tokens, parts in ((shown[1:-1], pieces), (row, whole)):
            for token in tokens:
                if token == SEPARATOR:
                    parts.append([])
                elif token != MASK:
                    parts[-1].append(token)
        assert all(set(piece) <= set(of) for piece, of in zip(pieces, whole, strict=True))
    alone, _ = bart().corrupt(np.full((2, 6), SEPARATOR), np.random.default_rng(0))
    assert sequences(alone) == [[BOS, *[SEPARATOR] * 6, EOS]] * 2


def test_a_span_that_meets_a_special_id_is_two_masks():
    ids = np.array([[10, 11, SEPARATOR, 12, SEPARATOR]])
    source, _ = only_masks(rate=1.0, mean_span=50.0).corrupt(ids, np.random.default_rng(0))
    assert sequences(source) == [[BOS, MASK, SEPARATOR, MASK, SEPARATOR, EOS]]


def test_sentences_change_places_and_nothing_else_does():
    ids, begins = all_different(6_000, 9), np.zeros((6_000, 9), dtype=bool)
    begins[:, [2, 6]] = True  # the first sentence may be a piece, and begins where the text does
    (source, lengths), (labels, _) = bart(rate=0.0).corrupt(ids, np.random.default_rng(0), sentence_starts_BT=begins)
    assert set(lengths.tolist()) == {11}
    orders, counts = np.unique(source.reshape(-1, 11)[:, 1:-1], axis=0, return_counts=True)
    a, b, c = [10, 11], [12, 13, 14, 15], [16, 17, 18]
    wanted = [a + b + c, a + c + b, b + a + c, b + c + a, c + a + b, c + b + a]
    assert sorted(orders.tolist()) == sorted(wanted)
    assert chisquare(counts).pvalue > 0.01
    assert (labels.reshape(-1, 10)[:, :-1] == ids).all()
    same, _ = bart(rate=0.0, permute=False).corrupt(ids, np.random.default_rng(0), sentence_starts_BT=begins)
    assert (same[0].reshape(-1, 11)[:, 1:-1] == ids).all()


def test_words_are_hidden_whole():
    ids = all_different(300, 60)
    begins = flags(1, 60, 0, 0.6).repeat(300, axis=0)
    begins[:, 0] = True
    source, _ = only_masks().corrupt(ids, np.random.default_rng(0), word_starts_BT=begins)
    word_of = begins[0].cumsum()
    sizes, n_words = np.bincount(word_of), int(word_of[-1])
    for shown in sequences(source):
        kept = np.bincount(word_of[[token - 10 for token in shown if token >= 10]], minlength=n_words + 1)
        assert set(kept[1:]) <= {0, *sizes[1:]}
        assert ((kept == 0) | (kept == sizes)).all()
        assert (kept[1:] == 0).sum() == math.ceil(0.3 * n_words)


def test_the_generator_alone_decides():
    ids = texts(8, 100, 0)
    runs = [bart().corrupt(ids.copy(), np.random.default_rng(seed)) for seed in (1, 1, 2)]
    as_bytes = [[part.tobytes() for part in run[0]] for run in runs]
    assert as_bytes[0] == as_bytes[1] != as_bytes[2]
    random = np.random.default_rng(1)
    assert bart().corrupt(ids, random)[0][0].tobytes() != bart().corrupt(ids, random)[0][0].tobytes()


@pytest.mark.parametrize(
    "values",
    [
        {"rate": -0.1},
        {"rate": 1.1},
        {"random_share": float("nan")},
        {"mean_span": 0.0},
        {"n_tokens": 6, "special_ids": range(6)},
    ],
)
def test_numbers_that_make_no_sense_are_refused(values):
    with pytest.raises(ConfigError, match="expected"):
        bart(**values)


@pytest.mark.parametrize("special_share", [0.0, 0.1])
def test_a_source_is_never_longer_than_a_model_reads(special_share):
    """Spans of one token on average: a third of them are empty."""
    ids = texts(400, 22, 5, special_share)
    free, bound = bart(rate=0.9, mean_span=1.0), bart(rate=0.9, mean_span=1.0, max_len=30)
    found = [one.corrupt(ids, np.random.default_rng(1)) for one in (free, bound)]
    lengths = [source[1] for source, _ in found]
    assert lengths[0].max() > 30 >= lengths[1].max()
    assert sequences(found[0][1]) == sequences(found[1][1])
    usual = [one.corrupt(ids, np.random.default_rng(1)) for one in (bart(), bart(max_len=30))]
    assert sequences(usual[0][0]) == sequences(usual[1][0])  # nothing is left out where all fits
