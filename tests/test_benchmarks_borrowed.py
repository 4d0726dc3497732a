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
