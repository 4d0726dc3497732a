"""What must hold of heads on every device: loss and gradient are those of a CPU, training learns, and says the same there."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers.model_checks import N_TOKENS, Line, run
from peers.model_ours import special_of
from peers.pair_checks import check_step, copied
from wordpipe.heads import (
    Encoded,
    ExampleWriter,
    HeadObjective,
    HeadTargets,
    LabelledExamples,
    head_loss_sum,
    head_trainer,
    open_examples,
)
from wordpipe.heads.examples import scores_of
from wordpipe.heads.settings import ClassifierSettings, HeadSettings, ReaderSettings, TaggerSettings
from wordpipe.model import HeadConfig, HeadedModel, new_model, start_headed
from wordpipe.training import make_execution, model_config
from wordpipe.training.settings import MaskedSettings

LENGTHS = (5, 14)  # ids of a text
KINDS: dict[str, tuple[HeadConfig, type[HeadSettings], int]] = {
    "sequence": (HeadConfig("sequence", ("a", "b")), ClassifierSettings, 1),
    "token": (HeadConfig("token", ("O", "x")), TaggerSettings, 0),
    "span": (HeadConfig("span"), ReaderSettings, 2),
}
"""Head, settings and numbers of a target."""
SPECIAL = special_of()
FIRST, MIDDLE = 7, (7 + N_TOKENS) // 2  # ids of text; those above the middle are what is to be found


def made_texts(path: Path, kind: str, n: int, seed: int) -> LabelledExamples:
    """Texts with one id above the middle: where it stands is the answer; of half of those with a label there is none."""
    random, width = np.random.default_rng(seed), KINDS[kind][2]
    writer = ExampleWriter(path, width)
    for _ in range(n):
        ids = random.integers(FIRST, MIDDLE, random.integers(*LENGTHS)).astype(np.int32)
        place, is_there = int(random.integers(1, len(ids))), kind != "sequence" or random.integers(2) > 0
        ids[0] = SPECIAL.need("cls")
        if is_there:
            ids[place] = random.integers(MIDDLE, N_TOKENS)
        firsts = np.arange(1, len(ids), dtype=np.int32) if kind == "token" else np.zeros(0, np.int32)
        tags = [float(one == place) for one in range(1, len(ids))]
        target = {"sequence": [float(is_there)], "token": tags, "span": [float(place)] * 2}[kind]
        writer.add(Encoded(ids, len(ids), 0, firsts), target)
    writer.close()
    return open_examples(path, width)


def figures_of(kind: str) -> Any:
    """Share of texts, of tags or of answers that are right."""

    def figures(found: Any, wanted: Any) -> dict[str, float]:
        right = []
        for scores, target in zip(found, wanted, strict=True):
            if kind == "token":
                right.append(float((scores.argmax(-1)[target >= 0] == target[target >= 0]).all()))
            else:
                right.append(float(scores.argmax(0 if kind == "span" else -1).ravel()[0] == target[0]))
        return {"right": float(np.mean(right))}

    return figures


def check_heads(base: dict[str, Any], epochs: float, device: torch.device) -> Iterator[Line]:
    """Each kind of head: a step, a training, and its scores on the device and on a CPU."""
    for kind, (head, settings, _) in KINDS.items():
        chosen = MaskedSettings.make({name: base[name] for name in base if name in MaskedSettings.model_fields})
        body = new_model(model_config(chosen, "encoder", n_tokens=N_TOKENS, special=SPECIAL), 1)
        model = start_headed(body, head, 1).eval()
        with tempfile.TemporaryDirectory(prefix="heads-") as folder:
            examples, held_out = (made_texts(Path(folder) / str(n), kind, n, n) for n in (600, 200))
            objective = HeadObjective(per_position=kind == "token")
            rows = examples.rows(np.arange(32))
            yield check_step(f"{kind} head", model, lambda _, one=objective: one, rows, device, loss=head_loss_sum)
            given = settings.make({
                "epochs": epochs, "lr": 5e-3, "batch_size": 16, "dropout": 0.0, "layer_decay": 1.0,
                "threads": base.get("threads", 0), "device": base["device"],
            })  # fmt: skip
            trainer = head_trainer(
                given, model, objective, examples, held_out, figures=figures_of(kind), execution=make_execution(given),
                seed=1, state_dir=Path(folder) / "state", run_key="check",
            )  # fmt: skip
            run(trainer)
            best = trainer.learner.best
            yield {"check": f"{kind} head learns", "ok": best is not None and best > 0.9, "right": best}
            trainer.learner.take_best()
            yield check_scores(kind, trainer.learner.model.cpu().eval(), held_out, device)


def check_scores(kind: str, model: HeadedModel, texts: LabelledExamples, device: torch.device) -> Line:
    """The scores of some texts on the device, beside those of a CPU, both in float32."""
    found = []
    for place in (torch.device("cpu"), device):
        batch = HeadTargets(texts.rows(np.arange(64)).to(place), kind == "token")
        with torch.inference_mode():
            scores, packed = scores_of(copied(model, place), batch)
        rows = list(scores.cpu()) if kind == "sequence" else [row for run in packed.runs(scores.cpu()) for row in run]
        ordered = dict(zip(packed.order.tolist(), rows, strict=True))
        lengths = [1 << 20] * 64 if kind == "sequence" else texts.lengths[:64].tolist()
        found.append([ordered[number][: lengths[number]] for number in range(64)])
    gap = max(float((one - other).abs().max()) for one, other in zip(*found, strict=True))
    return {"check": f"{kind} head scores", "ok": gap < 1e-3, "gap": gap}
