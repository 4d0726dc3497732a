"""One encoder, three ways to compute it: packed by torch, padded by torch (what a GPU does), and numpy."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.sentences.test_transformer_encoder import random_texts
from tests.sentences.tiny import tokenizer
from wordpipe.errors import ConfigError, InputError
from wordpipe.model import STYLES, ArrayModel, ModelConfig, new_model, read_arrays, save_hf
from wordpipe.sentences import ArrayStates, EncodedBatch, ModelParts, Moments, TransformerEncoder, load_facts
from wordpipe.sentences.settings import EmbedSettings

WEIGHTS_V = np.random.default_rng(4).uniform(0.1, 2, 40).astype(np.float32)


class Padded:
    """Hides that a model can read packed sequences."""

    def __init__(self, model):
        self.model = model

    def to(self, _):
        return self

    def eval(self):
        return self

    def encode(self, ids_BT, mask_BT):
        return self.model.encode(ids_BT, mask_BT)


def ways(*, style="modern", pooling="mean", changes=None, **settings):
    """The three encoders, over the same random weights."""
    sizes = {"vocab_size": 40, "dim": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "ffn_dim": 48, "max_len": 12}
    config = ModelConfig(architecture="encoder", **(sizes | STYLES["encoder", style] | (changes or {})))
    model, files = new_model(config, 3).eval(), {}
    with torch.no_grad():
        model.embedding.mul_(20)
    save_hf(model, config, files.__setitem__)
    given = EmbedSettings(device="cpu", threads=1, overlap=3, pooling=pooling, **settings)
    arrays = ArrayStates(ArrayModel(*read_arrays(files.__getitem__)), batch_tokens=64)
    models = {"packed": model, "padded": Padded(model), "numpy": arrays}
    return {
        name: TransformerEncoder(one, tokenizer(), given, dim=32, max_len=12, token_weights=WEIGHTS_V)
        for name, one in models.items()
        if (name, pooling) != ("padded", "first-last")
    }


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "first-last", "weighted"])
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_all_ways_give_the_same_vectors(style, pooling):
    texts = [*random_texts(60, 8), "", "w3"]
    vectors = [encoder.encode(texts).vectors for encoder in ways(style=style, pooling=pooling).values()]
    for other in vectors[1:]:
        np.testing.assert_allclose(other, vectors[0], atol=1e-5)
    assert np.abs(vectors[0][0] - vectors[0][1]).max() > 0.01  # texts differ by more than what is allowed here


@pytest.mark.parametrize("name", ["packed", "padded", "numpy"])
def test_a_text_has_the_same_vector_alone_and_in_any_batch(name):
    texts, encoder = random_texts(30, 9), ways()[name]
    alone = np.vstack([encoder.encode([text]).vectors for text in texts])
    np.testing.assert_allclose(encoder.encode(texts).vectors, alone, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first-last", "weighted"])
@pytest.mark.parametrize("kind", ["none", "centre", "remove-components", "whiten"])
def test_parts_add_up_to_the_vector(pooling, kind):
    texts = random_texts(40, 10)
    for raw in ways(pooling=pooling).values():
        moments = Moments(32)
        moments.add(raw.encode(texts).vectors)
        encoder = raw.with_transform(moments.fit(kind, 2))
        for text in texts[:6]:
            parts = encoder.parts(text)
            np.testing.assert_allclose(parts.vectors.sum(axis=0), encoder.encode([text]).vectors[0], atol=1e-5)
            words = [text[start:stop] for start, stop in parts.spans]
            assert words == [*text.split(), "", ""]


def test_a_common_word_has_a_smaller_share_where_it_weighs_less():
    encoder = ways(pooling="weighted")["numpy"]
    light, heavy = np.argmin(WEIGHTS_V[4:34]), np.argmax(WEIGHTS_V[4:34])
    found = np.linalg.norm(encoder.parts(f"w{light} w{heavy}").vectors, axis=1)
    assert found[0] < found[1]


def test_what_has_no_parts_says_so():
    with pytest.raises(ConfigError, match=r"no sum over tokens.*got cls"):
        ways(pooling="cls")["numpy"].parts("w1")
    with pytest.raises(InputError, match="no vector"):
        ways()["numpy"].parts("  ")


def test_auto_is_the_pooling_that_the_model_was_trained_with_and_survives_saving():
    model = ways()["packed"]._model._model
    given = EmbedSettings(device="cpu", threads=1)
    one = TransformerEncoder(
        model,
        tokenizer(),
        given,
        dim=32,
        max_len=12,
        trained="weighted",
        token_weights=WEIGHTS_V,
        model_files=lambda _: b"",
    )
    assert one.pooling == "weighted"
    files = {}
    one.save(files.__setitem__)

    parts = ModelParts(model, tokenizer(), WEIGHTS_V)
    again = TransformerEncoder.load(load_facts(files.__getitem__), files.__getitem__, parts)
    texts = random_texts(5, 11)
    np.testing.assert_array_equal(again.encode(texts).vectors, one.encode(texts).vectors)
    with pytest.raises(ConfigError, match="no weights of tokens"):
        TransformerEncoder(model, tokenizer(), given, dim=32, max_len=12, trained="weighted")


def test_first_last_needs_a_model_whose_layers_we_know():
    padded = Padded(ways()["packed"]._model._model)
    given = EmbedSettings(device="cpu", threads=1, pooling="first-last")
    with pytest.raises(ConfigError, match="not a pooling of this model"):
        TransformerEncoder(padded, tokenizer(), given, dim=32, max_len=12).encode(["w1"])


def test_many_texts_go_through_the_compiled_tokenizer_and_give_the_same(monkeypatch):
    texts = [*random_texts(40, 12), "", "w1 nonsense w2", "[SEP] w3"]
    encoder = ways()["packed"]
    few: EncodedBatch = encoder.encode(texts)
    monkeypatch.setattr("wordpipe.sentences.transformer_encoder._MANY", 1)
    many = encoder.encode(texts)
    assert "_fast" in vars(encoder)
    np.testing.assert_array_equal(many.vectors, few.vectors)
    np.testing.assert_array_equal(many.windows, few.windows)


def test_the_transform_decides_the_width():
    texts, raw = random_texts(60, 13), ways()["numpy"]
    moments = Moments(32)
    moments.add(raw.encode(texts).vectors)
    narrow = raw.with_transform(moments.fit("whiten", dims=5))
    assert (raw.dim, narrow.dim) == (32, 5)
    assert narrow.encode(texts).vectors.shape == (60, 5)
    assert narrow.parts(texts[0]).vectors.shape == (len(texts[0].split()) + 2, 5)


def test_a_query_needs_neither_torch_nor_numba():
    code = (
        "import sys; import wordpipe.sentences.transformer_encoder, wordpipe.stages.loaders;"
        "assert not {'torch', 'numba', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
