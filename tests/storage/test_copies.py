"""Copies of objects in the cache are what was fetched, or are fetched again; nothing of a bucket is lost without a word."""

import json
import os
import random
from pathlib import Path

import pytest

import wordpipe
from tests.support.object_stores import keys_in
from wordpipe.artifacts import fetch_objects
from wordpipe.errors import ArtifactError, InputError
from wordpipe.storage import open_bucket, url_of


@pytest.fixture
def texts(bucket, tmp_path):
    """Texts in the bucket; name → bytes."""
    rng = random.Random()
    found = {name: rng.randbytes(rng.randint(1, 3000)) for name in ("a.txt", "sub/b.txt", "sub/deep/c.md")} | {
        "e.txt": b""
    }
    for name, data in found.items():
        put(bucket, f"t/{name}", data)
    return found


def put(bucket, key, data):
    opened = open_bucket(bucket)
    opened.remove([key])
    opened.write_if(key, data, None)


def fetched(bucket):
    folder = Path(fetch_objects(url_of(f"s3://{bucket}/t")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}, folder


def ranges(proxy):
    return [asked.path.rpartition("/t/")[2] for asked in proxy.seen if "range" in asked.headers]


def flipped(path):
    """One bit, with the times put back."""
    about, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def replaced_by_link(path):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


DAMAGE = {
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"!"),
    "flipped": flipped,
    "gone": Path.unlink,
    "a link": replaced_by_link,
    "one too many": lambda path: path.with_name("z.txt").write_text("never there"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_is_fetched_again_and_nothing_else(bucket, texts, proxy, damage):
    copy, folder = fetched(bucket)
    assert copy == texts
    proxy.seen.clear()
    assert (fetched(bucket)[0], ranges(proxy)) == (texts, [])
    DAMAGE[damage](folder / "sub" / "b.txt")
    assert fetched(bucket)[0] == texts
    assert ranges(proxy) == ([] if damage == "one too many" else ["sub/b.txt"])
    proxy.seen.clear()
    assert (fetched(bucket)[0], ranges(proxy)) == (texts, [])


@pytest.mark.parametrize("listing", ["earlier", "{", "[]", '{"t/a.txt": 3}', "[" * 3000, None])
def test_a_copy_whose_hashes_nobody_knows_is_not_trusted(bucket, texts, proxy, listing):
    _, folder = fetched(bucket)
    path = next(parent for parent in folder.parents if parent.name == "s3:").parent / "listing.json"
    if listing == "earlier":  # size and e_tag alone
        listing = json.dumps({key: known[:2] for key, known in json.loads(path.read_text()).items()})
    path.unlink() if listing is None else path.write_text(listing)
    (folder / "a.txt").write_bytes(b"!" * len(texts["a.txt"]))
    proxy.seen.clear()
    assert fetched(bucket)[0] == texts
    assert sorted(ranges(proxy)) == sorted(name for name, data in texts.items() if data)


def test_a_damaged_copy_gives_nothing_to_the_next(bucket, texts, proxy):
    _, folder = fetched(bucket)
    os.truncate(folder / "a.txt", 0)
    put(bucket, "t/new.txt", b"More.")
    proxy.seen.clear()
    assert fetched(bucket)[0] == texts | {"new.txt": b"More."}
    assert sorted(ranges(proxy)) == ["a.txt", "new.txt"]


THEIRS = json.dumps({"name": "app", "start_url": "/", "icons": []}).encode()


def test_what_lies_beside_anothers_manifest_is_read(bucket, tmp_path, cli):
    names = [
        "manifest.json",
        "0123456789abcdef/page.txt",
        "sub/manifest.json",
        "sub/0123456789abcdef/page.txt",
        "b.txt",
    ]
    for name in names:
        data = THEIRS if name.endswith(".json") else f"The sea of {name} is deep.".encode()
        put(bucket, f"site/{name}", data)
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for pattern in ("", "/sub", "/**/*.txt", "/*/*.txt"):
        made = [
            wordpipe.ingest(f"{root}/site{pattern}", output=tmp_path / f"made-{n}")
            for n, root in enumerate((tmp_path, f"s3://{bucket}"))
        ]
        assert made[0].counts == made[1].counts, pattern
        rows = [{row["text"] for row in wordpipe.show(one, rows=9)["rows"]} for one in made]
        assert rows[0] == rows[1] != set(), pattern
    result = cli("ingest", f"s3://{bucket}/site", "-o", tmp_path / "c")
    assert (result.code, "2 .json" in result.err) == (0, True), result.err


def test_an_artifact_among_texts_is_left_out_and_named(bucket, tmp_path, cli):
    wordpipe.ingest([{"text": "Of an artifact."}], output=f"s3://{bucket}/t/sub/corpus")
    put(bucket, "t/a.txt", b"The sea.")
    put(bucket, "t/sub/b.txt", b"The moon.")
    result = cli("ingest", f"s3://{bucket}/t", "-o", tmp_path / "c")
    assert (result.code, "1 artifact" in result.err) == (0, True), result.err
    assert {row["text"] for row in wordpipe.show(tmp_path / "c", rows=9)["rows"]} == {"The sea.", "The moon."}
    assert len(keys_in(bucket)) > 4
    with pytest.raises(ArtifactError, match="not a source of text"):
        wordpipe.ingest(f"s3://{bucket}/t/sub/corpus", output=tmp_path / "c")


def test_what_is_not_there_is_said_as_of_a_folder(bucket, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(bucket, "there.txt", b"The sea.")
    for arguments, code in (
        (("query", "{}/nope", "x"), 4), (("show", "{}/nope"), 4), (("verify", "{}/nope"), 4),
        (("index", "{}/nope", "-o", "o"), 4),
        (("ingest", "{}/nope", "-o", "o"), 3), (("ingest", "{}/nope/*.txt", "-o", "o"), 3),
        (("import", "{}/nope.vec", "-o", "o"), 3),
    ):  # fmt: skip
        said = [cli(*(part.format(root) for part in arguments)) for root in ("run", f"s3://{bucket}")]
        assert [one.code for one in said] == [code, code], (arguments, said[1].err)
        assert f"s3://{bucket}/nope" in said[1].err
    with pytest.raises(InputError, match="the object or folder does not exist"):
        wordpipe.ingest(f"s3://{bucket}/nothing", output=tmp_path / "x")
