"""Graphs of the parts that models are made of. `pytest -m slow`: each export takes some seconds."""

import numpy as np
import pytest
import torch

from wordpipe.errors import ConfigError
from wordpipe.model.config import ModelConfig
from wordpipe.model.initialise import new_model
from wordpipe.model.styles import STYLES
from wordpipe.sentences.onnx_graph import INPUTS, EncoderGraph, model_hidden, onnx_bytes, static_hidden

MAX_LEN = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        {"windows": (4, 0)},
        {"windows": (4, 4), "global_tokens": 1},
        {"positions": "alibi"},
        {"positions": "t5"},
        {"positions": "sinusoidal"},
    ],
    ids=str,
)
def test_a_graph_of_any_length_is_the_model(parts):
    onnxruntime = pytest.importorskip("onnxruntime")
    shape = {
        "vocab_size": 64,
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "n_kv_heads": 2,
        "ffn_dim": 48,
        "max_len": MAX_LEN,
    }
    config = ModelConfig(architecture="encoder", **{**STYLES["encoder", "modern"], **shape, **parts})
    graph = EncoderGraph(model_hidden(new_model(config, 1).eval()), pooling="mean")
    data = onnx_bytes(graph, max_len=MAX_LEN, traced_len=6)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for n_texts, n_tokens in ((1, 1), (1, 4), (3, 17), (2, MAX_LEN)):
        ids_BT = torch.randint(0, 64, (n_texts, n_tokens), generator=torch.Generator().manual_seed(n_tokens))
        mask_BT = torch.ones_like(ids_BT)
        mask_BT[-1, n_tokens // 2 + 1 :] = 0
        with torch.no_grad():
            expected_BD = graph(ids_BT, mask_BT).numpy()
        (found_BD,) = session.run(None, dict(zip(INPUTS, (ids_BT.numpy(), mask_BT.numpy()), strict=True)))
        np.testing.assert_allclose(found_BD, expected_BD, atol=1e-5)


@pytest.mark.slow
def test_a_graph_of_one_length_is_refused():
    shape = {
        "vocab_size": 64,
        "dim": 16,
        "n_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "ffn_dim": 24,
        "max_len": MAX_LEN,
    }
    style = STYLES["encoder", "modern"]
    config = ModelConfig(architecture="encoder", **{**style, **shape, "attention": "additive"})
    graph = EncoderGraph(model_hidden(new_model(config, 1).eval()), pooling="mean")
    with pytest.raises(ConfigError, match="texts of one length only"):
        onnx_bytes(graph, max_len=MAX_LEN)


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ConfigError, match="no graph is made of this pooling; got first-last"):
        EncoderGraph(static_hidden(np.zeros((3, 2), np.float32)), pooling="first-last")


def test_padding_changes_nothing():
    table_VD = np.random.default_rng(1).standard_normal((9, 4)).astype(np.float32)
    ids_BT, mask_BT = torch.tensor([[3, 5, 0, 0]]), torch.tensor([[1, 1, 0, 0]])
    for pooling in ("mean", "cls", "max"):
        graph = EncoderGraph(static_hidden(table_VD), pooling=pooling)
        np.testing.assert_allclose(graph(ids_BT, mask_BT), graph(ids_BT[:, :2], mask_BT[:, :2]), atol=1e-6)


def test_what_torch_cannot_turn_into_a_graph_is_said(monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr("torch.onnx.export", failing)
    with pytest.raises(ConfigError, match=r"torch cannot turn this model into ONNX; got no such operator$"):
        onnx_bytes(EncoderGraph(static_hidden(np.zeros((3, 2), np.float32)), pooling="mean"), max_len=None)
