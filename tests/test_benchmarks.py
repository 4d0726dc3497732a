"""The benchmark of the tokens stage: it reads, writes and compares rightly, and runs from end to end on a tiny text."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from tests.conftest import BENCHMARKS
from tests.support.golden import GOLDEN

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
SAMPLE = "".join(f"The {n}th bee finds her way home, and {n * n} bees don't.\n" for n in range(1500))


def benchmark(name):
    return import_module(name)


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r ab")).filter(bool),
    size=st.integers(1, 30),
)
def test_arrow_and_python_read_the_same_lines(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text.encode())
    wanted = text.removesuffix("\n").split("\n") if text != "\n" else [""]
    as_lists = [line for lines in benchmark("peers.text").line_lists(path, size) for line in lines]
    as_arrays = [line for lines in benchmark("peers.rows").line_arrays(path, size) for line in lines.to_pylist()]
    assert as_lists == wanted
    assert as_arrays == wanted


@pytest.mark.landing
def test_rows_are_written_in_fixed_row_groups_and_digested_whatever_the_batches(tmp_path):
    rows = benchmark("peers.rows")
    random = np.random.default_rng(0)
    lists = [random.integers(0, 60_000, n).tolist() for n in random.integers(0, 5, 70_000)]
    digests = []
    for width, kind in ((7_000, pa.uint16()), (69_999, pa.uint32())):
        path = tmp_path / f"{width}.parquet"
        batches = (pa.array(lists[at : at + width], pa.list_(kind)) for at in range(0, len(lists), width))
        rows.write_ids(batches, path)
        digests.append(rows.digest_of(path))
        groups = pq.ParquetFile(path).metadata
        assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [65_536, 70_000 - 65_536]
        assert pq.read_table(path).column("ids").to_pylist() == lists
    assert digests[0] == digests[1]
    assert digests[0]["rows"] == 70_000
    changed = [*lists[:-1], [*lists[-1], 1]]
    rows.write_ids([pa.array(changed, pa.list_(pa.uint16()))], tmp_path / "changed.parquet")
    assert rows.digest_of(tmp_path / "changed.parquet") != digests[0]


def test_the_same_ids_in_other_rows_have_another_digest():
    rows = benchmark("peers.rows")
    found = []
    for lists in ([[1, 2], [3]], [[1], [2, 3]]):
        digest = rows.Digest()
        digest.add(rows.from_lists(lists))
        found.append(digest.found()["ids"])
    assert found[0] != found[1]


def test_the_letters_of_bytes_are_those_of_tokenizers():
    letters = benchmark("peers.text").letters_of_bytes()
    assert sorted(letters) == sorted(pre_tokenizers.ByteLevel.alphabet())
    for byte, char in ((0xC3, "é"), (0x20, " "), (0x00, "\0")):
        ((word, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(char)
        assert letters[word[0]] == byte


def test_agreement_sees_another_order_of_merges():
    agreement = benchmark("peers.agreement").agreement
    first = {"merges": [("61", "62"), ("62", "63")]}
    assert agreement(first, first, "bpe") == {"same_merges": True, "shared_tokens": 1.0}
    swapped = {"merges": first["merges"][::-1]}
    assert agreement(swapped, first, "bpe") == {"same_merges": False, "shared_tokens": 1.0}
    assert agreement({"tokens": [*["00"] * 256, "6162"]}, first, "bpe") == {"same_merges": False, "shared_tokens": 0.5}
    assert agreement({"vocab": {"a": 0}}, {"vocab": {"a": 0, "b": 1}}, "wordpiece") == {"shared_tokens": 0.5}


def test_figures_of_ours_stand_against_each_peer_and_a_tenth_of_the_text():
    figures = benchmark("peers.figures")

    def line(engine, mb, seconds, peak, part="train"):
        runs = [{"seconds": seconds * way, "peak_memory_bytes": peak * 1e6} for way in (0.5, 1, 3)]
        return {"part": part, "algorithm": "bpe", "mb": mb, **figures.summary(engine, runs, mb)}

    lines = [line("wordpipe", 1, 1, 100), line("wordpipe", 10, 2, 120), line("hf", 1, 4, 200), line("hf", 10, 20, 600)]
    assert [(row["mb"], row["times_as_fast"], row["share_of_memory"]) for row in figures.ratios(lines)] == [
        (1, 4.0, 0.5),
        (10, 10.0, 0.2),
    ]
    assert {row["engine"]: row["times_the_memory"] for row in figures.scaling(lines)} == {"wordpipe": 1.2, "hf": 3.0}
    rows = list(figures.table(lines, {"hf": "tokenizers 0.23.3"}))
    assert "| train | bpe | 10 | tokenizers 0.23.3 | 20.00 (10.00–60.00) | 0.5 | 600 MB |  | 10.0 × as fast" in rows[-1]


def test_a_result_that_is_not_that_of_tokenizers_is_a_fault():
    script = benchmark("tokens")
    bench = script.Bench(Path(), Path(), 1, 400, 1.0)
    right = {"part": "encode", "algorithm": "bpe", "mb": 1.0, "engine": "wordpipe", "same_ids": True}
    assert script.faults([right, right | {"engine": "tiktoken", "same_ids": False}], bench) == []
    assert script.faults([right | {"same_ids": False}], bench) == ["encode bpe 1 MB: not what tokenizers gives"]


def run_script(tmp_path, *options):
    (tmp_path / "sample.txt").write_text(SAMPLE)
    command = [
        sys.executable,
        BENCHMARKS / "tokens.py",
        "--data",
        tmp_path / "sample.txt",
        "--scratch",
        tmp_path,
        *options,
    ]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_it_runs_from_end_to_end(tmp_path):
    out = tmp_path / "out.json"
    options = ["--only", "train,encode", "--algorithms", "bpe", "--peers", "hf", "--repeat", "1", "--vocab-size", "400"]
    done = run_script(tmp_path, "--sizes", "0.05", "--out", out, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["ok"]
    assert [(line["part"], line["engine"]) for line in found["lines"]] == [
        ("train", "wordpipe"),
        ("train", "hf"),
        ("encode", "wordpipe"),
        ("encode", "hf"),
    ]
    assert all(line["seconds"] > 0 and line["peak_memory_mb"] > 5 for line in found["lines"])
    assert all(line["same_merges"] for line in found["lines"][:2])
    assert all(line["same_ids"] for line in found["lines"][2:])
    assert found["skipped"] == found["failed"] == []
    assert str(tmp_path) not in out.read_text()
    assert "| train | bpe | 0.05 | tokenizers " in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_text_that_is_too_short_is_refused(tmp_path):
    done = run_script(tmp_path, "--sizes", "50", "--peers", "hf")
    assert done.returncode != 0
    assert "less than the 50 asked for" in done.stderr


# words


def line_of_words(engine, seconds, peak, mb=1.0, **more):
    case = {
        "part": "speed", "mb": mb, "architecture": "cbow", "loss": "ns", "threads": 2, "epochs": 2, "words": 500,
        "matrices_bytes": 40e6 * mb, **more,
    }  # fmt: skip
    runs = [
        {"seconds": seconds * way, "process_seconds": 2 * seconds, "process_peak_memory_bytes": peak * 1e6}
        for way in (0.5, 1, 2)
    ]
    return benchmark("peers.word_figures").summary(case, engine, runs)


def test_words_per_second_stand_against_each_peer_and_memory_beside_the_matrices():
    figures = benchmark("peers.word_figures")
    ours, theirs = line_of_words("wordpipe", 1, 100), line_of_words("gensim-file", 4, 50)
    assert (ours["words_per_s"], ours["words_per_s_least"], ours["words_per_s_most"]) == (1000, 500, 2000)
    assert ours["memory_beside_matrices_mb"] == 60
    (ratio,) = figures.ratios([ours, theirs])
    assert (ratio["against"], ratio["times_as_fast"], ratio["share_of_memory"]) == ("gensim-file", 4.0, 2.0)
    assert ratio["times_as_fast_whole_command"] == 4.0
    rows = list(figures.table([ours, theirs], {"gensim-file": "gensim 4.4"}))
    assert "| 100 MB (60 beside the matrices) |  |" in rows[-2]
    assert "| gensim 4.4 | 250 (125–500) |  | 8.0 s | 50 MB | 4.0 × as fast, 2.00 × the memory |" in rows[-1]
    larger = line_of_words("wordpipe", 1, 500, mb=10.0)
    one = line_of_words("wordpipe", 1.5, 100, threads=1, part="scaling")
    found = list(figures.scaling([ours, one, theirs, larger]))
    assert [row["times_one_thread"] for row in found if "threads" in row] == [1.5]
    assert [row["more_memory_beside_matrices_mb"] for row in found if "against_mb" in row] == [40.0]


def test_words_that_a_library_says_it_read_count_instead_of_those_of_the_text():
    case = {"mb": 1, "epochs": 3, "words": 100, "matrices_bytes": 0}
    run = {"seconds": 2.0, "process_seconds": 3.0, "process_peak_memory_bytes": 1, "words_read": 400}
    summary = benchmark("peers.word_figures").summary
    assert summary(case, "gensim-file", [run | {"share_read": 4 / 3, "share_trained": 1.2}])["words_per_s"] == 200
    del run["words_read"]
    assert summary(case, "wordpipe", [run])["words_per_s"] == 150


def test_quality_is_a_mean_and_a_spread_over_the_seeds_with_what_was_known():
    figures = benchmark("peers.word_figures")
    runs = [
        {
            "architecture": "cbow",
            "engine": "wordpipe",
            "ws353": value,
            "ws353_known": 9,
            "ws353_pairs": 10,
            "loss": None,
        }
        for value in (0.5, 0.7)
    ]
    (line,) = figures.spreads(runs, ["ws353", "loss"])
    assert line["ws353"] == {"mean": 0.6, "spread": 0.1414, "known": 9, "of": 10}
    assert "loss" not in line
    *_, row = figures.quality_table([line], ["ws353", "loss"], {})
    assert row == "| cbow | wordpipe | 2 | 0.6000 ± 0.1414 (9 of 10) | – |"


def test_the_last_speed_that_fasttext_writes_is_read():
    speed = benchmark("peers.word_engines").fasttext_speed
    said = "\rProgress:  50.0% words/sec/thread:   10 lr:  0.01\rProgress: 100.0% words/sec/thread: 1234 lr:  0.0 avg.loss: 2"
    assert speed(said) == 1234
    with pytest.raises(ValueError, match="did not say"):
        speed("Read 0M words\n")


def test_a_library_that_cannot_be_imported_is_skipped_and_said(tmp_path, monkeypatch, capsys):
    bench_of = benchmark("peers.word_bench")
    bench = bench_of.WordBench(tmp_path, tmp_path / "venvs", 1, 0, 60.0)
    monkeypatch.setitem(bench_of.LIBRARIES, "nobody", "no_such_library")
    assert bench_of.prepare_peers(bench, ["nobody"]) == []
    assert "skipped nobody: exit code 1" in capsys.readouterr().err
    assert "ModuleNotFoundError" in bench.skipped[0]["why"]


def test_a_last_word_that_is_not_trained_is_a_fault():
    script = benchmark("words")
    bench = script.WordBench(Path(), Path(), 1, 0, 1.0)
    found = {"long_line": [{"engine": "gensim-file", "last_word_changed": False}]}
    assert script.faults(bench, found) == []
    found["long_line"].append({"engine": "wordpipe", "last_word_changed": False})
    assert script.faults(bench, found) == ["the last word of a line of 30,000 was not trained"]


def words_folder(tmp_path):
    """A text of a hundred documents, and sets of the words in it."""
    random = np.random.default_rng(3)
    known = [f"{a}{b}n" for a in "bdgklmprst" for b in "aeiou"]
    texts = ["\n".join(" ".join(random.choice(known, 30)) for _ in range(4)) for _ in range(100)]
    files = {
        "wiki/train.txt": "\n\n".join(texts),
        "words/EN-WS-353-ALL.txt": "".join(f"{known[n]}\t{known[-n - 1]}\t{n}\n" for n in range(20)),
        "words/EN-SIMLEX-999.txt": "".join(f"{known[n]} {known[n + 20]} {n}\n" for n in range(20)) + "missing word 3\n",
        "words/questions-words.txt": f": family\n{' '.join(known[:4])}\n{' '.join(known[4:8])}\n",
    }
    for name, text in files.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(text)
    return tmp_path / "data", sum(len(text.split()) for text in texts)


def run_words(tmp_path, *options):
    """The script on a small text: what it wrote, and how many words the text has."""
    data, words = words_folder(tmp_path)
    out, scratch = tmp_path / "out.json", tmp_path / "scratch"
    scratch.mkdir()
    size = (data / "wiki" / "train.txt").stat().st_size / 1e6
    sizes = ["--sizes", size, "--slice-mb", size, "--seeds", 1, "--min-count", 1, "--threads", 1]
    command = [sys.executable, BENCHMARKS / "words.py", "--data", data, "--out", out, "--scratch", scratch, *sizes]
    done = subprocess.run(list(map(str, [*command, *options])), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tmp_path) not in out.read_text()
    assert list(scratch.iterdir()) == []
    return json.loads(out.read_text()), words


@pytest.mark.slow
def test_words_are_timed_from_end_to_end(tmp_path):
    found, words = run_words(tmp_path, "--only", "speed", "--architectures", "skipgram", "--peers", "gensim-file")
    assert found["ok"]
    assert found["skipped"] == found["failed"] == []
    ours, theirs = found["lines"]
    assert (ours["engine"], theirs["engine"], theirs["share_read"]) == ("wordpipe", "gensim-file", 1.0)  # of one thread
    assert all(line["words_per_s"] > 0 and line["process_seconds"] >= line["seconds"] > 0 for line in found["lines"])
    assert 0.9 * words < found["texts"][0]["words"] < words  # some documents are held out
    assert [row["against"] for row in found["ratios"]] == ["gensim-file"]


@pytest.mark.slow
def test_all_parts_run_from_end_to_end(tmp_path):
    only = ["--only", "losses,quality,long-line", "--peers", "gensim-file", "--huge", 2000]
    found, _ = run_words(tmp_path, *only)
    assert found["failed"] == []
    wanted = [
        (way, loss, engine)
        for way in ("skipgram", "cbow")
        for loss in ("ns", "hs", "softmax")
        for engine in (("wordpipe",) if loss == "softmax" else ("wordpipe", "gensim-file"))
    ]
    assert [(line["architecture"], line["loss"], line["engine"]) for line in found["lines"]] == wanted
    assert [line["ws353"]["of"] for line in found["quality"]] == [20] * 4
    assert all(1 < line["held_out_loss"]["mean"] < 6 for line in found["quality"])
    assert found["long_line"][0] == {"engine": "wordpipe", "last_word_changed": True}
    assert found["long_line"][1]["share_trained"] < 0.7  # gensim's corpus_file loses a third of such a line
    assert found["huge"]["words"] == 4000


def test_the_evaluation_sees_the_same_words_whoever_trained(tmp_path):
    """One table as an artifact and as plain files in another order gets the same figures."""
    import wordpipe

    readings, engines = benchmark("peers.word_readings"), benchmark("peers.word_engines")
    data, _ = words_folder(tmp_path)
    wordpipe.ingest([data / "wiki" / "train.txt"], output=tmp_path / "corpus", documents="block", valid=0.1)
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "tokens", algorithm="char")
    settings = {"dim": 6, "window": 2, "epochs": 1, "min_count": 1, "threads": 1}
    wordpipe.train_word2vec(
        tmp_path / "tokens", output=tmp_path / "words", backend="native", store="float32", **settings
    )
    table = pq.read_table(tmp_path / "words" / "words-00000.parquet")
    outputs = pq.read_table(tmp_path / "words" / "outputs-00000.parquet")
    order = np.random.default_rng(0).permutation(len(table))
    task = {
        "tokens": str(tmp_path / "tokens"), "min_count": 1, "settings": settings,
        "sets": {"ws353": str(data / "words/EN-WS-353-ALL.txt"), "analogies": str(data / "words/questions-words.txt")},
    }  # fmt: skip
    ours = readings.evaluate(task | {"engine": "wordpipe", "vectors": str(tmp_path / "words")})
    shuffled = [part.take(pa.array(order)) for part in (table, outputs)]
    vectors = [np.array(part["vector"].to_pylist(), dtype=np.float32) for part in shuffled]
    engines.keep_vectors({"keep": str(tmp_path / "plain")}, shuffled[0]["word"].to_pylist(), *vectors)
    assert readings.evaluate(task | {"engine": "gensim-file", "vectors": str(tmp_path / "plain")}) == ours
    assert ours["ws353_known"] == 20
    assert ours["analogies_pairs"] == 2
    assert 0.5 < ours["held_out_loss"] < 6


def test_lines_for_the_others_are_the_texts_whatever_the_blocks():
    lines_of = benchmark("peers.word_readings").lines_of
    words = import_module("wordpipe.words.vocabulary").Words
    random = np.random.default_rng(5)
    for _ in range(50):
        texts = [random.integers(0, 9, n).astype(np.int32) for n in random.integers(0, 6, 12)]
        rows, starts = np.concatenate(texts), np.cumsum([0, *map(len, texts[:-1])])
        cuts = [0, *sorted(random.integers(0, len(rows) + 1, 3)), len(rows)]
        blocks = [
            words(rows[a:b], starts[(starts >= a) & ((starts < b) | (b == len(rows)))] - a) for a, b in pairwise(cuts)
        ]
        assert list(lines_of(iter(blocks))) == [text.tolist() for text in texts if len(text)]


@pytest.mark.landing
def test_the_sizes_of_a_text_are_measured_stage_by_stage(tmp_path):
    sizes = benchmark("sizes")
    (tmp_path / "long.txt").write_text("A title\nThe first bee.\n\nOther title\nThe second bee.\n" * 40)
    sizes.cut(tmp_path / "long.txt", 0.0005, tmp_path / "text.txt")
    whole, part = (tmp_path / "long.txt").read_bytes(), (tmp_path / "text.txt").read_bytes()
    assert whole.startswith(part)
    assert 500 <= len(part) < 540
    assert part.endswith(b"\n")
    found = sizes.stage(tmp_path, *sizes.CHAIN[0], known := set())
    assert found["counts"]["bytes_read"] == len(part)
    assert found["seconds"] >= 0
    assert found["disk_bytes"] >= (tmp_path / "corpus" / "corpus-00000.parquet").stat().st_size
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "rows").hardlink_to(tmp_path / "corpus" / "corpus-00000.parquet")
    (tmp_path / "index" / "own").write_bytes(b"123")
    assert [sizes.added(tmp_path / "index", known), sizes.added(tmp_path / "index", known)] == [3, 0]
    before = {"mb": 1, "lines": [found | {"seconds": 9.0, "disk_bytes": 1}]}
    kept = sizes.with_disk_of(before, {"lines": [found], "times_the_text": 5.0})
    assert kept == {"mb": 1, "lines": [found | {"seconds": 9.0}], "times_the_text": 5.0}
    with pytest.raises(SystemExit, match="exit code 3"):
        sizes.stage(tmp_path, "other", "ingest nowhere.txt", known)


def test_the_questions_of_a_collection_have_their_right_answers(tmp_path):
    stores = benchmark("stores")
    (tmp_path / "queries.jsonl").write_text('{"_id": "7", "text": "how  do\\nbees"}\n{"_id": "8", "text": "tides"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n7\ta\t1\n8\tb\t0\n7\tc\t2\n")
    stores.questions(tmp_path, tmp_path / "questions.tsv")
    assert (tmp_path / "questions.tsv").read_text() == "how do bees\ta\nhow do bees\tc\n"


def test_pages_of_pdf_are_counted_for_every_side_and_slow_files_are_named(tmp_path, monkeypatch):
    pdf, folder, out = benchmark("pdf_speed"), tmp_path / "pdf", tmp_path / "out" / "pdf_speed.json"
    folder.mkdir()
    for name in ("bridges", "encrypted"):
        shutil.copy(GOLDEN / "pdf" / f"{name}.pdf", folder)
    monkeypatch.setattr(sys, "argv", ["pdf_speed.py", "--data", str(folder), "--repeats", "1", "--out", str(out)])
    pdf.main()
    found = json.loads(out.read_text())
    assert found["left_out"] == ["encrypted.pdf"]
    assert {"wordpipe", "pypdfium2"} <= {*found["pages_per_s"]} == {*found["libraries"]}
    (one,) = found["files"]
    assert one["pages"] == found["pages"] > 0
    assert min(one["characters"].values()) > 100
    slow = [
        {"name": "a", "pages": 30, "seconds": {"wordpipe": 0.3}},
        {"name": "b", "pages": 5, "seconds": {"wordpipe": 0.01}},
    ]
    assert pdf.misses_of(slow) == ["a: 100 pages a second", "all files: 113 pages a second"]


def test_a_step_and_latent_directions_are_timed_beside_what_they_replaced(tmp_path, monkeypatch):
    speed, out = benchmark("static_speed"), tmp_path / "out" / "static_speed.json"
    (tmp_path / "data" / "small").mkdir(parents=True)
    words = np.random.default_rng(0).integers(0, 200, (80, 30)).tolist()
    lines = [
        json.dumps({"_id": str(row), "text": " ".join(f"word{one}" for one in own)}) for row, own in enumerate(words)
    ]
    (tmp_path / "data" / "small" / "corpus.jsonl").write_text("\n".join(lines))
    for name, value in {"PAIRS": 16, "WORDS": 100, "WIDTH": 8, "DIRECTIONS": 4, "PIECE": 10}.items():
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(speed.torch, "set_num_threads", lambda _: None)  # that other tests keep theirs
    given = ["--data", str(tmp_path / "data"), "--steps", "2", "--times", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["static_speed.py", *given])
    speed.main()
    found = json.loads(out.read_text())
    assert [row["threads"] for row in found["steps"]] == [1, 2]
    assert all(row["differ"] < 1e-4 for row in found["steps"])
    assert [(row["texts"], row["rows"]) for row in found["directions"]] == [("small", 80), ("pieces", 240)]
    assert all(row["kept"] > 0.99 for row in found["directions"])
    step, own = {"threads": 2, "processor_ms": {"numpy": 3, "torch": 2}}, {"kept": 0.5, "processor_ms": {}}
    own["processor_ms"] |= {"lanczos": 2, "arpack": 4}
    assert speed.misses_of([step], own) == ["step, 2 threads: 1.50 of the control's time", "kept: 0.5"]
