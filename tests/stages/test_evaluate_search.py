"""One's own questions put to an index: figures by hand, files of questions, and what is said."""

import json
import math
import re

import numpy as np
import pytest

import wordpipe
from wordpipe import evaluate_search
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search import FEEDBACK
from wordpipe.stages.evaluate import search

NOTES = {
    "sea-1": ("Tides", "the moon pulls the water of the sea twice a day"),
    "sea-2": ("Salt", "rivers bring salt to the sea and the sun takes the water"),
    "bee-1": ("Dance", "bees dance to say where the flowers are"),
    "bee-2": ("Honey", "bees make honey of what the flowers give"),
    "7": ("Bread", "bread rises in a warm oven with salt"),
    "8": ("Dance", "men and women dance in the old land"),
}


@pytest.fixture(scope="module")
def index(built, tmp_path_factory):
    root = tmp_path_factory.mktemp("notes")
    records = [{"id": name, "title": title, "text": text} for name, (title, text) in NOTES.items()]
    wordpipe.ingest(records, output=root / "corpus", valid=0)
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document", threads=1)
    wordpipe.index(root / "sentences", output=root / "index", type="flat")
    return root / "index"


ASKED = [
    ("why does the water rise", "sea-1"),
    ("salt water", "sea-2"),
    ("salt water", "7"),
    ("flowers and dance", "bee-1"),
    ("who may dance", "Dance"),
    ("the sun and the warm oven", "7"),
]


def written(path, lines):
    path.write_text("".join(f"{question}\t{right}\n" for question, right in lines))
    return path


def by_hand(index, options):
    """The figures of one way, each question asked by itself and its answers counted on fingers."""
    questions = dict.fromkeys(question for question, _ in ASKED)
    figures = []
    with wordpipe.open(index) as opened:
        for question in questions:
            wanted = {right for asked, right in ASKED if asked == question}
            hits, seen, gains, first = opened.query(question, 100, **options), set(), [], 0.0
            for rank, hit in enumerate(hits, start=1):
                name = "Dance" if wanted == {"Dance"} and hit["title"] == "Dance" else hit["id"]
                if name in wanted - seen:
                    seen.add(name)
                    gains.append(rank)
                    first = first or 1 / rank
            ideal = sum(1 / math.log2(rank + 1) for rank in range(1, len(wanted) + 1))
            ndcg = sum(1 / math.log2(rank + 1) for rank in gains if rank <= 10) / ideal
            figures.append((ndcg, first, sum(rank <= 10 for rank in gains) / len(wanted)))
    return np.mean(figures, axis=0)


def test_figures_are_those_of_questions_asked_one_by_one(index, tmp_path):
    found = evaluate_search(index, written(tmp_path / "q.tsv", ASKED), draws=50)
    assert [one["system"] for one in found["systems"]] == [*search.WAYS]
    for one in found["systems"]:
        own = by_hand(index, one["options"])
        assert [*one["metrics"].values()] == pytest.approx(own, abs=2e-6), one["system"]
        low, high = one["intervals"]["mrr"]
        assert low <= one["metrics"]["mrr"] <= high
    assert found["counts"] == {
        "lines": 6, "questions": 5, "answers": 6, "unknown": 0, "left_out": 0, "repeated": 0,
    }  # fmt: skip
    assert found["systems"][0]["against_words"] is None
    assert found["metrics"] == found["systems"][0]["metrics"]
    assert json.loads(json.dumps(found)) == found


def test_words_are_asked_twice_by_mode_and_feedback(index):
    with wordpipe.open(index) as opened:
        once, twice = (opened.query("salt water", 5, mode="lexical", feedback=n) for n in (0, FEEDBACK))
        assert once == opened.query("salt water", 5, mode="lexical")
        assert {hit["id"] for hit in once} == {hit["id"] for hit in twice}
        assert [hit["score"] for hit in once] != [hit["score"] for hit in twice]
        lexical = opened.lexical
        own, rows = lexical.read("salt water"), np.array([hit["row"] for hit in once])
        terms = lexical.expanded(own, lexical.texts(rows))
        scores = {hit["row"]: hit["score"] for hit in twice}
        assert lexical.score_rows(terms, rows).tolist() == pytest.approx([scores[row] for row in rows.tolist()])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.tsv", "﻿question\tid\nsalt water\tsea-2\nbees\tbee-1\n"),
        ("q.csv", 'id,question\nsea-2,salt water\nbee-1,"bees"\n'),
        ("q.csv", 'Query,Title\n"salt water","Salt"\nbees,Dance\n'),
        ("q.jsonl", '{"question": "salt water", "id": "sea-2"}\n\n{"query": "bees", "title": "Dance"}\n'),
        ("q.txt", "salt water\tsea-2\r\n\r\nbees\tDance\r\n"),
        ("q.csv", "question;id\nsalt water;sea-2\nbees;bee-1\n"),
        ("q.csv", "\nid|question\nsea-2|salt water\nbee-1|bees\n"),
        ("q.csv", 'sep=;\r\n"question";"id"\r\nsalt water;sea-2\r\nbees;bee-1\r\n'),
        ("q.csv", "sep=;\nsalt water;sea-2\nbees;bee-1\n"),
        ("q.tsv", "sep=;\nquestion;id\nsalt water;sea-2\nbees;bee-1\n"),
    ],
)
def test_files_of_questions(index, tmp_path, name, text):
    (tmp_path / name).write_text(text, newline="")
    found = evaluate_search(index, tmp_path / name, draws=0)
    assert found["counts"]["questions"] == 2
    assert [line.question for line in search.read_questions(tmp_path / name)] == ["salt water", "bees"]
    assert found["systems"][0]["metrics"]["mrr"] == 1.0
    assert found["best"] is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"question,id,id\nsalt,sea-2,sea-1\n", "a field occurs twice; got id"),
        (b"question\tid\tID\nsalt\tsea-2\tsea-1\n", "a field occurs twice"),
        (b"query,Query,title\nsalt,bees,Salt\n", "a field occurs twice"),
        (b'{"question": "salt", "id": "sea-2", "id": "sea-1"}\n', "the name 'id' occurs twice"),
        (b'{"question": "salt", "id": "sea-2", "Id": "sea-1"}\n', "a field occurs twice"),
        ("question,id\nsalt,sea-2\n".encode("utf-16"), "got UTF-16"),
        (b"PAR1\x15\x04\xff\x00", "got Parquet"),
        (b"question,id\nsalt,sea-2\n\xff,sea-1\n", "q.csv:3: not UTF-8 text"),
        (b'sep=;\nquestion;id\nsalt;"sea-2\n', "q.csv:3: not a readable csv file"),
    ],
)
def test_files_of_questions_that_say_two_things_or_no_text(tmp_path, data, says):
    (tmp_path / "q.csv").write_bytes(data)
    with pytest.raises(InputError, match=re.escape(says)):
        search.read_questions(tmp_path / "q.csv")


def test_numbers_as_ids_and_answers_that_stand_nowhere(index, tmp_path):
    file = tmp_path / "q.jsonl"
    rows = [{"question": "bread", "id": 7}, {"question": "bread", "id": "nobody"}, {"question": "cheese", "id": "no"}]
    file.write_text("\n".join(map(json.dumps, [*rows, rows[0]])))
    found = evaluate_search(index, file, draws=0)
    assert found["counts"] == {
        "lines": 4, "questions": 1, "answers": 1, "unknown": 2, "left_out": 1, "repeated": 1,
    }  # fmt: skip
    assert found["unknown_first"] == {"where": f"{file}:2", "value": "nobody"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no question"),
        ("only a question\n", "has the wrong form"),
        ("a\tb\tc\n", "has the wrong form"),
        ("a\t\n", "has the wrong form"),
        ("question\tanswer\nwhy\tsea-1\n", "no column with the right answers"),
        ('{"question": "a"}\n', "has the wrong form"),
        ('{"question": "a", "id": 1.5}\n', "has the wrong form"),
        ('{"question": "a", "id": true}\n', "has the wrong form"),
        ('{"question"\n', "not a line of JSON"),
        ("why\tnobody\n", "none of the right answers"),
    ],
)
def test_files_that_are_none(index, tmp_path, text, message):
    (tmp_path / "q").write_text(text)
    with pytest.raises(InputError, match=message):
        evaluate_search(index, tmp_path / "q")


def test_what_cannot_be_evaluated(built, index, tmp_path):
    file = written(tmp_path / "q.tsv", ASKED)
    (tmp_path / "latin").write_bytes(b"sp\xe4t\tsea-1\n")
    wordpipe.index(built / "words", output=tmp_path / "words", type="flat")
    cases = [
        (tmp_path / "words", file, {}, ArtifactError, "an index over words"),
        (built / "sentences", file, {}, ArtifactError, "wrong kind"),
        (index, tmp_path / "nowhere", {}, InputError, "nowhere"),
        (index, tmp_path / "latin", {}, InputError, "latin:1"),
        (index, index, {}, ArtifactError, "artifact"),
        (index, file, {"draws": -1}, ConfigError, "draws"),
    ]
    for what, data, wishes, error, match in cases:
        with pytest.raises(error, match=match):
            evaluate_search(what, data, **wishes)


def test_the_best_way_is_the_simplest_that_none_beats():
    rng = np.random.default_rng(5)
    words = rng.random(300) * 0.5
    noise = rng.normal(0, 0.02, (len(search.WAYS), 300))
    same = {name: words + some for name, some in zip(search.WAYS, noise, strict=True)} | {"words": words}
    assert search._best_way(same, 1_000) == {"system": "words", "options": {"mode": "lexical"}, "differs": False}
    better = same | {"both": same["both"] + 0.2, "both_0.3": same["both_0.3"] + 0.2}
    assert search._best_way(better, 1_000)["system"] == "both"
    assert search._best_way(better | {"both_0.3": better["both_0.3"] + 0.1}, 1_000) == {
        "system": "both_0.3", "options": {"mode": "hybrid", "weight": 0.3}, "differs": True,
    }  # fmt: skip
    alone = {name: values[:1] for name, values in better.items()}
    assert not search._best_way(alone, 100)["differs"]  # one question tells nothing


def test_the_table_and_its_last_line(cli, index, tmp_path):
    file = written(tmp_path / "q.tsv", [*ASKED, ("cheese", "no such note")])
    shown = cli("evaluate", "search", index, "--data", file, "--draws", 100)
    assert shown.code == 0, shown.err
    kinds = ("both", "alone", "2 searches")
    rows = [line.strip() for line in shown.out.splitlines() if any(kind in line for kind in kinds)]
    assert [row.split("  ")[0] for row in rows] == [
        "words alone (BM25)", "vectors alone", "both", "words, 2 searches", "both, 1 search",
        *(f"both, weight {weight}" for weight in (0.1, 0.3, 0.5, 0.7, 0.9)),
    ]  # fmt: skip
    assert "5 questions, 6 right answers" in shown.err
    assert f"the first line: 'no such note' ({file}:7); left out: 1 question" in shown.err
    last = shown.err.rstrip().splitlines()[-1]
    assert "no search is significantly better than words alone" in last
    assert "--mode lexical" in last
    found = json.loads(cli("evaluate", "search", index, "--data", file, "--draws", 0, "--json").out)
    assert found["evaluated"] == "search"
    assert cli("evaluate", "search", index, "--data", file, "-q", "--draws", 0).err == ""
    nobody = cli("evaluate", "search", index, "--data", written(tmp_path / "x.tsv", [("a", "b")]))
    assert (nobody.code, nobody.out) == (3, "")
    assert cli("evaluate", "search", index).code == 2
