"""Training an encoder on the documents of a collection."""

import json

import numpy as np
import pytest

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError
from wordpipe.search.collection import Collection
from wordpipe.stages.adapt import _beside, adapt
from wordpipe.stages.evaluate_retrieval import evaluate_retrieval
from wordpipe.stages.making import RunOptions
from wordpipe.training.contrast.settings import ContrastiveSettings

AGAIN = {"steps": 3, "batch_size": 16, "threads": 1, "valid_pairs": 4}
FEW = AGAIN | {"lexical_dim": 16}


@pytest.fixture(scope="module")
def collection(handbook):
    blocks = [block.partition("\n") for block in handbook.read_text().strip().split("\n\n")[:60]]
    titles, texts = [block[0] for block in blocks], [block[2] for block in blocks]
    names = [f"d{number}" for number in range(60)]
    return Collection(names, titles, texts, ["q"], [texts[0]], {"q": {"d0": 1}}, {})


def documents_of(folder):
    with Artifact(folder / "corpus") as artifact:
        return {title for batch in read_batches(artifact, "corpus", ["title"]) for title in batch["title"].to_pylist()}


@pytest.fixture(scope="module")
def adapted(built, collection, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapted")
    return adapt(built / "words", collection, folder, RunOptions(), **FEW), folder


def test_words_become_a_static_encoder_of_the_documents(adapted, collection):
    made, folder = adapted
    assert documents_of(folder) == {*collection.titles}
    with Artifact(made, ["model"]) as model:
        assert model.manifest.facts["encoder"] == "static"
        assert model.manifest.facts["goal"] == "search"


def test_words_begin_beside_the_latent_directions_of_the_documents(adapted):
    with Artifact(adapted[0], ["model"]) as model:
        settings = model.manifest.settings
        assert settings["lsi_weight"] > settings["words_weight"] > 0
        assert settings["steps"] == FEW["steps"]


def test_epochs_take_the_place_of_the_steps_that_are_usual(built, collection, tmp_path):
    few = {**FEW, "epochs": 1, "lsi_weight": 0.0}
    few.pop("steps")
    made = adapt(built / "words", collection, tmp_path, RunOptions(), **few)
    with Artifact(made, ["model"]) as model:
        assert model.manifest.counts["steps"] < 100


@pytest.mark.parametrize(
    ("start", "given", "gone"),
    [
        ({"unit": "token", "min_count": 1}, {}, "min_count"),
        ({"steps": 150}, {"epochs": 2}, "steps"),
        ({"lsi_weight": 1.0, "lsi_dim": 300}, {"lsi_weight": 0.0}, "lsi_dim"),
    ],
)
def test_what_is_usual_gives_way_to_what_it_means_nothing_beside(start, given, gone):
    usual = {"goal": "search"} | start
    chosen = _beside(usual, given)
    ContrastiveSettings.make(chosen)
    assert chosen == {name: value for name, value in usual.items() if name != gone} | given
    assert gone in _beside(usual, given | {gone: usual[gone]})  # what is asked for is not taken away in silence


def test_what_was_made_can_be_judged_and_adapted_again(adapted, built, collection, tmp_path):
    made, _ = adapted
    records = [
        {"_id": name, "title": title, "text": text}
        for name, title, text in zip(collection.documents, collection.titles, collection.texts, strict=True)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": collection.questions[0]}))
    (tmp_path / "qrels.tsv").write_text("q\td0\t1\n")
    found = evaluate_retrieval(made, tmp_path, adapt_with=AGAIN, lsi_dim=4, draws=0, device="cpu", threads=1)
    systems = {one["system"]: one for one in found["systems"]}
    assert systems["hybrid"]["facts"]["weight"] <= 0.5
    assert np.isfinite([*systems["hybrid"]["metrics"].values()]).all()
    assert systems["hybrid"]["metrics"]["mrr"] == 1  # the query is a document


def test_what_cannot_be_trained(built, collection, tmp_path):
    with pytest.raises(ArtifactError, match="wrong kind"):
        adapt(built / "sentences", collection, tmp_path, RunOptions())
