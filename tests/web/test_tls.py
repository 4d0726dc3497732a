"""`serve --tls-cert --tls-key`: answers over HTTPS, and what cannot be a certificate is refused before the server begins."""

import datetime as dt
import socket
import ssl
import time
from contextlib import suppress
from select import select
from urllib.request import urlopen

import pytest

import wordpipe
from wordpipe.errors import ConfigError
from wordpipe.web import connections

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Makes a certificate of localhost and its key, from and until so many days from now: two files."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def made(since=-1, until=1, password=None):
        folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = dt.datetime.now(dt.UTC)
        built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        built = built.not_valid_before(now + since * DAY).not_valid_after(now + until * DAY)
        built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        kind = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / "cert.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(pem))
        (folder / "key.pem").write_bytes(key.private_bytes(pem, form, kind))
        (folder / "key.pem").chmod(0o600)
        return folder / "cert.pem", folder / "key.pem"

    return made


def test_answers_come_over_https_alone(built, make):
    cert, key = make()
    lines, trusting = [], ssl.create_default_context(cafile=cert)
    with wordpipe.serve(built / "index", port=0, tls_cert=cert, tls_key=key, report=lines.append) as server:
        assert server.url.startswith("https://127.0.0.1:")
        url = server.url.replace("127.0.0.1", "localhost")
        with urlopen(url + "/search?q=tides&k=3", context=trusting) as reply:
            assert len(reply.readlines()) == 3
        with urlopen(url + "/health", context=trusting) as reply:
            assert reply.status == 200
        old = ssl.create_default_context(cafile=cert)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with urlopen(url + "/health", context=old) as reply:
            assert reply.status == 200
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP" not in plain.recv(100)
    assert not lines


@pytest.fixture
def quick(built, make, monkeypatch):
    """A server over HTTPS with five connections, which waits half a second for TLS: its port, and who trusts it."""
    cert, key = make()
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 0.5)
    with wordpipe.serve(built / "index", port=0, tls_cert=cert, tls_key=key, max_connections=5) as server:
        yield int(server.url.rpartition(":")[2]), ssl.create_default_context(cafile=cert)


def health(port, trusting):
    with urlopen(f"https://localhost:{port}/health", context=trusting, timeout=10) as reply:
        return reply.status


def test_connections_that_never_agree_on_tls_are_ended(quick):
    port, trusting = quick
    with socket.create_connection(("127.0.0.1", port), timeout=10) as silent:
        began = time.monotonic()
        assert silent.recv(100) == b""
        assert 0.3 < time.monotonic() - began < 5
    with urlopen(f"https://localhost:{port}/metrics", context=trusting) as reply:
        assert 'wordpipe_connections_cut_total{reason="slow handshake"} 1.0' in reply.read().decode()


def test_connections_that_never_agree_on_tls_count(quick, monkeypatch):
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 60.0)
    port, trusting = quick
    for _ in range(2):  # what has ended counts no more
        silent = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(6)]
        closed, _, _ = select(silent, [], [], 10)
        assert [one.recv(100) for one in closed[:1]] == [b""]
        for one in silent:
            one.close()
        for _ in range(100):
            with suppress(OSError):
                assert health(port, trusting) == 200
                break
            time.sleep(0.05)
        assert health(port, trusting) == 200


def test_a_key_that_others_can_read_is_said(built, make):
    cert, key = make()
    key.chmod(0o644)
    lines = []
    with wordpipe.serve(built / "index", port=0, tls_cert=cert, tls_key=key, report=lines.append):
        assert lines == [f"all users of this machine can read the private key; run chmod 600 {key}"]


def test_what_cannot_be_a_certificate_is_refused(built, make, tmp_path, cli):
    cert, key = make()
    (tmp_path / "notes.txt").write_text("salt and water")
    (tmp_path / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nsalt\n-----END CERTIFICATE-----\n")
    for given, said in (
        ((tmp_path / "none.pem", key), "the file of the certificate cannot be read"),
        ((cert, tmp_path / "none.pem"), "the file of the private key cannot be read"),
        ((tmp_path, key), "the file of the certificate cannot be read"),
        ((tmp_path / "notes.txt", key), "the file has no certificate in PEM"),
        ((cert, cert), "the file has no private key in PEM"),
        ((tmp_path / "broken.pem", key), "the certificate or its private key cannot be read"),
        ((cert, make()[1]), "the private key does not belong to the certificate"),
        (make(password=b"salt"), "the private key has a password"),
        (make(-3, -1), "the certificate has expired"),
        (make(1, 3), "the certificate is not valid yet"),
    ):
        with pytest.raises(ConfigError, match=said):
            wordpipe.serve(built / "index", port=0, tls_cert=given[0], tls_key=given[1])
    for one, other in (("cert", "key"), ("key", "cert")):
        done = cli("serve", built / "index", f"--tls-{one}", cert)
        assert done.code == 2
        assert f"--tls-{one} needs --tls-{other}" in done.err
