"""Who may ask, how much and how long; and what an answer says to a browser."""

import asyncio
import base64
import json
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.waiting import wait_until
from wordpipe.errors import ConfigError
from wordpipe.web.page import StaticFile
from wordpipe.web.settings import ServeSettings

TOKEN = b"0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200), ("localhost", 200), ("LOCALHOST:9", 200), ("[::1]:8000", 200), ("127.0.0.2", 200),
        ("evil.example", 421), ("localhost.evil.example:8000", 421), ("127.0.0.1.evil.example", 421),
        ("192.168.1.7:8000", 421),
        ("127.0.0.1@evil.example", 421), ("localhost/evil.example", 421), ("", 421), ("evil.example#localhost", 421),
        ("[::1", 421), ("localhost:x", 421), ("a" * 400, 421),
    ],
)  # fmt: skip
def test_only_names_of_this_server_are_answered(client, host, status):
    assert client.get("/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200), ({"Origin": "http://127.0.0.1:8000"}, 200), ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9000"}, 403), ({"Origin": "http://localhost:8000"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "none"}, 200), ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
    ],
)  # fmt: skip
def test_pages_of_other_servers_are_not_answered(client, headers, status):
    reply = client.get("/search", params={"q": "salt"}, headers=headers)
    assert reply.status_code == status
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]
    if "navigate" not in headers.values():
        posted = client.post("/v1/embeddings", json={"input": "salt"}, headers=headers)
        assert posted.status_code == status
    assert client.options("/search", headers={"Access-Control-Request-Method": "GET", **headers}).status_code in (
        403,
        405,
    )


def test_pages_of_allowed_origins_are_answered_and_only_these(serving, records):
    page, asks = "https://notes.example.org", {"Access-Control-Request-Method": "POST"}
    client = serving(records, token=TOKEN, cors_origin=[page, "http://localhost:5173"])
    bearer = {"Authorization": f"Bearer {TOKEN.decode()}"}
    for origin in (page, "http://localhost:5173"):
        first = client.options("/search", headers={"Origin": origin, "Sec-Fetch-Site": "cross-site", **asks})
        assert (first.status_code, first.headers["Access-Control-Allow-Origin"]) == (204, origin)
        assert "authorization" in first.headers["Access-Control-Allow-Headers"]
        sent = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        reply = client.post("/search", json={"q": "salt"}, headers=sent | bearer)
        assert (reply.status_code, reply.headers["Access-Control-Allow-Origin"]) == (200, origin)
        assert reply.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in reply.headers
        refused = client.get("/search", params={"q": "salt"}, headers=sent)
        assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (401, origin)
        assert client.options("/search", headers=sent).status_code == 401
        assert client.options("/search", headers={**sent, **asks, "Host": "evil.example"}).status_code == 421
    for origin in (f"{page}.evil.test", "http://notes.example.org", f"{page}:8443", "https://example.org", "null", "*"):
        reply = client.post("/search", json={"q": "salt"}, headers={"Origin": origin, **bearer})
        assert reply.status_code == 403
        assert "Access-Control-Allow-Origin" not in reply.headers
        assert client.options("/search", headers={"Origin": origin, **asks}).status_code == 403
    assert (
        client.get("/search", params={"q": "salt"}, headers={"Sec-Fetch-Site": "cross-site", **bearer}).status_code
        == 403
    )


@pytest.mark.parametrize(
    "origin",
    ["*", "https://*.example.org", "notes.example.org", "https://a.b/", "null", "https://u@a.b", "https://a:x"],
)
def test_an_origin_is_exact(origin):
    with pytest.raises(ConfigError, match="is not an origin"):
        ServeSettings.make({"cors_origin": [origin]})


def test_every_answer_has_the_headers_that_keep_it_harmless(client):
    for path in ("/search?q=salt", "/health", "/nope", "/search"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"


@pytest.fixture(scope="module")
def guarded(serving, records):
    return serving(records, token=TOKEN, host="0.0.0.0", token_file="unread", allow_host=["search.example"])


def basic(password):
    return "Basic " + base64.b64encode(b"me:" + password).decode()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401), ("Bearer " + TOKEN.decode(), 200), ("bearer  " + TOKEN.decode(), 200), (basic(TOKEN), 200),
        ("Bearer x", 401),
        ("Bearer", 401), (basic(b"x"), 401), ("Basic %%%", 401), (TOKEN.decode(), 401),
        ("Bearer " + TOKEN.decode() + "0", 401),
        ("Bearer \xe9", 401), ("Digest " + TOKEN.decode(), 401),
    ],
)  # fmt: skip
def test_the_token_is_needed_where_others_can_reach(guarded, header, status):
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    for host in ("192.168.1.7:8000", "search.example", "localhost:8000"):
        reply = guarded.get("/search", params={"q": "salt"}, headers={"Host": host, **headers})
        assert reply.status_code == status
        assert ("WWW-Authenticate" in reply.headers) == (status == 401)
    assert guarded.get("/health", headers={"Host": "evil.example", **headers}).status_code == 421


def test_health_says_little_without_a_token(guarded):
    assert guarded.get("/health").json() == {"status": "ok"}
    assert "artifacts" in guarded.get("/health", headers={"Authorization": basic(TOKEN)}).json()
    assert guarded.get("/metrics").status_code == 401


def test_another_host_needs_a_token_file():
    with pytest.raises(ConfigError, match="use --token-file FILE"):
        ServeSettings.make({"host": "0.0.0.0"})


@pytest.fixture(scope="module")
def small(serving, records):
    return serving(records, max_body=2_000, max_texts=2, max_chars=50, max_waiting=4)


def test_bodies_and_texts_have_a_size(small):
    assert small.post("/v1/embeddings", content=b"x" * 3_000).status_code == 413

    def pieces():
        for _ in range(30):
            yield b"x" * 100

    assert small.post("/v1/embeddings", content=pieces()).status_code == 413
    assert small.post("/v1/embeddings", json={"input": ["a"] * 3}).status_code == 413
    assert small.post("/v1/embeddings", json={"input": "a" * 51}).status_code == 400
    assert small.get("/search", params={"q": "a" * 51}).status_code == 400
    huge = small.post("/v1/embeddings", content=b"{}", headers={"Content-Length": "9" * 40})
    assert huge.status_code == 413


def hold(client, seconds):
    """Keep the thread of the artifact busy."""
    (served,) = client.app.artifacts.by_name.values()
    asyncio_done, begun = threading.Event(), threading.Event()

    def wait(items):
        begun.set()
        asyncio_done.wait(seconds)
        return list(items)

    async def ask():
        with served.lease() as generation:
            await served.ask(generation, wait, 0, key=object())

    thread = threading.Thread(target=lambda: asyncio.run(ask()), daemon=True)
    thread.start()
    assert begun.wait(60)
    return asyncio_done, thread


def test_an_answer_that_takes_too_long_is_given_up(serving, records):
    impatient = serving(records, timeout=0.5)
    done, thread = hold(impatient, 60)
    began = time.monotonic()
    reply = impatient.get("/search", params={"q": "salt"})
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
    assert time.monotonic() - began < 30
    done.set()
    thread.join()
    (served,) = impatient.app.artifacts.by_name.values()
    wait_until(lambda: served.current.users == 0)


def test_more_requests_than_may_wait_are_sent_away_at_once(small):
    done, thread = hold(small, 60)
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(small.get("/search", params={"q": "salt"}))) for _ in range(12)
    ]
    for one in threads:
        one.start()
    wait_until(lambda: len(replies) >= 12 - 4 - 1)  # four wait, one is answered
    assert small.get("/health").status_code == 200  # however many wait
    done.set()
    for one in [*threads, thread]:
        one.join()
    statuses = sorted(reply.status_code for reply in replies)
    assert set(statuses) <= {200, 429}
    assert statuses.count(429) >= 12 - 4 - 1
    assert all(reply.headers["Retry-After"] == "1" for reply in replies if reply.status_code == 429)


def test_the_log_has_a_line_for_each_request_without_what_was_asked(serving, records):
    lines = []
    client = serving(records, log=lines.append)
    client.get("/search", params={"q": "my secret"})
    client.get("/nope%0A%1b[31m", params={"q": "my secret"})
    assert "secret" not in "".join(lines)
    found = [json.loads(line) for line in lines]
    assert [(one["path"], one["status"]) for one in found] == [("/search", 200), ("/nope\n\x1b[31m", 404)]
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    open_log = []
    asked = serving(records, log=open_log.append, log_queries=True)
    asked.get("/search", params={"q": "my secret"})
    assert "my+secret" in open_log[0] or "my%20secret" in open_log[0]


def test_metrics_are_counts_in_the_format_of_prometheus(serving, records):
    client = serving(records)
    for params in ({"q": "salt"}, {"q": "tide"}, {}):
        client.get("/search", params=params)
    client.get("/" + "x" * 50)
    text = client.get("/metrics").text
    assert 'wordpipe_requests_total{route="/search",status="200"} 2.0\n' in text
    assert 'wordpipe_requests_total{route="/search",status="400"} 1.0\n' in text
    assert 'wordpipe_requests_total{route="other",status="404"} 1.0\n' in text
    assert 'wordpipe_batch_requests_count{artifact="index"} 2.0\n' in text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(any(line.startswith(name) for name in names) for line in samples)
    assert all(float(line.rsplit(" ", 1)[1]) >= 0 for line in samples)


class _Page:
    async def home(self, params, ask):
        status, found = await ask("/search", {"q": params.get("q", ""), "format": "json"})
        return f"<p>{status} {len(found.get('hits', []))}"

    def static(self, name):
        return StaticFile(b"body {}", b"", "text/css", '"1"') if name == "page.css" else None


def test_a_page_is_drawn_of_the_answers_and_may_run_no_script_that_stands_in_it(serving, records):
    client = serving(records, page=_Page())
    assert client.get("/", params={"q": "salt"}).text == "<p>200 10"
    reply = client.get("/")
    assert reply.text == "<p>400 0"
    assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
    assert "unsafe" not in reply.headers["Content-Security-Policy"]
    plain = client.get("/static/page.css", headers={"Accept-Encoding": "identity"})
    assert plain.headers["Content-Type"].startswith("text/css")
    for name in ("nope", "../app.py", "..%2fapp.py", "%2e%2e/%2e%2e/etc/passwd", "", "page.css/"):
        assert client.get(f"/static/{name}").status_code == 404


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["input", "inputs", "model", "dimensions", "encoding_format", "query", "filters", "max_num_results", "ranking_options",
     "prompt", "max_tokens", "n", "stop", "temperature", "seed", "normalize", "truncate", "prompt_name", "rewrite_query"]
)  # fmt: skip
BODIES = st.dictionaries(FIELDS, JSON, max_size=6).map(lambda value: json.dumps(value).encode()) | st.binary(
    max_size=60
)
PATHS = (
    "/v1/embeddings",
    "/v1/completions",
    "/embed",
    "/v1/vector_stores/records/search",
    "/v1/vector_stores/words/search",
)


@given(path=st.sampled_from(PATHS), body=BODIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_is_answered_with_a_bug(client, path, body):
    assert client.post(path, content=body).status_code in (200, 400, 404, 413, 422, 424)


NAMES = ("q", "k", "index", "mode", "weight", "feedback", "where", "per_document", "min_score", "explain", "format", "passage",
         "row", "id", "word", "words", "values", "text", "second", "top_k", "model", "artifact")  # fmt: skip


@given(
    path=st.sampled_from(
        ["/search", "/similar", "/neighbours", "/facets", "/fill", "/predict", "/about", "/v1/models/x"]
    ),
    params=st.dictionaries(
        st.sampled_from(NAMES),
        st.text(max_size=20) | st.integers().map(str) | st.sampled_from(["1", "json", "records"]),
        max_size=5,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_parameters_are_answered_with_a_bug(client, path, params):
    assert client.get(path, params=params).status_code in (200, 400, 404)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000, b'{"input":' * 5_000, b'{"input": ' + b"9" * 10_000 + b"}", b'{"input": "\\ud800"}', b'{"input": NaN}',
        b'{"input": "a", "dimensions": 1e400}', b"\xff\xfe", b"", b"null", b'{"input": "\\u0000"}', b'"' + b"a" * 100_000,
        '{"input": "\u202e\U000e0001\x7f"}'.encode(),
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
def test_hostile_json_is_refused_or_answered(client, body):
    assert client.post("/v1/embeddings", content=body).status_code in (200, 400, 422)
