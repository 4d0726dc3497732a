import numpy as np
import pytest

from wordpipe.report import colour_order, group_by_direction, group_names


def bundles(sizes, dim=12, seed=0):
    """Unit vectors close around random directions, shuffled; and which direction each belongs to."""
    random = np.random.default_rng(seed)
    belongs = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    vectors = random.normal(size=(len(sizes), dim))[belongs] + 0.1 * random.normal(size=(len(belongs), dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), belongs


@pytest.mark.parametrize("seed", range(5))
def test_bundles_are_found_the_largest_first(seed):
    unit, belongs = bundles([50, 40, 30, 20], seed=seed)
    assert group_by_direction(unit, 4).tolist() == belongs.tolist()


def test_groups_do_not_depend_on_anything_but_the_vectors():
    unit, _ = bundles([30, 30, 30])
    assert (group_by_direction(unit, 5) == group_by_direction(unit.copy(), 5)).all()


def test_equal_vectors_are_one_group():
    unit = np.tile(np.array([[0.6, 0.8]], np.float32), (9, 1))
    assert group_by_direction(unit, 3).tolist() == [0] * 9


def test_every_point_is_nearest_to_the_direction_of_its_group():
    unit = np.random.default_rng(4).normal(size=(400, 6)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    groups = group_by_direction(unit, 7)
    centres = np.stack([unit[groups == group].sum(axis=0) for group in range(7)])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    cosines = unit @ centres.T
    assert (cosines[np.arange(400), groups] >= cosines.max(axis=1) - 1e-5).all()
    assert np.bincount(groups).tolist() == sorted(np.bincount(groups), reverse=True)


def test_a_group_is_named_by_central_words_of_its_commonest():
    unit = np.array([[1, 0], [0.8, 0.6], [1, 0], [0.96, 0.28], [1, 0], [0, 1]], np.float32)
    names = group_names(["a", "far", "b", "c", "rare", "other"], unit, np.array([0, 0, 0, 0, 0, 1]))
    assert names == [["a", "b", "far"], ["other"]]


def test_colours_are_different_and_groups_that_touch_get_far_ones():
    places = np.array([[0, 0], [1, 0], [9000, 9000]], np.uint16).repeat(5, axis=0)
    colours = colour_order(places, np.repeat([0, 1, 2], 5), 12)
    assert colours.tolist()[:2] == [0, 6]
    assert len(set(colours.tolist())) == 3
    assert sorted(colour_order(np.zeros((12, 2), np.uint16), np.arange(12), 12)) == list(range(12))
