"""The certificate of a server that answers over HTTPS, checked before the server begins."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wordpipe.artifacts import read_regular_file
from wordpipe.errors import ConfigError, WordpipeError

_MAX_PEM = 1 << 20  # bytes of a file
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name
_MAKE = "openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN=localhost -addext subjectAltName=DNS:localhost"


def tls_context(cert: Path, key: Path, report: Callable[[str], None]) -> ssl.SSLContext:
    """Return what a server needs to answer over HTTPS (TLS 1.2 and newer).

    Args:
        cert: file with the certificate, and those between it and a root, in PEM.
        key: file with its private key, in PEM, without a password.
        report: takes a line if all users of this machine can read the key.

    Raises:
        ConfigError: a file cannot be read, or has no certificate or no key; they do not belong together; the certificate is
            not valid at this time.
    """
    hint = f"to try it out, make both files: {_MAKE} -keyout key.pem -out cert.pem"
    for path, what, begin in ((cert, "certificate", b"CERTIFICATE-----"), (key, "private key", b"PRIVATE KEY-----")):
        try:
            data = read_regular_file(path, _MAX_PEM, what=f"a file with a {what}")
        except (OSError, WordpipeError) as error:
            got = error.what if isinstance(error, WordpipeError) else error.strerror
            raise ConfigError(f"the file of the {what} cannot be read", where=path, got=got, hint=hint) from None
        if begin not in data:
            raise ConfigError(f"the file has no {what} in PEM", where=path, expected=f"-----BEGIN … {begin.decode()}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=lambda: _refuse_password(key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            what, hint = (
                "the private key does not belong to the certificate",
                "name the key that this certificate was made with",
            )
            raise ConfigError(what, where=key, got=f"the certificate of {cert}", hint=hint) from None
        what = "the certificate or its private key cannot be read"
        raise ConfigError(what, where=f"{cert}, {key}", got=error.reason, hint=hint) from None
    _refuse_dates(context, cert)
    if key.stat().st_mode & 0o007:
        report(f"all users of this machine can read the private key; run chmod 600 {key}")
    return context


def _refuse_password(key: Path) -> str:
    """Refuse a private key that is protected by a password, and do not ask for the password."""
    what, hint = "the private key has a password", "write a key without one: openssl pkey -in KEY -out key.pem"
    raise ConfigError(what, where=key, hint=hint)


def _refuse_dates(context: ssl.SSLContext, cert: Path) -> None:
    """Refuse a certificate that is not valid at this time. Raises ConfigError."""
    found = _presented(context, cert)
    for name, sign, what in (("notAfter", 1, "has expired"), ("notBefore", -1, "is not valid yet")):
        date = found.get(name)
        if date is not None and sign * (time.time() - ssl.cert_time_to_seconds(date)) > 0:
            got = f"valid {'until' if sign == 1 else 'from'} {date}"
            raise ConfigError(
                f"the certificate {what}", where=cert, got=got, hint="get a certificate that is valid now"
            )


def _presented(context: ssl.SSLContext, cert: Path) -> dict[str, Any]:
    """Return what a client reads in the certificate, by a handshake in memory; empty if the handshake fails.

    Python has no other public function that reads a certificate.
    """
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        asking.load_verify_locations(cert)
        client = asking.wrap_bio(to_client, to_server)
        server = context.wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server) * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        return dict(client.getpeercert() or {})
    except (ssl.SSLError, ValueError):
        return {}
