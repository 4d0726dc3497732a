"""Two files of lines: every line has the partner of its number, whatever ends lines, is dropped or is compressed."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import Ledger, expand, parallel_records
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ConfigError, InputError

LINES = st.lists(
    st.text(st.characters(exclude_characters="\0\r\n\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]), max_size=9),
    max_size=12,
)


def read(one, other, ledger=None, **settings):
    chosen = IngestSettings(parallel=True, **settings)
    sources = expand([one, other], parallel=True)
    records = parallel_records(*sources, chosen, Ledger() if ledger is None else ledger, lambda _: None)
    return [(record.line, record.text, record.own["text_b"]) for record in records]


@given(LINES, st.data())
def test_each_line_has_its_partner(tmp_path_factory, lines, data):
    folder = tmp_path_factory.mktemp("pairs")
    others = [f"{number} {line[::-1]}" for number, line in enumerate(lines)]
    ends = st.sampled_from(["\n", "\r\n"])
    for name, some in (("a", lines), ("b", others)):
        text = "".join(line + data.draw(ends) for line in some)
        if some and some[-1] and data.draw(st.booleans()):
            text = text.removesuffix("\n").removesuffix("\r")
        (folder / name).write_bytes(text.encode())
    found = read(str(folder / "a"), str(folder / "b"), format="txt")  # whatever is in them
    expected = [(number, *pair) for number, pair in enumerate(zip(lines, others, strict=True), 1)]
    if lines and lines[0].startswith("\ufeff"):
        expected[0] = (1, lines[0][1:], others[0])
    assert found == expected


@pytest.mark.parametrize(
    ("first", "second", "line", "longer"), [(3, 5, 4, "b.en"), (5, 3, 4, "a.de"), (0, 1, 1, "b.en")]
)
def test_unequal_numbers_of_lines_are_an_error_with_both_and_the_first_without_a_partner(
    here, first, second, line, longer
):
    (here / "a.de").write_text("x\n" * first)
    (here / "b.en").write_text("y\n" * second)
    with pytest.raises(InputError) as caught:
        read("a.de", "b.en")
    assert f"a.de, b.en: the two files must have the same number of lines; got {first} and {second} lines" in str(
        caught.value
    )
    assert f"line {line} of {longer} has no matching line" in caught.value.hint


def test_a_carriage_return_within_a_line_moves_no_partner(here):
    (here / "a").write_bytes(b"one\rmore\ntwo\r\nthree\r")
    (here / "b").write_bytes(b"1\n2\n3")
    ledger = Ledger()
    assert read("a", "b", ledger) == [(1, "one more", "1"), (2, "two", "2"), (3, "three", "3")]
    assert ledger["carriage_returns_replaced"] == 1


def test_a_carriage_return_where_two_blocks_meet(here, monkeypatch):
    monkeypatch.setattr("wordpipe.corpus.decode.BLOCK", 4)
    (here / "a").write_bytes(b"abc\r\nab\rcd\nx\n")
    (here / "b").write_bytes(b"1\n2\n3\n")
    assert read("a", "b") == [(1, "abc", "1"), (2, "ab cd", "2"), (3, "x", "3")]


def test_a_line_dropped_for_its_bytes_leaves_its_partner_alone(here):
    (here / "a").write_bytes(b"one\n\xff\nthree\n\xff")
    (here / "b").write_bytes(b"1\n2\n3\n4\n")
    ledger = Ledger()
    assert read("a", "b", ledger, bad_bytes="skip") == [(1, "one", "1"), (2, "", "2"), (3, "three", "3"), (4, "", "4")]
    assert ledger["lines_skipped_bad_bytes"] == 2


def test_compressed_files(here):
    (here / "a.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (here / "b.txt").write_text("one\ntwo\n")
    assert read("a.de.gz", "b.txt") == [(1, "eins", "one"), (2, "zwei", "two")]


def test_a_line_that_is_too_long_is_named(here, monkeypatch):
    monkeypatch.setattr("wordpipe.corpus.decode.BLOCK", 1024)
    (here / "a").write_text("x\n" + "y" * 9000 + "\n")
    (here / "b").write_text("1\n2\n")
    with pytest.raises(InputError, match="a, line 2: the record is too long"):
        read("a", "b", max_document_bytes=1024)


def test_two_files_in_the_order_in_which_they_are_named(here):
    for name in ("z", "a", "c.jsonl"):
        (here / name).write_text("{}\n")
    (here / "folder").mkdir()
    assert [source.name for source in expand(["z", "a"], parallel=True)] == ["z", "a"]
    for texts in (["z"], ["z", "a", "c.jsonl"], ["z", "z"], ["folder", "a"], ["z", "python:json"]):
        with pytest.raises(InputError):
            expand(texts, parallel=True)
    with pytest.raises(InputError, match=r"c\.jsonl: \.jsonl files do not contain plain lines of text"):
        expand(["z", "c.jsonl"], parallel=True)
    assert len(expand(["z", "c.jsonl"], read_as="txt", parallel=True)) == 2


def test_settings_of_records_say_nothing_of_lines():
    with pytest.raises(ConfigError, match="label_field"):
        IngestSettings.make({"parallel": True, "label_field": "kind"})
