"""An artifact at a URL is whole or absent, for readers at any moment, whatever becomes of its writers."""

import os
import random
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.generations import FILES, content, generation_of, publish
from tests.support.object_stores import Answer, environment, keys_in
from wordpipe.artifacts import Artifact, RemoteOutput, is_artifact, manifest_at
from wordpipe.artifacts import remote as remote_artifacts
from wordpipe.errors import ArtifactError, ConfigError, LockedError, StorageError, WordpipeError
from wordpipe.storage import as_path, buckets, open_bucket, url_of

KILLED = -signal.SIGKILL


@pytest.fixture
def url(bucket) -> str:
    return f"s3://{bucket}/run/corpus"


@pytest.fixture
def folders(tmp_path):
    """Folders with generations of an artifact, by number."""

    def make(generation: int):
        folder = tmp_path / "made" / str(generation) / "corpus"
        folder.parent.mkdir(parents=True, exist_ok=True)
        publish(folder, generation)
        return folder

    return make


def remote(url: str) -> RemoteOutput:
    return RemoteOutput(url_of(url), "corpus")


@pytest.fixture
def exact_clock(monkeypatch):
    """A store whose clock shows in which order objects were written, as no second is long enough in a test."""
    seen, describe = {}, buckets._described

    def described(meta):
        known = describe(meta)
        order = seen.setdefault((known.key, known.e_tag), len(seen))
        return replace(known, modified=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=order))

    monkeypatch.setattr(buckets, "_described", described)


def test_generations_follow_each_other_and_the_last_but_one_stays(url, folders, bucket, exact_clock):
    assert not is_artifact(as_path(url))
    with pytest.raises(ArtifactError, match="the artifact does not exist"):
        Artifact(url)
    for generation in (1, 2, 3):
        remote(url).send(folders(generation))
        assert generation_of(as_path(url)) == generation
        kept = [f"{output.blake3[:16]}/{output.path}" for one in {generation, max(generation - 1, 1)}
                for output in manifest_at(folders(one)).outputs]  # fmt: skip
        assert keys_in(bucket) == sorted(f"run/corpus/{name}" for name in [*kept, "manifest.json"])
    assert manifest_at(url).to_bytes() == manifest_at(folders(3)).to_bytes()


def test_what_two_generations_share_is_sent_once(url, folders, proxy):
    remote(url).send(folders(1))
    proxy.seen.clear()
    remote(url).send(folders(1))
    assert [asked.path.rpartition("/")[2] for asked in proxy.seen if asked.is_write] == ["manifest.json"]


@pytest.mark.parametrize(
    "failpoint", ["remote.before_file", "remote.file_sent", "remote.before_manifest", "remote.after_manifest"]
)
@pytest.mark.parametrize("before", [0, 1])
def test_killed_writers_leave_the_old_or_the_new(url, folders, nursery, failpoint, before, bucket):
    for generation in range(1, before + 1):
        remote(url).send(folders(generation))
    here = environment() | {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}
    new, call = folders(before + 1), "tests.support.object_stores:send"
    for nth in range(1, len(FILES) + 1 if "file" in failpoint else 2):
        killed = nursery.start(call, url, str(new), **here, WORDPIPE_FAILPOINT=f"{failpoint}:kill:{nth}")
        code = killed.wait()
        assert code == KILLED or (nth > 1 and code == 0), killed.err.read_text()  # what was sent is not sent again
        found = generation_of(as_path(url)) if is_artifact(as_path(url)) else 0
        assert found == before + (failpoint == "remote.after_manifest" or code == 0)
    assert nursery.start(call, url, str(new), **here).wait() == 0
    assert generation_of(as_path(url)) == before + 1


def test_a_killed_reader_leaves_nothing_that_another_takes_for_whole(url, folders, nursery, tmp_path):
    remote(url).send(folders(1))
    for failpoint in ("copy.range_written:kill:2", "copy.before_rename:kill"):
        child = nursery.command("show", url, **environment(), WORDPIPE_FAILPOINT=failpoint)
        assert child.wait() == KILLED
    assert generation_of(as_path(url)) == 1


@pytest.mark.parametrize("before", [0, 1])
def test_of_two_writers_the_second_is_refused(url, folders, before):
    if before:
        remote(url).send(folders(1))
    first, second = remote(url), remote(url)
    first.send(folders(2))
    with pytest.raises(LockedError, match="another run wrote an artifact") as caught:
        second.send(folders(3))
    assert str(folders(3)) in caught.value.hint
    assert "wordpipe copy" in caught.value.hint
    assert generation_of(as_path(url)) == 2
    assert generation_of(folders(3)) == 3  # nothing is lost
    remote(url).send(folders(3))
    assert generation_of(as_path(url)) == 3


def test_readers_see_one_generation_while_others_are_published(url, folders, tmp_path, monkeypatch):
    made = [folders(generation) for generation in range(1, 9)]
    remote(url).send(made[0])
    seen, problems, done = [], [], threading.Event()

    def read(number: int) -> None:
        while not done.is_set():
            try:
                seen.append(generation_of(as_path(url)))
            except (WordpipeError, AssertionError) as error:
                problems.append(error)
                return

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    for folder in made[1:]:
        remote(url).send(folder)
    done.set()
    for reader in readers:
        reader.join()
    assert not problems
    assert set(seen) <= set(range(1, 9))
    assert generation_of(as_path(url)) == 8


def test_a_reader_begins_again_where_its_files_are_gone(url, folders, monkeypatch):
    """Two publications come between its manifest and its files."""
    remote(url).send(folders(1))
    fetch, begun = remote_artifacts._fetch, []

    def late(*args):
        if not begun:
            begun.append(True)
            open_bucket(url_of(url).bucket).remove(
                [f"run/corpus/{output.blake3[:16]}/{output.path}" for output in manifest_at(url).outputs]
            )
            remote(url).send(folders(2))
        fetch(*args)

    monkeypatch.setattr(remote_artifacts, "_fetch", late)
    assert generation_of(as_path(url)) == 2


def test_a_part_that_is_gone_or_was_changed_is_named(url, folders, tmp_path, bucket):
    remote(url).send(folders(1))
    parts = [key for key in keys_in(bucket) if not key.endswith("manifest.json")]
    part, opened = random.choice(parts), open_bucket(bucket)
    data = bytearray(opened.read(part)[0])
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    (tmp_path / "part").write_bytes(data)
    opened.upload(part, tmp_path / "part")
    with pytest.raises(ArtifactError, match="differs from its entry in the manifest") as caught:
        Artifact(url)
    assert caught.value.where == f"s3://{bucket}/{part}"
    opened.remove([part])
    with pytest.raises(ArtifactError, match="missing"):
        Artifact(url)


def test_a_damaged_copy_is_fetched_again(url, folders, proxy):
    remote(url).send(folders(1))
    assert generation_of(as_path(url)) == 1
    with Artifact(url) as artifact:
        copy = artifact.folder
    proxy.seen.clear()
    assert generation_of(as_path(url)) == 1
    assert all("manifest.json" in asked.path for asked in proxy.seen)  # what is there is not fetched again
    name = random.choice([*FILES])
    (copy / name).write_bytes(content(name, 1)[::-1])
    assert generation_of(as_path(url)) == 1
    (copy / name).unlink()
    assert generation_of(as_path(url)) == 1


def test_what_may_not_be_replaced(url, folders, bucket, tmp_path):
    opened = open_bucket(bucket)
    opened.write_if("run/corpus/notes.txt", b"mine", None)
    with pytest.raises(StorageError, match=r"notes\.txt"):
        remote(url)
    opened.remove(["run/corpus/notes.txt"])
    opened.write_if("run/corpus/manifest.json", b'{"name": "an extension"}', None)
    with pytest.raises(StorageError, match="wordpipe did not write it"):
        remote(url)
    opened.remove(["run/corpus/manifest.json"])
    remote(url).send(folders(1))
    with pytest.raises(ArtifactError, match="tokens cannot replace an artifact of another kind"):
        RemoteOutput(url_of(url), "tokens")
    with pytest.raises(ConfigError, match="inside another artifact"):
        remote(f"{url}/below")
    with pytest.raises(StorageError, match="already contains other objects"):
        remote(f"s3://{bucket}/run")
    with pytest.raises(ConfigError, match="needs a name"):
        remote(f"s3://{bucket}")


@pytest.mark.parametrize("code", ["QuotaExceeded", "AccessDenied", "InternalError"])
def test_a_store_that_refuses_in_the_middle_leaves_what_was_there(url, folders, proxy, code):
    remote(url).send(folders(1))
    left = [random.randrange(len(FILES) + 1)]

    def rule(asked):
        if not asked.is_write or asked.path.endswith("delete"):
            return None
        left[0] -= 1
        return Answer(500 if code == "InternalError" else 403, code) if left[0] < 0 else None

    proxy.rule = rule
    with pytest.raises(StorageError) as caught:
        remote(url).send(folders(2))
    assert str(folders(2)) in caught.value.hint
    proxy.rule = lambda asked: None
    assert generation_of(as_path(url)) == 1
    remote(url).send(folders(2))
    assert generation_of(as_path(url)) == 2


def test_an_answer_that_was_lost_is_no_other_writer(url, folders, proxy):
    lost = []

    def rule(asked):
        if asked.method == "PUT" and asked.path.endswith("manifest.json") and not lost:
            lost.append(asked)
            return Answer(drop=True, after=True)
        return None

    proxy.rule = rule
    remote(url).send(folders(1))
    assert lost
    assert generation_of(as_path(url)) == 1


def test_at_most_two_copies_are_kept(url, folders, tmp_path):
    for generation in range(1, 5):
        remote(url).send(folders(generation))
        assert generation_of(as_path(url)) == generation
    (home,) = (tmp_path / "cache" / "wordpipe" / "artifacts").iterdir()
    assert len(list(home.iterdir())) == 2
