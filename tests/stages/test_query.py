"""An index searched by vectors, by words and by both; with conditions, per document, explained; and words without a vector."""

import json

import numpy as np
import pytest

import wordpipe
from wordpipe.artifacts import matrix_of, read_batches
from wordpipe.encoders import EncodedBatch
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.search import CANDIDATES, FEEDBACK, Hits, LexicalIndex, VectorIndex, best_of, fuse, vector_share
from wordpipe.search.settings import LexicalSettings, QueryOptions
from wordpipe.stages import ChosenMode, choose_modes

MODES = ["dense", "lexical", "hybrid"]
ASKED = "salt water in the sea"


@pytest.fixture(scope="module")
def made(built, handbook, tmp_path_factory):
    """Sentences of the handbook with a year and a language, and an index over them."""
    root = tmp_path_factory.mktemp("modes")
    blocks = [block.split("\n", 1) for block in handbook.read_text().split("\n\n")[:60] if "\n" in block]
    with (root / "notes.jsonl").open("w") as file:
        for number, (title, text) in enumerate(blocks):
            row = {"title": title, "text": text, "year": 1990 + number % 20, "lang": ["de", "en", "fr"][number % 3]}
            file.write(json.dumps(row) + "\n")
    wordpipe.ingest(root / "notes.jsonl", output=root / "corpus", metadata=("year:int", "lang"), valid=0)
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", store="float32")
    wordpipe.index(root / "sentences", output=root / "index")
    return root


@pytest.fixture(scope="module")
def index(made):
    with wordpipe.open(made / "index") as opened:
        yield opened


@pytest.mark.landing
def test_the_weight_is_measured_and_auto_asks_as_measured(index):
    facts = index.artifact.manifest.facts["lexical"]
    assert facts["language"] == "english"
    assert facts["measured"]["by"] == "rows"
    best = facts["measured"]["ndcg_at_10"]
    words = max(best["lexical"], best["lexical_twice"])
    assert facts["mode"] == ("hybrid" if best["hybrid"] > max(words, best["random_vectors"]) else "lexical")
    assert index.query(ASKED, 5) == index.query(ASKED, 5, mode=facts["mode"])
    assert index.query(ASKED, 5, feedback=2) == index.query(ASKED, 5, mode="hybrid", feedback=2)


def test_a_hybrid_answer_is_the_mix_of_both(index):
    def hits(mode: str) -> Hits:
        found = index.query(ASKED, CANDIDATES, mode=mode)
        return Hits(np.array([hit["row"] for hit in found]), np.float32([hit["score"] for hit in found]))

    mixed = fuse(hits("dense"), hits("lexical"), 0.35, 20)
    found = index.query(ASKED, 20, mode="hybrid", weight=0.35, feedback=0)
    assert [hit["row"] for hit in found] == mixed.rows.tolist()
    np.testing.assert_allclose([hit["score"] for hit in found], mixed.scores, atol=1e-6)


@pytest.mark.parametrize("mode", ["dense", "lexical"])
def test_a_condition_gives_what_picking_by_hand_gives(index, mode):
    everything = index.query(ASKED, 10_000, mode=mode)
    by_hand = [hit["row"] for hit in everything if hit["metadata"]["year"] > 2000 and hit["metadata"]["lang"] == "de"]
    found = index.query(ASKED, 12, mode=mode, where="year > 2000 and lang = 'de'")
    assert [hit["row"] for hit in found] == by_hand[:12]
    assert [hit["rank"] for hit in found] == [*range(1, len(found) + 1)]
    assert index.query(ASKED, 3, mode=mode, where="year > 3000") == []


@pytest.mark.parametrize("mode", MODES)
def test_per_document_keeps_the_best_of_each(index, mode):
    best: dict[str, int] = {}
    for hit in index.query(ASKED, CANDIDATES, mode=mode):
        best.setdefault(hit["doc_id"], hit["row"])
    found = index.query(ASKED, 5, mode=mode, per_document=True)
    assert [hit["row"] for hit in found] == [*best.values()][:5]
    assert len(index.query(ASKED, 50, mode="dense", per_document=True)) == 50


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_add_up_to_the_score(index, mode):
    found = index.query(ASKED, 40, mode=mode, weight=0.4 if mode == "hybrid" else None, explain=True)
    assert found
    for hit in found:
        told = hit["explain"]
        sides = [told[side] for side in ("dense", "lexical") if side in told]
        for side in sides:
            told_parts = side.get("terms") or side["pairs"]
            answers = side.get("answers", {"score": 0})["score"]
            parts = sum(part["score"] for part in told_parts) + side.get("others", 0)
            assert parts + answers == pytest.approx(side["score"], abs=1e-4)
            for words, more in ((side.get("query", []), answers), (side.get("text", []), 0)):
                assert not words or sum(word["score"] for word in words) + more == pytest.approx(
                    side["score"], abs=1e-4
                )
        total = sum(side["share"] for side in sides) if mode == "hybrid" else sides[0]["score"]
        assert total == pytest.approx(hit["score"], abs=1e-4)


def test_of_all_hits_that_are_explained_the_first_ones_are_read_once(index, monkeypatch):
    read, vectors = [], VectorIndex.vectors
    monkeypatch.setattr(VectorIndex, "vectors", lambda self, rows: read.append(rows) or vectors(self, rows))
    found = index.query_all([ASKED, "bees"], 20, QueryOptions(mode="hybrid", weight=0.5, explain=True))
    assert all(len(result.hits) == 20 for result in found)
    assert len(read) == 1  # of both together


@pytest.mark.parametrize(
    ("type_", "where"),
    [
        ("flat", "year > 1995"), pytest.param("hnsw", None, marks=pytest.mark.slow),
        pytest.param("hnsw", "year > 1995", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_hybrid_search_asks_again_with_what_it_found(made, tmp_path, type_, where):
    """By hand: the vectors of the first answers from the table, the sum, every allowed row compared."""
    asked = {"mode": "hybrid", "weight": 0.4, "where": where}
    wordpipe.index(made / "sentences", output=tmp_path / "index", type=type_, recall=0.999)
    with wordpipe.open(tmp_path / "index") as index:
        first = [hit["row"] for hit in index.query(ASKED, 3, feedback=0, **asked)]
        rows_ND = np.concatenate(
            [matrix_of(b.column("vector")) for b in read_batches(index.artifact, "index", ["vector"])]
        )
        pull_D = sum(rows_ND[row].astype(np.float64) / rank for rank, row in enumerate(first, start=1))
        query_D = index.encoder.encode([ASKED]).vectors[0] + pull_D / np.linalg.norm(pull_D)
        scores_N = rows_ND @ (query_D / np.linalg.norm(query_D)).astype(np.float32)
        found = index.query(ASKED, 5, explain=True, feedback=3, **asked)
        for hit in found:
            if "dense" in hit["explain"]:
                assert hit["explain"]["dense"]["score"] == pytest.approx(scores_N[hit["row"]], abs=1e-5)
        assert any(hit["explain"].get("dense", {}).get("answers", {}).get("rows") == first for hit in found)
        usual = index.query(ASKED, 5, feedback=FEEDBACK, **asked)
        assert index.query(ASKED, 5, **asked) == usual
        if type_ == "flat":  # of a graph the last candidates, from which the scores are normalised, are not sure
            allowed = np.flatnonzero(
                np.ones(len(rows_ND), bool) if where is None else index.allowed(QueryOptions(where=where))
            )
            near = best_of(allowed, scores_N[allowed], CANDIDATES)
            lexical = index.lexical
            terms = lexical.expanded(lexical.read(ASKED), lexical.texts(np.array(first)))
            before = [
                hit["row"]
                for mode in ("dense", "lexical")
                for hit in index.query(ASKED, CANDIDATES, mode=mode, where=where)
            ]
            rows = np.unique(np.concatenate([near.rows, before]))
            worded = best_of(rows, lexical.score_rows(terms, rows), len(rows))
            expected = fuse(near, worded.where(worded.scores > 0), 0.4, 5)
            assert [hit["row"] for hit in found] == expected.rows.tolist()
            np.testing.assert_allclose([hit["score"] for hit in found], expected.scores, atol=1e-4)
            for hit in found:
                if (told := hit["explain"].get("lexical")) and told["share"]:
                    own = sum(term["score"] - term["answers"] for term in told["terms"])
                    assert own == pytest.approx(lexical.scores(ASKED)[hit["row"]], abs=1e-4)


def test_low_scores_are_left_out(index):
    everything = index.query(ASKED, 50, mode="lexical")
    border = everything[10]["score"]
    found = index.query(ASKED, 50, mode="lexical", min_score=border)
    assert found == [hit for hit in everything if hit["score"] >= border]


def test_many_queries_are_answered_as_one_by_one(index):
    asked = [ASKED, "", "qxqxqx", "蜂 is not here", "bees"]
    for mode in MODES:
        together = index.query_all(asked, 5, QueryOptions(mode=mode))
        assert [answer.hits for answer in together] == [index.query(text, 5, mode=mode) for text in asked]
        assert [len(answer.hits) for answer in together][1:3] == [0, 0]
    assert "qxqxqx" in index.query_all(["qxqxqx"], 1)[0].unknown


def test_a_condition_alone_lists_its_rows_and_several_must_all_be_true(index, cli):
    listed = index.query("", 4, where=["row > 1", "row > 2 or row = 0", ""])
    assert [(hit["row"], hit["score"]) for hit in listed] == [(3, 1), (4, 1), (5, 1), (6, 1)]
    told = cli("query", index.path, "-k", 4, "--json", "--where", "row > 1", "--where", "row > 2 or row = 0", piped="")
    assert [{"query": ""} | hit for hit in listed] == [json.loads(line) for line in told.out.splitlines()]
    assert index.query(" ") == []
    assert index.query_all(["", "bees"], 3, where="row > 2")[0].hits == []  # answers stay in step with lines


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "yeer > 2000"}, "yeer"),
        ({"weight": 1.5}, "weight = 1.5 should be less than or equal to 1"),
        ({"weight": 0.5, "mode": "dense"}, "weight needs mode = hybrid"),
        ({"feedback": 2, "mode": "dense"}, "feedback needs mode = hybrid or lexical"),
        ({"feedback": -1}, "feedback = -1 should be greater than or equal to 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(index, asked, message):
    with pytest.raises(ConfigError, match=message):
        index.query(ASKED, 3, **asked)


def test_an_encoder_that_is_not_the_vectors_own_is_refused(made):
    with wordpipe.open(made / "index") as opened:
        opened.artifact.manifest.facts["encoder"]["digest"] = "0" * 64
        with pytest.raises(ArtifactError, match=r"not the encoder that made the vectors of the index.*expected 0000"):
            opened.query(ASKED, mode="hybrid")


def test_an_index_without_words_is_asked_by_vectors_alone(built, tmp_path):
    wordpipe.index(built / "words", output=tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as opened:
        assert opened.artifact.manifest.facts.get("lexical") in (None, {})
        assert opened.query("water", 3, where="count > 10", min_score=-1)
        with pytest.raises(ConfigError, match="mode"):
            opened.query("water", 3, mode="lexical")
    with wordpipe.open(built / "words") as words, pytest.raises(ConfigError, match="where"):
        words.query("water", 3, where="count > 10")


def test_words_are_found_by_vectors_whether_that_is_asked_for_or_not(built):
    with wordpipe.open(built / "words") as words:
        assert words.query("water", 3, mode="dense") == words.query("water", 3)
        for mode in ("lexical", "hybrid"):
            with pytest.raises(ConfigError, match="mode"):
                words.query("water", 3, mode=mode)


def test_many_expressions_are_answered_as_one_by_one(built):
    with wordpipe.open(built / "words") as words:
        asked = ["water", "water - salt + sugar", "qxqxq", "sea"]
        together = words.query_all(asked, 6)
        for text, answer in zip(asked, together, strict=True):
            (alone,) = words.query_all([text], 6)
            assert [hit["word"] for hit in answer.hits] == [hit["word"] for hit in alone.hits]
            np.testing.assert_allclose(
                [hit["score"] for hit in answer.hits], [hit["score"] for hit in alone.hits], atol=1e-5
            )
            assert answer.unknown == alone.unknown


@pytest.mark.parametrize(("unit", "titled", "by"), [("document", True, "titles"), ("document", False, "cuts")])
def test_documents_are_looked_for_by_a_part_of_them(built, made, tmp_path, unit, titled, by):
    corpus = made / "corpus"
    if not titled:
        texts = [json.loads(line)["text"] for line in (made / "notes.jsonl").read_text().splitlines()]
        (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        wordpipe.ingest(tmp_path / "notes.jsonl", output=tmp_path / "corpus")
        corpus = tmp_path / "corpus"
    wordpipe.embed(built / "words", corpus, output=tmp_path / "sentences", unit=unit)
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as opened:
        facts = opened.artifact.manifest.facts["lexical"]
        assert facts["measured"]["by"] == by
        assert 0 <= facts["agreement"] <= 1
        found = opened.query("salt", 3, mode="lexical", explain=True)
        assert found[0]["explain"]["lexical"]["terms"][0]["stem"] == "salt"


def test_of_few_texts_nothing_is_measured(built, tmp_path):
    (tmp_path / "few.txt").write_text("Bees dance.\n\nSalt and water.")
    wordpipe.embed(built / "words", tmp_path / "few.txt", output=tmp_path / "sentences")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as opened:
        assert opened.artifact.manifest.facts["lexical"]["measured"] is None
        assert len(opened.query("water salt bees", 10, mode="hybrid")) == opened.index.ntotal


@pytest.mark.parametrize("titled", [True, False])
def test_an_update_knows_a_new_title_by_its_words(built, tmp_path, titled):
    """The encoder has no vector for either title, so that the row's is the same."""
    for name, title in (("old", "Qxolda"), ("new", "Qxnewa")):
        with (tmp_path / f"{name}.jsonl").open("w") as file:
            for number in range(12):
                row = {
                    "id": f"d{number}",
                    "title": title if number == 7 else "Qxother",
                    "text": f"Salt {number} and water.",
                }
                file.write(json.dumps(row) + "\n")
        wordpipe.ingest(tmp_path / f"{name}.jsonl", output=tmp_path / f"{name}.corpus", valid=0)
        wordpipe.embed(
            built / "words", tmp_path / f"{name}.corpus", output=tmp_path / name, unit="document", with_title=titled
        )
    wordpipe.index(tmp_path / "old", output=tmp_path / "index")
    made = wordpipe.index(tmp_path / "new", output=tmp_path / "index", update=True)
    assert made.counts["added"] == 1
    with wordpipe.open(tmp_path / "index") as index:
        assert index.query("Qxolda", 3, mode="lexical", exact=True) == []
        (found,) = index.query("Qxnewa", 3, mode="lexical", exact=True)
        assert (found["title"], found.get("found_in")) == ("Qxnewa", None if titled else ["title"])
        assert [hit["title"] for hit in index.query("salt", 99, mode="lexical", exact=True)].count("Qxnewa") == 1


@pytest.mark.parametrize("mode", ["hybrid", "auto"])
@pytest.mark.parametrize("per_document", [False, True])
def test_asked_for_more_an_answer_begins_with_what_it_was(index, mode, per_document):
    asked = {"mode": mode, "weight": 0.4, "per_document": per_document}
    longest = index.query(ASKED, 10_000, **asked)
    assert per_document or len(longest) > CANDIDATES
    for k in (3, CANDIDATES, CANDIDATES + 10):
        assert index.query(ASKED, k, **asked) == longest[:k]


@pytest.mark.slow
def test_an_updated_index_keeps_the_words_of_the_rows_that_stayed(built, made, tmp_path):
    lines = (made / "notes.jsonl").read_text().splitlines()
    for name, some in (("old", lines[:-3]), ("new", lines[5:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(some))
        wordpipe.ingest(
            tmp_path / f"{name}.jsonl", output=tmp_path / f"{name}.corpus", metadata=("year:int", "lang"), valid=0
        )
        wordpipe.embed(built / "words", tmp_path / f"{name}.corpus", output=tmp_path / f"{name}.sentences")
    wordpipe.index(tmp_path / "new.sentences", output=tmp_path / "fresh")
    wordpipe.index(tmp_path / "old.sentences", output=tmp_path / "updated")
    wordpipe.index(tmp_path / "new.sentences", output=tmp_path / "updated", update=True)
    with wordpipe.open(tmp_path / "fresh") as fresh, wordpipe.open(tmp_path / "updated") as updated:
        for name in fresh.artifact.names("lexical/"):
            assert updated.artifact.read(name) == fresh.artifact.read(name)
        assert updated.query(ASKED, 9, mode="lexical") == fresh.query(ASKED, 9, mode="lexical")


RARE = "zyzzyva"  # in the texts; the encoder does not know it
ROWS = 60


@pytest.fixture(scope="module")
def rare(built, handbook, tmp_path_factory):
    """An index over lines of the handbook, every seventh with a word that has no vector."""
    root = tmp_path_factory.mktemp("routes")
    lines = [line for line in handbook.read_text().splitlines() if len(line) > 40][:ROWS]
    texts = [f"{line} The {RARE} was there." if number % 7 == 0 else line for number, line in enumerate(lines)]
    (root / "notes.txt").write_text("\n\n".join(texts))
    wordpipe.embed(built / "words", root / "notes.txt", output=root / "sentences")
    wordpipe.index(root / "sentences", output=root / "index")
    with wordpipe.open(root / "index") as opened:
        yield opened


def _hits(rare, text, **asked):
    found = rare.query(text, CANDIDATES, **asked)
    return Hits(np.array([hit["row"] for hit in found]), np.float32([hit["score"] for hit in found]))


def test_the_mode_depends_on_what_is_unknown_and_where_it_stands():
    unknown = [[], ["here", "nowhere", "here"], ["here"], ["nowhere"], []]
    empty_Q = np.array([False, False, True, True, True])
    batch = EncodedBatch(np.zeros((5, 2), np.float32), empty_Q, unknown, np.zeros(5, np.int64))
    lexical = LexicalIndex.build(["it is here"], LexicalSettings())
    for mode in ("dense", "hybrid"):
        plain = ChosenMode(mode)
        by_both, by_words = ChosenMode("hybrid", ("here",)), ChosenMode("lexical", ("here",))
        assert choose_modes(mode, batch, lexical) == [plain, by_both, by_words, plain, plain]
        assert choose_modes(mode, batch, None) == [plain] * 5


@pytest.mark.parametrize("mode", ["auto", "hybrid"])
@pytest.mark.parametrize("per_document", [False, True])
def test_without_any_vector_words_answer(rare, mode, per_document):
    rare.artifact.manifest.facts["lexical"]["mode"] = "dense"
    (answer,) = rare.query_all([RARE], 5, QueryOptions(mode=mode, per_document=per_document))
    assert answer.mode == "lexical"
    assert answer.by_words == [RARE]
    assert answer.unknown == {RARE: []}  # it stands there: no other spelling is meant
    assert answer.hits
    assert answer.hits == rare.query(RARE, 5, mode="lexical", per_document=per_document)
    assert rare.query(RARE, 5, mode="dense") == []


def test_with_some_vectors_both_answer(rare):
    rare.artifact.manifest.facts["lexical"] |= {"mode": "dense", "agreement": 0.35}
    rare.__dict__.pop("_agreement", None)  # which an open index reads once
    text = f"{RARE} water"
    (answer,) = rare.query_all([text], 9, QueryOptions(explain=True, feedback=0))
    assert answer.mode == "hybrid"
    weight = vector_share(0.35, 2)
    mixed = fuse(_hits(rare, text, mode="dense"), _hits(rare, text, mode="lexical"), weight, 9)
    assert [hit["row"] for hit in answer.hits] == mixed.rows.tolist()
    np.testing.assert_allclose([hit["score"] for hit in answer.hits], mixed.scores, atol=1e-6)
    assert "lexical" in answer.hits[0]["explain"]


def test_where_words_found_best_they_answer_alone_but_for_queries_without_any(rare, built):
    with wordpipe.open(built / "words") as opened:
        known = next(word for word in opened.table.words if word.isalpha() and not rare.lexical.knows(word))
    rare.artifact.manifest.facts["lexical"] |= {"mode": "lexical", "agreement": 0.4}
    rare.__dict__.pop("_agreement", None)  # which an open index reads once
    answers = rare.query_all(["water", known], 4)
    assert [answer.mode for answer in answers] == ["lexical", "dense"]  # a small word is ranked by meaning alone
    assert answers[0].hits == rare.query("water", 4, mode="lexical")
    assert [hit["row"] for hit in answers[1].hits] == [hit["row"] for hit in rare.query(known, 4, mode="dense")]


def test_queries_of_different_modes_keep_their_order(rare):
    rare.artifact.manifest.facts["lexical"] |= {"mode": "dense"}
    texts = [RARE, "water", f"{RARE} water", "qxqxq", "water", RARE]
    answers = rare.query_all(texts, 4)
    assert [answer.mode for answer in answers] == ["lexical", "dense", "hybrid", "dense", "dense", "lexical"]
    assert [answer.query for answer in answers] == texts
    assert [answer.hits for answer in answers] == [rare.query(text, 4) for text in texts]
    assert answers[3].hits == []


@pytest.mark.parametrize("asked", [{"min_score": -1.0}, {"mode": "dense"}, {"weight": 1.0}])
def test_a_least_score_or_vectors_alone_keep_their_scale(rare, asked):
    rare.artifact.manifest.facts["lexical"]["mode"] = "dense"
    (answer,) = rare.query_all([RARE], 4, QueryOptions(**asked))
    assert answer.hits == []
    assert answer.by_words == []


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        ({"where": "line < 0"}, "the condition is true for 0 of ", "wordpipe show"),
        ({"mode": "dense"}, "nothing was found", "--mode lexical"),
        ({"mode": "lexical"}, "nothing was found", "other words"),
        (
            {"where": "line > 0", "mode": "dense"},
            "nothing was found: the condition is true for ",
            "--mode lexical",
        ),
        (
            {"where": "line = 1", "mode": "lexical"},
            "rows, and none of these rows contains the words of the query",
            "--mode dense",
        ),
    ],
)
def test_what_is_said_where_nothing_was_found(rare, asked, message, hint):
    error = rare.nothing_found(QueryOptions(**asked))
    assert message in error.message
    assert error.hint is not None
    assert hint in error.hint


def test_what_was_measured_for_auto_is_said_once(built, cli, tmp_path):
    first = cli("index", built / "sentences", "-o", tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as opened:
        facts = opened.artifact.manifest.facts["lexical"]
    assert facts["measured"] is not None
    above = facts["measured"]["above_words"]["hybrid"]
    said = "vectors help here" if above[1] > 0 else "vectors change little here"
    assert first.err.count(f"{said}: nDCG@10 ") == 1
    assert f"{facts['measured']['ndcg_at_10']['hybrid']:.2f} by words and vectors" in first.err
    again = cli("index", built / "sentences", "-o", tmp_path / "index", "--update")
    assert again.code == 0
    assert said not in again.err
