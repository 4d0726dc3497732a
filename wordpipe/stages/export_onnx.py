"""`wordpipe export --to onnx`: an encoder as a graph, checked by encoding texts again before it is published."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.formats.family import CONFIG
from wordpipe.sentences.encoder import TextEncoder
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.encoders import carried_encoder, open_encoder
from wordpipe.stages.export_encoder import WEIGHTS, EncoderFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.sentences.onnx_graph import EncoderGraph

__all__ = ["GRAPH", "check_packages", "onnx_folder"]

GRAPH = "model.onnx"
_TOLERANCE = 1e-4
_PROBES = 32
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # to write the graph, and to check it


def check_packages() -> None:
    """Say what is not installed before the work and not after it; nothing is imported.

    Raises:
        ConfigError: names the first package that is missing.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        hint = 'pip install "wordpipe[onnx]"'
        raise ConfigError("onnx needs a package that is not installed", got=missing[0], hint=hint)


def onnx_folder(artifact: Artifact, encoder: EncoderFiles) -> tuple[dict[str, bytes], float]:
    """The files of the folder (the graph, and the tokenizer's), and by how much its vectors differ from ours at most.

    Args:
        artifact: of the encoder: its own texts are the probes, or texts made of its vocabulary where it has none.
        encoder: its files.

    Raises:
        ConfigError: the model cannot be exported, or packages are missing.
        ArtifactError: the graph gives other vectors.
    """
    from wordpipe.sentences.onnx_graph import onnx_bytes
    from wordpipe.tokens.formats.reading import open_tokenizer

    graph, max_len, window = _graph(encoder)
    data = onnx_bytes(graph, max_len=max_len, traced_len=min(max_len or 4, max(4, window + 2)))
    tokenizer = open_tokenizer(encoder.files[TOKENIZER], where=TOKENIZER)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    probes = _probes(artifact, tokenizer, max_len, special=encoder.kind == "transformer")
    ours_ND = _our_encoder(artifact).encode(probes).vectors
    theirs_ND = _run(data, tokenizer, probes, special=encoder.kind == "transformer")
    off = float(np.abs(ours_ND - theirs_ND).max())
    if not off <= _TOLERANCE:
        raise ArtifactError(
            "the exported graph gives other vectors", got=f"off by {off:.2g}", expected=f"{_TOLERANCE:g}"
        )
    beside = {name: content for name, content in encoder.files.items() if name != WEIGHTS}
    return {GRAPH: data, **beside}, off


def _graph(encoder: EncoderFiles) -> "tuple[EncoderGraph, int | None, int]":
    """The graph, the most tokens that it can take (None where there is no end), and its widest window of attention."""
    from wordpipe.sentences.onnx_graph import EncoderGraph, model_hidden, static_hidden

    if encoder.kind == "static":
        import safetensors.numpy

        table_VD = safetensors.numpy.load(encoder.files[WEIGHTS])["embedding.weight"]
        return EncoderGraph(static_hidden(table_VD), pooling="mean", transform=encoder.transform), None, 0
    from wordpipe.model.formats.folder import load_hf

    loaded = load_hf(encoder.files.__getitem__, [CONFIG, WEIGHTS])
    windows = [window for window in loaded.config.windows if window]
    # attention in blocks (model/bands.py), for which longer texts are laid out, has no free number of tokens
    max_len = min([loaded.config.max_len, *(max(16 * window, 512) - 1 for window in windows)])
    graph = EncoderGraph(
        model_hidden(loaded.model), pooling=encoder.pooling, weights_V=encoder.weights, transform=encoder.transform
    )
    return graph, max_len, max(windows, default=0)


def _our_encoder(artifact: Artifact) -> TextEncoder:
    if artifact.kind == "model":
        return open_encoder(artifact, EmbedSettings.make({"device": "cpu", "dtype": "float32"}))
    return carried_encoder(artifact)


def _probes(artifact: Artifact, tokenizer: "Tokenizer", max_len: int | None, *, special: bool) -> list[str]:
    """Texts of the artifact, and texts of random tokens of all lengths; none that the graph would have to cut."""
    texts: list[str] = []
    if artifact.kind != "model":
        texts = next(read_batches(artifact, artifact.kind, ["text"])).column("text").slice(0, _PROBES).to_pylist()
    draw, longest = np.random.default_rng(1), min(max_len or 64, 256)
    for length in np.linspace(1, longest, 8).astype(int):
        texts.append(tokenizer.decode(draw.integers(tokenizer.get_vocab_size(), size=length).tolist()))
    sizes = [len(one.ids) for one in tokenizer.encode_batch(texts, add_special_tokens=special)]
    empty = 2 if special else 0  # what is left of a text without tokens
    kept = [text for text, size in zip(texts, sizes, strict=True) if empty < size <= (max_len or size)]
    if not kept:
        raise ConfigError("no text to check the graph with", where=artifact.path)
    return kept


def _run(data: bytes, tokenizer: "Tokenizer", texts: Sequence[str], *, special: bool) -> npt.NDArray[np.float32]:
    """The vectors that the graph gives, in one padded batch."""
    import onnxruntime

    from wordpipe.sentences.onnx_graph import INPUTS, OUTPUT

    found = [one.ids for one in tokenizer.encode_batch(list(texts), add_special_tokens=special)]
    ids_BT = np.zeros((len(found), max(map(len, found))), np.int64)
    mask_BT = np.zeros_like(ids_BT)
    for row, ids in enumerate(found):
        ids_BT[row, : len(ids)], mask_BT[row, : len(ids)] = ids, 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    vectors_BD: npt.NDArray[np.float32]
    (vectors_BD,) = session.run([OUTPUT], dict(zip(INPUTS, (ids_BT, mask_BT), strict=True)))
    return vectors_BD
