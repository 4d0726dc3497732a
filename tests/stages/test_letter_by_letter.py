"""Titles typed letter by letter, as the page asks: from the third letter on the title, or the word that is typed, is shown."""

import random

import pytest

import wordpipe

FIRST = [
    "amber",
    "arctic",
    "blue",
    "brass",
    "bright",
    "broken",
    "bronze",
    "calm",
    "cedar",
    "clear",
    "cold",
    "copper",
    "coral",
    "crystal",
    "dark",
    "deep",
    "distant",
    "dry",
]
SECOND = [
    "river",
    "rivet",
    "ridge",
    "ripple",
    "harbour",
    "harvest",
    "hammock",
    "market",
    "marble",
    "marsh",
    "garden",
    "garnet",
    "gallery",
    "bridge",
    "bristle",
    "brook",
    "mountain",
    "mouse",
    "motor",
    "lantern",
    "lance",
    "landing",
    "valley",
    "valve",
    "vapour",
    "orchard",
    "orbit",
    "organ",
    "candle",
    "canyon",
    "canvas",
]
N_TITLES = 200


def test_what_is_typed_is_on_screen_in_nearly_every_state(tmp_path):
    pairs = [(one, other) for one in FIRST for other in SECOND]
    drawn = random.Random(1).sample(pairs, N_TITLES)
    others = random.Random(2).choices(SECOND, k=N_TITLES)
    rows = [
        {"id": f"{number}", "title": f"{one} {other}s", "text": f"A note on {other}s, kept beside the {beside}."}
        for number, ((one, other), beside) in enumerate(zip(drawn, others, strict=True))
    ]
    corpus = wordpipe.ingest(rows, output=tmp_path / "corpus")
    made = wordpipe.index(corpus, output=tmp_path / "index", unit="document")
    states = shown = 0
    with wordpipe.open(made) as index:
        for row in rows[::8]:
            title = row["title"]
            for stop in range(3, len(title) + 1):
                hits = index.query(title[:stop], k=10, prefix=True)
                word = title[: title.index(" ")] if stop <= title.index(" ") + 1 else title.split()[1]
                seen = [f"{hit['title']} {hit['text']}" for hit in hits]
                states += 1
                shown += any(hit["id"] == row["id"] for hit in hits) or any(word in text for text in seen)
    assert states > 200
    assert shown / states >= 0.95


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """An index of five notes, open."""
    texts = [
        "The stability of thin-walled tubes.",
        "A thin coat of paint on the outer walk.",
        "Walled gardens of the north.",
        "Send an e-mail to the office, with a letter.",
        "Servers in node.js, and notes on theory.",
    ]
    folder = tmp_path_factory.mktemp("notes")
    corpus = wordpipe.ingest([{"id": str(n), "text": text} for n, text in enumerate(texts)], output=folder / "corpus")
    with wordpipe.open(wordpipe.index(corpus, output=folder / "index", unit="document"), "index") as index:
        yield index


@pytest.mark.parametrize(
    ("typed", "best"),
    [
        ("stability of thin-w", "0"),  # of what a hyphen joins the last part alone is unfinished
        ("thin-walle", "0"),
        ("thin-wal*", "0"),
        ("e-ma", "3"),
        ("e-mai", "3"),  # a beginning of email
        ("office's", "3"),
        ("node.j", "4"),  # a name with signs stays whole
        ("the ", "4"),  # small words alone: the last one is a beginning
        ("on the ", "4"),
    ],
)
def test_words_with_signs_and_small_words_are_found_while_they_are_typed(notes, typed, best):
    hits = notes.query(typed, prefix=True)
    assert hits[0]["id"] == best


def test_a_beginning_with_signs_is_strict_behind_a_sign(notes):
    assert [hit["id"] for hit in notes.query("gardens stability paint -thin-wal*")] != []
    assert {hit["id"] for hit in notes.query("walled thin -thin-wal*")} == {"1", "2"}
    assert {hit["id"] for hit in notes.query("walled thin +thin-wal*")} == {"0"}


def test_small_words_that_are_finished_find_nothing(notes):
    assert notes.query("the") == []
    assert notes.query("the ") == []
