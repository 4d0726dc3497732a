"""One piece of work on models in a process of its own: `python -m peers.model_measure TASK.json`."""

import importlib
import json
import sys
from pathlib import Path

WORK = {
    "prepare": "model_text", "train_bert": "model_bert", "evaluate": "model_score", "raw_start": "model_starts",
    "streams": "model_ours", "ours": "model_ours", "transformers": "model_transformers", "trainer": "model_trainer",
    "probe": "frozen_probe", "mix": "mixer_passes",
    **dict.fromkeys(("write_pairs", "record", "changed", "repeat", "products", "write_ours", "write_theirs"), "seq2seq_sides"),
    **dict.fromkeys(
        ("train_ours", "train_theirs", "fresh_start", "bags", "gazetteer", "written_by_transformers"), "head_sides"
    ),
}  # fmt: skip


def main() -> None:
    """Do the task."""
    task = json.loads(Path(sys.argv[1]).read_text())
    found = getattr(importlib.import_module(f"peers.{WORK[task['work']]}"), task["work"])(task)
    Path(task["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
