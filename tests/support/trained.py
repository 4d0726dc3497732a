"""One small artifact of every kind of model, encoder and index, made of the chain of `built` when a test first asks for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import wordpipe

TINY: dict[str, Any] = {
    "dim": 32,
    "n_layers": 1,
    "n_heads": 1,
    "ffn_dim": 64,
    "seq_len": 64,
    "threads": 1,
    "device": "cpu",
    "dtype": "float32",
}
"""The shape of the models of the tests."""

_PAIRS: dict[str, Any] = {"steps": 3, "batch_size": 8, "valid_pairs": 8, "threads": 1}
Of = Callable[[str], Path]
"""Gives the folder of an artifact by its name."""


def _clm(of: Of, output: Path) -> None:
    wordpipe.train_clm(of("tokens"), output=output, steps=3, **TINY)


def _clm_alibi(of: Of, output: Path) -> None:
    wordpipe.train_clm(of("tokens"), output=output, steps=2, positions="alibi", **TINY)


def _mlm_rms(of: Of, output: Path) -> None:
    wordpipe.train_mlm(of("tokens"), output=output, steps=2, norm="rms", **TINY)


def _static(of: Of, output: Path) -> None:
    wordpipe.train_static(of("tokens"), output=output, words=of("words"), **_PAIRS)


def _contrastive(of: Of, output: Path) -> None:
    wordpipe.train_contrastive(of("tokens"), output=output, init=of("model"), device="cpu", **_PAIRS)


def _sentences_static(of: Of, output: Path) -> None:
    wordpipe.embed(of("static"), of("corpus"), output=output, threads=1)


def _index_hnsw(of: Of, output: Path) -> None:
    wordpipe.index(of("sentences-static"), output=output, type="hnsw", threads=1)


def _index_ivf_pq(of: Of, output: Path) -> None:
    wordpipe.index(of("sentences-static"), output=output, type="ivf-pq", threads=1)


def _word_index(of: Of, output: Path) -> None:
    wordpipe.index(of("words"), output=output, threads=1)


CHAIN = ("corpus", "tokens", "words", "model", "sentences", "index")
"""What `built` holds of the chain itself."""

MAKE: dict[str, Callable[[Of, Path], None]] = {
    "clm": _clm, "clm-alibi": _clm_alibi, "mlm-rms": _mlm_rms, "static": _static, "contrastive": _contrastive,
    "sentences-static": _sentences_static, "index-hnsw": _index_hnsw, "index-ivf-pq": _index_ivf_pq, "word-index": _word_index,
}  # fmt: skip
"""Name → what makes it."""
