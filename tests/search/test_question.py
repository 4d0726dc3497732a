"""The search language: a table of queries and their readings; rows that meet a query, by a slow twin over the texts."""

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordpipe.search import LexicalIndex, Question, field_kind, read_question, rows_matching
from wordpipe.search.settings import LexicalSettings

FIELDS = {
    "lang": "text", "Year": "number", "title": "text", "day": "date", "open": "flag", "id": "text", "tags": "text",
    "ship date": "date", "@level": "text",
}  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "why does the sea have tides", "f(x) C++ 10:30 http://x.y e-mail C# .NET node.js", '5" pipe, 12" disk', "a - b",
        "std::vector", "--oneline", "vitamins (B12) deficiency", "((a))", "x)", "* ** **bold**", "title:",
        "TO BE OR NOT TO BE",
        "Re: [PATCH] x", "don't", "a+b=c", "-- - +", "50% of x & y", "wer? was!", "10 - 5", "±5", "1:30", "C:\\temp",
        "@user #tag",
        "rock'n'roll", "and or not", "And Or Not", "α:β", "title :x",
    ],
)  # fmt: skip
def test_ordinary_text_is_words_as_typed(query):
    found = read_question(query, FIELDS)
    assert (found.text, found.clause, found.prefixes, found.remarks) == (query, None, (), ())


def shown(clause) -> str:
    """A clause in one line."""
    kind, parts = type(clause).__name__, []
    if kind in ("AllOf", "AnyOf"):
        return f"{'all' if kind == 'AllOf' else 'any'}({', '.join(map(shown, clause.parts))})"
    if kind == "Not":
        return f"not {shown(clause.part)}"
    if kind == "FieldIs":
        low, high = (
            ("(" if clause.open_low else "[") + str(clause.low),
            str(clause.high) + (")" if clause.open_high else "]"),
        )
        parts = [clause.value] if clause.value is not None else [f"{low}..{high}"]
        return f"{clause.name}={parts[0]}"
    return {"Phrase": '"{}"', "Words": "{}", "Prefix": "{}*"}[kind].format(clause.text)


@pytest.mark.parametrize(
    ("query", "text", "clause"),
    [
        ('"progress bar"', "progress bar", '"progress bar"'),
        ("“progress bar” x", "progress bar x", '"progress bar"'),
        ("„Übung macht“ x", "Übung macht x", '"Übung macht"'),
        ("«бег на» x", "бег на x", '"бег на"'),
        ("water -boiler", "water", "not boiler"),
        ("water −boiler", "water", "not boiler"),
        ("-boiler water", "water", "not boiler"),
        ('x -"y z"', "x", 'not "y z"'),
        ("NOT boiler water", "water", "not boiler"),
        ("NOT NOT x y", "x y", None),
        ("NOT -x y", "x y", None),
        ("+a b", "a b", "a"),
        ("don't +stop", "don't stop", "stop"),
        ("cat OR dog food", "cat dog food", "any(cat, dog)"),
        ("a OR OR b", "a b", "any(a, b)"),
        ('a OR b OR "c d" e', "a b c d e", 'any(a, b, "c d")'),
        ("(a b) OR c", "a b c", "any(all(a, b), c)"),
        ("a OR (b c)", "a b c", "any(a, all(b, c))"),
        ("x -(a OR b)", "x", "not any(a, b)"),
        ("x -(a b)", "x", "not all(a, b)"),
        ("a AND b", "a b", "all(a, b)"),
        ("a AND b AND c", "a b c", "all(a, b, c)"),
        ("a AND b OR c", "a b c", "all(a, any(b, c))"),
        ("a AND NOT b", "a", "all(a, not b)"),
        ("(a AND b) OR (c -d)", "a b c", "any(all(a, b), all(c, not d))"),
        ("-x OR y z", "y z", "any(not x, y)"),
        ("SQL OR CSV", "SQL CSV", "any(SQL, CSV)"),
        ("lang:en tea", "tea", "lang=en"),
        ("LANG:en -lang:de", "", "all(lang=en, not lang=de)"),
        ("year:2000..2010", "", "Year=[2000..2010]"),
        ("year:..2000 x", "x", "Year=[None..2000]"),
        ("year:2000.. x", "x", "Year=[2000..None]"),
        ("year:>=2000 x", "x", "Year=[2000..None]"),
        ("year:>2000 year:<2010", "", "all(Year=(2000..None], Year=[None..2010))"),
        ("day:2024-05", "", "day=2024-05"),
        ("open:yes", "", "open=yes"),
        ('title:"sea salt" bees', "sea salt bees", "title=sea salt"),
        ("title:bees", "bees", "title=bees"),
        ("id:12-3", "", "id=12-3"),
        ("(lang:en OR lang:de) tea", "tea", "any(lang=en, lang=de)"),
        ("-boiler", "", "not boiler"),
        ("+kube* x", "x", "kube*"),
        ("x -kube*", "x", "not kube*"),
        ("+C++ x", "C++ x", "C++"),
        ("olympics -2020", "olympics", "not 2020"),
        ('"ship date":2024-05 x', "x", "ship date=2024-05"),
        ('-"Ship Date":2024', "", "not ship date=2024"),
        ("x ship date:..2024", "x", "ship date=[None..2024]"),
        ('@level:"very high"', "", "@level=very high"),
        ('"lang":en', "", "lang=en"),
        ("name:bees", "bees", "title=bees"),
        ("x year>=2000", "x", "Year=[2000..None]"),
        ("year>2000 year<2010", "", "all(Year=(2000..None], Year=[None..2010))"),
        ("day>2024-05-01 x", "x", "day=(2024-05-01..None]"),
        ("tea lang=en -lang==de", "tea", "all(lang=en, not lang=de)"),
        ("year > 5", "", "Year=(5..None]"),
        ("x year >= 1,5 lang = en", "x", "all(Year=[1,5..None], lang=en)"),
        ("x year != 5", "x", "all(not Year=, not Year=5)"),
        ("lang!=en", "", "all(not lang=, not lang=en)"),
        ('lang:"" x', "x", "lang="),
        ('-lang:""', "", "not lang="),
        ('"lang: en" x', "en x", 'any("lang: en", lang=en)'),
        ('-"year: 7"', "", 'not any("year: 7", Year=7)'),
        ("day>=2024-03-05T08:00Z", "", "day=[2024-03-05T08:00Z..None]"),
        ("(lang=en OR year<5) x", "x", "any(lang=en, Year=[None..5))"),
    ],
)  # fmt: skip
def test_operators_are_read(query, text, clause):
    found = read_question(query, FIELDS, also={"name": "title"})
    assert (found.text, clause and shown(found.clause), found.remarks) == (text, clause, ())


@pytest.mark.parametrize(
    "query", ['title="bees"', "name=bees", "a>5", "a=b", "year>", "lang=", "year > x", "b > 5", "C++>5"]
)
def test_a_comparison_that_is_of_no_field_is_words(query):
    assert read_question(query, FIELDS, also={"name": "title"}) == Question(query)


def test_an_unfinished_word_ranks_by_the_words_that_begin_with_it():
    found = read_question("kube* client", FIELDS)
    assert (found.text, found.prefixes, found.clause) == ("client", ("kube",), None)


@pytest.mark.parametrize(
    ("query", "text", "remark"),
    [
        ('"not closed', "not closed", "a quotation mark is not closed"),
        ("x OR", "x or", "OR does not stand between two words here"),
        ("AND x", "and x", "AND does not stand between two words here"),
        ("x NOT", "x not", "NOT does not stand between two words here"),
        ("(not closed", "not closed", "a bracket is not closed"),
        ("langg:de x", "langg:de x", "no field is called 'langg' (did you mean lang?)"),
        ("langg>5 x", "langg>5 x", "no field is called 'langg' (did you mean lang?)"),
        ("foo:bar x", "foo:bar x", "no field is called 'foo': searched as words; fields: lang, Year, title, day"),
        ('foo:"a b"', 'foo:"a b"', "no field is called 'foo'"),
        ("year:abc x", "year:abc x", "the field Year needs a number, not 'abc'"),
        ("day:soon", "day:soon", "the field day needs a date such as 2024-05, not 'soon'"),
        ("day:2024-13 x", "day:2024-13 x", "the field day needs a date such as 2024-05, not '2024-13'"),
        ("year>x", "year>x", "the field Year needs a number, not 'x'"),
        ("day>=2024-02-30", "day>=2024-02-30", "the field day needs a date such as 2024-05, not '2024-02-30'"),
        ("bo*er x", "bo*er x", "a star stands for letters only at the end of a word (bo*): bo*er is searched as words"),
        ("*ation", "*ation", "a star stands for letters only at the end of a word (ation*)"),
        ("open:perhaps", "open:perhaps", "the field open needs true or false, not 'perhaps'"),
        (" ".join(f"+w{n}" for n in range(70)), " ".join(f"+w{n}" for n in range(70)), "more than 64 operators"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_operator_is_words_and_said(query, text, remark):
    found = read_question(query, FIELDS)
    assert found.text == text
    assert found.clause is None
    assert [one[: len(remark)] for one in found.remarks] == [remark]


@pytest.mark.parametrize(
    ("query", "text", "remarks"),
    [
        ("year<5 MB x", "MB x", ("Year: compared with 5; MB is searched as a word",)),
        ("year:5..20 kB", "kB", ("Year: compared with 5..20; kB is searched as a word",)),
        ("year<1.000 x", "x", ("Year: 1.000 is read as 1; a thousand is written 1000 or 1,000",)),
        ("year<1,000 mobs", "mobs", ()),
        ("year<0.125 x", "x", ()),
    ],
)
def test_a_number_that_is_perhaps_another_one_is_compared_and_said(query, text, remarks):
    found = read_question(query, FIELDS)
    assert (found.text, found.remarks) == (text, remarks)
    assert found.clause is not None


def test_a_quoted_name_of_no_field_is_a_phrase_and_said():
    found = read_question('"foo bar":>3', FIELDS)
    assert shown(found.clause) == '"foo bar"'
    assert found.remarks[0].startswith("no field is called 'foo bar': searched as words; fields: lang, ")


pieces = st.lists(
    st.sampled_from(
        [
            '"',
            "“",
            "”",
            "(",
            ")",
            "-",
            "+",
            "OR",
            "AND",
            "NOT",
            " ",
            " ",
            " ",
            "a",
            "b",
            "*",
            "lang:",
            "year:",
            "..",
            ">",
            "1",
            "é",
        ]
    ),
    max_size=24,
).map("".join)


@given(query=st.one_of(pieces, st.text(max_size=40)))
@example("OR OR")
@example("a AND AND OR OR")
@example("NOT NOT")
def test_reading_never_fails_and_loses_no_word_but_what_is_excluded(query):
    found = read_question(query, FIELDS)
    if found.clause is None and not found.prefixes:
        assert re.findall(r"\w", found.text.lower()) == re.findall(r"\w", query.lower())
    if not any(mark in query for mark in '"“”„«»'):  # "OR" between marks is a word
        assert not any(sign in found.text.split() for sign in ("OR", "AND", "NOT")) or query.upper() == query


def test_many_signs_are_read_in_one_pass():
    for query in ('"' * 100_001, "(" * 100_000, "“" * 100_000, "-a " * 30_000, "a OR " * 30_000, "NOT " * 50_000):
        read_question(query, FIELDS)


# ---- rows that meet a query

WORDS = ["bee", "bees", "dance", "dancing", "hive", "the", "of", "honey", "C++", "c", "café", "x1", "node.js"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=20)


class Texts:
    """Texts that are searched, as an index holds them."""

    def __init__(self, some: list[str], **columns: list) -> None:
        self._texts, self._columns = some, columns
        self.lexical = LexicalIndex.build(iter(some), LexicalSettings(language="english"))

    def texts_of(self, rows_R):
        return [(self._texts[row],) for row in rows_R.tolist()]

    def field_values(self, name):
        return pa.chunked_array([pa.array(self._columns[name])])

    def rows_with_field(self, text):
        return None


def rows(searched: Texts, query: str, fields=None) -> list[int]:
    clause = read_question(query, fields or {}).clause
    return np.flatnonzero(rows_matching(clause, searched)).tolist()


def has_phrase(text: str, phrase: str) -> bool:
    """The slow twin: words one after the other, folded."""
    fold = lambda one: one.lower().replace("é", "e")  # noqa: E731
    words = re.findall(r"\w+[+#]*", fold(text))
    wanted = re.findall(r"\w+[+#]*", fold(phrase))
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


@given(some=texts, phrase=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
def test_a_phrase_is_found_where_its_words_stand_as_written(some, phrase):
    expected = [row for row, text in enumerate(some) if has_phrase(text, phrase)]
    searched = Texts(some)
    assert rows(searched, f'"{phrase}"') == expected
    assert rows(searched, f'-"{phrase}"') == [row for row in range(len(some)) if row not in expected]


FORMS = {"bee": {"bee", "bees"}, "dance": {"dance", "dancing"}, "hive": {"hive"}, "the": {"the"}, "café": {"café"}}


def holds(text: str, word: str) -> bool:
    return bool(FORMS[word] & {*text.split()})


@given(some=texts, a=st.sampled_from([*FORMS]), b=st.sampled_from([*FORMS]))
def test_words_are_required_excluded_and_chosen_in_any_form(some, a, b):
    searched = Texts(some)
    has_a, has_b = ([holds(text, word) for text in some] for word in (a, b))
    both = [*zip(has_a, has_b, strict=True)]
    assert rows(searched, f"+{a} -{b}") == [row for row, (one, other) in enumerate(both) if one and not other]
    assert rows(searched, f"{a} OR {b}") == [row for row, (one, other) in enumerate(both) if one or other]
    assert rows(searched, f"{a} AND {b}") == [row for row, (one, other) in enumerate(both) if one and other]
    assert rows(searched, f"-({a} OR {b})") == [row for row, (one, other) in enumerate(both) if not (one or other)]


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("progress bar", "A progress-bar for the terminal", True),
        ("progress bar", "progress of a bar", False),
        ("progress bar", "progress bars", False),
        ("to be or not to be", "To be, or not to be?", True),
        ("C++ code", "some C++ code", True),
        ("C code", "some C++ code", False),
        ("straße", "Die STRASSE ist leer", True),
        ("机器学习", "我喜欢机器学习。", True),
        ("機械 学習", "これは機械学習です", True),
        ("学机", "我喜欢机器学习。", False),
        ("สวัสดี", "เขาพูดว่าสวัสดีครับ", True),
        ("नमस्ते दुनिया", "नमस्ते दुनिया!", True),
        ("नमस", "नमस्ते दुनिया!", False),
        ("e\u0301te", "un été chaud", True),
        ("so\u00adft", "soft", True),
        ("line break", "a line\n   break here", True),
        ("10.0.0.5", "see http://10.0.0.5/index", True),
        ("10.0.0.5", "at 10.0.0.5:80.", True),
        ("10.0.0.5", "10 0 0 5", False),
        ("10.0.0.5", "10.0.0.55", False),
        ("progress-bar", "progress bar", False),
        ("2024-05-03", "2024-05-03T10:00:01 up", True),
        ("since 2024-05-03", "since 2024-05-03T10:00:01", True),
        ("2024-05-03", "2024-05-03x", False),
        ("10:00:01", "2024-05-03T10:00:01 up", True),
        ("10:00", "2024-05-03T10:00:01Z", True),
        ("10:00", "x10:00", False),
    ],
)
def test_phrases_of_many_scripts(phrase, text, found):
    assert rows(Texts([text]), f'"{phrase}"') == [0] * found


def test_fields_are_compared_by_their_kind():
    day = dt.date
    searched = Texts(
        ["a", "b", "c", "d"],
        year=[1999, 2000, 2010, None],
        lang=["en", "de", "en-GB", None],
        who=["Ada Lovelace", "Grace Hopper", "ADA", ""],
        day=[day(2024, 5, 31), day(2024, 6, 1), day(2023, 12, 31), None],
        open=[True, False, None, True],
        tags=[["x y", "z"], ["z"], [], None],
        id=["1", "12", "1-2", "2"],
    )
    fields = {
        "year": "number", "lang": "text", "who": "text", "day": "date", "open": "flag", "tags": "text", "id": "text",
    }  # fmt: skip
    for query, expected in [
        ("year:2000", [1]), ("year:1999..2000", [0, 1]), ("year:>1999", [1, 2]), ("-year:>1999", [0, 3]),
        ("year:<=2000", [0, 1]),
        ("lang:EN", [0, 2]), ("lang:d*", [1]), ("who:ada", [0, 2]), ('who:"ada lovelace"', [0]), ("who:lovelace", [0]),
        ("day:2024", [0, 1]), ("day:2024-05", [0]), ("day:>2024-05", [1]), ("day:..2024-05", [0, 2]), ("day:2024-06-01", [1]),
        ("day:<2024-06", [0, 2]), ("day:>=2024-06", [1]), ("open:true", [0, 3]), ("open:no", [1]), ("tags:z", [0, 1]),
        ("year != 2000", [0, 2]), ('year:""', [3]), ('who:""', [3]), ('tags:""', [2, 3]), ('open:""', [2]), ('day:""', [3]),
        ("day:9999-12-31", []), ("day<2024-06-01T00:00", [0, 2]), ("lang != en", [1]),
        ('tags:"x y"', [0]), ("id:1", [0]), ("id:1-2", [2]), ("lang:en..en", [0, 2]),
    ]:  # fmt: skip
        assert rows(searched, query, fields) == expected, query


def test_times_are_compared_to_their_last_sign_and_in_their_zone():
    at = [dt.datetime(2024, 3, 5, hour, 30) for hour in (7, 8, 9)]
    ahead = pa.array([one - dt.timedelta(hours=2) for one in at], pa.timestamp("s", "+02:00"))
    for searched in (Texts(["a", "b", "c"], day=at), Texts(["a", "b", "c"], day=ahead)):
        for query, expected in [
            ("day>=2024-03-05T08:00", [1, 2]), ("day>2024-03-05T08", [2]), ("day:2024-03-05T08", [1]),
            ("day:2024-03-05T08:30:00", [1]), ("day:2024-03-05", [0, 1, 2]),
        ]:  # fmt: skip
            assert rows(searched, query, {"day": "date"}) == expected, query
    assert rows(Texts(["a", "b", "c"], day=at), "day>=2024-03-05T10:00+02:00", {"day": "date"}) == [1, 2]
    assert rows(Texts(["a", "b", "c"], day=ahead), "day>=2024-03-05T08:00Z", {"day": "date"}) == []


@pytest.mark.parametrize(
    ("cells", "query", "expected"),
    [
        (["1,50", "12,00", "1.234,56", ""], "price>2", [1, 2]),
        (["1,50", "12,00", "1.234,56", ""], "price:1,5", [0]),
        (["1,50", "12,00", "1.234,56", ""], "price:1.5", [0]),
        (["1,50", "12,00", "1.234,56", ""], "price<=1.234,56", [0, 1, 2]),
        (["1.50", "n/a", "20", "unknown"], "price:20.0", [2]),
        (["1.50", "n/a", "20", "unknown"], "price != 20", [0, 1, 3]),
        (["$1,200.50", "3,50 EUR", "0,125"], "price>1000", [0]),
        (["1’200.00", "0,125", "7 000,5"], "price>1", [0, 2]),
        (["1a", "2", "3"], "price:2.0", []),
    ],
)
def test_cells_are_amounts_of_many_countries(cells, query, expected):
    texts = ["x"] * len(cells)
    assert rows(Texts(texts, price=cells), query, {"price": "text"}) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.string(), "text"), (pa.large_string(), "text"), (pa.dictionary(pa.int32(), pa.string()), "text"),
        (pa.list_(pa.string()), "text"), (pa.list_(pa.int64()), None), (pa.bool_(), "flag"), (pa.int16(), "number"),
        (pa.float32(), "number"), (pa.date32(), "date"), (pa.timestamp("us"), "date"), (pa.binary(), None),
    ],
)  # fmt: skip
def test_the_kind_of_a_field_follows_its_column(kind, expected):
    assert field_kind(kind) == expected
