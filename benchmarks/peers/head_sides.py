"""Heads: a training of ours and one of transformers from the same folder, on the same texts with the same settings.

train_ours      `wordpipe.train_classifier | train_tagger | train_reader`, then what the model says of the measured texts
train_theirs    AutoModelFor… of transformers by a plain loop: batches are padded to their longest text only; fused AdamW with
                the same rates for each layer, the same clipping, warm-up and line to zero; the same texts are held out, are
                looked at as often, and the best weights are kept
fresh_start     the folder of a model with its first weights
written_by_transformers     the folder of a model as transformers saves it
bags            TF-IDF of words and pairs of words, and logistic regression (scikit-learn)
gazetteer       the spans of the training texts, longest first

All give what is said of each measured text, in their order: a label, a list of tags, or an answer.
"""

import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers.head_data import Record, is_out, read_records, texts_of
from wordpipe.heads import best_tags, chunks_of, tag_vocabulary, words_of
from wordpipe.runtime import peak_memory_bytes

Task = dict[str, Any]
Found = dict[str, Any]

_WORDS = re.compile(r"(?u)\b\w+\b|[^\w\s]")
_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "fused": True}
_LAYER = re.compile(r"\.layers?\.(\d+)\.")
_PREDICT_AT_ONCE = 64
_QUESTION, _ANSWER, _BEST = 64, 30, 20  # tokens of a question and of an answer, candidates for a beginning and an end


def train_ours(task: Task) -> Found:
    """One training, and the answers."""
    import wordpipe

    train = getattr(wordpipe, f"train_{task['command']}")
    made = train(task["corpus"], output=task["out"], **task["settings"])
    begun = time.monotonic()
    opened = wordpipe.open_predictor(task["out"], device=task["settings"]["device"])
    texts = [texts_of(one) for one in read_records(Path(task["test"]))]
    found = list(opened.predict(one[0] if len(one) == 1 else one for one in texts))
    predicting = time.monotonic() - begun
    return {
        "seconds": made.seconds, "predicting": predicting, "figures": made.metrics, "said": [_said(one) for one in found],
        "sure": [float(max(one.probabilities)) for one in found] if task["command"] == "classifier" else None,
        "peak_memory_bytes": peak_memory_bytes(), "counts": made.counts,
    }  # fmt: skip


def _said(found: Any) -> Any:
    """A label, the tags, or an answer."""
    if hasattr(found, "tags"):
        return list(found.tags)
    return found.labels[0] if hasattr(found, "labels") else found.answer


def fresh_start(task: Task) -> Found:
    """Copy a folder, with weights as they are before any training."""
    from wordpipe.model import new_model, save_hf
    from wordpipe.stages.models import open_model

    source, target = Path(task["model"]), Path(task["out"])
    left_out = shutil.ignore_patterns("manifest.json", "training.json", "*.parquet", "*.safetensors")
    shutil.copytree(source, target, ignore=left_out, dirs_exist_ok=True)
    config = open_model(source).model.config
    model = new_model(config, task["seed"])
    save_hf(model, config, lambda name, data: (target / name).write_bytes(data))
    return {"parameters": sum(weight.numel() for weight in model.parameters())}


def written_by_transformers(task: Task) -> Found:
    """A folder as `save_pretrained` of transformers writes it, tokenizer included."""
    from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

    model = AutoModelForMaskedLM.from_pretrained(task["model"], dtype=torch.float32)
    model.save_pretrained(task["out"])
    PreTrainedTokenizerFast.from_pretrained(task["model"]).save_pretrained(task["out"])
    return {"class": type(model).__name__}


def bags(task: Task) -> Found:
    """The usual floor of classification."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    train, test = (read_records(Path(task[part])) for part in ("train", "test"))
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORDS.pattern),
        LogisticRegression(C=10, max_iter=2000),
    )
    begun = time.monotonic()
    labels = {one["label"] for one in train}
    joined = [" ".join(texts_of(one)) for one in train]
    if len(labels) == 1:
        return {"seconds": 0.0, "said": [*labels] * len(test)}
    model.fit(joined, [one["label"] for one in train])
    said = model.predict([" ".join(texts_of(one)) for one in test])
    return {"seconds": time.monotonic() - begun, "said": [str(one) for one in said]}


def gazetteer(task: Task) -> Found:
    """Whatever was a span in training is one again, with the label that it had most often."""
    train, test = (read_records(Path(task[part])) for part in ("train", "test"))
    begun, known = time.monotonic(), dict[tuple[str, ...], Counter[str]]()
    for record in train:
        words = record["text"].split()
        for label, first, end in chunks_of(record["tags"]):
            known.setdefault(tuple(words[first:end]), Counter())[label] += 1
    longest, said = max(map(len, known), default=0), []
    for record in test:
        words, place = record["text"].split(), 0
        tags = ["O"] * len(words)
        while place < len(words):
            size = next((n for n in range(longest, 0, -1) if tuple(words[place : place + n]) in known), 0)
            if size:
                ((label, _),) = known[tuple(words[place : place + size])].most_common(1)
                tags[place : place + size] = [f"B-{label}", *[f"I-{label}"] * (size - 1)]
            place += max(1, size)
        said.append(tags)
    return {"seconds": time.monotonic() - begun, "said": said}


def train_theirs(task: Task) -> Found:
    """One training by transformers, and the answers."""
    import transformers
    from transformers import PreTrainedTokenizerFast

    torch.set_num_threads(task["threads"])
    settings, command = task["settings"], task["command"]
    train, test = (read_records(Path(task[part])) for part in ("train", "test"))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(task["model"])
    side: _Side = {"classifier": _Sequences, "tagger": _Tokens, "reader": _Spans}[command](
        task["set"], train, tokenizer, task["max_len"], settings["device"]
    )
    torch.manual_seed(settings["seed"])
    drop = dict.fromkeys(task["dropouts"], settings["dropout"])
    model = (
        getattr(transformers, f"AutoModelFor{side.kind}")
        .from_pretrained(task["model"], attn_implementation="sdpa", dtype=torch.float32, **side.config, **drop)
        .to(settings["device"])
    )
    begun = time.monotonic()
    best = _train(model, side, train, settings)
    seconds = time.monotonic() - begun
    model.load_state_dict(best)
    begun = time.monotonic()
    said = side.say(model, test)
    return {
        "seconds": seconds, "predicting": time.monotonic() - begun, "said": said, "peak_memory_bytes": peak_memory_bytes()
    }  # fmt: skip


def _train(model: Any, side: "_Side", records: list[Record], settings: Task) -> dict[str, torch.Tensor]:
    """The weights that were best on held-out texts."""
    held = [is_out(side.name, one, settings["held_out"]) for one in records]
    examples = side.examples([one for one, out in zip(records, held, strict=True) if not out])
    held_out = [one for one, out in zip(records, held, strict=True) if out]
    size = min(settings["batch_size"], len(examples))
    steps = max(1, math.ceil(settings["epochs"] * len(examples) / size))
    optimiser = _layered(model, settings)
    warm = round(settings["warmup"] * steps)
    generator, order = np.random.default_rng(settings["seed"]), np.zeros(0, np.int64)
    best, value = {}, -1.0
    every = max(1, math.ceil(steps / settings["evaluations"]))
    model.train()
    for step in range(steps):
        if len(order) < size:
            order = np.concatenate([order, generator.permutation(len(examples))])
        some, order = order[:size], order[size:]
        loss = model(**side.moved([examples[number] for number in some])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = (step + 1) / max(1, warm) if step < warm else (steps - step) / max(1, steps - warm)
        for group in optimiser.param_groups:
            group["lr"] = settings["lr"] * min(1.0, rate) * group["share"]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % every == 0 or step + 1 == steps:
            found = side.score(side.say(model, held_out), held_out)
            if found > value:
                best, value = {name: weight.clone() for name, weight in model.state_dict().items()}, found
            model.train()
    return best


def _layered(model: Any, settings: Task) -> torch.optim.Optimizer:
    """AdamW with a rate for each layer, as ours has it."""
    n_layers, groups = model.config.num_hidden_layers, []
    for name, weight in model.named_parameters():
        found = _LAYER.search(f".{name}")
        height = int(found[1]) + 1 if found else 0 if "embedding" in name else n_layers + 1
        decay = settings["weight_decay"] if weight.ndim > 1 and height else 0.0
        share = settings["layer_decay"] ** (n_layers + 1 - height)
        groups.append({"params": [weight], "share": share, "weight_decay": decay})
    return torch.optim.AdamW(groups, lr=settings["lr"], **_ADAM)


class _Side:
    """One kind of head: its class, its batches, what it says."""

    kind = ""

    def __init__(self, name: str, records: list[Record], tokenizer: Any, max_len: int, device: str) -> None:
        self.name, self.device = name, torch.device(device)
        self.records, self.tokenizer, self.max_len = records, tokenizer, max_len

    @property
    def config(self) -> Found:
        """What the class is told."""
        return {}

    def examples(self, records: list[Record]) -> list[Found]:
        """Token ids and targets."""
        raise NotImplementedError

    def batch(self, some: list[Found]) -> Found:
        """Padded to the longest."""
        found = self.tokenizer.pad([{"input_ids": one["input_ids"]} for one in some], return_tensors="pt", padding=True)
        return {name: found[name] for name in ("input_ids", "attention_mask")}

    def moved(self, some: list[Found]) -> Found:
        """The batch on the device."""
        return {name: values.to(self.device) for name, values in self.batch(some).items()}

    def say(self, model: Any, records: list[Record]) -> list[Any]:
        """What is said of each record."""
        raise NotImplementedError

    def score(self, said: list[Any], records: list[Record]) -> float:
        """The first figure."""
        return sum(a == b["label"] for a, b in zip(said, records, strict=True)) / max(1, len(said))

    def _outputs(self, model: Any, examples: list[Found]) -> Iterator[tuple[int, Any]]:
        """Number of each example and its outputs; those of about one length together."""
        model.eval()
        order = sorted(range(len(examples)), key=lambda number: len(examples[number]["input_ids"]))
        with torch.inference_mode():
            for first in range(0, len(order), _PREDICT_AT_ONCE):
                numbers = order[first : first + _PREDICT_AT_ONCE]
                given = self.moved([{"input_ids": examples[number]["input_ids"]} for number in numbers])
                found = {name: values.cpu() for name, values in model(**given).items()}
                yield from ((number, (found, place)) for place, number in enumerate(numbers))


class _Sequences(_Side):
    """Texts and pairs."""

    kind = "SequenceClassification"

    @property
    def labels(self) -> list[str]:
        """In their order."""
        return sorted({one["label"] for one in self.records})

    @property
    def config(self) -> Found:
        return {"num_labels": len(self.labels), "problem_type": "single_label_classification"}

    def examples(self, records: list[Record]) -> list[Found]:
        place = {name: number for number, name in enumerate(self.labels)}
        sides = zip(*(texts_of(one) for one in records), strict=True)
        found = self.tokenizer(*map(list, sides), truncation=True, max_length=self.max_len)
        return [
            {"input_ids": ids, "target": place.get(one.get("label"), 0)}
            for ids, one in zip(found["input_ids"], records, strict=True)
        ]

    def batch(self, some: list[Found]) -> Found:
        more = {"labels": torch.tensor([one["target"] for one in some])} if "target" in some[0] else {}
        return super().batch(some) | more

    def say(self, model: Any, records: list[Record]) -> list[Any]:
        said: list[Any] = [None] * len(records)
        for number, (found, place) in self._outputs(model, self.examples(records)):
            said[number] = self.labels[int(found["logits"][place].argmax())]
        return said


class _Tokens(_Side):
    """Tags of words, on their first pieces."""

    kind = "TokenClassification"

    @property
    def tags(self) -> tuple[str, ...]:
        """In their order."""
        return tag_vocabulary(tag for one in self.records for tag in one["tags"])

    @property
    def config(self) -> Found:
        return {"num_labels": len(self.tags)}

    def examples(self, records: list[Record]) -> list[Found]:
        place = {tag: number for number, tag in enumerate(self.tags)}
        found = self.tokenizer(
            [one["text"] for one in records], truncation=True, max_length=self.max_len, return_offsets_mapping=True
        )
        examples = []
        for number, record in enumerate(records):
            ids, offsets = found["input_ids"][number], found["offset_mapping"][number]
            targets, firsts, words, word = [-100] * len(ids), [], words_of(record["text"]), 0
            for position, (begin, end) in enumerate(offsets):
                if begin == end:
                    continue
                while word < len(words) and words[word][1] <= begin:
                    word += 1
                if word < len(words) and words[word][0] < end and word == len(firsts):
                    firsts.append(position)
                    targets[position] = place.get(record["tags"][word], 0)
            examples.append({"input_ids": ids, "target": targets, "firsts": firsts})
        return examples

    def batch(self, some: list[Found]) -> Found:
        found = super().batch(some)
        if "target" not in some[0]:
            return found
        labels = torch.full(found["input_ids"].shape, -100)
        for row, one in enumerate(some):
            labels[row, : len(one["target"])] = torch.tensor(one["target"])
        return found | {"labels": labels}

    def say(self, model: Any, records: list[Record]) -> list[Any]:
        examples, said = self.examples(records), list[Any]([None] * len(records))
        for number, (found, place) in self._outputs(model, examples):
            firsts = examples[number]["firsts"]
            known = torch.log_softmax(found["logits"][place, firsts], -1).numpy()
            tags = best_tags(known, self.tags)
            said[number] = tags + ["O"] * (len(records[number]["tags"]) - len(tags))
        return said

    def score(self, said: list[Any], records: list[Record]) -> float:
        right = given = there = 0
        for tags, record in zip(said, records, strict=True):
            one, other = {*chunks_of(tags)}, {*chunks_of(record["tags"])}
            right, given, there = right + len(one & other), given + len(one), there + len(other)
        return 2 * right / max(1, given + there)


class _Spans(_Side):
    """Answers out of passages, in windows that overlap, as the script run_qa of transformers does."""

    kind = "QuestionAnswering"

    def _windows(self, records: list[Record]) -> Any:
        questions = self.tokenizer([one["text_b"] for one in records], truncation=True, max_length=_QUESTION + 2)
        longest = max(map(len, questions["input_ids"]), default=2)
        stride = min(128, (self.max_len - longest - 1) // 2)
        return self.tokenizer(
            [one["text_b"] for one in records], [one["text"] for one in records], truncation="only_second", stride=stride,
            max_length=self.max_len, return_overflowing_tokens=True, return_offsets_mapping=True,
        )  # fmt: skip

    def examples(self, records: list[Record]) -> list[Found]:
        found, examples = self._windows(records), []
        for window, ids in enumerate(found["input_ids"]):
            number = found["overflow_to_sample_mapping"][window]
            offsets, parts = found["offset_mapping"][window], found.sequence_ids(window)
            places = [position for position, part in enumerate(parts) if part == 1]
            target = (0, 0)
            if spans := records[number]["spans"]:
                begin, end = spans[0]["start"], spans[0]["end"]
                if places and offsets[places[0]][0] <= begin and offsets[places[-1]][1] >= end:
                    first = max(position for position in places if offsets[position][0] <= begin)
                    last = min(position for position in places if offsets[position][1] >= end)
                    target = (first, last)
            examples.append(
                {"input_ids": ids, "target": target, "record": number, "offsets": offsets, "places": places}
            )
        return examples

    def batch(self, some: list[Found]) -> Found:
        found = super().batch(some)
        if "target" not in some[0]:
            return found
        begins, ends = (torch.tensor([one["target"][side] for one in some]) for side in (0, 1))
        return found | {"start_positions": begins, "end_positions": ends}

    def say(self, model: Any, records: list[Record]) -> list[Any]:
        examples = self.examples(records)
        best: list[tuple[float, str]] = [(-math.inf, "")] * len(records)
        for window, (found, place) in self._outputs(model, examples):
            one = examples[window]
            begins, ends = (scores[place].numpy() for scores in (found["start_logits"], found["end_logits"]))
            inside = np.array(one["places"])
            firsts, lasts = (inside[np.argsort(-scores[inside])[:_BEST]] for scores in (begins, ends))
            for first in firsts:
                for last in lasts:
                    score = float(begins[first] + ends[last])
                    if first <= last < first + _ANSWER and score > best[one["record"]][0]:
                        text = records[one["record"]]["text"]
                        best[one["record"]] = (score, text[one["offsets"][first][0] : one["offsets"][last][1]])
        return [answer for _, answer in best]

    def score(self, said: list[Any], records: list[Record]) -> float:
        from wordpipe.metrics import answer_f1

        references = [[one["text"][span["start"] : span["end"]] for span in one["spans"]] for one in records]
        return float(np.mean(answer_f1(said, references)))
