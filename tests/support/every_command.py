"""A real small run of every command, by what the chain of `built` holds and some more that is made from it."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

import wordpipe
from wordpipe.runtime import Progress, Report, Stopped

_TINY = 'dim = 32\nn_layers = 1\nn_heads = 1\nffn_dim = 64\nseq_len = 64\nthreads = 1\ndevice = "cpu"\nsteps = 2\n'
_TRAIN = ("--config", "{made}/tiny.toml", "-o", "{out}")
_HEAD = ("--init", "{built}/model", "--epochs", "1", "--threads", "1", "--device", "cpu", "-o", "{out}")

RUNS: dict[str, tuple[str, ...]] = {
    "ingest": ("{made}/text.txt", "--documents", "block", "--workers", "2", "-o", "{out}"),
    "import": ("{made}/vectors.txt", "-o", "{out}"),
    "tokenize": ("{built}/corpus", "--vocab-size", "400", "--workers", "2", "-o", "{out}"),
    "train word2vec": ("{built}/tokens", "--dim", "8", "--epochs", "1", "--threads", "1", "-o", "{out}"),
    "train mlm": ("{built}/tokens", *_TRAIN),
    "train electra": ("{built}/tokens", *_TRAIN),
    "train permutation": ("{built}/tokens", *_TRAIN),
    "train clm": ("{built}/tokens", *_TRAIN),
    "train denoising": ("{built}/tokens", *_TRAIN),
    "train seq2seq": ("{made}/pair-tokens", *_TRAIN),
    "train classifier": ("{made}/labelled", *_HEAD),
    "train tagger": ("{made}/labelled", *_HEAD),
    "train reader": ("{made}/questions.json", *_HEAD),
    "train contrastive": (
        "{built}/tokens",
        "--init",
        "{built}/model",
        "--steps",
        "2",
        "--batch-size",
        "8",
        "-o",
        "{out}",
    ),
    "train static": (
        "{built}/tokens",
        "--words",
        "{built}/words",
        "--steps",
        "2",
        "--batch-size",
        "8",
        "-o",
        "{out}",
    ),
    "embed": ("{built}/model", "{built}/corpus", "--device", "cpu", "--threads", "1", "-o", "{out}"),
    "index": ("{built}/sentences", "--threads", "1", "-o", "{out}"),
    "cluster": ("{built}/sentences", "-k", "4", "-o", "{out}"),
    "search": ("sea moon", "{made}/text.txt", "--json"),
    "query": ("{built}/index", "how do bees find their way", "--json"),
    "serve": ("{built}/index", "{built}/words", "--port", "0", "--json"),
    "mcp": ("{built}/index",),
    "generate": ("{made}/seq2seq", "the sea is", "--max-tokens", "3"),
    "fill": ("{built}/model", "the [MASK] is old"),
    "predict": ("{made}/classifier", "the sea is old"),
    "finish": ("{made}/stopped",),
    "plot": ("{built}/model", "{built}/words"),
    "diff": ("{built}/words", "{built}/words"),
    "evaluate tokenizer": ("{built}/tokens", "--data", "{made}/text.txt"),
    "evaluate words": ("{built}/words", "--data", "{made}/similar.tsv"),
    "evaluate model": ("{built}/model", "--data", "{made}/text.txt"),
    "evaluate seq2seq": ("{made}/seq2seq", "--data", "{made}/pairs.jsonl", "--max-tokens", "3"),
    "evaluate predictions": ("{made}/classifier", "--data", "{made}/labelled.jsonl"),
    "evaluate sts": ("{built}/words", "--data", "{made}/sts.jsonl"),
    "evaluate search": ("{built}/index", "--data", "{made}/asked.tsv"),
    "evaluate retrieval": ("{built}/words", "--data", "{made}/judged"),
    "show": ("{built}/index", "--rows", "2"),
    "verify": ("{built}",),
    "doctor": ("{built}/words",),
    "duplicates": ("{built}/sentences",),
    "map": ("{built}/words", "-o", "{out}.html"),
    "report": ("{built}", "-o", "{out}.html"),
    "attention": ("{built}/model", "the sea is old", "-o", "{out}.html"),
    "export": ("{built}/words", "--to", "glove", "-o", "{out}.txt"),
    "copy": ("{built}/words", "{out}"),
    "plan": ("1m", "{made}/text.txt"),
    "init": ("{out}",),
    "run": ("{made}/wordpipe.toml",),
    "status": ("{made}/wordpipe.toml",),
    "slim": ("{made}/wordpipe.toml",),
    "help": ("train", "mlm"),
}
"""Name of a command → its arguments: `{built}` and `{made}` stand for the folders of inputs, `{out}` for a free name."""

ON_RAY: dict[str, tuple[str, ...]] = {
    name: (*RUNS[name], "--engine", "ray") for name in ("ingest", "tokenize", "embed", "index", "train mlm")
}
"""The same of those that a cluster can make, where one of their own is started."""


def make_inputs(built: Path, made: Path) -> None:
    """What the runs need beside the chain: small files, labelled texts, pairs, models, a training that was stopped."""
    rows = [{"text": f"Number {n} is {colour} like the sea.", "label": colour, "tags": [*"OOO", f"B-{colour}", *"OOO"]}
            for n in range(20) for colour in ("red", "blue")]  # fmt: skip
    pairs = [{"text": f"one {n} two", "text_b": f"two {n} one", "score": n / 20} for n in range(40)]
    found = [{"context": f"The sea has {n} bees in it.", "qas": [
        {"id": str(n), "question": "How many?", "answers": [{"text": str(n), "answer_start": 12}]}]}
        for n in range(10, 30)]  # fmt: skip
    questions = [{"title": "Bees", "paragraphs": found}]
    blocks = "\n\n".join(
        f"The river {n} runs to the sea. A kettle boils {n} cups of water for tea." for n in range(300)
    )
    with wordpipe.open(built / "index") as index:
        title = index.batches(["title"]).read_all()["title"][0]
    files = {
        "tiny.toml": _TINY,
        "text.txt": blocks,
        "vectors.txt": "".join(f"word{n} {n / 9} {n % 7} {n % 3} 1\n" for n in range(1, 30)),
        "labelled.jsonl": _lines(rows),
        "pairs.jsonl": _lines(pairs),
        "sts.jsonl": _lines([{"sentence1": "the sea", "sentence2": "water", "score": n} for n in range(5)]),
        "similar.tsv": "sea\twater\t8\nbees\tsun\t2\nriver\tsea\t6\nkettle\ttea\t7\n",
        "asked.tsv": f"what is there to know\t{title}\n",
        "questions.json": json.dumps({"version": "1", "data": questions}),
        "judged/corpus.jsonl": _lines([{"_id": str(n), "title": "", "text": f"the sea and {n} bees"} for n in range(9)]),
        "judged/queries.jsonl": _lines([{"_id": "q", "text": "the sea"}]),
        "judged/qrels.tsv": "query-id\tcorpus-id\tscore\nq\t1\t1\n",
        "wordpipe.toml": 'workdir = "run"\n[stage.corpus]\ncommand = "ingest"\ninputs = ["text.txt"]\n'
        '[stage.tokens]\ncommand = "tokenize"\ninputs = ["corpus"]\nvocab_size = 300\n',
    }  # fmt: skip
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    settings = {"epochs": 1, "threads": 1, "device": "cpu"}
    wordpipe.ingest(made / "labelled.jsonl", output=made / "labelled", label_field="label", tags_field="tags")
    wordpipe.ingest(made / "pairs.jsonl", output=made / "pairs", text_b="text_b")
    wordpipe.tokenize(made / "pairs", output=made / "pair-tokens", vocab_size=300)
    tiny = {"dim": 32, "n_layers": 1, "n_heads": 1, "ffn_dim": 64, "seq_len": 64, "threads": 1, "device": "cpu"}
    wordpipe.train_seq2seq(made / "pair-tokens", output=made / "seq2seq", steps=2, **tiny)
    wordpipe.train_classifier(made / "labelled", output=made / "classifier", init=built / "model", **settings)
    with pytest.raises(Stopped):
        wordpipe.train_mlm(built / "tokens", output=made / "stopped", steps=9, checkpoint_steps=1, **tiny,
                           run=wordpipe.RunOptions(report=_stopping()))  # fmt: skip


def _stopping() -> Report:
    """A stop signal, once, after two steps; not Ctrl-C, which is ignored in what shells run in the background."""
    pressed: list[bool] = []

    def report(progress: Progress) -> None:
        if progress.phase == "training" and progress.done >= 2 and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    return report


def arguments_of(line: tuple[str, ...], places: Mapping[str, Path]) -> list[str]:
    """The arguments with the places in them."""
    return [part.format(**places) for part in line]


def _lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
