"""A query from a cold shell loads what it needs and no more; and every kind of encoder tells what carried a score."""

import json
import subprocess
import sys

import numpy as np
import pytest

import wordpipe
from wordpipe.encoders import static_files, word_tokenizer
from wordpipe.model.settings import FillSettings
from wordpipe.stages import open_job
from wordpipe.words import WordVectors

ASKED = "salt water in the sea"
SLOW = [
    "torch", "numba", "scipy", "transformers", "duckdb", "gensim", "bm25s", "pandas", "pyarrow.compute", "pyarrow.dataset",
    "wordpipe.search.build", "wordpipe.search.pseudo_queries", "wordpipe.stages.search.index", "wordpipe.stages.encode.embed",
    "wordpipe.stages.job", "wordpipe.stages.search.index_lexical", "wordpipe.training", "wordpipe.words.vectors",
]  # fmt: skip
"""What a query does without; each costs 50 ms or more, or drags in what does."""

LOADED = """
import sys
sys.argv = ["wordpipe", "query", *sys.argv[1:]]
from wordpipe.cli import run
code = run()
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""


@pytest.fixture(scope="module")
def models(built, tmp_path_factory):
    """A static encoder, made of word vectors, and a transformer."""
    from wordpipe.artifacts import Artifact, read_batches

    with Artifact(built / "words") as artifact:
        table = WordVectors.from_batches(read_batches(artifact, "words"))
    rows = np.concatenate([table.vectors, np.zeros((1, table.dim), np.float32)])
    static = tmp_path_factory.mktemp("models") / "static"
    with open_job("model", static, FillSettings(), None) as job:
        for name, data in static_files(rows, word_tokenizer(list(table.words))).items():
            job.write(name, data)
        job.facts |= {"encoder": "static", "pooling": "mean", "dim": table.dim, "pairs": ["crop", "title"]}
    return {"static": static, "transformer": built / "model"}


def indexed(model, built, folder, store="float32", **settings):
    """An index over the handbook's documents."""
    wordpipe.embed(
        model, built / "corpus", output=folder / "sentences", unit="document", threads=1, store=store, **settings
    )
    wordpipe.index(folder / "sentences", output=folder / "index")
    return folder / "index"


@pytest.mark.landing
@pytest.mark.parametrize(
    ("kind", "store"),
    [("transformer", "float32"), ("static", "int8"), pytest.param("static", "float32", marks=pytest.mark.slow)],
)
def test_a_cold_query_loads_nothing_slow(models, built, tmp_path, kind, store):
    index = indexed(models[kind], built, tmp_path, store)
    for mode in ("dense", "hybrid"):
        done = subprocess.run(
            [sys.executable, "-c", LOADED, str(index), ASKED, "--mode", mode],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(done.stdout.splitlines()) == 10
        loaded = set(done.stderr.splitlines())
        of_faiss = {"faiss", "wordpipe.search.vectors.faiss_index"}
        assert "numpy" in loaded
        assert of_faiss & loaded == (set() if store == "int8" else of_faiss)  # few stored vectors are compared by NumPy
        assert sorted(loaded & set(SLOW)) == []


@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        ("static", "whiten"),
        *(
            pytest.param(kind, transform, marks=pytest.mark.slow)
            for kind, others in (("static", ("none", "centre")), ("transformer", ("none", "whiten", "centre")))
            for transform in (*others, "remove-components")
        ),
    ],
)  # fmt: skip
def test_the_words_add_up_to_the_cosine_in_every_space(models, built, tmp_path, kind, transform):
    index = indexed(models[kind], built, tmp_path, transform=transform)
    with wordpipe.open(index) as opened:
        for hit in opened.query(ASKED, 5, mode="dense", explain=True):
            told = hit["explain"]["dense"]
            assert told["score"] == pytest.approx(hit["score"], abs=1e-4)
            assert sum(pair["score"] for pair in told["pairs"]) + told["others"] == pytest.approx(
                hit["score"], abs=1e-4
            )
            for words in (told["query"], told["text"]):
                assert sum(word["score"] for word in words) == pytest.approx(hit["score"], abs=1e-4)


def test_an_encoder_that_learned_titles_is_weighed_by_them_with_care(models, built, tmp_path):
    index = indexed(models["static"], built, tmp_path)
    identity = json.loads((index / "encoder" / "encoder.json").read_text())["identity"]
    assert identity["pairs"] == ["crop", "title"]
    with wordpipe.open(index) as opened:
        weighed = opened.artifact.manifest.facts["lexical"]
        assert weighed["measured"]["by"] == "titles"
        assert weighed["mode"] != "dense"


def test_what_an_encoder_carries_is_not_of_a_machine_or_a_run(models, built, tmp_path):
    index = indexed(models["static"], built, tmp_path)
    settings = json.loads((index / "encoder" / "encoder.json").read_text())["settings"]
    assert not {"device", "threads", "update"} & set(settings)
    assert settings["pooling"] == "auto"
