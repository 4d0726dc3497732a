"""PDF: what is read in files that real programs made, what is left out and counted, and what is refused."""

import json
import shutil

import pytest

import wordpipe
from tests.support.golden import GOLDEN, assert_read_as_expected, golden_files, read
from tests.support.pdf_files import pdf_of
from wordpipe.corpus.readers import sections
from wordpipe.errors import InputError
from wordpipe.stages import RunOptions

FOLDER = GOLDEN / "pdf"


@pytest.mark.parametrize("path", golden_files("pdf"), ids=lambda path: path.name)
def test_what_a_person_reads_is_read(path):
    found, ingest = assert_read_as_expected(path)
    for one in found:
        assert one.columns["anchor"] == f"page={one.columns['line']}" == f"page={one.columns['page']}"
    assert ingest.counts["sections_read"] == len(found)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("two-columns", {"pdf_pages": 2, "pdf_running_lines": 1, "pdf_page_numbers": 2, "pdf_headings": 3}),
        ("book", {"pdf_pages": 8, "pdf_running_lines": 3, "pdf_page_numbers": 4, "pdf_headings": 7}),
        ("leaflet", {"pdf_pages": 2, "pdf_running_lines": 1, "pdf_page_numbers": 2, "pdf_headings": 4}),
        ("half-scanned", {"pdf_pages": 4, "pdf_pages_scanned": 2}),
    ],
)
def test_what_is_left_out_is_counted(name, counts):
    _, ingest = read(FOLDER / f"{name}.pdf")
    assert {what: number for what, number in ingest.counts.items() if what.startswith("pdf")} == counts


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("encrypted", "encrypted and opens only with a password", "qpdf --decrypt"), ("cut", "the PDF is damaged", "qpdf"),
        ("garbage", "the PDF is damaged", "qpdf"), ("scanned", "only pictures of pages and no text; got 3 pages", "ocrmypdf"),
        ("empty-page", "contains no text; got 1 page", None), ("empty", "the file is empty", None),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_by_name(name, what, hint):
    path = FOLDER / f"{name}.pdf"
    with pytest.raises(InputError, match=what) as caught:
        read(path)
    assert path.name in caught.value.where
    assert hint is None or hint in caught.value.hint


def test_in_a_folder_such_files_are_skipped_and_named(tmp_path):
    for name in ("encrypted", "cut", "scanned", "turned"):
        shutil.copy(FOLDER / f"{name}.pdf", tmp_path)
    found, ingest = read(tmp_path)
    assert [one.columns["source"].rpartition("/")[2] for one in found] == ["turned.pdf"]
    assert sum(number for what, number in ingest.counts.items() if what.startswith("files_unreadable.")) == 3
    said = "".join(ingest.warnings)
    assert all(name in said for name in ("encrypted.pdf", "cut.pdf", "scanned.pdf"))
    assert all(hint in said for hint in ("qpdf --decrypt", "ocrmypdf"))


@pytest.mark.parametrize(
    ("said", "title"),
    [
        *((one, None) for one in (
            "", "(anonymous)", "untitled", "Untitled-1", "Untitled Document", "(unspecified)", "Microsoft Word - x.doc",
            "Microsoft PowerPoint - Talk", "PowerPoint Presentation", "Document1", "report final.docx", "ohne Titel", "---",
            "file:///C|/x.html", "thesis.dvi",
        )),
        *((one, one) for one in ("Tides", "1984", "The Untitled Years", "Microsoft Word for beginners", "Document theory")),
    ],
)  # fmt: skip
def test_what_programs_write_as_a_title_is_none(said, title):
    assert sections.title_of_properties(said) == title


def test_pages_without_text_are_named():
    _, ingest = read(FOLDER / "half-scanned.pdf")
    assert "half-scanned.pdf: pages that have no text: 2–3" in "".join(ingest.notes)
    assert "2 pages contain only pictures" in "".join(ingest.warnings)
    assert "ocrmypdf" in "".join(ingest.warnings)


def test_what_runs_over_the_pages_is_kept_once_and_found(tmp_path):
    pages = [["Acme Widgets Ltd", f"The {word} wheel turns slowly.", f"Nobody stops the {word} wheel."]
             for word in ("first", "second", "third", "fourth", "fifth")]  # fmt: skip
    (tmp_path / "a.pdf").write_bytes(pdf_of(pages))
    found, ingest = read(tmp_path / "a.pdf")
    assert [one.text.count("Acme Widgets Ltd") for one in found] == [1, 0, 0, 0, 0]
    assert found[0].text.endswith("\n\nAcme Widgets Ltd")
    assert ingest.counts["pdf_running_lines"] == 4


def test_a_huge_page_is_read_to_its_end():
    ((_, text, _),), _ = read(FOLDER / "huge-page.pdf")
    assert text == " ".join(f"Sentence number {number} stands on a page of five metres." for number in range(900))


def test_a_whole_file_is_one_record_and_its_lines_are_pages():
    (one,), _ = read(FOLDER / "bridges.pdf", documents="file")
    assert one.title == "Report of the Office of Works"
    assert "anchor" not in one.columns
    assert one.text.startswith("The Three Bridges\n\nThe first bridge")
    assert "Measurements\n\nBridge | Length | Year" in one.text


def test_blocks_are_paragraphs():
    found, _ = read(FOLDER / "across.pdf", documents="block")
    assert [one.text[:16] for one in found] == ["The left column ", "The right column"]


def test_fields_that_are_not_wanted_are_not_carried():
    (one,), _ = read(FOLDER / "turned.pdf", no_metadata=True)
    assert "page" not in one.columns
    (one,), _ = read(FOLDER / "turned.pdf", metadata="page:str")
    assert one.columns["page"] == "1"


def test_a_missing_library_is_said_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("wordpipe.corpus.binary.pdf.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pypdfium2") as caught:
        read(FOLDER / "turned.pdf")
    assert caught.value.hint == "pip install 'wordpipe[documents]'"


def test_a_folder_is_searched_at_once_with_pages_as_places(tmp_path):
    for name in ("bridges", "book", "encrypted"):
        shutil.copy(FOLDER / f"{name}.pdf", tmp_path)
    (best, *_) = wordpipe.search_texts("who paints the railway", tmp_path)
    assert best["place"].endswith("bridges.pdf p. 2")
    assert best["metadata"] == {"page": 2}
    assert best["anchor"] == "page=2"
    hits = wordpipe.search_texts("bridge", tmp_path, where="page >= 3")
    assert [hit["metadata"]["page"] for hit in hits] == [3]
    assert json.loads(json.dumps(hits)) == hits


def test_the_same_rows_come_from_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        for name in ("bridges", "book", "cut", "two-columns"):
            data = (FOLDER / f"{name}.pdf").read_bytes()
            (tmp_path / f"{name}{number}.pdf").write_bytes(data + b"\n%" + b"x" * number)
    monkeypatch.setattr("wordpipe.stages.corpus.ingest_shards.PART_BYTES", 100_000)
    out = tmp_path.parent / f"{tmp_path.name}-made"
    digests = {
        wordpipe.ingest(".", output=out / f"c{workers}", run=RunOptions(workers=workers), deduplicate=False).digest
        for workers in (1, 2, 3)
    }
    assert len(digests) == 1
