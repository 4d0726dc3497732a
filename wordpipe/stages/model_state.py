"""The state of a finished training beside its model, so that it can be extended: `optimiser.safetensors`, `training.json`."""

import json
from collections.abc import Callable

from safetensors.torch import load, save

from wordpipe.model.language_model import LanguageModel
from wordpipe.training.state import Snapshot

__all__ = ["STATE", "read_state", "state_files"]

OPTIMISER, STATE = "optimiser.safetensors", "training.json"


def state_files(snapshot: Snapshot) -> list[tuple[str, bytes, bool]]:
    """Name, content and whether it is a log (it has times in it) of each file; the weights are the model's own."""
    text = json.dumps({"step": snapshot.step, **snapshot.log}, sort_keys=True)
    return [(OPTIMISER, save(dict(snapshot.optimiser)), False), (STATE, f"{text}\n".encode(), True)]


def read_state(read: Callable[[str], bytes], model: LanguageModel) -> Snapshot:
    """The snapshot of a training whose model has been loaded already."""
    log = json.loads(read(STATE))
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return Snapshot(log["step"], weights, load(read(OPTIMISER)), log)
