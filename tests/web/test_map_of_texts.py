"""The map of texts in a real browser, of a server and as a file: a question, a lasso, keys, colours, hostile titles."""

import re
from itertools import pairwise
from urllib.parse import quote

import pytest

import wordpipe
from tests.support.browsing import cut_off, look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)
from tests.web.test_browser import HOSTILE, READ, fits, until

pytestmark = [needs_browser, pytest.mark.oracle]


@pytest.fixture(scope="module")
def mapped(built, tmp_path_factory):
    """An index over texts with hostile titles, with a field."""
    root = tmp_path_factory.mktemp("mapped")
    rows = [
        {
            "id": f"{n}",
            "title": f"{HOSTILE[n % len(HOSTILE)][:80]} {n}",
            "text": f"{text} note {n}",
            "kind": f"<i>{n % 3}",
        }
        for n, text in enumerate(["the tide rises with the moon", "salt draws water out of bread"] * 30)
    ]
    wordpipe.ingest(rows, output=root / "corpus", metadata=["kind"])
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document")
    wordpipe.index(root / "sentences", output=root / "index")
    return root / "index"


@pytest.fixture(scope="module")
def server(mapped):
    with wordpipe.serve([f"texts={mapped}"], port=0) as server:
        yield server


PAINTED = """(ink) => { // how many pixels of the canvas are not paper
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const paper = [...data.slice(0, 4)].join();
  let n = 0;
  for (let at = 0; at < data.length; at += 4) n += data.slice(at, at + 4).join() !== paper ? 1 : 0;
  return n;
}"""


def test_a_question_lights_its_answers_and_a_lasso_lists_texts(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/?q=salt")
    assert page.get_by_role("link", name="Map").get_attribute("href") == "./map/texts?q=salt"
    page = seen.go("/map/texts?layout=pca&q=salt")  # UMAP has to be compiled first
    page.wait_for_selector("#card .said")
    assert page.input_value("#wanted") == "salt"
    assert "answers to “salt”" in page.locator("#card .said").inner_text()
    assert page.evaluate(PAINTED) > 200
    assert page.evaluate("WORDS.length") == 60
    # a lasso around all, drawn with the button
    page.get_by_role("button", name="Lasso").click()
    box = page.locator("canvas").bounding_box()
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    assert page.locator("#card .said").inner_text() == "60 texts in the lasso"
    assert page.get_by_role("button", name="Lasso").get_attribute("aria-pressed") == "false"
    # a text of the list, by keys, and its page
    page.locator("#card ol button").nth(4).focus()
    page.keyboard.press("Enter")
    page.locator("#card a", has_text="Read the text").wait_for()
    until(page, "document.querySelector('#card .text').innerText.includes('note 4')")
    assert page.url.endswith("#4")
    page.reload()
    page.locator("#card a", has_text="Read the text").click()
    page.wait_for_selector("article.reading")
    assert page.evaluate("window.hurt") is None
    assert seen.errors == []


def test_keys_alone_list_what_is_in_view_and_change_the_colours(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    page.get_by_role("button", name="List").focus()
    page.keyboard.press("Enter")
    assert page.locator("#card .said").inner_text() == "60 texts in view"
    page.locator("canvas").focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.get_by_role("button", name="List").focus()
    page.keyboard.press("Enter")
    assert int(page.locator("#card .said").inner_text().split()[0]) < 60
    page.select_option("#colour", label="kind")
    assert sorted(page.locator("#legend bdi").all_inner_texts()) == ["<i>0", "<i>1", "<i>2"]
    page.keyboard.press("Escape")
    assert seen.errors == []


def test_who_opens_the_address_elsewhere_sees_the_same_part_in_the_same_colours(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca&q=tide")
    page.wait_for_selector("#card [data-word]")
    assert "view=" not in page.url  # all of it
    for _ in range(2):
        page.locator("#zoom-in").click()
        seen.settle()
    page.locator("canvas").press("ArrowRight")
    page.get_by_label("colour by").select_option(index=1)
    page.wait_for_url(re.compile("view=.*colour="))
    shown = f"[...{PLACE}, document.getElementById('colour').value]"
    own, address = page.evaluate(shown), page.url
    other = look_at(server.url)
    again = other.go(address.removeprefix(server.url))
    again.wait_for_selector("#card [data-word]")
    assert again.evaluate(shown) == pytest.approx(own, abs=100)
    assert again.url == address
    again.locator("#reset").click()
    again.get_by_label("colour by").select_option(index=0)
    until(again, "!/view|colour/.test(location.search)")
    assert "q=tide" in again.url
    for wrong in ("view=a,b&colour=none", "view=1,2", "view=99999999,5,1e9"):
        other.go(f"/map/texts?layout=pca&{wrong}").wait_for_selector("#legend button")
    assert seen.errors == other.errors == []


def test_filters_of_the_page_hold_on_the_map_and_are_said_there(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/?q=salt&mix=0&f=" + quote('[["kind", "<i>1"], ["kind", null]]'))
    to = page.get_by_role("link", name="Map").get_attribute("href")
    page = seen.go(f"{to[1:]}&layout=pca")
    said = "20 answers to “salt” with kind: <i>1 or no value"
    page.locator("#card .said", has_text=said).wait_for()
    assert page.title().startswith("salt · A map of")
    assert "f=%5B%5B" in page.locator("#card a").first.get_attribute("href")
    assert "f=%5B%5B" in page.get_by_role("link", name="Search").get_attribute("href")
    page.get_by_role("button", name="without filters").click()
    page.locator("#card .said", has_text="60 answers to “salt”").wait_for()
    assert "f=" not in page.url
    page = seen.go("/map/texts?layout=pca&where=" + quote("kind = '<i>1'"))
    page.locator("#card .said", has_text="20 texts with condition: kind").wait_for()
    page = seen.go("/map/texts?layout=pca&q=salt&where=colour+%3D+1")
    page.locator("#card .said", has_text="without the filters, which cannot be applied on this map").wait_for()
    seen.errors.clear()  # the browser says that the condition was refused


def test_the_legend_lists_its_texts_and_a_reset_keeps_the_question(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca&q=salt")
    page.wait_for_selector("#card .said")
    answers = page.locator("#card .said").inner_text()
    entry = page.locator("#legend button").first
    said, size = entry.locator("bdi").inner_text(), entry.locator(".count").inner_text()
    entry.click()
    assert page.locator("#card .said").inner_text() == f"{size} texts of “{said}”"
    assert page.locator("#card ol button").count() == int(size)
    assert entry.get_attribute("aria-pressed") == "true"
    page.locator("#card ol button").nth(2).click()  # one of them begins as it does elsewhere
    page.locator("#card .text", has_text="note").wait_for()
    page.locator("#card .to-list").click()
    entry.click()
    page.locator("#card .said", has_text=answers).wait_for()
    entry.click()
    page.get_by_role("button", name="Reset").click()
    page.locator("#card .said", has_text=answers).wait_for()
    assert page.input_value("#wanted") == "salt"
    assert entry.get_attribute("aria-pressed") == "false"
    assert seen.errors == []


def test_a_list_of_others_leads_back_to_the_answers_and_names_of_groups_stay(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    page.fill("#wanted", "salt")
    page.locator("#card .said", has_text="answers to “salt”").wait_for()
    answers = page.locator("#card .said").inner_text()
    seen.settle()
    named = "() => { let n = 0; window.writeGroup = () => n++; drawNow(true); return n; }"
    assert page.evaluate(named) == page.locator("#legend button").count()
    for leave in (lambda: page.locator("#card .to-list").click(), lambda: page.keyboard.press("Escape")):
        page.get_by_role("button", name="List").click()
        page.locator("#card .said", has_text="60 texts in view").wait_for()
        assert page.locator("#card .to-list").inner_text() == "← answers to “salt”"
        page.locator("canvas").focus()
        leave()
        page.locator("#card .said", has_text=answers).wait_for()
        assert page.locator("#card .to-list").count() == 0
    page.keyboard.press("Escape")
    assert page.locator("#card .said").count() == 0
    # the answers go with their question
    assert page.input_value("#wanted") == ""
    assert page.url.endswith("?layout=pca")
    assert "q=" not in page.get_by_role("link", name="Search").get_attribute("href")
    assert seen.errors == []


def test_a_list_of_what_is_in_view_leaves_answers_lit_and_they_close_with_question_and_filters(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca&q=salt&f=" + quote('[["kind", "<i>1"]]'))
    page.locator("#card .said", has_text="20 answers to “salt”").wait_for()
    lit = "few.reduce((sum, one) => sum + one)"
    page.get_by_role("button", name="List").click()
    assert page.locator("#card .said").inner_text() == "60 texts in view"
    assert page.evaluate(lit) == 20
    page.reload()
    page.locator("#card .said", has_text="60 texts in view").wait_for()
    assert page.evaluate(lit) == 20
    page.get_by_role("button", name="Close").click()
    page.locator("#card .said", has_text="20 answers to “salt”").wait_for()
    page.get_by_role("button", name="Close").click()
    page.locator("#card .hint").wait_for()
    assert page.evaluate(lit) == 0
    assert page.input_value("#wanted") == ""
    assert page.url.endswith("?layout=pca")
    # Escape in the field empties it, and puts the lights out
    page.fill("#wanted", "salt")
    page.locator("#card .said", has_text="answers to “salt”").wait_for()
    page.keyboard.press("Escape")
    page.locator("#card .hint").wait_for()
    assert page.url.endswith("?layout=pca")
    assert seen.errors == []


def test_the_best_answers_are_called_so_and_less_related_ones_are_told_apart(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.page
    hits = [{"row": row, "related": row < 40 and row != 3} for row in range(200)]
    page.route("**/search?*", lambda route: route.fulfill(json={"hits": hits}))
    seen.go("/map/texts?layout=pca&q=salt")
    page.locator("#card .said", has_text="The 60 best answers to “salt”; 140 more are not on the map").wait_for()
    near = page.locator("#card .near")
    assert near.count() == 1
    assert near.inner_text().startswith("less related: ")
    assert "40" in page.locator("#card li", has=page.locator(".near")).locator("button").inner_text()
    assert violations(page) == []
    assert seen.errors == []


WRITTEN = """() => { // what is written on the canvas, and where
  const seen = [], own = context.fillText;
  context.fillText = (said, x, y) => seen.push([said, x, y]);
  drawNow(true);
  context.fillText = own;
  return seen;
}"""


def test_each_group_has_its_name_where_it_is_dense_though_another_lies_there(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    seen.settle()
    page.evaluate("""() => { // most of each group at one place, the others in a corner
      const corners = [[2000, 2000], [60000, 60000]];
      const cornerOf = (n) => corners[GROUPS[n] === NAMES[0][0] ? 0 : 1];
      for (let n = 0; n < N; n++) PLACES.set(n % 12 ? [30000 + 9 * n, 30000] : cornerOf(n), 2 * n);
      findNamePlaces();
      refresh();
    }""")
    names = page.locator("#legend bdi").all_inner_texts()
    written = {said: (x, y) for said, x, y in page.evaluate(WRITTEN) if said in names}
    assert sorted(written) == sorted(names)
    lines = sorted(y for _, y in written.values())
    assert all(below - above > 17 for above, below in pairwise(lines)), lines
    middle = page.evaluate("screenY(30000)")
    assert all(abs(one - middle) < 22 for one in lines), lines
    assert seen.errors == []


def test_titles_appear_when_one_zooms_in_though_many_dots_are_in_view(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    seen.settle()
    # as if there were very many: twelve places, of which each has the dots of one title, all in view when one zooms in
    page.evaluate("""() => {
      for (let n = 0; n < N; n++) {
        PLACES.set([26000 + 900 * (n % 12), 30000 + 900 * (n % 12)], 2 * n);
        WORDS[n] = `title ${n % 12}`;
      }
      PLACES.set([0, 0], 0);
      refresh();
    }""")
    page.evaluate("() => { const own = drawTitles; drawTitles = (seen, isFew) => own(Array(99), isFew); }")
    titles = f"() => ({WRITTEN})().map(([said]) => said).filter((said) => said.startsWith('title'))"
    assert page.evaluate(titles) == []  # the names of groups
    page.evaluate("Object.assign(camera, {x: 30900, y: 34900, scale: 4 * stage.fit})")
    found = page.evaluate(titles)
    assert len(found) > 3
    assert len(set(found)) == len(found)
    # of a question those of its answers alone
    page.evaluate("showFew([13, 16, 20], '3 answers')")
    assert set(page.evaluate(titles)) <= {"title 1", "title 4", "title 8"}
    assert seen.errors == []


@pytest.mark.parametrize("size", [(740, 360), (420, 360)])
def test_a_phone_on_its_side_or_with_a_keyboard_shows_the_map(look_at, server, size):  # noqa: F811
    seen = look_at(server.url)
    page = seen.page
    page.set_viewport_size({"width": size[0], "height": size[0] if size[0] > 700 else 860})
    seen.go("/map/texts?layout=pca&q=salt").wait_for_selector("#card .said")
    was = page.evaluate("turned")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    seen.settle()
    assert page.evaluate("turned") == was  # what takes from the height alone does not turn the map
    if size[0] > 700:
        assert page.evaluate("stage.height") > 150


def test_the_text_that_was_read_is_marked_on_the_map(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/text/7?index=texts&q=salt")
    to = page.get_by_role("link", name="Map").get_attribute("href")
    assert to == "../map/texts?q=salt#7"
    seen.go("/map/texts?layout=pca&q=salt#7")
    page.locator("#card a", has_text="Read the text").wait_for()
    seen.settle()
    assert page.evaluate("ROWS[state.chosen]") == 7
    assert page.evaluate("fewNumbers.length") > 1  # the answers are lit beside it
    at_ring = """(chosen) => {
      state.chosen = chosen;
      drawNow(true);
      const [word, density] = [numberOfRow(7), canvas.width / stage.width];
      const at = [(screenX(placeX(word)) + 8) * density, screenY(placeY(word)) * density];
      return [...context.getImageData(...at, 1, 1).data].join();
    }"""
    assert page.evaluate(at_ring, 7) != page.evaluate(at_ring, -1)
    assert seen.errors == []


PLACE = "[camera.x, camera.y, camera.scale / stage.fit].map((one) => Math.round(100 * one))"


def test_a_text_that_is_opened_from_the_map_leads_back_to_its_question_place_and_selection(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.fill("#wanted", "salt")
    page.locator("#card .said", has_text="answers to “salt”").wait_for()
    assert page.url.endswith("/map/texts?layout=pca&q=salt")
    for label, view in (("Search", "./?q=salt&index=texts"), ("About", "./?q=salt&tab=about&index=texts")):
        given = page.get_by_role("link", name=label, exact=True).get_attribute("href").partition("?")[2]
        assert sorted(given.split("&")) == sorted(view.partition("?")[2].split("&")), label
    page.evaluate("choose(numberOfRow(7))")
    page.evaluate("zoomAt(3, 200, 300)")
    link = page.locator("#card a", has_text="Read the text")
    link.wait_for()
    seen.settle()
    place, few = page.evaluate(PLACE), page.evaluate("fewNumbers.length")
    assert few > 1
    for way in ("link", "back", "further"):
        link.click()
        back = page.get_by_role("link", name="back to the map")
        back.wait_for()
        assert page.get_by_text("back to the answers").count() == 0
        chosen = 7
        if way == "further":
            page.locator(".like-texts a").first.click()
            page.wait_for_url(lambda url: "row=7" not in url)
            chosen = int(page.url.partition("row=")[2].partition("&")[0])
            page.wait_for_selector(f"a[rel=bookmark]:has-text('{READ}')")
        page.go_back() if way == "back" else back.click()
        page.locator("#card .to-list", has_text="answers to “salt”").wait_for()
        seen.settle()
        assert page.url.endswith(f"/map/texts?layout=pca&q=salt#{chosen}"), way
        assert page.evaluate("ROWS[state.chosen]") == chosen
        assert page.input_value("#wanted") == "salt"
        assert page.evaluate("fewNumbers.length") == few
        if way != "further":
            assert page.evaluate(PLACE) == place, way
    assert seen.errors == []


def test_each_text_of_a_list_leads_to_its_page_and_back_to_the_list(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    entry = page.locator("#legend button").first
    entry.click()
    said = page.locator("#card .said").inner_text()
    links = page.locator("#card ol a", has_text="read")
    assert links.count() == page.locator("#card ol button").count() == page.evaluate("fewNumbers.length")
    page.locator("canvas").hover(position={"x": 300, "y": 300})  # the list stays
    assert page.locator("#card .said").inner_text() == said
    for way in ("link", "back"):
        links.nth(12).click()
        back = page.get_by_role("link", name="back to the map")
        page.locator(f"a[rel=bookmark]:has-text('{READ}')").wait_for()
        back.click() if way == "link" else page.go_back()
        page.locator("#card .said", has_text=said).wait_for()
        assert page.locator("#legend button").first.get_attribute("aria-pressed") == "true"
        assert page.evaluate("Number(document.activeElement.dataset.word)") == page.evaluate("fewNumbers[12]"), way
    # the text beside the map, and back to the list; then to the map
    page.locator("#card ol button").nth(3).click()
    page.locator("#card .to-list").click()
    page.locator("#card .said", has_text=said).wait_for()
    page.get_by_role("button", name="Close").click()
    page.locator("#card .hint").wait_for()
    assert page.evaluate("fewNumbers.length") == 0
    assert page.locator("#legend button").first.get_attribute("aria-pressed") == "false"
    assert seen.errors == []


def test_a_long_list_goes_on(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    page.evaluate("for (let n = 0; n < 450; n++) WORDS[n] = `text ${n}`")
    page.evaluate("showFew(Array.from({length: 450}, (_, n) => n), '450 texts')")
    for n, more in ((200, "and 250 more"), (400, "and 50 more")):
        assert page.locator("#card ol a").count() == n
        page.get_by_role("button", name=more).click()
    assert page.locator("#card ol a").count() == 450
    assert (
        page.evaluate("[...document.querySelectorAll('#card ol > li > button')].indexOf(document.activeElement)") == 400
    )
    assert seen.errors == []


def test_texts_of_one_title_are_one_entry_of_a_list(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/map/texts?layout=pca")
    page.wait_for_selector("#legend button")
    page.evaluate("for (const n of [7, 9, 50]) WORDS[n] = 'Autism'")
    page.evaluate("showFew([1, 7, 4, 50], '4 texts')")
    entries = page.locator("#card ol.texts > li")
    assert entries.count() == 3
    assert entries.nth(1).inner_text() == "Autism · 2 texts"
    fold = page.locator("#card summary")
    fold.focus()
    page.keyboard.press("Enter")
    inner = page.locator("#card details button")
    inner.first.wait_for()
    assert inner.all_inner_texts() == ["text 1 of 3", "text 3 of 3"]
    assert page.get_by_role("button", name="Autism, text 3 of 3").count() == 1
    inner.nth(1).click()
    page.locator("#card", has_text="text 3 of 3 with this title").wait_for()
    page.locator("#card .text", has_text="note 50").wait_for()
    page.locator("#card .to-list").click()
    inner.nth(1).wait_for()  # it is still open
    assert violations(page) == []
    page.get_by_role("link", name="read: Autism, text 3 of 3").click()
    page.locator(f"a[rel=bookmark]:has-text('{READ}')").wait_for()
    assert seen.errors == []


PHONE = {"viewport": {"width": 420, "height": 820}, "has_touch": True, "is_mobile": True}


@pytest.mark.slow
def test_paper_says_what_is_asked_and_has_the_whole_list_without_its_buttons(look_at, server):  # noqa: F811
    seen = look_at(server.url, viewport={"width": 700, "height": 1000})  # a sheet upright
    page = seen.go("/map/texts?layout=pca&q=salt")
    page.wait_for_selector("#card .said")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    told, address = page.locator("p.paper").all_inner_texts()
    today = page.evaluate("new Date().toLocaleDateString('sv')")
    assert told.startswith("question: salt · "), told
    assert told.endswith(f" · printed on {today}"), told
    assert address == page.url
    assert page.locator("#card :is(a, .close)").filter(visible=True).count() == 0
    assert page.locator("#legend button").first.is_visible()
    assert page.evaluate("getComputedStyle(document.getElementById('card')).overflowY") == "visible"


def test_on_a_phone_nothing_is_covered_and_fingers_move_the_map(look_at, server):  # noqa: F811
    seen = look_at(server.url, **PHONE)
    page = seen.go("/map/texts?layout=pca&q=salt")
    page.locator("#card .said").wait_for()
    seen.settle()

    def box(what):
        return page.locator(what).bounding_box()

    def below(one, other):
        return box(one)["y"] >= box(other)["y"] + box(other)["height"] - 1

    assert below("#map", "#search")
    assert below(".tools", "#map")
    assert below("#card", "main")
    assert box("#map")["height"] > 200
    assert box("#card")["y"] + box("#card")["height"] <= 821
    assert cut_off(page) == []
    page.get_by_role("button", name="Close").tap()
    # the legend is folded, and opens without a word that is cut
    assert below("#groups", "main")
    assert box("#groups")["height"] < 60
    page.locator("#groups summary").tap()
    page.locator("#legend button").last.scroll_into_view_if_needed()
    assert page.evaluate(
        "[...document.querySelectorAll('#legend span')].every((one) => one.scrollWidth <= one.clientWidth + 1)"
    )
    page.locator("#groups summary").tap()
    seen.settle()
    # names of groups stand within the part that does not fade
    drawn = page.evaluate("""() => {
      const seen = [], own = context.fillText;
      context.fillText = (said, x, y) => {
        const half = context.measureText(said).width / 2;
        seen.push([x - half, x + half]);
        own.call(context, said, x, y);
      };
      drawNow(true);
      context.fillText = own;
      return seen;
    }""")
    assert drawn
    assert all(left >= 19 and right <= 401 for left, right in drawn), drawn
    # one finger, two fingers, a tap
    session = seen.context.new_cdp_session(page)
    top = box("#map")["y"]

    def touch(*steps):
        for kind, step in zip(["touchStart", *["touchMove"] * (len(steps) - 1)], steps, strict=True):
            points = [{"x": x, "y": top + y, "id": n} for n, (x, y) in enumerate(step)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    before = page.evaluate("({...camera})")
    touch([(200, 200)], [(180, 190)], [(150, 170)], [(140, 160)])
    after = page.evaluate("({...camera})")
    assert after["scale"] == before["scale"]
    assert after["x"] > before["x"]
    assert after["y"] > before["y"]
    touch([(180, 200), (220, 200)], [(160, 200), (240, 200)], [(120, 200), (280, 200)])
    assert page.evaluate("camera.scale") > 2 * after["scale"]
    page.evaluate("Object.assign(camera, wholeMap())")
    page.evaluate("drawNow(true)")
    x, y = page.evaluate("[screenX(placeX(5)), screenY(placeY(5))]")
    near = page.evaluate("([x, y]) => wordAt(x, y, TOUCH_REACH)", [x, y])
    page.wait_for_timeout(400)  # two taps at once are a zoom
    touch([(x, y)])
    page.locator("#card a", has_text="Read the text").wait_for()
    assert page.evaluate("state.chosen") == near
    assert below("#card", "main")
    page.locator("#card a", has_text="Read the text").tap()
    page.get_by_role("link", name="back to the map").tap()
    page.locator("#card a", has_text="Read the text").wait_for()
    assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_has_no_barrier_and_fits_and_says_all_without_a_script(look_at, server, mapped, tmp_path, scheme):  # noqa: F811
    wordpipe.map(mapped, tmp_path / "map.html", layout="pca")
    for base, path in ((server.url, "/map/texts?layout=pca&q=salt"), ("file://", str(tmp_path / "map.html"))):
        seen = look_at(base, color_scheme=scheme)
        page = seen.go(path)
        page.wait_for_selector("#legend button")
        seen.settle()
        assert violations(page) == []
        for width in (1400, 900, 420, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page), width
        if base == "file://":
            page.fill("#wanted", "salt <style>")
            page.locator("#card .said", has_text="5 titles with").wait_for()
            page.evaluate("choose(9)")
            assert page.evaluate("getComputedStyle(document.querySelector('#card .text')).display") == "block"
        assert page.evaluate("window.hurt") is None
        assert seen.errors == []
        seen = look_at(base, color_scheme=scheme, java_script_enabled=False)
        page = seen.go(path)
        assert page.locator("noscript img, img").first.is_visible()
        page.locator("noscript summary").first.click()
        assert page.locator("noscript details[open] li").count() > 0
        assert fits(page)
        assert not page.locator("canvas").is_visible()
