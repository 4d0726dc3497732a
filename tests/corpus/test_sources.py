"""What the user's words name."""

import io
import os
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from wordpipe.corpus import expand, fingerprint, lines_about_skipped
from wordpipe.errors import InputError, StorageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a few files."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "b.txt",
        "a.md",
        "sub/deep/c.jsonl.gz",
        "sub/d.TSV",
        "sub/.hidden.txt",
        ".git/e.txt",
        "sub/x.dat",
        "README",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(*texts, **settings):
    return [source.name for source in expand(texts, **settings)]


def test_a_folder_gives_its_known_files_sorted_and_counts_the_others(here):
    found = expand(["."])
    assert [(s.name, s.format, s.compression) for s in found] == [
        ("README", "txt", "none"),
        ("a.md", "md", "none"),
        ("b.txt", "txt", "none"),
        ("sub/d.TSV", "tsv", "none"),
        ("sub/deep/c.jsonl.gz", "jsonl", "gz"),
    ]
    assert found.skipped == {".dat": 1, "hidden": 2}
    assert found.bytes == sum(len(s.name) for s in found)
    assert found[1].name == "a.md"
    assert len(found[1:]) == 4


def test_a_named_format_takes_every_file_of_a_folder(here):
    found = expand(["sub"], read_as="txt")
    assert [(s.name, s.format) for s in found] == [
        ("sub/d.TSV", "txt"),
        ("sub/deep/c.jsonl.gz", "txt"),
        ("sub/x.dat", "txt"),
    ]


def test_the_order_of_the_words_does_not_matter_and_a_file_counts_once(here):
    assert names("b.txt", "a.md") == names("a.md", "b.txt", "./b.txt", str(here / "b.txt")) == ["a.md", "b.txt"]
    found = expand([".", "b.txt"])
    assert found.skipped["named twice"] == 1
    assert next(iter(lines_about_skipped(found.skipped, found.examples))) == "1 file named twice, and read once"


@pytest.mark.parametrize("named", [["sub", "sub/x.k1"], ["sub/x.k1", "sub"]])
def test_a_file_beside_its_folder_is_not_passed_over_and_all_kinds_are_named(here, named):
    for n in range(9):
        (here / f"sub/x.k{n}").write_text("words")
    (here / "sub/x.dat").unlink()
    found = expand(named)
    assert "sub/x.k1" in [source.name for source in found]
    (line,) = lines_about_skipped(found.skipped, found.examples)
    assert line.startswith("9 files passed over: 1 .k0, 1 .k2, 1 .k3, 1 .k4, 1 .k5, 1 .k6, 3 others (.k7, .k8, hidden)")


def test_globs_are_expanded_and_a_file_of_that_very_name_comes_first(here):
    assert names("*.txt") == ["b.txt"]
    assert names("sub/**/*.gz") == ["sub/deep/c.jsonl.gz"]
    Path("[b].txt").write_text("x")
    assert names("[b].txt") == ["[b].txt"]


def test_a_named_file_of_unknown_ending_is_text(here):
    assert [(s.name, s.format) for s in expand(["README", "sub/x.dat"])] == [
        ("README", "txt"),
        ("sub/x.dat", "txt"),
    ]


def test_names_are_relative_below_the_working_folder_and_else_as_given(here, monkeypatch):
    assert names(str(here / "b.txt")) == ["b.txt"]
    monkeypatch.chdir(here / "sub")
    assert names("../b.txt") == ["../b.txt"]
    assert names(str(here / "b.txt")) == ["b.txt"]  # of an absolute path elsewhere nothing above it is shown
    shown = names(str(here))  # the working folder lies in it
    assert shown == ["d.TSV", "deep/c.jsonl.gz", f"{here.name}/README", f"{here.name}/a.md", f"{here.name}/b.txt"]


def test_absolute_inputs_that_are_called_the_same_are_told_apart(here, monkeypatch):
    for folder in ("one/in", "two/in"):
        (here / "apart" / folder).mkdir(parents=True)
        (here / "apart" / folder / "x.txt").write_text(folder)
    (here / "work").mkdir()
    (here / "work" / "x.txt").write_text("near")
    monkeypatch.chdir(here / "work")
    apart = here / "apart"
    assert names(str(apart / "one/in"), str(apart / "two/in")) == ["one/in/x.txt", "two/in/x.txt"]
    assert names(str(apart / "one/in/x.txt"), str(apart / "two/in/x.txt")) == ["one/in/x.txt", "two/in/x.txt"]
    assert names(str(apart / "one/in/x.txt"), "x.txt") == ["in/x.txt", "x.txt"]
    assert names(f"{apart}/*/in/*.txt") == ["one/in/x.txt", "two/in/x.txt"]
    assert names(str(apart)) == ["apart/one/in/x.txt", "apart/two/in/x.txt"]


def test_a_name_that_is_no_utf8_can_be_shown(here):
    try:
        Path(os.fsdecode(b"bad\xff.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    assert "bad\ufffd.txt" in names(".")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("b.text", "the file or folder does not exist", "did you mean b.txt?"),
        ("*.pdf", "no file matches", None),
        ("nothing", "no text to read; got only skipped files (1 .png)", None),
        ("page.svg", "wordpipe cannot read .svg files", "--format txt"),
        ("all.7z", "wordpipe cannot read .7z files", "unpack"),
        ("lost.txt", "the link points to a file that does not exist", None),
        ("/dev/null", "not a file, a folder or a pipe", None),
        ("python:no_such_package", "no Python source code of this package was found", "pip install no_such_package"),
        ("python:", "no Python source code of this package was found", None),
        ("python:../x", "no Python source code of this package was found", None),
        ("python:_struct", "no Python source code of this package was found", None),  # compiled
        ("", "the file or folder does not exist", None),
    ],
)
def test_what_cannot_be_read_is_named(here, text, message, hint):
    for name in ("nothing/a.png", "page.svg", "all.7z"):
        path = here / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (here / "lost.txt").symlink_to("nowhere")
    with pytest.raises(InputError) as caught:
        expand([text])
    assert message in str(caught.value)
    assert hint is None or hint in caught.value.hint


def test_links_to_folders_and_special_files_of_a_folder_are_skipped(here):
    (here / "loop").symlink_to(here)
    (here / "lost.txt").symlink_to("nowhere")
    os.mkfifo(here / "pipe.txt")
    skipped = expand(["."]).skipped
    assert (skipped["link to a folder"], skipped["not a file"], skipped["broken link"]) == (1, 1, 1)


def read_all(text):
    for source in expand([text]):
        with source.open() as file:
            file.read()


@pytest.mark.parametrize("target", ["secret.txt", "locked", "."])
def test_no_permission_is_a_storage_error(here, target):
    (here / "secret.txt").write_text("x")
    (here / "secret.txt").chmod(0)
    (here / "locked").mkdir()
    (here / "locked").chmod(0)
    here.chmod(0o755)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # permissions do not bind root
    try:
        with pytest.raises(StorageError, match=r"permission|cannot be read"):
            read_all(target)
    finally:
        os.seteuid(user)
        (here / "locked").chmod(0o755)


def test_a_file_that_went_away_is_an_input_error(here):
    (source,) = expand(["b.txt"])
    Path("b.txt").unlink()
    with pytest.raises(InputError, match=r"b\.txt: the file no longer exists"), source.open():
        pass


def test_fingerprints_of_files_are_their_hashes(here):
    entries = fingerprint(expand(["a.md", "b.txt"]), lambda path: blake3(path.read_bytes()).hexdigest())
    assert entries == [
        {"name": name, "bytes": len(name), "blake3": blake3(name.encode()).hexdigest()} for name in ("a.md", "b.txt")
    ]


def test_the_fingerprint_of_a_package_changes_with_any_of_its_files(here, monkeypatch):
    package = here / "lib" / "fingerprinted"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text('"""Top."""')
    (package / "sub" / "part.py").write_text("x = 1")
    monkeypatch.syspath_prepend(here / "lib")

    def entry():
        return fingerprint(expand(["python:fingerprinted"]), lambda path: blake3(path.read_bytes()).hexdigest())[0]

    first = entry()
    assert (first["name"], first["bytes"]) == ("python:fingerprinted", 15)
    (package / "sub" / "part.py").write_text("x = 2")
    second = entry()
    (package / "sub" / "part.py").rename(package / "sub" / "other.py")
    assert len({first["blake3"], second["blake3"], entry()["blake3"]}) == 3


def test_standard_input_is_one_stream_and_must_be_read_before_its_fingerprint(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text")))
    found = expand(["-", "-"])
    assert [(s.name, s.kind, s.compression) for s in found] == [("-", "stream", "auto")]
    with pytest.raises(AssertionError, match="before it is read to the end"):
        fingerprint(found, str)
    with found[0].open() as file:
        assert file.read() == b"text"


def test_without_standard_input_there_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is not available"), expand(["-"])[0].open():
        pass


def test_a_package_imports_nothing(here, monkeypatch):
    package = here / "lib" / "canary_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(here / "lib")
    assert names("python:canary_package") == ["python:canary_package"]
    assert "canary_package" not in sys.modules
