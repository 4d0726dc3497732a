"""S3 servers on the loopback: moto's, and one before it that fails, delays and refuses as a test says."""

import http.client
import os
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from wordpipe.storage import open_bucket

KEY_ID, SECRET, TOKEN = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "FwoGZXIvYXdzEBYaDToken"
KEYS = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
REGION = "us-east-1"


@dataclass
class Answer:
    """What the server before the server answers by itself."""

    status: int = 503
    code: str = "SlowDown"
    drop: bool = False  # the connection ends without an answer
    after: bool = False  # the request was carried out all the same
    cut: bool = False  # the answer of the store, but for its second half


@dataclass
class Asked:
    """A request, as a rule sees it."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_write(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


Rule = Callable[[Asked], Answer | None]


@dataclass
class Proxy:
    """A server that hands requests on; `rule` may answer in its place, `delay` holds each back."""

    url: str
    rule: Rule = lambda asked: None
    delay: float = 0.0
    seen: list[Asked] = field(default_factory=list)


def start_server():
    """moto's server in threads of this process; gives its URL and the function that stops it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}", server.stop


def make_bucket(url: str, name: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT"), timeout=10).close()


def make_public(url: str, name: str, key: str) -> None:
    """Let everyone read an object."""
    headers = {
        "x-amz-acl": "public-read",
        "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260101/{REGION}/s3/x",
    }
    asked = urllib.request.Request(f"{url}/{name}/{key}?acl", method="PUT", headers=headers)
    urllib.request.urlopen(asked, timeout=10).close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _any(self) -> None:
        proxy: Proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        proxy.seen.append(asked)
        time.sleep(proxy.delay)
        answer = proxy.rule(asked)
        if answer is None or answer.after or answer.cut:
            status, headers, data = self._handed_on(body)
        if answer is not None and answer.drop:
            self.close_connection = True
            return
        if answer is not None and not answer.cut:  # as hostile as a store may be: it says again all it was sent
            said = "".join(f"{name}: {value}\n" for name, value in self.headers.items())
            said = f"<AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><Message>{said}{SECRET} {TOKEN}</Message>"
            data = f"<Error><Code>{answer.code}</Code>{said}</Error>".encode()
            status, headers = answer.status, [("Content-Type", "application/xml")]
        self._begin(status, headers, len(data))
        if answer is not None and answer.cut:
            data, self.close_connection = data[: len(data) // 2], True
        if self.command != "HEAD":
            self.wfile.write(data)

    def _begin(self, status, headers, length) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers}:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _handed_on(self, body: bytes):
        connection = http.client.HTTPConnection(self.server.store, timeout=20)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            found = connection.getresponse()
            return found.status, found.getheaders(), found.read()
        finally:
            connection.close()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that went away is what the tests are about."""


def start_proxy(target: str) -> tuple[Proxy, Callable[[], None]]:
    """A proxy before the server at `target`, and the function that stops it."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.store = target.removeprefix("http://")
    server.proxy = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return server.proxy, stop


def send(url: str, folder: str) -> None:
    """Publish the artifact of a folder at a URL, as a program of its own does."""
    from wordpipe.artifacts import RemoteOutput
    from wordpipe.storage import url_of

    RemoteOutput(url_of(url), "corpus").send(Path(folder))


def environment() -> dict[str, str]:
    """What a program of its own needs to reach the store of this test."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def keys_in(bucket: str) -> list[str]:
    """The keys of all objects of a bucket."""
    return [one.key for one in open_bucket(bucket).list("")]
