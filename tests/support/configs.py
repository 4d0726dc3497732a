"""Configs of small pipelines: the stages of one, from texts to an index, each with the settings that make it in a moment."""

import json
from typing import Any

_STAGES: dict[str, dict[str, Any]] = {
    "corpus": {"command": "ingest", "inputs": ["texts"]},
    "tokens": {"command": "tokenize", "inputs": ["corpus"], "vocab_size": 400},
    "words": {
        "command": "train word2vec", "inputs": ["tokens"], "dim": 8, "epochs": 1, "min_count": 1, "threads": 1,
    },
    "sentences": {"command": "embed", "inputs": ["words", "corpus"]},
    "index": {"command": "index", "inputs": ["sentences"]},
}  # fmt: skip


def small_config(*names: str, **more: dict[str, Any]) -> str:
    """Return the config of these stages, in this order.

    Args:
        names: of stages: corpus, tokens, words, sentences, index.
        more: settings of a stage beside its own, or in their place.
    """
    assert set(more) <= set(names)
    stages = {name: _STAGES[name] | more.get(name, {}) for name in names}
    return "\n".join(
        f"[stage.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in stage.items())
        for name, stage in stages.items()
    )
