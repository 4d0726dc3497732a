"""A map of words: layout, neighbours, groups, and the page that shows it."""

import hashlib
import json
import re
import sys
import warnings
from base64 import b64encode
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.map_page import Page
from wordpipe.errors import ConfigError
from wordpipe.metrics import nearest_rows, neighbour_overlap
from wordpipe.metrics import vectors as neighbours
from wordpipe.pages import (
    COLOURS,
    GRID,
    close_gaps,
    colour_order,
    group_by_direction,
    group_names,
    json_for_script,
    map_data,
    nearest_on_plane,
    on_grid,
    pca_layout,
    umap_layout,
    word_map_page,
)

PLACES = arrays(np.float64, st.tuples(st.integers(3, 60), st.just(2)), elements=st.floats(-1e6, 1e6, width=32))


def clusters(n=300, seed=0):
    """Unit vectors around ten random directions."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(10, 16))[random.integers(0, 10, n)] + 0.3 * random.normal(size=(n, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("n", "dim"), [(100, 7), (12, 30), (50, 2)])
def test_pca_is_the_svd_of_numpy_but_for_the_sign(n, dim):
    vectors = np.random.default_rng(dim).normal(size=(n, dim)).astype(np.float32) * np.linspace(
        3, 1, dim, dtype=np.float32
    )
    left, values, directions = np.linalg.svd(vectors - vectors.mean(axis=0, dtype=np.float64), full_matrices=False)
    places = pca_layout(vectors)
    for axis in range(2):
        sign = np.sign(directions[axis][np.abs(directions[axis]).argmax()])
        assert places[:, axis] == pytest.approx(sign * left[:, axis] * values[axis], abs=1e-4)


def test_pca_does_not_depend_on_how_the_points_are_ordered():
    vectors = clusters()
    shuffled = np.random.default_rng(1).permutation(len(vectors))
    assert pca_layout(vectors[shuffled]) == pytest.approx(pca_layout(vectors)[shuffled], abs=1e-5)


def test_points_of_one_number_lie_on_a_line():
    places = pca_layout(np.array([[1], [4], [2]], np.float32))
    assert places[:, 1].tolist() == [0, 0, 0]
    assert np.argsort(places[:, 0]).tolist() == [0, 2, 1]


@given(PLACES)
def test_closing_gaps_keeps_the_order_along_both_axes(places):
    closed = close_gaps(places)
    for axis in range(2):
        order = np.argsort(places[:, axis], kind="stable")
        assert (np.diff(closed[order, axis]) >= 0).all()


def test_a_far_island_comes_near_and_the_mainland_stays_as_it_is():
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    mainland = grid + np.random.default_rng(0).uniform(-0.5, 0.5, grid.shape)
    closed = close_gaps(np.vstack([mainland, [[500.0, 9.0], [500.1, 9.0]]]))
    assert np.ptp(closed[:, 0]) < 21
    assert closed[:400] - closed[0] == pytest.approx(mainland - mainland[0], abs=0.2)


@given(PLACES)
def test_the_grid_is_filled_and_keeps_proportions(places):
    grid = on_grid(places)
    assert grid.dtype == np.uint16
    width = np.ptp(places, axis=0).max()
    if width > 1e-3:
        assert np.ptp(grid, axis=0).max() >= GRID - 1
        scaled = (places - places.min(axis=0)) * GRID / width
        steps = grid.astype(float) * (1, -1)
        assert steps - steps.min(axis=0) == pytest.approx(scaled, abs=1.01)


def test_points_in_one_place_lie_in_the_middle():
    assert set(on_grid(np.full((4, 2), 7.0)).ravel().tolist()) <= {GRID // 2, GRID // 2 + 1}


def test_without_umap_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    unit = clusters(20)
    with pytest.raises(ConfigError, match="not installed") as caught:
        umap_layout(unit, *nearest_rows(unit, 5))
    assert "pip install" in str(caught.value.hint)


@pytest.mark.slow
def test_umap_is_the_same_twice_and_keeps_more_neighbours_than_pca():
    unit = clusters()
    rows, cosines = nearest_rows(unit, 14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = umap_layout(unit, rows, cosines)
        assert (places == umap_layout(unit, rows, cosines)).all()
    everyone = np.arange(len(unit))
    kept = [
        neighbour_overlap(rows[:, :10], nearest_on_plane(on_grid(some), everyone, 10)).mean()
        for some in (places, pca_layout(unit))
    ]
    assert kept[0] > kept[1] + 0.1
    assert np.ptp(places[:, 0]) > 0
    assert places[:, 0].var() >= places[:, 1].var()


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 4, 15, 16])
def test_umap_lays_out_few_points_too(n):
    unit = clusters(n, seed=n)
    assert np.isfinite(umap_layout(unit, *nearest_rows(unit, min(14, n - 1)))).all()


def unit_vectors(n, dim, seed):
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (7, 6), (50, 10), (333, 14)])
@pytest.mark.parametrize("at_once", [1, 1000, 1 << 24])
def test_the_neighbours_are_those_of_the_slow_search(n, k, at_once, monkeypatch):
    monkeypatch.setattr(neighbours, "SCORES_AT_ONCE", at_once)
    unit = unit_vectors(n, 8, seed=n)
    reported = []
    rows, cosines = nearest_rows(unit, k, reported.append)
    for own in range(n):
        slow = sorted((-float(unit[own] @ unit[other]), other) for other in range(n) if other != own)[:k]
        assert rows[own].tolist() == [other for _, other in slow]
        assert cosines[own] == pytest.approx([-score for score, _ in slow], abs=1e-5)
    assert reported == sorted(set(reported))
    assert reported[-1] == n


def test_equal_points_come_in_order_and_cosines_stay_in_bounds():
    unit = np.repeat(unit_vectors(1, 5, seed=0), 4, axis=0)
    rows, cosines = nearest_rows(unit, 3)
    assert rows.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert cosines.max() <= 1


def test_neighbours_on_the_grid_are_exact_at_its_far_corner():
    random = np.random.default_rng(3)
    points = (65_535 - random.integers(0, 40, size=(200, 2))).astype(np.uint16)  # float32 could not tell these apart
    of = np.array([0, 5, 199])
    for own, found in zip(of, nearest_on_plane(points, of, 9), strict=True):
        squares = ((points.astype(int) - points[own].astype(int)) ** 2).sum(axis=1)
        others = np.delete(squares, own)
        assert own not in found
        assert sorted(squares[found]) == squares[found].tolist() == sorted(others)[:9]


def test_the_share_kept_counts_neighbours_in_any_order():
    before = np.array([[1, 2, 3], [0, 2, 3]])
    assert neighbour_overlap(before, before[:, ::-1]).tolist() == [1, 1]
    assert neighbour_overlap(before, np.array([[3, 9, 8], [7, 8, 9]])).mean() == pytest.approx(1 / 6)


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


EVIL = [
    "</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>", "{{script}}", "&lt;b&gt;", "\u2028", "'\"`\\",
    "</title><script>alert(1)</script>", "\u202eright", "‘naïve’", "猫", "\x00\x1b[31m", "__proto__", "constructor",
]  # fmt: skip


def a_map(words, dim=6, seed=0, **more):
    random = np.random.default_rng(seed)
    n = len(words)
    counts = np.sort(random.integers(1, 10_000, n))[::-1]
    ranks = np.sort(random.choice(10 * n, n, replace=False))
    settings = {"title": "A map", "layout": "pca", "n_groups": 4, **more}
    return map_data(words, counts, ranks, random.normal(size=(n, dim)).astype(np.float32), **settings)


def test_what_the_page_holds_is_what_the_map_is():
    shown = a_map([f"w{number}" for number in range(90)], chosen=7)
    data = Page(word_map_page(shown)).data
    assert data["words"] == list(shown.words)
    assert data["counts"] == shown.counts.tolist() == sorted(data["counts"], reverse=True)
    assert data["ranks"] == shown.ranks.tolist()
    assert (data["places"] == shown.places).all()
    assert (data["neighbours"] == shown.neighbours).all()
    assert data["cosines"] / 100 == pytest.approx(shown.cosines, abs=0.0051)
    assert (data["groups"] == shown.groups).all()
    assert dict(data["names"]) == shown.group_names
    assert data["chosen"] == 7


def test_the_neighbours_are_the_true_ones_of_the_full_space():
    words = [f"w{number}" for number in range(40)]
    vectors = np.random.default_rng(5).normal(size=(40, 9)).astype(np.float32)
    shown = map_data(words, np.arange(40)[::-1], np.arange(40), vectors, title="", layout="pca", n_groups=3)
    for own in range(40):
        cosines = [
            float(vectors[own] @ other / np.linalg.norm(vectors[own]) / np.linalg.norm(other)) for other in vectors
        ]
        slow = sorted((other for other in range(40) if other != own), key=lambda other: -cosines[other])[:10]
        assert shown.neighbours[own].tolist() == slow
        assert shown.cosines[own] == pytest.approx([cosines[other] for other in slow], abs=1e-5)


def test_the_share_of_neighbours_kept_is_all_where_the_vectors_are_a_plane():
    plane = np.random.default_rng(6).normal(size=(60, 2)) * 0.1
    on_sphere = np.hstack([plane, np.full((60, 1), 10)]).astype(np.float32)  # so far out that cosines are distances
    words = [str(number) for number in range(60)]
    shown = map_data(words, np.ones(60, int), np.arange(60), on_sphere, title="", layout="pca", n_groups=1)
    assert shown.neighbours_kept > 0.97
    assert a_map([str(number) for number in range(300)], dim=50).neighbours_kept < 0.3


@pytest.mark.parametrize("seed", [0, 1])
def test_words_are_data_whatever_they_are(seed):
    words = [*EVIL, *(f"{word}{number}" for number in range(4) for word in EVIL)]
    plain = Page(word_map_page(a_map(["w"] * len(words), seed=seed)))
    page = Page(word_map_page(a_map(words, seed=seed, title=f"A map of the words around “{EVIL[0]}”")))
    assert [one for one in page.elements if one[0] != "canvas"] == [one for one in plain.elements if one[0] != "canvas"]
    assert page.data["words"] == words
    assert page.texts_of("title") == page.texts_of("h1") == [f"A map of the words around “{EVIL[0]}”"]
    assert len(page.texts_of("script")) == 2
    assert page.texts_of("script")[1] == plain.texts_of("script")[1]  # no word is in the program


@given(st.text())
def test_json_for_a_script_is_json_without_what_ends_a_script(text):
    written = json_for_script([text])
    assert json.loads(written) == [text]
    assert not re.search("[<>&\u2028\u2029]", written)


def test_only_the_pages_own_style_and_script_may_run_and_nothing_is_fetched():
    page = Page(word_map_page(a_map(["a", "b", "c", "d"])))
    policy = next(attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv"))
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    code = [*page.texts_of("style"), page.texts_of("script")[1]]
    assert allowed == [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag, attrs in page.elements:
        assert not {"src", "style", "srcset", "action"} & set(attrs), tag
        assert not [name for name in attrs if name.startswith("on")], tag
        assert attrs.get("href", "data:,") == "data:,"
    assert not re.search(r"https?:|url\(|@import|innerHTML|insertAdjacent|document\.write|eval\(", "".join(code))


def test_the_style_has_all_colours_in_light_and_in_dark():
    style = files("wordpipe.pages").joinpath("map", "page.css").read_text(encoding="utf-8")
    for colour in range(COLOURS):
        light, dark = re.findall(rf"--c{colour}: #([0-9a-f]{{6}});", style)
        assert contrast(light, "fffff8") >= 4.5
        assert contrast(dark, "15161a") >= 4.5


def contrast(one: str, other: str) -> float:
    """Ratio of luminances, from 1 to 21 (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_every_part_of_the_page_is_used_and_the_size_is_small():
    shown = a_map([f"word{number}" for number in range(5000)], dim=20)
    page = word_map_page(shown)
    assert len(page) < 500_000
    for part in files("wordpipe.pages").joinpath("map").iterdir():
        if part.name.endswith((".js", ".css")):
            assert part.read_text(encoding="utf-8").splitlines()[0].encode() in page, part.name
    assert b"{{" not in page
    assert page == word_map_page(replace(shown))


@pytest.mark.parametrize(("kept", "word"), [(0.7, "mostly"), (0.24, "sometimes"), (0.03, "rarely")])
def test_the_title_says_how_true_the_map_is(kept, word):
    shown = replace(a_map([str(number) for number in range(1001)], dim=5), neighbours_kept=kept)
    text = " ".join(Page(word_map_page(shown)).texts_of("p"))
    page = word_map_page(shown).decode()
    assert f"are {word} also near each other in all 5 dimensions.</summary>" in page
    assert f"A share of {kept:.2f} of the 10 nearest neighbours" in text
    assert "by chance: 0.01" in text
    assert "5 dimensions, layout by PCA" in text
