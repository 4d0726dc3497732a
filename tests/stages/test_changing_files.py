"""Files of other programs that somebody writes to while a stage reads them: refused."""

import os
import shutil

import pytest

import wordpipe
import wordpipe.stages.corpus.tokenize
import wordpipe.stages.import_export
from wordpipe.errors import InputError, StorageError
from wordpipe.stages import file_entry, inputs, model_entry, vectors_entry


class Job:
    """What `reading` needs of one."""

    def __init__(self):
        self.inputs = []


def append(path):
    with path.open("a") as file:
        file.write(" ")


def rewrite(path):
    """The same bytes in number, and the same time of change."""
    before = path.stat()
    path.write_bytes(bytes(len(path.read_bytes())))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path):
    path.with_suffix(".new").write_text("another one\n")
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("change", [append, rewrite, replace])
@pytest.mark.parametrize(
    ("entry", "name"), [(file_entry, "a.txt"), (vectors_entry, "a.txt"), (model_entry, "config.json")]
)
def test_what_changes_while_it_is_read_is_refused(tmp_path, entry, name, change):
    (tmp_path / name).write_text("water 1 2\n")
    (tmp_path / "model.safetensors").write_text("weights")
    named, job = (tmp_path if entry is model_entry else tmp_path / name), Job()
    with (
        pytest.raises(StorageError, match="changed while it was read") as caught,
        inputs.reading(job, entry, named),
    ):
        change(tmp_path / name)
    assert (caught.value.exit_code, str(caught.value.where)) == (5, str(named))


def test_what_stays_or_is_removed_afterwards_is_recorded(tmp_path):
    job = Job()
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{name} 1\n")
        with inputs.reading(job, file_entry, tmp_path / name):
            if name == "b.txt":
                (tmp_path / name).unlink()
    assert [one.path for one in job.inputs] == ["a.txt", "b.txt"]
    with pytest.raises(InputError), inputs.reading(job, file_entry, tmp_path / "c.txt"):
        raise AssertionError("nothing to read")


def test_an_import_of_a_file_that_changes_makes_nothing(tmp_path, monkeypatch):
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"word{number} 1 {number}\n" for number in range(9)))
    opened = wordpipe.stages.import_export._open

    def open_and_write(*arguments):
        found = opened(*arguments)
        append(file)
        return found

    monkeypatch.setattr("wordpipe.stages.import_export._open", open_and_write)
    with pytest.raises(StorageError, match="changed while it was read"):
        wordpipe.import_words(file, output=tmp_path / "words")
    assert [one.name for one in tmp_path.iterdir() if one.name != ".words.lock"] == ["vectors.txt"]


def test_a_tokenizer_that_changes_makes_nothing(built, tmp_path, monkeypatch):
    shutil.copy(built / "tokens" / "tokenizer.json", tmp_path / "tokenizer.json")
    read = wordpipe.stages.corpus.tokenize.read_tokenizer

    def read_and_write(path):
        found = read(path)
        append(tmp_path / "tokenizer.json")
        return found

    monkeypatch.setattr("wordpipe.stages.corpus.tokenize.read_tokenizer", read_and_write)
    with pytest.raises(StorageError, match="changed while it was read"):
        wordpipe.tokenize(built / "corpus", output=tmp_path / "tokens", tokenizer=tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokens").exists()
