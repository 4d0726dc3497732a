"""Objects are read, written under conditions, listed and removed as a mapping would do it; refusals are ours, without keys."""

import random
import socket
import threading

import pytest

from tests.support.object_stores import KEY_ID, SECRET, TOKEN, Answer, make_bucket, make_public
from wordpipe.errors import ConfigError, StorageError, WordpipeError
from wordpipe.storage import Replaced, buckets, open_bucket

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'wordpipe[s3]'")


def silent(text: str) -> None:
    for secret in (KEY_ID, SECRET, TOKEN):
        assert secret not in text


def all_said(error: BaseException) -> str:
    """The error as it is shown, with all that a traceback would print of what led to it."""
    said = []
    while error is not None:
        said.append(f"{error!r} {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(said)


def test_a_bucket_is_a_mapping(bucket, tmp_path):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    opened, twin = open_bucket(bucket), {}
    names = [f"{folder}{name}" for folder in ("", "a/", "a/b/", "ab/", "a b/é/") for name in ("x", "y.txt", "z=1")]
    file = tmp_path / "file"
    for _ in range(40):
        key, data = rng.choice(names), rng.randbytes(rng.choice([0, 1, 700, 70_000]))
        action = rng.choice(["upload", "create", "swap", "remove", "read", "range"])
        if action == "upload":
            file.write_bytes(data)
            opened.upload(key, file)
            twin[key] = data
        elif action == "create":
            if key in twin and twin[key] != data:
                with pytest.raises(Replaced):
                    opened.write_if(key, data, None)
            else:
                opened.write_if(key, data, None)
                twin[key] = data
        elif action == "swap" and key in twin:
            e_tag = opened.look(key).e_tag
            opened.write_if(key, data, e_tag)
            if data != twin[key]:
                with pytest.raises(Replaced):
                    opened.write_if(key, data + b"!", e_tag)
            twin[key] = data
        elif action == "remove":
            opened.remove([key])
            twin.pop(key, None)
        elif action == "range" and twin.get(key):
            start = rng.randrange(len(twin[key]))
            end = rng.randint(start + 1, len(twin[key]))
            assert opened.read_range(key, start, end) == twin[key][start:end], seed
        found = opened.read(key)
        assert (found[0] if found else None) == twin.get(key), seed
    for folder in ("", "a", "a/b", "ab", "nothing"):
        wanted = {key: len(data) for key, data in twin.items() if not folder or key.startswith(f"{folder}/")}
        assert {one.key: one.size for one in opened.list(folder)} == wanted, seed


def test_a_large_file_goes_in_parts(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "_MULTIPART_FROM", 1 << 20)
    monkeypatch.setattr(buckets, "_PART", 5 << 20)
    data = random.randbytes(11 << 20)
    (tmp_path / "file").write_bytes(data)
    opened = open_bucket(bucket)
    opened.upload("large", tmp_path / "file")
    assert opened.look("large").size == len(data)
    assert opened.read_range("large", 6_000_000, 10_000_000) == data[6_000_000:10_000_000]


def test_of_many_writers_one_creates(bucket):
    opened, won = open_bucket(bucket), []

    def write(number: int) -> None:
        try:
            opened.write_if("manifest.json", b"%d" % number, None)
            won.append(number)
        except Replaced:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert opened.read("manifest.json")[0] == b"%d" % won[0]


def test_a_range_of_an_object_that_changed_is_refused(bucket):
    opened = open_bucket(bucket)
    opened.write_if("x", b"first", None)
    e_tag = opened.look("x").e_tag
    opened.write_if("x", b"other", e_tag)
    with pytest.raises(Replaced):
        opened.read_range("x", 0, 5, e_tag)
    with pytest.raises(FileNotFoundError):
        opened.read_range("gone", 0, 5)


REFUSALS = [
    (403, "SignatureDoesNotMatch", "does not allow this request with the given keys"),
    (403, "InvalidAccessKeyId", "does not allow this request with the given keys"),
    (401, "AccessDenied", "does not allow this request with the given keys"),
    (403, "QuotaExceeded", "no space left"),
    (507, "XMinioStorageFull", "no space left"),
    (404, "NoSuchBucket", "bucket does not exist"),
    (501, "NotImplemented", "does not support conditional writes"),
    (400, "ExpiredToken", "refused the request"),
    (503, "SlowDown", "the store failed"),
    (500, "InternalError", "the store failed"),
]


@pytest.mark.parametrize(("status", "code", "said"), REFUSALS)
@pytest.mark.parametrize("action", ["read", "list", "write", "upload"])
def test_refusals_say_what_to_do_and_no_keys(bucket, proxy, status, code, said, action, tmp_path):
    proxy.rule = lambda asked: Answer(status, code)
    opened = open_bucket(bucket)
    (tmp_path / "file").write_bytes(b"data")
    acts = {
        "read": lambda: opened.read("x"), "list": lambda: list(opened.list("x")),
        "write": lambda: opened.write_if("x", b"data", None), "upload": lambda: opened.upload("x", tmp_path / "file"),
    }  # fmt: skip
    with pytest.raises(StorageError, match=said) as caught:
        acts[action]()
    assert bucket in caught.value.where
    silent(all_said(caught.value))


def test_a_missing_bucket(bucket):
    with pytest.raises(StorageError, match="bucket does not exist"):
        list(open_bucket(f"{bucket}-not").list(""))
    with pytest.raises(StorageError, match="bucket does not exist"):
        open_bucket(f"{bucket}-not").write_if("x", b"", None)


@pytest.mark.parametrize(
    "fault", [Answer(503), Answer(500), Answer(drop=True), Answer(cut=True), Answer(503, after=True)]
)
def test_what_passes_is_tried_again(bucket, proxy, fault, tmp_path):
    """Every request fails once; one may have been carried out all the same."""
    failed = set()

    def rule(asked):
        once = (asked.method, asked.path, asked.headers.get("range"))
        if once in failed or (fault.cut and asked.method != "GET"):
            return None
        failed.add(once)
        return fault

    proxy.rule = rule
    data = random.randbytes(100_000)
    (tmp_path / "file").write_bytes(data)
    opened = open_bucket(bucket)
    opened.upload("a/x", tmp_path / "file")
    opened.write_if("a/y", b"data", None)
    assert opened.read("a/x")[0] == data
    assert opened.read_range("a/x", 10, 90_000) == data[10:90_000]
    assert [one.key for one in opened.list("a")] == ["a/x", "a/y"]
    opened.remove(["a/x"])
    assert opened.look("a/x") is None
    assert len(failed) > 2


def test_a_store_that_is_too_slow_is_an_error(bucket, proxy, monkeypatch):
    monkeypatch.setattr(buckets, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(buckets, "PAUSES_S", ())
    monkeypatch.setattr(buckets, "_OWN_TRIES", 0)
    proxy.delay = 1.0
    with pytest.raises(StorageError, match=r"in time|reached") as caught:
        open_bucket(bucket).read("x")
    silent(all_said(caught.value))


def test_nobody_there(bucket, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setattr(buckets, "PAUSES_S", (0.01,))
        monkeypatch.setattr(buckets, "_OWN_TRIES", 0)
        with pytest.raises(StorageError, match=r"reached|in time") as caught:
            open_bucket(bucket).read("x")
    silent(all_said(caught.value))


def test_without_keys_requests_are_not_signed(bucket, proxy, monkeypatch, store_url):
    open_bucket(bucket).write_if("x", b"data", None)
    make_public(store_url, bucket, "x")
    assert all("authorization" in asked.headers for asked in proxy.seen)
    assert {asked.headers["x-amz-security-token"] for asked in proxy.seen} == {TOKEN}
    proxy.seen.clear()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    assert open_bucket(bucket).read("x")[0] == b"data"
    assert not any("authorization" in asked.headers for asked in proxy.seen)
    proxy.rule = lambda asked: Answer(403, "AccessDenied")
    with pytest.raises(StorageError, match="without keys"):
        open_bucket(bucket).read("x")


@pytest.mark.parametrize("endpoint", ["ftp://x", "localhost:9000", "http://ID:SECRET@host"])
def test_an_address_of_a_store_that_is_none(bucket, monkeypatch, endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ConfigError) as caught:
        open_bucket(bucket)
    assert "SECRET" not in str(caught.value)


HOSTILE = {
    "AWS_ENDPOINT_URL": [
        "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://[", "http://[::1", "http://[x]:1", "http://a b", "http://a\r",
        "http://a\n", "http://", "http://a:b", "http://a/ b", "http://a?b=c", "http://a#b", "http://é", "https://a:1:2", " http://a",
    ],
    "AWS_ACCESS_KEY_ID": [f"{KEY_ID}\r", f" {KEY_ID}", f"{KEY_ID}\n", f"{KEY_ID}\x7f", f"{KEY_ID}é", f"{KEY_ID} x"],
    "AWS_SECRET_ACCESS_KEY": [f"{SECRET}\r", f"{SECRET}\t", f"{SECRET}\u200b"],
    "AWS_SESSION_TOKEN": [f"{TOKEN}\r\n", f"{TOKEN}\udce9", f"{TOKEN} "],
    "AWS_REGION": ["us-east-1\r", "us east", "us/east", "é", "a\x00b"[:1] + "\x01"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, one) for name, ones in HOSTILE.items() for one in ones])
def test_settings_that_no_request_can_hold_are_refused_by_name(bucket, monkeypatch, name, value, capfd):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        open_bucket(bucket)
    assert (caught.value.where, caught.value.exit_code) == (name, 2)
    silent(all_said(caught.value))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["AWS_SKIP_SIGNATURE", "AWS_CONDITIONAL_PUT", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"])
def test_a_setting_that_the_library_alone_knows_is_named(bucket, monkeypatch, name):
    monkeypatch.setenv(name, f"no such value, {SECRET}")
    with pytest.raises(ConfigError, match="the store cannot be opened") as caught:
        open_bucket(bucket)
    assert name in str(caught.value.hint)
    silent(all_said(caught.value))


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:65535/", "https://s3.eu-west-1.example.org/a/b", "http://[::1]:9000", "http://a_b"]
)
def test_addresses_of_stores(bucket, monkeypatch, endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert open_bucket(bucket).endpoint == endpoint


class PanicException(BaseException):
    """As Rust's panics are: no Exception."""


@pytest.mark.parametrize("kind", [PanicException, ValueError, TypeError, OverflowError, RuntimeError])
@pytest.mark.parametrize("action", ["head", "get", "put", "list", "delete"])
def test_whatever_the_library_raises_is_an_error_of_ours(bucket, monkeypatch, tmp_path, kind, action):
    opened = open_bucket(bucket)

    def fail(*_, **__):
        raise kind(f"of {SECRET}")

    (tmp_path / "file").write_bytes(b"data")
    monkeypatch.setattr(opened, "_obstore", type("Library", (), {action: staticmethod(fail)})())
    acts = {
        "head": lambda: opened.look("x"), "get": lambda: opened.read_range("x", 0, 1),
        "put": lambda: opened.upload("x", tmp_path / "file"), "list": lambda: list(opened.list("x")),
        "delete": lambda: opened.remove(["x"]),
    }  # fmt: skip
    with pytest.raises(StorageError, match="could not be sent") as caught:
        acts[action]()
    silent(all_said(caught.value))
    with pytest.raises(KeyboardInterrupt):  # which is nobody's error
        opened._tried("x", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))


def test_a_condition_that_nobody_set(bucket, proxy, tmp_path):
    proxy.rule = lambda asked: Answer(412, "PreconditionFailed")
    (tmp_path / "file").write_bytes(b"data")
    for act in (lambda: open_bucket(bucket).upload("x", tmp_path / "file"), lambda: open_bucket(bucket).read("x")):
        with pytest.raises(StorageError, match="refused the request") as caught:
            act()
        assert "412" in caught.value.got


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr(buckets, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="wordpipe\\[s3\\]"):
        open_bucket("bucket")


def test_two_buckets_are_two(bucket, store_url):
    make_bucket(store_url, f"{bucket}-2")
    open_bucket(bucket).write_if("x", b"1", None)
    assert open_bucket(f"{bucket}-2").read("x") is None
    assert isinstance(StorageError("x"), WordpipeError)
