"""Scores by the age of rows and by a number of theirs: --newer-better, --half-life and --boost, in all modes, explained."""

import json
import math
from datetime import date, timedelta

import numpy as np
import pytest

import wordpipe
from wordpipe.errors import ConfigError
from wordpipe.search import Hits, weighed

ASKED = "salt water of the sea"
NEWEST = date(2024, 3, 31)


@pytest.fixture(scope="module")
def made(built, handbook, tmp_path_factory):
    """The handbook with a day, a day as text, a year and a number for each note; some have none."""
    root = tmp_path_factory.mktemp("weighed")
    blocks = [block.split("\n", 1) for block in handbook.read_text().split("\n\n")[:60] if "\n" in block]
    rows = []
    for number, (title, text) in enumerate(blocks):
        day = None if number % 7 == 3 else NEWEST - timedelta(days=(37 * number) % 400)
        said = "unknown" if day is None else [f"{day}T06:30:00+02:00", f"{day}", f"{day:%Y-%m}"][number % 3]
        rows.append({
            "title": title, "text": text, "day": day and str(day), "said": said, "year": 1900 + number,
            "loads": None if number % 5 == 2 else number * number, "tags": ["x"],
        })  # fmt: skip
    fields = ["day:date", "said", "year:int", "loads:int", "tags"]
    wordpipe.ingest(rows, output=root / "corpus", metadata=fields, valid=0)
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document")
    wordpipe.index(root / "sentences", output=root / "index")
    return root / "index", rows


@pytest.fixture(scope="module")
def index(made):
    with wordpipe.open(made[0], "index") as opened:
        yield opened


def age_of(row):
    return None if row["day"] is None else (NEWEST - date.fromisoformat(row["day"])).days


def boost_of(row, rows):
    largest = max(one["loads"] or 0 for one in rows)
    return 1 + math.log1p(row["loads"] or 0) / math.log1p(largest)


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_scores_are_multiplied_as_documented(made, index, mode):
    """The slow twin: every score by hand, then sorted."""
    _, rows = made
    median = float(np.median([age for row in rows if (age := age_of(row)) is not None]))
    expected = {}
    for hit in index.query(ASKED, 1000, mode=mode):
        row = rows[hit["row"]]
        age = age_of(row)
        factor = 2 ** (-(median if age is None else age) / 90) * boost_of(row, rows)
        expected[hit["row"]] = hit["score"] * factor if hit["score"] > 0 else hit["score"]
    options = {"mode": mode, "newer_better": "day", "half_life": "90d", "boost": "loads"}
    found = index.query(ASKED, 1000, **options)
    assert [hit["score"] for hit in found] == sorted((hit["score"] for hit in found), reverse=True)
    assert {hit["row"]: hit["score"] for hit in found} == pytest.approx(expected, rel=1e-5)
    pages = [index.query(ASKED, 7, offset=n, **options) for n in range(0, len(found), 7)]
    assert [hit for page in pages for hit in page] == found


@pytest.mark.parametrize(("field", "half_life"), [("said", "30d"), ("year", "10y"), ("day", "0.5mo"), ("day", "100h")])
def test_dates_are_read_as_they_are_written(made, index, field, half_life):
    _, rows = made
    whole = {hit["row"]: hit["score"] for hit in index.query(ASKED, 1000, mode="lexical")}
    options = {"mode": "lexical", "newer_better": field, "half_life": half_life, "explain": True}
    days = {"30d": 30, "10y": 3652.5, "0.5mo": 365.25 / 24, "100h": 100 / 24}[half_life]
    for hit in index.query(ASKED, 1000, **options):
        newer, row = hit["explain"]["newer"], rows[hit["row"]]
        assert newer["field"] == field
        assert newer["has_date"] == (field == "year" or row["day"] is not None)
        assert newer["factor"] == pytest.approx(2 ** (-newer["days"] / days), rel=1e-3)
        assert hit["score"] == pytest.approx(whole[hit["row"]] * newer["factor"], rel=1e-5)
        if field == "year":
            newest = max(one["year"] for one in rows)
            assert newer["days"] == (date(newest, 1, 1) - date(row["year"], 1, 1)).days
        if field == "day" and row["day"]:
            assert newer["days"] == age_of(row)


def test_the_best_row_of_a_document_and_lists_without_words_are_weighed_too(made, index):
    _, rows = made
    options = {"mode": "lexical", "newer_better": "day", "half_life": "30d"}
    assert index.query(ASKED, 5, per_document=True, **options) == index.query(ASKED, 5, **options)
    listed = index.query("", 5, where="day is not null", newer_better="day", half_life="1d")
    ages = [age_of(rows[hit["row"]]) for hit in listed]
    assert ages == sorted(age for row in rows if (age := age_of(row)) is not None)[:5]
    loads = sorted((row["loads"] or 0 for row in rows), reverse=True)[:3]
    assert [rows[hit["row"]]["loads"] for hit in index.query("year:1900..1990", 3, boost="loads")] == loads


def test_nothing_is_weighed_by_default(index):
    explained = index.query(ASKED, 10, explain=True)
    assert [hit["score"] for hit in index.query(ASKED, 10)] == [hit["score"] for hit in explained]
    assert all({"newer", "boost"}.isdisjoint(hit["explain"]) for hit in explained)


def test_the_command_and_the_server_say_by_what_a_score_was_multiplied(made, cli, serving):
    flags = ["--newer-better", "day", "--half-life", "30d", "--boost", "loads"]
    told = cli("query", made[0], ASKED, *flags, "--explain", "--format", "plain", "--mode", "lexical", "-k", 3)
    assert "newer × " in told.out
    assert "boost × " in told.out
    text = " ".join(told.out.split())
    assert "days older than the newest row" in text
    assert "2 to the power of -age / half-life" in text
    piped = cli("query", made[0], ASKED, *flags, "--explain", "--format", "tsv")
    assert "boost × " in piped.out.splitlines()[0]
    lines = cli("query", made[0], ASKED, *flags, "--json")
    params = {"q": ASKED, "newer_better": "day", "half_life": "30d", "boost": "loads"}
    assert serving(made[0]).get("/search", params=params).text == lines.out
    assert json.loads(lines.out.splitlines()[0])["query"] == ASKED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"newer_better": "dey"}, "did you mean day"),
        ({"newer_better": "tags"}, "the field has no dates"),
        ({"newer_better": "title"}, "the field has no dates"),
        ({"boost": "said"}, "the field has no numbers"),
        ({"boost": "load"}, "did you mean loads"),
        ({"half_life": "30d"}, "half_life needs newer_better"),
        ({"newer_better": "day", "half_life": "soon"}, "a time such as 30d"),
        ({"newer_better": "day", "half_life": "0d"}, "a time such as 30d"),
        ({"newer_better": "day", "sort": "day"}, "newer_better cannot be used with sort"),
    ],
)
def test_a_field_that_does_not_fit_is_refused(index, options, said):
    with pytest.raises(ConfigError) as caught:
        index.query(ASKED, **options)
    assert said in str(caught.value)


def test_no_factor_is_too_small_to_order_rows():
    hits = Hits(np.arange(4), np.float32([4, 3, 2, 0]))
    found = weighed(hits, np.array([-90_000.0, -80_000, -70_000, 5]), 4)
    assert found.rows.tolist() == [2, 1, 0, 3]
    assert found.scores.tolist() == [0, 0, 0, 0]
    some = weighed(hits, np.array([-1.0, 0, 5, 5]), 2)
    assert (some.rows.tolist(), some.scores.tolist()) == ([1, 0, 2, 3], [3, 2, 2, 0])
