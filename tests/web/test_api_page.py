"""The page of the API: it shows what `/openapi.json` says, and its forms send what they show to this server alone."""

import json
import re
import subprocess
from html import unescape
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import Request, urlopen

import pytest

import wordpipe
from tests.support.browsing import cut_off, look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)
from tests.web.test_browser import until
from tests.web.test_page import Parsed
from wordpipe.web import page as PAGE

AWKWARD = """{"prompt": "it's $HOME `id` \\"\\\\ !!\\nü\\u202e", "max_tokens": 3,\n "seed": 1}"""
SHOWN = ".answer pre"


@pytest.fixture(scope="module")
def client(serving, records, built, heads):
    return serving(f"records={records}", built / "words", built / "model", heads / "clm", heads / "colours", page=PAGE)


@pytest.fixture(scope="module")
def server(records, built, heads):
    artifacts = [
        built / "index",
        f"records={records}",
        built / "words",
        built / "model",
        heads / "clm",
        heads / "colours",
    ]
    with wordpipe.serve(artifacts, port=0) as server:
        yield server


def operations(document):
    return [(path, method, one) for path, item in document["paths"].items() for method, one in item.items()]


def test_every_operation_has_its_section_with_all_that_the_document_says(client):
    document, reply = client.get("/openapi.json").json(), client.get("/api")
    assert reply.status_code == 200
    assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
    page = Parsed(reply.text)
    assert page.all("script") == [{"type": "module", "src": "./static/main.js"}]
    assert not [key for _, given in page.elements for key in given if key.startswith("on") or key == "style"]
    endpoints = dict(zip(document["paths"], reply.text.split('class="endpoint"')[1:], strict=True))
    sections = [one["id"] for one in page.all("section") if one["id"] in document["paths"]]
    assert sections == [*document["paths"]]
    # first what most people come for, each group together, and all but the first folded
    assert sections[:5] == ["/search", "/similar", "/text", "/suggest", "/facets"]
    groups = [group for item in document["paths"].values() for group in next(iter(item.values()))["tags"]]
    assert [*dict.fromkeys(groups)] == [one["name"] for one in document["tags"]]
    assert groups == sorted(groups, key=[*dict.fromkeys(groups)].index)
    assert ["open" in one for one in page.all("details", **{"class": "endpoint"})] == [
        True,
        *[False] * (len(sections) - 1),
    ]
    for path, method, operation in operations(document):
        assert method in ("get", "post")  # an endpoint asks: none puts, changes or deletes anything
        own = endpoints[path]
        assert operation["summary"].replace("`", "") in unescape(re.sub("<[^>]+>", "", own))
        assert f'class="try" data-method="{method.upper()}" data-path="{path}"' in own
        body = operation.get("requestBody", {"content": {"application/json": {"schema": {"properties": {}}}}})
        fields = body["content"]["application/json"]["schema"]["properties"]
        for name in [*(one["name"] for one in operation["parameters"]), *fields]:
            assert own.count(f"<dt><code>{name}</code>") == 1, (path, name)
    links = {unquote(one["href"][1:]) for one in page.all("a") if one.get("href", "").startswith("#")}
    assert {*sections, "errors", "forms"} <= links
    assert links <= {given["id"] for _, given in page.elements if "id" in given}
    for status in document["components"]["responses"]:
        assert f"<dt><code>{status}</code>" in reply.text.partition('id="errors"')[2]


def test_a_parameter_is_shown_with_type_limits_default_and_place(client):
    own = Parsed(client.get("/api").text).text.partition("GET POST /fill")[2].partition("Answers and errors")[0]
    assert "Answered by: model." in own
    assert "text neededa text with gapstext of at most 100,000 characters; in the URL or body" in own
    assert "top_knumber of candidates for each gapwhole number from 1 to 100; in the URL or body; default: 5" in own
    own = Parsed(client.get("/api").text).text
    assert "number above 0, at most 1; in the body" in own
    assert "asc or desc; in the URL; default: desc" in own
    assert "--mode" not in own


def test_the_forms_ask_the_index_and_the_question_of_the_address(serving, records, built):
    client = serving(built / "index", f"records={records}", page=PAGE)
    asked = client.get("/api", params={"index": "records", "q": "sea salt"}).text
    for path in ("/search", "/similar", "/facets"):
        own = asked.partition(f'data-method="GET" data-path="{path}"')[2].partition("</form>")[0]
        chosen = own.partition('name="index"')[2].partition("</select>")[0]
        assert '<option value="records" selected>records</option>' in chosen
        assert ('value="sea salt"' in own) == (path == "/search")
    assert _body(asked) == {"index": "records", "q": "sea salt"}
    (own,) = arguments(_command(asked))
    assert own == "http://127.0.0.1:8000/search?q=sea+salt&index=records"
    # filters, order and weights, too, so that the answers are those of the page
    way = {"q": "bees", "f": '[["lang", "en"]]', "where": "row_nr > 1", "docs": "1", "mix": "3", "prefix": "1"}
    asked = client.get("/api", params=way).text
    assert _body(asked) == {
        "q": "bees", "f": [["lang", "en"]], "where": "row_nr > 1", "per_document": True, "mode": "hybrid", "weight": 0.3,
        "prefix": True,
    }  # fmt: skip
    (own,) = arguments(_command(asked))
    expected = {**way, "per_document": "true", "mode": "hybrid", "weight": "0.3", "prefix": "true"}
    assert dict(parse_qsl(urlsplit(own).query)) == {
        name: expected[name] for name in expected if name not in ("docs", "mix")
    }
    unknown = client.get("/api", params={"index": "<b>"}).text
    assert '"&lt;b&gt;" selected' not in unknown
    assert "selected>records" not in unknown.partition('name="index"')[2].partition("</select>")[0]


def _body(page):
    """The body of the form of POST /search."""
    own = (
        page.partition('data-method="POST" data-path="/search"')[2]
        .partition("<textarea")[2]
        .partition("</textarea>")[0]
    )
    return json.loads(unescape(own.partition(">")[2]))


def _command(page):
    """The command of the first endpoint."""
    return unescape(page.partition('<pre class="curl">')[2].partition("</pre>")[0])


def test_the_page_is_named_by_the_document_and_by_about(client, serving, built):
    document = client.get("/openapi.json").json()
    assert client.get(document["externalDocs"]["url"].removeprefix(".")).status_code == 200
    assert Parsed(client.get("/", params={"tab": "about"}).text).all("a", href="./api")
    footer = client.get("/", params={"q": "bees", "where": "row = 1"}).text.partition("<footer>")[2]
    assert 'href="./api?q=bees&amp;where=row+%3D+1">this search as an API call</a>' in footer
    assert "externalDocs" not in serving(built / "words").get("/openapi.json").json()


def test_what_is_served_is_what_can_be_chosen_and_names_are_text(serving, built, tmp_path):
    client = serving(f"<b>'x={built / 'words'}", page=PAGE)
    page = Parsed(client.get("/api").text)
    assert not page.all("b")
    assert {"value": "<b>'x"} in page.all("option")
    assert "No artifact of this server can answer." in page.text.partition("/fill")[2]
    document = client.get("/openapi.json").json()
    assert document["paths"]["/neighbours"]["get"]["x-artifacts"] == ["<b>'x"]
    assert document["paths"]["/fill"]["get"]["x-artifacts"] == []
    with_token = serving(built / "words", page=PAGE, token=b"a" * 40, token_file=_written(tmp_path / "token", "a" * 40))
    reply = with_token.get("/api", headers={"Authorization": f"Bearer {'a' * 40}"})
    assert "Authorization: Bearer TOKEN" in reply.text
    assert "data-token" in reply.text
    assert "a" * 40 not in reply.text
    assert with_token.get("/api").status_code == 401


def _written(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


# ---- in a browser


def box_of(page, method, path):
    """The form of an operation, opened, as is its endpoint."""
    page.locator("details.endpoint", has=page.locator(f"[id='{path}']")).evaluate("box => { box.open = true; }")
    box = page.locator(f".try[data-method='{method}'][data-path='{path}']")
    if box.get_attribute("open") is None:
        box.locator("summary").click()
    return box


def stamps(*folders):
    return {file: file.stat().st_mtime_ns for folder in folders for file in folder.rglob("*") if file.is_file()}


@needs_browser
@pytest.mark.oracle
def test_every_example_is_answered_and_nothing_is_changed(look_at, server, built, records, heads):  # noqa: F811
    with urlopen(f"{server.url}/openapi.json") as reply:
        document = json.load(reply)
    before = stamps(built, records, heads)
    seen = look_at(server.url)
    page = seen.go("/api")
    page.locator(".try button.copy").first.wait_for(state="attached")
    for path, method, operation in operations(document):
        box = box_of(page, method.upper(), path)
        if box.locator("[name=layout]").count():  # UMAP has to be compiled first
            box.locator("[name=layout]").select_option("pca")
        elif path.startswith("/map"):
            box.locator("textarea").fill('{"layout": "pca"}')
        box.get_by_role("button", name="Send").click()
        box.locator(SHOWN).wait_for()
        until(page, "!document.querySelector('.answer[aria-busy]')")
        said = box.get_by_role("status").inner_text()
        assert said.startswith("200"), (method, path, said, box.locator(SHOWN).inner_text())
        assert "ms" in said
        media = box.locator("dd", has_text="/").last.inner_text().partition(";")[0]
        assert media in operation["responses"]["200"]["content"], (path, media)
    assert stamps(built, records, heads) == before
    assert violations(page) + cut_off(page) == []  # with all forms and answers
    assert seen.errors == []


@needs_browser
@pytest.mark.oracle
def test_an_answer_is_shown_as_the_server_wrote_it_in_lines(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/api#/facets")
    assert page.evaluate("document.querySelector('details.endpoint[open] :target').id") == "/facets"
    page.locator(".contents a", has_text="/suggest").click()
    assert page.evaluate("document.querySelector('details.endpoint[open] :target').id") == "/suggest"
    box = box_of(page, "GET", "/facets")
    box.get_by_role("button", name="Send").click()
    box.locator(SHOWN).wait_for()
    until(page, "!document.querySelector('.answer[aria-busy]')")
    assert box.locator(".asked code").inner_text().startswith(f"{server.url}/facets?")
    text = box.locator(SHOWN).inner_text()
    with urlopen(f"{server.url}/facets?q=salt&values=20") as reply:
        assert json.loads(text) == json.load(reply)
    assert len(text.splitlines()) > 20
    # an error, with a number that no browser writes so
    box.locator("[name=values]").fill("1e9")
    box.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('.answer .wrong')?.innerText.startsWith('400')")
    assert '"where": "values"' in box.locator(SHOWN).inner_text()
    box = box_of(page, "POST", "/v1/embeddings")
    box.locator("textarea").fill("no JSON")
    box.locator("textarea").press("Control+Enter")
    box.locator(".wrong").wait_for()
    assert box.get_by_role("status").inner_text().startswith("400")
    assert [one for one in seen.errors if "400" not in one] == []


@needs_browser
@pytest.mark.oracle
def test_a_stream_comes_in_parts_until_stop(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/api")
    box = box_of(page, "POST", "/v1/completions")
    box.get_by_label("as a stream").check()
    assert json.loads(box.locator("textarea").input_value())["stream"] is True
    box.get_by_role("button", name="Send").click()
    box.get_by_role("status").filter(has_text="characters").wait_for()
    assert "[DONE]" in box.locator(SHOWN).inner_text()
    assert not box.get_by_role("button", name="Stop").is_visible()
    box.get_by_label("as a stream").uncheck()
    assert "stream" not in json.loads(box.locator("textarea").input_value())
    long = {"prompt": "The sea", "max_tokens": 4_000, "temperature": 0, "stream": True}
    box.locator("textarea").fill(json.dumps(long))
    box.get_by_role("button", name="Send").click()
    until(page, f"document.querySelector('{SHOWN}')?.textContent.split('data: ').length > 3")
    box.get_by_role("button", name="Stop").click()
    box.get_by_role("status").filter(has_text="stopped").wait_for()
    assert page.evaluate("document.activeElement.innerText") == "Send"
    assert "[DONE]" not in box.locator(SHOWN).inner_text()
    assert seen.errors == []


def arguments(command, **variables):
    """What a shell gives to curl."""
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}"
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin", **variables}
    )
    return done.stdout.decode().split("\0")[:-1]


def copied(page, box):
    box.get_by_role("button", name="copy as curl").click()
    until(page, "window.copied")
    text = page.evaluate("window.copied")
    page.evaluate("window.copied = ''")
    return text


@needs_browser
@pytest.mark.oracle
def test_a_command_of_curl_is_the_same_request(look_at, server):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/api")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    box = box_of(page, "GET", "/search")
    box.locator("[name=q]").fill("it's $HOME & `bees` 50% ü#?")
    box.locator("[name=f]").fill('[["lang", "it\'s"]]')
    box.locator("[name=index]").select_option("records")
    box.locator("[name=format]").select_option("json")
    (address,) = arguments(copied(page, box))
    assert arguments(page.locator(".curl").first.inner_text().removesuffix("copy")) == [address]
    with urlopen(address) as reply:
        assert json.load(reply)["query"] == "it's $HOME & `bees` 50% ü#?"
    box = box_of(page, "POST", "/v1/completions")
    box.locator("textarea").fill(AWKWARD)
    address, *head, flag, body = arguments(copied(page, box))
    assert (head, flag, body) == (["--header", "Content-Type: application/json"], "--data-raw", AWKWARD)
    with urlopen(Request(address, body.encode(), {"Content-Type": "application/json"})) as reply:
        curled = json.load(reply)["choices"]
    box.get_by_role("button", name="Send").click()
    box.get_by_role("status").filter(has_text="200").wait_for()
    assert json.loads(box.locator(SHOWN).inner_text())["choices"] == curled
    box = box_of(page, "GET", "/v1/models/{name}")
    box.locator("[name=name]").select_option("clm")
    assert arguments(copied(page, box)) == [f"{server.url}/v1/models/clm"]


@needs_browser
@pytest.mark.oracle
def test_behind_a_proxy_with_a_prefix_and_with_a_token_that_no_command_has(look_at, built, tmp_path):  # noqa: F811
    token = "t" * 40
    with wordpipe.serve(built / "words", port=0, token_file=_written(tmp_path / "token", token)) as server:
        seen = look_at(server.url, http_credentials={"username": "me", "password": token})
        seen.page.route(
            "**/some/prefix/**", lambda route: route.continue_(url=route.request.url.replace("/some/prefix", ""))
        )
        page = seen.go("/some/prefix/api")
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        box = box_of(page, "GET", "/neighbours")
        sent = []
        page.on("request", lambda request: sent.append(request.url))
        box.get_by_role("button", name="Send").click()
        box.get_by_role("status").filter(has_text="200").wait_for()
        assert sent == [f"{server.url}/some/prefix/neighbours?word=water"]
        command = copied(page, box)
        assert token not in command
        assert arguments(command, TOKEN=token) == [sent[0], "--header", f"Authorization: Bearer {token}"]
        assert token not in page.content()


@needs_browser
@pytest.mark.oracle
def test_without_a_script_a_form_leads_to_its_answer(look_at, server):  # noqa: F811
    page = look_at(server.url, java_script_enabled=False).go("/api#/fill")
    assert page.evaluate("document.querySelector('details.endpoint[open] :target').id") == "/fill"
    assert arguments(page.locator(".curl").first.inner_text())[0].startswith(f"{server.url}/search?q=")
    assert not page.get_by_role("button", name="Send").is_visible()
    box_of(page, "POST", "/fill")
    assert page.locator(".try button:visible").count() == 0  # a body needs the script
    box = box_of(page, "GET", "/neighbours")
    box.get_by_role("button", name="Send").click()
    page.wait_for_url("**/neighbours?word=water&**")
    assert json.loads(page.locator("body").inner_text())["word"] == "water"
