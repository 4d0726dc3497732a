"""Pairs of three tasks that one model learns, told apart by the field `task`: titles, answers, sentiment."""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

Pair = dict[str, str]

WORDS = 60  # most of a passage
PASSAGES = 4  # of a document
HELD_OUT = 800  # passages


def write_tasks(data: Path, folder: Path, passages: int) -> dict[str, int]:
    """Write train.jsonl and held-out.jsonl; how many pairs each task has in each.

    Args:
        data: with wiki/{train,valid}.txt, labelled/xquad.en.json, labelled/sst/{train,dev}.tsv.
        folder: gets the files.
        passages: most training passages of Wikipedia; held out are those of its held-out file and `HELD_OUT` that come later.
    """
    train, valid, sst = data / "wiki" / "train.txt", data / "wiki" / "valid.txt", data / "labelled" / "sst"
    later = passages + PASSAGES  # of another document
    xquad = list(answers(data / "labelled" / "xquad.en.json"))
    splits = {
        "train": [
            *islice(titles(train), passages), *sentiments(sst / "train.tsv"),
            *(pair for pair, is_held_out in xquad if not is_held_out),
        ],
        "held-out": [
            *titles(valid), *islice(titles(train), later, later + HELD_OUT), *sentiments(sst / "dev.tsv"),
            *(pair for pair, is_held_out in xquad if is_held_out),
        ],
    }  # fmt: skip
    counts: dict[str, int] = {}
    for split, pairs in splits.items():
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for pair in pairs:
                file.write(json.dumps(pair, ensure_ascii=False) + "\n")
                name = f"{split} {pair['task'].rstrip(': ')}"
                counts[name] = counts.get(name, 0) + 1
    return counts


def write_passages(source: Path, target: Path, megabytes: float) -> None:
    """Write the paragraphs that a text begins with, up to so many MB, a line each, in at most `WORDS` words.

    Those of held-out passages are among them, as they would be in a corpus of one's own; their titles are not.
    """
    left = megabytes * 1e6
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as file:
        for line in lines:
            if len(line.split()) < 20:
                continue
            words = " ".join(line.split()[:WORDS])
            left -= len(words.encode()) + 1
            if left < 0:
                return
            file.write(f"{words}\n")


def titles(path: Path) -> Iterator[Pair]:
    """The first passages of every document, in whole words, with the document's title."""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        title, *paragraphs = [line.strip() for line in block.strip().split("\n")]
        for passage in [line for line in paragraphs if len(line.split()) >= 20][:PASSAGES]:
            yield {"task": "title: ", "text": " ".join(passage.split()[:WORDS]), "text_b": title}


def sentiments(path: Path) -> Iterator[Pair]:
    """Sentences and `positive` or `negative`."""
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        label, text = line.split("\t")
        yield {"task": "sentiment: ", "text": text, "text_b": {"0": "negative", "1": "positive"}.get(label, label)}


def answers(path: Path) -> Iterator[tuple[Pair, bool]]:
    """Questions, each with the sentences around its answer; every fifth article is held out.

    The passage is cut to the sentences that have the answer and those before and after, as the model has few positions.
    """
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answer = question["answers"][0]
                passage = around(paragraph["context"], answer["answer_start"], len(answer["text"]))
                pair = {"task": "answer: ", "text": f"{question['question']} | {passage}", "text_b": answer["text"]}
                # passages of one article stay together
                named = article.get("title") or article["paragraphs"][0]["context"]
                yield pair, hashlib.sha1(named.encode()).digest()[0] % 5 == 0


def around(context: str, start: int, length: int) -> str:
    """The sentences of an answer, one before and one after, in at most 60 words."""
    ends = [0, *(found.end() for found in re.finditer(r"[.!?]\s+", context)), len(context)]
    first = max(i for i, end in enumerate(ends[:-1]) if end <= start)
    last = min(i for i, end in enumerate(ends) if end >= start + length)
    near = context[ends[max(0, first - 1)] : ends[min(len(ends) - 1, last + 1)]]
    return " ".join(near.split()[:WORDS])
