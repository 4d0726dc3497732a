"""Tags mean the spans that conlleval counts, in every scheme; sequences are legal and the most probable ones."""

import itertools
import re

import numpy as np
import pytest

from wordpipe.heads import best_tags, chunks_of, tag_vocabulary, words_of

SENTENCE = [("PER", 0, 2), ("LOC", 2, 3), ("LOC", 3, 5), ("PER", 6, 7)]  # of 8 words
SCHEMES = {
    "IOB1": "I-PER I-PER I-LOC B-LOC I-LOC O I-PER O",
    "IOB2": "B-PER I-PER B-LOC B-LOC I-LOC O B-PER O",
    "IOBES": "B-PER E-PER S-LOC B-LOC E-LOC O S-PER O",
    "BILOU": "B-PER L-PER U-LOC B-LOC L-LOC O U-PER O",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_means_the_same_spans(scheme):
    assert chunks_of(SCHEMES[scheme].split()) == SENTENCE


@pytest.mark.parametrize(
    ("tags", "spans"),
    [  # what conlleval makes of sequences that no scheme has
        ("I-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("O I-PER I-PER", [("PER", 1, 3)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("E-PER", [("PER", 0, 1)]),
        ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("S-PER I-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER E-PER I-PER", [("PER", 0, 2), ("PER", 2, 3)]),
        ("O O", []),
        ("", []),
        ("NOUN NOUN VERB", [("NOUN", 0, 1), ("NOUN", 1, 2), ("VERB", 2, 3)]),
        ("I B I", [("", 0, 1), ("", 1, 3)]),
        ("B-a-b I-a-b", [("a-b", 0, 2)]),
        ("X-PER X-PER", [("X-PER", 0, 1), ("X-PER", 1, 2)]),
    ],
)
def test_illegal_and_other_tags(tags, spans):
    assert chunks_of(tags.split()) == spans


def conlleval(tags):
    """The published rules, as they are written there: two tables of what ends and what begins a chunk."""
    parts = [("O", "") if tag == "O" else tuple(tag.split("-", 1)) for tag in tags] + [("O", "")]
    found, first, before, kind = [], None, "O", ""
    for place, (tag, label) in enumerate(parts):
        ends = (
            (before in "BI" and tag in "BSO") or before in "ES" or (before != "O" and kind != label)
        ) and first is not None
        if ends:
            found.append((kind, first, place))
            first = None
        begins = (tag in "BS" or (before in "EOS" and tag in "EI") or (tag != "O" and kind != label)) and tag != "O"
        if begins:
            first = place
        before, kind = tag, label
    return found


def test_random_tags_equal_the_published_rules():
    random = np.random.default_rng(1)
    names = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("x", "y"))]
    for _ in range(3000):
        tags = random.choice(names, random.integers(0, 9)).tolist()
        assert chunks_of(tags) == conlleval(tags), tags


def legal(tags, names):
    """Whether a sequence is legal, said plainly: read as spans and written again it is the same."""
    labels = {tag.split("-")[1] for tag in names if tag != "O"}
    marked = any(tag[0] in "ES" for tag in names)
    for label, first, end in chunks_of(tags):
        if label not in labels:
            return False
        begun = f"B-{label}" in names
        for place in range(first, end):
            prefix, last = tags[place][0], place == end - 1
            if begun and place == first and prefix not in "BS":
                return False
            if marked and last and prefix in "BI":
                return False
            if marked and not last and prefix == "E":
                return False
    return True


@pytest.mark.parametrize("names", ["O B-x I-x", "O I-x I-y", "O B-x I-x E-x S-x", "O B-x I-x B-y I-y"])
def test_the_best_legal_sequence_of_all(names):
    random, names = np.random.default_rng(3), names.split()
    for _ in range(40):
        logprobs = np.log(random.dirichlet(np.ones(len(names)), 4))
        found = best_tags(logprobs, names)
        score = {
            tags: sum(logprobs[place, names.index(tag)] for place, tag in enumerate(tags))
            for tags in itertools.product(names, repeat=4)
            if legal(list(tags), names)
        }
        assert tuple(found) == max(score, key=score.__getitem__)


def test_no_words_have_no_tags():
    assert best_tags(np.zeros((0, 2)), ["O", "B-x"]) == []
    assert tag_vocabulary(["B-x", "B-x"]) == ("O", "B-x")


def test_words_are_what_white_space_parts():
    for text in ("a  b\tc", " x ", "", "naïve café", "日本 語", "e\u0301 \U0001f600 x"):
        assert [text[first:end] for first, end in words_of(text)] == re.split(r"\s+", text.strip()) * bool(text.strip())
