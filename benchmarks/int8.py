"""The speed and the quality of an encoder of texts in 8-bit integers on a CPU.

    python benchmarks/int8.py MODEL --data stsb-en-dev.csv           writes benchmarks/results/int8.json

MODEL is a transformer of `train contrastive` or `train mlm`; the data are scored pairs of sentences. The model is exported for
sentence-transformers, which torch turns into a graph (docs/tasks/programs.md); it is quantised by onnxruntime (dynamic:
weights per channel, activations as they come), and four sides encode the same texts in turns, in one process on one thread:
the sentences of the pairs, and the lines of --text FILE that the model reads at once. It needs
`pip install onnx onnxruntime onnxscript sentence-transformers`.

    float32, bfloat16    our encoder
    onnx                 the graph in onnxruntime, texts sorted by length, in padded batches
    onnx int8            the same after quantisation: matrices alone; the table of tokens stays as it is

A side has texts/s of processor time (the median of the rounds), the ratio to bfloat16, Spearman's correlation with the scores
x 100, and by how much any number of any vector is off from float32 at most.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokens import machine

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import spearman
from wordpipe.stages import open_encoder, read_sts_sets

RESULTS = Path(__file__).parent.absolute() / "results"
BASE = "bfloat16"

Encode = Callable[[Sequence[str]], np.ndarray]


def main() -> int:
    """Measure, print and write."""
    args = arguments()
    pairs = read_sts_sets([args.data])[0][0].pairs
    with tempfile.TemporaryDirectory() as work, Artifact(args.model, ["model"]) as artifact:
        sides = {
            "float32": ours(artifact, "float32"),
            "bfloat16": ours(artifact, "bfloat16"),
            **graphs(args.model, Path(work), args.batch_size),
        }
        lines = compared(sides, pairs.first, pairs.second, pairs.scores)
        fits = short_enough(artifact)
        for what, texts in timed_texts(args, [*pairs.first, *pairs.second], fits).items():
            speeds = in_turns(sides, texts, args.repeat)
            for name, line in lines.items():
                ratio = round(speeds[name] / speeds[BASE], 3)
                line[what] = {"texts": len(texts), "texts_per_s": round(speeds[name], 1), "to_bfloat16": ratio}
    for name, line in lines.items():
        print(json.dumps({"side": name, **line}))
    about = {"machine": machine(), "threads": 1, "model": shape(args.model), "pairs": len(pairs)}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({**about, "sides": lines}, indent=1) + "\n")
    return 0


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description="8-bit integers against our float32 and bfloat16 on a CPU.")
    parser.add_argument("model", type=Path, help="a transformer model artifact")
    parser.add_argument("--data", type=Path, required=True, help="scored pairs of sentences")
    parser.add_argument("--text", type=Path, help="a file of one text per line, which is timed too")
    parser.add_argument("--texts", type=int, default=1000, help="how many of each are timed")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="of the graphs")
    parser.add_argument("--out", type=Path, default=RESULTS / "int8.json", metavar="JSON")
    return parser.parse_args()


def short_enough(artifact: Artifact) -> Callable[[str], bool]:
    """Whether the model reads a text at once: longer ones we read in windows, and a graph cannot."""
    tokenizer = Tokenizer.from_str(artifact.read("tokenizer.json").decode())
    tokenizer.no_truncation()
    longest = int(artifact.manifest.facts["max_len"])
    return lambda text: 2 < len(tokenizer.encode(text).ids) <= longest


def timed_texts(
    args: argparse.Namespace, sentences: Sequence[str], fits: Callable[[str], bool]
) -> dict[str, list[str]]:
    """The texts that are timed, under the name that their figures have."""
    found = {"sentences": [*islice(filter(fits, dict.fromkeys(sentences)), args.texts)]}
    if args.text is not None:
        with args.text.open(encoding="utf-8") as file:
            lines = (line.strip() for line in file)
            found["lines"] = [*islice(filter(fits, lines), args.texts)]
    return found


def ours(artifact: Artifact, dtype: str) -> Encode:
    """Our encoder on one thread."""
    encoder = open_encoder(artifact, EmbedSettings.make({"device": "cpu", "dtype": dtype, "threads": 1}))
    return lambda texts: encoder.encode(texts).vectors


def graphs(model: Path, work: Path, batch_size: int) -> dict[str, Encode]:
    """The exported graph, and the same quantised."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    wordpipe.export(model, "sentence-transformers", work / "encoder")
    plain, small = work / "model.onnx", work / "int8.onnx"
    write_graph(work / "encoder", plain)
    quantize_dynamic(plain, small, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    tokenizer = Tokenizer.from_file(str(work / "encoder" / "tokenizer.json"))
    return {"onnx": session(plain, tokenizer, batch_size), "onnx int8": session(small, tokenizer, batch_size)}


def write_graph(folder: Path, path: Path) -> None:
    """A folder of sentence-transformers as one graph: ids and mask in, unit vectors out, pooling and transform inside."""
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.model({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]

    batch = model.preprocess(["a text", "another text"])
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", max=model.max_seq_length)}
    torch.onnx.export(
        Graph().eval(), (batch["input_ids"], batch["attention_mask"]), path, dynamo=True, dynamic_shapes=(axes, axes),
        input_names=["input_ids", "attention_mask"], output_names=["sentence_embedding"], external_data=False,
    )  # fmt: skip


def session(path: Path, tokenizer: Tokenizer, batch_size: int) -> Encode:
    """A graph in onnxruntime on one thread, fed with sentences of like length."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    opened = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in opened.get_inputs()]
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> np.ndarray:
        ids = [one.ids for one in tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        found: list[tuple[int, np.ndarray]] = []
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            vectors = opened.run(None, dict(zip(names, padded([ids[row] for row in rows]), strict=True)))[0]
            found += zip(rows, vectors, strict=True)
        return np.stack([vector for _, vector in sorted(found, key=lambda one: one[0])])

    return encode


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and mask, (B, T) int64."""
    ids_BT = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask_BT = np.zeros_like(ids_BT)
    for row, ids in enumerate(rows):
        ids_BT[row, : len(ids)], mask_BT[row, : len(ids)] = ids, 1
    return ids_BT, mask_BT


def compared(
    sides: dict[str, Encode], first: Sequence[str], second: Sequence[str], scores: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Quality of each side, and how far it is from the first."""
    lines, exact = {}, None
    for name, encode in sides.items():
        vectors = encode([*first, *second])
        exact = vectors if exact is None else exact
        cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(axis=1)
        off = float(np.abs(vectors - exact).max())
        lines[name] = {"spearman": round(100 * (spearman(cosines, scores) or 0.0), 2), "largest_difference": off}
    return lines


def in_turns(sides: dict[str, Encode], texts: Sequence[str], repeat: int) -> dict[str, float]:
    """Texts/s of each side: the median of runs that take turns, after one that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeat + 1):
        for name, encode in sides.items():
            begun = time.process_time()  # of one thread: others on the machine do not count
            encode(texts)
            if number:
                taken[name].append(time.process_time() - begun)
    return {name: len(texts) / statistics.median(seconds) for name, seconds in taken.items()}


def shape(model: Path) -> dict[str, Any]:
    """Sizes of the model."""
    about = json.loads((model / "config.json").read_text())
    return {name: about.get(name) for name in ("model_type", "num_hidden_layers", "hidden_size", "vocab_size")}


if __name__ == "__main__":
    raise SystemExit(main())
