"""Search evaluated on a small collection made of the handbook."""

import json

import numpy as np
import pytest
import pytrec_eval

import wordpipe
from wordpipe import evaluate_retrieval
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search import FEEDBACK, beir
from wordpipe.stages import open_collection

MEASURES = {"ndcg_at_10": "ndcg_cut_10", "map": "map", "recall_at_100": "recall_100", "mrr": "recip_rank"}


@pytest.fixture(scope="module")
def data(handbook, tmp_path_factory):
    """Its documents; the words of their titles and middles as queries, with grades drawn at random beside the right one."""
    folder = tmp_path_factory.mktemp("collection")
    blocks = [block.partition("\n") for block in handbook.read_text().strip().split("\n\n")[:100]]
    rng = np.random.default_rng(2)
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for number, (title, _, text) in enumerate(blocks):
        corpus.append({"_id": f"d{number}", "title": title, "text": text})
        if number % 4 == 0:
            queries.append({"_id": f"q{number}", "text": " ".join(text.split()[10:18])})
            grades = {f"d{number}": 2} | {f"d{other}": int(rng.integers(0, 3)) for other in rng.choice(100, 4)}
            qrels += [f"q{number}\t{name}\t{grade}" for name, grade in grades.items()]
    queries += [{"_id": "d3", "text": blocks[3][2]}, {"_id": "nobody", "text": "asked"}, {"_id": "no", "text": "xyzzy"}]
    qrels += ["d3\td4\t1", "no\td1\t1"]
    for name, records in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(qrels) + "\n")
    return folder


def evaluated(*args, **wishes):
    return evaluate_retrieval(*args, **{"draws": 200, "device": "cpu", "threads": 1, **wishes})


@pytest.fixture
def runs(monkeypatch):
    """The answers of every system that is evaluated, in turn: query → document → score."""
    return recorded(monkeypatch)


def recorded(patch):
    seen: list[dict[str, dict[str, float]]] = []

    def rankings(collection, answers, **wishes):
        names = [[collection.documents[row] for row in hits.rows.tolist()] for hits in answers]
        scores = (hits.scores.tolist() for hits in answers)
        seen.append(
            {
                query: dict(zip(*pair, strict=True))
                for query, *pair in zip(collection.queries, names, scores, strict=True)
            }
        )
        return ranked(collection, answers, **wishes)

    ranked = beir.rankings
    patch.setattr(beir, "rankings", rankings)
    return seen


@pytest.fixture(scope="module")
def found(built, data):
    with pytest.MonkeyPatch.context() as patch:
        runs = recorded(patch)
        return evaluated([built / "words", built / "sentences"], data), runs


def test_every_figure_is_that_of_trec_eval_for_the_answers(found, data):
    result, runs = found
    qrels = open_collection(data).grades
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map", "recall.100", "recip_rank"})
    each = ["dense", "hybrid", "random"]
    names = ["bm25", "bm25_twice", "rm3", "tfidf", "lsi", "words_mean", *each, *each]
    assert [system["system"] for system in result["systems"]] == names
    for name, system, run in zip(names, result["systems"], runs, strict=True):
        each = evaluator.evaluate({query: answers for query, answers in run.items() if answers})
        for ours, theirs in MEASURES.items():
            total = sum(figures[theirs] for figures in each.values())  # a query without an answer is not in it
            assert system["metrics"][ours] == pytest.approx(total / len(qrels), abs=2e-6), (name, ours)
        low, high = system["intervals"]["ndcg_at_10"]
        assert low <= system["metrics"]["ndcg_at_10"] <= high
        assert system["unanswered"] == len(qrels) - len(each)


@pytest.fixture(scope="module")
def index(built, data, tmp_path_factory):
    """An index over the same documents, compared one by one."""
    root = tmp_path_factory.mktemp("same")
    (root / "documents.jsonl").write_text((data / "corpus.jsonl").read_text().replace('"_id"', '"name"'))
    wordpipe.ingest(root / "documents.jsonl", output=root / "corpus", metadata=("name",), valid=0)
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document", with_title=True)
    wordpipe.index(root / "sentences", output=root / "index", type="flat")
    with wordpipe.open(root / "index") as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"feedback": 0}, {"weight": 0.3, "feedback": 2}])
def test_hybrid_is_what_a_query_would_be_answered(built, data, index, asked, runs):
    result = evaluated(built / "words", data, draws=0, **asked)
    (facts,) = (one["facts"] for one in result["systems"] if one["system"] == "hybrid")
    assert facts["feedback"] == asked.get("feedback", FEEDBACK)
    index.artifact.manifest.facts["lexical"]["agreement"] = facts.get("agreement")
    collection = open_collection(data)
    for query, text in zip(collection.queries, collection.questions, strict=True):
        hits = index.query(text, 3, mode="hybrid", weight=asked.get("weight"), feedback=asked.get("feedback"))
        assert [hit["metadata"]["name"] for hit in hits] == [*runs[-2][query]][:3]
        if facts["feedback"]:  # the control is what words alone find when they are asked as often
            hits = index.query(text, 3, mode="lexical", feedback=facts["feedback"])
            assert [hit["metadata"]["name"] for hit in hits] == [*runs[1][query]][:3]
    assert runs[-1].keys() == runs[-2].keys()
    assert runs[-1] != runs[-2]


def test_no_such_feedback(built, data):
    with pytest.raises(ConfigError, match="feedback"):
        evaluated(built / "words", data, feedback=-1)


def test_what_is_said_of_every_system(found):
    result, _ = found
    assert result["counts"]["queries"] == 27
    assert result["counts"]["queries_unjudged"] == 1
    systems = {one["system"]: one for one in reversed(result["systems"])}
    assert set(result["metrics"]) == {*MEASURES, *systems}
    assert result["metrics"]["ndcg_at_10"] == result["metrics"]["hybrid"]["ndcg_at_10"]
    assert systems["bm25"]["against_bm25"] is None
    against = systems["dense"]["against_bm25"]["map"]
    apart = systems["dense"]["metrics"]["map"] - systems["bm25"]["metrics"]["map"]
    assert against["difference"] == pytest.approx(apart, abs=2e-6)
    assert 0 < against["p"] <= 1
    assert systems["bm25"]["metrics"]["mrr"] > 0.7  # the words were taken from the documents
    assert systems["hybrid"]["facts"]["measured"]["by"] == "titles"
    assert systems["random"]["facts"]["weight"] == systems["hybrid"]["facts"]["weight"]
    assert systems["hybrid"]["against_bm25_twice"]["mrr"]["difference"] == pytest.approx(
        systems["hybrid"]["metrics"]["mrr"] - systems["bm25_twice"]["metrics"]["mrr"], abs=2e-6
    )
    assert systems["dense"]["facts"]["learned_from_pairs"] is False
    assert systems["dense"]["facts"]["unknown_words"]["count"] > len(
        systems["dense"]["facts"]["unknown_words"]["first"]
    )
    assert json.loads(json.dumps(result)) == result


def test_a_given_weight_at_its_ends_is_one_of_both(built, data, found):
    bm25, words, lexical = (
        {one["system"]: one["metrics"] for one in evaluated(built / "words", data, weight=weight, draws=0)["systems"]}
        for weight in (0.0, 1.0, 0.0)
    )
    assert bm25["hybrid"] == bm25["bm25"]
    assert words["hybrid"] == words["dense"]
    assert bm25 == lexical


def test_a_document_of_the_same_id_can_be_left_out(data):
    kept, dropped = (evaluated([], data, drop_identical=drop, draws=0) for drop in (False, True))
    assert dropped["metrics"]["bm25"]["mrr"] > kept["metrics"]["bm25"]["mrr"]  # d3 finds itself first
    assert dropped["systems"][0]["intervals"]["map"] is None


def test_what_cannot_be_evaluated(built, data, tmp_path):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n')
    cases = [
        ([], tmp_path / "nowhere", {}, InputError, "the folder does not exist"),
        ([], tmp_path / "half", {}, InputError, "queries.jsonl is missing"),
        ([], data, {"split": "dev"}, InputError, "qrels/dev.tsv is missing"),
        ([], built / "corpus", {}, ArtifactError, "artifact"),
        (built / "tokens", data, {}, ArtifactError, "wrong kind"),
        ([], data, {"weight": 1.5}, ConfigError, "1.5"),
        ([], data, {"language": "klingon"}, ConfigError, "klingon"),
        ([], data, {"poling": "mean"}, ConfigError, "poling"),
    ]
    for encoders, where, wishes, error, match in cases:
        with pytest.raises(error, match=match):
            evaluated(encoders, where, **wishes)


def test_an_encoder_that_learned_from_pairs_is_not_sent_to_be_trained():
    from wordpipe.metrics import System
    from wordpipe.stages.evaluate import retrieval

    against = {"ndcg_at_10": {"difference": 0.03, "interval": [0.01, 0.05], "p": 0.002}}
    dense = {"system": "dense", "name": "enc", "facts": {"learned_from_pairs": True}}
    hybrid = {"system": "hybrid", "name": "enc", "facts": {}, "against_bm25_twice": against}
    systems = [System("", [], dense), System("", [], hybrid)]
    (said,) = retrieval._advice(systems)
    assert said == "enc: compared with BM25, 2 searches, nDCG@10 is +3.00 points (p 0.0020)"
    dense["facts"]["learned_from_pairs"] = False
    assert "not trained for search: enc" in [*retrieval._advice(systems)][1]
