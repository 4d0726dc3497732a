"""Settings of `wordpipe serve`."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from wordpipe.settings import Settings, checked, parted_by_commas, setting

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
LINK_FIELD = re.compile(r"\{(\+?)([^{}]+)\}")
"""A field in the template of a link: whether its value keeps `/`, and its name."""
_LINK = re.compile(r"https?://(?P<host>[^/?#]+)|mailto:", re.IGNORECASE)

_LIMITS = "Limits"


class ServeSettings(Settings):
    """Settings of a server: where it listens, who may ask, and how much."""

    command = "serve"

    host: str = setting(
        "127.0.0.1", "address to listen on; an address that other machines can reach needs --token-file",
        metavar="ADDRESS", min_length=1,
    )  # fmt: skip
    port: int = setting(8000, "port to listen on; 0: any free port", ge=0, le=65_535)
    token_file: Path | None = setting(
        None, "file with the token that clients must send as Authorization: Bearer TOKEN or as a password",
        metavar="FILE",
    )  # fmt: skip
    tls_cert: Path | None = setting(
        None, "answer over HTTPS: file with the certificate, and those between it and a root, in PEM; needs --tls-key",
        metavar="FILE",
    )  # fmt: skip
    tls_key: Path | None = setting(None, "file with the private key of the certificate, in PEM", metavar="FILE")
    allow_host: tuple[str, ...] = setting(
        (),
        "another host name of this server in browsers, for example the name of a proxy; can be repeated",
        metavar="NAME",
    )
    cors_origin: tuple[str, ...] = setting(
        (),
        "web page that may ask the server from a browser, as its scheme and host, for example https://notes.example.org; "
        "can be repeated",
        metavar="ORIGIN",
    )
    link: str = setting(
        "",
        "address where the text of an answer can be read, to which its title leads; fields stand in braces, for example "
        "https://notes.example.org/{id}; default: the page of the text",
        metavar="URL",
    )
    show: tuple[str, ...] = setting(
        (),
        "fields in the line below an answer on the page; default: up to three of its fields",
        metavar="FIELD,…",
        read=parted_by_commas,
    )
    open: bool = setting(False, "open the page in the browser")
    log_queries: bool = setting(False, "also write the queries to the log")
    max_k: int = setting(1_000, "maximum number of hits of a query", ge=1, le=100_000, section=_LIMITS, expert=True)
    max_texts: int = setting(
        256, "maximum number of texts in a request", ge=1, le=100_000, section=_LIMITS, expert=True
    )
    max_chars: int = setting(
        100_000, "maximum number of characters in a text or a query", ge=1, le=10_000_000, section=_LIMITS, expert=True
    )
    max_body: int = setting(
        4 << 20, "maximum size of a request's body, in bytes", ge=1 << 10, le=1 << 30, section=_LIMITS, expert=True
    )
    max_waiting: int = setting(
        64, "maximum number of requests at a time; more requests get status 429", ge=1, le=10_000,
        section=_LIMITS, expert=True,
    )  # fmt: skip
    max_connections: int = setting(
        256, "maximum number of connections; more connections get status 503", ge=1, le=60_000,
        section=_LIMITS, expert=True,
    )  # fmt: skip
    timeout: float = setting(
        30.0, "maximum time for a request, in seconds; after this time, the request gets status 503", gt=0, le=3_600,
        section=_LIMITS, expert=True,
    )  # fmt: skip
    drain: float = setting(
        20.0, "maximum time to finish open requests when the server stops, in seconds", ge=0, le=3_600,
        section=_LIMITS, expert=True,
    )  # fmt: skip

    @checked
    def _origins_are_exact(self) -> None:
        for origin in self.cors_origin:
            try:
                parts = urlsplit(origin)
                is_exact = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            except ValueError:
                is_exact = False
            if not is_exact or origin != f"{parts.scheme}://{parts.netloc}" or "@" in origin or "*" in origin:
                raise ValueError(
                    f"{origin} is not an origin: write its scheme and host exactly, with the port if it has one, "
                    "for example https://notes.example.org"
                )

    @checked
    def _link_is_safe(self) -> None:
        example = "write a full address, for example https://notes.example.org/{id}"
        if not self.link:
            return
        found = _LINK.match(self.link)
        if not found:
            raise ValueError(f"link begins with http://, https:// or mailto:, but it is {self.link[:80]!r}; {example}")
        if re.search(r"[\s{}\x00-\x1f\x7f\\]", LINK_FIELD.sub("", self.link)):
            raise ValueError(f"link has spaces, or braces without a field, in {self.link[:80]!r}; {example}")
        if "{+" in (found["host"] or ""):
            raise ValueError(
                f"the host of a link has {{+FIELD}}, which keeps slashes, in {self.link[:80]!r}; {example}"
            )

    @checked
    def _certificate_with_key(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            name, other = ("tls-cert", "tls-key") if self.tls_key is None else ("tls-key", "tls-cert")
            raise ValueError(f"--{name} needs --{other}: name both files, the certificate and its private key")

    @checked
    def _token_for_others(self) -> None:
        if self.host not in LOCAL_HOSTS and self.token_file is None:
            raise ValueError(
                f"other machines can reach host {self.host}, so use --token-file FILE or omit --host "
                "(to make a token, run: openssl rand -hex 32 > token)"
            )
