"""A linear map behind an encoder: it is learned where there is something to learn, and left out where there is not."""

import numpy as np

from wordpipe.training.contrastive import learned_map


def units(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def texts(noise, seed=3, n_passages=80, n_spans=1200, dim=16):
    """Passages, and spans that are near them but in directions of which half are noise."""
    rng = np.random.default_rng(seed)
    passages = rng.standard_normal((n_passages, dim))
    of = rng.integers(0, n_passages, n_spans)
    spans = passages[of].copy()
    spans[:, dim // 2 :] += noise * rng.standard_normal((n_spans, dim // 2))
    return units(spans), of, units(passages)


def test_noisy_directions_are_made_small():
    told = []
    learned = learned_map(*texts(3.0), seed=1, steps=60, watch=lambda step, rank: told.append((step, rank)))
    assert [step for step, _ in told] == [0, 20, 40, 60]
    assert learned.steps in (20, 40, 60)
    assert learned.before == told[0][1]
    assert learned.after > learned.before
    best = max(rank for _, rank in told)
    assert learned.after >= best - learned.error
    assert learned.steps == min(step for step, rank in told if rank >= best - learned.error)
    signal, noise = (np.linalg.norm(learned.matrix[rows]) for rows in (slice(8), slice(8, 16)))
    assert signal > noise


def test_where_all_is_found_nothing_is_learned():
    learned = learned_map(*texts(0.0), seed=1, steps=20, watch=lambda *_: None)
    assert (learned.matrix, learned.steps, learned.before, learned.after) == (None, 0, 1.0, 1.0)


def test_the_same_seed_gives_the_same_map_and_without_held_out_texts_there_is_none():
    one, other = (learned_map(*texts(3.0), seed=5, steps=20, watch=lambda *_: None) for _ in range(2))
    np.testing.assert_array_equal(one.matrix, other.matrix)
    spans, _, passages = texts(3.0, n_spans=1)
    nothing = learned_map(spans, np.zeros(1, np.int64), passages, seed=1, steps=20, watch=lambda *_: None)
    assert nothing.matrix is None
