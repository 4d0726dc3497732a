"""A transformer as an encoder of texts: against a slow twin, and packed by torch, padded by torch (on a GPU) and by NumPy."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.support.tiny_encoder import CLS, SEP, WORDS, Mixing, encoder, token_windows, tokenizer
from tests.support.variants import some_of
from wordpipe.encoders import ArrayStates, EncodedBatch, Moments, TransformerEncoder, load_facts
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, DivergedError, InputError
from wordpipe.model import STYLES, ModelConfig, NumpyModel, new_model, read_arrays, save_hf


def random_texts(n: int, seed: int, *, longest: int = 40) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(30, size=rng.integers(1, longest))) for _ in range(n)]


def slow_vector(text: str, pooling: str, *, specials: bool = True, size: int = 8, overlap: int = 2) -> np.ndarray:
    """One text, one window at a time, in numpy, as sentence-transformers pools."""
    table = Mixing().embedding.weight.detach().numpy().astype(np.float64)
    ids = [WORDS[word] for word in text.split()]
    vectors, weights = [], []
    for start, stop in token_windows(len(ids), size, overlap):
        window = [CLS, *ids[start:stop], SEP] if specials else ids[start:stop]
        states = np.tanh(table[window] + table[window].mean(axis=0))
        vectors.append({"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}[pooling])
        weights.append(stop - start)
    merged = np.max(vectors, axis=0) if pooling == "max" else np.average(vectors, axis=0, weights=weights)
    return merged / np.linalg.norm(merged)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("specials", [True, False])
def test_vectors_match_the_slow_twin(pooling: str, specials: bool) -> None:
    texts = random_texts(60, 1)
    one = encoder(pooling=pooling, specials=specials, batch_tokens=100)
    size = 8 if specials else 10
    batch = one.encode(texts)
    expected = [slow_vector(text, pooling, specials=specials, size=size) for text in texts]
    np.testing.assert_allclose(batch.vectors, expected, atol=1e-5)
    assert batch.windows.tolist() == [len(token_windows(len(text.split()), size, 2)) for text in texts]
    assert batch.windows.max() > 3


@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_a_text_has_the_same_vector_alone_and_in_any_batch(batch_tokens: int) -> None:
    texts = random_texts(50, 2)
    together = encoder(batch_tokens=batch_tokens).encode(texts).vectors
    alone = np.vstack([encoder().encode([text]).vectors for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_texts_that_differ_only_far_behind_the_first_window_differ() -> None:
    start = " ".join(f"w{i}" for i in range(20))
    batch = encoder().encode([start + " w3 w4", start + " w20 w21"])
    assert np.abs(batch.vectors[0] - batch.vectors[1]).max() > 1e-3


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_our_own_model_gives_the_same_vector_alone_and_in_any_batch(architecture: str) -> None:
    from wordpipe.model import ModelConfig, new_model

    sizes = {"vocab_size": 40, "dim": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "ffn_dim": 48, "max_len": 12}
    model = new_model(ModelConfig(architecture=architecture, **sizes), seed=1)  # type: ignore[arg-type]
    one = TransformerEncoder(model, tokenizer(), EmbedSettings(device="cpu", threads=1), dim=32, max_len=12)
    texts = random_texts(30, 5)
    together = one.encode(texts).vectors
    np.testing.assert_allclose(together, np.vstack([one.encode([t]).vectors for t in texts]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_empty_texts_are_said_and_zero() -> None:
    batch = encoder().encode(["w1", "", "  \n"])
    assert batch.empty.tolist() == [False, True, True]
    assert batch.windows.tolist() == [1, 0, 0]
    assert not batch.vectors[1:].any()
    assert encoder().encode([]).vectors.shape == (0, 8)
    assert encoder().encode(["", ""]).empty.all()
    assert encoder().lengths(["w1 w2 w3 w4 w5 w6", ""]).tolist() == [6, 0]


def test_numbers_that_are_not_finite_are_refused_with_the_text() -> None:
    model = Mixing()
    with torch.no_grad():
        model.embedding.weight[WORDS["w7"]] = torch.nan
    with pytest.raises(DivergedError, match="for 1 of 3 texts") as error:
        encoder(model=model).encode(["w1", "w7 w2", "w3"])
    assert error.value.where == "'w7 w2'"


def test_the_callers_tokenizer_and_threads_are_left_as_they_were() -> None:
    own = tokenizer()
    before, threads = own.to_str(), torch.get_num_threads()
    TransformerEncoder(Mixing(), own, EmbedSettings(device="cpu", threads=1), dim=8, max_len=10).encode(["w1 " * 30])
    assert own.to_str() == before
    assert torch.get_num_threads() == threads


def test_saved_and_loaded_it_gives_the_same_bytes() -> None:
    texts = random_texts(40, 3)
    plain = TransformerEncoder(
        Mixing(),
        tokenizer(),
        EmbedSettings(device="cpu", threads=1, pooling="max", overlap=3),
        dim=8,
        max_len=10,
        model_files={"config.json": b"{}", "model.safetensors": b"weights"},
        model_names=("config.json", "model.safetensors"),
        identity={"model": "abc"},
    )
    moments = Moments(8)
    moments.add(plain.encode(texts).vectors)
    mended = plain.with_transform(moments.fit("centre", 1))
    files = dict(mended.files())
    assert sorted(files) == ["config.json", "encoder.json", "model.safetensors", "transform.safetensors"]

    about = load_facts(files["encoder.json"])
    loaded = TransformerEncoder.load(about, files, Mixing(), tokenizer())
    np.testing.assert_array_equal(loaded.encode(texts).vectors, mended.encode(texts).vectors)
    assert dict(loaded.files()) == files


def test_settings_that_do_not_fit_the_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="a model does not support this pooling"):
        encoder(pooling="sif")
    with pytest.raises(ConfigError, match="longer than the longest input of the model; got 9; expected at most 8"):
        encoder(window=9)
    with pytest.raises(ConfigError, match="too short for text"):
        encoder(max_len=2)
    assert encoder(window=4, overlap=9).overlap == 2


def test_half_precision_stays_near() -> None:
    texts = random_texts(20, 4)
    exact, half = (encoder(dtype=dtype).encode(texts).vectors for dtype in ("float32", "bfloat16"))
    assert (exact * half).sum(axis=1).min() > 0.999


# ---- packed, padded and NumPy


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


def backends(*, style="modern", pooling="mean", changes=None, **settings):
    """The three encoders, over the same random weights."""
    sizes = {"vocab_size": 40, "dim": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "ffn_dim": 48, "max_len": 12}
    config = ModelConfig(architecture="encoder", **(sizes | STYLES["encoder", style] | (changes or {})))
    model, files = new_model(config, 3).eval(), {}
    with torch.no_grad():
        model.embedding.mul_(20)
    save_hf(model, config, files.__setitem__)
    given = EmbedSettings(device="cpu", threads=1, overlap=3, pooling=pooling, **settings)
    arrays = ArrayStates(NumpyModel(*read_arrays(files.__getitem__)), batch_tokens=64)
    models = {"packed": model, "padded": Padded(model), "numpy": arrays}
    return {
        name: TransformerEncoder(one, tokenizer(), given, dim=32, max_len=12, token_weights=WEIGHTS_V)
        for name, one in models.items()
        if (name, pooling) != ("padded", "first-last")
    }


@pytest.mark.parametrize(
    ("pooling", "style"), some_of(["mean", "cls", "max", "first-last", "weighted"], ["modern", "classic"], together=1)
)
def test_all_backends_give_the_same_vectors(style, pooling):
    texts = [*random_texts(60, 8), "", "w3"]
    vectors = [encoder.encode(texts).vectors for encoder in backends(style=style, pooling=pooling).values()]
    for other in vectors[1:]:
        np.testing.assert_allclose(other, vectors[0], atol=1e-5)
    assert np.abs(vectors[0][0] - vectors[0][1]).max() > 0.01  # texts differ by more than what is allowed here


@pytest.mark.parametrize("name", ["packed", "padded", "numpy"])
def test_each_backend_gives_the_same_vector_alone_and_in_any_batch(name):
    texts, encoder = random_texts(30, 9), backends()[name]
    alone = np.vstack([encoder.encode([text]).vectors for text in texts])
    np.testing.assert_allclose(encoder.encode(texts).vectors, alone, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "kind"),
    some_of(["mean", "first-last", "weighted"], ["none", "centre", "remove-components", "whiten"], together=1),
)
def test_parts_add_up_to_the_vector(pooling, kind):
    texts = random_texts(40, 10)
    for raw in backends(pooling=pooling).values():
        moments = Moments(32)
        moments.add(raw.encode(texts).vectors)
        encoder = raw.with_transform(moments.fit(kind, 2))
        for text in texts[:6]:
            parts = encoder.parts(text)
            np.testing.assert_allclose(parts.vectors.sum(axis=0), encoder.encode([text]).vectors[0], atol=1e-5)
            words = [text[start:stop] for start, stop in parts.spans]
            assert words == [*text.split(), "", ""]


def test_a_common_word_has_a_smaller_share_where_it_weighs_less():
    encoder = backends(pooling="weighted")["numpy"]
    light, heavy = np.argmin(WEIGHTS_V[4:34]), np.argmax(WEIGHTS_V[4:34])
    found = np.linalg.norm(encoder.parts(f"w{light} w{heavy}").vectors, axis=1)
    assert found[0] < found[1]


def test_what_has_no_parts_says_so():
    with pytest.raises(ConfigError, match=r"not a sum over tokens.*got cls"):
        backends(pooling="cls")["numpy"].parts("w1")
    with pytest.raises(InputError, match="no vector"):
        backends()["numpy"].parts("  ")


def test_auto_is_the_pooling_that_the_model_was_trained_with_and_survives_saving():
    model = backends()["packed"]._model._model
    given = EmbedSettings(device="cpu", threads=1)
    one = TransformerEncoder(
        model,
        tokenizer(),
        given,
        dim=32,
        max_len=12,
        trained="weighted",
        token_weights=WEIGHTS_V,
        model_files={},
    )
    assert one.pooling == "weighted"
    files = dict(one.files())

    about = load_facts(files["encoder.json"])
    again = TransformerEncoder.load(about, files, model, tokenizer(), WEIGHTS_V)
    texts = random_texts(5, 11)
    np.testing.assert_array_equal(again.encode(texts).vectors, one.encode(texts).vectors)
    with pytest.raises(ConfigError, match="no token weights"):
        TransformerEncoder(model, tokenizer(), given, dim=32, max_len=12, trained="weighted")


def test_first_last_needs_a_model_whose_layers_we_know():
    padded = Padded(backends()["packed"]._model._model)
    given = EmbedSettings(device="cpu", threads=1, pooling="first-last")
    with pytest.raises(ConfigError, match="this model does not have this pooling"):
        TransformerEncoder(padded, tokenizer(), given, dim=32, max_len=12).encode(["w1"])


def test_many_texts_go_through_the_compiled_tokenizer_and_give_the_same(monkeypatch):
    texts = [*random_texts(40, 12), "", "w1 nonsense w2", "[SEP] w3"]
    encoder = backends()["packed"]
    few: EncodedBatch = encoder.encode(texts)
    monkeypatch.setattr("wordpipe.encoders.transformer_encoder._MIN_COMPILED_TEXTS", 1)
    many = encoder.encode(texts)
    assert "_fast" in vars(encoder)
    np.testing.assert_array_equal(many.vectors, few.vectors)
    np.testing.assert_array_equal(many.windows, few.windows)


def test_the_transform_decides_the_width():
    texts, raw = random_texts(60, 13), backends()["numpy"]
    moments = Moments(32)
    moments.add(raw.encode(texts).vectors)
    narrow = raw.with_transform(moments.fit("whiten", dims=5))
    assert (raw.dim, narrow.dim) == (32, 5)
    assert narrow.encode(texts).vectors.shape == (60, 5)
    assert narrow.parts(texts[0]).vectors.shape == (len(texts[0].split()) + 2, 5)


def test_a_query_needs_neither_torch_nor_numba():
    code = (
        "import sys; import wordpipe.encoders.transformer_encoder, wordpipe.stages.encoders;"
        "assert not {'torch', 'numba', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
