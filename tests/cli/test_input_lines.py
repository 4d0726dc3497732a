"""Lines of queries from files and pipes: with marks of their begin, too long, without an end."""

import io
import json
import subprocess
import sys

import pytest

from wordpipe.cli import input_lines as command
from wordpipe.cli.input_lines import batches, bounded_lines
from wordpipe.errors import InputError


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["where do bees go\nand when\n", "wie hoch ist die Flut?", "2024 年 どこに行くの\n"])
def test_questions_in_wide_encodings_are_refused(encoding, text):
    data = text.encode(encoding)
    file = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    with pytest.raises(InputError, match=r"UTF-(16|32)") as caught:
        list(bounded_lines(file, "questions.txt"))
    assert caught.value.hint.startswith("convert the text with: iconv -f UTF-")


def test_the_mark_of_a_files_begin_is_no_part_of_a_query(built, cli, tmp_path):
    (tmp_path / "queries").write_bytes(b"\xef\xbb\xbfwater\nsalt\n")
    asked = ("query", built / "words", "-k", "1", "--json")
    found = cli(*asked, "--queries", tmp_path / "queries")
    assert [json.loads(line)["query"] for line in found.out.splitlines()] == ["water", "water", "salt", "salt"]
    piped = subprocess.run(
        [sys.executable, "-m", "wordpipe", *map(str, asked)], input=(tmp_path / "queries").read_bytes(),
        capture_output=True, check=True,
    )  # fmt: skip
    assert piped.stdout.decode() == found.out


LATIN = b"water\nsalt caf\xe9\n\n\xff\xfe\xe2\x82 salt\n"


def test_bytes_that_are_no_utf_8_are_replaced_and_said(built, cli, tmp_path):
    """Of a file and of a pipe, as other programs replace them; how many lines had some, and the first of them."""
    (tmp_path / "queries").write_bytes(LATIN)
    asked = ("query", built / "words", "-k", "1", "--json")
    found = cli(*asked, "--queries", tmp_path / "queries")
    queries = dict.fromkeys(json.loads(line)["query"] for line in found.out.splitlines())
    assert [*queries] == ["water", "salt caf\ufffd", "", "\ufffd\ufffd\ufffd salt"]
    said = "invalid UTF-8 was replaced by U+FFFD in 2 lines (the first is line 2) of {}\n"
    assert said.format(tmp_path / "queries") in found.err
    assert cli(*asked, "--queries", tmp_path / "queries", "-q").err == ""
    piped = subprocess.run(
        [sys.executable, "-m", "wordpipe", *map(str, asked)], input=LATIN, capture_output=True, check=True
    )
    assert piped.stdout.decode() == found.out
    assert said.format("standard input") in piped.stderr.decode()
    (tmp_path / "queries").write_bytes(b"\xef\xbb\xbfsalt \xe9")
    assert f"by U+FFFD in line 1 of {tmp_path / 'queries'}\n" in cli(*asked, "--queries", tmp_path / "queries").err
    (tmp_path / "queries").write_text("salt \ufffd ð é\n")
    assert "UTF-8" not in cli(*asked, "--queries", tmp_path / "queries").err


def test_standard_input_that_was_read_before_is_read_on(built, monkeypatch, cli, tmp_path):
    (tmp_path / "lines").write_bytes(b"first\nwater\nsalt\n")
    with (tmp_path / "lines").open(encoding="utf-8") as stdin:
        assert next(stdin) == "first\n"
        monkeypatch.setattr(sys, "stdin", stdin)
        found = cli("query", built / "words", "-k", "1", "--json")
        assert found.code == 0, found.err
        assert [json.loads(line)["query"] for line in found.out.splitlines()] == ["water", "water", "salt", "salt"]
        listed = cli("query", built / "index", "--where", "line > 0", "-k", "1")  # nothing is left to be read
        assert (listed.code, listed.out != "") == (0, True), listed.err


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(command, "_LONGEST", 10)
    monkeypatch.setattr(command, "_ENDLESS", 100)


@pytest.mark.parametrize("length", range(5, 45))
def test_a_line_that_is_too_long_is_left_out_and_named(short, capfd, length):
    lines = list(bounded_lines(io.StringIO(f"a\n{'x' * length}\nb\n"), "queries"))
    long = length > 10
    assert lines == ["a\n", "\n" if long else "x" * length + "\n", "b\n"]
    assert capfd.readouterr().err == (
        "" if not long else "skipped line 2 of queries, because it has more than 10 characters\n"
    )


def test_the_last_line_may_have_no_end(short):
    assert list(bounded_lines(io.StringIO("a\nxyz"), "queries")) == ["a\n", "xyz"]
    assert list(bounded_lines(io.StringIO("a\n" + "x" * 10), "queries")) == ["a\n", "x" * 10]


def test_a_line_that_does_not_end_is_refused(short, cli, built, monkeypatch):
    with pytest.raises(
        InputError, match="queries, line 1: no end of this line was found; got more than 100 characters"
    ):
        list(bounded_lines(io.StringIO("x" * 300), "queries"))
    found = cli("query", built / "words", "--queries", "/dev/zero")
    assert found.code == 3
    assert "/dev/zero, line 1: no end of this line was found" in found.err
    assert cli("query", built / "words", "--queries", "/tmp").err.startswith("wordpipe: error: /tmp: this is a folder")


def test_long_lines_are_asked_a_few_at_a_time(short):
    assert list(batches(["123456"] * 5, 4, lambda: True)) == [["123456"] * 2, ["123456"] * 2, ["123456"]]


LINES = b"\xef\xbb\xbfthe sea\r\n\r\n \t\nb\x00es\rand honey\n\xff\xe9\nlast"
READ = ["the sea", "", "", "b\x00es\rand honey", "\ufffd\ufffd", "last"]


@pytest.mark.parametrize("place", ["file", "pipe"])
@pytest.mark.parametrize("artifact", ["index", "words"])
def test_every_line_has_its_answer(built, cli, tmp_path, artifact, place):
    """Blank ones, ones with Windows' ends, with NUL or a carriage return, undecodable ones, and the last without an end."""
    (tmp_path / "lines").write_bytes(LINES)
    more = ["--queries", tmp_path / "lines"] if place == "file" else []
    asked = ("query", built / artifact, "-k", "1", "-q", *more)
    found = run_with(cli, LINES, *asked, "--json")
    assert [line["query"] for line in map(json.loads, found.out.splitlines()) if "hits" in line] == READ
    one = [" ".join(line.replace("\x00", r"\x00").split()) for line in READ]
    table = run_with(cli, LINES, *asked, "--format", "tsv").out.splitlines()
    assert [line.split("\t")[0] for line in table] == one
    plain = run_with(cli, LINES, *asked, "--format", "plain").out.splitlines()
    assert [line for line in plain if line.startswith("# ")] == [f"# {line}" for line in one]


def run_with(cli, lines, *arguments):
    return cli(*arguments, piped=lines.decode("utf-8", "surrogateescape"))


def test_lines_that_are_all_blank_are_answered_and_end_with_1(built, cli):
    found = cli("query", built / "index", "--json", piped="\n \n")
    assert (found.code, found.out) == (1, '{"query": "", "hits": 0}\n' * 2)


@pytest.mark.slow
def test_a_program_that_asks_line_by_line_never_waits(built):
    """The next line is written once the one before is answered."""
    commands = {
        "query": (["query", built / "index", "--json", "-k", "1", "-q"], '"hits"'),
        "fill": (["fill", built / "model", "--json", "--top-k", "1", "-q"], '"text"'),
    }
    for words, end in commands.values():
        with subprocess.Popen(
            [sys.executable, "-m", "wordpipe", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as asked:  # fmt: skip
            for line in (b"the [MASK]\n", b"\n", b"no mask\r\n", b"\xff\n"):
                asked.stdin.write(line)
                asked.stdin.flush()
                while end not in (said := asked.stdout.readline().decode()):
                    assert said
            asked.stdin.close()
            assert asked.wait(60) == 0
