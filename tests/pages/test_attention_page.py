"""The page of attention: what it holds, that nothing is fetched, and in a browser that it works by pointer and keyboard."""

import hashlib
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from tests.support.browsing import look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)
from tests.support.map_page import Page
from wordpipe.metrics import HeadLooks, join_words, rollout
from wordpipe.pages import AttentionView, ShownStack, ShownTokens, draw_attention

EVIL = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "{{script}}",
    "\u2028",
    "'\"`\\",
    "猫",
    " ",
    "__proto__",
]


def tokens(names, seed=0):
    number = np.cumsum(np.r_[0, np.random.default_rng(seed).integers(0, 2, len(names) - 1)]).tolist()
    words = [
        "".join(name for name, one in zip(names, number, strict=True) if one == word) for word in range(number[-1] + 1)
    ]
    return ShownTokens(names, number, words)


def stack(name, rows, columns, n_rows, n_columns, layers=3, heads=2, seed=0, importance=True, sharp=0.2):
    random = np.random.default_rng(seed)
    weights = random.gamma(sharp, size=(layers, heads, n_rows, n_columns)) + 1e-9
    weights /= weights.sum(-1, keepdims=True)
    looks = HeadLooks()
    looks.add(weights, np.zeros(n_columns, bool))
    rises = random.normal(size=(layers, heads)) if importance else None
    return ShownStack(name, rows, columns, weights, weights * random.gamma(1, size=n_columns), looks.shares(), rises)


def a_view(names=None, layers=3, heads=2, **changes):
    names = names or [f"t{number}" for number in range(9)]
    one = stack("encoder", "text", "text", len(names), len(names), layers, heads)
    view = AttentionView(
        "Attention of m", "a text", "m says: a", "encoder", {"text": tokens(names)}, [one], "over it", "2 of"
    )
    return replace(view, **changes)


def a_pair_view():
    sides = {"source": tokens([f"s{n}" for n in range(6)]), "target": tokens([f"t{n}" for n in range(4)], 1)}
    stacks = [
        stack("encoder", "source", "source", 6, 6, importance=False),
        stack("decoder", "target", "target", 4, 4, 4, 2, 1, importance=False),
        stack("cross", "target", "source", 4, 6, 4, 2, 2, importance=False),
    ]
    return AttentionView("Attention of pairs", "a source", "writes: b", "2 + 2", sides, stacks, "over it")


def data_of(page):
    return json.loads(Page(page).texts_of("script")[0])


def unpacked(text, *shape):
    return np.frombuffer(b64decode(text), np.uint8).reshape(shape) / 255


def test_what_the_page_holds_is_what_the_view_is():
    view = a_view()
    (want,), (found,) = view.stacks, data_of(draw_attention(view))["stacks"]
    assert unpacked(found["weights"], 3, 2, 9, 9) == pytest.approx(want.weights, abs=0.5 / 255 + 1e-9)
    shares = want.norms / want.norms.sum(-1, keepdims=True)
    scaled = unpacked(found["norms"], 3, 2, 9, 9) * np.array(found["scales"])[:, :, None, None]
    assert scaled == pytest.approx(shares, abs=0.5 / 255 + 1e-6)
    assert unpacked(found["rollout"], 3, 9, 9) == pytest.approx(rollout(want.weights), abs=0.5 / 255 + 1e-9)
    assert found["importance"] == pytest.approx(want.importance, abs=1e-6)
    assert found["names"] == want.names
    assert data_of(draw_attention(view))["first"] == list(np.unravel_index(want.importance.argmax(), (3, 2)))


def test_cross_attention_has_no_rollout():
    assert [one["rollout"] is None for one in data_of(draw_attention(a_pair_view()))["stacks"]] == [False, False, True]


def test_a_page_of_64_tokens_and_36_heads_is_below_a_megabyte():
    view = a_view([f"token{number}" for number in range(64)], 6, 6)
    page = draw_attention(view)
    assert len(page) < 1_000_000
    assert len(draw_attention(a_view([f"token{number}" for number in range(40)], 6, 6))) < 300_000
    assert page == draw_attention(view)


def test_tokens_are_data_whatever_they_are():
    names = [*EVIL, "w"]
    plain = Page(draw_attention(a_view(["w"] * len(names))))
    page = Page(draw_attention(a_view(names, title=EVIL[0], text=EVIL[1], said=EVIL[2])))
    assert [one[0] for one in page.elements] == [one[0] for one in plain.elements]
    assert page.texts_of("title") == page.texts_of("h1") == [EVIL[0]]
    assert json.loads(page.texts_of("script")[0])["tokens"]["text"]["shown"] == names
    assert page.texts_of("script")[1] == plain.texts_of("script")[1]


def test_only_the_pages_own_style_and_script_may_run_and_nothing_is_fetched():
    page = Page(draw_attention(a_view()))
    policy = next(attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv"))
    code = [*page.texts_of("style"), page.texts_of("script")[1]]
    hashes = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes
    assert policy.startswith("default-src 'none';")
    for tag, attrs in page.elements:
        assert not {"src", "style", "srcset", "action"} & set(attrs), tag
        assert not [name for name in attrs if name.startswith("on")], tag
    assert not re.search(r"url\(|@import|innerHTML|insertAdjacent|document\.write|eval\(|fetch\(", "".join(code))
    assert {*re.findall(r"https?:[^\"']+", "".join(code))} == {
        "http://www.w3.org/2000/svg"
    }  # the name of SVG: not fetched


def test_every_part_of_the_page_is_used():
    page = draw_attention(a_view())
    for part in files("wordpipe.pages").joinpath("attention").iterdir():
        if part.name.endswith((".js", ".css")):
            assert part.read_text(encoding="utf-8").splitlines()[0].encode() in page, part.name
    assert b"{{" not in page


def test_it_is_said_that_attention_is_no_explanation():
    assert "Jain & Wallace 2019" in " ".join(Page(draw_attention(a_view())).texts_of("p"))


@needs_browser
@pytest.mark.oracle
class TestInABrowser:
    """With Chromium, playwright and axe-playwright-python, which are no dependencies."""

    @pytest.fixture
    def opened(self, look_at, tmp_path):  # noqa: F811
        def opened(view, width=1280, scheme="light"):
            file = tmp_path / "page.html"
            file.write_bytes(draw_attention(view))
            seen = look_at("file://", color_scheme=scheme)
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.go(str(file))
            return seen

        return opened

    @pytest.mark.oracle
    @pytest.mark.parametrize(
        ("width", "scheme"),
        [
            pytest.param(1280, "light", marks=pytest.mark.slow),
            pytest.param(1280, "dark", marks=pytest.mark.slow),
            (420, "light"),
        ],
    )
    def test_nothing_is_fetched_nothing_fails_and_axe_finds_no_violation(self, opened, width, scheme):
        for view in (a_view(EVIL), a_pair_view()):
            seen = opened(view, width, scheme)
            seen.page.locator("summary").click()
            assert violations(seen.page) == []
            assert seen.said == seen.errors == []
            assert [one for one in seen.asked if not one.startswith(("file:", "data:"))] == []
            assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    def test_it_is_used_by_the_keyboard(self, opened):
        page = opened(a_view()).page
        page.locator('#grid [data-layer="0"][data-head="0"]').click()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert page.locator("#chosen-title").inner_text().startswith("Layer 2, head 2:")
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.dataset.layer") == "2"
        assert page.locator('#grid [aria-pressed="true"]').count() == 1
        page.locator("#matrix").focus()
        page.keyboard.press("ArrowDown")
        assert re.match(r"t1 → t0: [\d.]+", page.locator("#readout").inner_text())
        page.locator("#from button").first.focus()
        assert page.locator("#readout").inner_text().startswith("t0 attends to:")

    def test_words_are_joined_as_by_python_and_rollout_is_its(self, opened):
        view = a_view()
        page = opened(view).page
        (want,) = view.stacks
        number = np.array(view.tokens["text"].number)
        page.locator('input[value="words"]').check()
        page.locator('#grid [data-layer="1"][data-head="1"]').click()
        page.locator("summary").click()
        page.wait_for_selector("#values tbody tr")  # the table is made when it is opened
        rows = page.locator("#values tbody tr")
        found = [[float(one) for one in rows.nth(row).locator("td").all_inner_texts()] for row in range(rows.count())]
        assert np.array(found) == pytest.approx(join_words(want.weights[1, 1], number, number), abs=0.01)
        page.locator('input[value="tokens"]').check()
        page.locator('input[value="rollout"]').check()
        page.locator('#grid [data-layer="2"]').click()
        found = [[float(one) for one in rows.nth(row).locator("td").all_inner_texts()] for row in range(rows.count())]
        assert np.array(found) == pytest.approx(rollout(want.weights)[2], abs=0.003)

    def test_cross_attention_shows_both_texts(self, opened):
        page = opened(a_pair_view()).page
        page.locator('input[value="rollout"]').check()
        page.get_by_label("cross").check()
        assert page.locator('input[value="rollout"]').is_disabled()
        assert page.locator('input[value="weights"]').is_checked()
        assert page.locator("#from button").all_inner_texts() == ["t0", "t1", "t2", "t3"]
        assert page.locator("#to button").all_inner_texts() == [f"s{n}" for n in range(6)]
