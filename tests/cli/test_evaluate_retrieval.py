"""`wordpipe evaluate retrieval`: tables and JSON."""

import json
import re

import pytest

from tests.support.results import rows_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collection")
    texts = [
        "the sea is wide and the water is deep",
        "bees fly to the flowers",
        "mud and sand",
        "the old men of the land",
    ]
    corpus = [{"_id": str(n), "title": text.split()[1], "text": text} for n, text in enumerate(texts)]
    queries = [
        {"_id": "1", "text": "deep water"},
        {"_id": "q", "text": "flowers for bees"},
        {"_id": "x", "text": "xyzzy"},
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\t0\t1\nq\t1\t1\nx\t2\t1\ngone\t2\t1\n")
    return folder


def test_a_table_and_its_json_say_the_same(cli, built, data):
    args = ["evaluate", "retrieval", built / "words", "--data", data, "--draws", 50]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0, table.err
    assert [one["system"] for one in found["systems"]] == [
        "bm25",
        "bm25_twice",
        "rm3",
        "tfidf",
        "lsi",
        "words_mean",
        "dense",
        "hybrid",
        "random",
    ]
    assert found["metrics"]["bm25"]["mrr"] == 0.5  # two of four
    rows = rows_of(table.out)
    for name, label in (("ndcg_at_10", "nDCG@10"), ("mrr", "MRR")):
        assert rows[label] == [f"{100 * one['metrics'][name]:.2f}" for one in found["systems"]]
    assert rows["above BM25"][0] == "–"
    assert re.search(r"hybrid, 0\.\d\d dense", table.out)
    assert "4 documents, 4 judged queries, 4 judgements" in table.err
    assert "wordpipe train static --goal search" in table.err
    for told in ("mean of words: cosine", "dense: cosine", "compared with BM25, 2 searches", "random vectors: hybrid"):
        assert told in table.err
    assert "1 judged queries have no text" in table.err
    assert "BM25 found nothing for 2 queries" in table.err
    quiet = cli(*args, "-q", "--drop-identical", "--weight", 0.5)
    assert quiet.err == ""
    assert "hybrid, 0.50 dense" in quiet.out


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ((), 2, "--data"),
        (("--data", "nowhere"), 3, "nowhere"),
        (("--data", "nowhere", "--weight", "2"), 2, "2"),
    ],
)
def test_wrong_wishes(cli, args, code, word):
    result = cli("evaluate", "retrieval", *args)
    assert (result.code, result.out) == (code, "")
    assert word in result.err
