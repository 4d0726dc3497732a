"""Logistic regression on the vectors of a frozen model: how much of a label stands in them, as a straight line sees it."""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peers.head_data import Record, is_out, read_records

Task = dict[str, Any]
Found = dict[str, Any]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
HELD_OUT = 0.2
"""Of the texts to learn from, the share by which the strength is chosen."""


def probe(task: Task) -> Found:
    """Accuracy on the measured texts of each set; which were right is kept beside the losses.

    Args:
        task: the model's folder, and the folder with NAME-train.jsonl and NAME-test.jsonl.
    """
    encode, folder, found = vectors_of(Path(task["model"]), task["threads"]), Path(task["folder"]), {}
    for name in task["sets"]:
        parts = {part: read_records(folder / f"{name}-{part}.jsonl") for part in ("train", "test")}
        begun = time.monotonic()
        train_ND, test_ND = (encode([one["text"] for one in records]) for records in parts.values())
        chosen, right_N = regression(name, train_ND, parts["train"], test_ND, parts["test"])
        np.save(folder / "cells" / f"{task['cell']}-{name}.npy", right_N)
        found[name] = {
            "texts": len(right_N), "learned_from": len(train_ND), "strength": chosen,
            "seconds": round(time.monotonic() - begun, 1),
        }  # fmt: skip
    return {"sets": found}


def vectors_of(folder: Path, threads: int) -> Any:
    """A function from texts to the means of their last hidden states, (N, D)."""
    from tokenizers import Tokenizer

    from wordpipe.encoders import TransformerEncoder
    from wordpipe.encoders.settings import EmbedSettings
    from wordpipe.model import load_hf

    loaded = load_hf(lambda name: (folder / name).read_bytes())
    encoder = TransformerEncoder(
        loaded.language_model.requires_grad_(False), Tokenizer.from_file(str(folder / "tokenizer.json")),
        EmbedSettings(pooling="mean", device="cpu", dtype="float32", threads=threads),
        dim=loaded.config.dim, max_len=loaded.config.max_len,
    )  # fmt: skip
    return lambda texts: np.asarray(encoder.encode(texts).vectors, np.float64)


def regression(
    name: str,
    train_ND: npt.NDArray[np.float64],
    train: list[Record],
    test_MD: npt.NDArray[np.float64],
    test: list[Record],
) -> tuple[float, npt.NDArray[np.bool_]]:
    """The strength that was best on a part of the texts to learn from, and which measured texts were right after it."""
    labels_N, wanted_M = (np.array([one["label"] for one in records]) for records in (train, test))
    out_N = np.array([is_out(name, one, HELD_OUT) for one in train])
    scores = {}
    for strength in STRENGTHS:
        said_N = _fitted(strength, train_ND[~out_N], labels_N[~out_N]).predict(train_ND[out_N])
        scores[strength] = float((said_N == labels_N[out_N]).mean())
    chosen = max(STRENGTHS, key=lambda strength: scores[strength])  # of equals the weaker model
    return chosen, _fitted(chosen, train_ND, labels_N).predict(test_MD) == wanted_M


def _fitted(strength: float, vectors_ND: npt.NDArray[np.float64], labels_N: npt.NDArray[np.str_]) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the largest strengths, which are not the best
        return model.fit(vectors_ND, labels_N)
