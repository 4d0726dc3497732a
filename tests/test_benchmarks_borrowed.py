"""benchmarks/borrowed.py: the sum of ranks, and the retrieval part from end to end with a small encoder."""

import argparse
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.stages.test_export_encoder import word_tokenizer
from tests.stages.test_import_encoder import files, imported, modules
from tests.support.model_artifacts import ROLES, model_files
from wordpipe.search import Hits

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")


def hits(*rows: int) -> Hits:
    return Hits(np.array(rows), np.arange(len(rows), 0, -1).astype(np.float32))


def test_ranks_add_up_whatever_the_scores() -> None:
    found = import_module("borrowed")._by_ranks([hits(4, 7, 9), hits(9, 4)])
    assert found.rows.tolist() == [4, 9, 7]
    np.testing.assert_allclose(found.scores, [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62], rtol=1e-6)


def test_each_system_has_a_figure_on_each_collection(tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    texts = {"1": "the bees fly home", "2": "a bee and the hive", "3": "home is a hive"}
    data = {
        "corpus.jsonl": "\n".join(json.dumps({"_id": name, "title": "", "text": text}) for name, text in texts.items()),
        "queries.jsonl": '{"_id": "q", "text": "the hive of bees"}\n{"_id": "p", "text": "bees fly"}',
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq\t2\t1\np\t1\t1\n",
    }
    files({name: text.encode() for name, text in data.items()}, folder)
    made = model_files(word_tokenizer(ROLES).to_str().encode(), "encoder", "classic")
    model = imported(files(made | modules("Pooling"), tmp_path / "encoder"))
    args = argparse.Namespace(threads=1, retrieval=[folder])
    found = import_module("borrowed").retrieval(model, args)
    line = found["ndcg_at_10"]["collection"]
    assert {"bm25", "bm25_twice", "dense", "rrf", "hybrid", "random"} <= line.keys()
    assert all(0 < line[name] <= 100 for name in ("bm25", "dense", "rrf", "hybrid"))
    assert found["mean"]["rrf"] == line["rrf"]


def test_paragraphs_pooled_late_are_means_of_their_tokens(tmp_path: Path) -> None:
    tried = import_module("borrowed_tried")
    made = model_files(word_tokenizer(ROLES).to_str().encode(), "encoder", "classic")
    encoder = import_module("data_limited").opened(
        imported(files(made | modules("Pooling"), tmp_path / "encoder")), "cpu"
    )
    paragraphs = ["the bees fly home", "a bee", "home is the hive of bees"]
    parts = encoder.parts("\n".join(paragraphs))
    start, found = 0, tried.pooled_late(encoder, paragraphs)
    for paragraph, vector in zip(paragraphs, found, strict=True):
        own = [
            row / np.linalg.norm(row)
            for row, (first, stop) in zip(parts.vectors, parts.spans, strict=True)
            if start <= first < stop <= start + len(paragraph)
        ]
        assert len(own) == len(paragraph.split())
        mean = np.sum(own, axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
        start += len(paragraph) + 1


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_strong_directions_count_less(shuffled: bool) -> None:
    tried, rng = import_module("borrowed_tried"), np.random.default_rng(5)
    drawn = rng.standard_normal((400, 6)) * np.array([3, 1, 1, 1, 0.5, 0.2]) + 0.3
    side = tried.Side(drawn.astype(np.float32), drawn[:9].astype(np.float32), 0.5)

    def spread(power: float) -> float:
        strength = np.linalg.eigvalsh(np.cov(tried.less_of_strong(side, power, shuffled=shuffled).documents.T))
        return float(strength[-1] / strength[0])

    assert (spread(1.0) < 2) is not shuffled  # all directions alike, or as uneven as before
    centred = tried.less_of_strong(side, 0.0, shuffled=shuffled)
    assert np.abs(centred.documents - tried.unit_rows((drawn - drawn.mean(0)).astype(np.float32))[0]).max() < 1e-5
    np.testing.assert_allclose(centred.queries, centred.documents[:9], atol=1e-6)
