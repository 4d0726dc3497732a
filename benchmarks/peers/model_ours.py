"""Our own training step, timed and recorded: the real loop with its data path, masks, clipping and optimiser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wordpipe.model import new_model, save_hf
from wordpipe.runtime import StopFlag, peak_memory_bytes
from wordpipe.training import LanguageLearner, SpecialIds, Trainer, assemble_learner, make_execution
from wordpipe.training.recipes import Opened, fresh_config, recipe_named
from wordpipe.training.settings import CausalSettings, MaskedSettings

Task = dict[str, Any]
Found = dict[str, Any]

SETTINGS = {"mlm": MaskedSettings, "clm": CausalSettings}
ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "bos": "<s>", "eos": "</s>"}
SPECIAL_IDS = {token: number for number, token in enumerate(ROLES.values())}  # where no tokenizer says otherwise


def training(
    kind: str, values: dict[str, Any], folder: str | Path, ids: np.ndarray, *, n_tokens: int,
    special: dict[str, int] = SPECIAL_IDS, held_out: np.ndarray | None = None, recorder: "Recorder | None" = None,
) -> Trainer[LanguageLearner]:  # fmt: skip
    """A training of `wordpipe train mlm` or `clm` on ids.

    Args:
        kind: mlm or clm.
        values: settings.
        folder: of checkpoints; one that is found there is continued.
        ids: the stream.
        n_tokens: ids of the tokenizer.
        special: ids of the special tokens.
        held_out: the held-out stream, if there is one.
        recorder: notes what the loop trains on.
    """
    settings, recipe = SETTINGS[kind].make(values), recipe_named(kind)
    execution = make_execution(settings)
    opened = Opened(special=special_of(special), n_tokens=n_tokens)
    config = fresh_config(settings, opened)
    opened, model = replace(opened, seq_len=config.max_len), new_model(config, settings.seed)
    held = recipe.data(opened, settings).held(ids, ids[:0] if held_out is None else held_out)
    objective: Any = recipe.objective(settings, opened, execution.device)
    if recorder is not None:
        objective = recorder.around(objective, model)
    return assemble_learner(
        settings, model, held.train, held.valid, objective=objective,
        valid_objective=recipe.measured_by(settings, opened, execution.device), execution=execution,
        state_dir=Path(folder), run_key="benchmark",
    )  # fmt: skip


def special_of(ids: dict[str, int] = SPECIAL_IDS) -> SpecialIds:
    """The special ids by their roles."""
    return SpecialIds(**{role: ids[token] for role, token in ROLES.items()})


class Recorder:
    """An objective that keeps the batches which the loop asks for, and the weights from before the first step.

    Args:
        folder: gets the model as transformers loads it, and batches.npz.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._batches = folder, []

    def around(self, objective: Any, model: Any) -> "Recorder":
        """Stand in for an objective, whose batches are kept on their way; write the model's folder."""
        self._objective = objective
        self._folder.mkdir(parents=True, exist_ok=True)
        save_hf(model, model.config, self._write)
        return self

    def __getattr__(self, name: str) -> Any:
        """What else the loop asks of the objective."""
        return getattr(self._objective, name)

    def _write(self, name: str, data: bytes) -> None:
        (self._folder / name).write_bytes(data)

    def targets(self, *of: Any, **more: Any) -> Any:
        """As the objective's."""
        found = self._objective.targets(*of, **more)
        labels_BT = torch.full_like(found.inputs, -100)
        kept_BK = found.labels.masked_fill(found.weights == 0, -100)
        if found.positions is None:
            labels_BT = kept_BK
        else:
            labels_BT.scatter_(1, found.positions, kept_BK)
        self._batches.append((found.inputs.numpy().copy(), labels_BT.numpy().copy()))
        return found

    def finish(self, steps: int) -> None:
        """Write what was kept of so many steps; a batch may have been made ahead."""
        inputs, labels = (np.stack(part) for part in zip(*self._batches[:steps], strict=True))
        np.savez(self._folder / "batches.npz", inputs=inputs, labels=labels)


def ours(task: Task) -> Found:
    """Seconds per token between two reports of the loop itself, without the first steps' if the caller drops them."""
    recorder = Recorder(Path(task["record"])) if "record" in task else None
    part = training(
        task["kind"], task["settings"], task["folder"], np.load(task["ids"]), n_tokens=task["n_tokens"],
        special=task.get("special", SPECIAL_IDS), recorder=recorder,
    )  # fmt: skip
    reports = [step for step in part.steps(StopFlag()) if step.split == "train"]
    if recorder is not None:
        recorder.finish(len(reports))
    return {
        "token_seconds": [1 / step.tokens_per_s for step in reports], "losses": [step.loss for step in reports],
        "rates": [step.lr for step in reports], "micro_batch": part.learner.micro_batch,
        "parameters": sum(weight.numel() for weight in part.learner.model.parameters()),
        "peak_memory_bytes": peak_memory_bytes(),
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
    }  # fmt: skip


def streams(task: Task) -> Found:
    """The ids that each kind of model is trained on, from a tokens artifact."""
    from peers.model_text import stream_of

    special, tokens = task["special"], Path(task["tokens"])
    for kind, before, after in (("mlm", (), ("[SEP]",)), ("clm", ("<s>",), ("</s>",))):
        ids = stream_of(tokens, [special[name] for name in before], [special[name] for name in after])
        np.save(task["ids"][kind], ids)
    return {"tokens": len(ids)}
