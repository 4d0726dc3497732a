"""Queries whose words have no vector: which way they are asked."""

import numpy as np
import pytest

import wordpipe
from wordpipe.search import CANDIDATES, Hits, mix
from wordpipe.sentences import EncodedBatch
from wordpipe.stages import Ask, Route, routes_of

RARE = "zyzzyva"  # in the texts; the encoder does not know it
ROWS = 60


@pytest.fixture(scope="module")
def index(built, handbook, tmp_path_factory):
    """An index over lines of the handbook, every seventh with a word that has no vector."""
    root = tmp_path_factory.mktemp("routes")
    lines = [line for line in handbook.read_text().splitlines() if len(line) > 40][:ROWS]
    texts = [f"{line} The {RARE} was there." if number % 7 == 0 else line for number, line in enumerate(lines)]
    (root / "notes.txt").write_text("\n\n".join(texts))
    wordpipe.embed(built / "words", root / "notes.txt", output=root / "sentences")
    wordpipe.index(root / "sentences", output=root / "index")
    with wordpipe.open(root / "index") as opened:
        yield opened


def _hits(index, text, **asked):
    found = index.query(text, CANDIDATES, **asked)
    return Hits(np.array([hit["id"] for hit in found]), np.float32([hit["score"] for hit in found]))


def test_the_route_depends_on_what_is_unknown_and_where_it_stands():
    unknown = [[], ["here", "nowhere", "here"], ["here"], ["nowhere"], []]
    empty_Q = np.array([False, False, True, True, True])
    batch = EncodedBatch(np.zeros((5, 2), np.float32), empty_Q, unknown, np.zeros(5, np.int64))
    for way in ("dense", "hybrid"):
        plain = Route(way)
        routes = routes_of(way, batch, {"here"}.__contains__)
        assert routes == [plain, Route("hybrid", ("here",)), Route("lexical", ("here",)), plain, plain]


@pytest.mark.parametrize("mode", ["auto", "hybrid"])
@pytest.mark.parametrize("per_document", [False, True])
def test_without_any_vector_words_answer(index, mode, per_document):
    index.artifact.manifest.facts["lexical"]["mode"] = "dense"
    (answer,) = index.answer([RARE], 5, Ask(mode=mode, per_document=per_document))
    assert answer.way == "lexical"
    assert answer.by_words == [RARE]
    assert answer.unknown == {RARE: []}  # it stands there: no other spelling is meant
    assert answer.hits
    assert answer.hits == index.query(RARE, 5, mode="lexical", per_document=per_document)
    assert index.query(RARE, 5, mode="dense") == []


def test_with_some_vectors_both_answer(index):
    index.artifact.manifest.facts["lexical"] |= {"mode": "dense", "weight": 0.35}
    text = f"{RARE} water"
    (answer,) = index.answer([text], 9, Ask(explain=True, feedback=0))
    assert answer.way == "hybrid"
    mixed = mix(_hits(index, text, mode="dense"), _hits(index, text, mode="lexical"), 0.35, 9)
    assert [hit["id"] for hit in answer.hits] == mixed.rows.tolist()
    np.testing.assert_allclose([hit["score"] for hit in answer.hits], mixed.scores, atol=1e-6)
    assert "lexical" in answer.hits[0]["explain"]


def test_queries_that_go_different_ways_keep_their_order(index):
    index.artifact.manifest.facts["lexical"] |= {"mode": "dense", "weight": 0.35}
    texts = [RARE, "water", f"{RARE} water", "qxqxq", "water", RARE]
    answers = index.answer(texts, 4)
    assert [answer.way for answer in answers] == ["lexical", "dense", "hybrid", "dense", "dense", "lexical"]
    assert [answer.query for answer in answers] == texts
    assert [answer.hits for answer in answers] == [index.query(text, 4) for text in texts]
    assert answers[3].hits == []


@pytest.mark.parametrize("asked", [{"min_score": -1.0}, {"mode": "dense"}, {"weight": 1.0}])
def test_a_least_score_or_vectors_alone_keep_their_scale(index, asked):
    (answer,) = index.answer([RARE], 4, Ask(**asked))
    assert answer.hits == []
    assert answer.by_words == []


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        ({"where": "line < 0"}, "the condition is true of 0 of ", "wordpipe show"),
        ({"mode": "dense"}, "nothing was found", "--mode lexical"),
        ({"mode": "lexical"}, "nothing was found", "other words"),
        ({"where": "line > 0", "mode": "dense"}, "nothing was found", "--mode lexical"),
    ],
)
def test_what_is_said_where_nothing_was_found(index, asked, message, hint):
    error = index.nothing_found(Ask(**asked))
    assert message in error.message
    assert error.hint is not None
    assert hint in error.hint


def test_what_was_measured_for_auto_is_said_once(built, cli, tmp_path):
    first = cli("index", built / "sentences", "-o", tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as opened:
        facts = opened.artifact.manifest.facts["lexical"]
    assert facts["measured"] is not None
    assert first.err.count("--mode auto answers by ") == 1
    assert f"nDCG@10 {facts['measured']['ndcg_at_10']['dense']:.3f} by vectors" in first.err
    again = cli("index", built / "sentences", "-o", tmp_path / "index", "--update")
    assert again.code == 0
    assert "--mode auto" not in again.err
