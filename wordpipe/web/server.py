"""`wordpipe.serve`: a server in a thread of its own, from its first socket to its last answer."""

import asyncio
import errno
import os
import resource
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from wordpipe.artifacts import read_regular_file
from wordpipe.errors import ConfigError, StorageError, WordpipeError
from wordpipe.runtime import stop_signal
from wordpipe.stages import PathLike, public
from wordpipe.web.settings import LOCAL_HOSTS, ServeSettings
from wordpipe.web.tls import tls_context

if TYPE_CHECKING:
    from wordpipe.web.connections import ListeningSocket

_MIN_TOKEN = 16  # characters
_MAX_TOKEN = 4_096  # bytes of its file
_BACKLOG = 512
_SPARE_FILES = 32  # for what is opened for a moment, and for connections that are told to come again
_FEWEST = 8  # connections of a server
_INSTALL = "pip install 'wordpipe[serve]'"

Report = Callable[[str], None]
"""Takes a line."""


class Server:
    """A server that answers in a thread of its own until `close`, or the end of its context.

    Attributes:
        url: where it answers, "http://127.0.0.1:8000"; with a certificate "https://…".
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
        def said(line: str) -> None:
            with suppress(Exception):  # a log that cannot be written ends no server
                report(line)

        # what cannot be is refused before a socket is open
        token = None if settings.token_file is None else read_token(settings.token_file)
        need_libraries()
        self._tls = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            self._tls = tls_context(settings.tls_cert, settings.tls_key, said)
        from wordpipe.web.links import check_fields
        from wordpipe.web.metrics import Metrics
        from wordpipe.web.served_artifacts import ServedArtifacts
        from wordpipe.web.together import said_apart

        # the socket first, as a port may be taken; then the artifacts, and a thread that answers
        self._failure: BaseException | None = None
        self._socket, self.artifacts = listening_socket(settings.host, settings.port), ServedArtifacts({})
        try:
            metrics, before = Metrics(), _open_files()
            self.artifacts = ServedArtifacts.open(artifacts, verify=verify, report=said, on_batch=metrics.add_batch)
            check_fields(self.artifacts, settings)
            if apart := said_apart(self.artifacts):
                said(apart)
            n_connections = fitting_connections(settings.max_connections, before, said)
            self._socket.report = said
            self._begin(settings, metrics, n_connections, token, said, log)
        # what was opened is closed again
        except OSError as error:
            self._give_up()
            got = error.strerror or str(error)
            raise StorageError("the server cannot start", where=error.filename, got=got) from error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Close the socket and the artifacts of a server that cannot start."""
        self._socket.close()
        self.artifacts.close()

    def _begin(
        self, settings: ServeSettings, metrics: Any, n_connections: int, token: bytes | None, report: Report,
        log: Report | None,
    ) -> None:  # fmt: skip
        """Begin to serve, in a thread. Raises StorageError: it cannot."""
        from wordpipe.web import page
        from wordpipe.web.app import Application
        from wordpipe.web.connections import Listener

        self._app = Application(self.artifacts, settings, metrics, token=token, log=log, report=report, page=page)
        self._begun, self._settings = threading.Event(), settings
        self._listener = Listener(
            self._app, metrics, max_connections=n_connections, drain=settings.drain, begun=self._begun.set,
            tls=self._tls,
        )  # fmt: skip
        self.url = url_of_socket(self._socket, settings.host, "http" if self._tls is None else "https")
        self._thread = threading.Thread(target=self._run, name="wordpipe-serve", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise StorageError("the server cannot start", got=str(error)) from None
        while not self._begun.wait(0.05) and self._thread.is_alive():
            pass
        if not self._begun.is_set():
            raise StorageError("the server cannot start", got=_why(self._failure)) from self._failure

    def _run(self) -> None:
        """Run the server's event loop, in its thread."""
        try:
            asyncio.run(self._listener.serve(sockets=[self._socket]))
        except BaseException as error:  # noqa: BLE001  (said by who waits for it: a thread would end in silence)
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{'server at' if self._thread.is_alive() else 'closed server of'} {self.url}>"

    def wait(self) -> None:
        """Answer requests until a stop signal comes, then let unfinished requests end.

        Raises:
            Stopped: by that signal.
            StorageError: it has ended without one.
        """
        with stop_signal() as flag:
            while flag.signum is None and self._thread.is_alive():
                self._thread.join(0.2)
            self.close()
        flag.raise_if_set()
        if self._failure is not None:
            raise StorageError("the server stopped unexpectedly", got=_why(self._failure)) from self._failure

    def close(self) -> None:
        """Accept no more requests, let unfinished requests end, and close the artifacts."""
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
        StorageError: the port is taken, or this user is not allowed to listen on this port.

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
    """Refuse to start a server without starlette, uvicorn and prometheus_client. Raises ConfigError."""
    try:
        import h11  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette.applications  # noqa: F401  (with anyio)
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError("a library of the server is not installed", got=error.name, hint=_INSTALL) from None


def read_token(path: Path) -> bytes:
    """Read the server's token in a file: its one line.

    Raises:
        ConfigError: no such file, others may read it, or what is in it is no token.
    """
    hint = f"create a token file: (umask 077; openssl rand -hex 32 > {path})"
    try:
        token = read_regular_file(path, _MAX_TOKEN, what="a token file").strip()
        mode = path.stat().st_mode
    except (OSError, WordpipeError) as error:
        got = error.what if isinstance(error, WordpipeError) else error.strerror
        raise ConfigError("the token file cannot be read", where=path, got=got, hint=hint) from None
    if mode & 0o007:
        raise ConfigError("all users of this machine can read the token file", where=path, hint=f"chmod 600 {path}")
    if len(token) < _MIN_TOKEN or any(not 0x20 < sign < 0x7F for sign in token):
        expected = f"at least {_MIN_TOKEN} ASCII characters without spaces"
        raise ConfigError(
            "the file does not contain a valid token",
            where=path,
            got=f"{len(token)} bytes",
            expected=expected,
            hint=hint,
        )
    return token


def _why(error: BaseException | None) -> str:
    """Return the reason why the server's thread has ended."""
    return (
        "the server ended before it could accept connections" if error is None else f"{type(error).__name__}: {error}"
    )


def _open_files() -> int:
    """Return the number of open descriptors of this process; 0 where the system does not say."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208
    except OSError:
        return 0


def fitting_connections(wanted: int, before: int, report: Report) -> int:
    """Return the number of connections that the file descriptors of this process allow; report it if fewer than wanted.

    Args:
        wanted: connections.
        before: descriptors that were open before the artifacts were: for a generation that takes another one's place there
            must be as many again as these have.
        report: takes a line.

    Raises:
        StorageError: there is no room for a server.
    """
    most, now = resource.getrlimit(resource.RLIMIT_NOFILE)[0], _open_files()
    if most == resource.RLIM_INFINITY:
        return wanted
    room = most - now - max(0, now - before) - _SPARE_FILES
    if room < _FEWEST:
        hint = f"run ulimit -n {max(1024, 2 * (now + _SPARE_FILES))}, then start the server again"
        raise StorageError(
            "the limit of open files is too low for a server",
            where="ulimit -n",
            got=f"at most {most:,} open files, and {now:,} files are already open",
            hint=hint,
        )
    if room < wanted:
        report(
            f"the server accepts {room:,} connections instead of {wanted:,}, because at most {most:,} files can be open; "
            f"to allow more connections, run ulimit -n {2 * wanted:,} before you start the server"
        )
    return min(wanted, room)


def listening_socket(host: str, port: int) -> "ListeningSocket":
    """Open a socket that listens on a host and a port.

    Raises:
        StorageError: the port is taken, or this user is not allowed to listen on this port.
        ConfigError: the host is no address of this machine.
    """
    from wordpipe.web.connections import ListeningSocket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None)
        raise ConfigError(
            "unknown address", where=f"host {host}", got=got, hint="--host 0.0.0.0 listens on all addresses"
        ) from None
    made = ListeningSocket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the port would be taken for a minute after a stop
    try:
        made.bind(address)
        made.listen(_BACKLOG)
        made.keep_reserve()
    except OSError as error:
        made.close()
        raise _not_listening(error, host, port) from None
    made.setblocking(False)
    return made


def _not_listening(error: OSError, host: str, port: int) -> Exception:
    """Return the error for a host and port where the server cannot listen."""
    where = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65_535 else 8000
        hint = f"another program uses this port; choose --port {other}, or --port 0 for any free port"
        return StorageError("the port is taken", where=where, hint=hint)
    if error.errno == errno.EACCES:
        return StorageError(
            "this user is not allowed to listen on this port", where=where, hint="choose a port above 1023"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(
            "the host is not an address of this machine",
            where=f"host {host}",
            hint="--host 0.0.0.0 listens on all addresses",
        )
    return StorageError("the server cannot listen on this address", where=where, got=error.strerror)


def url_of_socket(listening: socket.socket, host: str, scheme: str) -> str:
    """Return the URL of a socket for a browser of this machine."""
    address = listening.getsockname()
    name = "127.0.0.1" if host in LOCAL_HOSTS[:2] or address[0] == "0.0.0.0" else address[0]  # noqa: S104
    name = "::1" if name == "::" else name
    return f"{scheme}://[{name}]:{address[1]}" if ":" in name else f"{scheme}://{name}:{address[1]}"
