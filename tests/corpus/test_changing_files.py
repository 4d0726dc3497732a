"""A file that changes after it was hashed is refused, whatever its size and its form: its corpus would have a false digest."""

import bz2
import gzip
import io
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe.corpus import expand
from wordpipe.errors import StorageError
from wordpipe.stages.corpus import ingest

TEXT = b"The sea is deep.\n\nThe moon is far.\n" * 20


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["The sea is deep.", "The moon is far."]}), file)
    return file.getvalue()


FORMS = {
    "a.txt": TEXT, "a.md": b"# Sea\n\n" + TEXT, "a.html": b"<h1>Sea</h1><p>" + TEXT, "a.rst": b"Sea\n===\n\n" + TEXT,
    "a.csv": b"text,n\nThe sea.,1\nThe moon.,2\n", "a.tsv": b"text\tn\nThe sea.\t1\n", "a.jsonl": b'{"text": "The sea."}\n',
    "a.txt.gz": gzip.compress(TEXT), "a.jsonl.bz2": bz2.compress(b'{"text": "The sea."}\n'), "a.parquet": parquet(),
    "a.conll": b"The O\nsea B-X\n\n",
}  # fmt: skip


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"!!!")


def with_its_time_put_back(path: Path) -> None:
    about = path.stat()
    overwritten(path)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


CHANGES = {
    "overwritten": overwritten,
    "with its time put back": with_its_time_put_back,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "replaced": replaced,
}


def old(folder: Path, name: str) -> Path:
    """A file that nobody has written to for a while."""
    path = folder / name
    path.write_bytes(FORMS[name])
    os.utime(path, (1e9, 1e9))
    return path


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("change", ["overwritten", "cut"])
def test_a_file_that_changes_between_its_hash_and_its_reading_is_refused(tmp_path, monkeypatch, name, change):
    path, hashed = old(tmp_path, name), ingest.fingerprints

    def then_change(sources, settings):
        found = hashed(sources, settings)
        CHANGES[change](path)
        return found

    monkeypatch.setattr(ingest, "fingerprints", then_change)
    with pytest.raises(StorageError, match="changed while it was read") as caught:
        wordpipe.ingest(path, output=tmp_path / "c")
    assert (caught.value.exit_code, name in str(caught.value.where)) == (5, True)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("change", [*CHANGES, "gone"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, change):
    path = old(tmp_path, "a.txt")
    (source,) = expand([str(path)])
    source = pickle.loads(pickle.dumps(source))
    with source.open() as file:
        assert file.read() == TEXT
    with pytest.raises(StorageError, match="changed while it was read"), source.open() as file:  # noqa: PT012
        file.read(10)
        (CHANGES | {"gone": Path.unlink})[change](path)
    if path.exists():
        with pytest.raises(StorageError, match="changed while it was read"), source.open():
            pass


def test_an_error_of_a_file_that_changed_is_the_change(tmp_path):
    path = old(tmp_path, "a.txt")
    (source,) = expand([str(path)])
    with pytest.raises(StorageError, match="changed while it was read"), source.open():  # noqa: PT012
        overwritten(path)
        raise ValueError
    path = old(tmp_path, "a.md")
    (source,) = expand([str(path)])
    with pytest.raises(ValueError), source.open():
        raise ValueError


def test_another_name_is_no_change(tmp_path):
    path = old(tmp_path, "a.txt")
    (source,) = expand([str(path)])
    with source.open() as file:
        (tmp_path / "second").hardlink_to(path)
        assert file.read() == TEXT
