"""Titles typed letter by letter, as the page asks: from the third letter on the title, or the word that is typed, is shown."""

import random

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
