"""What is measured of words and vectors where documents are large, by which queries, and the mode that follows from it."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.stages.search import index_lexical


@pytest.mark.slow
def test_the_rows_of_a_book_do_not_look_for_each_other(built, handbook, tmp_path):
    wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="file")
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", threads=1)
    made = wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    assert made.counts["vectors"] > 100
    with Artifact(tmp_path / "index") as artifact:
        assert artifact.manifest.facts["lexical"]["measured"]["by"] == "cuts"


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "by"), [("document", "cuts"), ("sentence", "rows")])
def test_queries_are_drawn_from_the_whole_collection(unit, by, built, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    with (tmp_path / "notes.txt").open("w") as file:
        for _ in range(1_500):
            said = [" ".join(["Salt", *rng.choice(["water", "sea", "bees", "light"], 13)]) for _ in range(2)]
            file.write(". ".join(said) + ".\n\n")
    wordpipe.ingest(tmp_path / "notes.txt", output=tmp_path / "corpus", documents="block", valid=0)
    made = wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit=unit, threads=1)
    asked = []
    measured = index_lexical.measure
    monkeypatch.setattr(index_lexical, "measure", lambda *given: asked.append(given[:2]) or measured(*given))
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    n = made.counts["sentences"]
    assert [queries.how for queries in asked[0]] == [by, "cuts"]
    for queries in asked[0]:
        rows = np.sort(queries.rows)
        assert len(rows) == 300
        quarters = np.bincount(4 * rows // n, minlength=4)
        assert quarters.min() > 40, quarters
        assert rows[-1] > 0.9 * n


@pytest.mark.parametrize(
    ("found", "trained", "mode"),
    [
        ((0.874, 0.873, 0.2), False, "lexical"),
        ((0.873, 0.874, 0.2), False, "hybrid"),
        ((0.5, 0.5, 0.5), False, "hybrid"),
        ((0.1, 0.2, 0.3), False, "dense"),
        ((0.1, 0.2, 0.3), True, "hybrid"),  # it may have learned these very pairs
        ((0.2, 0.1, 0.3), True, "lexical"),
        (None, False, "hybrid"),
        (None, True, "hybrid"),
    ],
)
def test_the_mode_is_the_one_that_found_most(found, trained, mode):
    ndcg = None if found is None else dict(zip(("lexical", "hybrid", "dense"), found, strict=True))
    assert index_lexical.best_mode(ndcg, trained=trained) == mode


@pytest.mark.parametrize(
    ("lexical", "twice", "hybrid", "dense", "mode", "again"),
    [
        (0.50, 0.56, 0.58, 0.2, "hybrid", True),  # vectors bring something to what asking twice brings
        (0.50, 0.56, 0.55, 0.2, "lexical", True),  # all that both gain is the feedback's
        (0.50, 0.51, 0.505, 0.2, "lexical", False),  # and so little is noise
        (0.50, 0.40, 0.52, 0.2, "hybrid", False),  # feedback misleads words, and not both
        (0.50, 0.56, 0.55, 0.6, "dense", True),
        (0.50, 0.56, 0.55, 0.53, "lexical", True),
    ],
)
def test_vectors_are_not_credited_with_feedback(lexical, twice, hybrid, dense, mode, again):
    found = {"lexical": lexical, "lexical_twice": twice, "hybrid": hybrid, "dense": dense, "random_vectors": 0.5}
    assert index_lexical.best_mode(found, trained=False) == mode
    assert index_lexical.pays_twice(found, 300) == again
    assert not index_lexical.pays_twice(found, 20)


@pytest.mark.parametrize(("hybrid", "mode"), [(0.51, "hybrid"), (0.505, "lexical"), (0.503, "lexical")])
def test_vectors_are_no_choice_where_random_ones_find_as_much(hybrid, mode):
    found = {"lexical": 0.50, "lexical_twice": 0.50, "hybrid": hybrid, "dense": 0.2, "random_vectors": 0.505}
    assert index_lexical.best_mode(found, trained=False) == mode


def test_auto_asks_words_twice_where_that_was_measured_to_find_most(built):
    with wordpipe.open(built / "index") as index:
        index.artifact.manifest.facts["lexical"] |= {"mode": "lexical", "feedback": 10}
        asked = "why does the sea have tides"
        assert index.query(asked, 5) == index.query(asked, 5, mode="lexical", feedback=10)
        assert index.query(asked, 5, mode="lexical") == index.query(asked, 5, mode="lexical", feedback=0)
        assert index.query(asked, 5, weight=0.3) == index.query(asked, 5, mode="hybrid", weight=0.3)


def test_recipes_of_equal_names_and_methods_are_too_few_to_judge(built, tmp_path, cli):
    """A name that four recipes have finds the other three, and never what is left of its own: the figure would be 0."""
    rows = [
        {
            "title": f"{words[0]} soup",
            "text": f"{' '.join(words)}. Wash and cut it, and boil it for ten minutes.",
            "n": n,
        }
        for words in combinations_with_replacement(["salt", "water", "sea", "bees", "light"], 4)
        for n in range(2)
    ]
    made = wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    assert made.counts["documents_kept"] == len(rows)
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document", threads=1)
    made = cli("index", tmp_path / "sentences", "-o", tmp_path / "index")
    assert "whether vectors help was not measured, because the texts are too similar: fewer than 30 " in made.err
    with Artifact(tmp_path / "index") as artifact:
        lexical = artifact.manifest.facts["lexical"]
        assert (lexical["mode"], lexical["measured"]) == ("hybrid", None)
    for name in ("sentences", "index"):
        assert "not measured: the texts are too similar" in cli("doctor", tmp_path / name).out


BEGINNINGS = (
    "inspect", "connect", "adopt", "direct", "act", "collect", "protect", "select", "object", "invent", "predict", "elect",
    "react", "project", "report", "support", "exist", "insist", "resist", "consist", "assist", "attend", "extend", "intend",
)  # fmt: skip


def of_endings(names):
    """Records that differ in one word alone, by which its title looks for each."""
    said = (
        "In the days of old it was as {0} as that, and so we say that {0} is what it was for us to see with the others."
    )
    return [{"title": name, "text": said.format(name), "n": n} for n, name in enumerate(names)]


@pytest.mark.landing
@pytest.mark.parametrize(
    ("at_most", "asked", "kept"), [(1000, "auto", True), (40, "auto", True), (1000, "english", False)]
)
def test_endings_are_kept_where_that_finds_more(at_most, asked, kept, built, tmp_path, monkeypatch, cli):
    names = [word + ending for word in BEGINNINGS for ending in ("ed", "ing", "s")]
    monkeypatch.setattr(index_lexical, "_ENDINGS_ROWS", at_most)
    monkeypatch.setattr(index_lexical, "_LEAST_ROWS", 1)
    wordpipe.ingest(of_endings(names), output=tmp_path / "corpus", valid=0)
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document", threads=1)
    said = cli("index", tmp_path / "sentences", "-o", tmp_path / "index", "--language", asked).err
    with Artifact(tmp_path / "index") as artifact:
        facts = artifact.manifest.facts
    assert (facts["lexical"]["language"], facts["lexical"]["stems"]) == ("english", not kept)
    assert f"language of the words: {facts['language']}" in said
    with wordpipe.open(tmp_path / "index") as index:
        found = [hit["title"] for hit in index.query("inspecting", 3, mode="lexical")]
    if not kept:
        assert facts["language"] == "english"
        assert "endings" not in facts["lexical"]
        assert sorted(found) == ["inspected", "inspecting", "inspects"]
        return
    assert found == ["inspecting"]
    assert "endings are kept (nDCG@10 " in cli("show", tmp_path / "index").out
    endings = facts["lexical"]["endings"]
    assert (endings["kept"], endings["by"], endings["rows"]) == (True, "titles", min(at_most, len(names)))
    assert endings["words"] > endings["stems"]
    again = cli("index", tmp_path / "sentences", "-o", tmp_path / "index", "--update")  # takes it over
    assert again.code == 0
    with Artifact(tmp_path / "index") as artifact:
        assert artifact.manifest.facts["lexical"]["endings"] == endings


def test_endings_are_cut_off_where_no_difference_is_beyond_chance(built):
    with Artifact(built / "index") as artifact:
        lexical, language = (artifact.manifest.facts[name] for name in ("lexical", "language"))
    endings = lexical["endings"]
    assert lexical["stems"]
    assert not endings["kept"]
    assert endings["interval"][0] <= endings["words"] - endings["stems"] <= endings["interval"][1]
    assert language.startswith("english (detected), word endings are removed (nDCG@10 ")


@pytest.mark.parametrize(("endings", "stems"), [("remove", True), ("keep", False)])
def test_endings_that_are_chosen_are_not_measured(endings, stems, built, tmp_path):
    """An update with the same choice takes the index over; with another choice, all texts are counted anew."""
    made = wordpipe.index(built / "corpus", output=tmp_path / "index", endings=endings)
    with Artifact(tmp_path / "index") as artifact:
        facts = artifact.manifest.facts
    assert "endings" not in facts["lexical"]
    assert facts["lexical"]["stems"] == stems
    assert facts["language"] == f"english (detected), word endings are {'removed' if stems else 'kept'}"
    assert (
        wordpipe.index(built / "corpus", output=tmp_path / "index", endings=endings, update=True).digest == made.digest
    )
    other = "keep" if stems else "remove"
    wordpipe.index(built / "corpus", output=tmp_path / "index", endings=other, update=True)
    fresh = wordpipe.index(built / "corpus", output=tmp_path / "fresh", endings=other)
    with Artifact(tmp_path / "index") as index, Artifact(tmp_path / "fresh") as anew:
        assert index.manifest.facts["lexical"] == anew.manifest.facts["lexical"]
    assert fresh.counts["texts"]
