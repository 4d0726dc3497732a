"""The files for sentence-transformers: the transform as a dense layer, the weights of words."""

import json

import numpy as np
import pytest
from safetensors.numpy import load

from tests.encoders.test_transforms import crowd, fitted
from wordpipe.encoders import Transform, TransformKind, sentence_transformers_files
from wordpipe.errors import ConfigError
from wordpipe.metrics import unit_rows


def modules(files: dict[str, bytes]) -> list[tuple[str, str]]:
    listed = json.loads(files["modules.json"])
    assert [one["idx"] for one in listed] == [*range(len(listed))]
    return [(one["type"].removeprefix("sentence_transformers.models."), one["path"]) for one in listed]


@pytest.mark.parametrize("kind", ["centre", "remove-components", "whiten"])
def test_the_dense_layer_is_the_transform(kind: TransformKind) -> None:
    vectors_ND = crowd(60, 8, 1)
    transform = fitted(vectors_ND, kind, 2, 5 if kind == "whiten" else 0)
    files = sentence_transformers_files("transformer", dim=8, max_len=32, transform=transform)
    assert modules(files) == [
        ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"), ("Dense", "3_Dense"),
        ("Normalize", "4_Normalize"),
    ]  # fmt: skip
    about, layer = json.loads(files["3_Dense/config.json"]), load(files["3_Dense/model.safetensors"])
    assert (about["in_features"], about["out_features"]) == (8, transform.dim)
    dense_NK = vectors_ND @ layer["linear.weight"].T + layer["linear.bias"]
    np.testing.assert_allclose(unit_rows(dense_NK)[0], transform.apply(vectors_ND)[0], atol=1e-5)


def test_without_a_transform_there_is_no_dense_layer() -> None:
    files = sentence_transformers_files("static", dim=8, transform=Transform.none(8))
    assert modules(files) == [("StaticEmbedding", ""), ("Normalize", "1_Normalize")]
    assert set(files) == {"modules.json", "config_sentence_transformers.json"}


def test_weights_of_words_stand_before_the_mean() -> None:
    weights_V = np.array([0, 0.5, 1.5], np.float32)
    files = sentence_transformers_files(
        "transformer", dim=8, max_len=16, pooling="weighted", weights_V=weights_V, tokens=["[PAD]", "the", "Biene"]
    )
    assert [name for name, _ in modules(files)] == ["Transformer", "WordWeights", "Pooling", "Normalize"]
    about = json.loads(files["1_WordWeights/config.json"])
    assert about["vocab"] == ["[PAD]", "the", "Biene"]
    assert about["word_weights"] == {"[PAD]": 0.0, "the": 0.5, "Biene": 1.5}
    np.testing.assert_array_equal(
        load(files["1_WordWeights/model.safetensors"])["emb_layer.weight"], weights_V[:, None]
    )


@pytest.mark.parametrize(("pooling", "mode"), [("mean", "mean_tokens"), ("cls", "cls_token"), ("max", "max_tokens")])
def test_one_way_of_pooling_is_on(pooling: str, mode: str) -> None:
    files = sentence_transformers_files("transformer", dim=8, max_len=16, pooling=pooling)
    about = json.loads(files["1_Pooling/config.json"])
    assert [name for name, value in about.items() if value is True] == [f"pooling_mode_{mode}", "include_prompt"]
    assert json.loads(files["sentence_bert_config.json"])["max_seq_length"] == 16


def test_a_pooling_without_a_module_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not support this pooling; got first-last"):
        sentence_transformers_files("transformer", dim=8, max_len=16, pooling="first-last")
