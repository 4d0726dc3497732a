"""Are the ids those of tokenizers? Every line of every file below a folder, for each algorithm and pre-tokenizer.

    python benchmarks/exactness.py --data DIR [--train FILE] [--algorithms bpe,wordpiece,unigram]
        [--pretokenizers gpt2,digits,…] [--normalizations none,nfc] [--limit-mb N] [--out FILE.json]

A tokenizer of each kind is trained by wordpipe, written as tokenizer.json and opened by tokenizers; then each line (and each
whole JSON line, as it stands) is encoded by both. Exit code 1 if a single id differs.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.tokens import (
    Encoder,
    StringCounts,
    StringTable,
    cut_pretokens,
    empty_tokenizer,
    scheme_of,
    sorted_by_count,
    table_contents,
    train_tokenizer,
)
from wordpipe.tokens.settings import TokenizeSettings

BATCH = 4096
ALGORITHMS = ("bpe", "wordpiece", "unigram", "word", "char")
PRETOKENIZERS = ("gpt2", "digits", "bert", "whitespace", "metaspace")


def batches(files: list[Path], limit: int) -> Iterator[pa.Array]:
    """All lines of all files, invalid UTF-8 replaced, a few thousand at a time."""
    lines: list[str] = []
    for path in files:
        text = path.read_bytes()[:limit].decode("utf-8", errors="replace")
        for line in text.split("\n"):
            lines.append(line)
            if len(lines) == BATCH:
                yield pa.array(lines, pa.string())
                lines = []
    yield pa.array(lines, pa.string())


def count(files: list[Path], settings: TokenizeSettings, limit: int) -> StringCounts:
    """The distinct pre-tokens of the files."""
    tokenizer = empty_tokenizer(settings)
    scheme = scheme_of(tokenizer)
    assert scheme is not None
    cut, table = cut_pretokens(tokenizer, scheme), StringTable()
    for rows in batches(files, limit):
        spans = cut(rows)
        table.look_up(spans.data, spans.starts, spans.ends, np.empty(len(spans.starts), np.int32))
    return sorted_by_count(table_contents(table))


def compare(tokenizer: Tokenizer, files: list[Path], limit: int) -> dict[str, float]:
    """Encode everything both ways."""
    again = Tokenizer.from_str(tokenizer.to_str())
    encoder, figures = Encoder(again).for_thread(), {"lines": 0, "ids": 0, "lines_that_differ": 0}
    for rows in batches(files, limit):
        ids, offsets = encoder.encode(rows)
        theirs = again.encode_batch(rows.to_pylist(), add_special_tokens=False)
        for row, encoding in enumerate(theirs):
            ours = ids[offsets[row] : offsets[row + 1]].tolist()
            figures["ids"] += len(ours)
            if ours != encoding.ids:
                figures["lines_that_differ"] += 1
                if figures["lines_that_differ"] <= 3:
                    print("   differs:", ascii(rows[row].as_py())[:200], ours[:20], encoding.ids[:20], file=sys.stderr)
        figures["lines"] += len(rows)
    return figures


def main() -> int:
    """Run what the command line asks for; 1 if an id differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train", type=Path, help="train on this file instead of the first of every file's lines")
    parser.add_argument("--algorithms", default="bpe,wordpiece,unigram")
    parser.add_argument("--pretokenizers", default=",".join(PRETOKENIZERS))
    parser.add_argument("--normalizations", default="none")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--limit-mb", type=float, default=1e6, help="of each file")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = sorted(path for path in args.data.rglob("*") if path.is_file())
    limit = int(args.limit_mb * 1e6)
    results = []
    for algorithm, name, normalization in product(
        args.algorithms.split(","), args.pretokenizers.split(","), args.normalizations.split(",")
    ):
        begin = time.monotonic()
        settings = TokenizeSettings(
            algorithm=algorithm, pretokenizer=name, vocab_size=args.vocab_size, normalization=normalization,
            lowercase=args.lowercase,
        )  # fmt: skip
        counts = count([args.train] if args.train else files, settings, min(limit, 2_000_000))
        figures = compare(train_tokenizer(counts, settings).tokenizer, files, limit)
        row = {"algorithm": algorithm, "pretokenizer": name, "normalization": normalization, **figures}
        results.append(row)
        print(f"{json.dumps(row)}  {time.monotonic() - begin:.0f} s", flush=True)
    if args.out:
        found = {"tokenizers": version("tokenizers"), "files": len(files), "results": results}
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row["lines_that_differ"] for row in results))


if __name__ == "__main__":
    sys.exit(main())
