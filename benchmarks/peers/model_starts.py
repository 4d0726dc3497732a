"""A start that wordpipe refuses to make: word vectors put into the embedding table as they are, not rescaled."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import from_numpy

Task = dict[str, Any]
Found = dict[str, Any]

TABLE = "model.embeddings.tok_embeddings.weight"
LEFT_OUT = ("manifest.json", "steps.parquet")  # what makes a folder an artifact, whose files must be as they were


def raw_start(task: Task) -> Found:
    """A plain folder of transformers: the untrained model `model` with the vectors of the artifact `words`, for `--init`."""
    source, target = Path(task["model"]), Path(task["out"])
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    weights = load_file(target / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    table_VD, replaced, before = weights[TABLE].numpy(), [], float(weights[TABLE].std())
    for path in sorted(Path(task["words"]).glob("words-*.parquet")):
        rows = pq.read_table(path, columns=["word", "vector"]).to_pylist()
        for row in rows:
            if (number := tokenizer.token_to_id(row["word"])) is not None:
                table_VD[number] = row["vector"]
                replaced.append(number)
    weights[TABLE] = from_numpy(table_VD)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return {"replaced": len(replaced), "deviation_before": before, "deviation": float(np.std(table_VD[replaced]))}
