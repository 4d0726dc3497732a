"""File systems that lack something: locks, the exchange of two folders. What cannot be safe is refused, with a hint."""

import errno
import fcntl
import os
import random

import pytest

import wordpipe
from tests.support.generations import generation_of, one_rename_impossible, publish
from wordpipe.artifacts import Artifact, OutputLock
from wordpipe.artifacts import publish as publication
from wordpipe.errors import LockedError, StorageError

NO_LOCKS = ("ENOLCK", "ENOSYS", "EOPNOTSUPP", "EINVAL")


def refuse(monkeypatch, name: str) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("name", NO_LOCKS)
def test_without_locks_nothing_is_written_and_all_is_read(tmp_path, monkeypatch, cli, name):
    publish(tmp_path / "corpus", 1)
    refuse(monkeypatch, name)
    texts = [{"text": f"{random.random()}"}]
    with pytest.raises(StorageError, match="does not support locks") as caught:
        wordpipe.ingest(texts, output=tmp_path / "corpus")
    assert caught.value.hint
    assert caught.value.where == str(tmp_path / "corpus")
    with pytest.raises(StorageError, match="does not support locks"):
        wordpipe.ingest(texts, output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    result = cli("ingest", __file__, "-o", tmp_path / "new", "--format", "txt")
    assert (result.code, "does not support locks" in result.err, "Traceback" in result.err) == (5, True, False), (
        result.err
    )
    assert generation_of(tmp_path / "corpus") == 1
    with pytest.raises(wordpipe.errors.ArtifactError, match="the artifact does not exist"):
        Artifact(tmp_path / "nothing")


def test_another_error_of_a_lock_is_none_of_these(tmp_path, monkeypatch):
    refuse(monkeypatch, "EIO")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), OutputLock(tmp_path / "x"):
        pass


def test_a_lock_that_is_held_is_still_another_run(tmp_path):
    with OutputLock(tmp_path / "x"), pytest.raises(LockedError), OutputLock(tmp_path / "x", patience=0):
        pass


def test_without_locks_a_reader_looks_in_vain_for_what_a_killed_writer_set_aside(tmp_path, monkeypatch):
    """Only the holder of a lock may complete a publication; a reader says that there is no artifact."""
    publish(tmp_path / "corpus", 1)
    (tmp_path / "corpus").rename(tmp_path / f".corpus.{'0' * 16}.old")
    with monkeypatch.context() as patch:
        refuse(patch, "ENOLCK")
        with pytest.raises(wordpipe.errors.ArtifactError, match="the artifact does not exist"):
            Artifact(tmp_path / "corpus")
    assert generation_of(tmp_path / "corpus") == 1


def test_without_the_exchange_two_renames_do(tmp_path, monkeypatch):
    monkeypatch.setattr(publication, "exchange", one_rename_impossible)
    for generation in (1, 2, 3):
        publish(tmp_path / "corpus", generation)
        assert generation_of(tmp_path / "corpus") == generation
