"""Encoder-decoders: our training step and that of transformers on the same batches, the products alone, and decoding.

record      the loop of `wordpipe train seq2seq` on a tokens artifact: seconds, losses, rates; on request the weights of
            before the first step, as a folder that transformers loads, and every batch
repeat      transformers on what was recorded: batches in memory, padded already, AdamW fused
products    the products of all weight matrices of such a step, forward and for both gradients, and nothing else
write_ours, write_theirs    target texts of some sources, by beams
"""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers.model_ours import special_of
from peers.model_transformers import make_adamw
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.model import new_encoder_decoder, save_hf
from wordpipe.runtime import StopFlag, peak_memory_bytes, torch_threads
from wordpipe.training import Pairs, PairWriter, assemble_learner, make_execution, open_pairs
from wordpipe.training.recipes import Opened, fresh_config
from wordpipe.training.settings import Seq2SeqSettings

Task = dict[str, Any]
Found = dict[str, Any]

OPERATIONS = {
    "products of the weights": {"mm", "addmm", "mkl_linear"},
    "products and softmax of attention": {"bmm", "baddbmm", "softmax", "softmax_backward_data"},
    "activations": {"gelu", "gelu_backward", "relu", "threshold_backward", "silu", "silu_backward"},
    "norms": {"native_layer_norm", "native_layer_norm_backward", "RmsNormed", "RmsNormedBackward", "linalg_vector_norm"},
    "optimiser": {"fused_adamw"},
    "copies, sums and products of activations": {
        "copy", "mul", "add", "addcmul", "cat", "index_select", "sum", "div", "fill", "index", "index_put", "index_put_impl",
        "zero", "masked_fill",
    },
}  # fmt: skip
"""Operations of torch by what they are there for."""


def write_pairs(task: Task) -> Found:
    """The training pairs of a tokens artifact as `train seq2seq` stores them."""
    eos = (task["special"]["</s>"],)
    writer = PairWriter(
        Path(task["pairs"]), vocab_size=task["n_tokens"], before=(), after=eos, end=eos, max_len=task["seq_len"]
    )
    with Artifact(Path(task["tokens"]), ["tokens"]) as artifact:
        for batch in read_batches(artifact, "tokens", ["split", "ids", "ids_b"]):
            for row in batch.to_pylist():
                if row["split"] == "train":
                    writer.add(np.array(row["ids"]), np.array(row["ids_b"]))
    writer.close()
    return {"pairs": writer.n_pairs}


class _Recorder(Pairs):
    """Keeps the batches that the loop asks for."""

    batches: list[dict[str, np.ndarray]]

    def targets(self, *of: Any, **more: Any) -> Any:
        """As the objective's."""
        found = super().targets(*of, **more)
        (inputs, mask), (labels, real) = _padded(*found.sources), _padded(*found.labels)
        self.batches.append({"inputs": inputs, "mask": mask, "labels": np.where(real, labels, -100)})
        return found


def _padded(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sequences as a matrix (B, T), and where it has ids."""
    real = np.arange(lengths.max()) < lengths[:, None]
    matrix = np.zeros(real.shape, np.int64)
    matrix[real] = ids
    return matrix, real


def record(task: Task) -> Found:
    """One training of ours; with `profiled`, the steps after so many, and where their time goes."""
    settings = Seq2SeqSettings.make(task["settings"])
    execution, special = make_execution(settings), special_of(task["special"])
    config = fresh_config(settings, Opened(special=special, n_tokens=task["n_tokens"]))
    model = new_encoder_decoder(config, settings.seed)
    kind = Pairs if task.get("record") is None else _Recorder
    objective = kind(start_id=config.start_id, device=execution.device)
    if task.get("record") is not None:
        folder, objective.batches = Path(task["record"]), []
        folder.mkdir(parents=True)
        save_hf(model, config, lambda name, data: (folder / name).write_bytes(data))
    blocks = open_pairs(Path(task["pairs"]), task["n_tokens"])
    trainer = assemble_learner(
        settings, model, blocks, None, objective=objective, valid_objective=objective, execution=execution,
        state_dir=Path(task["folder"]), run_key="benchmark",
    )  # fmt: skip
    if "profiled" in task:
        return _where(trainer.steps(StopFlag()), task["profiled"])
    reports = [step for step in trainer.steps(StopFlag()) if step.split == "train"]
    if task.get("record") is not None:
        kept = objective.batches[: len(reports)]
        np.savez(folder / "batches.npz", **{f"{i}-{key}": v for i, one in enumerate(kept) for key, v in one.items()})
    return {
        "token_seconds": [1 / step.tokens_per_s for step in reports], "losses": [step.loss for step in reports],
        "rates": [step.lr for step in reports], "parameters": sum(weight.numel() for weight in model.parameters()),
        "peak_memory_bytes": peak_memory_bytes(),
    }  # fmt: skip


def _where(steps: Iterator[Any], warm: int) -> Found:
    """Shares of a step's time, by torch's profiler."""
    for _ in range(warm):
        next(steps)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in steps:
            pass
    found = dict.fromkeys(OPERATIONS, 0.0) | {"other": 0.0}
    for one in profile.key_averages():
        name = one.key.removeprefix("aten::").strip("_")
        kind = next((kind for kind, names in OPERATIONS.items() if name in names), "other")
        found[kind] += one.self_cpu_time_total
    return {kind: round(seconds / sum(found.values()), 3) for kind, seconds in found.items()}


def changed(task: Task) -> Found:
    """A training by `wordpipe.train_seq2seq`, on request with embeddings that are not multiplied by the root of the width."""
    import wordpipe
    from wordpipe.model import STYLES

    if not task["scaled"]:
        STYLES["encoder-decoder", "vaswani"]["scale_embedding"] = False
    made = wordpipe.train_seq2seq(task["tokens"], output=task["model"], **task["settings"])
    return {"seconds": made.seconds, "counts": made.counts, "figures": made.metrics}


def repeat(task: Task) -> Found:
    """The same steps by transformers."""
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(task["threads"])
    model = AutoModelForSeq2SeqLM.from_pretrained(
        task["record"], attn_implementation=task["attention"], dtype=torch.float32, **task["config"]
    )
    model.train()
    for name, weight in model.named_parameters():
        if "embed_positions" in name:  # the sines of Marian, which it would train after loading
            weight.requires_grad_(False)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = make_adamw(model, task)
    seconds, losses = [], []
    for rate, batch in zip(task["rates"], _batches(Path(task["record"])), strict=True):
        positions = int(batch["attention_mask"].sum()) + int((batch["labels"] >= 0).sum())
        begun = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["dtype"] == "bfloat16"):
            loss = model(**batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, task["clip"])
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seconds.append((time.monotonic() - begun) / positions)
        losses.append(float(loss.detach()))
    return {
        "token_seconds": seconds, "losses": losses, "parameters": sum(weight.numel() for weight in weights),
        "peak_memory_bytes": peak_memory_bytes(),
    }  # fmt: skip


def _batches(folder: Path) -> Iterator[dict[str, torch.Tensor]]:
    with np.load(folder / "batches.npz") as arrays:
        for step in range(len(arrays.files) // 3):
            given = {name: torch.from_numpy(arrays[f"{step}-{name}"]) for name in ("inputs", "mask", "labels")}
            yield {"input_ids": given["inputs"], "attention_mask": given["mask"].long(), "labels": given["labels"]}


def products(task: Task) -> Found:
    """Seconds per token of the products alone, as torch computes them and as `torch_threads` lets it."""
    torch.set_num_threads(task["threads"])
    sizes = [(int(b["attention_mask"].sum()), int((b["labels"] >= 0).sum())) for b in _batches(Path(task["record"]))]
    S, T = (round(sum(side) / len(sizes)) for side in zip(*sizes, strict=True))
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[task["dtype"]]
    shapes = list(_shapes(S, T, task["shape"], task["n_tokens"]))
    found = {"operations": sum(6 * n * math.prod(shape) for n, *shape in shapes), "positions": S + T}
    with torch.inference_mode():
        found["torch"] = _seconds(shapes, dtype) / (S + T)
        with torch_threads(task["threads"]):
            found["ours"] = _seconds(shapes, dtype) / (S + T)
    return found


def _shapes(S: int, T: int, shape: dict[str, int], vocab_size: int) -> Iterator[tuple[int, int, int, int]]:
    """How many products of positions x inputs by inputs x outputs the layers and the head are."""
    D, F, gate = shape["dim"], shape["ffn_dim"], shape["gate"]
    for n, kind in ((S, "encoder"), (T, "decoder")):
        yield shape["n_layers"], n, D, 3 * D
        yield shape["n_layers"] * (1 if kind == "encoder" else 3), n, D, D  # to and from attention, and to the source
        yield shape["n_layers"], n, D, F * gate
        yield shape["n_layers"], n, F, D
    yield shape["n_layers"], S, D, 2 * D
    yield 1, T, D, vocab_size


def _seconds(shapes: list[tuple[int, int, int, int]], dtype: torch.dtype) -> float:
    """Of all products, each with both of its gradients; the median of several rounds."""
    work: list[tuple[int, Callable[[], object]]] = []
    for count, n, n_in, n_out in shapes:
        x, w, y = (torch.randn(*shape).to(dtype) for shape in ((n, n_in), (n_out, n_in), (n, n_out)))
        work += [(count, lambda x=x, w=w: x @ w.T), (count, lambda y=y, w=w: y @ w), (count, lambda x=x, y=y: y.T @ x)]
    rounds = []
    for _ in range(7):
        begun = time.monotonic()
        for count, one in work:
            for _ in range(count):
                one()
        rounds.append(time.monotonic() - begun)
    return sorted(rounds)[len(rounds) // 2]


def write_ours(task: Task) -> Found:
    """Target texts by us: `wordpipe generate` without its command line."""
    from wordpipe.model.settings import GenerateSettings
    from wordpipe.stages.infer.generate import TargetWriter
    from wordpipe.stages.models import open_model

    given = {"beams": task["beams"], "length_penalty": task["length_penalty"], "threads": task["threads"]}
    writer = TargetWriter(open_model(task["model"]), GenerateSettings.make({**given, "device": "cpu"}))
    writer.write(task["sources"][:8])
    begun = time.monotonic()
    found = list(writer.stream(task["sources"]))
    return {"seconds": time.monotonic() - begun, "targets": [one.text for one in found]}


def write_theirs(task: Task) -> Found:
    """The same by transformers: sorted by length, in batches of one size."""
    from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

    torch.set_num_threads(task["threads"])
    model = AutoModelForSeq2SeqLM.from_pretrained(task["model"], dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(task["model"])
    sources = task["sources"]
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    targets = [""] * len(sources)
    _write(model, tokenizer, sources[:8], task)
    begun = time.monotonic()
    for first in range(0, len(order), task["batch_size"]):
        numbers = order[first : first + task["batch_size"]]
        for number, text in zip(numbers, _write(model, tokenizer, [sources[n] for n in numbers], task), strict=True):
            targets[number] = text
    return {"seconds": time.monotonic() - begun, "targets": targets}


def _write(model: Any, tokenizer: Any, texts: list[str], task: Task) -> list[str]:
    found = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    longest = int(found["attention_mask"].sum(1).max())
    with torch.inference_mode():
        ids = model.generate(
            **found, num_beams=task["beams"], length_penalty=task["length_penalty"], do_sample=False,
            max_new_tokens=min(2 * longest + 20, task["positions"] - 1),
        )  # fmt: skip
    return [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
