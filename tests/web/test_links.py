"""The link of a row in another place, by `--link`: on the page, over HTTP, for an assistant; no value leads elsewhere."""

import json
from urllib.parse import unquote, urlsplit

import pytest

import wordpipe
from tests.web.test_assistants import called, over_stdin, result_of
from tests.web.test_page import Parsed, get
from wordpipe.errors import ConfigError
from wordpipe.web import page as PAGE
from wordpipe.web.settings import ServeSettings

HOSTILE = [
    "../../admin",
    "a/b?c=d&e#f",
    'x" onclick="alert(1)',
    "//evil.example",
    "@evil.example",
    "javascript:alert(1)",
    "{id}",
    "\u202eגשם",
    "a b\nc",
]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """An index of records with hostile ids, one without the field `path`, and one with a list there."""
    root = tmp_path_factory.mktemp("linked")
    rows = [{"id": one, "text": f"salt {n}", "path": f"a dir/{one}"} for n, one in enumerate(HOSTILE)]
    rows += [{"id": "bare", "text": "salt bare"}]
    wordpipe.ingest(rows, output=root / "corpus")
    wordpipe.index(root / "corpus", output=root / "index")
    return root / "index"


def test_values_are_encoded_and_stay_where_they_are_put(serving, linked):
    client = serving(linked, link="https://notes.example.org/of/{id}?in={+path}#top", page=PAGE)
    found = client.get("/search", params={"q": "salt", "k": 20, "format": "json"}).json()["hits"]
    links = {hit["id"]: hit.get("link") for hit in found}
    assert links.pop("bare") is None  # it has no path
    assert [*sorted(links)] == sorted(HOSTILE)
    for own, link in links.items():
        parts = urlsplit(link)
        assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "notes.example.org", "top")
        assert parts.path.count("/") == 2
        assert unquote(parts.path) == f"/of/{own}"
        assert unquote(parts.query) == f"in=a dir/{own}"
        assert parts.query.count("/") == 1 + own.count("/")
    lines = client.get("/search", params={"q": "salt", "k": 20}).text.splitlines()
    assert {one["id"]: one.get("link") for one in map(json.loads, lines)} == {**links, "bare": None}
    one = client.get("/text", params={"id": HOSTILE[0]}).json()
    assert one["link"] == links[HOSTILE[0]]
    # on the page a title opens the link, or the page of the text, and the other is a click away
    page = get(client, q="salt", mix="0")
    hrefs = [given["href"] for given in page.all("a", href=links[HOSTILE[2]])] + [
        given["href"] for given in page.all("a") if given.get("href", "").startswith("./text/")
    ]
    assert len(hrefs) == len(found)  # they have no titles: `read` alone
    reading = Parsed(client.get("/text/bare").text)
    assert "open where it comes from" not in reading.text
    assert Parsed(client.get("/text/", params={"row": 0}).text).all("a", href=links[HOSTILE[0]])


def test_a_title_opens_the_link(serving, records):
    client = serving(records, link="https://notes.example.org/{id}", page=PAGE)
    page = get(client, q="bees")
    assert len([one for one in page.all("a") if one.get("href", "").startswith("https://notes.example.org/r-")]) == 10
    assert len([one for one in page.all("a") if one.get("href", "").startswith("./text/r-")]) == 10


def test_an_assistant_gets_the_link(serving, linked):
    template = "https://notes.example.org/{id}"
    sent = serving(linked, link=template).post("/mcp", json=called("search", query="bare"))
    answer = result_of(sent.json())["structuredContent"]["answers"][0]
    assert answer["link"] == "https://notes.example.org/bare"
    (said,) = over_stdin([linked], called("get", id="bare"), link=template)
    assert result_of(said)["structuredContent"]["link"] == answer["link"]
    assert f"link: {answer['link']}" in result_of(said)["content"][0]["text"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"link": "javascript:alert('{id}')"}, "begins with"),
        ({"link": "data:text/html,{id}"}, "begins with"),
        ({"link": "{id}"}, "begins with"),
        ({"link": "//notes.example.org/{id}"}, "begins with"),
        ({"link": "https:{id}"}, "begins with"),
        ({"link": "https://{+id}/"}, "host"),
        ({"link": "https://notes.example.org/{id"}, "braces"),
        ({"link": "https://notes.example.org/ {id}"}, "spaces"),
    ],
)
def test_a_template_that_is_no_address_is_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        ServeSettings.make(settings)


@pytest.mark.parametrize("option", ["link", "show"])
def test_a_field_that_no_index_has_is_named_before_it_serves(linked, option):
    given = {"link": "https://notes.example.org/{idd}", "show": "path,idd"}
    with pytest.raises(ConfigError, match=f"--{option}: no index has a field.*idd.*path"):
        wordpipe.serve([linked], port=0, **{option: given[option]})


def test_the_line_of_an_answer_has_the_best_fields_or_those_that_are_chosen(serving, records):
    def lines(**settings):
        page = get(serving(records, page=PAGE, **settings), q="salt")
        return [one.split(" details")[0] for one in page.text.split("●")[1:] if "details" in one]

    first = lines()[0]
    assert ("year " in first, "share " in first, "done " in first) == (True, True, False)  # the first three fields
    assert "lang " in first
    chosen = lines(show="done, id")[0]
    assert ("done " in chosen, "id r-" in chosen, "year " in chosen) == (True, True, False)
