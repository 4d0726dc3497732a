"""Search by words in twelve languages: ten kinds of questions in each, over an index as `index` makes it."""

from pathlib import Path

import pytest

import wordpipe
from tests.support.languages import LANGUAGES

QUESTIONS = [(name, question) for name, language in LANGUAGES.items() for question in language.questions]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The open index of each language, made when it is first asked for."""
    folder: Path = tmp_path_factory.mktemp("languages")
    found = {}

    def of(name: str):
        if name not in found:
            rows = [{"id": one, "text": text, "year": year} for one, (year, text) in LANGUAGES[name].texts.items()]
            corpus = wordpipe.ingest(rows, output=folder / name / "corpus")
            made = wordpipe.index(corpus, output=folder / name / "index", unit="document", language="auto")
            found[name] = wordpipe.open(made)
        return found[name]

    yield of
    for one in found.values():
        one.close()


@pytest.mark.parametrize(("name", "question"), QUESTIONS, ids=[f"{name}-{one.kind}" for name, one in QUESTIONS])
def test_the_right_texts_come_first_and_the_wrong_ones_do_not_come(opened, name, question):
    hits = [hit["id"] for hit in opened(name).query(question.asked, k=12, prefix=question.kind == "unfinished")]
    first = question.first.split()
    assert sorted(hits[: len(first)]) == sorted(first), hits
    assert {*question.never.split()}.isdisjoint(hits), hits


def test_there_are_ten_kinds_of_questions_in_twelve_languages():
    assert len(LANGUAGES) == 12
    assert {len({one.kind for one in language.questions}) for language in LANGUAGES.values()} == {10}
    assert len(QUESTIONS) == 120
