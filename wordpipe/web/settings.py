"""Settings of `wordpipe serve`."""

from pathlib import Path

from wordpipe.settings import Settings, checked, setting

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")

_LIMITS = "Limits"


class ServeSettings(Settings):
    """Settings of a server: where it listens, who may ask, and how much."""

    command = "serve"

    host: str = setting(
        "127.0.0.1", "address to listen on; one that other machines reach needs --token-file",
        metavar="ADDRESS", min_length=1,
    )  # fmt: skip
    port: int = setting(8000, "port to listen on; 0: any that is free", ge=0, le=65_535)
    token_file: Path | None = setting(
        None, "file that holds the token of those who may ask, as Authorization: Bearer TOKEN or as a password",
        metavar="FILE",
    )  # fmt: skip
    allow_host: tuple[str, ...] = setting(
        (), "another name of this server that browsers may use, as behind a proxy; may be repeated", metavar="NAME"
    )
    open: bool = setting(False, "open the page in the browser")
    log_queries: bool = setting(False, "write queries into the log, too")
    max_k: int = setting(1_000, "hits of a query, at most", ge=1, le=100_000, section=_LIMITS, expert=True)
    max_texts: int = setting(256, "texts of a request, at most", ge=1, le=100_000, section=_LIMITS, expert=True)
    max_chars: int = setting(
        100_000, "characters of a text or a query, at most", ge=1, le=10_000_000, section=_LIMITS, expert=True
    )
    max_body: int = setting(
        4 << 20, "bytes of a request's body, at most", ge=1 << 10, le=1 << 30, section=_LIMITS, expert=True
    )
    max_waiting: int = setting(
        64, "requests at work or waiting; one more is answered 429", ge=1, le=10_000, section=_LIMITS, expert=True
    )
    max_connections: int = setting(
        256, "connections; one more is answered 503", ge=1, le=60_000, section=_LIMITS, expert=True
    )
    timeout: float = setting(
        30.0, "seconds that a request may take; then it is answered 503", gt=0, le=3_600, section=_LIMITS, expert=True
    )
    drain: float = setting(
        20.0, "seconds that requests at work have to end when the server stops", ge=0, le=3_600,
        section=_LIMITS, expert=True,
    )  # fmt: skip

    @checked
    def _token_for_others(self) -> None:
        if self.host not in LOCAL_HOSTS and self.token_file is None:
            raise ValueError(
                f"host {self.host} is reached by other machines: give --token-file FILE, or leave --host out "
                "(make one: openssl rand -hex 32 > token)"
            )
