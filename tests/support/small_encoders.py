"""A small contrastive training of a transformer for the tests of this folder.

Run as a program it trains to the end and prints the hash of the final weights; the tests kill it on the way.
"""

import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import save

from wordpipe.artifacts import hash_bytes
from wordpipe.model import LanguageModel, ModelConfig, new_model
from wordpipe.runtime import StopFlag
from wordpipe.training import Execution, SpecialIds, Trainer
from wordpipe.training.contrastive import (
    ContrastLearner,
    PairBatch,
    Pairs,
    PairText,
    Ragged,
    assemble_encoder,
    held_out_pairs,
    write_pair_text,
)
from wordpipe.training.contrastive.settings import ContrastiveSettings

V = 60
SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
CPU = Execution(torch.device("cpu"), torch.float32, threads=1, compiled=False, bitwise=True)


def config_of(**changes: object) -> ModelConfig:
    values: dict[str, Any] = {
        "architecture": "encoder", "vocab_size": 64, "dim": 16, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2,
        "ffn_dim": 24, "max_len": 16, "cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0,
        "embedding_norm": True, "head": True,
    }  # fmt: skip
    return ModelConfig(**(values | changes))


def model_of(**changes: object) -> LanguageModel:
    return new_model(config_of(**changes), 3)


def ragged(*rows: list[int]) -> Ragged:
    return Ragged(np.array([*chain(*rows)], np.int32), np.array([len(row) for row in rows]))


def batch_of(n: int = 6, *, seed: int = 0, same: bool = False) -> PairBatch:
    """Pairs of a text and one that shares most of its tokens."""
    random = np.random.default_rng(seed)
    first = [random.integers(7, V, random.integers(2, 13)).tolist() for _ in range(n)]
    second = first if same else [[*row[1:], int(random.integers(7, V))] for row in first]
    return PairBatch(ragged(*first), ragged(*second), np.arange(n) // 2, np.zeros(n, np.int8))


def text_in(folder: Path, n: int = 60) -> PairText:
    """Documents of four sentences each, which keep to eight tokens of their own; every sixth is held out."""
    random = np.random.default_rng(4)
    rows = [
        (d, s, (8 + d * 3 % 40 + random.integers(0, 8, random.integers(3, 9))).tolist())
        for d in range(n)
        for s in range(4)
    ]
    columns = [
        pa.array([f"d{d}" for d, _, _ in rows]),
        pa.array([s for _, s, _ in rows], pa.int32()),
        pa.array(["valid" if d % 6 == 0 else "train" for d, _, _ in rows]),
        pa.array([ids for _, _, ids in rows], pa.list_(pa.uint16())),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    batch = pa.RecordBatch.from_arrays(columns, ["doc_id", "sentence_id", "split", "ids"])
    return write_pair_text([batch], folder, vocab_size=V)


def settings_of(**values: object) -> ContrastiveSettings:
    standard = {
        "steps": 6, "batch_size": 8, "lr": 1e-2, "threads": 1, "device": "cpu", "dtype": "float32",
        "pair_neighbour": 0.5, "pair_deletion": 0.5, "report_every": 2, "valid_pairs": 20,
    }  # fmt: skip
    return ContrastiveSettings.make(standard | values)


def training_in(
    folder: Path, *, dropout: float = 0.1, work: dict[str, Any] | None = None, **values: object
) -> Trainer[ContrastLearner]:
    settings, text = settings_of(**values), text_in(folder / "text")
    parts = {"weights": np.linspace(0.5, 1.5, V).astype(np.float32)} | (work or {})
    return assemble_encoder(
        settings, model_of(dropout=dropout), Pairs(text, settings), special=SPECIAL, held_out=held_out_pairs(settings, text),
        state_dir=folder / "state", run_key="a run", **parts,
    )  # fmt: skip


def weights_hash(training: Trainer[ContrastLearner]) -> str:
    return hash_bytes(save(dict(training.snapshot().tensors["model"])))


def run_out(training: Trainer[ContrastLearner], until: int | None = None) -> Trainer[ContrastLearner]:
    for _ in training.steps(StopFlag(), until):
        pass
    return training


def main(folder: str, *pairs: str) -> None:
    training = training_in(Path(folder), **dict(pair.split("=") for pair in pairs))
    print("resumed from", training.resumed_from, *training.notes, flush=True)  # noqa: T201
    for step in training.steps(StopFlag()):
        print("step", step.step, step.split, step.loss, flush=True)  # noqa: T201
    print("weights", weights_hash(training), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
