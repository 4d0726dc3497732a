"""The benchmarks of search, embedding and 8-bit integers: sides get the same and are compared rightly, and all run."""

import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from tests.conftest import BENCHMARKS
from tests.stages.test_export_encoder import model

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")


def test_recall_counts_rows():
    recall_of = import_module("peers.search_sides").recall_of
    assert recall_of(np.array([[1, 2, 3, 4]]), np.array([[4, 3, 9, 8]])) == 0.5
    assert recall_of(np.array([[-1, -1]]), np.array([[0, 1]])) == 0


def test_queries_are_no_rows_and_promises_are_checked():
    search = import_module("search")
    vectors_ND, queries_QD = search.split_off_queries(search.made_vectors(600, 16, 1), 500)
    assert (vectors_ND.shape, queries_QD.shape) == ((500, 16), (100, 16))
    assert not (vectors_ND[:, None] == queries_QD[None]).all(axis=2).any()
    best = search.exact_answers(vectors_ND, queries_QD)[:, 0]
    np.testing.assert_array_equal(best, (queries_QD @ vectors_ND.T).argmax(axis=1))
    row = {
        "n": 1_000_000,
        "sides": {"wordpipe": {"recall_at_10": 0.96, "queries_per_s": 99}, "flat": {"queries_per_s": 10}},
    }
    assert not search.promises_kept([row], 0.95)
    row["sides"]["wordpipe"]["queries_per_s"] = 101
    assert search.promises_kept([row], 0.95)


@pytest.mark.parametrize("names", [["wordpipe", "flat"]])
def test_it_runs_from_end_to_end(names, tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "search.py", "--n", "400", "--dim", "16", "--threads", "1", "--only", *names,
         "--out", tmp_path / "search.json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (size,) = json.loads((tmp_path / "search.json").read_text())["sizes"]
    for name in names:
        assert size["sides"][name]["recall_at_10"] == 1
        assert size["sides"][name]["queries_per_s"] > 0


def test_figures_are_added_to_those_of_the_same_machine_and_no_failure_takes_their_place(tmp_path):
    results = import_module("search").Results
    path, size = tmp_path / "search.json", {"n": 5, "dim": 2, "queries": 1}
    first = results(path, {"machine": "m"}, {"faiss-cpu": "1"})
    first.add(size, "flat", {"build_s": 1})
    first.add(size, "hnswlib", {"error": "exit code -9"})
    later = results(path, {"machine": "m"}, {"usearch": "2"})
    later.add(size, "usearch", {"build_s": 2})
    later.add(size, "flat", {"error": "exit code 1"})
    later.add({**size, "n": 3}, "flat", {"build_s": 3})
    found = json.loads(path.read_text())
    assert found["libraries"] == {"faiss-cpu": "1", "usearch": "2"}
    assert [row["n"] for row in found["sizes"]] == [3, 5]
    assert found["sizes"][1]["sides"] == {
        "flat": {"build_s": 1}, "hnswlib": {"error": "exit code -9"}, "usearch": {"build_s": 2},
    }  # fmt: skip
    results(path, {"machine": "another"}, {}).add(size, "flat", {"build_s": 4})
    assert [row["n"] for row in json.loads(path.read_text())["sizes"]] == [5]


def test_documents_come_go_and_change():
    update = import_module("index_update")
    before, after = update.changed_documents(3_000, 0.01)
    assert before.tolist() == list(range(3_000))
    assert (len(after), len(set(after.tolist()))) == (3_000, 3_000)
    assert len(set(after.tolist()) - set(before.tolist())) == 20
    assert (after.reshape(-1, 10) % 10 == np.arange(10)).all()


@pytest.fixture
def embed():
    return import_module("embed")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The {n}th bee finds her way home in a field of clover.\n" for n in range(80)))
    return path


@pytest.mark.slow
def test_embedding_runs_and_both_sides_agree(embed, text, tmp_path, monkeypatch):
    out = tmp_path / "out" / "embed.json"
    sizes = ["--texts", "12", "--sentences", "100", "--repeat", "1", "--vocab-size", "300", "--threads", "1"]
    options = ["--parts", "4x256", "static", "workers", *sizes]
    monkeypatch.setattr(sys, "argv", ["embed.py", "--data", str(text), "--out", str(out), *options])
    embed.main()
    found = json.loads(out.read_text())
    *speeds, workers = found["lines"]
    assert [line["part"] for line in found["lines"]] == ["4x256", "static", "workers"]
    assert workers["sentences"] == 80
    assert workers["share_of_twice"] == pytest.approx(
        workers["seconds"]["1"][0] / (2 * workers["seconds"]["2"][0]), abs=0.02
    )
    for line in speeds:
        assert line["largest_difference"] < 1e-5
        assert set(line["texts_per_s"]) == {"wordpipe", "sentence-transformers"}


def test_misses_are_named(embed):
    line = {"part": "4x256", "largest_difference": 1e-3, "ratio": 1.2, "texts_per_s": {"wordpipe": 5.0}}
    assert embed.misses_of(line, "float32") == ["4x256: vectors differ by 1.0e-03", "4x256: only 1.2 times as fast"]
    assert embed.misses_of(line | {"ratio": 2.0}, "bfloat16") == []
    assert embed.misses_of({"part": "static", "texts_per_s": {"wordpipe": 5e4}}, "float32") == [
        "static: only 50,000 texts/s"
    ]
    asked = {"part": "query", "cold_median_s": 1.6, "batch_s": 11.0}
    assert embed.misses_of(asked, "float32") == [
        "query: a cold query takes 1.6 s",
        "query: a thousand queries take 11.0 s",
    ]


def test_sides_take_turns_and_the_first_run_does_not_count(embed):
    calls = []

    def side(name, value):
        def encode(texts):
            calls.append(name)
            return np.full((len(texts), 2), value)

        return encode

    seconds, difference = embed.in_turns({"a": side("a", 1.0), "b": side("b", 1.25)}, ["x", "y"], 2)
    assert calls == ["a", "b"] * 3
    assert [len(taken) for taken in seconds.values()] == [2, 2]
    assert difference == 0.25


@pytest.fixture
def int8():
    return import_module("int8")


def test_rows_of_unlike_length_are_filled_up(int8):
    ids_BT, mask_BT = int8.padded([[5, 6, 7], [8]])
    assert ids_BT.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask_BT.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_side_is_compared_by_scores_and_by_the_first_side(int8):
    angle = {"a": 0.0, "b": 0.1, "c": 1.0, "d": 2.0}

    def exact(texts):
        return np.array([[np.cos(angle[text]), np.sin(angle[text])] for text in texts], np.float32)

    def turned(texts):
        return exact(texts)[:, ::-1] + np.float32([0.25, 0])

    lines = int8.compared({"exact": exact, "turned": turned}, ["a"] * 3, ["b", "c", "d"], np.array([3.0, 2, 1]))
    assert lines["exact"] == {"spearman": 100.0, "largest_difference": 0.0}
    assert lines["turned"]["largest_difference"] > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's, on its own workings
def test_all_sides_run(int8, tmp_path, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    pairs, text, out = tmp_path / "dev.csv", tmp_path / "text.txt", tmp_path / "out" / "int8.json"
    pairs.write_text("the bees fly,bees fly home,4\nthe hive,a bee and the bees,2\nhome,the bees,1\n")
    text.write_text("bees fly home\n\nthe hive\n")
    made = model(tmp_path / "model")
    options = ["--data", str(pairs), "--text", str(text), "--repeat", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["int8.py", str(made), *options])
    assert int8.main() == 0
    sides = json.loads(out.read_text())["sides"]
    assert list(sides) == ["float32", "bfloat16", "onnx", "onnx int8"]
    assert sides["onnx"]["largest_difference"] < 1e-4 < sides["onnx int8"]["largest_difference"]
    assert {side["lines"]["texts"] for side in sides.values()} == {2}
    assert sides["bfloat16"]["sentences"]["to_bfloat16"] == 1.0


def test_conditions_are_new_each_time_and_all_kinds_are_timed(tmp_path, monkeypatch):
    filters = import_module("filters")
    numbers = range(len(filters.MODES) * filters.TIMES)
    for written in (filters.CONDITIONS | filters.FIELD_VALUES).values():
        assert len({written(number) for number in numbers}) == len(numbers)
    out = tmp_path / "filters.json"
    monkeypatch.setattr(sys, "argv", ["filters.py", "--rows", "600", "--dim", "8", "--out", str(out)])
    filters.main()
    found = json.loads(out.read_text())
    assert len(found["conditions"]) == 3 * (len(filters.CONDITIONS) + len(filters.FIELD_VALUES))
    assert {*found["facets_ms"]} == {"first", "all rows", "under a question", "under a new condition", "under choices"}
    assert {*found["first_use_ms"]} == {"year", "month", "lang", "name", "rank", "score", "labels"}


def test_search_by_words_runs_from_end_to_end(tmp_path):
    """Every side finds the text that the question stands in alone; of what is not installed the name is said."""
    words_search = import_module("words_search")
    (tmp_path / "wiki").mkdir()
    lines = [f"The ship number{n} sailed from the harbour with its cargo{n}. It came back." for n in range(60)]
    (tmp_path / "wiki" / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    titled = words_search.records_of(tmp_path / "wiki" / "train.txt", 50)
    assert (len(titled), titled[3]) == (50, ("The ship number3", lines[3].partition(" It")[0]))
    assert words_search.prose_of(tmp_path / "wiki" / "train.txt", 100)[0] == ("", lines[0])
    questions = words_search.questions_of(lines)
    assert len(questions) == 200
    plain = [line.replace(".", "") for line in lines]
    assert all(any(asked in line for line in plain) for asked in questions)
    for side in ("wordpipe", "fts5"):
        (folder := tmp_path / side).mkdir()
        found = words_search.run_side(side, lines, ["cargo7", "nothing"], folder, answers=True)
        assert [row for row, _ in found["answers"][0]] == [7]
        assert found["answers"][1] == []
        (folder := tmp_path / f"{side}-timed").mkdir()
        assert words_search.run_side(side, lines, ["cargo7"], folder, answers=False).keys() == {
            "build_cpu_s", "disk_of_text", "ms", "ms_p95",
        }  # fmt: skip
    assert "error" in words_search.run_side("wordpipe", lines, ["cargo7"], tmp_path / "wordpipe", answers=True)


def test_titles_are_typed_from_the_third_letter_on():
    typing = import_module("letter_by_letter")
    assert [*typing.typed_states("A big fox")] == [
        ("A b", "big"), ("A bi", "big"), ("A big", "big"), ("A big ", "big"), ("A big f", "fox"), ("A big fo", "fox"),
        ("A big fox", "fox"),
    ]  # fmt: skip


def test_misspelt_words_are_no_words_and_the_vocabulary_grows():
    spelling = import_module("spelling")
    counts = spelling.Counter({"kitchen": 9, "window": 5, "harbour": 4})
    words = spelling.grown(counts, 8)
    assert len(words) == 8
    assert words["kitchen"] == 9
    asked = spelling.misspelt(counts, words, 20)
    assert len(asked) == 20
    assert all(wrong not in words and meant in counts for wrong, meant in asked)
    suggest = spelling.ours(words)
    assert [*suggest("kitchne")][:1] == ["kitchen"]


def test_a_weight_counts_by_what_was_chosen_on_other_texts():
    rules = import_module("word_rules")
    scores = {0.1: {"a": [0.5], "b": [0.2], "c": [0.3]}, 0.4: {"a": [0.1], "b": [0.4], "c": [0.5]}}
    tried = {value: {text: np.array(one) for text, one in own.items()} for value, own in scores.items()}
    found = rules.left_out("_LETTER_SHARE", tried | {0.3: tried[0.1]}, {"a": np.array([0.25])})
    assert found["chosen"] == {"a": 0.4, "b": 0.1, "c": 0.1}
    assert found["left_out"] == pytest.approx(100 * (0.1 + 0.2 + 0.3) / 3, abs=0.001)
    assert found["left_out_over_control"] == pytest.approx(20 - 25, abs=0.001)


def test_the_first_of_five_sentences_is_to_find_the_others():
    rules = import_module("word_rules")
    lines = [f"{word} {other}" for word in ("harbour", "kitchen") for other in ("red", "blue", "green", "old", "new")]
    index = rules.LexicalIndex.build(lines, rules.LexicalSettings.make({"language": "english"}))
    found = rules.halves(lines, index)
    assert found["even"].tolist() == pytest.approx([0.7606], abs=1e-4)  # behind the other one with red
    assert len(found["odd"]) == 1
    before = rules.with_weight(
        "_LETTER_SHARE", 0.9, lambda: import_module("wordpipe.search.lexical.analysis")._LETTER_SHARE, {}
    )
    assert before == 0.9
    assert import_module("wordpipe.search.lexical.analysis")._LETTER_SHARE != 0.9
