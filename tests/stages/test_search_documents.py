"""A folder of documents, slides, books, sheets, mail and archives is searched at once; answers say where they stand."""

import shutil
import zipfile

import pytest

import wordpipe
from tests.support.golden import GOLDEN

FILES = (
    "office/well.docx",
    "office/bees.pptx",
    "office/kiln3.epub",
    "office/costs.xlsx",
    "mail/umlauts.eml",
    "mail/all.mbox",
)


@pytest.fixture
def papers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in FILES:
        shutil.copy(GOLDEN / name, folder)
    with zipfile.ZipFile(folder / "old.zip", "w") as archive:
        archive.writestr("memos/key.txt", "The spare key hangs behind the clock.")
    (folder / "broken.docx").write_bytes(b"PK no document")
    return "papers"


@pytest.mark.parametrize(
    ("question", "options", "source", "place"),
    [
        ("ivy in October", {}, "papers/bees.pptx", "papers/bees.pptx slide 1"),
        ("heat slowly", {}, "papers/kiln3.epub", "papers/kiln3.epub › First firing"),
        ("sluice paid", {}, "papers/costs.xlsx", "papers/costs.xlsx › Repairs:5"),
        ("brick rope", {}, "papers/well.docx", None),
        ("spare key", {}, "papers/old.zip/memos/key.txt", None),
        ("sluice", {"where": "date >= '2026-03-02'"}, "papers/all.mbox", None),
        ("sluice", {"where": "Cost > 50"}, "papers/costs.xlsx", "papers/costs.xlsx › Repairs:5"),
        ("harvest kilos", {"where": "slide >= 3"}, "papers/bees.pptx", "papers/bees.pptx slide 3"),
        ("from:ada noon", {}, "papers/all.mbox", None),
    ],
)
def test_all_of_it_is_searched_at_once(question, options, source, place, papers):
    first = wordpipe.search_texts(question, papers, **options)[0]
    assert (first["source"], first.get("place")) == (source, place)
