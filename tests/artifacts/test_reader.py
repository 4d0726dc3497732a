"""Opening an artifact: whatever is wrong with it is found and named before anything is used."""

import os
import random
import resource
import shutil
import threading
from pathlib import Path

import pytest

from tests.support.generations import FILES, content, generation_of, manifest_for, publish
from wordpipe.artifacts import MANIFEST, Artifact, ArtifactWriter, OutputEntry, is_artifact
from wordpipe.artifacts import publish as publication
from wordpipe.artifacts import reader as reader_module
from wordpipe.errors import ArtifactError, StorageError

NAMES = [*FILES, MANIFEST]


@pytest.fixture
def target(tmp_path) -> Path:
    publish(tmp_path / "corpus", 1)
    return tmp_path / "corpus"


def refused(target: Path, **options) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        Artifact(target, **options)
    return caught.value


def places(length: int, count: int = 60) -> list[int]:
    """Positions in a file: both ends, and at random in between."""
    chosen = random.Random(length).sample(range(length), min(count, length))
    return sorted({0, length - 1, *chosen})


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_is_found(target, name):
    path = target / name
    good = path.read_bytes()
    tried = places(len(good))
    assert len(tried) >= min(50, len(good))
    for place in tried:
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        assert refused(target).where == str(path), place
    path.write_bytes(good)
    assert generation_of(target) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_shortened_or_lengthened_file_is_found(target, name):
    path = target / name
    good = path.read_bytes()
    for length in [*places(len(good))[:-1], len(good) + 1, len(good) + 4096]:
        path.write_bytes((good + bytes(4096))[:length])
        for verify in (True, False):  # sizes are always looked at
            error = refused(target, verify=verify)
            assert error.where == str(path), length
            assert error.hint


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found(target, name):
    (target / name).unlink()
    error = refused(target, verify=False)
    assert error.where == str(target / name)
    assert "missing" in error.what


def test_a_folder_without_manifest_is_no_artifact(target):
    (target / MANIFEST).unlink()
    assert not is_artifact(target)
    assert "no manifest" in refused(target).what


def test_what_is_no_artifact_says_how_it_is_used(target, tmp_path):
    around = refused(tmp_path)
    assert around.hint == f"give one of the artifacts in this folder: {target}"
    notes = tmp_path / "my notes"
    notes.mkdir()
    assert "search" not in refused(notes).hint
    (notes / "a.txt").write_text("Bees dance.")
    for one in (notes, notes / "a.txt"):
        assert f"wordpipe search QUESTION '{one}'; or make a corpus: wordpipe ingest '{one}'" in refused(one).hint


@pytest.mark.parametrize("name", ["zzz", "corpus-00002.parquet", "parts/more", "new/file", ".hidden"])
def test_a_file_too_many_is_found(target, name):
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).write_bytes(b"x")
    error = refused(target)
    assert error.where == str(target / name)
    assert "did not write" in error.what
    Artifact(target, verify=False).close()


def test_litter_of_file_browsers_does_no_harm(target):
    (target / ".DS_Store").write_bytes(b"x")
    assert generation_of(target) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_never_followed(target, name, tmp_path):
    copy = tmp_path / "same content"
    (target / name).rename(copy)
    (target / name).symlink_to(copy)
    error = refused(target)
    assert error.where == str(target / name)
    assert "link" in error.what


def test_a_linked_folder_is_never_followed(target, tmp_path):
    (target / "parts").rename(tmp_path / "parts")
    (target / "parts").symlink_to(tmp_path / "parts")
    assert refused(target).where == str(target / "parts/steps.json")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_folder_in_place_of_a_file_does_not_hang(target, make):
    name = next(iter(FILES))
    (target / name).unlink()
    make(target / name)
    assert refused(target).where == str(target / name)


def test_paths_that_leave_the_artifact_are_refused(target, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    good = manifest_for([OutputEntry(path="secret", bytes=6, blake3="0" * 64)]).to_bytes()
    for path in ("../secret", str(secret), "parts/../../secret", "", ".", "a//b", MANIFEST):
        with pytest.raises(ValueError, match="not the path of a file inside"):
            OutputEntry(path=path, bytes=6, blake3="0" * 64)
        (target / MANIFEST).write_bytes(good.replace(b'"secret"', f'"{path}"'.encode()))
        assert refused(target, verify=False).where == str(target / MANIFEST)


def test_wrong_kind(target):
    error = refused(target, kinds=["words", "model"])
    assert (error.got, error.expected) == ("corpus", "words or model")
    assert error.hint == "to make an artifact of the right kind: wordpipe train word2vec"


def test_no_artifact_at_all(tmp_path):
    assert refused(tmp_path / "nothing").what == "the artifact does not exist"
    (tmp_path / "file").write_bytes(b"x")
    assert "this is a file" in refused(tmp_path / "file").what
    assert not list(tmp_path.glob(".*")), "a reader left something"


def test_a_name_that_the_artifact_does_not_have(target):
    with Artifact(target) as artifact, pytest.raises(ArtifactError, match="artifact does not list this file"):
        artifact.open("words.parquet")


def test_several_readers_of_one_file_do_not_disturb_each_other(target):
    name = next(iter(FILES))
    with Artifact(target) as artifact, artifact.open(name) as one, artifact.open(name) as other:
        one.seek(100)
        assert other.read(50) == content(name, 1)[:50]
        assert one.read(50) == content(name, 1)[100:150]
        assert one.seek(-7, os.SEEK_END) == len(content(name, 1)) - 7
        assert one.read() == content(name, 1)[-7:]
        one.seek(10)
        one.seek(5, os.SEEK_CUR)
        assert one.tell() == 15
        assert one.seek(10**9) == 10**9
        assert one.read() == b""
        with pytest.raises(ValueError, match="negative"):
            one.seek(-(10**6), os.SEEK_END)


def test_reading_without_preadv(target, monkeypatch):
    """As on systems that lack it."""
    monkeypatch.delattr(os, "preadv")
    assert generation_of(target) == 1


def test_a_disk_that_cannot_be_read_is_not_called_damage(target, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    name = next(iter(FILES))
    with Artifact(target) as artifact:
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(OSError, match="Input/output error") as caught:
            artifact.read(name)
        assert caught.value.filename == str(target / name)
        monkeypatch.setattr(os, "pread", broken)
        with pytest.raises(OSError, match="Input/output error") as caught:
            artifact.check_hashes()
        assert caught.value.filename == str(target / name)


def test_progress_of_checking(target):
    reported: list[int] = []
    with Artifact(target, on_bytes=reported.append) as artifact:
        total = sum(output.bytes for output in artifact.manifest.outputs)
    assert reported == sorted(reported)
    assert len(reported) == len(FILES)
    assert reported[-1] == total


def test_as_input(target):
    with Artifact(target) as artifact:
        entry = artifact.as_input(beside=target.parent / "elsewhere")
        assert (entry.kind, entry.digest, entry.recipe) == ("corpus", artifact.digest, artifact.manifest.recipe)
        assert entry.path == "../corpus"
        assert entry.verified
    with Artifact(target, verify=False) as artifact:
        assert not artifact.as_input(beside=target.parent).verified


def test_an_artifact_moves_as_one(target, tmp_path):
    shutil.move(target, tmp_path / "elsewhere")
    assert generation_of(tmp_path / "elsewhere") == 1


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
def test_a_reader_stays_with_its_generation(target, monkeypatch, two_renames):
    if two_renames:
        monkeypatch.setattr(publication, "exchange", lambda *_: False)
    with Artifact(target) as pinned:
        for generation in range(2, 102):
            publish(target, generation)
            pinned.check_hashes() if generation % 20 == 0 else None
            for name in FILES:
                assert pinned.read(name) == content(name, 1)
        assert pinned.manifest.settings["generation"] == 1
    assert generation_of(target) == 101


@pytest.mark.slow
@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
def test_opening_while_generations_fly_by(target, monkeypatch, two_renames):
    """Every opening finds one generation, whole, and there is one at any moment."""
    if two_renames:
        monkeypatch.setattr(publication, "exchange", lambda *_: False)
    done = threading.Event()
    failed: list[BaseException] = []
    seen: list[int] = []

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(generation_of(target))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        for generation in range(2, 202):
            publish(target, generation)
    finally:
        done.set()
    for thread in readers:
        thread.join()
    assert not failed, failed
    assert len(set(seen)) > 5


def test_a_writer_that_finishes_between_two_looks(target, monkeypatch):
    """At the first look the new folder has not taken its place; a moment later nothing stands aside any more."""
    looks = []
    really_open = os.open

    def first_in_vain(path: str | Path, *args, **options) -> int:
        looks.extend([path] * (path == target))
        if looks == [path]:
            raise FileNotFoundError
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", first_in_vain)
    assert generation_of(target) == 1
    assert len(looks) == 2


def test_more_files_than_are_kept_open(tmp_path, monkeypatch):
    """Those are opened when they are read; a reader that comes too late learns that, not that the file is damaged."""
    monkeypatch.setattr(reader_module, "_KEPT_OPEN", 1)
    target = tmp_path / "corpus"
    publish(target, 1)
    name = list(FILES)[-1]
    with Artifact(target) as artifact:
        artifact.check_hashes()
        assert artifact.read(name) == content(name, 1)
        publish(target, 2)
        with pytest.raises(ArtifactError, match="replaced while it was being read"):
            artifact.read(name)


def test_many_files_with_few_descriptors(tmp_path):
    names = [f"corpus-{number:05d}.parquet" for number in range(300)]
    with ArtifactWriter(tmp_path / "corpus") as draft:
        for name in names:
            draft.write(name, name.encode())
        draft.publish(manifest_for(draft.outputs))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/dev/fd").iterdir())) + 80, hard))
    try:
        with Artifact(tmp_path / "corpus") as artifact:
            artifact.check_hashes()
            assert [artifact.read(name).decode() for name in names] == names
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refuse_to_open(monkeypatch, name, error, *, within=False):
    """Let the system refuse one name; `within`: only where it is looked for in an open folder."""
    opened = os.open

    def refusing(path, *args, **options):
        if path == name and ("dir_fd" in options or not within):
            raise error
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_this_user_may_not_read(target, monkeypatch, name):
    """Root may read anything, so the system's refusal is played."""
    refuse_to_open(monkeypatch, Path(name).name, PermissionError(13, "Permission denied", Path(name).name), within=True)
    with pytest.raises(StorageError, match="may not read") as caught:
        Artifact(target)
    assert caught.value.where == str(target / name)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(f"chmod -R u+rX {target}")


def test_other_refusals_name_the_whole_path(target, monkeypatch):
    refuse_to_open(monkeypatch, MANIFEST, OSError(24, "Too many open files", MANIFEST))
    with pytest.raises(OSError, match="Too many open files") as caught:
        Artifact(target)
    assert caught.value.filename == str(target / MANIFEST)
