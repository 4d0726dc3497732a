"""The labelled sets of benchmarks/heads.py as JSON Lines, each parted into texts to learn from and texts that are measured.

SST, SICK and WNUT-17 come in two parts. TREC and XQuAD come in one and are parted by a hash: of the question, and of the
article, so that no passage is on both sides. Nothing is chosen on the measured texts.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wordpipe.heads import is_held_out

Record = dict[str, Any]

_PARTS = 5  # one in five is measured


def is_measured(text: str) -> bool:
    """Whether a question, or an article, belongs to the measured part."""
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % _PARTS == 0


def sst(data: Path) -> Iterator[tuple[str, Record]]:
    """Sentences of film reviews, positive or negative."""
    for part, name in (("train", "train"), ("test", "dev")):
        for line in _lines(data / "labelled" / "sst" / f"{name}.tsv")[1:]:
            label, text = line.split("\t")
            yield part, {"text": text, "label": "positive" if label == "1" else "negative"}


def trec(data: Path) -> Iterator[tuple[str, Record]]:
    """Questions by what they ask for, six classes."""
    for line in _lines(data / "labelled" / "trec" / "train.txt", "latin-1"):
        label, text = line.split(" ", 1)
        yield "test" if is_measured(text) else "train", {"text": text, "label": label.partition(":")[0]}


def sick(data: Path) -> Iterator[tuple[str, Record]]:
    """Pairs of sentences: does the first one say what the second one says?"""
    for part, name in (("train", "train"), ("test", "trial")):
        header, *rows = (line.split("\t") for line in _lines(data / "sts" / f"SICK_{name}.txt"))
        for row in rows:
            found = dict(zip(header, row, strict=True))
            yield (
                part,
                {
                    "text": found["sentence_A"],
                    "text_b": found["sentence_B"],
                    "label": found["entailment_judgment"].strip().lower(),
                },
            )


def wnut(data: Path) -> Iterator[tuple[str, Record]]:
    """Names in posts of social media, which are new to any model."""
    for part, name in (("train", "wnut17train.conll"), ("test", "emerging.dev.conll")):
        words: list[str] = []
        tags: list[str] = []
        for line in [*_lines(data / "labelled" / "wnut17" / name, blank=True), ""]:
            if line.strip():
                word, tag = line.split("\t")
                words.append(word.strip().replace(" ", "_"))
                tags.append(tag.strip())
            elif words:
                yield part, {"text": " ".join(words), "tags": tags}
                words, tags = [], []


def xquad(data: Path) -> Iterator[tuple[str, Record]]:
    """Passages and questions; the answers are stretches of the passage."""
    found = json.loads((data / "labelled" / "xquad.en.json").read_text(encoding="utf-8"))
    for article in found["data"]:
        part = "test" if is_measured(article["paragraphs"][0]["context"]) else "train"
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                spans = [
                    {"start": one["answer_start"], "end": one["answer_start"] + len(one["text"]), "label": None}
                    for one in question["answers"]
                ]
                yield part, {"text": paragraph["context"], "text_b": question["question"], "spans": spans}


SETS: dict[str, Callable[[Path], Iterator[tuple[str, Record]]]] = {
    "sst": sst, "sick": sick, "trec": trec, "wnut": wnut, "xquad": xquad,
}  # fmt: skip
COMMANDS = {"sst": "classifier", "sick": "classifier", "trec": "classifier", "wnut": "tagger", "xquad": "reader"}
MEASURES = {"sst": "accuracy", "sick": "accuracy", "trec": "accuracy", "wnut": "span F1", "xquad": "answer F1"}
FIELDS = {
    "sst": ["--label-field", "label"], "trec": ["--label-field", "label"], "wnut": ["--tags-field", "tags"],
    "sick": ["--label-field", "label", "--text-b", "text_b"], "xquad": ["--spans-field", "spans", "--text-b", "text_b"],
}  # fmt: skip


def write_set(name: str, data: Path, folder: Path) -> dict[str, int]:
    """Write NAME-train.jsonl and NAME-test.jsonl; how many records each has."""
    parts: dict[str, list[Record]] = {"train": [], "test": []}
    for part, record in SETS[name](data):
        parts[part].append({"id": f"{part}-{len(parts[part])}"} | record)
    for part, records in parts.items():
        write_records(records, folder / f"{name}-{part}.jsonl")
    return {part: len(records) for part, records in parts.items()}


def write_records(records: list[Record], path: Path) -> None:
    """As JSON Lines."""
    path.write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records), encoding="utf-8")


def read_records(path: Path) -> list[Record]:
    """What `write_records` wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def texts_of(record: Record) -> tuple[str, ...]:
    """The text, or both of a pair."""
    return (record["text"], record["text_b"]) if "text_b" in record else (record["text"],)


def is_out(name: str, record: Record, share: float) -> bool:
    """Whether a record to learn from is held out, as our commands do it: by its texts, of answers by the passage alone."""
    texts = texts_of(record)
    return is_held_out(texts[:1] if COMMANDS[name] == "reader" else texts, share)


def some_of(records: list[Record], number: int, seed: int) -> list[Record]:
    """So many of the records, drawn by a hash of the seed and the record's number; all where there are no more."""
    drawn = sorted(records, key=lambda one: hashlib.sha1(f"{seed}:{one['id']}".encode()).digest())
    return drawn[:number]


def _lines(path: Path, encoding: str = "utf-8", *, blank: bool = False) -> list[str]:
    lines = path.read_text(encoding=encoding).split("\n")
    return lines if blank else [line for line in lines if line.strip()]
