"""Judging search on a small collection made of the handbook."""

import json

import numpy as np
import pytest
import pytrec_eval

import wordpipe
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search.feedback import FEEDBACK
from wordpipe.stages import evaluate_retrieval as stage
from wordpipe.stages import retrieval_systems
from wordpipe.stages.evaluate_retrieval import evaluate_retrieval
from wordpipe.stages.retrieval_data import open_collection
from wordpipe.stages.retrieval_systems import exact_answers

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


def judged(*args, **wishes):
    return evaluate_retrieval(*args, **{"draws": 200, "lsi_dim": 20, "device": "cpu", "threads": 1, **wishes})


@pytest.fixture(scope="module")
def found(built, data, tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs") / "answers"
    return judged([built / "words", built / "sentences"], data, runs=runs), runs


def test_every_figure_is_that_of_trec_eval_for_the_run_written(found, data):
    result, runs = found
    qrels = open_collection(data).grades
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map", "recall.100", "recip_rank"})
    names = ["bm25", "tfidf", "lsi", "words_mean", "dense", "hybrid", "dense-2", "hybrid-2"]
    assert sorted(path.stem for path in runs.iterdir()) == sorted(names)
    for name, system in zip(names, result["systems"], strict=True):
        with (runs / f"{name}.trec").open() as file:
            each = evaluator.evaluate(pytrec_eval.parse_run(file))
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


@pytest.mark.parametrize("asked", [{}, {"feedback": 0}, {"weight": 0.3, "feedback": 2}])
def test_hybrid_is_what_a_query_would_be_answered(built, data, index, asked, tmp_path):
    result = judged(built / "words", data, runs=tmp_path / "runs", draws=0, lsi_dim=2, **asked)
    (facts,) = (one["facts"] for one in result["systems"] if one["system"] == "hybrid")
    assert facts["feedback"] == asked.get("feedback", FEEDBACK)
    answers: dict[str, list[str]] = {}
    for line in (tmp_path / "runs" / "hybrid.trec").read_text().splitlines():
        query, _, name, *_ = line.split()
        answers.setdefault(query, []).append(name)
    collection = open_collection(data)
    for query, text in zip(collection.queries, collection.questions, strict=True):
        hits = index.query(text, 3, mode="hybrid", weight=facts["weight"], feedback=asked.get("feedback"))
        assert [hit["name"] for hit in hits] == answers.get(query, [])[:3]


def test_no_such_feedback(built, data):
    with pytest.raises(ConfigError, match="feedback"):
        judged(built / "words", data, feedback=-1)


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
    assert systems["dense"]["facts"]["unknown_words"]["count"] > len(
        systems["dense"]["facts"]["unknown_words"]["first"]
    )
    assert json.loads(json.dumps(result)) == result


def test_a_given_weight_at_its_ends_is_one_of_both(built, data, found):
    bm25, words, lexical = (
        {one["system"]: one["metrics"] for one in judged(built / "words", data, weight=weight, draws=0)["systems"]}
        for weight in (0.0, 1.0, 0.0)
    )
    assert bm25["hybrid"] == bm25["bm25"]
    assert words["hybrid"] == words["dense"]
    assert bm25 == lexical


def test_a_document_of_the_same_id_can_be_left_out(data):
    kept, dropped = (judged([], data, drop_identical=drop, depth=5, draws=0) for drop in (False, True))
    assert dropped["metrics"]["bm25"]["mrr"] > kept["metrics"]["bm25"]["mrr"]  # d3 finds itself first
    assert dropped["systems"][0]["intervals"]["map"] is None


def test_exact_answers_are_those_of_brute_force(monkeypatch):
    monkeypatch.setattr(retrieval_systems, "_SCORES_AT_ONCE", 40)
    rng = np.random.default_rng()
    documents, queries = rng.standard_normal((60, 8)).astype(np.float32), rng.standard_normal((7, 8)).astype(np.float32)
    documents[[3, 9]], queries[2], documents[20] = 0, 0, documents[21]
    answers = exact_answers(queries, documents, 12)
    scores = queries.astype(np.float64) @ documents.T
    scores[:, [3, 9]] = -np.inf
    for number, hits in enumerate(answers):
        expected = np.lexsort((np.arange(60), -scores[number].round(5)))[:12]
        assert hits.rows.tolist() == ([] if number == 2 else expected.tolist())


def test_an_adapted_encoder_is_judged_beside_the_given_one(built, data, monkeypatch):
    seen = []

    def adapted(path, collection, folder, run, **settings):
        seen.append((path, len(collection.documents), folder.is_dir(), settings))
        return str(built / "model")

    monkeypatch.setattr(stage, "adapt", adapted)
    result = judged(built / "words", data, adapt_with={"steps": 3}, weight=0.5, draws=0)
    assert seen == [(str(built / "words"), 100, True, {"steps": 3})]
    systems = [(one["system"], one["name"]) for one in result["systems"][3:]]
    name = str(built / "words")
    assert systems == [("words_mean", name), ("dense_given", name), ("dense", name), ("hybrid", name)]
    plain = judged([built / "words", built / "model"], data, weight=0.5, draws=0)["systems"]
    assert result["systems"][4]["metrics"] == plain[4]["metrics"]
    assert result["systems"][5]["metrics"] == plain[6]["metrics"]
    assert result["adapted"]


def test_what_cannot_be_judged(built, data, tmp_path):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n')
    cases = [
        ([], tmp_path / "nowhere", {}, InputError, "no such folder"),
        ([], tmp_path / "half", {}, InputError, "queries.jsonl is missing"),
        ([], data, {"split": "dev"}, InputError, "qrels/dev.tsv is missing"),
        ([], built / "corpus", {}, ArtifactError, "artifact"),
        (built / "tokens", data, {}, ArtifactError, "wrong kind"),
        ([], data, {"weight": 1.5}, ConfigError, "1.5"),
        ([], data, {"depth": 0}, ConfigError, "depth"),
        ([], data, {"language": "klingon"}, ConfigError, "klingon"),
        ([], data, {"poling": "mean"}, ConfigError, "poling"),
    ]
    for encoders, where, wishes, error, match in cases:
        with pytest.raises(error, match=match):
            judged(encoders, where, **wishes)
