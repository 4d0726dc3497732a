"""Notebooks, man pages, LaTeX and dumps of MediaWiki: what is read in them, and what is left out and counted."""

import json

import pytest

from tests.support.golden import GOLDEN, assert_read_as_expected, golden_files, read
from wordpipe.errors import InputError

FOLDER = GOLDEN / "text"


@pytest.mark.parametrize("path", golden_files("text"), ids=lambda path: path.name)
def test_what_a_person_reads_is_read(path):
    assert_read_as_expected(path)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("wiki.xml", {"wiki_pages": 1, "wiki_pages_redirect": 1, "wiki_pages_of_other_namespaces": 1}),
        ("tides.tex", {"latex_files_not_included": 1}),
        ("bells.ipynb", {"notebook_cells": 3}),
        ("gauge.ipynb", {"notebook_cells": 4, "notebook_outputs_left_out": 2}),
    ],
)
def test_what_is_left_out_is_counted(name, counts):
    _, ingest = read(FOLDER / name)
    assert counts.items() <= ingest.counts.items()


def write(path, cells, **more):
    path.write_text(
        json.dumps({"nbformat": 4, "metadata": {}} | more | ({"cells": cells} if cells is not None else {}))
    )
    return path


def test_outputs_of_cells_are_left_out_and_counted(tmp_path):
    outputs = [{"output_type": "stream", "text": "secret"}] * 2
    path = write(tmp_path / "a.ipynb", [{"cell_type": "code", "source": ["x = 1\n", "y"], "outputs": outputs}])
    (one,), ingest = read(path)
    assert (one.text, one.columns["anchor"]) == ("x = 1\ny", "cell=1")
    assert ingest.counts["notebook_outputs_left_out"] == 2


def test_old_notebooks_have_sheets_and_headings(tmp_path):
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Tides"},
        {"cell_type": "code", "input": "x", "outputs": []},
    ]
    (one,), _ = read(write(tmp_path / "a.ipynb", None, worksheets=[{"cells": cells}]))
    assert (one.title, one.text, one.columns["cell"]) == ("Tides", "x", 2)


@pytest.mark.parametrize("text", ["{", '{"cells": 3}', '{"cells": [3]}', "[]", "{}", "[" * 100_000])
def test_what_is_no_notebook_is_refused(tmp_path, text):
    (tmp_path / "a.ipynb").write_text(text)
    with pytest.raises(InputError, match="notebook"):
        read(tmp_path / "a.ipynb")


def test_a_file_with_the_ending_of_a_man_page_may_be_text(tmp_path):
    (tmp_path / "changes.1").write_text("Version 1. It rings.")
    (one,), _ = read(tmp_path / "changes.1")
    assert one.text == "Version 1. It rings."


def test_xml_that_is_no_dump_and_entities_are_refused(tmp_path):
    (tmp_path / "a.xml").write_text("<?xml version='1.0'?><book>x</book>")
    with pytest.raises(InputError, match="no dump of MediaWiki") as caught:
        read(tmp_path / "a.xml")
    assert "--format txt" in caught.value.hint
    bomb = '<!DOCTYPE m [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><mediawiki>&c;</mediawiki>'
    (tmp_path / "b.xml").write_text(bomb)
    with pytest.raises(InputError, match=r"no dump of MediaWiki|declares XML entities"):
        read(tmp_path / "b.xml")
    (tmp_path / "c.xml").write_text("<mediawiki><page><title>x</title>")
    with pytest.raises(InputError, match="the dump is damaged"):
        read(tmp_path / "c.xml")


def test_nested_markup_of_a_wiki_ends(tmp_path):
    text = "{{" * 5000 + "}}" * 5000 + " [[a|" * 2000 + "word" + "]]" * 2000
    page = f"<page><title>T</title><ns>0</ns><revision><text>{text}</text></revision></page>"
    (tmp_path / "a.xml").write_text(f"<mediawiki>{page}</mediawiki>")
    (one,), _ = read(tmp_path / "a.xml")
    assert "word" in one.text


CODE = """\
\"\"\"A module.\"\"\"

import os

# A queue of jobs.
class JobQueue:
    # adds one
    def pushNewJob(self, job):
        return job

int add_two(int a, int b)
{
    if (a) return b;
}
"""


def test_source_code_is_read_by_definitions_and_names_are_there_in_parts(tmp_path):
    (tmp_path / "a.py").write_text(CODE)
    found, ingest = read(tmp_path / "a.py")
    assert [one.title for one in found] == ["", "JobQueue", "JobQueue › pushNewJob", "add_two"]
    assert found[1].text == "# A queue of jobs.\nclass JobQueue:\n\nnames: job queue"
    assert found[2].text.startswith("# adds one\ndef pushNewJob")
    assert found[2].text.endswith("\n\nnames: push new job")
    assert [one.columns["line"] for one in found] == [1, 5, 7, 11]
    assert ingest.counts["code_definitions"] == 3
