"""The Model Context Protocol: tools over HTTP and standard input; hostile messages; the client of the package `mcp`."""

import io
import json
import random
import subprocess
import sys

import pytest

import wordpipe
from wordpipe.web.assistants import messages, stdin, tools

NEW = messages.MODERN[-1]
META = {"io.modelcontextprotocol/protocolVersion": NEW, "io.modelcontextprotocol/clientCapabilities": {}}


def request(method, own=1, **params):
    return {"jsonrpc": "2.0", "id": own, "method": method, "params": params}


def called(name, own=1, **arguments):
    return request("tools/call", own, name=name, arguments=arguments)


def headers(method, name=None, version=NEW):
    return {"MCP-Protocol-Version": version, "Mcp-Method": method} | ({} if name is None else {"Mcp-Name": name})


def over_stdin(artifacts, *sent, **options):
    """The answers to some lines, by the ids that they answer."""
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in sent]
    sink = io.BytesIO()
    stdin.answer_assistant(
        [*artifacts], source=io.BytesIO(b"\n".join(lines) + b"\n"), sink=sink, verify=False, **options
    )
    return [json.loads(line) for line in sink.getvalue().splitlines()]


@pytest.fixture(scope="module")
def posted(client):
    def post(message, expected=200, **given):
        reply = client.post("/mcp", json=message, headers=given.get("headers", {}))
        assert reply.status_code == expected, reply.text
        return reply.json() if reply.content else None

    return post


def result_of(answer):
    assert "error" not in answer, answer
    return answer["result"]


# ---- the protocol


@pytest.mark.parametrize("version", [*messages.HANDSHAKE, "1999-01-01", NEW])
def test_an_older_client_shakes_hands(posted, version):
    found = result_of(posted(request("initialize", protocolVersion=version, capabilities={}, clientInfo={})))
    assert found["protocolVersion"] == (version if version in messages.HANDSHAKE else messages.HANDSHAKE[-1])
    assert found["serverInfo"] == {"name": "wordpipe", "version": wordpipe.__version__}
    assert "records (40 texts)" in found["instructions"]
    assert posted({"jsonrpc": "2.0", "method": "notifications/initialized"}, 202) is None
    assert "resultType" not in result_of(posted(request("tools/list")))


def test_the_newest_revision_needs_no_handshake(posted):
    found = result_of(posted(request("server/discover", _meta=META), headers=headers("server/discover")))
    assert found["supportedVersions"] == [NEW]
    assert found["resultType"] == "complete"
    listed = result_of(posted(request("tools/list", _meta=META), headers=headers("tools/list")))
    assert [one["name"] for one in listed["tools"]] == ["search", "get", "similar", "fields"]
    assert all(one["annotations"]["readOnlyHint"] for one in listed["tools"])
    asked = called("search", query="bees") | {}
    asked["params"]["_meta"] = META
    assert result_of(posted(asked, headers=headers("tools/call", "search")))["resultType"] == "complete"


WRONG = [
    ({}, headers("tools/list"), messages.INVALID_PARAMS, 400),
    ({"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}}, {}, messages.HEADER_MISMATCH, 400),
    ({"_meta": META}, headers("tools/call"), messages.HEADER_MISMATCH, 400),
    ({"_meta": META}, headers("tools/list", version="2099-01-01"), messages.UNSUPPORTED_VERSION, 400),
    ({"_meta": {"io.modelcontextprotocol/protocolVersion": NEW}}, headers("tools/list"), messages.INVALID_PARAMS, 400),
]


@pytest.mark.parametrize(("params", "given", "code", "status"), WRONG)
def test_a_request_that_contradicts_itself_is_refused(posted, params, given, code, status):
    assert posted(request("tools/list", **params), status, headers=given)["error"]["code"] == code


def test_a_name_in_a_header_is_compared_with_the_message(posted):
    asked = called("search", query="bees")
    asked["params"]["_meta"] = META
    assert posted(asked, 400, headers=headers("tools/call", "get"))["error"]["code"] == messages.HEADER_MISMATCH
    posted(asked, headers=headers("tools/call", "=?base64?c2VhcmNo?="))


def test_older_clients_may_send_lists(posted):
    sent = [request("ping", "a"), {"jsonrpc": "2.0", "method": "notifications/x"}, request("nope", 2)]
    found = posted(sent)
    assert [one["id"] for one in found] == ["a", 2]
    assert found[1]["error"]["code"] == messages.METHOD_NOT_FOUND
    assert posted(sent[1:2], 202) is None
    posted([], 400)
    posted([request("ping")] * 51, 400)
    posted([request("ping")], 400, headers=headers("ping"))


def test_there_is_no_stream_to_listen_to(client):
    assert client.get("/mcp").status_code == client.delete("/mcp").status_code == 405


def test_another_page_and_a_wrong_token_are_refused(serving, records):
    guarded = serving(records, token=b"t" * 20)
    assert guarded.post("/mcp", json=request("ping")).status_code == 401
    allowed = {"Authorization": f"Bearer {'t' * 20}"}
    assert guarded.post("/mcp", json=request("ping"), headers=allowed).status_code == 200
    assert (
        guarded.post("/mcp", json=request("ping"), headers={**allowed, "Origin": "http://evil.test"}).status_code == 403
    )
    assert guarded.post("/mcp", json=request("ping"), headers={**allowed, "Host": "evil.test"}).status_code == 421


# ---- the tools


def test_search_gives_what_query_gives_with_places(posted, records):
    found = result_of(posted(called("search", query="how do bees fly", k=3, index="records", where="year >= 2000")))
    with wordpipe.open(records) as index:
        hits = index.query("how do bees fly", k=3, where="year >= 2000")
    answers = found["structuredContent"]["answers"]
    assert [(one["row"], one["id"]) for one in answers] == [(hit["row"], hit["id"]) for hit in hits]
    assert answers[0]["fields"]["year"] == hits[0]["metadata"]["year"]
    said = found["content"][0]["text"]
    assert not found["isError"]
    assert f"id {hits[0]['id']}" in said
    assert "Bees find their way home" in said


def test_all_indexes_are_searched_as_one(posted):
    found = result_of(posted(called("search", query="bees salt", k=50)))["structuredContent"]["answers"]
    assert {one["index"] for one in found} == {"records", "index"}


def test_get_reads_a_long_text_in_parts(posted, built):
    with wordpipe.open(built / "index") as index:
        rows = index.batches(["text", "doc_id"]).read_all().to_pylist()
    row = max(range(len(rows)), key=lambda one: len(rows[one]["text"]))
    parts, start = [], 0
    while start is not None:
        found = result_of(posted(called("get", row=row, index="index", start=start, length=40)))["structuredContent"]
        parts.append(found["text"])
        start = found.get("next")
    assert "".join(parts) == rows[row]["text"]
    assert found["characters"] == len(rows[row]["text"])
    for name, other in (("before", row - 1), ("after", row + 1)):
        is_there = 0 <= other < len(rows) and rows[other]["doc_id"] == rows[row]["doc_id"]
        assert found.get(name) == (other if is_there else None)


def test_similar_and_fields(posted, client):
    near = result_of(posted(called("similar", id="r-2", index="records", k=3)))["structuredContent"]["answers"]
    expected = client.get("/similar", params={"id": "r-2", "index": "records", "k": 3, "format": "json"}).json()["hits"]
    assert [one["row"] for one in near] == [hit["row"] for hit in expected]
    about = result_of(posted(called("fields", index="records")))["structuredContent"]
    assert (about["rows"], about["counted"]) == (40, "all rows")
    by_name = {one["name"]: one for one in about["fields"]}
    assert {"value": "de", "rows": 10} in by_name["lang"]["values"]
    assert [one["index"] for one in about["indexes"]] == ["records", "index"]


def test_fields_say_what_was_counted(posted):
    for query, rows, said in (("bees", 10, "only rows that contain"), ("xylomorph", 40, "because no row contains")):
        found = result_of(posted(called("fields", index="records", query=query)))
        assert found["structuredContent"]["rows"] == rows
        assert said in found["structuredContent"]["counted"]
        assert found["structuredContent"]["counted"] in found["content"][0]["text"]


@pytest.fixture(scope="module")
def notes(serving, records, tmp_path_factory):
    """A server of Markdown without vectors, and the index of it; behind it records with ids."""
    root = tmp_path_factory.mktemp("notes")
    (root / "notes" / "sea").mkdir(parents=True)
    (root / "notes" / "sea" / "tides.md").write_text(
        "# The sea\n\nSalt.\n\n## High water\n\nTwo tides come each day.\n"
    )
    wordpipe.ingest(root / "notes", output=root / "corpus", valid=0)
    wordpipe.index(root / "corpus", output=root / "index")
    return serving(f"notes={root / 'index'}"), serving(f"notes={root / 'index'}", f"records={records}"), root / "index"


def test_a_place_is_whole_and_unknown_words_are_named(notes, cli):
    found = notes[0].post("/mcp", json=called("search", query="tides xylomorph")).json()["result"]
    answer, by_file_name = found["structuredContent"]["answers"]
    assert answer["place"] == "notes/sea/tides.md#high-water:7"
    assert by_file_name["place"].startswith("notes/sea/tides.md#the-sea")
    assert answer["place"] in cli("query", notes[2], "tides").out
    assert found["structuredContent"]["unknown"] == {"xylomorph": []}
    assert "unknown word: xylomorph" in found["content"][0]["text"]
    whole = notes[0].post("/mcp", json=called("get", row=answer["row"])).json()["result"]["structuredContent"]
    assert whole["place"].startswith("notes/sea/tides.md#high-water")


def test_a_tool_that_no_index_can_answer_is_not_listed(notes):
    alone, both = (one.post("/mcp", json=request("tools/list")).json()["result"]["tools"] for one in notes[:2])
    assert [one["name"] for one in alone] == ["search", "get", "fields"]
    assert [one["name"] for one in both] == ["search", "get", "similar", "fields"]
    schemas = [one["inputSchema"]["properties"]["where"] for one in both if one["name"] != "get"]
    assert all(one["type"] == "string" for one in schemas)


def test_an_id_is_looked_for_in_all_indexes(notes):
    for path in ("/text", "/similar"):
        reply = notes[1].get(path, params={"id": "r-7", "format": "json"} if path == "/similar" else {"id": "r-7"})
        assert (reply.status_code, reply.json()["index"]) == (200, "records")
    missing = notes[1].get("/text", params={"id": "r-99"})
    assert missing.status_code == 404
    assert "the indexes are notes, records" in missing.json()["error"]["message"]
    assert notes[1].get("/text", params={"id": "r-7", "index": "notes"}).status_code == 400


MISTAKES = [
    ("search", {"qury": "bees"}, "unknown argument"),
    ("search", {"query": "bees", "where": "yeer > 3"}, "did you mean year"),
    ("search", {"query": "bees", "k": 51}, "1 to 50"),
    ("search", {"query": "bees", "k": "many"}, "wrong type"),
    ("search", {}, "the query is empty"),
    ("search", {"query": "bees", "index": "nope"}, "choose one of"),
    ("get", {}, "row or id"),
    ("get", {"row": 40, "index": "records"}, "0 to 39"),
    ("get", {"id": "r-99", "index": "records"}, "no record has this id"),
    ("similar", {"row": 3, "index": "words"}, "does not support similar"),
    ("fields", {"index": "words"}, "no fields"),
    ("get", {"row": 3, "index": "records", "start": 900}, "the text has no character 900"),
    ("search", {"query": "bees", "where": "year >"}, "where: this is not a condition"),
    ("search", {"query": "bees", "sort": "nope", "index": "records"}, "sort: the rows have no field"),
    ("search", {"query": "bees", "where": "yeer_of_print > 3", "index": "records"}, "where: the condition"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), MISTAKES)
def test_a_mistake_of_the_assistant_is_said_to_it(posted, name, arguments, said):
    found = result_of(posted(called(name, **arguments)))
    assert found["isError"]
    text = found["content"][0]["text"]
    assert said in text
    assert not text.endswith((" ", ";"))
    assert not any(one in text for one in ("--", "wordpipe ", "\n", "?row="))


def test_an_answer_is_bounded_and_says_what_was_left_out(serving, tmp_path):
    rows = [
        {
            "id": i,
            "title": "t",
            "text": f"salt {'water ' * 3000}",
            "note": "x" * 9000,
            **{f"f{n}": n for n in range(30)},
        }
        for i in range(60)
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus")
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    client = serving(tmp_path / "index")
    reply = client.post("/mcp", json=called("search", query="salt", k=50))
    assert len(reply.content) < 150_000
    found = reply.json()["result"]["structuredContent"]["answers"]
    assert all(
        len(one["text"]) < 700 and one["fields_left_out"] > 0 and len(one["fields"]["note"]) < 200 for one in found
    )
    assert len(client.post("/mcp", json=called("get", row=1, length=24_000)).content) < 60_000
    assert len(client.post("/mcp", json=called("fields")).content) < 20_000


def test_the_schema_of_each_tool_has_its_arguments_and_is_kept(posted):
    from jsonschema import Draft202012Validator

    for one in result_of(posted(request("tools/list")))["tools"]:
        Draft202012Validator.check_schema(one["inputSchema"])
        assert [*one["inputSchema"]["properties"]] == [*tools.TOOLS[one["name"]].arguments]
        for name, schema in one["inputSchema"]["properties"].items():
            assert schema["description"]
            if "maximum" in schema:
                over = result_of(posted(called(one["name"], **{name: schema["maximum"] + 1})))
                assert over["isError"]
                assert name in over["content"][0]["text"]


# ---- hostile messages

HOSTILE = [
    b"", b"null", b"[]", b"{}", b"1", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0"}', b'{"a":1,"a":2}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":1}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["search"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":["x"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":{"a":1}}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"a","k":1e999}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"a","where":"1; drop"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","arguments":{"row":' + b"9" * 5000 + b"}}}",
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":[]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":{"a":1}}}',
    b'{"jsonrpc":"2.0","id":"' + b"x" * 300 + b'","method":"ping"}', b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}',
]  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: repr(body[:60]))
def test_a_hostile_message_gets_an_error_and_ends_nothing(client, body):
    reply = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (200, 202, 400, 404)
    if reply.content:
        found = reply.json()
        assert found["jsonrpc"] == "2.0"
        assert (
            "error" in found
            or found["result"].get("isError")
            or found["result"] == {}
            or "protocolVersion" in found["result"]
        )


def test_hostile_lines_leave_the_next_ones_answered(records):
    rng = random.Random(5)
    lines = [body.replace(b"\n", b" ") for body in HOSTILE if body]
    rng.shuffle(lines)
    found = over_stdin([records], *lines, b"x" * (4 << 20), request("ping", "last"))
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in found
    assert any("longer than" in one.get("error", {}).get("message", "") for one in found)
    assert all(one["jsonrpc"] == "2.0" for one in found)


# ---- standard input


def test_lines_are_answered_as_over_http(records, posted):
    sent = [
        called("search", one, query=text, index="records") for one, text in enumerate(["bees", "salt -bread", '"iron"'])
    ]
    found = {one["id"]: one for one in over_stdin([f"records={records}"], *sent)}
    for one in sent:
        assert found[one["id"]] == posted(one)


def test_a_bug_and_a_client_that_has_gone_end_nothing(records, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError

    said = []
    monkeypatch.setattr(messages, "call", broken)
    sink = io.BytesIO()
    sent = [json.dumps(one).encode() for one in (called("search", query="x"), request("ping", 2))]
    stdin.answer_assistant(records, source=io.BytesIO(b"\n".join(sent)), sink=sink, report=said.append)
    found = {one["id"]: one for one in map(json.loads, sink.getvalue().splitlines())}
    assert found[1]["error"]["code"] == messages.INTERNAL_ERROR
    assert found[2]["result"] == {}
    assert "ZeroDivisionError" in said[0]
    sink.close()
    stdin.answer_assistant(records, source=io.BytesIO(sent[1]), sink=sink)


def test_a_cancelled_request_is_not_answered(records, monkeypatch):
    import asyncio

    waiting = asyncio.Event

    async def slow(*_):
        await waiting().wait()

    monkeypatch.setattr(messages, "call", slow)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}
    found = over_stdin([records], called("search", "slow", query="x"), cancel, request("ping", 2))
    assert [one["id"] for one in found] == [2]


# ---- the command, and the client of others


def command(*arguments):
    return [sys.executable, "-m", "wordpipe", "mcp", *map(str, arguments)]


@pytest.mark.landing
def test_the_command_writes_messages_alone_and_ends_with_its_input(records, tmp_path):
    sent = "".join(json.dumps(one) + "\n" for one in (request("ping"), called("search", 2, query="bees", k=1)))
    done = subprocess.run(command(records), input=sent.encode(), capture_output=True, timeout=120, check=True)
    assert {one["id"] for one in map(json.loads, done.stdout.splitlines())} == {1, 2}
    failed = subprocess.run(command(tmp_path / "none"), input=b"", capture_output=True, timeout=120, check=False)
    assert failed.returncode == 4
    assert not failed.stdout


@pytest.mark.landing
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("way", ["http", "stdin"])
def test_the_client_of_the_package_mcp(records, way, mode):
    pytest.importorskip("mcp", reason="the client of MCP is not installed: pip install mcp")
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def ask(target):
        async with Client(target, mode=mode) as client:
            listed = (await client.list_tools()).tools
            assert [one.name for one in listed] == [*tools.TOOLS]
            found = await client.call_tool("search", {"query": "how do bees fly", "k": 3})
            assert not found.is_error
            row = found.structured_content["answers"][0]["row"]
            whole = await client.call_tool("get", {"row": row})
            assert whole.content[0].text.endswith(whole.structured_content["text"])
            wrong = await client.call_tool("search", {"query": "bees", "where": "yeer > 3"})
            assert wrong.is_error
            return found.structured_content["answers"]

    if way == "http":
        with wordpipe.serve(records, port=0) as server:
            answers = anyio.run(ask, f"{server.url}/mcp")
    else:
        name, *rest = command(records)
        answers = anyio.run(ask, stdio_client(StdioServerParameters(command=name, args=rest)))
    with wordpipe.open(records) as index:
        assert [one["row"] for one in answers] == [hit["row"] for hit in index.query("how do bees fly", k=3)]
