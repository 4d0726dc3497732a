"""What every reader of the table of formats promises: it is found, counted, bounded, and pieces are read as the whole."""

import csv
import gzip
import io
import json
import random
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.pdf_files import pdf_of
from wordpipe.corpus import ENDINGS, FORMATS, NOT_READ, READERS, Ingest, expand, function_of, in_pieces, not_text
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import WordpipeError

WORDS = ["bees", "dance", "river", "stone", "paper", "houses", "winter", "rain", "naïve", "Größe", "東京", "honey"]
EACH = pytest.mark.parametrize("name", FORMATS)
RECORDS = 30


def sentence(rng: random.Random) -> str:
    return f"{' '.join(rng.choices(WORDS, k=rng.randint(3, 9))).capitalize()}."


def table(rng: random.Random) -> list[dict[str, object]]:
    return [{"title": sentence(rng), "text": f"{sentence(rng)} {sentence(rng)}", "n": at} for at in range(RECORDS)]


def separated(rng: random.Random, delimiter: str) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, ["title", "text", "n"], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table(rng))
    return file.getvalue().encode()


def parquet(rng: random.Random) -> bytes:
    pq.write_table(pa.Table.from_pylist(table(rng)), file := io.BytesIO())
    return file.getvalue()


def squad(rng: random.Random) -> bytes:
    articles = []
    for at in range(RECORDS):
        context = sentence(rng)
        question = {"id": f"q{at}", "question": sentence(rng), "answers": [{"text": context[2:5], "answer_start": 2}]}
        articles.append({"title": sentence(rng), "paragraphs": [{"context": context, "qas": [question]}]})
    return json.dumps({"data": articles}).encode()


def joined(rng: random.Random, form: str, between: str = "\n") -> bytes:
    return between.join(form.format(sentence(rng), sentence(rng)) for _ in range(RECORDS)).encode()


def zipped(**parts: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return file.getvalue()


def relations(*of: tuple[str, str, str]) -> str:
    """The relations of a part of an Office file: the id, kind and target of each."""
    ones = "".join(f'<Relationship Id="{one}" Type="http://x/{kind}" Target="{target}"/>' for one, kind, target in of)
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{ones}</Relationships>'


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
ODF = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{word}:1.0"'
               for name, word in (("office", "office"), ("text", "text"), ("draw", "drawing")))  # fmt: skip


def docx(rng: random.Random) -> bytes:
    heading = '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>{}</w:t></w:r></w:p>'
    body = joined(rng, heading + "<w:p><w:r><w:t>{}</w:t></w:r></w:p>").decode()
    document = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return zipped(
        **{"_rels/.rels": relations(("1", "officeDocument", "word/document.xml")), "word/document.xml": document}
    )


def opendocument(rng: random.Random, kind: str, form: str) -> bytes:
    body = f"<office:{kind}>{joined(rng, form).decode()}</office:{kind}>"
    content = f"<office:document-content {ODF}><office:body>{body}</office:body></office:document-content>"
    kind = "text" if kind == "text" else "presentation"
    return zipped(**{"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def pptx(rng: random.Random) -> bytes:
    names = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" ' \
            'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" ' \
            'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'  # fmt: skip
    ids = "".join(f'<p:sldId r:id="r{at}"/>' for at in range(RECORDS))
    parts = {
        "_rels/.rels": relations(("1", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {names}>{ids}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(*((f"r{at}", "slide", f"{at}.xml") for at in range(RECORDS))),
    }
    for at in range(RECORDS):
        text = f"<p:sp><p:txBody><a:p><a:r><a:t>{sentence(rng)}</a:t></a:r></a:p></p:txBody></p:sp>"
        parts[f"ppt/{at}.xml"] = f"<p:sld {names}>{text}</p:sld>"
    return zipped(**parts)


def tar(rng: random.Random) -> bytes:
    with tarfile.open(fileobj=(file := io.BytesIO()), mode="w") as archive:
        for at in range(RECORDS):
            data = sentence(rng).encode()
            about = tarfile.TarInfo(f"in/{at}.txt")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return file.getvalue()


def spreadsheet(rng: random.Random) -> bytes:
    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    row = f"<row>{cell * 2}</row>"
    rows = row.format("title", "text") + joined(rng, row).decode()
    main, r = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org"
    kind = f"{r}/officeDocument/2006/relationships"
    sheet = '<sheet name="S" sheetId="1" r:id="rId1"/>'
    return zipped(**{
        "[Content_Types].xml": f'<Types xmlns="{r}/package/2006/content-types"/>',
        "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")).replace("http://x", kind),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{kind}"><sheets>{sheet}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(("rId1", "worksheet", "worksheets/sheet1.xml")).replace("http://x", kind),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    })  # fmt: skip


def epub(rng: random.Random) -> bytes:
    page = f"<html><body>{joined(rng, '<h1>{}</h1><p>{}</p>').decode()}</body></html>"
    item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
    return zipped(**{
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:x"><rootfile full-path="a.opf"/></container>',
        "a.opf": f'<package xmlns="http://www.idpf.org/2007/opf">{item}<itemref idref="a"/></package>', "a.xhtml": page,
    })  # fmt: skip


def notebook(rng: random.Random) -> bytes:
    cells = [{"cell_type": "markdown", "source": f"# {sentence(rng)}\n\n{sentence(rng)}"} for _ in range(RECORDS)]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


MAKERS = {
    "txt": lambda rng: joined(rng, "{}\n{}", "\n\n"),
    "md": lambda rng: joined(rng, "# {}\n\n{}", "\n\n"),
    "html": lambda rng: b"<!DOCTYPE html><html><body>" + joined(rng, "<h1>{}</h1><p>{}</p>") + b"</body></html>",
    "rst": lambda rng: joined(rng, "{}\n" + "=" * 200 + "\n\n{}\n"),
    "jsonl": lambda rng: "\n".join(json.dumps(one) for one in table(rng)).encode(),
    "csv": lambda rng: separated(rng, ","),
    "tsv": lambda rng: separated(rng, "\t"),
    "parquet": parquet,
    "docx": docx,
    "odt": lambda rng: opendocument(rng, "text", "<text:h>{}</text:h><text:p>{}</text:p>"),
    "odp": lambda rng: opendocument(
        rng, "presentation", "<draw:page><text:p>{}</text:p><text:p>{}</text:p></draw:page>"
    ),
    "pptx": pptx,
    "epub": epub,
    "spreadsheet": spreadsheet,
    "zip": lambda rng: zipped(**{f"in/{at}.txt": sentence(rng) for at in range(RECORDS)}),
    "tar": tar,
    "rtf": lambda rng: (
        b"{\\rtf1 " + joined(rng, r"\pard\outlinelevel0 {}\par\pard {}\par ").decode().encode("ascii", "ignore")
    ),
    "mail": lambda rng: joined(rng, "From a@b Mon Mar  2 09:30:00 2026\nMessage-ID: <a@b>\nSubject: {}\n\n{}\n"),
    "conll": lambda rng: joined(rng, "{}\tB-A", "\n\n").replace(b" ", b"\tO\n"),
    "squad": squad,
    "ipynb": notebook,
    "man": lambda rng: b".TH X 1\n" + joined(rng, ".SH {}\n{}\n"),
    "latex": lambda rng: b"\\documentclass{article}\n" + joined(rng, "\\section{{{}}}\n\n{}\n"),
    "code": lambda rng: "\n\n".join(f"def f{at}():\n    say('{sentence(rng)}')" for at in range(RECORDS)).encode(),
    "mediawiki": lambda rng: (
        b"<mediawiki>\n"
        + joined(rng, "<page><title>{}</title><ns>0</ns><revision><text>{}</text></revision></page>")
        + b"</mediawiki>"
    ),
    "pdf": lambda rng: pdf_of([f"{sentence(rng)} {sentence(rng)}"] for _ in range(RECORDS)),
    "label-first": lambda rng: joined(rng, "__label__a {} {}"),
}
"""Format → some bytes in it, with at least 30 documents of one or more sentences each."""


def read(path: Path, least: int = 1 << 40, **given: object) -> tuple[list[dict[str, object]], Ingest]:
    settings = IngestSettings.make({"valid": 0.2, "id_field": "none"} | given)
    ingest = Ingest(in_pieces(expand([str(path)], read_as=settings.format), settings, least), settings)
    batches = [*ingest.batches()]
    return [row for batch in batches for row in ingest.converted(batch).to_pylist()], ingest


def at(folder: Path, name: str, data: bytes) -> Path:
    """A file of a format, by the ending of its name where it has one."""
    reader = READERS[name]
    path = folder / f"some{[*reader.endings, *reader.endings_if_named, ''][0]}"
    path.write_bytes(data)
    return path


def test_every_format_has_an_example():
    assert set(MAKERS) == set(FORMATS) == {*IngestSettings.model_fields["format"].annotation.__args__} - {"auto"}


def test_the_table_says_what_is_there():
    for reader in (*READERS.values(), *NOT_READ):
        assert bool(reader.read) == (reader in READERS.values())
        assert reader.read or reader.hint
        assert all(callable(function_of(named)) for named in (reader.read, reader.looks_like) if named)
        assert all(ENDINGS[ending] is reader for ending in reader.endings)  # no two claim one ending
    assert len({reader.name for reader in (*READERS.values(), *NOT_READ)}) == len(READERS) + len(NOT_READ)


@EACH
def test_it_is_known_by_its_ending_by_format_and_by_its_looks(name, tmp_path):
    reader, data = READERS[name], MAKERS[name](random.Random(name))
    expected, ingest = read(at(tmp_path, name, data), format=name)
    assert ingest.counts["documents_kept"] >= (1 if name == "txt" else RECORDS - 2)
    ways = [at(tmp_path, name, data)] if reader.endings or reader.endings_if_named else []
    if reader.looks_like:
        (tmp_path / "unnamed").write_bytes(data)
        ways.append(tmp_path / "unnamed")
    without = {"source": None}
    for path in ways:
        rows, _ = read(path)
        assert [row | without for row in rows] == [row | without for row in expected]
    if reader.takes == "blocks":
        assert not_text(data, "some", is_plain=False) is None


@EACH
def test_what_is_read_and_what_becomes_of_it_is_counted(name, tmp_path):
    data = MAKERS[name](random.Random(name))
    data = data + b"\n\n" + data if READERS[name].piece_ends else data
    rows, ingest = read(at(tmp_path, name, data), format=name, documents="block", bad_records="skip")
    counts = ingest.counts
    kept = sum(counts.get(f"documents_{split}", 0) for split in ("train", "valid", "test"))
    dropped = sum(number for what, number in counts.items() if what.startswith("documents_dropped"))
    assert kept == counts["documents_kept"] == len({row["doc_id"] for row in rows})
    assert counts["documents_read"] == kept + dropped
    assert counts["sentences"] == len(rows)
    assert counts["bytes_read"] == len(data)


@EACH
def test_no_document_is_longer_than_the_bound(name, tmp_path):
    rng = random.Random(name)
    data = MAKERS[name](rng)
    if name == "txt":
        data = data.replace(b"\n", b" ")
    rows, _ = read(at(tmp_path, name, data), format=name, max_document_bytes=1024, bad_records="skip")
    sizes: dict[object, int] = {}
    for row in rows:
        sizes[row["doc_id"]] = sizes.get(row["doc_id"], 0) + len(str(row["text"]).encode())
    assert max(sizes.values()) <= 1024


@EACH
def test_packed_it_is_the_same(name, tmp_path):
    data = MAKERS[name](random.Random(name))
    packed = tmp_path / "some.gz"
    packed.write_bytes(gzip.compress(data))
    plain, _ = read(at(tmp_path, name, data), format=name)
    rows, _ = read(packed, format=name)
    assert [row["text"] for row in rows] == [row["text"] for row in plain]


@pytest.mark.parametrize("documents", ["auto", "file", "block", "line"])
@EACH
def test_pieces_are_read_as_the_whole(name, documents, tmp_path):
    path = at(tmp_path, name, MAKERS[name](random.Random(name)))
    (whole, first), (rows, second) = (
        read(path, least, format=name, documents=documents) for least in (1 << 40, 500)
    )  # fmt: skip
    assert rows == whole
    assert (first.schema, first.counts, first.warnings) == (second.schema, second.counts, second.warnings)
    assert (len(second.sources) > 1) == (documents in READERS[name].piece_ends)


@EACH
def test_damaged_it_is_read_or_refused_and_breaks_nothing(name, tmp_path):
    rng = random.Random(name)
    data = MAKERS[name](rng)
    for _ in range(8):
        place, size = rng.randrange(len(data)), rng.choice([0, 1, 7])
        damaged = data[:place] + rng.randbytes(size) + (data[place + size :] if rng.random() < 0.7 else b"")
        for bad in ("fail", "skip"):
            try:
                rows, ingest = read(at(tmp_path, name, damaged), format=name, bad_records=bad)
            except WordpipeError as error:
                assert error.where or error.message  # noqa: PT017
                continue
            assert ingest.counts["sentences"] == len(rows)
