"""What reaches the terminal."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.terminal import in_terminal
from wordpipe.cli.output import (
    ProgressDrawer,
    cells_of,
    counted,
    fitted,
    human_bytes,
    human_count,
    human_seconds,
    made_lines,
    noun,
    safe_text,
    say,
    seconds_left,
)
from wordpipe.runtime import Progress


@given(st.text())
def test_no_control_character_reaches_the_terminal(text):
    shown = safe_text(text)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in shown)
    assert not any(0x7F <= ord(c) <= 0x9F for c in shown)
    shown.encode("utf-8")


def test_plain_text_is_left_alone():
    assert safe_text("naïve 文章\tand\nmore 😀") == "naïve 文章\tand\nmore 😀"


@pytest.mark.parametrize("escape", ["\x1b]52;c;aGk=\x07", "\x9b31m", "\u202e", "\r", "\x00"])
def test_steering_sequences_are_shown_as_escapes(escape):
    assert escape[0] not in safe_text(f"a{escape}b")


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (human_count, 0, "0"),
        (human_count, 9_999, "9,999"),
        (human_count, 1.5e9, "1.5G"),
        (human_bytes, 999, "999 B"),
        (human_bytes, 2e9, "2.0 GB"),
        (human_seconds, 59.94, "59.9 s"),
        (human_seconds, 3600, "1h00m"),
    ],
)
def test_numbers_read_well(function, value, shown):
    assert function(value) == shown


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("sources", "source"),
        ("documents kept", "document kept"),
        ("distinct words", "distinct word"),
        ("crlf line ends", "crlf line end"),
        ("queries unknown", "query unknown"),
        ("bytes dropped duplicate", "byte dropped duplicate"),
        ("dropped without vector", "dropped without vector"),
        ("documents title as text", "document title as text"),
    ],
)
def test_one_is_not_many(plural, singular):
    assert noun(1, plural) == singular
    assert noun(0, plural) == noun(2, plural) == plural
    assert counted(1_200, plural) == f"1,200 {plural}"


def test_a_reader_that_went_away_is_no_reason_to_stop(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    say("hello")


def test_plain_progress_is_a_line_every_few_seconds(monkeypatch):
    lines: list[str] = []
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("wordpipe.cli.output.say", lines.append)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with ProgressDrawer() as draw:
        for done in range(1, 11):
            draw(Progress("training", done, 10, "steps", {"loss": "2.5"}))
    assert 2 <= len(lines) <= 5
    assert "training · " in lines[0]
    assert "/10 steps · loss 2.5 · " in lines[0]


def test_time_left_follows_the_phase_and_not_what_a_stopped_run_did():
    assert seconds_left(Progress("a", 0, 10), 100.0, 0, 105.0) is None
    assert seconds_left(Progress("a", 5, None), 100.0, 0, 105.0) is None
    assert seconds_left(Progress("a", 2, 10), 100.0, 0, 105.0) == 20
    assert seconds_left(Progress("a", 8, 10), 100.0, 6, 105.0) == 5


BAR = """
import time
from wordpipe.cli.output import ProgressDrawer
from wordpipe.runtime import Progress
with ProgressDrawer() as draw:
    for done in (1, 2):
        time.sleep(0.3)
        draw(Progress("work", done, 9, "texts"))
    time.sleep(0.3)
"""


@pytest.mark.landing
def test_a_bar_shows_the_time_left_after_its_second_report():
    seen = in_terminal(program=["-c", BAR])
    assert re.search(r"work.*2/9.* s left", seen.text)
    assert "\x1b" not in in_terminal(program=["-c", BAR], NO_COLOR="1").text


def test_quiet_progress_says_nothing(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("wordpipe.cli.output.say", lines.append)
    with ProgressDrawer(quiet=True) as draw:
        draw(Progress("note", note="warning: x"))
    assert lines == []


def test_notes_are_said_at_once(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("wordpipe.cli.output.say", lines.append)
    with ProgressDrawer() as draw:
        draw(Progress("note", note="resumed from step 200"))
    assert lines == ["resumed from step 200"]


def test_the_closing_lines_have_few_counts_in_words():
    counts = {f"things_{number}": 1000 + number for number in range(9)} | {
        "bytes_read": 2_000, "bytes_kept": 1_500, "documents_read": 5, "documents_kept": 4, "documents_train": 3,
        "fields_not_carried.id": 5, "files_skipped.html": 1, "documents_dropped.duplicate": 1, "rows_read": 7, "rows_kept": 7,
        "nothing": 0,
    }  # fmt: skip
    (line,) = made_lines(counts, {}, {}, "run/x")
    shown = line.split(" · ")
    assert len(shown) == 9
    assert {"1 file skipped (html)", "1 document dropped (duplicate)"} <= set(shown)  # what is lost comes first
    assert shown[-1] == "8 more counts: wordpipe show run/x"
    (line_of_nine,) = made_lines({f"n{n}": 2 for n in range(9)}, {}, {}, "x")
    assert line_of_nine.endswith("· 1 more count: wordpipe show x")
    assert "fields" not in line
    few = {
        name: counts[name]
        for name in ("bytes_read", "documents_read", "documents_kept", "documents_train", "rows_read", "rows_kept")
    }
    assert [
        *made_lines(
            few,
            {"recall_at_10": 0.984, "loss": 1.5, "valid_nearest": 0.0},
            {"mb_per_s": 0.631, "exact_queries_per_s": 5.0},
            "x",
        )
    ] == [
        "2.0 kB read · 5 documents read · 4 documents kept · 3 documents to train on · 7 rows read",
        "the index finds 98.4 % of the 10 true nearest neighbours · loss 1.5 · 0.63 MB/s",
    ]


def test_counts_of_pairs_say_of_which_texts_they_are():
    both = {"sentences_trained_on": 60, "pretokens": 480, "distinct_pretokens": 66, "words": 240, "distinct_words": 63}
    both |= {"sentences": 60, "tokens": 280, "tokens_b": 281}
    (line,) = made_lines(both, {}, {}, "x")
    assert line == (
        "480 pretokens of both texts · 66 different pretokens of both texts · 240 words of first texts · "
        "63 different words of first texts · 60 pairs · 280 tokens of first texts · 281 tokens of second texts"
    )
    (line,) = made_lines(both | {"pretokens": 240, "pretokens_b": 241, "distinct_pretokens_b": 1}, {}, {}, "x")
    assert "240 pretokens of first texts" in line
    assert "241 pretokens of second texts" in line
    assert "281 tokens of second texts" in line  # pretokens give way
    assert line.endswith("1 more count: wordpipe show x")
    few = {"sentences_trained_on": 6, "sentences": 60, "tokens": 5, "tokens_b": 5, "distinct_pretokens_b": 1}
    (line,) = made_lines(few, {}, {}, "x")
    assert "6 pairs trained on · 60 pairs · " in line
    assert line.endswith("1 different pretoken of second texts")
    assert [*made_lines({"weights_averaged": 11}, {}, {}, "x")] == ["11 sets of weights averaged"]
    assert [*made_lines({"sentences": 60, "tokens": 280}, {}, {}, "x")] == ["60 sentences · 280 tokens"]
    assert [*made_lines({"pairs": 2, "documents_read": 2, "sentences": 2}, {}, {}, "x")] == [
        "2 pairs · 2 documents read"
    ]


LONG = [
    "wordpipe: error: nope = 1: the condition does not fit the columns; got no column nope\n  hint: one JSON object per line; "
    "or use --bad-records skip to skip records that cannot be read",
    "warning: all texts look alike: the mean cosine of two is 1.00, where 0 is healthy; wordpipe doctor run/sentences",
    "127.5 kB read · 165 documents read · 163 documents to train on · 2 documents to validate on · 1,169 sentences",
    "warning: 蜂は花から花へ飛んで 蜜を集める。蜂は花から花へ飛んで 蜜を集める。蜂は花から花へ飛んで 蜜を集める。",
]


@pytest.mark.parametrize("width", [36, 40, 60, 80, 200])
@pytest.mark.parametrize("text", LONG)
def test_a_message_is_no_wider_than_the_terminal_and_loses_nothing(text, width):
    lines = fitted(text, width).split("\n")
    assert max(map(cells_of, lines)) <= width
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert all(line.startswith("  ") for line in lines[1:])
    if max(map(cells_of, text.split("\n"))) <= width:
        assert fitted(text, width) == text


@given(st.text(alphabet="ab-;·wordpipe/`'\"… \n", max_size=200), st.integers(20, 90))
def test_only_spaces_are_broken_at(text, width):
    assert fitted(text, width).split() == text.split()


@pytest.mark.parametrize("width", [20, 30, 40])
@pytest.mark.parametrize(
    "copied",
    [
        "wordpipe train word2vec run/a-long-name/tokens -o run/a-long-name/words",
        'wordpipe query run/index "your question"',
        "/a/path/that/is/longer/than/the/terminal/is/wide.txt",
        "`wordpipe init --from records.jsonl`",
        'pip install "umap-learn>=0.5.9"',
    ],
)
def test_what_one_copies_is_never_broken(copied, width):
    for text in (f"some words before it: {copied}", f"some words before it: {copied}; and after it", f"next: {copied}"):
        assert any(copied in line for line in fitted(text, width).split("\n"))


def test_a_clause_of_a_long_message_has_its_own_line():
    text = "warning: number of skipped records: 3; "
    text += "a.jsonl, line 3: no JSON; got x; a.jsonl, line 5: no JSON; got y; and 1 more"
    assert fitted(text, 60).split("\n") == [
        "warning: number of skipped records: 3;",
        "  a.jsonl, line 3: no JSON; got x;",
        "  a.jsonl, line 5: no JSON; got y;",
        "  and 1 more",
    ]
    parted, whole = (fitted("error: a b/c d: no such file", 12, whole=path) for path in ("", "a b/c d"))
    assert parted.split("\n")[0] == "error: a b/c"
    assert whole.split("\n") == ["error:", "  a b/c d:", "  no such", "  file"]


SAYS = "from wordpipe.cli.output import say; say('word ' * 30, as_it_is={})"


def test_messages_are_wrapped_on_a_terminal_alone(capsys):
    assert len(in_terminal(program=["-c", SAYS.format(False)], columns=40).text.splitlines()) > 3
    assert len(in_terminal(program=["-c", SAYS.format(False)], columns=40, COLUMNS="200").text.splitlines()) == 1
    assert len(in_terminal(program=["-c", SAYS.format(True)], columns=40).text.splitlines()) == 1
    say("word " * 30)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bar_and_notes_share_a_narrow_terminal():
    code = BAR.replace("time.sleep(0.3)\n    time", "time").replace(
        "    for", "    draw(Progress('note', note='warning: ' + 'word ' * 20 + 'wordpipe doctor run/x'))\n    for"
    )
    seen = in_terminal(program=["-c", code], columns=40)
    assert "\n  word word" in seen.text
    assert "wordpipe doctor run/x\n" in seen.text
