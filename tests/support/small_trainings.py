"""A small training for the tests of this folder: text with a pattern that can be learned, a model that learns it in seconds.

Run as a program it trains to the end and prints the hash of the final weights; the tests kill it on the way.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save

from wordpipe.artifacts import hash_bytes
from wordpipe.errors import InputError
from wordpipe.model import new_model
from wordpipe.runtime import StopFlag, stop_signal
from wordpipe.training import (
    LanguageLearner,
    SpecialIds,
    Trainer,
    World,
    assemble,
    join_world,
    make_execution,
)
from wordpipe.training.recipes import Opened, fresh_config, recipe_of
from wordpipe.training.settings import CausalSettings, MaskedSettings, PretrainSettings

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4, bos=5, eos=6)
N_TOKENS = 90
SMALL = {"preset": "tiny", "dim": 32, "n_layers": 2, "n_heads": 2, "ffn_dim": 64, "seq_len": 16, "batch_size": 8}


def settings_of(kind: str, **values: object) -> PretrainSettings:
    cls = MaskedSettings if kind == "mlm" else CausalSettings
    return cls.make(SMALL | {"steps": 12, "threads": 1, "device": "cpu", "dtype": "float32", "lr": 3e-3} | values)


def opened_of(settings: PretrainSettings, special: SpecialIds = SPECIAL, **given: Any) -> Opened:
    return Opened(special=special, n_tokens=N_TOKENS, seq_len=settings.seq_len or 16, **given)


def text(n: int, seed: int = 0) -> np.ndarray:
    """Ids that go up by one or two, with document ends in between: the next one can be guessed, but not always."""
    random = np.random.default_rng(seed)
    ids = 7 + np.cumsum(random.integers(1, 3, n)) % (N_TOKENS - 7)
    ids[random.random(n) < 0.03] = 3
    return ids.astype("<u2")


def training(
    settings: PretrainSettings, state_dir: Path, *, run_key: str = "a run", n: int = 2000, world: World | None = None,
    **others: Any,
) -> Trainer[LanguageLearner]:  # fmt: skip
    opened = opened_of(settings)
    model = new_model(fresh_config(settings, opened), settings.seed)
    starts = (others.pop("word_starts", None), None)
    held = recipe_of(settings).data(opened, settings).held(text(n), text(300, seed=1), starts)
    return assemble(
        settings, opened, model, held, execution=make_execution(settings, world), state_dir=state_dir, run_key=run_key,
        world=world, **others,
    )  # fmt: skip


def weights_hash(run: Trainer[LanguageLearner]) -> str:
    return hash_bytes(save({name: weight.detach().cpu() for name, weight in run.learner.model.named_parameters()}))


def run_to_end(run: Trainer[LanguageLearner]) -> str:
    for _ in run.steps(StopFlag()):
        pass
    return weights_hash(run)


def main(kind: str, state_dir: str, *pairs: str) -> None:
    settings = settings_of(kind, **dict(pair.split("=") for pair in pairs))
    with join_world(settings.device) as world:
        run = training(settings, Path(state_dir), world=world)
        print("resumed from", run.resumed_from, *run.notes, flush=True)  # noqa: T201
        with stop_signal() as flag:
            for step in run.steps(flag):
                print("step", step.step, step.split, step.loss, flush=True)  # noqa: T201
        sys.stdout.write(f"weights {weights_hash(run)}\n")  # in one piece: another process writes there, too
        sys.stdout.flush()


def fail_first() -> None:
    """What the first process cannot do, the others hear of."""

    with join_world("cpu") as world:
        print("shared", world.share({"from": world.rank}), flush=True)  # noqa: T201
        with world.first_goes_ahead():
            raise InputError("there is no text for the training")


if __name__ == "__main__":
    main(*sys.argv[1:])
