"""The same tokens for all models: prepared once by `python -m peers.model_measure`, read as plain arrays by everybody.

    rows.npy          what a masked model is trained on, in the order of wordpipe's own training: uint16 (steps · B, T)
    held_out.npz      the held-out sequences with their masks: inputs (N, T), positions and labels (N, K), weights (N, K)

Sequences are [CLS] … [SEP] without padding; documents are parted by [SEP].
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from wordpipe.artifacts import Artifact, read_batches
from wordpipe.training import block_order, make_execution, write_streams
from wordpipe.training.settings import MaskedSettings

Task = dict[str, Any]
Found = dict[str, Any]

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
HELD_OUT_SEED = 2019
MASK_RATE, MASK_SHARE, RANDOM_SHARE = 0.15, 0.8, 0.1  # Devlin et al. 2019


def prepare(task: Task) -> Found:
    """Write the training rows in order and the held-out sequences with their masks.

    The rows are those that `wordpipe train mlm` takes from the same tokens with the same seed, step by step.
    """
    special = task["special"]
    ids = stream_of(Path(task["tokens"]), [], [special["[SEP]"]])
    T, B = task["seq_len"], task["batch_size"]
    n_blocks = -(-len(ids) // (T - 2))
    order = [block_order(step, batch_size=B, n_blocks=n_blocks, seed=task["seed"]) for step in range(task["steps"])]
    np.save(task["rows"], sequences(ids, np.concatenate(order), T, special))
    held_out = stream_of(Path(task["valid_tokens"]), [], [special["[SEP]"]])
    every = sequences(held_out, np.arange(len(held_out) // (T - 2)), T, special)
    ordinary_V = ordinary(task["n_tokens"], special)
    found = hide(torch.from_numpy(every.astype(np.int64)), ordinary_V, special["[MASK]"], HELD_OUT_SEED)
    np.savez(task["held_out"], **{name: value.numpy() for name, value in found.items()})
    return {
        "tokens": len(ids), "sequences": n_blocks, "held_out_tokens": len(held_out), "held_out_sequences": len(every),
        "held_out_targets": int(found["weights"].sum()), "unigram_entropy": entropy(ids),
        "dtype": dtype_of(task["dtype"]), "steps": task["steps"], "passes": round(task["steps"] * B / n_blocks, 3),
    }  # fmt: skip


def special_ids(tokens: Path) -> tuple[dict[str, int], int]:
    """The ids of the special tokens of an artifact's tokenizer, and how many ids there are."""
    tokenizer = Tokenizer.from_file(str(tokens / "tokenizer.json"))
    return {token: tokenizer.token_to_id(token) for token in SPECIALS}, tokenizer.get_vocab_size()


def stream_of(tokens: Path, before: list[int], after: list[int]) -> np.ndarray:
    """All ids of a tokens artifact with these before and after each document, as `wordpipe train` joins them."""
    path = tokens.parent / f"{tokens.name}.ids"
    with Artifact(tokens, ["tokens"]) as artifact:
        rows = read_batches(artifact, "tokens", ["doc_id", "sentence_id", "split", "ids"])
        size = special_ids(tokens)[1]
        stream = write_streams(rows, {"train": path}, vocab_size=size, before=before, after=after)["train"]
    ids = np.fromfile(path, dtype=stream.open().dtype)
    path.unlink()
    return ids


def sequences(ids: np.ndarray, index_B: np.ndarray, T: int, special: dict[str, int]) -> np.ndarray:
    """Blocks of a stream by number, (B, T); the last of all begins early enough to be whole."""
    width = T - 2
    starts_B = np.minimum(index_B * width, len(ids) - width)
    rows_BT = np.empty((len(index_B), T), dtype=ids.dtype)
    rows_BT[:, 0], rows_BT[:, -1] = special["[CLS]"], special["[SEP]"]
    rows_BT[:, 1:-1] = ids[starts_B[:, None] + np.arange(width)]
    return rows_BT


def ordinary(n_tokens: int, special: dict[str, int]) -> torch.Tensor:
    """Which ids are no special tokens, bool (V,)."""
    ordinary_V = torch.ones(n_tokens, dtype=torch.bool)
    ordinary_V[[token_id for token_id in special.values() if token_id is not None]] = False
    return ordinary_V


def hide(ids_BT: torch.Tensor, ordinary_V: torch.Tensor, mask_id: int, seed: int) -> dict[str, torch.Tensor]:
    """Masked language modelling by a plain reading of the paper: as many targets in every sequence, 80 / 10 / 10."""
    draw = torch.Generator().manual_seed(seed)
    n_chosen = max(1, round(MASK_RATE * (ids_BT.shape[1] - 2)))
    score_BT = torch.rand(ids_BT.shape, generator=draw).masked_fill(~ordinary_V[ids_BT], -1.0)
    top = score_BT.topk(n_chosen, dim=1)
    labels_BK = ids_BT.gather(1, top.indices)
    kind_BK = torch.rand(labels_BK.shape, generator=draw)
    others = ordinary_V.nonzero().flatten()
    random_BK = others[torch.randint(len(others), labels_BK.shape, generator=draw)]
    shown_BK = torch.where(kind_BK < MASK_SHARE + RANDOM_SHARE, random_BK, labels_BK)
    shown_BK = shown_BK.masked_fill(kind_BK < MASK_SHARE, mask_id)
    is_chosen_BK = top.values >= 0.0  # a sequence may have fewer ordinary tokens than wanted
    inputs_BT = ids_BT.scatter(1, top.indices, torch.where(is_chosen_BK, shown_BK, labels_BK))
    return {"inputs": inputs_BT, "positions": top.indices, "labels": labels_BK, "weights": is_chosen_BK.float()}


def entropy(ids: np.ndarray) -> float:
    """Entropy of single tokens in nats: what a model that knows frequencies and nothing else reaches."""
    share = np.bincount(ids) / len(ids)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())


def dtype_of(wanted: str) -> str:
    """The numbers in which wordpipe computes matrix products here when it is asked for these."""
    execution = make_execution(MaskedSettings.make({"dtype": wanted, "device": "cpu"}))
    return str(execution.dtype).removeprefix("torch.")
