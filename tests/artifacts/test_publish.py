"""Publication: one writer per output, foreign files are never touched, leftovers go, stopped publications end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.generations import beside, content, generation_of, manifest_for, one_rename_impossible, publish
from tests.support.tracing import ROOT
from wordpipe.artifacts import (
    MANIFEST,
    Artifact,
    ArtifactWriter,
    OutputLock,
    check_replaceable,
    clear_leftovers,
    recover,
)
from wordpipe.artifacts import publish as publication
from wordpipe.errors import ArtifactError, LockedError, StorageError

HEX = "0123456789abcdef"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        data = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (mode, data)
    return found


@pytest.fixture
def target(tmp_path) -> Path:
    publish(tmp_path / "corpus", 1)
    return tmp_path / "corpus"


def refused_and_untouched(target: Path, error: type[Exception], match: str, kind: str = "corpus") -> None:
    before = snapshot(target.parent)
    with pytest.raises(error, match=match) as caught:
        check_replaceable(target, kind)
    assert caught.value.where == str(target)
    assert caught.value.hint
    assert snapshot(target.parent) == before


def test_what_may_be_replaced(tmp_path, target):
    check_replaceable(tmp_path / "nothing yet", "corpus")
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    check_replaceable(tmp_path / "empty", "corpus")
    check_replaceable(target, "corpus")
    (target / ".DS_Store").write_bytes(b"x")  # whoever looks at the folder on macOS
    check_replaceable(target, "corpus")


def test_a_damaged_artifact_may_be_made_again(target):
    (target / "corpus-00000.parquet").write_bytes(b"short")
    (target / "corpus-00001.parquet").unlink()
    (target / MANIFEST).write_bytes((target / MANIFEST).read_bytes().replace(b'"threads": 1', b'"threads": 2'))
    check_replaceable(target, "corpus")
    publish(target, 2)
    assert generation_of(target) == 2


@pytest.mark.parametrize(
    "manifest",
    [
        b'{"name": "My web page", "icons": [], "display": "standalone"}',
        b"{}",
        b"[]",
        b"",
        b'{"kind": "corpus"}',
        b"\xff",
    ],
)
def test_the_manifest_of_another_program(tmp_path, manifest):
    """Web pages and browser extensions have a manifest.json too."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / MANIFEST).write_bytes(manifest)
    (tmp_path / "site" / "index.html").write_text("hello")
    refused_and_untouched(tmp_path / "site", StorageError, "wordpipe did not write it")


def test_a_folder_with_other_files(tmp_path):
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "a.jpg").write_bytes(b"x")
    refused_and_untouched(tmp_path / "photos", StorageError, "2024/a.jpg")


@pytest.mark.parametrize("name", ["notes.txt", ".git/config", "parts/thesis.doc", "zz/deep/er"])
def test_a_foreign_file_inside_an_artifact(target, name):
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    (target / name).write_bytes(b"precious")
    refused_and_untouched(target, StorageError, name.replace(".", r"\."))


@pytest.mark.parametrize("name", ["link", "parts/link"])
def test_a_foreign_link_inside_an_artifact(target, tmp_path, name):
    (tmp_path / "home").mkdir()
    (target / name).symlink_to(tmp_path / "home")
    refused_and_untouched(target, StorageError, name)


def test_an_artifact_of_another_kind(target):
    refused_and_untouched(
        target,
        ArtifactError,
        "contains a corpus artifact; words cannot replace an artifact of another kind",
        "words",
    )


def test_an_index_in_the_way_has_its_article(tmp_path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / MANIFEST).write_bytes(manifest_for([], kind="index").to_bytes())
    refused_and_untouched(tmp_path / "index", ArtifactError, "contains an index artifact", "words")


def test_a_file_or_link_at_the_target(tmp_path, target):
    (tmp_path / "file").write_bytes(b"precious")
    refused_and_untouched(tmp_path / "file", StorageError, "is an existing file")
    (tmp_path / "link").symlink_to(target)
    refused_and_untouched(tmp_path / "link", StorageError, "symbolic link")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    refused_and_untouched(tmp_path / "dangling", StorageError, "symbolic link")


@pytest.mark.parametrize("name", [".", "..", "/", "corpus/.."])
def test_a_target_without_a_name(target, monkeypatch, name):
    monkeypatch.chdir(target.parent)
    with pytest.raises(StorageError, match="must end in a name"):
        check_replaceable(Path(name), "corpus")


def appear(what: str, target: Path) -> None:
    """Somebody puts something at the target."""
    if what == "file":
        target.write_bytes(b"precious")
    elif what == "link":
        target.symlink_to(target.parent)
    elif what == "folder":
        target.mkdir()
        (target / "notes.txt").write_bytes(b"precious")
    else:
        with ArtifactWriter(target) as other:
            other.write("w", b"w")
            other.publish(manifest_for(other.outputs, kind="words"))


@pytest.mark.parametrize("what", ["file", "link", "folder", "other kind"])
def test_what_appears_while_the_stage_is_at_work_is_not_replaced(tmp_path, what):
    """Hours lie between the look at the target and the publication."""
    target = tmp_path / "corpus"
    with ArtifactWriter(target) as writer:
        writer.write("a", b"new")
        appear(what, target)
        with pytest.raises((StorageError, ArtifactError)):
            writer.publish(manifest_for(writer.outputs))
    untouched = tmp_path / "untouched" / "corpus"
    untouched.parent.mkdir()
    appear(what, untouched)
    assert beside(target) == ["untouched"]
    if what == "link":
        assert target.readlink() == tmp_path
    elif what == "file":
        assert target.read_bytes() == b"precious"
    else:
        assert snapshot(target) == snapshot(untouched)


def test_leftovers_go_and_neighbours_stay(tmp_path, target):
    """Names that only look like leftovers of this target belong to others."""
    gone = [f".corpus.{HEX}.tmp", f".corpus.{HEX}.old", f".corpus.{HEX}.scratch.tmp"]
    stay = [
        f".corpus.v2.{HEX}.tmp",  # the draft of the artifact `corpus.v2`, perhaps being written
        f".corpu.{HEX}.tmp",
        f"corpus.{HEX}.tmp",
        ".corpus.partial",
        ".corpus.tmp",
        f".corpus.{HEX}.tmp.bak",
        f".corpus.{HEX[:-1]}.tmp",
    ]
    for name in (*gone, *stay):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x")
    with OutputLock(target):
        clear_leftovers(target)
    assert beside(target) == sorted(stay)
    assert generation_of(target) == 1


@pytest.mark.parametrize("name", ["a[b]c", "a*", "a?", "[!x]", "ünï çødé", "a\nb", "x" * 230])
def test_targets_with_odd_names(tmp_path, name):
    target = tmp_path / name
    (tmp_path / f".{name}.{HEX}.tmp").mkdir()
    publish(target, 1)
    publish(target, 2)
    assert generation_of(target) == 2
    assert beside(target) == []


def test_a_planted_link_beside_the_target_is_removed_not_followed(tmp_path, target):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_bytes(b"precious")
    (tmp_path / f".corpus.{HEX}.tmp").symlink_to(tmp_path / "home")
    publish(target, 2)
    assert beside(target) == ["home"]
    assert (tmp_path / "home" / "thesis").read_bytes() == b"precious"


class TestStoppedBetweenTwoRenames:
    """The old artifact stands aside, the new one has not taken its place."""

    @pytest.fixture
    def target(self, tmp_path) -> Path:
        target = tmp_path / "corpus"
        publish(tmp_path / "new", 2)
        publish(target, 1)
        target.rename(tmp_path / f".corpus.{HEX}.old")
        (tmp_path / "new").rename(tmp_path / f".corpus.{HEX}.tmp")
        (tmp_path / ".new.lock").unlink()
        return target

    def test_recover_prefers_the_new_one(self, target):
        recover(target)
        assert generation_of(target) == 2

    def test_recover_puts_the_old_one_back_when_the_new_one_is_not_whole(self, target):
        (target.parent / f".corpus.{HEX}.tmp" / MANIFEST).unlink()
        recover(target)
        assert generation_of(target) == 1

    def test_recover_passes_over_what_was_being_removed(self, target):
        """An older aside whose removal failed half way must not win by its name."""
        stale = target.parent / f".corpus.{'0' * 16}.old"
        stale.mkdir()
        (stale / "corpus-00000.parquet").write_bytes(content("corpus-00000.parquet", 0))
        recover(target)
        assert generation_of(target) == 2

    def test_recover_never_replaces_what_is_there(self, target):
        target.mkdir()
        recover(target)
        assert list(target.iterdir()) == []

    def test_a_reader_completes_it(self, target):
        with Artifact(target) as artifact:
            assert artifact.manifest.settings == {"generation": 2}

    def test_a_reader_leaves_it_to_a_writer_that_is_alive(self, target):
        before = beside(target)
        with OutputLock(target), pytest.raises(ArtifactError, match="the artifact does not exist"):
            Artifact(target)
        assert beside(target) == before

    def test_a_reader_gives_up_on_an_aside_that_is_no_artifact(self, target):
        for folder in target.parent.glob(".corpus.*"):
            (folder / MANIFEST).unlink() if folder.is_dir() else None
        with pytest.raises(ArtifactError, match="the artifact does not exist"):
            Artifact(target)

    def test_the_next_run_completes_it_and_clears_up(self, target):
        publish(target, 3)
        assert generation_of(target) == 3
        assert beside(target) == []


def test_two_renames_give_the_same(tmp_path, monkeypatch):
    one = publish(tmp_path / "one", 2)
    monkeypatch.setattr(publication, "exchange", one_rename_impossible)
    publish(tmp_path / "two", 1)
    assert publish(tmp_path / "two", 2) == one
    assert generation_of(tmp_path / "two") == 2
    assert beside(tmp_path / "two") == [".one.lock", "one"]


HOLD = """
import sys
from pathlib import Path
from wordpipe.artifacts import OutputLock
with OutputLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(target):
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_at_once(target, holder):
    with pytest.raises(LockedError, match=f"process {holder.pid}, since 2") as caught:
        publish(target, 2)  # the holder never ends: a writer that waited would wait for ever
    assert caught.value.where == str(target)
    assert caught.value.hint
    assert generation_of(target) == 1  # readers do not care
    assert beside(target) == []


def test_a_killed_writer_keeps_nobody_waiting(target, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    publish(target, 2)
    assert generation_of(target) == 2


def test_a_stopped_writer_still_holds_it(target, holder):
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(LockedError):
        publish(target, 2)
    holder.send_signal(signal.SIGCONT)


def test_within_one_process(target):
    with OutputLock(target):
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), OutputLock(target):
            pass
        with OutputLock(target.parent / "another"):
            pass
    with OutputLock(target):
        pass


def test_freed_after_an_error(target):
    with pytest.raises(ZeroDivisionError), OutputLock(target):
        _ = 1 / 0
    with OutputLock(target):
        pass


def test_freed_although_a_forked_child_lives_on(target):
    """A worker that was forked has the lock's descriptor too."""
    code = (
        "import os, sys; from pathlib import Path; from wordpipe.artifacts import OutputLock\n"
        "with OutputLock(Path(sys.argv[1])):\n"
        "    if os.fork() == 0: sys.stdin.read(); os._exit(0)\n"
        "print('freed', flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"freed\n"
        publish(target, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 5000,
        b'{"pid": 1, "since": "\\u001b[2J"}',
        *(
            pytest.param(some, marks=pytest.mark.slow)
            for some in (b"", b"\xff", b"null", b"[]", b"{}", b'{"pid": "x"}')
        ),
    ],
)
def test_a_lock_file_with_anything_in_it(target, content):
    """It is for the message only, and what it says may be shown on a terminal."""
    path = target.parent / ".corpus.lock"
    with OutputLock(target):
        path.write_bytes(content)
        with pytest.raises(LockedError) as caught, OutputLock(target):
            pass
        assert caught.value.what == "another run is writing this output"
    with OutputLock(target):
        assert json.loads(path.read_bytes())["pid"] == os.getpid()


def test_a_planted_link_is_not_followed(target, tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"thesis")
    (tmp_path / ".corpus.lock").unlink()
    (tmp_path / ".corpus.lock").symlink_to(precious)
    with pytest.raises(OSError, match=r"\.corpus\.lock"):
        publish(target, 2)
    assert precious.read_bytes() == b"thesis"
    assert generation_of(target) == 1


@pytest.mark.slow
def test_no_descriptor_is_left_by_a_refused_lock(target):
    with OutputLock(target):
        before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208
        for _ in range(5):
            with pytest.raises(LockedError), OutputLock(target):
                pass
        assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208
