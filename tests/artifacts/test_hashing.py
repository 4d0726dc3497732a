"""Hashes of files: right, remembered, and the memory never in the way."""

import errno
import os
import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generations import publish
from tests.support.tracing import ROOT
from wordpipe.artifacts import MANIFEST, Artifact, HashCache, hash_bytes, hash_fd, manifest
from wordpipe.errors import ArtifactError

LONG_AGO = 1_000_000_000


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """The sizes of the files that are really read."""
    sizes: list[int] = []

    def counted(fd: int) -> str:
        sizes.append(os.fstat(fd).st_size)
        return hash_fd(fd)

    monkeypatch.setattr(manifest, "hash_fd", counted)
    return sizes


@pytest.fixture
def calm(monkeypatch) -> None:
    """As if every file had been written long ago."""
    monkeypatch.setattr(manifest, "_RACY_NS", -1)


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content" * 1000)
    return path


def remembered(cache: Path, file: Path) -> str:
    """What a new process would say of the file."""
    memory = HashCache(cache)
    digest = memory.hash_file(file)
    memory.save()
    return digest


@given(st.binary(max_size=3000), st.integers(1, 700))
def test_hash_is_blake3_whatever_the_block(tmp_path_factory, data, block):
    path = tmp_path_factory.getbasetemp() / "hashed"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch, path.open("rb", buffering=0) as file:
        patch.setattr(manifest, "_BLOCK", block)
        file.seek(5)
        assert hash_fd(file.fileno()) == hash_bytes(data) == blake3(data).hexdigest()
        assert file.tell() == 5


def test_short_reads_are_completed(tmp_path, file, monkeypatch):
    """The system may give less than it is asked for."""
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 1000), offset))
    assert HashCache(tmp_path / "cache").hash_file(file) == hash_bytes(file.read_bytes())


@pytest.mark.usefixtures("calm")
def test_an_unchanged_file_is_read_once(tmp_path, file, reads):
    digests = {remembered(tmp_path / "cache", file) for _ in range(5)}
    assert digests == {hash_bytes(file.read_bytes())}
    assert reads == [7000]


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("keep_times", [False, True])
def test_a_changed_file_is_read_again(tmp_path, file, reads, keep_times):
    """Also one of the same size whose time of change was set back: its inode still knows."""
    before = file.stat()
    remembered(tmp_path / "cache", file)
    file.write_bytes(b"CONTENT" * 1000)
    if keep_times:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert remembered(tmp_path / "cache", file) == hash_bytes(b"CONTENT" * 1000)
    assert len(reads) == 2


@pytest.mark.usefixtures("calm")
def test_another_file_of_that_name_is_read(tmp_path, file, reads):
    remembered(tmp_path / "cache", file)
    (tmp_path / "other").write_bytes(b"CONTENT" * 1000)
    (tmp_path / "other").replace(file)
    assert remembered(tmp_path / "cache", file) == hash_bytes(b"CONTENT" * 1000)


def test_a_file_written_just_now_is_not_remembered(tmp_path, file, reads):
    """It may change again within one tick of the clock, and nobody would see."""
    now = file.stat().st_mtime_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest.time, "time_ns", lambda: now + 1_000_000)
        remembered(tmp_path / "cache", file)
        remembered(tmp_path / "cache", file)
    assert len(reads) == 2


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path, file, monkeypatch):
    monkeypatch.setattr(manifest, "_RACY_NS", -1)

    def meddled(fd: int) -> str:
        digest = hash_fd(fd)
        file.write_bytes(b"CONTENT" * 1000)
        os.utime(file, ns=(LONG_AGO, LONG_AGO))
        return digest

    monkeypatch.setattr(manifest, "hash_fd", meddled)
    cache = HashCache(tmp_path / "cache")
    cache.hash_file(file)
    cache.save()
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("junk", [b"", b"not a database" * 100, b"SQLite format 3\0" + bytes(2000)])
def test_a_broken_memory_does_no_harm_and_heals(tmp_path, file, reads, junk):
    cache = tmp_path / "cache"
    cache.write_bytes(junk)
    expected = hash_bytes(file.read_bytes())
    assert [remembered(cache, file) for _ in range(4)] == [expected] * 4
    assert len(reads) <= 2


@pytest.mark.usefixtures("calm")
def test_a_damaged_memory_does_no_harm(tmp_path, file):
    """Noise in every part of it, one at a time."""
    cache = tmp_path / "cache"
    remembered(cache, file)
    good = cache.read_bytes()
    expected = hash_bytes(file.read_bytes())
    noise = random.Random(0)
    for start in range(0, len(good), 256):
        cache.write_bytes(good[:start] + noise.randbytes(256) + good[start + 256 :])
        assert remembered(cache, file) == expected


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("schema", ["files (x)", "files (dev, ino, size, mtime, ctime, blake3)", "other (x)"])
def test_a_memory_of_another_shape_does_no_harm(tmp_path, file, schema):
    cache = tmp_path / "cache"
    db = sqlite3.connect(cache)
    db.execute(f"CREATE TABLE {schema}")
    if "blake3" in schema:
        stat = file.stat()
        row = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, 5)
        db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
    db.commit()
    db.close()
    assert remembered(cache, file) == hash_bytes(file.read_bytes())


@pytest.mark.usefixtures("calm")
def test_a_memory_that_cannot_be_written_does_no_harm(tmp_path, file):
    (tmp_path / "a file").write_bytes(b"")
    expected = hash_bytes(file.read_bytes())
    assert remembered(tmp_path / "a file" / "below" / "cache", file) == expected
    (tmp_path / "folder").mkdir()
    assert remembered(tmp_path / "folder", file) == expected
    assert remembered(Path("/proc/no such place/cache"), file) == expected


@pytest.mark.usefixtures("calm")
def test_a_locked_memory_does_no_harm(tmp_path, file, reads):
    cache = tmp_path / "cache"
    remembered(cache, file)
    db = sqlite3.connect(cache)
    db.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        connect = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **{**options, "timeout": 0.01}))
        other = tmp_path / "other"
        other.write_bytes(b"other")
        assert remembered(cache, other) == hash_bytes(b"other")
    db.close()
    assert remembered(cache, file) == hash_bytes(file.read_bytes())
    assert reads.count(file.stat().st_size) == 1  # what was known is still known


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("folder", ["a?b#c%20d", "ünï", "x y"])
def test_a_memory_in_a_folder_with_an_odd_name(tmp_path, file, reads, folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    for _ in range(2):
        cache = HashCache()
        cache.hash_file(file)
        cache.save()
    assert len(reads) == 1
    assert (tmp_path / folder / "wordpipe" / "hashes.sqlite").is_file()


def test_without_a_home_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").write_bytes(b"x")
    os.utime(tmp_path / "x", ns=(LONG_AGO, LONG_AGO))
    monkeypatch.setattr(manifest, "_RACY_NS", -1)
    cache = HashCache()
    cache.hash_file(tmp_path / "x")
    cache.save()
    assert (tmp_path / ".cache" / "wordpipe" / "hashes.sqlite").is_file()


def test_numbers_beyond_63_bits():
    """Inodes of some file systems use all 64."""
    assert manifest._signed(2**64 - 1) == -1
    assert manifest._signed(2**63) == -(2**63)
    assert manifest._signed(2**63 - 1) == 2**63 - 1


FILL = """
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from wordpipe.artifacts import manifest
manifest._RACY_NS = -1
folder = Path(sys.argv[1])
for path in sorted(folder.glob("file*")):
    cache = manifest.HashCache(folder / "cache")
    cache.hash_file(path)
    cache.save()
"""


@pytest.mark.usefixtures("calm")
def test_two_processes_at_once(tmp_path, reads):
    for number in range(30):
        (tmp_path / f"file{number}").write_bytes(b"%d" % number * 100)
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    both = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    for number in range(30):
        assert remembered(tmp_path / "cache", tmp_path / f"file{number}") == hash_bytes(b"%d" % number * 100)
    assert reads == []


@pytest.mark.usefixtures("calm")
def test_an_artifact_is_read_once_and_again_when_asked(tmp_path, reads, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    publish(tmp_path / "corpus", 1)
    Artifact(tmp_path / "corpus").close()
    files = len(reads)
    assert files == 3
    with Artifact(tmp_path / "corpus") as artifact:
        assert len(reads) == files  # as it was read before
        monkeypatch.setattr("wordpipe.artifacts.reader.hash_fd", manifest.hash_fd)
        artifact.check_hashes()
    assert len(reads) == 2 * files  # every byte, whatever is remembered


@pytest.mark.usefixtures("calm")
def test_a_memory_that_lies_cannot_condemn_a_good_artifact(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    publish(tmp_path / "corpus", 1)
    Artifact(tmp_path / "corpus").close()
    db = sqlite3.connect(tmp_path / "cache" / "wordpipe" / "hashes.sqlite")
    assert db.execute("UPDATE files SET blake3 = ?", ["0" * 64]).rowcount == 3
    db.commit()
    db.close()
    Artifact(tmp_path / "corpus").close()


@pytest.mark.usefixtures("calm")
def test_a_bad_artifact_is_not_excused_by_what_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    publish(tmp_path / "corpus", 1)
    Artifact(tmp_path / "corpus").close()
    path = tmp_path / "corpus" / "corpus-00000.parquet"
    data = bytearray(path.read_bytes())
    before = path.stat()
    data[7] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(ArtifactError) as caught:
            Artifact(tmp_path / "corpus")
        assert caught.value.where == str(path)
    assert MANIFEST not in str(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        HashCache(tmp_path / "cache").hash_file(tmp_path / "nothing")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("made_in", [ThreadPoolExecutor, nullcontext], ids=["another thread", "this thread"])
def test_a_cache_that_nobody_saves_closes_its_database(tmp_path, made_in):
    """Since Python 3.13 a database that is left open is a warning, whichever thread drops the last reference."""
    file = tmp_path / "file"
    file.write_bytes(b"text")
    os.utime(file, (1, 1))
    first = HashCache(tmp_path / "cache")
    first._new[manifest._identity(file.stat())] = "known"
    first.save()
    cache = HashCache(tmp_path / "cache")
    with made_in() as pool:
        found = pool.submit(cache.hash_file, file).result() if pool else cache.hash_file(file)
    assert found == "known"
    database = cache._known
    del cache
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
