"""Buckets: settings that no request can hold, stores that answer what no store answers, copies and objects that change."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room, Skipped
from tests.faults.world import World
from tests.support.object_stores import KEY_ID, KEYS, REGION, SECRET, TOKEN

_TEXT = b"The sea is salt.\n\nBees find their way by the sun.\n"
Answer = tuple[int, bytes]


def _listed(
    key: str = "t/a.txt", size: object = len(_TEXT), when: str = "2020-01-01T00:00:00Z", more: str = "false"
) -> bytes:
    """The list of a bucket with one object."""
    contents = f"<Key>{key}</Key><Size>{size}</Size><LastModified>{when}</LastModified><ETag>&quot;one&quot;</ETag>"
    return (
        f"<ListBucketResult><Name>texts</Name><IsTruncated>{more}</IsTruncated>"
        f"<Contents>{contents}</Contents></ListBucketResult>"
    ).encode()


@contextmanager
def _store(answer: Callable[[str], Answer]) -> Iterator[str]:
    """A store that answers a path so; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"one"')
            self.send_header("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
            if status in (301, 302):
                self.send_header("Location", "http://127.0.0.1:1/")
            if status == 206:
                self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _ingested(room: Room, endpoint: str, codes: set[int], **more: str) -> None:
    """Read texts of a bucket with these settings: an end in words, without a word of keys."""
    if find_spec("obstore") is None:
        raise Skipped("obstore is not installed")
    settings = {
        **KEYS,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "XDG_CACHE_HOME": str(room.folder / "cache"),
        **more,
    }
    done = room.program("ingest", "s3://texts/t", "-o", "out", **settings, seconds=200)
    room.said(done, codes)
    if any(secret in done.err + done.out for secret in (KEY_ID, SECRET, TOKEN)):
        raise Broken("a key is shown")


_ENDS = {2, 3, 5, 8}
_NO_KEY = 404, b"<Error><Code>NoSuchKey</Code></Error>"


def _of_one(path: str, data: bytes) -> Answer:
    """What a store of that one object answers."""
    if "list-type" in path:
        return 200, _listed()
    return (206, data) if path.endswith("/t/a.txt") else _NO_KEY


def _setting(name: str, value: str) -> Act:
    def act(room: Room) -> None:
        with _store(lambda path: _of_one(path, _TEXT)) as url:
            _ingested(room, url, _ENDS | {0}, **{name: value})

    return act


def _answers(status: int, body: bytes) -> Act:
    def act(room: Room) -> None:
        with _store(lambda path: (status, body) if "list-type" in path or status != 200 else _NO_KEY) as url:
            _ingested(room, url, _ENDS)
            room.as_before()

    return act


def _changed(how: str) -> Act:
    """The object is another one than the list says; the copy of this machine is another one than was fetched."""

    def act(room: Room) -> None:
        served = [_TEXT]
        with _store(lambda path: _of_one(path, served[0])) as url:
            if how != "copy":
                served[0] = {"cut": _TEXT[:-9], "longer": _TEXT + b"More.", "empty": b""}[how]
                _ingested(room, url, _ENDS)
                room.as_before()
                return
            _ingested(room, url, {0})
            copy = next(path for path in Path(room.folder / "cache").rglob("a.txt"))
            copy.write_bytes(_TEXT.replace(b"salt", b"SALT"))
            _ingested(room, url, {0})
            if copy.read_bytes() != _TEXT:
                raise Broken("the damaged copy was used")

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    del world
    settings = {
        "key-with-cr": ("AWS_ACCESS_KEY_ID", "AKIA\r"), "key-empty": ("AWS_ACCESS_KEY_ID", ""),
        "secret-line": ("AWS_SECRET_ACCESS_KEY", "a\nb"), "token-letter": ("AWS_SESSION_TOKEN", "é"),
        "token-escape": ("AWS_SESSION_TOKEN", "\x1b[2J"), "region-cr": ("AWS_REGION", "us-east-1\r"),
        "region-unseen": ("AWS_REGION", "us\u200beast"), "region-empty": ("AWS_REGION", ""),
        "endpoint-port": ("AWS_ENDPOINT_URL", "http://127.0.0.1:99999"), "endpoint-open": ("AWS_ENDPOINT_URL", "http://["),
        "endpoint-blank": ("AWS_ENDPOINT_URL", "http://a b"), "endpoint-file": ("AWS_ENDPOINT_URL", "file:///etc"),
        "endpoint-tab": ("AWS_ENDPOINT_URL", "http://127.0.0.1:1/\t"), "endpoint-letter": ("AWS_ENDPOINT_URL", "é"),
        "endpoint-nobody": ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        "endpoint-of-s3": ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1\r\n"),
        "allow-http": ("AWS_ALLOW_HTTP", "perhaps"), "unsigned": ("AWS_SKIP_SIGNATURE", "perhaps"),
        "proxy": ("HTTP_PROXY", "http://["), "token-file": ("AWS_WEB_IDENTITY_TOKEN_FILE", "/dev/null"),
    }  # fmt: skip
    answers = {
        "page": (200, b"<html>Welcome</html>"), "nothing": (200, b""), "cut": (200, _listed()[:60]),
        "elsewhere": (302, b""), "negative": (200, _listed(size=-5)), "huge": (200, _listed(size=10**30)),
        "never": (200, _listed(when="never")), "up": (200, _listed(key="t/../../a.txt")),
        "control": (200, _listed(key="t/a&#1;.txt")), "bytes": (200, b"\xff\xfe\x00"),
        "refused": (403, b"<Error><Code>AccessDenied</Code></Error>"),
    }  # fmt: skip
    table = [
        Case(
            f"buckets/settings/{name}", _setting(*row), ("C21", "K22", "P10"), fast=name == "key-with-cr", prepared=True
        )
        for name, row in settings.items()
    ]
    table += [
        Case(f"buckets/answers/{name}", _answers(*row), ("K8", "K22"), prepared=True) for name, row in answers.items()
    ]
    table += [
        Case(f"buckets/changed/{how}", _changed(how), ("27", "K8"), prepared=True)
        for how in ("cut", "longer", "empty", "copy")
    ]
    return table
