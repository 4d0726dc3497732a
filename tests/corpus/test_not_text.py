"""What holds no text is known by its first bytes, with a way to read it; no text is taken for it; folders pass it over."""

import gzip
import json
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import NOT_READ, READERS, Ingest, expand, in_pieces, looks_like, not_text, way_to_read
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "code", "source": ["1"], "outputs": []}], "nbformat": 4, "metadata": {}}
).encode()
BASE64 = b"\n".join([b"TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24sIGJ1dCBieSB0"] * 4)
KIND = {one.name: one for one in (READERS["parquet"], *NOT_READ)}
KINDS = {
    "RTF": rb"{\rtf1\ansi Hay is dry.}",
    "PostScript": b"%!PS-Adobe-3.0\n%%Title: x\n",
    "SVG": b'<?xml version="1.0"?>\n<!-- made -->\n<svg xmlns="http://www.w3.org/2000/svg"><text>x</text></svg>',
    "XML": b'<?xml version="1.0"?><book><p>x</p></book>',
    "Word": b"PK\x03\x04\x14\0\x06\0" + bytes(20) + b"[Content_Types].xml" + bytes(30) + b"word/document.xml",
    "spreadsheet": b"PK\x03\x04\x14\0\x06\0" + bytes(20) + b"xl/workbook.xml",
    "EPUB": b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/epub+zip",
    "zip": b"PK\x03\x04" + bytes(26) + b"notes.txt",
    "tar without its ending": b"notes.txt".ljust(257, b"\0") + b"ustar",
    "SQLite": b"SQLite format 3\0" + bytes(100),
    "DjVu": b"AT&TFORM\0\0\0\1DJVU",
    "pickle": b"\x80\x04\x95\x0b\0\0\0",
    "old Office": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "picture": b"\x89PNG\r\n\x1a\n",
    "vCard or iCalendar": b"BEGIN:VCARD\r\nVERSION:4.0\r\nFN:X\r\n",
    "uuencode": b"begin 644 x.bin\n#0V%T\n`\nend\n",
    "base64": BASE64,
    "PEM": b"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n",
    "Parquet": b"PAR1" + bytes(9),
    "gz compression": gzip.compress(b"text"),
    "binary": b"\x7fELF\x02\x01\x01" + bytes(50),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_looks_like_is_said_with_a_way_to_read_it(kind):
    found = not_text(KINDS[kind], "my file.txt")
    assert found is not None
    assert found.kind == kind
    assert "--format txt" in found.hint
    assert "FILE" not in found.hint
    assert "STEM" not in found.hint
    assert not_text(KINDS[kind], "x", as_it_is=True) is None


def test_other_beginnings_of_mail():
    for head in (
        b"From joe@example.org Mon May  1 10:00:00 2023\nSubject: x\n\nHay.\n",
        b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n",
    ):
        assert looks_like(head, IngestSettings()) == "mail"
    page = b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://x\r\nMIME-Version: 1.0\r\n\r\n"
    assert not_text(page, "x", is_plain=False).kind == "web archive"


@pytest.mark.parametrize(
    "head",
    [
        b"", b"\0", b"text\twith\x1b[0m colours\f\r\n", "Grüße 你好".encode(), b"caf\xe9", b"x" * 200 + b"\0",
        b"Call.\r\n\x1a",
        b"Call.\r\n" + b"\x1a" * 120, b"a\0", b"text" * 10 + b"a\0", b"one\0two\0three\0", b"\x02bold\x02 words in a chat",
        b"From: me\nTo: you\nSubject: hay\n\nIt is dry.\n", b"From there to here it is a long way in 2023\nsaid she.\n",
        b"Note: x\nDate: y\n\nwords", b"begin the day with tea\n", b"{\\it sloping} words", b"<p>a</p>",
        b'{"cells": 3, "text": "x"}',
        b"ACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTAC\n" * 5,
        b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: X\n\nwords",
        b"<?xml version='1.0'?>\n<!DOCTYPE html><html><p>x", b"BEGIN:\n", b"PK is a name", b"%!Perl", b"word " * 40,
    ],
)  # fmt: skip
def test_text_is_text(head):
    assert not_text(head, "f.txt") is None


WIDE = ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"]
TEXTS = [
    "The mill stands still.\nNo wind.\n", "Мельница стоит. Ветра нет.\n", "Ο μύλος στέκεται. Δεν φυσά.\n",
    "風車は止まっている。風がない。\n2",
    "风车停了。没有风。\r\n", "טחנת הרוח עומדת.\n", "풍차가 멈췄다. 바람이 없다.\n", "ab",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("encoding", WIDE)
def test_wide_encodings_are_named_with_and_without_a_mark(encoding, text):
    assert not_text(text.encode(encoding), "x").kind == encoding
    assert not_text((text * 900).encode(encoding), "x", as_it_is=True).kind == encoding
    assert not_text(f"\ufeff{text}".encode(encoding), "x").kind == encoding[:6]


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]) | st.sampled_from("\n\t ab"), max_size=80),
    st.integers(0, 9),
)
def test_utf_8_is_never_taken_for_a_wide_encoding(text, at):
    data = text.encode()
    assert not_text(data, "x", as_it_is=True) is None
    assert not_text(f"{text[:at]}\0{text[at:]}".encode(), "x", as_it_is=True) is None


@pytest.mark.skipif(shutil.which("iconv") is None, reason="iconv is not here")
@pytest.mark.parametrize(
    ("name", "packed"), [("my notes.txt", ""), ("a.b/table.csv", ""), ("notes.md", ".gz"), ("plain", "")]
)
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-32BE"])
def test_the_command_of_the_hint_makes_text_of_it(tmp_path, monkeypatch, name, packed, encoding):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.b").mkdir()
    text = "id,text\n1,The mill stands still.\n"
    data = text.encode(encoding)
    (tmp_path / f"{name}{packed}").write_bytes(gzip.compress(data) if packed else data)
    found = not_text(data, f"{name}{packed}")
    assert "UTF-8; got UTF-" in str(found.error(name))
    command = found.hint.removeprefix("convert the file to UTF-8 first: ")
    subprocess.run(["bash", "-c", command], check=True, timeout=60)
    made = shlex.split(command)[-1]
    assert (tmp_path / made).read_text() == text
    assert read(made).counts["documents_kept"] == 1


def read(*texts, **settings):
    settings = IngestSettings(**settings)
    ingest = Ingest(expand(texts, read_as=settings.format), settings)
    ingest.rows_read = [row for batch in ingest.batches() for row in batch.to_pylist()]
    return ingest


@pytest.mark.parametrize("kind", ["base64", "SVG", "binary"])
def test_it_is_refused_where_it_is_named_and_passed_over_in_a_folder(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "good.txt").write_text("Some words.")
    (tmp_path / "f" / "odd.txt").write_bytes(KINDS[kind])
    for texts in (["f"], ["f/*.txt"]):
        found = read(*texts)
        assert [row["text"] for row in found.rows_read] == ["Some words."]
        assert found.counts[f"files_not_text.{kind}"] == 1
        assert f"1 {kind}; the first one is f/odd.txt" in "".join(found.warnings)
        assert any("f/odd.txt" in note for note in found.notes)
    for texts in (["f/odd.txt"], ["f", "f/odd.txt"]):
        with pytest.raises(InputError, match=r"f/odd\.txt"):
            read(*texts)
    if kind == "base64":
        assert "TWFu" in read("f/odd.txt", format="txt").rows_read[0]["text"]
    (tmp_path / "f" / "good.txt").unlink()
    with pytest.raises(InputError, match="no source contains any text") as caught:
        read("f")
    assert "f/odd.txt" in caught.value.hint


def test_a_large_file_that_is_no_text_has_no_pieces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "big.txt").write_bytes("Lines.\n".encode("utf-16-le") * 1000)
    settings = IngestSettings(documents="line")
    assert len(in_pieces(expand(["f"]), settings, 1000)) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a b.djvu", "djvutxt 'a b.djvu' 'a b.txt'"),
        ("x.ics", "--format txt"),
        ("x.sqlite", "sqlite3 -header -csv x.sqlite"),
    ],
)  # fmt: skip
def test_an_ending_says_what_to_do(tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match="wordpipe cannot read") as caught:
        expand([name])
    assert said in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name", "written"),
    [
        ("DjVu", "b.txt", "b.converted.txt"), ("picture", "c.txt", "c.converted"),
        ("PostScript", "d.d/e.txt", "d.d/e.converted.txt"), ("DjVu", "e.txt.gz", "e.txt.txt"), ("picture", "f.png", "f"),
    ],
)  # fmt: skip
def test_what_turns_a_file_into_text_writes_another(kind, name, written):
    assert way_to_read(KIND[kind], name).endswith(f" {written}")


def test_a_notebook_of_another_name_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("plan.txt", "plan", "plan.ipynb"):
        (tmp_path / name).write_bytes(NOTEBOOK)
        (row,) = read(name).rows_read
        assert (row["text"], row["cell"]) == ("1", 1)


def test_what_is_left_out_of_a_folder_is_named_with_ways_to_read_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f" / "sub").mkdir(parents=True)
    for name in ("README", "sub/NEWS", "a.py", "b.djvu", "ok.txt"):
        (tmp_path / "f" / name).write_text(f"Words of {name}.")
    found = read("f")
    counted = "2 files passed over: 1 .djvu, 1 .py; to read the text files among them: --include '*.py'"
    assert found.notes[0] == counted
    assert found.counts["documents_kept"] == 3
    assert read("f", "f/**/*.py").counts["documents_kept"] == 4
    assert found.notes[1] == "DjVu: convert the file to text first: djvutxt f/b.djvu f/b.txt"


def test_pages_without_an_ending_are_read_as_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "<!DOCTYPE html>\n<title>Mill</title><p>It stands <b>still</b>."
    (tmp_path / "page").write_text(page)
    (tmp_path / "page.txt").write_text(page)
    assert [row["text"] for row in read("page").rows_read] == ["It stands still."]
    assert "--format html" in "".join(read("page.txt").warnings)


@pytest.mark.parametrize("name", ["a b.txt", "x.csv", "x.md", "d.d/x.pdf"])
def test_programs_that_choose_the_name_write_elsewhere(name):
    """A document called .txt would be written over."""
    assert shlex.split(way_to_read(KIND["old Office"], name))[-1] == "converted"


def test_every_kind_has_a_way():
    for kind in NOT_READ:
        assert way_to_read(kind, "dir.d/x")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "one", [" ", "\n", "\t", "% a\n", "%", "<", "-", "#", "|", ",", '"', "{", "[", ".", "' ", "\r\n  ", "= "]
)
def test_no_look_at_the_beginning_of_a_file_takes_long(tmp_path, one):
    """Leading white space once made the look for LaTeX take hours."""
    (tmp_path / "README").write_text(one * (20_000 // len(one)) + "\nThe tide turns at noon.\n")
    assert sum(1 for _ in Ingest(expand([str(tmp_path)]), IngestSettings()).batches()) > 0
