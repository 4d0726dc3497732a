"""The map of served words in a real browser: a word, the way to the words view and back, an analogy, hostile words."""

from urllib.parse import quote, urlencode

import numpy as np
import pytest

import wordpipe
from tests.support.browsing import cut_off, look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)
from tests.support.made_vectors import made_words
from tests.web.test_browser import HOSTILE, fits, until

pytestmark = [needs_browser, pytest.mark.oracle]

QUAD = {"a": "man", "b": "woman", "c": "king", "d": "queen"}
IN_VIEW = """[0, 1, 2, 3].every((word) => {
  const [x, y] = [screenX(placeX(word)), screenY(placeY(word))];
  return x > 0 && y > 0 && x < stage.width && y < stage.height;
})"""
ARROWS = """() => { // those that are drawn
  const drawn = [], own = drawArrow;
  drawArrow = (from, to) => (drawn.push([WORDS[from], WORDS[to]]), own(from, to));
  drawNow(true);
  drawArrow = own;
  return drawn;
}"""
MIDDLES = """() => [[0, 1], [2, 3]].map(([from, to]) => { // the pixels in the middle of both arrows
  const density = canvas.width / stage.width, at = (one, other) => Math.round((density * (one + other)) / 2);
  const [x, y] = [at(screenX(placeX(from)), screenX(placeX(to))), at(screenY(placeY(from)), screenY(placeY(to)))];
  return [...context.getImageData(x, y, 1, 1).data].join();
})"""
MARKED = "[...focusNow().marked].map((word) => WORDS[word])"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Words of which four are corners of a parallelogram, and hostile ones."""
    random = np.random.default_rng(0)
    evil = [" ".join(one.split())[:60].replace("\u0000", "") for one in HOSTILE if "\u0000" not in one]
    words = [*QUAD.values(), *evil, *(f"w{number}" for number in range(300))]
    vectors = random.normal(size=(len(words), 8)).astype(np.float32)
    man, woman, king = vectors[0], vectors[1], vectors[2]
    vectors[3] = king - man + woman
    counts = sorted(random.integers(1, 1_000, len(words)).tolist(), reverse=True)
    path = made_words(tmp_path_factory.mktemp("mapped") / "words", vectors, counts, words)
    with wordpipe.serve([f"a b's={path}"], port=0) as server:
        yield server


MAP = "/map/" + quote("a b's")


def test_the_word_one_looks_at_is_marked_and_leads_to_the_words_and_back(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/?tab=words&word=king")
    link = page.get_by_role("link", name="Show king on the map")
    assert link.get_attribute("href") == f".{MAP}#king"
    page = seen.go(f"{MAP}?layout=pca#king")  # UMAP has to be compiled first
    page.locator("#card h2", has_text="king").wait_for()
    near = page.evaluate("[...neighboursOf(wordNamed('king'))].map((word) => WORDS[word])")
    assert len(near) == 10
    assert page.evaluate(MARKED) == ["king", *near]
    shown = page.locator("#card ol bdi").all_inner_texts()
    assert len(shown) == 10
    # a click on a word of the canvas chooses it, one more opens its neighbours in the words view
    page.evaluate("choose(-1)")
    page.evaluate("Object.assign(camera, wholeMap())")
    x, y = page.evaluate("[screenX(placeX(2)), screenY(placeY(2))]")
    page.evaluate("drawNow(true)")
    box = page.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + x, box["y"] + y)
    chosen = page.evaluate("WORDS[state.chosen]")
    page.wait_for_timeout(400)  # two clicks at once are a zoom
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.wait_for_selector("table.words")
    assert page.input_value("#word") == chosen
    back = page.get_by_role("link", name=f"Show {chosen} on the map").get_attribute("href")
    assert back == f".{MAP}#{quote(chosen)}"
    seen.go(f"{MAP}?layout=pca#king")
    page.get_by_role("link", name="Neighbours of king among all words").click()
    page.wait_for_selector("table.words")
    assert page.input_value("#word") == "king"
    assert seen.errors == []


def test_an_analogy_is_drawn_with_its_words_and_two_arrows(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/?tab=words&a=man&b=woman&c=king")
    link = page.get_by_role("link", name="Draw this analogy on the map").get_attribute("href")
    assert link == f".{MAP}?{urlencode(QUAD)}"
    page = seen.go(f"{MAP}?{urlencode(QUAD)}&layout=pca")
    page.locator("#card .said").wait_for()
    assert page.locator("#card .said").inner_text() == "man is to woman as king is to queen"
    assert page.evaluate(MARKED) == [*QUAD.values()]
    assert page.evaluate(IN_VIEW)
    assert page.evaluate(ARROWS) == [["man", "woman"], ["king", "queen"]]
    with_arrows = page.evaluate(MIDDLES)
    page.locator("#card ol button", has_text="queen").click()
    page.locator("#card h2", has_text="queen").wait_for()
    assert len(page.evaluate(MARKED)) == 11  # now its neighbours
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    page.locator("#card .said").wait_for()
    page.get_by_role("link", name="Back to the analogy").wait_for()
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    page.locator("#card .hint").wait_for()
    assert page.evaluate(MARKED) == page.evaluate(ARROWS) == []
    assert all(one != other for one, other in zip(with_arrows, page.evaluate(MIDDLES), strict=True))
    seen.go(f"{MAP}?{urlencode(QUAD)}&layout=pca")
    page.get_by_role("link", name="Back to the analogy").click()
    page.wait_for_selector("table.words")
    assert [one.input_value() for one in page.locator(".analogy input[type=text]").all()] == ["man", "woman", "king"]
    assert seen.errors == []


def test_a_word_that_is_not_on_the_map_is_said_to_be_missing(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go(f"{MAP}?layout=pca#<img src=x onerror=hurt=1>")
    page.locator("#card .said", has_text="“<img src=x onerror=hurt=1>” is not among the").wait_for()
    page = seen.go(f"{MAP}?{urlencode({**QUAD, 'd': '<b>no'})}&layout=pca")
    page.locator("#card .said").wait_for()
    assert "words of this map: <b>no." in page.locator("#card").inner_text()
    assert page.evaluate(MARKED) == ["man", "woman", "king"]
    assert page.locator("#card b").count() == 0
    page = seen.go(f"{MAP}?layout=pca#KING")
    page.locator("#card h2", has_text="king").wait_for()
    assert page.evaluate("window.hurt") is None
    assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_has_no_barrier_and_fits_and_says_all_without_a_script(look_at, server, scheme):  # noqa: F811
    for way in ("?layout=pca", f"?{urlencode(QUAD)}&layout=pca", "?layout=pca#king"):
        seen = look_at(server.url, color_scheme=scheme)
        page = seen.go(MAP + way)
        page.wait_for_selector("#legend button")
        seen.settle()
        for width in (1400, 900, 420, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page), width
            if width != 320:
                assert violations(page) == [], (way, width)
                assert [one for one in cut_off(page) if "unseen" not in one] == [], (way, width)
        assert page.evaluate("window.hurt") is None
        assert seen.errors == []
    seen = look_at(server.url, color_scheme=scheme, java_script_enabled=False)
    page = seen.go(f"{MAP}?layout=pca")
    assert page.locator("noscript img, img").first.is_visible()
    page.locator("noscript summary").first.click()
    assert fits(page)
    page.locator("noscript details[open] li a").first.click()
    page.wait_for_selector("table.words")


def test_a_file_leads_nowhere(look_at, server, built, tmp_path):  # noqa: F811
    wordpipe.map(built / "words", tmp_path / "map.html", layout="pca", n_words=60)
    page = look_at("file://").go(str(tmp_path / "map.html"))
    page.wait_for_selector("#legend button")
    page.evaluate("choose(3)")
    assert page.locator("#card a, header a").count() == 0
    page.evaluate("select(3)")
    until(page, "state.chosen === 3")
