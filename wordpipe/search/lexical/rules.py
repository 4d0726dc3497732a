"""The table of rules that make words of a question and words of a text the same, each with its switch.

A rule of an index is switched off when the index is built (`--without-rules`): the index remembers it, so that updates and
questions go by the same rules. A rule of questions has an option of `query`. Three rules have no switch: the bytes that they
make equal depend on keyboards and programs, and nobody tells them apart.
"""

from typing import NamedTuple


class Rule(NamedTuple):
    """A rule: what it makes equal, and how it is switched off."""

    name: str
    says: str
    written: str  # in a text
    asked: str  # in a question that finds the text
    switch: str


_OF_INDEX, _NONE = "--without-rules", ""
RULES = (
    Rule(
        "case",
        "upper and lower case are one, in every script",
        "STRASSE, ΟΔΟΣ",
        "straße, οδός",
        _NONE,
    ),
    Rule(
        "compatibility",
        "full-width forms, ligatures, raised digits",
        "ﬁle, ＡＢＣ, CO₂",
        "file, abc, co2",
        _NONE,
    ),
    Rule(
        "invisible",
        "soft hyphens and other invisible characters part no word",
        "key·board",
        "keyboard",
        _NONE,
    ),
    Rule(
        "unspaced",
        "a run without spaces is its pairs of characters (Chinese, Japanese, Thai)",
        "小提琴",
        "提琴",
        _NONE,
    ),
    Rule(
        "endings",
        "endings are cut off, in 27 languages",
        "rivers, бегали",
        "river, бегать",
        "--language none",
    ),
    Rule(
        "marks",
        "marks on letters may be left out",
        "café, ёлка, كِتَاب",
        "cafe, елка, كتاب",
        _OF_INDEX,
    ),
    Rule(
        "letters",
        "forms of one letter or digit",
        "مدرسة, काग़ज़, हिन्दी, ٢٠١٩",
        "مدرسه, कागज, हिंदी, 2019",
        _OF_INDEX,
    ),
    Rule(
        "hyphens",
        "hyphens join, also at the end of a line",
        "e-mail, COVID-19",
        "email, covid19",
        _OF_INDEX,
    ),
    Rule(
        "signs",
        "names with signs are words",
        "C++, .NET, 3.11.2, R&D",
        "c++, .net, 3.11.2, r&d",
        _OF_INDEX,
    ),
    Rule(
        "abbreviations",
        "the plural of an abbreviation is the abbreviation",
        "PDFs, llms",
        "pdf, llm",
        _OF_INDEX,
    ),
    Rule(
        "single",
        "single letters, digits and Chinese characters are words",
        "vitamin C, 两只猫",
        "c, 猫",
        _OF_INDEX,
    ),
    Rule(
        "particles",
        "a Korean word is found without its particle",
        "부산에서, NASA가",
        "부산, nasa",
        _OF_INDEX,
    ),
    Rule(
        "syllables",
        "a Korean word is found by pairs of its syllables",
        "중앙도서관",
        "도서관",
        _OF_INDEX,
    ),
    Rule(
        "beginnings",
        "the last word of a question may be unfinished",
        "rivers",
        "riv",
        "--prefix",
    ),
    Rule(
        "spelling",
        "a word that stands nowhere is corrected",
        "kubernetes",
        "kuberntes",
        "--exact",
    ),
)
"""The rules, in the order in which they are shown."""

SWITCHED = tuple(rule.name for rule in RULES if rule.switch == _OF_INDEX)
"""The names of the rules that an index can be built without."""
