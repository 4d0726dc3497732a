"""The chain end to end, and what other programs make of its artifacts."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import wordpipe
from tests.conftest import DATA, TINY
from wordpipe.artifacts import Artifact


def table(folder, stem):
    with wordpipe.open(folder) as artifact:
        return artifact.batches(table=stem).read_all()


def test_every_artifact_is_whole(built):
    for name in ("corpus", "tokens", "words", "model", "sentences", "index"):
        assert wordpipe.verify(built / name)["ok"]


def test_a_documents_sentences_concatenate_to_its_text(built, handbook):
    documents = table(built / "corpus", "corpus").to_pylist()
    blocks = {
        b.partition("\n")[0].strip(): b.partition("\n")[2] for b in handbook.read_text().split("\n\n") if b.strip()
    }
    joined: dict[str, str] = {}
    for row in documents:
        joined[row["title"]] = joined.get(row["title"], "") + row["text"]
    assert len(joined) > 100
    for title, text in joined.items():
        assert text.split() == blocks[title].split()


def test_rows_know_their_line(built, handbook):
    lines = handbook.read_text().split("\n")
    for row in table(built / "corpus", "corpus").slice(0, 200).to_pylist():
        assert row["text"].split()[0] in lines[row["line"] - 1]


def test_tokens_are_those_of_the_tokenizer_alone(built):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(built / "tokens" / "tokenizer.json"))
    texts = table(built / "corpus", "corpus")["text"].to_pylist()
    rows = table(built / "tokens", "tokens")
    assert rows["ids"].to_pylist() == [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    words = pq.read_table(built / "tokens" / "words.parquet")
    counts = np.bincount(np.concatenate([np.array(ids) for ids in rows["word_ids"].to_pylist()]).astype(int))
    assert counts.tolist() == words["count"].to_pylist()


@pytest.mark.landing
@pytest.mark.parametrize("objective", ["mlm", "clm"])
def test_transformers_loads_the_model_folder_with_the_same_logits(built, tmp_path, objective):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    from wordpipe.model import load_hf

    folder = built / "model"
    if objective == "clm":
        folder = tmp_path / "clm"
        wordpipe.train_clm(built / "tokens", output=folder, steps=3, **TINY)
    theirs = (AutoModelForMaskedLM if objective == "mlm" else AutoModelForCausalLM).from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["Bees find their way home.", "Bridges hold."], return_tensors="pt", padding=True)
    with Artifact(folder) as artifact:
        ours = load_hf(artifact.read).model
    mask = batch["attention_mask"].bool()
    with torch.inference_mode():
        expected, found = theirs(**batch).logits, ours(batch["input_ids"], mask)
    assert torch.allclose(expected[mask], found[mask], atol=1e-4)


@pytest.mark.landing
def test_gensim_reads_the_exported_vectors(built, tmp_path):
    pytest.importorskip("gensim")
    from gensim.models import KeyedVectors

    for form, binary in (("word2vec-text", False), ("word2vec-binary", True)):
        path = tmp_path / form
        wordpipe.export(built / "words", form, path)
        theirs = KeyedVectors.load_word2vec_format(str(path), binary=binary)
        with wordpipe.open(built / "words") as words:
            for hit, (word, score) in zip(words.query("the", k=5), theirs.most_similar("the", topn=5), strict=True):
                assert hit["word"] == word
                assert hit["score"] == pytest.approx(score, abs=1e-5)


def test_faiss_reads_the_index_and_its_rows_are_in_order(built):
    import faiss

    index = faiss.read_index(str(built / "index" / "index.faiss"))
    rows = table(built / "index", "index")
    vectors = np.array(rows["vector"].to_pylist(), dtype=np.float32)
    assert index.ntotal == 0  # the rows have the vectors
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    index.add(vectors)
    _, nearest = index.search(vectors[:20], 1)
    assert nearest[:, 0].tolist() == list(range(20))


def test_a_texts_own_words_find_it_first(built):
    rows = table(built / "index", "index").slice(0, 10).to_pylist()
    with wordpipe.open(built / "index") as index:
        for row in rows:
            hit = index.query(f"{row['title']}\n{row['text']}", k=1, mode="dense")[0]
            assert (hit["row"], hit["rank"]) == (row["row"], 1)
            assert hit["score"] == pytest.approx(1, abs=1e-4)


def test_an_index_answers_wherever_it_is_moved(built, tmp_path, cli):
    shutil.copytree(built / "index", tmp_path / "elsewhere")
    result = cli("query", tmp_path / "elsewhere", "how do bees find their way", "-k", 3, "--json", "--mode", "hybrid")
    assert result.code == 0
    hits = [json.loads(line) for line in result.out.splitlines()]
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    assert {"query", "score", "row", "text", "source", "line"} <= set(hits[0])
    assert all(0 <= hit["score"] <= 1 for hit in hits)


def test_the_same_text_has_the_same_vector_alone_and_in_a_batch(built):
    with wordpipe.open(built / "index") as index:
        texts = ["a", "bread and butter " * 200, "how tides work", "short one"]
        together = index.encoder.encode(texts).vectors
        for text, vector in zip(texts, together, strict=True):
            assert np.allclose(index.encoder.encode([text]).vectors[0], vector, atol=1e-5)


@pytest.mark.landing
@pytest.mark.parametrize("unit", ["sentence", "window"])
def test_word_vectors_embed_and_answer(built, tmp_path, unit):
    wordpipe.embed(built / "words", built / "corpus", output=tmp_path / "s", unit=unit)
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    with wordpipe.open(tmp_path / "i") as index:
        hits = index.query("the bread is baked in an oven", k=5)
    assert len(hits) == 5
    assert wordpipe.verify(tmp_path / "i")["ok"]


def test_an_index_of_words_answers_like_the_table(built, tmp_path):
    wordpipe.index(built / "words", output=tmp_path / "i")
    with wordpipe.open(tmp_path / "i") as index, wordpipe.open(built / "words") as words:
        for query in ("water", "water bridge", "water - sea + land"):
            found, expected = index.query(query, k=5), words.query(query, k=5)
            assert [hit["word"] for hit in found] == [hit["word"] for hit in expected]
            assert [hit["score"] for hit in found] == pytest.approx([hit["score"] for hit in expected], abs=1e-5)


def test_tokens_may_have_vectors_and_start_a_model(built, tmp_path):
    wordpipe.train_word2vec(
        built / "tokens", output=tmp_path / "w", unit="token", min_count=1, dim=16, epochs=1, threads=1
    )
    made = wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", steps=2, init_embeddings=tmp_path / "w", **TINY)
    assert made.counts["embeddings_from_words"] > 100


@pytest.mark.landing
def test_the_short_chain_takes_plain_files(tmp_path, handbook):
    wordpipe.tokenize(handbook, output=tmp_path / "tokens", vocab_size=600)
    wordpipe.train_mlm(tmp_path / "tokens", output=tmp_path / "model", steps=2, **TINY)
    wordpipe.embed(tmp_path / "model", handbook, output=tmp_path / "sentences", device="cpu")
    made = wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    assert made.counts["vectors"] > 500
    with wordpipe.open(tmp_path / "index") as index:
        assert index.query("bread", k=3)
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")) == [
        "index",
        "model",
        "sentences",
        "tokens",
    ]


def test_text_comes_through_a_pipe(tmp_path, handbook, built):
    command = [
        sys.executable,
        "-m",
        "wordpipe",
        "ingest",
        "-",
        "-o",
        str(tmp_path / "c"),
        "--documents",
        "block",
        "--json",
    ]
    done = subprocess.run(command, input=handbook.read_text(), capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    assert made["counts"]["documents_kept"] > 100
    assert wordpipe.verify(tmp_path / "c")["ok"]


def test_queries_come_through_a_pipe_and_from_a_file(built, tmp_path, cli):
    (tmp_path / "q.txt").write_text("bees\n\nbridges and ropes\n")
    command = [sys.executable, "-m", "wordpipe", "query", str(built / "index"), "--json", "-k", "2"]
    piped = subprocess.run(command, input=(tmp_path / "q.txt").read_text(), capture_output=True, text=True, check=True)
    from_file = cli("query", built / "index", "--queries", tmp_path / "q.txt", "--json", "-k", 2)
    assert piped.stdout == from_file.out
    hits = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [hit["query"] for hit in hits] == ["bees"] * 3 + [""] + ["bridges and ropes"] * 3
    # of each query the last line counts the others; a blank line has that alone
    assert [hit.get("hits") for hit in hits] == [None, None, 2, 0, None, None, 2]


def test_a_closed_pipe_is_quiet(built):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe", "query", str(built / "words"), "the", "-k", "500"],
        stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == -13
    assert done.stderr == ""


@pytest.mark.landing
def test_the_same_input_gives_the_same_bytes(built, tmp_path):
    again = {
        "corpus": lambda out: wordpipe.ingest(
            DATA / "sample" / "handbook.txt", output=out, documents="block", first_line_title=True, valid=0.1
        ),
        "tokens": lambda out: wordpipe.tokenize(built / "corpus", output=out, vocab_size=1000),
        "words": lambda out: wordpipe.train_word2vec(
            built / "tokens", output=out, min_count=2, dim=24, epochs=3, threads=1
        ),
        "model": lambda out: wordpipe.train_mlm(built / "tokens", output=out, steps=4, **TINY),
        "sentences": lambda out: wordpipe.embed(
            built / "model", built / "corpus", output=out, unit="document", device="cpu", threads=1
        ),
        "index": lambda out: wordpipe.index(built / "sentences", output=out),
    }
    for name, make in again.items():
        made = make(tmp_path / name)
        with Artifact(built / name) as first:
            assert first.manifest.bitwise
            assert (made.recipe, made.digest) == (first.manifest.recipe, first.digest), name


def test_the_manifest_tells_nothing_of_the_machine(built):
    for name in ("corpus", "tokens", "words", "model", "sentences", "index"):
        text = (built / name / "manifest.json").read_text()
        assert str(built) not in text
        assert os.uname().nodename not in text


@pytest.mark.landing
def test_json_has_what_the_readme_says(built, tmp_path, cli):
    result = cli("index", built / "sentences", "-o", tmp_path / "i", "--json")
    made = json.loads(result.out)
    assert set(made) >= {
        "kind",
        "path",
        "recipe",
        "digest",
        "seconds",
        "peak_memory_bytes",
        "counts",
        "rates",
        "metrics",
    }
    said = [line[:16] for line in result.err.splitlines() if line[:1] != "["]  # a slow machine shows its progress
    assert said[:2] == ["language of the ", "search by       "]  # a line for each message, and a table
    assert said[-1].startswith("vectors ")
    assert cli("index", built / "sentences", "-o", tmp_path / "i", "-q").err == ""


def test_what_came_out_of_a_folder_is_not_read_again(tmp_path, handbook, monkeypatch):
    shutil.copy(handbook, tmp_path / "handbook.txt")
    monkeypatch.chdir(tmp_path)
    first = wordpipe.ingest(".", output="run/corpus")
    second = wordpipe.ingest(".", output="run/corpus")
    assert (first.recipe, first.digest) == (second.recipe, second.digest)


def test_equal_documents_are_not_merged(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("Tides rise and fall. Boats wait for the tide.\n")
    wordpipe.ingest([tmp_path / "a.txt", tmp_path / "b.txt"], output=tmp_path / "c", deduplicate=False, valid=0.0)
    wordpipe.tokenize(tmp_path / "c", output=tmp_path / "t", vocab_size=300)
    made = wordpipe.train_word2vec(tmp_path / "t", output=tmp_path / "w", min_count=1, dim=8, epochs=1, subsample=0)
    assert made.counts["texts"] == 2
    made = wordpipe.embed(tmp_path / "w", tmp_path / "c", output=tmp_path / "s", unit="document")
    assert made.counts["sentences"] == 2


def test_flags_win_over_a_file_also_where_two_cannot_stand_together(built, tmp_path, cli):
    small = "".join(f"{name} = {json.dumps(value)}\n" for name, value in TINY.items())
    (tmp_path / "x.toml").write_text(f"epochs = 3.0\npreset = 'tiny'\n{small}")
    args = (
        "train",
        "mlm",
        built / "tokens",
        "-o",
        tmp_path / "m",
        "--config",
        tmp_path / "x.toml",
        "--steps",
        2,
    )
    result = cli(*args, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["counts"]["steps"] == 2


def test_one_bad_line_ends_no_batch_of_queries(built, tmp_path, cli):
    (tmp_path / "q.txt").write_text("water\n+ +\nbread\n")
    result = cli("query", built / "words", "--queries", tmp_path / "q.txt", "-k", 1, "--json")
    assert result.code == 0
    assert [json.loads(line)["query"] for line in result.out.splitlines() if "rank" in line] == ["water", "bread"]
    assert "skipped" in result.err


def test_an_unknown_word_asked_of_an_index_is_answered_with_its_spelling(built, tmp_path, cli):
    wordpipe.embed(built / "words", built / "corpus", output=tmp_path / "s")
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    assert "bread" in cli("query", tmp_path / "i", "the breadd", "-k", 1).err


def test_verify_is_about_the_artifact_and_warns_of_its_inputs(chain, cli):
    (chain / "corpus" / "manifest.json").write_text("{}")
    result = cli("verify", chain / "tokens")
    assert result.code == 0
    assert "corpus is damaged" in result.err


@pytest.mark.slow
def test_ten_times_the_text_needs_no_more_memory_to_ingest(tmp_path, handbook):
    text, peaks = handbook.read_text(), []
    for copies in (90, 900):  # 10 and 100 MB
        with (tmp_path / "big.txt").open("w") as file:
            for number in range(copies):
                file.write(text.replace("\n\n", f" {number}\n\n"))
        command = [
            sys.executable,
            "-m",
            "wordpipe",
            "ingest",
            str(tmp_path / "big.txt"),
            "-o",
            str(tmp_path / "c"),
            "--json",
        ]
        done = subprocess.run([*command, "--documents", "block"], capture_output=True, text=True, check=True)
        peaks.append(json.loads(done.stdout)["peak_memory_bytes"])
    assert peaks[1] <= 1.3 * peaks[0]
