"""Files, blocks and lines as records."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import text_records

TEXT = st.text(st.sampled_from(list("abc \n\n")), max_size=150)


def records(text, documents, *, title=False, max_bytes=10_000):
    lines = [(n, line) for n, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1)]
    return list(
        text_records(
            lines, source="f", documents=documents, first_line_title=title, newline="auto", max_bytes=max_bytes
        )
    )


def slow_blocks(text):
    """Number of the first line, and lines, of each run of lines that are not blank."""
    blocks, open_ = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            open_ = False
        elif open_:
            blocks[-1][1].append(line)
        else:
            blocks.append((number, [line]))
            open_ = True
    return [(number, "\n".join(lines)) for number, lines in blocks]


@given(TEXT)
def test_blocks_are_those_of_the_slow_twin(text):
    found = [(r.line, r.text.removesuffix("\n")) for r in records(text, "block")]
    assert found == slow_blocks(text)


@given(TEXT)
def test_titles_are_the_first_lines_of_blocks(text):
    for record, (number, block) in zip(records(text, "block", title=True), slow_blocks(text), strict=True):
        first, _, rest = block.partition("\n")
        assert (record.title, record.text.removesuffix("\n"), record.line) == (first.strip(), rest, number + 1)


@given(TEXT)
def test_lines_are_the_lines_that_are_not_blank(text):
    twin = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    assert [(r.line, r.text.removesuffix("\n")) for r in records(text, "line")] == twin


@given(TEXT)
def test_a_file_is_one_record_from_its_first_line_that_is_not_blank(text):
    found = records(text, "file")
    assert [r.text.strip() for r in found] == ([text.strip()] if text.strip() else [])
    if found:
        assert text.split("\n")[found[0].line - 1].strip()


@given(TEXT, st.sampled_from(["file", "block"]), st.integers(8, 40))
def test_a_record_that_grows_too_long_is_given_in_parts(text, documents, max_bytes):
    whole, parts = records(text, documents), records(text, documents, max_bytes=max_bytes)
    joined: list[str] = []
    for part in parts:
        assert len(part.text) <= max_bytes
        if part.part == 0:
            joined.append("")
        joined[-1] += part.text
        assert text.split("\n")[part.line - 1 :][0].startswith(part.text.split("\n")[0]) or part.part
    assert joined == [record.text for record in whole]


def test_pieces_of_one_line_are_one_record_in_parts():
    lines = [(1, "aaaa aaaa "), (1, "bbbb bbbb\n"), (2, "c\n")]
    found = list(
        text_records(lines, source="f", documents="line", first_line_title=False, newline="auto", max_bytes=12)
    )
    assert [(r.line, r.part, r.text) for r in found] == [(1, 0, "aaaa aaaa "), (1, 1, "bbbb bbbb\n"), (2, 0, "c\n")]


@pytest.mark.parametrize(("length", "is_title"), [(1000, True), (1001, False)])
def test_a_very_long_first_line_is_no_title(length, is_title):
    record = records("x" * (length - 1) + "\nbody\n", "file", title=True)[0]
    assert (record.title is not None) == is_title
    assert ("x" in record.text) != is_title
