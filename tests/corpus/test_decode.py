"""Bytes to lines: Python's own decoder is the oracle for what is valid and what is not."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordpipe.corpus import Decoder, Ledger, without_end_marks
from wordpipe.corpus import decode as decoding
from wordpipe.errors import InputError

MESSY = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.text(max_size=6).map(lambda text: text.encode(errors="replace")),
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b" "]
        ),
    ),
    max_size=30,
).map(lambda parts: re.sub(rb"[\x1b\b\x9b\x9d]", b"", b"".join(parts)))  # what drives a terminal has a test of its own


def lines_of(data, bad_bytes="replace", size=7, longest=1 << 20, ledger=None):
    decoder = Decoder("f.txt", bad_bytes, ledger if ledger is not None else Ledger())
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    return list(decoder.lines(blocks, longest=longest))


def first_bad(data):
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def tidy(text):
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


@given(MESSY, st.integers(1, 20))
@example(b"\xef\xbb\xbfa\n", 1)
@example(b"a\r\nb\rc", 1)
def test_replace_is_what_python_replaces_in_any_blocks(data, size):
    ledger = Ledger()
    lines = lines_of(data, size=size, ledger=ledger)
    body = data.removeprefix(b"\xef\xbb\xbf")
    assert "".join(text for _, text in lines) == tidy(body.decode(errors="replace"))
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    assert all(text.find("\n") in (-1, len(text) - 1) for _, text in lines)
    escaped = body.decode(errors="surrogateescape")
    assert ledger["bytes_replaced"] == sum("\udc80" <= c <= "\udcff" for c in escaped)
    assert ledger["nul_replaced"] == body.count(b"\0")
    assert ledger["crlf_line_ends"] == body.count(b"\r\n")
    assert ledger["cr_line_ends"] == body.count(b"\r") - body.count(b"\r\n")
    assert ledger["bom_removed"] == (body != data)


@given(MESSY, st.integers(1, 20))
def test_skip_drops_whole_lines_and_keeps_the_others_numbers(data, size):
    data = data.replace(b"\xef\xbb\xbf", b"").replace(b"\r", b"")
    ledger = Ledger()
    twin, dropped = [], 0
    *ended, rest = data.split(b"\n")
    for number, raw in enumerate([*(line + b"\n" for line in ended), rest], 1):
        try:
            twin += [(number, tidy(raw.decode()))] * bool(raw)
        except UnicodeDecodeError:
            dropped += 1
    assert lines_of(data, "skip", size, ledger=ledger) == twin
    assert ledger["lines_skipped_bad_bytes"] == dropped


@given(MESSY, st.integers(1, 20))
def test_fail_names_the_line_and_the_byte(data, size):
    body = data.removeprefix(b"\xef\xbb\xbf")
    bad = first_bad(body)
    if bad is None:
        assert lines_of(data, "fail", size) == lines_of(data, "replace", size)
        return
    with pytest.raises(InputError, match="invalid UTF-8") as caught:
        lines_of(data, "fail", size)
    line, byte = 1 + tidy(body[:bad].decode()).count("\n"), bad + len(data) - len(body)
    assert caught.value.where == f"f.txt, line {line}, byte {byte}"


def test_the_first_bad_byte_is_warned_of_once():
    ledger = Ledger()
    lines_of(b"good\nb\xffd\nb\xfed\n", size=100, ledger=ledger)
    assert [*ledger.warned.values()] == ["invalid UTF-8 was replaced by U+FFFD: f.txt, line 2, byte 6"]
    assert ledger["bytes_replaced"] == 2


@given(st.lists(st.text(st.sampled_from("aé😀 \n"), max_size=40), max_size=8).map("".join), st.integers(8, 30))
def test_long_lines_come_in_pieces_that_share_their_number(text, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "BLOCK", 1)
        lines = lines_of(text.encode(), size=5, longest=longest)
    assert "".join(piece for _, piece in lines) == text
    for number, piece in lines:
        assert piece in [line + "\n" for line in text.split("\n")][number - 1]
        assert len(piece.encode()) <= longest + 5


def test_a_record_must_fit_where_lines_are_records(monkeypatch):
    monkeypatch.setattr(decoding, "BLOCK", 1)
    decoder = Decoder("f.jsonl", "replace", Ledger())
    assert len(list(decoder.lines(iter([b"x" * 20, b"\n"]), longest=20, cut_longer=False))) == 1
    with pytest.raises(InputError, match="too long") as caught:
        list(decoder.lines(iter([b"\n", b"x" * 21, b"\n"]), longest=20, cut_longer=False))
    assert caught.value.where == "f.jsonl, line 2"


@given(st.text(st.characters(exclude_characters="\x1b\x9b\x9d\b")))  # what drives a terminal is removed and counted
def test_strings_of_json_lose_only_lone_surrogates(text):
    ledger = Ledger()
    found = Decoder("f", "replace", ledger).string(text)
    found.encode()
    lone = sum("\ud800" <= c <= "\udfff" for c in text)
    assert ledger["lone_surrogates_replaced"] == lone
    assert len(found) == len(text) - text.count("\r\n")


@given(
    st.lists(
        st.sampled_from(["a", "é", "_", "\r", "\n", "\0", "\b", "\x1b[1m", "\x9b", "\x9d", "\ud800", "\u2028", "語"])
    )
)
def test_a_string_of_signs_that_are_all_printable_is_mended_as_others_are(parts):
    short, long = (Decoder("f", "replace", Ledger()) for _ in range(2))
    text = "".join(parts)
    assert "\n" + short.string(text) == long.string("\n" + text)  # with a line end no text is taken as it is
    assert short.ledger.counts() == long.ledger.counts()


@pytest.mark.parametrize(("policy", "found"), [("replace", "a\ufffd"), ("skip", None)])
def test_a_bad_value_is_mended_or_dropped(policy, found):
    assert Decoder("f", policy, Ledger()).value(b"a\xff", line=3) == found


def test_a_bad_value_can_fail():
    with pytest.raises(InputError, match="f, line 3: invalid UTF-8"):
        Decoder("f", "fail", Ledger()).value(b"a\xff", line=3)


@pytest.mark.parametrize(
    ("data", "left", "marks"),
    [
        (b"a\x1a", b"a", 1), (b"a\r\n\x1a\x1a\n", b"a\r\n\n", 2), (b"a\x1ab\x1a", b"a\x1ab", 1), (b"\x1a", b"", 1),
        (b"a\n", b"a\n", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_mark_that_ends_a_text_in_dos_is_no_text_and_is_counted(data, left, marks, size):
    ledger = Ledger()
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    assert b"".join(without_end_marks(blocks, ledger)) == left
    assert ledger["end_marks_removed"] == marks


@pytest.mark.parametrize(
    ("raw", "text", "removed"),
    [
        ("\x1b[1;31mFATAL\x1b[0m: disk", "FATAL: disk", 2),
        ("\x9b4mlow\x9bm \x1b(B\x1b[mwater", "low water", 4),
        ("\x1b]0;title\x07ready \x1b]8;;file:///x\x1b\\log\x1b]8;;\x1b\\", "ready log", 3),
        ("N\bNA\bAM\bM\bME\bE _\bl_\bs", "NAME ls", 6),
        ("\x1b]never ended", "never ended", 1),
        ("a\b plain", "a\b plain", 0),
    ],
)
def test_what_drives_a_terminal_is_no_text(raw, text, removed):
    ledger = Ledger()
    assert "".join(line for _, line in lines_of(f"{raw}\nnext".encode(), ledger=ledger)) == f"{text}\nnext"
    assert ledger["terminal_sequences_removed"] == removed
