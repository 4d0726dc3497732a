"""Sentences, known ones recovered from random mixtures; paragraphs; properties on any text, linear time."""

import random
import re
import textwrap
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordpipe.corpus import is_hard_wrapped, is_one_sentence, paragraphs, split_sentences, unwrapped

# Each is one sentence, with something inside that looks like an end.
SENTENCES = {
    "en": [
        "Dr. A. B. Smith of St. Louis, Mo. joined Acme Inc. in Jan. 1998.",
        "It costs $3.50, i.e. 1.2 percent more than in the U.S. market.",
        "“Why now?” she asked.",
        "He said, 'Stop, it is too late!'",
        "The case Caparo v. Dickman is cited on pp. 45 and in Fig. 3 of vol. 2.",
        "Visit www.example.org or write to j.doe@example.com (ext. 12).",
        "Wait... what happened?",
        "This is the end!!!",
        "He arrived at 5 p.m. on Monday, No. 7 in the list.",
        "Version 2.0.1 came out in 2021.",
    ],
    "de": [
        "Am 3. Oktober 1990 kam z. B. Prof. Müller, d.h. der Chef, ca. 5 km weit.",
        "Das war im 2. Weltkrieg so, vgl. Abb. 4 bzw. Kap. 5.",
        "„Komm her!“, rief er.",
    ],
    "fr": ["M. Dupont et Mme. Martin ont payé 3,50 € à J.-C. Durand.", "« Pourquoi ? » demanda-t-il."],
    "es": ["El Sr. García y la Dra. López viven en la Av. Central núm. 5.", "¿Qué dijo usted?"],
    "ru": ["В 1998 г. Иванов А. С. жил на ул. Ленина, д. 5, в г. Москве.", "Это было в XX в. до н. э. или позже."],
    "ar": ["هل وصل د. محمد اليوم؟", "ذهب الولد إلى المدرسة."],
    "hi": ["वह घर गया।", "क्या तुम आओगे?"],
    "ko": ["그는 3.5킬로미터를 걸었다."],
}
UNSPACED = ["我去了北京（真的！）很好。", "他说：「你好吗？」", "今日は寒いですね！", "彼は「行く。」と言った。"]


@pytest.mark.parametrize("seed", range(20))
def test_known_sentences_are_recovered_from_a_random_mixture(seed):
    rng = random.Random(seed)
    pool = [sentence for group in SENTENCES.values() for sentence in group]
    chosen = [rng.choice(pool) + rng.choice([" ", "  ", "\n\n", "\n \n"]) for _ in range(60)]
    chosen[-1] = chosen[-1].strip()
    assert list(split_sentences("".join(chosen), "space")) == chosen


@pytest.mark.parametrize("seed", range(5))
def test_known_sentences_of_scripts_without_spaces_are_recovered(seed):
    chosen = random.Random(seed).choices(UNSPACED, k=40)
    assert list(split_sentences("".join(chosen), "space")) == chosen


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("He lives in the U.S. The rest left.", 2),
        ("So did I. However, no one saw.", 2),
        ("I said no. Then I left.", 2),
        ("See no. 5 of it.", 1),
        ("It was Mr. Smith.", 1),
        ("sa hon. Han gick.", 2),  # "hon" is a word in Swedish, "Hon." a title
        ("1. Install it. 2. Run it.", 2),
        ("A. Lind came. B. Lund went.", 2),
        ("(It rained.) We stayed.", 2),
        ("It ended.[12] Another began.", 2),
        ("the film . the end .", 2),  # tokenised text
        ("He saw the sun. Bob came in the year 1998. It was hot.", 3),
        ("« Oui. » Il partit.", 2),
        ("Elizabeth II. Regina came.", 1),
        ("... And so it went.", 1),
        ("No stop at all", 1),
        ("", 0),
    ],
)
def test_how_many_sentences(text, ends):
    assert len(list(split_sentences(text, "space"))) == ends


def test_a_straight_quote_after_a_cjk_stop_opens_the_next_quotation_or_closes_the_open_one():
    assert list(split_sentences('他走了。"你好。"她说了。', "space")) == ["他走了。", '"你好。"', "她说了。"]


def test_headings_lists_definitions_and_code_are_parted_in_wrapped_text():
    text = textwrap.dedent("""\
        Return the value of it, or of the
        thing beside it.

        Parameters
        ----------
        a : array_like
            The first. It is long,
            and goes on.
        b : int, optional
            The second
        * an item that goes
          on here
        * another. With two

        Note:
            An indented block.

        >>> f("A. B. See? Yes.")
        [1. 2. 3.]
        >>> g()
        """)
    assert [s.strip() for s in split_sentences(text, "space")] == [
        "Return the value of it, or of the\nthing beside it.",
        "Parameters\n----------",
        "a : array_like",
        "The first.",
        "It is long,\n    and goes on.",
        "b : int, optional",
        "The second",
        "* an item that goes\n  on here",
        "* another.",
        "With two",
        "Note:",
        "An indented block.",
        '>>> f("A. B. See? Yes.")\n[1. 2. 3.]\n>>> g()',
    ]


def test_a_fenced_block_is_one_piece_with_its_blank_lines():
    text = "Run it.\n\n```\nx = 1. Y\n\nz = 2. W\n```\n\nDone. Bye."
    assert list(split_sentences(text, "space")) == [
        "Run it.\n\n",
        "```\nx = 1. Y\n\nz = 2. W\n```\n\n",
        "Done. ",
        "Bye.",
    ]


def test_thai_is_parted_at_spaces_between_long_phrases_but_not_before_a_conjunction():
    phrase = "ก" * 45
    text = f"{phrase} {phrase} และ{phrase} {phrase}"
    assert list(split_sentences(text, "paragraph")) == [f"{phrase} ", f"{phrase} และ{phrase} ", phrase]


MARKS = st.sampled_from(list(".!?…。！？।؟\"'“”«»‹›()[]「」\n\n  \t-*#>`|:=1aAbZzÄéяЖ的は가กا\u0301\u200d\u00a0😀"))


@given(
    st.one_of(st.text(MARKS, max_size=200), st.text(max_size=80)),
    st.sampled_from(["auto", "paragraph", "space"]),
    st.integers(20, 60),
)
@example("```\nnever closed\n\nA. B", "space", 20)
@example(" \n \n", "space", 20)
def test_sentences_concatenate_to_the_text_within_the_bound(text, newline, max_chars):
    cuts = []
    sentences = list(split_sentences(text, newline, max_chars=max_chars, on_cut=lambda: cuts.append(1)))
    assert "".join(sentences) == text
    assert all(0 < len(sentence) <= max_chars for sentence in sentences)
    if not cuts:
        assert sentences == list(split_sentences(text, newline, max_chars=10_000))


@given(st.text(MARKS, max_size=200))
def test_every_newline_ends_a_sentence_where_it_is_a_paragraph(text):
    for sentence in split_sentences(text, "paragraph"):
        assert "\n" not in sentence.strip()


def test_a_cut_goes_after_a_space_and_not_before_a_combining_mark():
    assert list(split_sentences("word " * 30, max_chars=22)) == ["word word word word "] * 7 + ["word word "]
    accented = "e\u0301" * 100
    pieces = list(split_sentences(accented, max_chars=21))
    assert "".join(pieces) == accented
    assert not any(piece.startswith("\u0301") for piece in pieces)


@pytest.mark.parametrize(
    "unit",
    ["a", ".", ".)", "A.", '。"', "（。", "a. b. ", "1. ", "\t\n", "| a\n", ">>> a\n", "e\u0301", "ก ", "`", "- "],
)
def test_time_is_linear_in_the_length(unit):
    def seconds(size):
        text = "x" + unit * (size // len(unit))
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            for _ in split_sentences(text, "auto"):
                pass
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(10_000), seconds(100_000)
    assert large < 40 * small + 0.05, f"10 times the text took {large / small:.0f} times as long"


def prose(rng, sentences):
    """Random words of 1 to 11 letters, some sentences with a stop."""
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 11))) for _ in range(sentences * 12)]
    return " ".join(w.capitalize() + "." if rng.random() < 0.08 else w for w in words)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("width", [50, 72, 100])
def test_text_that_was_wrapped_at_a_margin_is_known(seed, width):
    rng = random.Random(seed)
    text = "\n\n".join(textwrap.fill(prose(rng, 6), width) for _ in range(4))
    assert is_hard_wrapped(text)


@pytest.mark.parametrize("seed", range(10))
def test_one_sentence_or_paragraph_a_line_is_no_wrapping(seed):
    rng = random.Random(seed)
    lines = [prose(rng, rng.choice([1, 1, 2, 5])) + "." for _ in range(60)]
    assert not is_hard_wrapped("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "apple\nbanana\ncherry\ndate",  # a list of words
        "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\nRough winds do shake the buds",
        "one line only",
        "two\n\nparagraphs",
        "",
        "x" * 500 + "\n" + "y" * 500,
    ],
)
def test_what_is_not_wrapped(text):
    assert not is_hard_wrapped(text)


def test_two_lines_are_wrapped_if_the_sentence_goes_on():
    line = "A sentence that is long enough to have reached some margin"
    assert is_hard_wrapped(f"{line}\nand goes on here.")
    assert not is_hard_wrapped(f"{line}.\nAnother one.")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [50, 72, 100])
def test_prose_is_unwrapped_and_what_stands_between_stays(seed, width):
    rng, between = random.Random(seed), "* one item\n* another\n\n    code = 1\n    more = 2\n\nTwo short\nverses"
    said = [prose(rng, 6) for _ in range(3)]
    shown = unwrapped(
        "\n\n".join([*(textwrap.fill(one, width) for one in said), between, textwrap.fill(said[0], width)])
    )
    assert shown == "\n\n".join([*said, between, said[0]])


def test_lines_without_spaces_between_words_stay():
    line = "塩は古くから人の暮らしに欠かせないものであり海の水や岩の中から取り出されて食べ物を長く保つために使われた"
    assert unwrapped(f"{line}\n{line}。") == f"{line}\n{line}。"


TEXTS = st.text(st.sampled_from(list("ab \t\n\n-*>`#|:.=")), max_size=120)


@given(TEXTS, st.booleans())
def test_paragraphs_tile_the_text(text, wrapped):
    spans = list(paragraphs(text, wrapped=wrapped))
    assert [text[start:end] for start, end, _ in spans] == [p for p in (text[a:b] for a, b, _ in spans) if p]
    assert "".join(text[start:end] for start, end, _ in spans) == text


@given(st.lists(st.sampled_from([*"ab \t\n\n*>.", "a line that is long enough to be wrapped, and\n"])).map("".join))
def test_of_an_unwrapped_text_only_newlines_are_others(text):
    shown = unwrapped(text)
    assert len(shown) == len(text)
    assert {(old, new) for old, new in zip(text, shown, strict=True) if old != new} <= {("\n", " ")}


@given(TEXTS)
def test_unwrapped_paragraphs_are_the_lines_with_the_blank_ones_after_them(text):
    twin = [piece for piece in re.split(r"(?<=\n)(?=[^\n]*\S)", text) if piece]
    spans = [text[start:end] for start, end, _ in paragraphs(text, wrapped=False)]
    assert "".join(spans) == text
    assert [s.strip() for s in spans if s.strip()] == [s.strip() for s in twin if s.strip()]


@given(st.text(st.sampled_from(list("ab .\n\n")), max_size=120))
def test_wrapped_prose_has_the_paragraphs_that_blank_lines_part(text):
    text = re.sub(r"\n +(?=\S)", "\n", text).lstrip(" ")  # no indentation: nothing but blank lines parts prose
    text = re.sub(r"(?m)^\.", "b", text)
    found = [text[start:end].strip() for start, end, _ in paragraphs(text, wrapped=True)]
    assert [p for p in found if p] == [p.strip() for p in re.split(r"\n[ \n]*\n", text) if p.strip()]


def test_first_line_indentation_does_not_part_prose():
    text = "    It was a dark night and\nthe wind blew.\n\n    Another one came\nlater.\n"
    assert [text[a:b].strip() for a, b, _ in paragraphs(text, wrapped=True)] == [
        "It was a dark night and\nthe wind blew.",
        "Another one came\nlater.",
    ]


SCRIPTS = st.sampled_from([*(sentence for group in SENTENCES.values() for sentence in group), *UNSPACED, "ก" * 45])


@given(
    st.one_of(st.text(MARKS, max_size=60), st.lists(SCRIPTS, min_size=1, max_size=3).map(" ".join)),
    st.sampled_from(["auto", "paragraph", "space"]),
    st.integers(20, 200),
)
@example(f"{'ก' * 45} {'ก' * 45}", "auto", 200)
@example("彼は言った。", "auto", 200)
@example("", "auto", 200)
def test_what_is_surely_one_sentence_is_not_parted(text, newline, max_chars):
    if is_one_sentence(text, max_chars):
        assert list(split_sentences(text, newline, max_chars=max_chars)) == [text]


@pytest.mark.parametrize(
    "text", ["A parser of dates", "He came late.", "Ein Satz!", "वह घर गया", "그는 걸었다.", ">>> a"]
)
def test_a_short_text_with_a_stop_at_its_end_is_surely_one_sentence(text):
    assert is_one_sentence(text)
    assert not is_one_sentence(f"{text} {text}. B")
