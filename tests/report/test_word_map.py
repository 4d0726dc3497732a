import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reading import Page
from wordpipe.report import COLOURS, json_for_script, survey, word_map_page

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
    return survey(words, counts, ranks, random.normal(size=(n, dim)).astype(np.float32), **settings)


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
    shown = survey(words, np.arange(40)[::-1], np.arange(40), vectors, title="", layout="pca", n_groups=3)
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
    shown = survey(words, np.ones(60, int), np.arange(60), on_sphere, title="", layout="pca", n_groups=1)
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
    style = files("wordpipe.report").joinpath("page", "page.css").read_text(encoding="utf-8")
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
    for part in files("wordpipe.report").joinpath("page").iterdir():
        if part.name.endswith((".js", ".css")):
            assert part.read_text(encoding="utf-8").splitlines()[0].encode() in page, part.name
    assert b"{{" not in page
    assert page == word_map_page(replace(shown))


@pytest.mark.parametrize(("kept", "word"), [(0.7, "mostly"), (0.24, "sometimes"), (0.03, "seldom")])
def test_the_title_says_how_true_the_map_is(kept, word):
    shown = replace(a_map([str(number) for number in range(1001)], dim=5), neighbours_kept=kept)
    text = " ".join(Page(word_map_page(shown)).texts_of("p"))
    assert (
        f"is {word} near in all 5 dimensions: of each word’s 10 true nearest neighbours, a share of {kept:.2f}" in text
    )
    assert "by chance 0.01" in text
    assert "5 dimensions, laid out by PCA" in text
