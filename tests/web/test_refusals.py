"""What a server refuses with words: parameters, bodies and vectors that cannot be; a start that cannot be; no descriptors."""

import json
import os
import resource
import socket
import sys
from contextlib import suppress
from urllib.request import urlopen

import httpx2
import openai
import pytest

import wordpipe
from wordpipe.errors import (
    ArtifactError,
    BudgetError,
    ConfigError,
    DamageError,
    DivergedError,
    InputError,
    LockedError,
    StorageError,
    UnknownWordError,
    WordpipeError,
)
from wordpipe.web import connections, replies


@pytest.fixture(scope="module")
def asked(serving, records, built):
    return serving(f"records={records}", built / "words", max_body=1 << 20)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("q=salt&k=1&k=2", "k"), ("q=salt&q=salt", "q"), ("q=%ff", "q"), ("q=salt&index=%c3%28", "index"),
        ("%ff=1&q=a", "the URL"),
        ("q=a%00b", "q"), ("q=salt&where=year+%3E+%80", "where"), ("q=%ed%a0%80", "q"), ("q=salt&mode=auto&mode=", "mode"),
        ("q=salt&f=%ff", "f"), ("q=salt&where=row+%3E+1&where=%fe", "where"),
    ],
)  # fmt: skip
def test_parameters_that_repeat_or_cannot_be_read_are_named(asked, query, where):
    reply = asked.get(f"/search?{query}")
    assert reply.status_code == 400
    assert reply.json()["error"]["where"] == where


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError, 400), (InputError, 400), (UnknownWordError, 404), (ArtifactError, 400), (DamageError, 503),
        (StorageError, 503), (BudgetError, 503), (LockedError, 503), (DivergedError, 503),
    ],
)  # fmt: skip
def test_another_request_helps_with_4xx_and_only_the_owner_with_5xx(error, status):
    assert replies.status_of(error("what", hint="make the artifact again: wordpipe index … --fresh")) == status


def test_damage_is_of_the_family_of_artifacts():
    assert DamageError("what").to_json() == ArtifactError("what", hint="make the artifact again").to_json()


def test_what_may_repeat_may(asked):
    found = asked.get("/search?q=salt&where=year+%3E+1990&where=year+%3C+1999&q=".removesuffix("&q="))
    assert found.status_code == 200
    assert all(1990 < json.loads(line)["metadata"]["year"] < 1999 for line in found.text.splitlines())
    assert asked.get("/search?q=b%C3%B6e+100%&k=2").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/neighbours?word=%ff", "/facets?values=1&values=2", "/map?words=%ff", "/info?model=a&model=b", "/v1/models/%ff",
        "/?q=%ff", "/static/%ff",
    ],
)  # fmt: skip
def test_no_path_takes_what_is_no_text(asked, path):
    assert asked.get(path).status_code in (400, 404)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"input": "salt", "input": "sea"}', "'input' occurs twice"),
        (b'{"input": "salt", "user": {"a": 1, "a": 2}}', "'a' occurs twice"),
        (b'{"input": "a \\ud800 b"}', "input"), (b'{"input": ["sea", "\\udfff"]}', "input, item 2"),
        (b'{"input": "a\\u0000"}', "input"),
        (b'{"input": "\xff"}', "body"), (b'{"input": "\xed\xa0\x80"}', "input"),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read_are_named(asked, body, named):
    search = "/v1/vector_stores/records/search"
    for path, field in (
        ("/v1/embeddings", "input"),
        ("/v1/completions", "prompt"),
        (search, "query"),
        ("/embed", "inputs"),
    ):
        reply = asked.post(path, content=body.replace(b'"input"', f'"{field}"'.encode()))
        assert reply.status_code == (422 if path == "/embed" else 400)
        assert named.replace("input", field) in json.dumps(reply.json()["error"])


def test_only_fields_that_are_known_have_to_be_readable(asked):
    assert (
        asked.post("/v1/embeddings", content=b'{"\\ud800": 1, "more": ["\\u0000"], "input": "sea"}').status_code == 200
    )
    reply = asked.post("/v1/embeddings", content=b'{"input": "sea", "model": "\\u0000"}')
    assert (reply.status_code, reply.json()["error"]["where"]) == (400, "model")
    reply = asked.post("/neighbours", content=b'{"\\ud800": 1, "word": "sea"}')
    assert (reply.status_code, reply.json()["error"]["what"]) == (400, "unknown field")


def test_a_text_without_a_vector_gets_no_vector_of_zeros(asked):
    for name in ("records", "words"):
        reply = asked.post("/v1/embeddings", json={"input": "zzqqx", "model": name})
        assert (reply.status_code, reply.json()["error"]["type"]) == (422, "invalid_request_error")
        assert "the encoder knows no word of the text" in reply.json()["error"]["message"]
    reply = asked.post("/v1/embeddings", json={"input": ["salt", "zzqqx", "water", "qqzzx xxzzq"], "dimensions": 3})
    assert reply.status_code == 422
    assert "2 of 4 texts have no vector" in reply.json()["error"]["message"]
    assert "input 2, 4 (counted from 1)" in reply.json()["error"]["message"]
    refused = asked.post("/embed", json={"inputs": ["zzqqx"]})
    assert (refused.status_code, refused.json()["error_type"]) == (422, "Validation")
    assert asked.post("/v1/embeddings", json={"input": ["salt", "salt zzqqx"]}).status_code == 200
    assert asked.post("/v1/embeddings", json={"input": "salt", "dimensions": 10_000}).status_code == 400


def test_clients_of_openai_hear_which_text_has_no_vector(records):
    with wordpipe.serve(records, port=0) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.UnprocessableEntityError, match="input 2"):
            client.embeddings.create(model="index", input=["salt", "zzqqx"])
        assert len(client.embeddings.create(model="index", input=["salt"]).data) == 1


def test_a_condition_has_an_end(asked, cli, records):
    long = " and ".join(["year > 1990"] * 3_000)
    found = cli("query", records, "salt", "--where", long)
    assert found.code == 2
    assert "3,000 conditions joined with and / or" in found.err
    with wordpipe.open(records) as opened:
        with pytest.raises(ConfigError, match="the condition is too long"):
            opened.query("salt", where="year in (" + "1," * 60_000 + "2)")
        within = "lang = 'and or and or' or " * 900 + "year > 1"
        assert opened.query("salt", k=1, where=within)
        assert opened.query("salt", k=1, where="year in (" + ",".join(map(str, range(1900, 9000))) + ")")
    assert asked.get("/search", params={"q": "salt", "where": "(year > 1) and " * 900 + "true"}).status_code == 400


@pytest.mark.parametrize("size", [2 << 20, 8 << 20])
def test_a_body_that_is_too_large_is_answered_where_its_client_still_sends(records, size):
    with wordpipe.serve(records, port=0, max_body=1 << 20) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for framing in (f"Content-Length: {size}", "Transfer-Encoding: chunked"):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n\r\n".encode())
                if "chunked" in framing:
                    connection.sendall(f"{size:x}\r\n".encode() + b" " * size + b"\r\n0\r\n\r\n")
                else:
                    connection.sendall(b" " * size)
                answer = b""
                while data := connection.recv(1 << 16):
                    answer += data
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"larger than 1,048,576 bytes" in answer


@pytest.mark.parametrize(
    "line", [b"GET /\xff\xfe HTTP/1.1", b"GET /%ff HTTP/1.1", b"BAD\x01 / HTTP/1.1", b"GET / HTTP/1.1\r\nX y: 1"]
)
def test_lines_that_cannot_be_read_are_answered_400_in_json(records, line):
    with wordpipe.serve(records, port=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(line + b"\r\nHost: 127.0.0.1\r\nX: \xff\xfe\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


# --- a start that cannot be, and no descriptors


def test_a_server_that_cannot_start_says_so(records, tmp_path, cli, monkeypatch):
    (tmp_path / "token").write_bytes(b"0123456789\x00abcdef\n")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="does not contain a valid token"):
        wordpipe.serve(records, port=0, token_file=tmp_path / "token")
    with pytest.raises(ConfigError, match="the token file cannot be read"):
        wordpipe.serve(records, port=0, token_file=tmp_path)
    (tmp_path / "good").write_text("0123456789abcdef\n")
    (tmp_path / "good").chmod(0o600)
    with pytest.raises(ConfigError, match="host: the text contains a control character"):
        wordpipe.serve(records, port=0, host="a\0b", token_file=tmp_path / "good")
    for host in ("a" * 300, "no such host", "256.1.1.1", "192.0.2.1"):
        with pytest.raises(WordpipeError, match="address"):
            wordpipe.serve(records, port=0, host=host, token_file=tmp_path / "good")
    monkeypatch.setitem(sys.modules, "h11", None)
    assert cli("serve", records, "--port", "0").code == 2


def test_a_server_that_ends_in_its_beginning_says_so(records, monkeypatch):
    async def failing(*_, **__):
        raise SystemExit(3)

    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    monkeypatch.setattr(connections.Listener, "serve", failing)
    with pytest.raises(StorageError, match="the server cannot start; got SystemExit: 3"):
        wordpipe.serve(records, port=0)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_a_log_that_cannot_be_written_ends_nothing(records):
    def full(_):
        raise OSError(28, "No space left on device")

    with wordpipe.serve(records, port=0, log=full, report=full) as server:
        for _ in range(3):
            with urlopen(server.url + "/search?q=salt") as reply:
                assert reply.status == 200
        with urlopen(server.url + "/metrics") as reply:
            assert "wordpipe_log_lines_lost_total 3.0" in reply.read().decode()


@pytest.fixture
def few_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit(more):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + more, hard))  # noqa: PTH208

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_fit_the_descriptors(records, few_descriptors):
    said = []
    few_descriptors(100)
    with wordpipe.serve(records, port=0, report=said.append) as server, urlopen(server.url + "/search?q=salt") as reply:
        assert reply.status == 200
    assert "connections instead of 256" in said[0]
    few_descriptors(30)
    with pytest.raises(StorageError, match="the limit of open files is too low") as caught:
        wordpipe.serve(records, port=0)
    assert caught.value.hint.startswith("run ulimit -n")


def test_without_descriptors_it_says_so_once_and_goes_on_afterwards(records, few_descriptors):
    said, held = [], []
    with (
        wordpipe.serve(records, port=0, report=said.append) as server,
        httpx2.Client(base_url=server.url) as asker,
    ):
        host, port = server.url.removeprefix("http://").split(":")
        assert asker.get("/search?q=salt").status_code == 200
        few_descriptors(9)  # all are given back: of one alone, the next to ask leaves none to the server
        try:
            with suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            os.close(held.pop())
            refused = []
            for _ in range(5):  # each takes the descriptor that is left for its own end
                with socket.create_connection((host, int(port)), timeout=30) as connection:
                    refused.append(connection.recv(1 << 16))
            assert all(one.startswith(b"HTTP/1.1 503 ") for one in refused)
            assert asker.get("/health").status_code == 200
        finally:
            for one in held:
                os.close(one)
        for _ in range(3):
            with urlopen(server.url + "/health", timeout=30) as reply:
                assert reply.status == 200
    assert len(said) == 1
    assert "refused (too many open files)" in said[0]


def test_a_program_that_works_elsewhere_is_answered_from_where_it_was(built, records, tmp_path, monkeypatch):
    for name, made in (("one", records), ("two", built / "index")):
        (tmp_path / name / "run").mkdir(parents=True)
        (tmp_path / name / "run" / "index").symlink_to(made)
    monkeypatch.chdir(tmp_path / "one")
    with wordpipe.serve("run/index", port=0) as server, wordpipe.open("run/index") as opened:
        digest = opened.artifact.digest
        monkeypatch.chdir(tmp_path / "two")
        (one,) = server.artifacts.by_name.values()
        assert not one.is_replaced()
        assert one.open_next().digest == digest
        assert opened.query("salt", k=1, where="year > 1990")
        assert opened.artifact.place == tmp_path / "one" / "run" / "index"
    with wordpipe.open("run/index") as other:
        assert other.artifact.digest != digest
