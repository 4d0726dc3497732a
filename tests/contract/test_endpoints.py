"""Every endpoint of the server, by its declaration: GET = POST = /openapi.json, and what is not declared is refused.

Each is asked by the examples of its parameters, so one that is new is tested when it is declared.
"""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from jsonschema import Draft202012Validator

from tests.support.waiting import wait_until
from wordpipe.web import app, endpoint, openapi
from wordpipe.web.settings import ServeSettings

TABLE, Answer, Search = endpoint.TABLE, endpoint.Answer, app.search.Search
BY_PATH = {one.declared.path: one for one in TABLE}
PATHS = {"name": "words", "index": "records"}  # of parameters in a path
MORE = {
    "/map": {"layout": "pca"}, "/map/{name}": {"layout": "pca"},
    "/doctor": {"artifact": "words"}, "/about": {"artifact": "words"},
    "/similar": {"format": "json"}, "/search": {"format": "json", "passage": 60},
}  # fmt: skip
REQUESTS = [  # that show more of an answer than its examples do: path, parameters, body
    ("/search", {"q": "saltt wxyz", "format": "json", "where": "year > 3000"}, None),
    ("/search", {"q": "water + salt", "format": "json", "index": "words"}, None),
    ("/search", {"q": "salt", "format": "json", "explain": 1}, None),
    ("/facets", {"where": "year < 2000"}, None),
    ("/facets", {"index": "index"}, None),
    ("/attention", {"text": "salt and water", "model": "model", "layer": 1, "head": 1}, None),
    ("/doctor", {"artifact": "colours"}, None),
    ("/neighbours", {"word": "watre"}, None),
    ("/attention", {"text": "salt", "layer": 999}, None),
    ("/about", {}, None),
    ("/v1/embeddings", {}, {"input": ["a b", "salt"], "model": "words", "encoding_format": "base64"}),
    ("/v1/embeddings", {}, {"input": [1]}),
    ("/embed", {}, {"inputs": [7]}),
    ("/search", {}, {"q": ["salt", "bees"], "format": "json", "k": 2}),
    ("/rerank", {}, {"query": "salt", "texts": [7]}),
    ("/v1/rerank", {}, {"query": "salt", "documents": ["a"], "model": "nope"}),
    ("/v1/completions", {}, {"prompt": "The", "stream_options": [1]}),
    ("/v1/vector_stores/{index}/search", {}, {"query": "salt", "ranking_options": [1]}),
    ("/similar", {}, {"row": 1.0, "k": 2.0, "format": "json"}),
    ("/v1/completions", {}, {"prompt": ["The", "A"], "max_tokens": 2, "n": 2, "stop": ["x"]}),
    ("/v1/chat/completions", {}, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "n": 2}),
]


def params_of(cls, *where):
    return [one for one in cls.declared.params if one.at in where]


def example_of(cls, *where):
    """A request that is answered: parameters that have an example, and what this file adds."""
    found = {one.name: one.example for one in params_of(cls, *where) if one.example is not None}
    return found | {name: value for name, value in MORE.get(cls.declared.path, {}).items() if "" in where}


def path_of(cls):
    return cls.declared.path.format(**PATHS)


def told(reply):
    """An answer without what differs from one request to the next."""
    found = reply.text if reply.headers["Content-Type"].startswith("text/html") else reply.json()
    for name in ("seconds", "created", "id") if isinstance(found, dict) else ():
        found.pop(name, None)
    return found


@pytest.fixture(scope="module")
def document(client):
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    assert set(found["paths"]) == {route.path for route in client.app.routes} == set(BY_PATH)
    names = [operation["operationId"] for one in found["paths"].values() for operation in one.values()]
    assert len(set(names)) == len(names)
    for schema in found["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    return found


def valid(document, schema, value):
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def answers_as_said(document, operation, reply):
    """The answer, or the refusal, has the schema that the document gives it."""
    content = operation["responses"]["200" if reply.status_code == 200 else "4XX"]["content"]
    kind = reply.headers["Content-Type"].partition(";")[0]
    assert kind in content
    if kind == "application/json":
        valid(document, content[kind]["schema"], reply.json())


@pytest.mark.parametrize("cls", TABLE, ids=lambda cls: cls.declared.path)
def test_get_is_post_is_the_document(client, document, cls):
    replies = []
    for method in cls.declared.methods:
        operation = document["paths"][cls.declared.path][method.lower()]
        if method == "GET":
            reply = client.get(path_of(cls), params=example_of(cls, "", "url"))
        else:
            body = operation["requestBody"]["content"]["application/json"]
            valid(document, body["schema"], body["example"])
            sent = body["example"] | MORE.get(cls.declared.path, {})
            reply = client.post(path_of(cls), params=example_of(cls, "url"), json=sent)
        assert reply.status_code == 200, reply.text
        answers_as_said(document, operation, reply)
        replies.append(reply)
    assert all(told(one) == told(other) for one, other in itertools.pairwise(replies))
    assert (
        len({*cls.declared.methods}) == 2
        or cls.declared.path.startswith(("/v1", "/v2", "/embed", "/info", "/rerank"))
        or not cls.declared.can
    )


@pytest.mark.parametrize(("path", "params", "body"), REQUESTS, ids=lambda value: str(value)[:40])
def test_what_is_answered_is_what_the_document_says(client, document, path, params, body):
    method = "get" if body is None else "post"
    operation = document["paths"][path][method]
    answers_as_said(document, operation, client.request(method, path.format(**PATHS), params=params, json=body))


@pytest.mark.parametrize("cls", TABLE, ids=lambda cls: cls.declared.path)
def test_what_is_not_declared_is_refused_with_what_is(client, cls):
    for method in cls.declared.methods:
        inside = params_of(cls, "", "url") if method == "GET" else params_of(cls, "url")
        reply = client.request(method, path_of(cls), params={"nope": 1}, json={} if method == "POST" else None)
        said = json.dumps(reply.json(), ensure_ascii=False)
        if cls.declared.others and not inside:
            assert "unknown parameter" not in said
        else:
            assert "unknown parameter" in said
            assert ", ".join(one.name for one in inside) in said
        if method == "POST" and not cls.declared.others:
            reply = client.post(path_of(cls), json={"nope": 1})
            assert "unknown field" in reply.json()["error"]["what"]
            assert reply.status_code == 400


BOUNDED = [
    (cls, one, wrong)
    for cls in TABLE
    for one in cls.declared.params
    for wrong in [
        *([one.ge - 1] if one.kind in (int, float) and one.ge is not None else []),
        *([one.largest(ServeSettings()) + 1] if one.kind in (int, float) and one.largest(ServeSettings()) else []),
        *(["nope"] if one.choices or one.kind in (int, float, bool) else []),
    ]
]


@pytest.mark.parametrize(
    ("cls", "one", "wrong"), BOUNDED, ids=[f"{cls.declared.path} {one.name} {wrong}" for cls, one, wrong in BOUNDED]
)
def test_values_out_of_bounds_are_refused_by_name(client, cls, one, wrong):
    for method in cls.declared.methods:
        at = "url" if method == "GET" else one.at
        params = example_of(cls, "", "url") if method == "GET" else example_of(cls, "url")
        body = None if method == "GET" else example_of(cls, "")
        (params if at == "url" else body)[one.name] = wrong
        reply = client.request(method, path_of(cls), params=params, json=body)
        assert 400 <= reply.status_code < 500, reply.text
        assert one.name in reply.text
        if cls.declared.error is None and wrong != "nope":
            assert reply.json()["error"]["where"] == one.name
            assert reply.json()["error"]["what"] == "out of bounds"


@pytest.mark.parametrize("cls", TABLE, ids=lambda cls: cls.declared.path)
def test_what_is_needed_is_said_to_be_missing(client, cls):
    needed = [one for one in params_of(cls, "", "url") if one.is_needed]
    for one, method in itertools.product(needed, cls.declared.methods):
        given = {name: value for name, value in example_of(cls, "").items() if name != one.name}
        reply = client.get(path_of(cls), params=given) if method == "GET" else client.post(path_of(cls), json=given)
        assert f"{one.name} is missing" in reply.text


def test_every_parameter_is_declared_for_people_and_programs():
    limits = ServeSettings()
    for cls in TABLE:
        assert cls.__doc__, cls
        names = [one.name for one in cls.declared.params]
        assert len(set(names)) == len(names)
        assert sum(one.is_artifact for one in cls.declared.params) == bool(cls.declared.can) or not cls.declared.can
        for one in cls.declared.params:
            assert one.text, (cls, one.name)
            Draft202012Validator.check_schema(one.schema_in(limits))
            if one.example is not None:
                Draft202012Validator(one.schema_in(limits)).validate(one.example)
        assert cls.declared.answer is not None or cls.declared.media
        assert isinstance(cls.declared.error or openapi.ERROR, Answer)


def test_an_answer_is_computed_in_the_thread_of_its_artifact_in_one_trip(serving, records, built, heads, monkeypatch):
    client = serving(
        f"records={records}", built / "index", built / "words", built / "model", heads / "clm", heads / "colours"
    )
    threads = []
    for cls in TABLE:
        if not cls.declared.can:
            continue

        def answer(at, items, *, own=cls.answer):
            threads.append(threading.current_thread().name)
            return own(at, items)

        with monkeypatch.context() as patch:
            patch.setattr(cls, "answer", staticmethod(answer))
            method = cls.declared.methods[0]
            params = example_of(cls, "", "url") if method == "GET" else example_of(cls, "url")
            if cls.declared.path == "/search":
                params |= {"f": '[["lang", "de"]]', "explain": 1}
            body = example_of(cls, "") if method == "POST" else None
            assert client.request(method, path_of(cls), params=params, json=body).status_code == 200
        assert len(threads) == 1, cls
        assert threads.pop().startswith("wordpipe-"), cls


def test_requests_that_differ_in_what_is_asked_alone_are_answered_together(serving, built):
    client, asked = serving(built / "index"), []
    at_work, go_on = threading.Event(), threading.Event()
    own = Search.answer

    def more(n):  # with the artifact's name and without
        return {"q": f"sea {n}", "k": 3 + n // 4, **({"index": "index"} if n % 2 else {})}

    def answer(at, items):
        asked.append([one.q for one in items])
        at_work.set()
        assert go_on.wait(30)
        return own(at, items)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setattr(Search, "answer", staticmethod(answer))
        first = pool.submit(client.get, "/search", params={"q": "salt"})
        assert at_work.wait(30)
        rest = [pool.submit(client.get, "/search", params=more(n)) for n in range(6)]
        (one,) = client.app.artifacts.by_name.values()
        wait_until(lambda: len(one.batcher._waiting) >= 6)
        go_on.set()
        assert [one.result().status_code for one in [first, *rest]] == [200] * 7
    assert asked[0] == ["salt"]
    assert sorted(map(sorted, asked[1:])) == [["sea 0", "sea 1", "sea 2", "sea 3"], ["sea 4", "sea 5"]]
