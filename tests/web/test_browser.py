"""The page, and a report, in a real browser: answers as one types, keys, filters, accessibility, hostile texts, no network."""

import json
import os
import re
import shutil
import threading
from pathlib import Path
from urllib.parse import quote, urlencode, urljoin

import pytest

import wordpipe
from tests.support.browsing import cut_off, look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)

pytestmark = needs_browser  # a program of others: oracle, but for two that landing tries

HOSTILE = [
    "</script><script>window.hurt=1</script> salt",
    "<img src=x onerror='window.hurt=1'> salt",
    "javascript:window.hurt=1 salt",
    "\u202e\u2066salt turned around\u202c",
    "salt " + "w" * 20_000,
    "salt {{7*7}} ${7*7} %s \\u003cscript>",
    "salt \u0000\u001b[2J\u007f",
    "Z\u0338\u0322\u031b\u034ea\u0334l\u0335g\u0337o salt " + "\u0301" * 500,
    "سلط salt ملح עברית",
    "طلع القمر فوق البحر salt ثم غاب القمر",
    "הירח זרח מעל הים salt ואז שקע הירח",
    "salt <style>*{display:none}</style><base href=//example.com>",
]


@pytest.fixture(scope="module")
def hostile(built, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    rows = [
        {
            "id": f"{text[:60]}{n}",
            "title": text[:3_000],
            "text": f"{text} note {n}",
            "kind": text[:200],
            "<b>name": text[:50],
        }
        for n, text in enumerate(HOSTILE * 3)
    ]
    wordpipe.ingest(rows, output=root / "corpus", metadata=["kind", "<b>name"])
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document")
    wordpipe.index(root / "sentences", output=root / "index")
    return root / "index"


@pytest.fixture(scope="module")
def server(records, hostile, built, heads):
    with wordpipe.serve(
        [
            f"records={records}",
            f"hostile={hostile}",
            built / "words",
            built / "model",
            heads / "clm",
            heads / "colours",
        ],
        port=0,
    ) as server:
        yield server


@pytest.fixture
def see(look_at, server):  # noqa: F811
    return lambda base=None, **options: look_at(server.url if base is None else base, **options)


def fits(page):
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide <= 0


def until(page, expression):
    """Wait until something is true on the page, whose policy lets no text be run as a script by a timer of its own."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


HITS = "#results ol.hits > li.hit"
READ = "copy link to this text"  # on the page of a text, when its script has run


@pytest.mark.landing
def test_answers_come_as_one_types_and_the_url_says_what_was_asked(see):
    seen = see()
    page = seen.go("/")
    page.wait_for_selector("#filters label")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("bees find home", delay=15)
    page.wait_for_selector(HITS)
    until(page, "location.search.includes('bees+find+home')")
    assert "Bees" in page.locator("mark").first.inner_text()
    assert page.title().startswith("bees find home")
    assert "10 answers" in page.locator(".status").inner_text()
    searches = [url for url in seen.asked if "/search?" in url]
    assert len(searches) < len("bees find home")
    seen.settle()
    page.locator(".export summary").click()
    said = page.locator(".export li").all_inner_texts()
    assert said == [
        "these 10 answers, as on the page: CSV JSON",
        "all 10 texts with words of the question, ordered by words alone: CSV JSON",
        "all 40 texts, in the order of the page: CSV JSON",
    ]
    files = page.locator(".export").get_by_role("link", name="JSON")
    counts = [len(page.request.get(urljoin(page.url, one.get_attribute("href"))).json()["hits"]) for one in files.all()]
    assert counts == [10, 10, 40]
    with page.expect_download() as file:
        page.locator(".export").get_by_role("link", name="CSV").nth(1).click()
    name = file.value.suggested_filename
    assert re.fullmatch(r"bees-find-home_all-10-by-words_\d{4}-\d\d-\d\d\.csv", name)
    assert files.nth(1).get_attribute("download") == name.replace("csv", "json")
    table = Path(file.value.path()).read_bytes()
    assert table.startswith("\ufeffrank".encode())
    assert f"{seen.base}/text/r-2?row=2&index=records" in table.decode()
    page.reload()
    page.wait_for_selector(HITS)
    assert page.input_value("#q") == "bees find home"
    page.fill("#q", "")
    page.wait_for_selector(".keys")
    assert seen.errors == []


@pytest.mark.oracle
def test_answers_that_come_too_late_are_dropped(see):
    from playwright.sync_api import Error

    seen = see()
    page = seen.go("/")
    page.wait_for_selector("#filters label")
    waits, gone = threading.Event(), []

    def slow(route):
        gone.append(route)  # answered when the second one has long been

    page.route("**/search?q=salt&*", slow)
    page.fill("#q", "salt")
    page.wait_for_timeout(300)
    page.fill("#q", "rust eats iron")
    page.wait_for_selector(f"{HITS} mark")
    first = page.locator(HITS).first.inner_text()
    for route in gone:
        try:
            route.fulfill(status=200, json={"query": "salt", "hits": [], "seconds": 1, "nothing": None, "passages": []})
        except Error:
            waits.set()  # it was given up
    page.wait_for_timeout(200)
    assert page.locator(HITS).first.inner_text() == first
    assert "Rust" in first


@pytest.mark.oracle
@pytest.mark.parametrize("path", ["/?index=records", "/?index=records&q=salt&sort=year%3Adesc"])
def test_what_is_typed_before_the_script_runs_is_asked(see, path):
    """The server's page stands there at once; on a slow machine one types into its field before anything listens."""
    seen, held = see(), []
    page = seen.page
    page.route("**/main.js*", lambda route: held.append(route))
    page.goto(seen.base + path, wait_until="commit")
    page.fill("#q", "rust eats iron")
    while not held:
        page.wait_for_timeout(20)
    page.unroute("**/main.js*")
    for route in held:
        route.continue_()
    page.locator(f"{HITS} mark", has_text="Rust").first.wait_for()
    assert page.input_value("#q") == "rust eats iron"
    asked = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    assert asked | {"prefix": "1"} == {"q": "rust eats iron", "prefix": "1", "index": "records"}  # by relevance
    page.go_back()
    until(page, f"location.search === '{path[1:]}'")
    assert seen.errors == []


@pytest.mark.oracle
def test_home_asks_a_question_and_lists_rows_by_a_filter(see):
    seen = see()
    page = seen.go("/?index=records")
    page.wait_for_selector("#filters label")
    seen.settle()  # the script puts the queries there anew when the filters are counted
    link = page.locator("#results .begin a").first
    asked = link.inner_text()
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(HITS)
    assert (page.input_value("#q"), page.evaluate("document.activeElement.id")) == (asked, "q")
    assert asked in page.locator(HITS).first.inner_text()
    page.fill("#q", "")
    page.wait_for_selector("#results .begin")
    page.get_by_role("button", name="Search").click()  # without words it leads to the field for them
    until(page, "document.activeElement.id === 'q'")
    page.locator("#filters label", has_text="de").first.click()
    until(page, "document.querySelector('.status')?.innerText.startsWith('10 answers')")
    page.locator(".chip", has_text="lang: de").click()
    until(page, "!location.search.includes('f=')")  # what is typed before is put back
    page.fill("input[name=where]", "year > 2000")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.status')?.innerText.startsWith('10 of 29 answers')")
    assert page.evaluate("document.activeElement.name") == "where"
    assert seen.errors == []


@pytest.mark.oracle
def test_old_answers_do_not_stand_as_those_of_a_new_question(see):
    seen = see()
    page = seen.go("/?index=records&q=salt+bread&mix=0")
    page.wait_for_selector(HITS)
    held = []
    page.route("**/search?*", lambda route: held.append(route))
    page.keyboard.press("/")
    page.keyboard.type("zzzqq")
    assert page.get_attribute("#results", "aria-busy") == "true"
    assert float(page.evaluate("getComputedStyle(document.querySelector('#results')).opacity")) < 0.5
    while not held:
        page.wait_for_timeout(20)
    until(page, "document.querySelector('.status').innerText === 'Searching…'")
    for route in held:
        route.continue_()
    page.unroute("**/search?*")
    page.wait_for_selector("#results:not([aria-busy])")
    assert page.locator(HITS).count() == 0  # at once, not when the word is known to be finished
    page.locator("#results .lead", has_text="nothing was found").wait_for()
    assert seen.errors == []


@pytest.mark.oracle
def test_a_remark_offers_what_the_page_has(see):
    page = see().go("/?index=records&q=r-5")
    told = page.locator("p.unknown", has_text="this is the record with the id r-5")
    told.get_by_role("button", name="a plain search").click()
    until(page, "location.search.includes('exact=1')")
    until(page, "!document.querySelector('#results').innerText.includes('this is the record')")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("0")
    until(page, "!location.search.includes('exact')")  # another question is read as usual


def test_why_names_no_word_that_was_not_asked(see):
    """Feedback adds words of the first answers, some of which begin like a word of the question."""
    page = see().go("/")
    terms = [
        {"stem": "volcano", "score": 2.0, "count": 3, "answers": 0.5},
        {"stem": "volcan", "score": 1.0, "count": 1, "answers": 1.0},  # of the first answers alone
    ]
    hit = {"score": 0.9, "explain": {"mode": "hybrid", "dense": None, "lexical": {"score": 3.0, "terms": terms}}}
    draw = (
        "([hit]) => import('/static/why.js').then(({drawWhy}) => drawWhy(hit, {words: 'volcano eruption'}).innerText)"
    )
    assert page.evaluate(draw, [hit]).startswith("Found because the text has volcano 3 times.")


def test_why_writes_words_as_the_text_does_and_small_shares_in_one_row(see):
    page = see().go("/")
    scores = [2.0, 0.5, 0.25, 0.25, 3e-4, 1e-4, -5.2e-8, 8e-5]
    words = ["lighthouses", "Jupiter", "café", "café", *"abcd"]
    terms = [{"stem": word[:4], "word": word, "score": one} for word, one in zip(words, scores, strict=True)]
    hit = {"score": sum(scores), "explain": {"mode": "lexical", "lexical": {"score": sum(scores), "terms": terms}}}
    draw = """([hit]) => import('/static/why.js').then(({drawWhy}) => {
        const rows = [...drawWhy(hit, {words: ""}).querySelectorAll("tr")];
        return rows.map((one) => [...one.children].slice(0, 2).map((cell) => cell.innerText));
    })"""
    assert page.evaluate(draw, [hit]) == [
        ["lighthouses", "2.000"], ["Jupiter", "0.500"], ["café", "0.500"], ["and 4 others, together: less than 0.001"],
    ]  # fmt: skip
    terms[4]["score"], hit["explain"]["lexical"]["score"] = 0.02, sum(scores) - 3e-4 + 0.02
    assert page.evaluate(draw, [hit])[3:] == [["a", "0.020"], ["and 3 others, together: less than 0.001"]]


@pytest.mark.oracle
def test_why_adds_up_to_the_score(see):
    seen = see()
    for mix in ("0", "5", "10"):
        page = seen.go(f"/?q=bees+find+home&mix={mix}")
        page.wait_for_selector(HITS)
        hit = page.locator(HITS).first
        assert hit.locator(".score").first.get_attribute("aria-label") == "strength 4 of 4"
        reply = page.request.get(
            urljoin(page.url, page.locator(".export a", has_text="JSON").last.get_attribute("href"))
        )
        score = reply.json()["hits"][0]["score"]
        marked = hit.locator("p.text mark").all_inner_texts()
        hit.get_by_role("button", name="why").first.click()
        hit.locator(".why .sum b").wait_for()
        assert hit.locator("p.text mark").all_inner_texts() == marked != []
        said = "" if mix == "10" else "the text has bees once, find once and home once"
        assert said in (reason := hit.locator(".why .reason").inner_text())
        assert ("meaning" in reason) == (mix != "0")
        inner = "[...document.querySelectorAll('li.hit, li.hit *')].map((one) => getComputedStyle(one).overflowY)"
        assert not {"auto", "scroll"}.intersection(page.evaluate(inner))
        assert float(hit.locator(".why .sum b").inner_text()) == pytest.approx(score, abs=0.0051)
        for table in hit.locator(".why table").all():
            parts = [float(one) for one in table.locator("td.n").all_inner_texts()]
            assert sum(parts) == pytest.approx(float(table.locator("caption b").inner_text()), abs=0.01)
    assert seen.errors == []


@pytest.mark.oracle
def test_why_shows_by_what_the_score_was_multiplied(see):
    seen = see()
    for mix in ("0", "5"):
        page = seen.go(f"/?index=records&q=salt+bread&mix={mix}&newer_better=year&half_life=10y&boost=share")
        page.wait_for_selector(HITS)
        hit = page.locator(HITS).first
        hit.get_by_role("button", name="why").first.click()
        hit.locator(".why .score-sum b").wait_for()
        factors = [float(one) for one in hit.locator(".why .factor b").all_inner_texts()]
        assert len(factors) == 2
        assert factors[0] < 1 < factors[1] <= 2
        whole, score = (float(hit.locator(f".why .{one} b").inner_text()) for one in ("sum", "score-sum"))
        assert score == pytest.approx(whole * factors[0] * factors[1], abs=0.005)
        assert "days old by year" in hit.locator(".why").inner_text()
        assert "larger share is better" in hit.locator(".why").inner_text()
    page.fill("#q", "salt")
    until(page, "!location.search.includes('bread')")
    assert "boost=share" in page.url  # what weighs the rows stays
    assert seen.errors == []


@pytest.mark.oracle
def test_filters_narrow_and_count_and_go_into_the_url(see):
    seen = see()
    page = seen.go("/?q=salt+note")
    page.wait_for_selector("#filters label")
    assert "To ask for two values of tags at once, type tags:one" in page.locator("#filters .hint").first.inner_text()
    page.locator("#filters label", has_text="it's").first.click()
    until(page, "location.search.includes('f=')")
    until(page, "!document.querySelector('#results[aria-busy]')")
    assert set(page.locator(".field", has_text="lang").all_text_contents()) == {"lang it's"}
    assert json.loads(page.evaluate("new URLSearchParams(location.search).get('f')")) == [["lang", "it's"]]
    counts = page.locator("#filters section", has_text="lang").locator(".count").all_inner_texts()
    assert counts == ["10"] * 4  # the others can still be chosen, with as many rows as they would bring
    page.locator("#filters label", has_text='a "b" c').click()
    until(page, "JSON.parse(new URLSearchParams(location.search).get('f')).length === 2")
    until(page, "document.querySelectorAll('#filters input:checked').length === 2")
    chosen = json.loads(page.evaluate("new URLSearchParams(location.search).get('f')"))
    assert chosen == [["lang", "it's"], ["lang", 'a "b" c']]
    page.get_by_role("button", name="more answers").click()
    until(page, "document.querySelector('.status').innerText.startsWith('First 20 answers')")
    hits = "[...document.querySelectorAll('#results > div > ol > li.hit')]"
    assert page.evaluate(f"{hits}.indexOf(document.activeElement)") > 0
    page.go_back()
    until(page, "document.querySelectorAll('#filters input:checked').length === 1")
    page.go_back()
    until(page, "!location.search.includes('f=')")
    until(page, "document.querySelectorAll('#filters input:checked').length === 0")
    page.fill("input[name=where]", "year > 2020")
    page.keyboard.press("Enter")
    until(page, "location.search.includes('where=')")
    page.wait_for_selector(HITS)
    page.fill("input[name=where]", "nonsense > 2020")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert "nonsense" in page.get_by_role("alert").inner_text()


@pytest.mark.oracle
def test_what_is_chosen_stands_above_the_answers_and_lists_keep_their_order(see, built, tmp_path):
    kinds = [f"kind {n:02}" for n in range(30)]
    rows = [
        {"text": f"Salt draws water, note {n}.", "kind": kinds[n % (1 + n % 30)], "size": n % 7} for n in range(400)
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["kind", "size:int"])
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    names = "() => [...document.querySelectorAll('#filters section:first-of-type .value')].map((one) => one.innerText)"
    with wordpipe.serve([tmp_path / "index"], port=0) as server:
        seen = see(server.url)
        page = seen.go("/?q=salt")
        page.wait_for_selector("#filters label")
        before = page.evaluate(names)
        page.get_by_role("button", name="and 22 more values").click()
        until(page, "document.querySelectorAll('#filters section:first-of-type li').length === 30")
        all_of = page.evaluate(names)
        page.locator("#filters label", has_text="kind 25").click()
        until(page, "document.querySelector('.chip')?.innerText.startsWith('kind: kind 25 ×')")
        seen.settle()
        until(page, "document.querySelectorAll('#filters section:first-of-type li').length === 30")  # still opened
        assert page.evaluate(names) == all_of  # a ticked value keeps its place
        until(page, "document.querySelector('#results').getAttribute('aria-busy') !== 'true'")
        assert violations(page) == []
        page.get_by_role("button", name="fewer values").click()
        page.locator("#filters section", has_text="size").locator("label").first.click()
        until(page, "document.querySelectorAll('.chip').length === 2")
        until(page, "document.querySelectorAll('#filters input:checked').length === 2")
        shown = page.evaluate(names)
        assert shown[-1] == "kind 25"
        counts = "[...document.querySelectorAll('#filters section:first-of-type .count')].map((one) => Number(one.innerText))"
        assert page.evaluate(counts) == sorted(page.evaluate(counts), reverse=True)  # another field's choice
        page.fill("input[name=where]", "size > 0")
        page.keyboard.press("Enter")
        until(page, "document.querySelectorAll('.chip').length === 3")
        page.locator(".chip").first.click()
        until(page, "document.querySelectorAll('.chip').length === 2")
        assert page.evaluate("document.activeElement.className") == "chip"
        page.get_by_role("button", name="clear all").click()
        until(page, "location.search === '?q=salt'")
        until(page, f"({names})().join() === '{','.join(before)}'")
        page.get_by_label("find a value of kind").fill("KIND 2")
        until(page, "document.querySelectorAll('#filters section:first-of-type li').length === 10")
        assert not page.get_by_text("more values").filter(visible=True).count()
        page.locator("#filters label", has_text="kind 27").click()
        until(page, "document.querySelectorAll('.chip').length === 1")
        until(page, "document.querySelectorAll('#filters section:first-of-type li').length === 10")
        assert page.get_by_label("find a value of kind").input_value() == "KIND 2"
        page.fill("input[name=where]", "size > 5")
        page.keyboard.press("Enter")
        until(page, "document.querySelectorAll('.chip').length === 2")
        numbers = "[...document.querySelectorAll('#filters section:first-of-type .count')].map((one) => Number(one.innerText))"
        until(page, f"document.querySelectorAll('#filters .hint').length && ({numbers}).includes(0)")
        found = page.evaluate(numbers)
        assert found[found.index(0) :] == [0] * found.count(0)  # values of no answer come last
        page.get_by_label("find a value of kind").fill("")
        page.get_by_role("button", name="more values").wait_for()
        assert seen.errors == []


@pytest.mark.oracle
def test_filters_find_what_has_no_value_and_names_without_their_marks(see, built, tmp_path):
    names = ["Gürkan", "José López", "Anna", "Ben", "Clara", "Dora", "Emil", "Fritz", "Gerd", "Hans", "Ida", "Strauß"]
    rows = [
        {"text": f"Salt draws water, note {n}.", "by": names[min(n % 30, 11 if n < 60 else 2)], "kb": n * n * 20}
        | ({"home": f"https://example.org/{n}"} if n % 8 else {})
        for n in range(120)
    ] + [
        {"text": f"The {zone} has an hour.", "by": "Anna", "kb": 3}
        for zone in ("timezone of Rome", "timezone of Oslo", "time zones")
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["by", "home", "kb:int"])
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    counts = (
        """() => [...document.querySelectorAll('#filters section:first-of-type label')].map((one) => one.innerText)"""
    )
    with wordpipe.serve([tmp_path / "index"], port=0) as server:
        seen = see(server.url)
        page = seen.go("/")
        home = page.locator("#filters section", has_text="home")
        home.get_by_label("no value").wait_for()
        assert " ".join(home.inner_text().split()) == "home no value 18"
        assert page.locator(".where-note").inner_text().endswith("home is null finds texts without a value.")
        # without a script
        plain = page.request.get(f"{server.url}/").text()
        assert re.search(r"<bdi>home</bdi></h2><ul><li>.{,200}no value</bdi><span class=\"count\">18<", plain)
        # an order outlives the last filter: it lists all texts, as without a script
        home.get_by_label("no value").check()
        until(page, "document.querySelector('.n-answers')?.innerText.includes('of 18 answers')")
        page.select_option("select[name=sort]", "kb:desc")
        until(page, "location.search.includes('sort=')")
        page.locator(".chip").click()
        until(page, "location.search === '?sort=kb%3Adesc'")
        until(page, "document.querySelector('.n-answers')?.innerText.startsWith('10 of ')")
        page = seen.go("/")
        # the most frequent first, but for the field in which a value was just ticked
        page.locator("#filters label", has_text="Gürkan").wait_for()
        page.get_by_label("find a value of by").fill("LOPEZ")
        until(page, f"({counts})().length === 1")
        assert page.evaluate(counts)[0].startswith("José López")
        page.get_by_label("find a value of by").fill("strauss")
        until(page, f"({counts})()[0]?.startsWith('Strauß')")
        page.get_by_label("find a value of by").fill("")
        until(page, f"({counts})().length === 8")
        before = page.evaluate(counts)
        page.locator("#filters label", has_text=before[3].split("\n")[0]).click()
        until(page, "document.querySelector('#results').getAttribute('aria-busy') !== 'true'")
        assert page.evaluate(counts) == before
        page.go_back()
        until(page, "!location.search.includes('f=')")
        until(page, f"String(({counts})()) === {json.dumps(','.join(before))}")
        # both ends of a range are written alike, also on a phone, which says how many answers there are
        asked = {"f": json.dumps([["kb", [1000, 20000]]])}
        page.set_viewport_size({"width": 420, "height": 900})
        page.goto(f"{server.url}/?{urlencode(asked)}")
        page.locator(".chip", has_text="kb: from 1,000 to 20,000").wait_for()
        page.locator("#filters summary").click()
        assert [one.input_value() for one in page.locator(".range-end").all()] == ["1,000", "20,000"]
        page.get_by_role("button", name="show 24 answers").wait_for()
        # a remark leads to its word
        page.set_viewport_size({"width": 1400, "height": 900})
        page.goto(f"{server.url}/?q=time+zones")
        page.get_by_role("button", name="timezone").wait_for()
        page.fill("input[name=where]", "home = ''")
        page.keyboard.press("Enter")
        page.locator(".empty .hint", has_text="home is null finds texts without a value").wait_for()
        page.locator(".chip").click()
        page.get_by_role("button", name="timezone").click()
        until(page, "new URLSearchParams(location.search).get('q') === 'timezone'")
        assert seen.errors == []
    # how many texts have a word is said although all answers are shown
    page = see().go("/?index=records&q=salt&mix=5&k=100")
    page.locator(".n-answers", has_text=re.compile("^40 answers .*; \\d+ texts have words of the question$")).wait_for()
    assert re.search(r">40 answers; \d+ texts have words of the question<", page.request.get(page.url).text())


@pytest.mark.oracle
def test_ranges_and_values_are_chosen_by_keys_and_the_focus_stays(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&mix=0")
    page.wait_for_selector("#filters .bins i")
    assert "share: most texts" in page.locator("#filters .bins").get_attribute("aria-label")
    page.get_by_label("share from").focus()
    page.keyboard.type("1.5")
    page.keyboard.press("Tab")
    until(page, "location.search.includes('share')")
    until(page, "document.querySelectorAll('#filters .bins .out').length > 0")
    assert json.loads(page.evaluate("new URLSearchParams(location.search).get('f')")) == [["share", [1.5, None]]]
    until(page, "document.activeElement.getAttribute('aria-label') === 'share to'")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    until(page, "location.search.includes('1.5%2C4')")
    until(page, "!document.querySelector('#results[aria-busy]')")
    shares = [float(one.split()[-1]) for one in page.locator(".field", has_text="share").all_text_contents()]
    assert shares
    assert all(1.5 <= one <= 4 for one in shares)
    page.reload()
    page.wait_for_selector("#filters .bins i")
    assert (page.get_by_label("share from").input_value(), page.get_by_label("share to").input_value()) == ("1.5", "4")
    page.fill("[aria-label='share from']", "")
    page.keyboard.press("Enter")
    page.fill("[aria-label='share to']", "")
    page.keyboard.press("Enter")
    until(page, "!location.search.includes('f=')")
    for end, value, said in (
        ("to", "100k", "100k is no number"), ("to", "1,00", "1,00 is no number"), ("to", "", ""), ("from", "4", ""),
        ("to", "2", "the range begins at 4 and ends before it, at 2"), ("to", "1,000", ""),
    ):  # fmt: skip
        page.fill(f"[aria-label='share {end}']", value)
        page.keyboard.press("Enter")
        until(page, f"document.querySelector('#filters .wrong').innerText === '{said}'")
        until(page, "!document.querySelector('#results[aria-busy]')")
    until(page, "location.search.includes('4%2C1000')")
    page.locator("#filters .bins i").nth(1).click()
    until(page, "document.querySelector('.chip').innerText.startsWith('share: from')")
    until(page, "!location.search.includes('4%2C1000')")
    page.fill("input[name=where]", "nope = 1")
    page.keyboard.press("Enter")
    page.get_by_role("alert").locator("text=no column nope").wait_for()
    assert page.locator("#filters section").count() >= 3  # the filters stay
    page = seen.go("/?index=hostile&q=salt")
    page.wait_for_selector("#filters .find")
    page.get_by_label("find a value of kind").focus()
    page.keyboard.type("הירח")
    until(page, "document.querySelectorAll('#filters section:has([aria-label$=kind]) li').length === 1")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    until(page, "location.search.includes('f=')")
    until(page, "document.querySelectorAll('#filters input:checked').length === 1")
    assert page.evaluate("document.activeElement.checked")
    assert [one for one in seen.errors if "400" not in one] == []


@pytest.mark.oracle
def test_back_takes_the_ends_of_a_range_out_of_their_fields(see):
    page = see().go("/?index=records&q=salt&mix=0")
    page.wait_for_selector("#filters .bins i")
    page.get_by_label("share from").focus()
    page.keyboard.type("1.5")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.chip').length === 1")
    until(page, "!document.querySelector('#results[aria-busy]')")
    page.go_back()
    until(page, "!document.querySelectorAll('.chip').length")
    until(page, "document.querySelector('[aria-label=\"share from\"]').value === ''")
    page.get_by_label("share to").fill("4")
    page.keyboard.press("Enter")
    until(page, "location.search.includes('f=')")
    assert json.loads(page.evaluate("new URLSearchParams(location.search).get('f')")) == [["share", [None, 4]]]


@pytest.mark.oracle
def test_the_menu_leads_back_to_filters_and_order(see):
    seen = see()
    page = seen.go("/?index=records&q=salt+water")
    page.wait_for_selector(HITS)
    page.get_by_label("order").select_option("year, newest first")
    until(page, "location.search.includes('sort=')")
    assert (
        page.locator(".order-note").inner_text()
        == "first texts with at least half of the question's words (rare ones count more), these by year"
    )
    page.locator("#filters label", has_text="de").first.click()
    until(page, "location.search.includes('f=')")
    until(page, "!document.querySelector('#results[aria-busy]')")
    asked = page.evaluate("[...new URLSearchParams(location.search)].sort().join('&')")
    for names in (["About"], ["Words", "About"], ["Model", "About"], ["Map"]):
        for name in [*names, "Search"]:
            link = page.get_by_role("link", name=name, exact=True).first
            if name == "Map":  # by the layout that is made at once
                page.goto(urljoin(page.url, link.get_attribute("href")) + "&layout=pca")
            else:
                link.click()
        page.wait_for_selector(HITS)
        assert page.evaluate("[...new URLSearchParams(location.search)].sort().join('&')") == asked, names
    page.fill("#q", "bread")  # with filters, another question keeps the order
    until(page, "location.search.includes('q=bread')")
    assert "sort=" in page.url
    page.locator(".chip").first.click()
    until(page, "!location.search.includes('f=')")
    seen.settle()
    page.fill("#q", "rust")  # without, it is by relevance again
    until(page, "!location.search.includes('sort=')")
    assert not page.locator(".order-note").is_visible()
    assert seen.errors == []


@pytest.mark.oracle
def test_escape_leads_to_the_question_and_a_slash_replaces_none(see):
    page = see().go("/?index=records&q=salt")
    page.wait_for_selector("#filters label")
    for place in ("#filters input[type=checkbox]", "#filters .range-end", "#mix", "header nav a", "select[name=sort]"):
        page.locator(place).first.focus()
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "q", place
    page.keyboard.press("Escape")
    for _ in range(2):
        page.keyboard.press("/")
        assert page.input_value("#q") == "salt"
    page.keyboard.press("End")
    page.keyboard.press("/")
    assert page.input_value("#q") == "salt/"


@pytest.mark.oracle
def test_the_menu_of_exports_is_closed_by_escape_and_by_a_click_elsewhere(see):
    seen = see()
    page = seen.go("/?index=records&q=salt+rust+tide+bees")
    page.wait_for_selector(HITS)
    seen.settle()
    menu = page.locator(".export summary")
    menu.click()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.innerText") == "export"
    assert page.locator(".export[open]").count() == 0
    menu.click()
    at = page.url
    page.locator(f"{HITS} .words").filter(visible=True).last.click()
    page.wait_for_timeout(500)
    assert page.locator(".export[open]").count() == 0
    assert page.url == at
    page.locator(f"{HITS} .words").filter(visible=True).last.click()  # the next one opens the text
    page.wait_for_url("**/text/**")


@pytest.mark.oracle
def test_the_slider_goes_from_words_to_vectors(see):
    seen = see()
    page = seen.go("/?q=bees+find+home")
    page.wait_for_selector(HITS)
    page.locator("#mix").focus()
    page.keyboard.press("Home")
    until(page, "location.search.includes('mix=0')")
    until(page, "document.querySelector('.status').innerText.includes('by words')")
    page.keyboard.press("End")
    until(page, "document.querySelector('.status').innerText.includes('by meaning')")
    page.get_by_role("button", name="auto").click()
    until(page, "!location.search.includes('mix=')")


@pytest.mark.oracle
def test_answers_are_put_in_the_order_of_a_field(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&mix=3")
    page.wait_for_selector(HITS)

    def years():
        reply = page.request.get(
            urljoin(page.url, page.locator(".export a", has_text="JSON").last.get_attribute("href"))
        )
        return [hit["metadata"]["year"] for hit in reply.json()["hits"]]

    for order, is_down in (("year, newest first", True), ("year, oldest first", False)):
        page.get_by_label("order").focus()
        page.get_by_label("order").select_option(order)
        until(page, f"location.search.includes('sort=year%3A{'desc' if is_down else 'asc'}')")
        until(page, "!document.querySelector('#results[aria-busy]')")
        assert years() == sorted(years(), reverse=is_down)
        assert page.evaluate("document.activeElement.name") == "sort"
        # the field stands first in the line of an answer, without a script too
        assert page.locator(f"{HITS} .field").first.inner_text() == f"year {years()[0]}"
        without = page.request.get(page.url).text().partition('class="hits"')[2]
        assert re.findall(r'class="field-name"><bdi>(.*?)</bdi>', without)[0] == "year"
    assert "10 of 10 answers" not in page.locator(".status").inner_text()
    page.fill("#q", "")
    page.wait_for_selector("#results .begin")
    page.locator("#filters label", has_text="de").first.click()
    page.get_by_label("order").wait_for()
    until(page, "!document.querySelector('#results[aria-busy]')")
    assert page.locator("select[name=sort] option").first.inner_text() == "as in the files"
    assert "sort=" not in page.url  # an order goes with what was asked
    assert page.input_value("select[name=sort]") == ""
    assert seen.errors == []


@pytest.mark.oracle
def test_all_texts_are_looked_through_without_a_question(see):
    seen = see()
    page = seen.go("/?index=records")
    seen.settle()
    page.get_by_role("link", name="by title").click()
    page.wait_for_selector(f"{HITS} .why-button")
    seen.settle()
    assert page.locator(".n-answers").inner_text() == "10 of 40 answers"
    assert page.input_value("select[name=sort]") == "title"
    page.get_by_role("button", name="more answers").click()
    until(page, "document.querySelector('.n-answers').innerText === '20 of 40 answers'")
    assert "sort=title" in page.url
    page.get_by_label("order").select_option("as in the files")
    until(page, "location.search.includes('sort=row')")
    seen.settle()
    assert page.input_value("select[name=sort]") == ""
    page.locator("#q").press_sequentially("salt")  # is by relevance again
    until(page, "location.search.includes('q=salt') && !location.search.includes('sort=')")
    page.fill("#q", "")
    page.wait_for_selector("#results .looks")
    assert "sort=" not in page.url
    page.go_back()
    until(page, "location.search.includes('sort=row')")
    page.wait_for_selector(HITS)
    assert seen.errors == []


@pytest.mark.oracle
def test_near_duplicates_are_folded(see):
    page = see().go("/?index=records&q=bees+find+home")
    page.wait_for_selector(HITS)
    hit = page.locator(HITS).first
    summary = hit.locator(".others > summary")
    assert "nearly the same" in summary.inner_text()
    summary.click()
    assert hit.locator(".others li.hit").count() >= 1


@pytest.mark.oracle
def test_the_arrow_leads_to_the_answers_from_wherever_it_has_no_other_use(see):
    seen = see()
    page = seen.go("/?index=records&q=salt+water")
    page.wait_for_selector(f"{HITS} .why-button")
    seen.settle()
    assert page.evaluate("document.activeElement === document.body")
    hit_of_focus = "document.activeElement.closest('li.hit')?.id"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(hit_of_focus) == "answer-1"
    for place, is_free in (
        ("#mix", False),
        ("select[name=sort]", False),
        ("header nav a", True),
        ("button.more", True),
    ):
        page.locator(place).first.focus()
        page.evaluate("scrollTo(0, 0)")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(hit_of_focus) == ("answer-1" if is_free else None), place
        seen.settle()
    seen.go("/?index=records&q=salt+water")
    page.wait_for_selector(f"{HITS} .why-button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/text/**")


@pytest.mark.oracle
def test_the_keyboard_alone_does_it_all(see):
    seen = see()
    page = seen.go("/?q=rust+eats+iron")
    page.wait_for_selector(f"{HITS} .why-button")  # those of the script, which can have the focus
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement === document.querySelectorAll('#results ol.hits > li.hit')[{}]"
    assert page.evaluate(focused.format(0))
    page.keyboard.press("Enter")
    page.get_by_text(READ).wait_for()
    page.keyboard.press("Escape")
    page.locator("#answer-1:focus").wait_for()
    assert page.evaluate(focused.format(0))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused.format(0))
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Escape")  # nothing is erased
    assert page.evaluate("document.activeElement === document.body")
    assert page.input_value("#q") == "rust eats iron"
    page.keyboard.press("/")
    page.keyboard.type("salt")
    page.wait_for_selector(HITS)
    name_of = "(({id, name, innerText}) => (id || name || innerText || '').slice(0, 20))(document.activeElement)"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(name_of))
    assert {"mix", "texts", "where", "why", "more like this", "export"} <= reached
    assert seen.errors == []


@pytest.mark.oracle
def test_a_title_opens_its_text_and_the_way_back_keeps_the_question(see):
    seen = see()
    page = seen.go("/?index=records&q=bees+home")
    page.wait_for_selector(HITS)
    title = page.locator(f"{HITS} .title a").first
    name = title.inner_text()
    title.click()
    page.wait_for_selector("article.reading mark")
    assert page.locator("h1").inner_text() == name
    page.get_by_role("link", name="back to the answers").click()
    page.wait_for_selector(HITS)
    assert page.input_value("#q") == "bees home"
    assert seen.errors == []


@pytest.mark.oracle
def test_the_way_back_from_a_text_is_to_the_list_as_it_was(see):
    seen = see()
    place = "() => Math.round(scrollY)"
    for way in ("link", "Escape", "further"):
        page = seen.go("/?index=records&q=salt&mix=0")
        page.get_by_role("button", name="more answers").click()
        until(page, "document.querySelector('#answer-16')")
        hit = page.locator("#answer-16")
        hit.scroll_into_view_if_needed()
        before = page.evaluate(place)
        hit.locator(".title a").click()
        page.get_by_text(READ).wait_for()
        if way == "further":  # the list is not the page before
            page.goto(urljoin(page.url, page.locator(".like-texts a").first.get_attribute("href")) + "&q=salt")
            page.get_by_text(READ).wait_for()
        if way == "Escape":
            page.keyboard.press("Escape")
        else:
            page.get_by_role("link", name="back to the answers").click()
        page.locator("#answer-16:focus").wait_for()
        assert "k=20" in page.url
        assert page.locator("#results li.hit").count() == 20
        if way != "further":
            assert "#" not in page.url  # back, not a further entry of the history
            assert abs(page.evaluate(place) - before) < 5, way
    assert seen.errors == []


@pytest.mark.oracle
def test_a_click_on_a_passage_opens_its_text_but_words_can_be_selected(see):
    seen = see(permissions=["clipboard-read", "clipboard-write"])
    page = seen.go("/?index=records&q=bees+home")
    page.wait_for_selector(f"{HITS} .why-button")
    text = page.locator(f"{HITS} p.text").first
    text.dblclick(position={"x": 20, "y": 10})
    page.wait_for_timeout(600)
    assert page.evaluate("getSelection().toString().trim()") != ""
    box = text.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 10, steps=4)
    page.mouse.up()
    page.wait_for_timeout(600)
    assert "/text/" not in page.url
    page.evaluate("getSelection().removeAllRanges()")
    text.click(position={"x": box["width"] - 5, "y": 10})  # beside the words
    page.wait_for_timeout(600)
    assert "/text/" not in page.url
    text.click(position={"x": 20, "y": 10})
    page.get_by_text(READ).wait_for()
    link = page.locator("a[rel=bookmark]")
    link.click()
    until(page, "document.querySelector('a[rel=bookmark]').innerText === 'copied; opens on this computer only'")
    assert page.evaluate("navigator.clipboard.readText()") == link.evaluate("(one) => one.href")
    assert "q=bees+home" in link.get_attribute("href")
    page.keyboard.press("Escape")
    page.locator("#answer-1:focus").wait_for()
    assert seen.errors == []


@pytest.mark.oracle
def test_the_index_stays_in_the_address(see):
    page = see().go("/?index=hostile&q=salt")
    page.wait_for_selector(HITS)
    page.fill("#q", "salt note")
    until(page, "location.search.includes('salt+note')")
    assert "index=hostile" in page.url
    page.locator("#filters input[type=checkbox]").first.check()
    until(page, "location.search.includes('f=')")
    assert "index=hostile" in page.url
    page.reload()
    page.wait_for_selector(HITS)
    assert page.input_value("select[name=index]") == "hostile"
    page.go_back()
    until(page, "!location.search.includes('f=')")
    assert "index=hostile" in page.url
    page.goto(page.url.split("?")[0] + "?q=salt")
    page.wait_for_selector(HITS)
    page.fill("#q", "rust")
    until(page, "location.search.includes('rust')")
    assert "index=records" in page.url  # of several it is said even of the first


@pytest.mark.oracle
def test_right_to_left_text_keeps_its_order_where_words_are_marked(see):
    """Later letters stand further left, marked or not, with a script and without, and the lines begin on the right."""
    places = """(word) => {
      const texts = [...document.querySelectorAll("p.text")];
      const node = texts.find((one) => one.innerText.includes(word) && one.querySelector("mark"));
      const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), found = [];
      for (let piece = walker.nextNode(); piece; piece = walker.nextNode())
        for (const run of piece.data.matchAll(/[\u05d0-\u05ea\u0621-\u064a]+/g)) {
          const range = document.createRange();
          range.setStart(piece, run.index);
          range.setEnd(piece, run.index + run[0].length);
          found.push(range.getBoundingClientRect().x);
        }
      return {found, direction: getComputedStyle(node).direction, marks: node.querySelectorAll("mark").length};
    }"""
    for scripts in (True, False):
        page = see(java_script_enabled=scripts).go("/?index=hostile&mix=0&q=القمر")
        page.wait_for_selector(f"{HITS} mark")
        for word in ("القمر", "הירח"):
            if scripts or word == "القمر":
                page.goto(page.url.split("?")[0] + f"?index=hostile&mix=0&q={word}")
                page.wait_for_selector(f"{HITS} mark")
                seen = page.evaluate(places, word) if scripts else None
                assert seen is None or (seen["direction"] == "rtl" and seen["marks"] and len(seen["found"]) >= 4)
                assert seen is None or seen["found"] == sorted(seen["found"], reverse=True)
        assert page.locator("p.text[dir=auto]").count() == page.locator("p.text").count() > 0


@pytest.mark.oracle
def test_a_suggestion_replaces_the_word_that_was_typed(see):
    """By vectors words are not corrected: those without one come with words of like spelling."""
    seen = see()
    page = seen.go("/?index=records&mix=10")
    page.wait_for_selector("#filters label")
    page.fill("#q", "Resalts SALTT saltt bread")
    page.locator("input[name=texts]").first.focus()  # the word is finished
    told = page.locator("p.unknown", has_text="saltt is unknown to the vectors")
    told.locator("button").first.click()
    until(page, "!/saltt/i.test(document.querySelector('#q').value)")
    now = page.input_value("#q").split(" ")
    assert (now[0], now[3]) == ("Resalts", "bread")
    assert now[1] == now[2]
    until(page, "!/saltt/i.test(decodeURIComponent(location.search))")


@pytest.mark.oracle
def test_a_corrected_word_is_searched_as_it_was_typed(see):
    page = see().go("/?index=records&mix=0")
    page.wait_for_selector("#filters label")
    page.fill("#q", "SALTT saltt bread")
    page.locator("input[name=texts]").focus()
    told = page.locator("p.unknown", has_text="searched for salt instead of saltt")
    told.get_by_role("button", name="search as typed").click()
    page.locator("p.unknown", has_text="saltt is in no text").first.wait_for()
    assert page.locator("p.unknown", has_text="instead of").count() == 0
    assert page.locator("#q").input_value() == "SALTT saltt bread"
    assert page.locator(HITS).count()  # the other word stands somewhere


@pytest.mark.oracle
def test_nothing_is_said_of_a_word_that_is_being_typed(see):
    page = see().go("/?index=records")
    page.wait_for_selector("#filters label")
    page.keyboard.type("bread salt")
    page.wait_for_selector(HITS)
    page.keyboard.type("txq")
    until(page, "location.search.includes('salttxq')")
    page.wait_for_timeout(300)
    assert page.locator("p.unknown").count() == 0
    page.keyboard.type(" water")
    page.locator("p.unknown", has_text="salttxq").wait_for()


@pytest.mark.oracle
def test_back_goes_to_the_last_question(see):
    page = see().go("/?index=records")
    page.wait_for_selector("#filters label")
    page.keyboard.type("salt draws", delay=5)
    page.keyboard.press("Enter")
    page.wait_for_selector(HITS)
    page.keyboard.press("Control+a")
    page.keyboard.type("bees find home", delay=5)
    until(page, "location.search.includes('bees+find+home')")
    page.locator(HITS, has_text="Bees").first.get_by_role("button", name="why").first.focus()
    page.go_back()
    until(page, "location.search.includes('salt+draws')")
    until(page, "document.querySelector('#q').value === 'salt draws'")
    until(page, "document.activeElement.matches('li.hit')")  # what had the focus is gone, and the focus is not lost
    page.go_back()
    until(page, "!location.search.includes('q=')")


@pytest.mark.oracle
def test_filters_follow_the_generation(see, built, tmp_path):
    """A page that stands open while the index is replaced counts the fields of the new one."""

    def publish(field, value):
        rows = [{"text": f"Salt draws water, note {n}.", field: value} for n in range(6)] + [
            {"text": "Rust eats iron.", field: "b"}
        ] * 3
        wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=[field])
        wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document")
        wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")

    publish("old", "a")
    with wordpipe.serve([tmp_path / "index"], port=0) as server:
        page = see(server.url).go("/?q=salt")
        page.locator("#filters h2", has_text="old").wait_for()
        publish("young", "c")
        until(page, "fetch('/health').then((one) => one.json()).then((one) => one.artifacts[0].swaps === 1)")
        page.fill("#q", "rust")
        page.locator("#filters h2", has_text="young").wait_for()
        assert page.locator("#filters h2", has_text="old").count() == 0


@pytest.mark.slow
def test_a_range_is_taken_while_it_is_typed_as_one_entry_of_the_history(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&mix=0")
    page.wait_for_selector("#filters .bins i")
    chosen = "new URLSearchParams(location.search).get('f')"
    labels = page.locator("#filters section", has=page.get_by_role("heading", name="lang")).locator("label")

    def counts():
        return {one.split("\n")[0]: int(one.split("\n")[-1]) for one in labels.all_inner_texts()}

    def narrowed(chosen):
        given = urlencode({"index": "records", "q": "salt", "column": "lang", "f": chosen})
        column = page.request.get(f"{seen.base}/facets?{given}").json()["columns"][0]
        return {one["value"]: one["count"] for one in column["values"]}

    before = counts()
    assert before != narrowed('[["share", [1, null]]]')
    page.get_by_label("share from").focus()
    for typed in ("1.", "1e", "100", "-"):  # half of a number, or none that there is
        page.keyboard.press("Control+A")
        page.keyboard.type(typed)
        page.wait_for_timeout(1_000)
        assert page.evaluate(chosen) is None, typed
    page.keyboard.press("Control+A")
    page.keyboard.type("1")
    until(page, f"{chosen} === '[[\"share\",[1,null]]]'")
    seen.settle()
    assert counts() == narrowed('[["share", [1, null]]]')  # the others count what is typed
    assert page.get_by_label("share from").input_value() == "1"
    page.keyboard.type(".5")  # the caret is where it was
    until(page, f"{chosen} === '[[\"share\",[1.5,null]]]'")
    page.keyboard.press("Tab")
    seen.settle()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "share to"
    assert page.locator("#filters .bins .out").count() > 0
    page.keyboard.type("4")
    page.locator("#q").focus()  # it is left
    until(page, f"{chosen} === '[[\"share\",[1.5,4]]]'")
    page.go_back()
    until(page, f"{chosen} === '[[\"share\",[1.5,null]]]'")
    page.go_back()
    until(page, f"{chosen} === null")
    seen.settle()
    assert counts() == before
    page.get_by_label("share from").click()
    page.keyboard.type("1")
    until(page, f"{chosen} === '[[\"share\",[1,null]]]'")
    seen.settle()
    labels.first.click()  # the click that leaves the field is not lost
    until(page, "document.querySelectorAll('.chip').length === 2")
    assert [one for one in seen.errors if "400" not in one] == []


@pytest.mark.slow
def test_back_from_what_is_similar_leads_to_its_place_in_the_list(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&k=30&docs=1")
    seen.settle()
    hit = page.locator(HITS).nth(3)
    own = hit.get_attribute("id")
    hit.get_by_role("button", name="more like this").first.click()
    page.wait_for_selector(".like")
    assert "docs=1" in page.url
    assert "per_document=1" in next(one for one in reversed(seen.asked) if "/similar?" in one)
    page.go_back()
    until(page, f"document.activeElement.id === '{own}'")
    assert "k=30" in page.url


@pytest.mark.slow
def test_more_like_this_and_back(see):
    page = see().go("/?q=salt")
    page.wait_for_selector(HITS)
    for way in ("history", "button"):
        page.locator(HITS).first.get_by_role("button", name="more like this").first.click()
        until(page, "location.search.startsWith('?similar')")
        page.locator(".like h2", has_text="Similar to Title").wait_for()
        assert page.title().startswith("similar to Title")
        assert page.locator(HITS).count() >= 1
        if way == "history":
            page.go_back()
        else:
            page.get_by_role("button", name="back to the question").click()
        until(page, "!location.search.includes('similar')")
        until(page, "document.querySelector('#q').value === 'salt'")
        page.wait_for_selector(f"{HITS} mark")


@pytest.mark.oracle
def test_links_skip_to_the_answers_and_to_the_filters(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&mix=0")
    page.wait_for_selector("#filters label")
    for name, where in (("answers", "li.hit"), ("filters", "#filters summary")):
        page.get_by_role("link", name=f"Skip to the {name}").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(f"document.activeElement.matches('{where}')"), name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#filters') !== null")
    assert "#" not in page.url
    assert violations(page) == []
    page.set_viewport_size({"width": 420, "height": 800})
    page.reload()
    page.wait_for_selector("#filters summary")
    page.get_by_role("link", name="Skip to the filters").focus()
    page.keyboard.press("Enter")
    assert page.locator("#filters label").first.is_visible()  # they were folded
    assert seen.errors == []


@pytest.mark.oracle
def test_the_link_to_the_answers_has_filters_and_order_and_the_text_leads_back_to_them(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&mix=0&sort=year%3Adesc&where=year+%3E+1&k=3")
    page.wait_for_selector(HITS)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="copy link to these answers").click()
    until(page, "window.copied === location.href")
    page.locator(f"{HITS} .title a").first.click()
    page.get_by_text(READ).wait_for()
    page.evaluate("sessionStorage.clear()")
    page.goto(page.url)  # as somebody else opens it
    page.get_by_role("link", name="back to the answers").click()
    page.wait_for_selector(HITS)
    assert page.input_value("select[name=sort]") == "year:desc"
    assert page.input_value("input[name=where]") == "year > 1"
    assert page.locator(HITS).count() == 3
    # the call that gives them, and the call for the like of a text
    page.get_by_role("link", name="this search as an API call").click()
    page.locator(".curl", has_text="/search?q=salt&k=3&").first.wait_for()
    page.go_back()
    page.locator(HITS).first.get_by_role("button", name="more like this").click()
    page.locator(".status .like").wait_for()
    page.get_by_role("link", name="this search as an API call").click()
    page.wait_for_selector("details[open] #\\/similar")
    assert "/similar?id=r-38&" in page.locator("details.endpoint[open] .curl").inner_text()
    assert seen.errors == []


@pytest.mark.oracle
def test_the_marked_words_of_a_text_are_walked_through(see):
    seen = see()
    page = seen.go("/?q=bees+find+home&mix=0")
    page.wait_for_selector(HITS)
    page.goto(urljoin(page.url, page.locator(f"{HITS} a[href*='text/']").first.get_attribute("href")))
    page.locator(".marks button").first.wait_for()
    marked = page.locator("article.reading .text mark").all_inner_texts()
    assert len(marked) > 1
    walk = "[...document.querySelectorAll('article.reading mark')].findIndex((one) => one.classList.contains('here'))"
    for key, at in (("n", 0), ("n", 1), ("p", 0), ("p", len(marked) - 1)):
        page.keyboard.press(key)
        assert page.evaluate(walk) == at
    page.get_by_role("button", name="next →").click()
    assert page.evaluate(walk) == 0
    assert page.locator(".marks [role=status]").inner_text() == f"1 of {len(marked)}"
    assert seen.errors == []


@pytest.mark.oracle
def test_a_document_is_walked_through_by_keys_and_escape_leads_to_the_text_before(see, tmp_path):
    text = "\n\n".join(f"Salt of the sea fills barrel {n} of the harbour." for n in range(90))
    wordpipe.ingest([{"id": "a", "title": "Barrels", "text": text}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="sentence", language="english")
    with wordpipe.serve([tmp_path / "index"], port=0) as server:
        seen = see(server.url)
        page = seen.go("/text/a?row=60&q=salt+barrel&path=40")
        page.get_by_text(READ).wait_for()
        tops = []
        for key, row in (("j", 61), ("k", 60), ("k", 59)):
            page.keyboard.press(key)
            page.wait_for_url(f"**row={row}&**")
            page.get_by_text(READ).wait_for()
            tops.append(page.get_by_role("link", name="next text").bounding_box())
        assert tops[0] == tops[1] == tops[2]
        page.get_by_role("link", name="whole document").click()
        page.get_by_text("copy link to this document").wait_for()
        assert 0 < page.locator("#text-59").bounding_box()["y"] < 300
        page.keyboard.press("n")
        assert page.locator("#text-59 mark.here").count() == 1
        page.keyboard.press("Escape")
        page.wait_for_url("**row=40&**")
        assert seen.errors == []


def test_how_many_answers_there_are_is_read_out_once(see):
    seen = see()
    page = seen.go("/?index=records")
    page.wait_for_selector("#filters label")
    page.evaluate("""() => {
      window.told = [];
      const live = document.querySelector('[role=status]');
      new MutationObserver(() => window.told.push(live.textContent)).observe(live,
        {childList: true, characterData: true, subtree: true});
    }""")
    page.fill("#q", "salt bread")
    page.keyboard.press("Enter")
    page.wait_for_selector(HITS)
    seen.settle()
    told = [one for one in page.evaluate("window.told") if one != "Searching…"]
    assert len(told) == 1
    assert page.locator(".status").inner_text().startswith(told[0])
    assert "words and meaning; " in told[0]
    assert told[0].endswith(" texts have words of the question")
    assert page.locator("[role=status]").count() == 1


@pytest.mark.oracle
def test_a_finished_word_is_no_beginning(see, built, tmp_path):
    rows = [{"text": text} for text in ("A boat at sea.", "Searching a harbour.", "Searing heat of iron.")]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")
    with wordpipe.serve([tmp_path / "index"], port=0) as server:
        seen = see(server.url)
        page = seen.go("/")
        page.wait_for_selector(".keys")
        page.keyboard.type("sea", delay=5)
        until(page, "document.querySelectorAll('#results li.hit').length === 3")  # it may become a longer word
        until(page, "document.querySelectorAll('#results li.hit').length === 1")  # after a pause it is one
        assert "prefix" not in page.url
        page.keyboard.type("rc", delay=5)
        page.locator("#results mark", has_text="Searching").wait_for()
        page.wait_for_timeout(1_500)  # no text has it as it is
        page.get_by_role("button", name="copy link to these answers").click()  # the question is left unfinished
        assert "prefix=1" in page.url
        exported = page.request.get(
            urljoin(page.url, page.locator(".export a", has_text="JSON").last.get_attribute("href"))
        )
        assert len(exported.json()["hits"]) == 1
        assert page.request.get(page.url).text().count('class="hit"') == 1  # without a script
        page.reload()
        page.wait_for_selector(HITS)
        assert page.locator(HITS).count() == 1
        page.locator(f"{HITS} .foot a").first.click()
        page.get_by_role("link", name="back to the answers").click()
        page.wait_for_selector(HITS)
        assert page.locator(HITS).count() == 1
        page.fill("#q", "sea")
        page.keyboard.press("Enter")
        page.locator("#results mark", has_text="sea").wait_for()
        until(page, "document.querySelector('#results mark').textContent === 'sea'")
        page.reload()
        page.wait_for_selector(HITS)
        assert page.locator(HITS).count() == 1
        assert seen.errors == []


@pytest.mark.slow
def test_ids_and_places_are_copied(see):
    seen = see(permissions=["clipboard-read", "clipboard-write"])
    page = seen.go("/?q=salt")
    page.wait_for_selector(HITS)
    hit = page.locator(HITS).first
    hit.locator(".about > summary").first.click()
    button = hit.locator(".copy.id").first
    shown = button.inner_text()
    button.click()
    until(page, "document.querySelector('.copy.id').innerText === 'copied'")
    assert page.evaluate("navigator.clipboard.readText()") == shown
    hit.get_by_role("button", name="copy", exact=True).first.click()
    until(
        page,
        "document.querySelector('.actions button:nth-of-type(3)').innerText === 'copied; opens on this computer only'",
    )
    title, passage, place, address = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert hit.locator(".title").first.inner_text() == title
    assert hit.locator("p.text").first.inner_text() == passage
    assert hit.locator(".copy.place").first.inner_text() == place
    assert re.search(r"/text/r-\d+\?row=\d+&index=records$", address)
    page.goto(address)
    assert page.locator("h1").first.inner_text() == title


@pytest.mark.slow
def test_paper_has_the_answers_in_light_colours_and_is_signed(see):
    f = '[["lang","en"],["lang","de"]]'
    page = see(color_scheme="dark").go("/?" + urlencode({"index": "records", "q": "salt", "docs": 1, "mix": 5, "f": f}))
    page.wait_for_selector(HITS)
    page.locator(".why-button").first.click()
    page.wait_for_selector(".why")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    today = page.evaluate("new Date().toLocaleDateString('sv')")
    top, foot = page.locator(".paper").all_inner_texts()
    asked, narrowed, how, texts = filter(None, top.split("\n"))
    assert (asked, narrowed) == ("salt", "filters: lang: en or de")
    assert how == "order: relevance · one answer per document · meaning 50 %"
    assert re.fullmatch(rf"index: records · [\d,]+ texts\. .* Printed on {today}\.", texts), texts
    assert foot == f"{today} · {page.url.split('?')[0]}?index=records&q=salt&docs=1&mix=5&f={f}"
    # what is printed of an answer
    assert page.get_by_text("Dots show the score beside that of the strongest answer").last.is_visible()
    assert page.locator(".why").first.is_visible()
    mark = page.locator(".hit mark").first
    assert mark.evaluate("one => getComputedStyle(one).fontWeight") == "700"
    assert mark.evaluate("one => getComputedStyle(one).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert page.evaluate("[document.body, document.documentElement].map(one => getComputedStyle(one).backgroundColor)") == [
        "rgb(255, 255, 255)"
    ] * 2  # fmt: skip
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    said = page.evaluate("document.querySelector('#results li.hit').innerText")
    place = page.locator(".copy.place").first.text_content()
    assert said.count(place.split("/")[-1]) == 1, said
    assert not page.locator(".export, .actions, .options, nav").filter(visible=True).count()
    assert page.locator(".status").inner_text() == page.locator(".n-answers").inner_text()
    page.locator(HITS).first.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).borderLeftWidth") == "0px"
    # the sheets: numbers, and a title from the second one on
    page.goto(page.url.split("?")[0] + "?index=records&q=salt&k=30&docs=1")
    page.wait_for_selector(".n-answers")
    numbers = page.evaluate("[...document.querySelectorAll('#results .hits > li.hit')].map(one => one.value)")
    pdf = pytest.importorskip("pypdfium2").PdfDocument(page.pdf(height="4in", width="6in"))
    sheets = [one.get_textpage().get_text_range() for one in pdf]
    assert [f"{n} / {len(pdf)}" in one for n, one in enumerate(sheets, 1)] == [True] * len(pdf)
    assert all(one.lstrip().startswith("salt") for one in sheets[1:]), sheets
    assert len(numbers) > 1
    assert [one for one in numbers if f"\n{one}. " not in "\n".join(sheets).replace("\r", "")] == [], sheets


@pytest.mark.slow
def test_answers_of_which_none_has_the_words_are_said_to_be_so(see):
    page = see().go("/?" + urlencode({"index": "records", "q": "salt", "f": '[["year",[1990,1990]]]'}))
    said = "1 answer by words and meaning; no text that fits the filters has words of the question"
    page.locator(".n-answers", has_text=said).wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("script", [True, False])
def test_whole_texts_stand_in_place_of_passages_and_stay_on_the_way_back(see, script):
    page = see(java_script_enabled=script).go("/?index=hostile&q=salt&k=36")
    page.wait_for_selector(HITS)
    longest = "Math.max(...[...document.querySelectorAll('.hit p.text')].map(one => one.textContent.length))"
    assert page.evaluate(longest) < 1_000
    page.get_by_label("whole texts").check()
    if not script:
        page.get_by_role("button", name="Search").click()
    until(page, f"{longest} > 20_000")
    assert page.locator("p.text mark").count() >= 10
    page.locator(".hit .title a").first.click()
    page.get_by_role("link", name="back to the answers").click()
    page.wait_for_selector(HITS)
    assert "texts=whole" in page.url
    assert page.evaluate(longest) > 20_000
    assert (
        "whole texts" in page.locator(".paper .set").text_content()
        if not script
        else page.get_by_label("whole texts").is_checked()
    )


@pytest.mark.slow
def test_paper_without_a_script_says_the_same_above_the_answers(see):
    asked = "?" + urlencode(
        {"index": "records", "q": "salt", "docs": 1, "mix": 5, "f": '[["lang","en"],["lang","de"]]'}
    )
    page = see(java_script_enabled=False).go(f"/{asked}")
    page.emulate_media(media="print")
    told = [*filter(None, page.locator(".paper").inner_text().split("\n"))]
    assert told[:3] == ["salt", "filters: lang: en or de", "order: relevance · one answer per document · meaning 50 %"]


@pytest.mark.slow
def test_paper_has_what_is_folded_of_an_artifact_and_nothing_to_try(see):
    page = see().go("/?tab=about")
    page.emulate_media(media="print")
    assert page.locator(".artifacts section dl").first.is_visible()
    page.goto(page.url.replace("/?tab=about", "/api"))
    assert page.locator(".params").first.is_visible()
    assert page.locator(".contents, .api :is(form, .try, button)").filter(visible=True).count() == 0
    closed = page.locator(".endpoint:not([open])")
    assert closed.locator("summary").first.is_visible()
    assert not closed.locator("section").first.is_visible()


@pytest.mark.slow
def test_the_paper_of_a_text_has_its_address_alone(see):
    seen = see()
    page = seen.go("/?q=salt&index=records&f=" + quote('[["lang","en"]]'))
    page.wait_for_selector(HITS)
    page.locator(HITS).first.locator(".title a, .actions a").first.click()
    page.wait_for_selector("article.reading")
    page.wait_for_selector(".paper", state="attached")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".paper").first.inner_text() == "index: records · bold: words of the question “salt”"
    shown = page.locator(".paper").last.inner_text().split(" · ")[1]
    assert {"q=", "f="} == {one for one in ("q=", "f=") if one in page.url and one not in shown}
    title = page.title()
    page.goto(shown)
    assert page.title() == title


@pytest.mark.oracle
def test_the_keys_stand_below_the_answers_but_not_on_paper_or_where_it_is_narrow(see):
    seen = see()
    for asked in ("q=salt", "sort=title"):
        page = seen.go(f"/?index=records&{asked}")
        page.wait_for_selector(f"{HITS} .why-button")
        keys = page.locator("#results .dots kbd")
        assert keys.all_inner_texts() == ["/", "↓", "↑", "Enter", "Esc"]
        assert keys.first.is_visible()
        assert ("Dots show" in page.locator("#results .dots").inner_text()) == (asked == "q=salt")
        page.emulate_media(media="print")
        assert not keys.first.is_visible()
        page.emulate_media(media="null")
        page.set_viewport_size({"width": 420, "height": 800})
        assert not keys.first.is_visible()
        page.set_viewport_size({"width": 1400, "height": 900})


@pytest.mark.oracle
def test_a_phone_folds_the_options_says_what_is_set_and_shows_no_keys(see):
    seen = see(viewport={"width": 420, "height": 800}, has_touch=True, is_mobile=True)
    page = seen.go("/?index=records&q=salt&mix=10")
    page.wait_for_selector(f"{HITS} .why-button")
    assert not page.locator("#results .dots kbd").first.is_visible()
    options, box = page.locator(".fold summary"), page.locator("input[name=texts]")
    assert options.inner_text().endswith("records · meaning only")
    assert not box.is_visible()
    options.click()
    box.check()
    until(page, "document.querySelector('.fold summary').innerText.endsWith('meaning only · whole texts')")
    page.set_viewport_size({"width": 900, "height": 800})
    assert box.is_visible()
    assert not options.is_visible()
    page.set_viewport_size({"width": 420, "height": 800})
    seen.go("/").wait_for_selector(".keys")
    assert page.locator(".keys").inner_text() == "Answers appear while you type."
    assert seen.errors == []


@pytest.mark.oracle
def test_actions_stand_in_one_line_and_always_show(see):
    """Without a pointer over their answer, too; the line of fields is one line, however many there are."""
    tops = """() => [...document.querySelectorAll('#results .actions')].map((one) =>
      new Set([...one.children].map((other) => Math.round(other.getBoundingClientRect().top))).size)"""
    lines = """() => [...document.querySelectorAll('#results .facts')].filter((one) => one.offsetParent)
      .map((one) => one.getBoundingClientRect().height)"""
    for touch, widths in ((False, (1400, 900)), (True, (420, 320))):
        page = see(has_touch=touch, is_mobile=touch).go("/?index=records&q=bees+find+home")
        page.wait_for_selector(HITS)
        assert page.evaluate("getComputedStyle(document.querySelector('#results .actions')).opacity") == "1"
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            assert {*page.evaluate(tops)} == {1}, width
            assert max(page.evaluate(lines)) < 24, width
        if touch:
            page.locator("#filters details").evaluate("(one) => (one.open = true)")
            page.get_by_role("button", name="show answers").click()
            assert page.evaluate("!document.querySelector('#filters details').open")


@pytest.mark.oracle
def test_the_way_back_from_similar_texts_leads_to_their_answer(see):
    seen = see()
    page = seen.go("/?index=records&q=salt&k=20")
    page.wait_for_selector(HITS)
    seen.settle()
    asked = page.url
    for place in (3, 1):  # the second of them is similar to a similar one
        hit = page.locator(HITS).nth(place)
        hit.get_by_role("button", name="more like this").first.click()
        until(page, "location.search.includes('similar')")
        page.wait_for_selector(HITS)
        seen.settle()
    page.locator(".like button").click()
    until(page, f"location.href === '{asked}'")
    until(page, "document.activeElement.matches('li.hit')")
    assert page.locator(HITS).nth(3).evaluate("(one) => one === document.activeElement")
    page = seen.go("/?index=records&similar=0&q=salt")  # of an address that one was given there is no way to go back
    page.locator(".like button").click()
    until(page, "!location.search.includes('similar')")
    assert page.input_value("#q") == "salt"
    assert page.evaluate("document.activeElement.id") == "q"
    assert seen.errors == []


@pytest.mark.slow
def test_more_answers_and_nothing(see):
    page = see().go("/?q=salt")
    page.wait_for_selector(HITS)
    page.get_by_role("button", name="more answers").click()
    until(page, "location.search.includes('k=20')")
    until(page, "document.querySelector('.status').innerText.startsWith('First 20 answers')")
    hits = "[...document.querySelectorAll('#results > div > ol > li.hit')]"
    assert page.evaluate(f"{hits}.indexOf(document.activeElement)") > 0
    page.goto(page.url.split("?")[0] + "?q=salt&where=year+%3E+9999")
    page.fill("#q", "salt bread")  # the script says it now
    until(page, "location.search.includes('bread')")
    until(page, "/true for 0 of \\d+ rows; got/.test(document.querySelector('.empty .lead')?.innerText)")
    page.get_by_role("button", name="search without filters").click()
    page.wait_for_selector(HITS)


@pytest.mark.slow
def test_a_server_that_went_away_is_said_and_asked_again(see):
    seen = see()
    page = seen.go("/?q=salt")
    page.wait_for_selector(HITS)
    page.route("**/search?*", lambda route: route.abort())
    page.fill("#q", "rust")
    page.get_by_role("alert").wait_for()
    assert "does not answer" in page.get_by_role("alert").inner_text()
    page.unroute("**/search?*")
    page.route(
        "**/search?*",
        lambda route: route.fulfill(status=429, headers={"Retry-After": "7"}, json={"error": {"message": "too many"}}),
    )
    page.get_by_role("button", name="Try again").click()
    until(page, "document.querySelector('[role=alert]')?.innerText.includes('in 7 s')")
    page.unroute("**/search?*")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(HITS)


@pytest.mark.slow
def test_a_model_goes_on_with_a_text(see):
    seen = see()
    page = seen.go("/?tab=model")
    page.get_by_role("link", name="Generate").click()
    page.locator("button", has_text="Stop").wait_for(state="attached")  # the script has run
    assert page.locator("#complete").input_value() == "The tide rises with the moon."
    page.fill("#complete", "The sea")
    page.fill("[name=length]", "12")
    page.press("#complete", "Control+Enter")
    until(page, "document.querySelector('#completion mark')?.textContent.length > 3")
    until(page, "!document.querySelector('#completion[aria-busy]')")
    assert page.locator("#completion").inner_text().startswith("The sea")
    page.fill("[name=length]", "4000")
    page.fill("[name=temperature]", "0")  # so that it does not end by chance before Stop
    page.get_by_role("button", name="Generate").click()
    page.get_by_role("button", name="Stop").click()
    until(page, "!document.querySelector('#completion[aria-busy]')")
    assert page.evaluate("document.activeElement.innerText") == "Generate"
    assert not page.get_by_role("button", name="Stop").is_visible()
    page.fill("[name=length]", "40000")
    page.evaluate("document.querySelector('form[data-ability]').noValidate = true")
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector("#completion [role=alert]")
    assert [one for one in seen.errors if "400" not in one] == []


@pytest.mark.oracle
def test_two_clicks_or_a_button_make_a_gap_of_a_word(see):
    seen = see()
    page = seen.go("/?tab=model&do=fill")
    button = page.get_by_role("button", name="Make the word a gap")
    button.wait_for()
    field = page.locator("#fill")
    field.fill("Tide and (salt-water's) 海 rise")
    left = """(word) => {
      const field = document.querySelector("#fill"), at = field.value.indexOf(word) + 1;
      field.setSelectionRange(at, at);
    }"""
    field.dblclick(position={"x": 16, "y": 14})
    assert field.input_value() == "[MASK] and (salt-water's) 海 rise"
    field.dblclick(position={"x": 24, "y": 14})  # a gap stays one
    assert field.input_value() == "[MASK] and (salt-water's) 海 rise"
    page.evaluate(left, "water")
    button.focus()
    page.keyboard.press("Enter")
    assert field.input_value() == "[MASK] and ([MASK]) 海 rise"
    assert page.evaluate("document.activeElement.id") == "fill"
    page.keyboard.press("Control+z")
    assert field.input_value() == "[MASK] and (salt-water's) 海 rise"
    page.evaluate(left, "water")
    button.click()
    page.keyboard.type("ed")  # the cursor stands behind the gap
    assert field.input_value() == "[MASK] and ([MASK]ed) 海 rise"
    field.fill("The old sea, then")
    page.evaluate("document.querySelector('#fill').setSelectionRange(4, 12)")  # several words are one gap
    button.click()
    assert field.input_value() == "The [MASK], then"
    field.fill("")
    button.click()
    assert field.input_value() == ""
    field.fill("The [MASK] rises")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("caption:text('gap 1')")
    assert seen.errors == []


VIEWS = {
    "home": "/",
    "answers": "/?q=bees+find+home&mix=5",
    "narrowed": '/?q=salt&f=[["lang","de"],["share",[1,4]]]',
    "nothing": "/?q=salt&where=year+%3E+9999",
    "refused": "/?q=salt&where=nonsense",
    "like": "/?similar=3",
    "words": "/?tab=words&word=water",
    "unknown": "/?tab=words&word=watre",
    "model": "/?tab=model&fill=The+%5BMASK%5D+sea",
    "label": "/?tab=model&predict=7+is+red",
    "generate": "/?tab=model&do=complete",
    "attention": "/?tab=model&attend=Salt+draws+water+out.&layer=1",
    "analogy": "/?tab=words&a=moon&b=sea&c=water",
    "about": "/?tab=about",
    "doctor": "/?tab=about&doctor=words",
    "api": "/api",
    "missing": "/text/nobody?index=records&q=salt",
    "unknown address": "/nothing/at/all",
    "hostile": "/?index=hostile&q=salt",
    "text": "/text/r-5?row=5&index=records&q=rust",
    "hostile text": "/text/?row=4&index=hostile&q=salt",
}


@pytest.mark.oracle
def test_no_view_has_a_barrier_or_is_wider_than_the_screen(see):
    seen = see()
    for name, path in VIEWS.items():
        page = seen.go(path)
        seen.settle()
        if name == "answers":
            page.locator(HITS).first.get_by_role("button", name="why").first.click()
            page.locator(".why").first.wait_for()
        assert violations(page) == [], name
        for width in (1400, 900, 420, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert cut_off(page) == [], (name, width)
        page.set_viewport_size({"width": 1100, "height": 900})
    assert [error for error in seen.errors if "400" not in error and "404" not in error] == []


@pytest.mark.oracle
def test_nothing_stands_where_there_is_nothing_to_choose(see):
    page = see(viewport={"width": 420, "height": 900}).go("/?tab=words")
    field, analogy = (
        page.locator(".field-row").bounding_box(),
        page.locator(".analogy input[type=text]").first.bounding_box(),
    )
    assert analogy["y"] - field["y"] - field["height"] < 20
    assert page.evaluate("document.querySelector('#word').scrollWidth <= document.querySelector('#word').clientWidth")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_barrier_at_any_width(see, scheme):
    seen, found = see(color_scheme=scheme), {}
    for width in (1400, 900, 420):
        for name, path in VIEWS.items():
            page = seen.go(path)
            page.set_viewport_size({"width": width, "height": 900})
            seen.settle()
            if name == "answers":  # first: a click beside an open menu closes the menu
                page.locator(HITS).first.locator(".why-button").first.click()
                page.locator(".why").first.wait_for()
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            found |= {(name, width): wrong} if (wrong := violations(page) + cut_off(page)) else {}
    assert found == {}


@pytest.mark.landing
def test_hostile_texts_run_nothing_and_break_no_layout(see):
    seen = see(viewport={"width": 420, "height": 900})
    for path in ("/?index=hostile&q=salt&k=20", "/?index=hostile&q=salt&k=20&mix=0", "/?index=hostile&similar=1&k=20"):
        page = seen.go(path)
        page.wait_for_selector(HITS)
        seen.settle()
        for button in page.locator(f"{HITS} > .foot .why-button").all()[:4]:
            button.click()
        seen.settle()
        assert page.evaluate("window.hurt") is None
        assert page.locator("main :is(script, img, style, base, iframe)").count() == 0
        assert fits(page)
        assert page.locator(HITS).first.bounding_box()["height"] < 1500
        shown = page.locator("main").inner_text()
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", shown)
        assert page.locator("nav").is_visible()
    assert seen.errors == []


@pytest.mark.oracle
def test_the_page_answers_without_a_script(see):
    page = see(java_script_enabled=False).go("/?q=bees+find+home")
    assert page.locator("li.hit").count() == 10
    page.fill("#q", "rust")
    page.get_by_role("button", name="Search").click()
    assert "Rust" in page.locator("li.hit").first.inner_text()
    page.goto(f"{page.url}&newer_better=year&half_life=1y")
    assert "note 39" in page.locator("li.hit").first.inner_text()
    page.get_by_role("button", name="Search").click()
    assert "newer_better=year" in page.url
    page.get_by_text("Filters", exact=True).click()
    page.locator("#filters a", has_text='a "b" c').first.click()
    assert "f=" in page.url


@pytest.mark.oracle
def test_a_script_folds_what_the_server_folds(see):
    shown = []
    for scripts in (True, False):
        page = see(java_script_enabled=scripts).go("/?index=records&q=bees+find+home&k=20")
        page.wait_for_selector(f"{HITS} .about")
        if scripts:
            page.wait_for_selector(f"{HITS} .why-button")
        shown.append(page.locator(f"{HITS} > .others > summary").all_inner_texts())
    assert shown[0] == shown[1] != []


@pytest.mark.oracle
def test_attention_by_keys_alone(see):
    seen = see()
    page = seen.go("/?tab=model&do=attend")
    page.fill("#attend", "")
    page.focus("#attend")
    page.keyboard.type("salt and <b>water</b>")
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Show":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".heat")
    assert "mean of all heads" in page.locator(".models").inner_text()
    rows = page.locator(".heat tbody tr").count()
    assert page.locator(".heat thead th").count() == rows
    sums = [
        sum(float(one.get_attribute("title")) for one in row.locator("td").all())
        for row in page.locator(".heat tbody tr").all()
    ]
    assert sums == pytest.approx([1.0] * rows, abs=0.01)
    assert page.locator(".heat b").count() == 0
    page.select_option("select[name=head]", "1")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector("text=head 1.")
    assert seen.errors == []


@pytest.mark.oracle
@pytest.mark.parametrize("scheme", [pytest.param("light"), pytest.param("dark", marks=pytest.mark.slow)])
def test_a_report_has_no_barrier_and_fits(see, built, tmp_path, scheme):
    shutil.copytree(built / "tokens", tmp_path / "run" / "<script>alert(1)<script>")
    (tmp_path / "run" / ("w" * 120)).symlink_to(built / "index")
    for name in ("corpus", "words", "model"):
        (tmp_path / "run" / name).symlink_to(built / name)
    wordpipe.report(tmp_path / "run", tmp_path / "report.html")
    seen = see("file://", color_scheme=scheme)
    page = seen.go(os.fspath(tmp_path / "report.html"))
    assert violations(page) == []
    for width in (1400, 900, 420, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page), width
    assert seen.errors == []
    assert [url for url in seen.asked if not url.startswith("data:")] == [page.url]


@pytest.mark.oracle
def test_all_indexes_are_searched_as_one(see, built, records, tmp_path):
    with wordpipe.open(records) as opened:
        texts = opened.batches(["text"]).read_all()["text"].to_pylist()
    rows = [{"id": f"s-{n}", "title": f"Sheet {n}", "text": f"{text} It is here too."} for n, text in enumerate(texts)]
    wordpipe.ingest(rows, output=tmp_path / "corpus")
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "two")
    with wordpipe.serve([f"one={records}", tmp_path / "two"], port=0) as server:
        seen = see(server.url)
        page = seen.go("/?index=*&q=salt&mix=0&k=60")
        page.wait_for_selector(HITS)
        assert page.locator("select[name=index] option:checked").inner_text() == "all indexes"
        shown = {*page.locator("#results li.hit .about .index").all_text_contents()}
        assert shown == {"index one", "index two"}
        page.locator("#filters label").first.wait_for()
        hit = page.locator(HITS).first
        name = hit.locator(".about .index").first.text_content().removeprefix("index ")
        hit.get_by_role("button", name="why").first.click()
        hit.locator(".why .sum b").first.wait_for()
        hit.get_by_role("button", name="more like this").first.click()
        until(page, "location.search.includes('similar_id=')")
        page.wait_for_selector(".like")
        assert f"index={name}" in page.url
        assert seen.errors == []
        page = see(server.url, java_script_enabled=False).go("/?index=*&q=salt&mix=0")
        assert page.locator("li.hit .field", has_text="index ").count() >= 10


@pytest.mark.oracle
def test_indexes_that_have_no_common_scale_say_so(see):
    page = see().go("/?index=*&q=salt&mix=0")
    page.wait_for_selector(HITS)
    page.get_by_text("mixed by rank, because").wait_for()
