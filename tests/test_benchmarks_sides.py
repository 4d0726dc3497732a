"""benchmarks/sides.py: hybrid search of several encoders is the `Retriever`'s with one, and neighbours have their say."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from wordpipe.search import Hits, Retriever, chance_vectors

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
N, Q, DIM = 40, 6, 8
RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of texts of five to thirty of 60 words."""
    path = tmp_path_factory.mktemp("data") / "small"
    path.mkdir()

    def text(least: int, most: int) -> str:
        return " ".join(f"word{number}" for number in RNG.integers(60, size=RNG.integers(least, most)))

    lines = [json.dumps({"_id": str(row), "title": "", "text": text(5, 30)}) for row in range(N)]
    (path / "corpus.jsonl").write_text("\n".join(lines))
    lines = [json.dumps({"_id": f"q{row}", "text": text(2, 6)}) for row in range(Q)]
    (path / "queries.jsonl").write_text("\n".join(lines))
    judged = "".join(f"q{row}\t{RNG.integers(N)}\t1\n" for row in range(Q))
    (path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return path


@pytest.fixture(scope="module")
def bench(folder: Path, benchmarks_on_path: None):
    sides = import_module("sides")
    made = {
        name: sides.Side(chance_vectors(N, DIM, at), chance_vectors(Q, DIM, 9 + at), 0.6)
        for at, name in enumerate(("static", "brought"))
    }
    return sides.Bench(folder, lambda *_: made)


def test_one_encoder_is_the_retriever(bench) -> None:
    sides, side = import_module("sides"), bench.sides["static"]
    for share, weight in ((sides.by_agreement(bench, "static"), None), (sides.fixed(0.4), 0.4)):
        made = Retriever(side.table, bench.lexical, side.agreement, weight)
        hits = [one.hits for one in made.find(bench.collection.questions, side.queries, 100)]
        np.testing.assert_array_equal(bench.asked({"static": share}), bench.figures(hits))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("least", [0, 20])
def test_spread_scores_are_those_of_a_slow_twin(bench, stored: bool, least: int) -> None:
    sides, side = import_module("sides"), bench.sides["static"]
    rows = RNG.permutation(N)[:25]
    hits = Hits(rows, np.sort(RNG.random(25).astype(np.float32))[::-1])
    found = bench._spread(hits, side, sides.Spread(0.3, stored, "after", least))
    score = dict(zip(rows.tolist(), hits.scores.tolist(), strict=True))
    long = bench.lexical.postings.lengths >= least
    wanted = {}
    for row in rows.tolist():
        others = [one for one in (range(N) if stored else rows.tolist()) if one != row]
        near = sorted(others, key=lambda one: -float(side.documents[one] @ side.documents[row]))[:10]
        mean = sum(score.get(one, 0.0) for one in near if long[one]) / 10
        wanted[row] = score[row] + 0.3 * mean * bool(long[row])
    assert dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(wanted, abs=1e-6)


def test_left_out_takes_the_best_of_the_others() -> None:
    sides = import_module("sides")
    scores = {"a": {"x": np.full(4, 0.9), "y": np.full(4, 0.1)}, "b": {"x": np.full(4, 0.2), "y": np.full(4, 0.5)}}
    found = sides.left_out(scores, {"x": np.full(4, 0.1), "y": np.full(4, 0.1)})
    assert {name: line["setting"] for name, line in found["leave_one_out"].items()} == {"x": "b", "y": "a"}
    assert found["above"] == 5.0
    assert found["means"] == {"a": 50.0, "b": 35.0}


def test_kernels_are_those_of_a_slow_twin(bench, tmp_path: Path) -> None:
    kernels = import_module("kernels")
    learner = kernels.Learner(bench, tmp_path)
    vectors = learner.vectors(None, chance=True)
    query, texts = learner.texts[0][:4], [learner.texts[1], learner.texts[2][:0], learner.texts[0]]
    weight = {stem: learner.idf[stem] * (query == stem).sum() for stem in set(query.tolist())}
    for found, text in zip(learner.features(vectors, query, texts), texts, strict=True):
        damping = 0.25 + 0.75 * len(text) / learner.mean_length
        wanted = np.zeros(20)
        for own, share in weight.items():
            sums = [
                sum(
                    np.exp(-(((vectors[own] @ vectors[one] - at) / 0.07) ** 2) / 2)
                    for one in text.tolist()
                    if one != own
                )
                for at in np.arange(1, 10) / 10
            ]
            sums.append(float((text == own).sum()))
            wanted += share / sum(weight.values()) * np.log1p([*sums, *(one / damping for one in sums)])
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)


def test_weights_find_what_tells_the_right_text_from_others() -> None:
    found = RNG.standard_normal((200, 5, 3)).astype(np.float32)
    right = (found[..., 1] - found[..., 2]).argmax(axis=1)
    weights = import_module("kernels")._weights(found, right)
    assert weights[1] > 1 > -1 > weights[2]
    assert ((found @ weights).argmax(axis=1) == right).mean() > 0.95
