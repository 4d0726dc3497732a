"""`wordpipe.serve`: a server in a thread of its own, from its first socket to its last answer."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wordpipe.artifacts import read_regular_file
from wordpipe.errors import ConfigError, StorageError, WordpipeError
from wordpipe.runtime import stop_signal
from wordpipe.stages import PathLike, public
from wordpipe.web.settings import LOCAL_HOSTS, ServeSettings

_MIN_TOKEN = 16  # characters
_MAX_TOKEN = 4_096  # bytes of its file
_BACKLOG = 512
_INSTALL = "pip install 'wordpipe[serve]'"

Report = Callable[[str], None]
"""Takes a line."""


class Server:
    """A server that answers in a thread of its own until it is closed. Use it as a context, or close it.

    Attributes:
        url: where it answers, "http://127.0.0.1:8000".
    """

    def __init__(
        self,
        artifacts: Sequence[PathLike],
        settings: ServeSettings,
        *,
        verify: bool,
        report: Report,
        log: Report | None,
    ) -> None:
        token = None if settings.token_file is None else read_token(settings.token_file)
        need_libraries()
        from wordpipe.web.app import Application, found_page
        from wordpipe.web.connections import Listener
        from wordpipe.web.metrics import Metrics
        from wordpipe.web.served import ServedArtifacts

        self._socket = listening_socket(settings.host, settings.port)
        try:
            metrics = Metrics()
            self.artifacts = ServedArtifacts.open(artifacts, verify=verify, report=report, on_batch=metrics.add_batch)
        except BaseException:
            self._socket.close()
            raise
        self._app = Application(
            self.artifacts, settings, metrics, token=token, log=log, report=report, page=found_page()
        )
        self._begun, self._settings = threading.Event(), settings
        self._listener = Listener(
            self._app, metrics, max_connections=settings.max_connections, drain=settings.drain, begun=self._begun.set
        )
        self.url = url_of_socket(self._socket, settings.host)
        self._thread = threading.Thread(target=self._run, name="wordpipe-serve", daemon=True)
        self._thread.start()
        while not self._begun.wait(0.05) and self._thread.is_alive():
            pass

    def _run(self) -> None:
        asyncio.run(self._listener.serve(sockets=[self._socket]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{'server at' if self._thread.is_alive() else 'closed server of'} {self.url}>"

    def wait(self) -> None:
        """Answer until a stop signal comes, then let what has begun end. Raises Stopped: by that signal."""
        with stop_signal() as flag:
            while flag.signum is None and self._thread.is_alive():
                self._thread.join(0.2)
            self.close()
        flag.raise_if_set()

    def close(self) -> None:
        """Take no more requests, let those at work end, and release the artifacts."""
        self._app.guard.draining = True
        self._listener.should_exit = True
        self._thread.join()
        self.artifacts.close()


@public(ServeSettings)
def serve(
    artifacts: PathLike | list[PathLike],
    *,
    verify: bool = True,
    report: Callable[[str], None] | None = None,
    log: Callable[[str], None] | None = None,
    **settings: Any,
) -> Server:
    """Answer queries over HTTP: a page, a JSON API, and what clients of OpenAI and of text-embeddings-inference ask.

    Indexes, words, sentences and models are opened once, each under the name of its folder (or NAME=PATH), and swapped whole
    when another generation is published at the path. It answers in a thread of its own until it is closed; `wait` keeps a
    program there until Ctrl-C. Needs the extra `wordpipe[serve]`.

    Args:
        artifacts: one or several: index, words, sentences, model.
        verify: check their hashes first.
        report: is called with a line when a new generation was taken or cannot be opened, and when a request failed by a bug.
        log: is called with a line, a JSON object, for each request.
        settings: fields of `ServeSettings`.

    Raises:
        ConfigError: a setting that cannot be, or no artifact.
        ArtifactError: one cannot be opened.
        StorageError: the port is taken, or this user may not listen there.

    Example:
        >>> from urllib.request import urlopen
        >>> with wordpipe.serve("run/index", port=0) as server:
        ...     with urlopen(server.url + "/search?q=tides&k=3") as reply:
        ...         len(reply.readlines())
        3
    """
    chosen = ServeSettings.make(settings)
    several = [artifacts] if isinstance(artifacts, str | os.PathLike) else [*artifacts]
    server = Server(several, chosen, verify=verify, report=report or (lambda _: None), log=log)
    if chosen.open:
        import webbrowser

        webbrowser.open(server.url)
    return server


def need_libraries() -> None:
    """Refuse to go on without starlette and uvicorn. Raises ConfigError: names the extra."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError("a library of the server is not installed", got=error.name, hint=_INSTALL) from None


def read_token(path: Path) -> bytes:
    """The token in a file: its one line.

    Raises:
        ConfigError: no such file, others may read it, or what is in it is no token.
    """
    hint = f"make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        token = read_regular_file(path, _MAX_TOKEN, what="a file of a token").strip()
        mode = path.stat().st_mode
    except (OSError, WordpipeError) as error:
        got = error.what if isinstance(error, WordpipeError) else error.strerror
        raise ConfigError("the token cannot be read", where=path, got=got, hint=hint) from None
    if mode & 0o007:
        raise ConfigError("everyone may read the token", where=path, hint=f"chmod 600 {path}")
    if len(token) < _MIN_TOKEN or not token.isascii() or len(token.split()) != 1:
        expected = f"one word of at least {_MIN_TOKEN} ASCII characters"
        raise ConfigError("not a token", where=path, got=f"{len(token)} bytes", expected=expected, hint=hint)
    return token


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        StorageError: the port is taken, or this user may not listen there.
        ConfigError: the host is no address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        got = getattr(error, "strerror", None)
        raise ConfigError(
            "no such address", where=f"host {host}", got=got, hint="--host 0.0.0.0 is all of them"
        ) from None
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the port would be taken for a minute after a stop
    try:
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise _not_listening(error, host, port) from None
    made.setblocking(False)
    return made


def _not_listening(error: OSError, host: str, port: int) -> Exception:
    where = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65_535 else 8000
        hint = f"another program listens there: choose --port {other}, or --port 0 for a free one"
        return StorageError("the port is taken", where=where, hint=hint)
    if error.errno == errno.EACCES:
        return StorageError("this user may not listen there", where=where, hint="choose a port above 1023")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError("not an address of this machine", where=f"host {host}", hint="--host 0.0.0.0 is all of them")
    return StorageError("cannot listen there", where=where, got=error.strerror)


def url_of_socket(listening: socket.socket, host: str) -> str:
    """Where a browser of this machine finds it."""
    address = listening.getsockname()
    name = "127.0.0.1" if host in LOCAL_HOSTS[:2] or address[0] == "0.0.0.0" else address[0]  # noqa: S104
    name = "::1" if name == "::" else name
    return f"http://[{name}]:{address[1]}" if ":" in name else f"http://{name}:{address[1]}"
