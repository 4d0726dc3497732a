"""The server on a port: slow and hostile connections, generations swapped under load, the command to its SIGTERM."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from urllib.error import HTTPError
from urllib.request import urlopen

import httpx2
import pytest

import wordpipe
from tests.support.waiting import wait_until
from wordpipe.artifacts import publish as publication
from wordpipe.errors import ConfigError, StorageError, WordpipeError
from wordpipe.web import connections


@pytest.fixture(scope="module")
def server(records):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "_HEADER_SECONDS", 0.5)
        patch.setattr(connections, "_CLOSE_SECONDS", 0.5)
        reports = []
        with wordpipe.serve(records, port=0, timeout=5, max_connections=20, report=reports.append) as server:
            yield server
        assert reports == []


def connected(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def said(connection):
    parts = []
    try:
        while data := connection.recv(1 << 16):
            parts.append(data)
    except (ConnectionResetError, TimeoutError):
        pass
    return b"".join(parts)


GET = b"GET /search?q=salt HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


def test_a_request_and_its_answer(server):
    with connected(server) as connection:
        connection.sendall(GET + b"\r\n")
        head, _, body = said(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nserver:" not in head.lower()
    assert len(body.splitlines()) == 10


def test_head_and_body_are_sent_together(server):
    for _ in range(5):
        with connected(server) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(1 << 16).rstrip().endswith(b"}")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n", b"GET /\r\n\r\n",
        b"\r\n\r\n\r\n", b"\0" * 5_000,
        b"GET /search?q=\xff HTTP/1.1\r\nHost: a\r\n\r\n", GET + b"X: " + b"a" * 100_000, GET + b"X: a\r\n" * 20_000,
        GET + b"Content-Length: -1\r\n\r\n", GET + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        GET + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        GET + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", GET + b"Upgrade: websocket\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n",
        b"GET /%00%ff%c0%ae HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", GET + b"Host: evil.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:30] + sent[-12:]),
)  # fmt: skip
def test_what_is_no_good_request_is_refused_or_cut(server, sent):
    with connected(server) as connection:
        try:
            connection.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            return
        answer = said(connection)
    status = answer[9:12]
    assert answer == b"" or status[:1] == b"4" or (status == b"200" and b"websocket" in sent), answer[:200]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces", [[b""], [b"G", b"ET "], [GET], [GET + b"X: ", *[b"a"] * 20]], ids=["silent", "a", "b", "drip"]
)
def test_slow_headers_are_cut(server, pieces):
    began = time.monotonic()
    with connected(server) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(0.1)
        assert said(connection) == b""
    assert time.monotonic() - began < 5


def test_a_slow_body_is_answered_408(server, monkeypatch):
    from wordpipe.web import guard

    monkeypatch.setattr(guard, "_BODY_SECONDS", 0.3)
    with connected(server) as connection:
        connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert said(connection).startswith(b"HTTP/1.1 408 ")


def test_connections_beyond_the_limit_are_told_to_come_again(server):
    held = [connected(server) for _ in range(20)]
    try:
        time.sleep(0.1)
        with connected(server) as one_more:
            answer = said(one_more)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["what"] == "too many connections"
    finally:
        for one in held:
            one.close()
    time.sleep(0.2)
    with urlopen(server.url + "/health") as reply:
        assert json.load(reply)["status"] == "ok"


def test_many_at_once_get_what_each_would_get_alone(server):
    queries = [
        f"{words} {number}" for number in range(8) for words in ("salt water", "note", "bees fly home", "iron rust")
    ]
    with httpx2.Client(base_url=server.url) as client:
        alone = {query: client.get("/search", params={"q": query}).text for query in queries}
    together = {}

    def ask(some):
        with httpx2.Client(base_url=server.url) as client:
            for query in some:
                together[query] = client.get("/search", params={"q": query}).text

    threads = [threading.Thread(target=ask, args=(queries[first::8],)) for first in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert together.keys() == alone.keys()
    for query, text in alone.items():
        for line, other in zip(text.splitlines(), together[query].splitlines(), strict=True):
            hit, same = json.loads(line), json.loads(other)
            assert hit.pop("score") == pytest.approx(same.pop("score"), abs=1e-6)
            assert hit == same


# --- generations


def publish(made, target):
    """Put an artifact in the place of another in one step, as a stage does."""
    fresh = target.with_name("fresh")
    shutil.copytree(made, fresh)
    assert publication.exchange(fresh, target)
    shutil.rmtree(fresh)


@pytest.fixture(scope="module")
def generations(built, tmp_path_factory):
    """Two indexes: every row of the first says one, of the second two."""
    root = tmp_path_factory.mktemp("generations")
    made = []
    for name in ("one", "two"):
        rows = [{"id": f"{name}-{i}", "text": f"salt water is {name}. It is note {i}.", "gen": name} for i in range(30)]
        wordpipe.ingest(rows, output=root / name / "corpus", metadata=["gen"])
        wordpipe.embed(built / "words", root / name / "corpus", output=root / name / "sentences", unit="document")
        made.append(wordpipe.index(root / name / "sentences", output=root / name / "index"))
    return [os.fspath(one) for one in made]


@pytest.mark.landing
def test_every_answer_is_of_one_generation_while_it_is_replaced_twenty_times(
    generations,
    tmp_path,
    monkeypatch,
    collector_off,
):
    from wordpipe.web import served_artifacts

    monkeypatch.setattr(served_artifacts, "_POLL_S", 0.02)
    shutil.copytree(generations[0], tmp_path / "index")
    digests = {}
    for name, path in zip(("one", "two"), generations, strict=True):
        with wordpipe.open(path) as opened:
            digests[opened.artifact.digest] = name
    wrong, seen, replaced, ending = [], set(), [], threading.Event()
    with wordpipe.serve(tmp_path / "index", port=0) as server:

        def ask():
            with httpx2.Client(base_url=server.url) as client:
                while not ending.is_set():
                    found = client.get(
                        "/search", params={"q": "salt water", "k": 30, "format": "json", "explain": 1}
                    ).json()
                    of = {hit["metadata"]["gen"] for hit in found["hits"]} | {
                        hit["id"].split("-")[0] for hit in found["hits"]
                    }
                    of |= {digests[found["digest"]]}
                    seen.update(of)
                    if len(of) != 1 or len(found["hits"]) != 30:
                        wrong.append(found)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for one in threads:
            one.start()
        (served_one,) = server.artifacts.by_name.values()
        for number in range(20):
            publish(generations[(number + 1) % 2], tmp_path / "index")
            replaced.append(weakref.ref(served_one.current.opened))
            wait_until(lambda number=number: served_one.swaps > number)
        ending.set()
        for one in threads:
            one.join()
        assert served_one.swaps == 20
        assert served_one.current.users == 0
        assert [one for one in replaced[:-1] if one() is not None and one() is not served_one.current.opened] == []
    assert wrong == []
    assert seen == {"one", "two"}


def test_a_generation_that_cannot_be_opened_leaves_the_old_one(generations, tmp_path, monkeypatch):
    from wordpipe.web import served_artifacts

    monkeypatch.setattr(served_artifacts, "_POLL_S", 0.02)
    monkeypatch.setattr(served_artifacts, "_RETRY_S", 0.1)
    shutil.copytree(generations[0], tmp_path / "index")
    shutil.copytree(generations[1], tmp_path / "broken")
    with (tmp_path / "broken" / "index.faiss").open("r+b") as file:
        file.write(b"damage")
    reports = []
    with wordpipe.serve(tmp_path / "index", port=0, report=reports.append) as server:

        def health(wanted):
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                with urlopen(server.url + "/health") as reply:
                    found = json.load(reply)
                if found["status"] == wanted:
                    return found["artifacts"][0]
                time.sleep(0.02)
            raise AssertionError(found)

        publish(tmp_path / "broken", tmp_path / "index")
        assert "content of the file has changed" in health("stale")["error"]
        with urlopen(server.url + "/search?q=salt&k=1") as reply:
            assert json.load(reply)["metadata"]["gen"] == "one"
        assert "the server keeps the old version" in reports[0]
        publish(generations[1], tmp_path / "index")
        assert health("ok")["swaps"] == 1
        with urlopen(server.url + "/search?q=salt&k=1") as reply:
            assert json.load(reply)["metadata"]["gen"] == "two"


# --- the command


def started(*args):
    """`wordpipe serve`, once it answers, and its URL."""
    child = subprocess.Popen(
        [sys.executable, "-m", "wordpipe", "serve", *map(str, args), "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    line = child.stdout.readline()
    assert line, child.stderr.read()
    return child, json.loads(line)["url"]


@pytest.mark.landing
def test_sigterm_lets_requests_at_work_end(heads):
    child, url = started(heads / "clm")
    body = {"prompt": "The sea", "max_tokens": 300, "temperature": 1, "n": 2}
    replies = []
    asking = threading.Thread(
        target=lambda: replies.append(httpx2.post(url + "/v1/completions", json=body, timeout=60))
    )
    asking.start()
    with httpx2.Client(base_url=url) as client:
        deadline = time.monotonic() + 20
        while "wordpipe_requests_at_work 2.0" not in client.get("/metrics").text and time.monotonic() < deadline:
            time.sleep(0.005)
    child.send_signal(signal.SIGTERM)
    asking.join()
    _, err = child.communicate(timeout=60)
    assert [reply.status_code for reply in replies] == [200]
    assert replies[0].json()["usage"]["completion_tokens"] > 0
    assert child.returncode == -signal.SIGTERM
    assert "all requests received before were answered" in err
    assert "The sea" not in err
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url)


def test_a_port_that_is_taken_is_said_with_the_next_step(cli, records, server):
    port = server.url.rpartition(":")[2]
    result = cli("serve", records, "--port", port)
    assert result.code == 5
    assert "the port is taken" in result.err
    assert f"--port {int(port) + 1}" in result.err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ((), 2, "ARTIFACT"),
        (("nope",), 4, "the artifact does not exist"),
        (("CORPUS",), 4, "the artifact is of the wrong kind"),
        (("INDEX", "--host", "0.0.0.0"), 2, "--token-file"),
        (("INDEX", "--token-file", "nope"), 2, "openssl rand"),
        (("INDEX", "INDEX"), 2, "two artifacts have the same name"),
        (("INDEX", "--port", "99999"), 2, "--port"),
    ],
)
def test_what_cannot_be_served_is_refused(cli, built, records, args, code, message):
    named = {"CORPUS": built / "corpus", "INDEX": records}
    result = cli("serve", *(named.get(one, one) for one in args))
    assert result.code == code
    assert message in result.err


def test_a_token_is_one_that_nobody_else_can_read(records, tmp_path):
    (tmp_path / "token").write_text("short\n")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="does not contain a valid token"):
        wordpipe.serve(records, port=0, token_file=tmp_path / "token")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(ConfigError, match="all users of this machine can read"):
        wordpipe.serve(records, port=0, token_file=tmp_path / "token")
    (tmp_path / "token").chmod(0o600)
    with wordpipe.serve(f"mine={records}", port=0, token_file=tmp_path / "token") as server:
        with pytest.raises(HTTPError, match="401"):
            urlopen(server.url + "/search?q=salt")
        found = httpx2.get(server.url + "/about", headers={"Authorization": "Bearer 0123456789abcdef"}).json()
    assert [one["name"] for one in found["artifacts"]] == ["mine"]
    assert repr(server).startswith("<closed server")


def test_a_port_is_given_back(records):
    with wordpipe.serve(records, port=0) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(StorageError, match="the port is taken"):
            wordpipe.serve(records, port=port)
    with wordpipe.serve(records, port=port) as again:
        assert again.url == server.url


def test_without_its_libraries_the_extra_is_named(records, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(WordpipeError, match="a library of the server is not installed") as caught:
        wordpipe.serve(records, port=0)
    assert caught.value.hint == "pip install 'wordpipe[serve]'"


@pytest.mark.slow
def test_memory_stays_flat(records):
    child, url = started(records, "-q")
    try:
        with httpx2.Client(base_url=url) as client:

            def memory(requests):
                for number in range(requests):
                    client.get("/search", params={"q": f"salt water {number}", "format": "json", "passage": 100})
                    if number % 10 == 0:
                        client.post("/v1/embeddings", json={"input": [f"text {number}"] * 8})
                        client.get("/search", params={"q": "salt", "where": f"year > {number}"})
                (line,) = [
                    one for one in client.get("/metrics").text.splitlines() if one.startswith("process_resident")
                ]
                return float(line.split()[1])

            before = memory(2_000)
            assert memory(8_000) - before < 16 << 20
    finally:
        child.terminate()
        child.communicate(timeout=60)
