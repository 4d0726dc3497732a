"""Office documents and books: what is read in files that real programs made, what is left out, and what is refused."""

import gzip
import io
import lzma
import random
import zipfile
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN, assert_read_as_expected, golden_files, parts_left_out, read
from wordpipe.errors import InputError

OFFICE = GOLDEN / "office"
EACH = pytest.mark.parametrize("path", golden_files("office"), ids=lambda path: path.name)


def again(path: Path, to: Path, **parts: str | bytes | None) -> Path:
    """A copy of a zip file in which some parts are others, or not there."""
    target = to / path.name
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name not in parts:
                new.writestr(name, old.read(name))
        for name, data in parts.items():
            if data is not None:
                new.writestr(name, data)
    return target


@EACH
def test_what_a_person_reads_is_read(path):
    found, ingest = assert_read_as_expected(path)
    assert ingest.counts["documents_kept"] == len(found)


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("tracked.docx", {"comments": 1, "deleted text": 2}),
        (
            "well.docx",
            {"comments": 1, "deleted text": 1, "hidden text": 1, "tables of contents": 1, "headers and footers": 2},
        ),
        ("well.odt", {"comments": 1, "deleted text": 1, "hidden text": 1, "tables of contents": 1}),
        ("bees.pptx", {"hidden slides": 1}),
        ("bees.odp", {"hidden slides": 1}),
        (
            "well.rtf",
            {"comments": 1, "deleted text": 1, "hidden text": 1, "tables of contents": 1, "headers and footers": 4},
        ),
        ("kiln3.epub", {}),
        ("minutes.docx", {"headers and footers": 2}),
        ("lamps.pptx", {"hidden slides": 1}),
        ("lamps.odp", {"hidden slides": 1, "dates, numbers and footers of slides": 1}),
        ("tides.xlsx", {"hidden sheets": 1, "hidden rows": 1}),
        ("tides-gnumeric.xlsx", {"hidden rows": 1}),
        ("tides-gnumeric.ods", {"hidden sheets": 1, "hidden rows": 1}),
    ],
)
def test_what_is_left_out_is_counted(name, left_out):
    _, ingest = read(OFFICE / name)
    assert parts_left_out(ingest) == left_out


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("locked.docx", "has a password"),
        ("locked.xlsx", "has a password"),
        ("cut.docx", "the file is damaged"),
        ("empty.odt", "the file is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(name, what):
    with pytest.raises(InputError, match=f"{name}: .*{what}"):
        read(OFFICE / name)


def test_files_are_known_without_an_ending_and_unpacked_where_they_are_compressed(tmp_path):
    (tmp_path / "minutes").write_bytes((OFFICE / "minutes.docx").read_bytes())
    (tmp_path / "tides").write_bytes((OFFICE / "tides.xlsx").read_bytes())
    (tmp_path / "lighthouse").write_bytes((GOLDEN / "pdf" / "lighthouse.pdf").read_bytes())
    (tmp_path / "handbook.pdf.gz").write_bytes(gzip.compress((GOLDEN / "pdf" / "handbook.pdf").read_bytes()))
    (tmp_path / "cjk.odt.xz").write_bytes(lzma.compress((OFFICE / "cjk.odt").read_bytes()))
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    (tmp_path / "notes.gz").write_bytes(gzip.compress(b"Plain words.\n"))
    found, _ = read(tmp_path)
    names = {one.columns["source"].rpartition("/")[2] for one in found}
    assert names == {"minutes", "tides", "lighthouse", "handbook.pdf.gz", "cjk.odt.xz", "notes.gz"}
    (first, *_), _ = read(tmp_path / "lighthouse")
    assert (first.title, first.columns["page"]) == ("The Lighthouse › Fires", 1)


@pytest.mark.parametrize(
    "path",
    [path for path in golden_files("office") if not path.stem.startswith(("costs", "tides"))],
    ids=lambda path: path.name,
)
def test_as_one_document_it_has_all_of_its_text(path):
    sections, _ = read(path)
    (whole,), _ = read(path, documents="file")
    assert [word for one in sections for word in one.text.split() if word not in whole.text.split()] == []


def test_a_long_document_is_parted_as_it_is_read(tmp_path):
    """Text below one heading is not held as a whole."""
    body = "".join(f"<w:p><w:r><w:t>Sentence {number} of many.</w:t></w:r></w:p>" for number in range(100_000))
    names = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    path = again(OFFICE / "kiln.docx", tmp_path, **{"word/document.xml": f"<w:document {names}>{body}</w:document>"})
    found, _ = read(path, max_document_bytes=1 << 20)
    assert len(found) > 1
    assert sum(one.text.count("Sentence") for one in found) == 100_000


@pytest.mark.parametrize(
    ("xml", "what"),
    [
        ('<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;">]><a>&y;</a>', "declares XML entities"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares XML entities"),
        ("<a>" * 5000 + "</a>" * 5000, "nested too deeply"),
        ("<a><b></a>", "the file is damaged"),
        ("", "the file is damaged"),
    ],
)
@pytest.mark.parametrize(("name", "inner"), [("kiln.docx", "word/document.xml"), ("kiln.odt", "content.xml")])
def test_xml_that_grows_or_names_files_is_refused(name, inner, xml, what, tmp_path):
    with pytest.raises(InputError, match=what):
        read(again(OFFICE / name, tmp_path, **{inner: xml}))


def test_a_bomb_is_refused_while_it_grows(tmp_path):
    names = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    bomb = f"<w:document {names}>{' ' * (100 << 20)}</w:document>"
    with pytest.raises(InputError, match="looks like a decompression bomb"):
        read(again(OFFICE / "kiln.docx", tmp_path, **{"word/document.xml": bomb}))


@pytest.mark.parametrize(
    ("name", "changed", "what"),
    [
        ("kiln.docx", {"word/document.xml": None}, "contains no Word document"),
        ("kiln.odt", {"content.xml": None}, "contains no OpenDocument text"),
        ("bees.pptx", {"ppt/presentation.xml": None}, "contains no presentation"),
        ("kiln3.epub", {"META-INF/container.xml": None}, "contains no book"),
        ("kiln.odt", {"META-INF/manifest.xml": "<a><encryption-data/></a>"}, "the file has a password"),
        (
            "kiln3.epub",
            {"META-INF/encryption.xml": '<a xmlns="urn:e"><CipherReference URI="EPUB/text/ch001.xhtml"/></a>'},
            "the book is encrypted",
        ),
    ],
)
def test_what_is_none_or_is_locked_is_refused(name, changed, what, tmp_path):
    with pytest.raises(InputError, match=what):
        read(again(OFFICE / name, tmp_path, **changed))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xd0\xcf\x11\xe0" + bytes(600), "has a password, or it is in the format of an old Office program"),
        (b"no zip file at all", "the file is damaged"),
        (b"PK\x05\x06" + bytes(8) + b"\xff\xff\xff\xff" + bytes(6), "too many parts"),
    ],
)
def test_what_is_no_package_is_refused(data, what, tmp_path):
    (tmp_path / "a.docx").write_bytes(data)
    with pytest.raises(InputError, match=what):
        read(tmp_path / "a.docx")


def test_a_page_of_a_book_without_headings_is_called_as_the_contents_call_it(tmp_path):
    """A page with neither goes on with the chapter before; the tags of XHTML that close themselves hold nothing."""
    page = "<html><head><title/></head><body><a id='x'/>{}</body></html>"
    book = {
        "EPUB/text/ch001.xhtml": page.format("<p>One of the first page.</p>"),
        "EPUB/text/ch002.xhtml": page.format("<p/><p>A second page.<sup><a href='#n'>1</a></sup></p>").replace(
            "'", '"'
        ),
    }
    path = OFFICE / "kiln2.epub"
    found, _ = read(again(path, tmp_path, **book))
    texts = {one.text: (one.title, one.columns["chapter"]) for one in found}
    assert texts["A second page.[1]"] == ("Manual of the Kiln › First firing", "First firing")
    title, chapter = texts["One of the first page."]
    assert (title, chapter) == ("Manual of the Kiln", "Manual of the Kiln")


def test_the_first_row_of_a_table_of_impress_names_the_columns_where_it_is_set_off(tmp_path):
    with zipfile.ZipFile(OFFICE / "lamps.odp") as deck:
        content = deck.read("content.xml").decode()
    marked = content.replace("<table:table>", '<table:table table:use-first-row-styles="true">')
    found, _ = read(again(OFFICE / "lamps.odp", tmp_path, **{"content.xml": marked}))
    assert found[2].text.startswith("Lamp | Miles\n\nLamp: Oil; Miles: 14\n\n")


def test_points_of_a_chart_are_read_up_to_a_bound_and_the_others_counted(tmp_path):
    points = "".join(f'<c:pt idx="{number}"><c:v>{number}.10000000000000001</c:v></c:pt>' for number in range(203))
    with zipfile.ZipFile(OFFICE / "fleet.pptx") as deck:
        part = next(name for name in deck.namelist() if "/charts/chart" in name and b"Steam" in deck.read(name))
        chart = deck.read(part).decode()
    many = chart.replace('<c:pt idx="0"><c:v>0.7</c:v></c:pt>', points)
    found, ingest = read(again(OFFICE / "fleet.pptx", tmp_path, **{part: many}))
    assert many != chart
    assert "Sail: 19910%" in found[3].text
    assert "Sail: 20010%" not in found[3].text
    assert parts_left_out(ingest) == {"points of charts": 3}


def test_entries_of_the_contents_without_a_link_stand_above_their_chapters(tmp_path):
    """Lists of pages and landmarks are none; what the book's own headings say is not said twice."""
    nav = """<html><body><nav epub:type="page-list"><ol><li><a href="text/ch002.xhtml">7</a></li></ol></nav>
    <nav epub:type="toc"><ol><li><span>Part I</span><ol><li><a href="text/ch002.xhtml#x">FIRST  firing</a>
    </li></ol></li></ol></nav></body></html>"""
    found, _ = read(again(OFFICE / "kiln3.epub", tmp_path, **{"EPUB/nav.xhtml": nav}))
    assert [(one.title.removeprefix("Manual of the Kiln › "), one.columns["chapter"]) for one in found[1:]] == [
        ("Part I › First firing", "Part I › FIRST firing"),
        ("Part I › First firing › Cooling", "Part I › FIRST firing"),
        ("Zweiter Brand", "Zweiter Brand"),
    ]


@pytest.mark.parametrize("path", golden_files("office"), ids=lambda path: path.name)
def test_damaged_it_costs_the_file_and_nothing_else(path, tmp_path):
    """Bytes that are others, and parts of XML that are damaged before they are packed."""
    rng = random.Random(path.name)
    data = path.read_bytes()
    for number in range(20):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 5, 50])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if number % 2 and zipfile.is_zipfile(path):
            with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out := io.BytesIO(), "w") as new:
                for name in old.namelist():
                    inner = bytearray(old.read(name))
                    if name.endswith(("ml", ".rels", ".opf", ".ncx")) and inner and rng.random() < 0.3:
                        at = rng.randrange(len(inner))
                        inner[at : at + rng.choice([1, 30])] = rng.choice(
                            [b"", b"<w:p>", b"<w:tbl>", b"x", b"</w:p>", inner[:at]]
                        )
                    new.writestr(name, bytes(inner))
            damaged = bytearray(out.getvalue())
        target = tmp_path / path.name
        target.write_bytes(damaged)
        try:
            found, ingest = read(target)
        except InputError as error:
            assert path.name in str(error)  # noqa: PT017
            continue
        assert ingest.counts["documents_kept"] == len(found)
