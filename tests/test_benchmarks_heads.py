"""The benchmark of heads: both sides learn the same texts with the same settings, and the figures are what they say."""

import json
from importlib import import_module

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.conftest import BENCHMARKS
from tests.support.models import small_config
from wordpipe.heads import layered_optimiser
from wordpipe.model import HeadConfig, new_model, save_hf, start_headed

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
assert BENCHMARKS.is_dir()
WORDS = [f"w{number}" for number in range(60)]
SETTINGS = {
    "epochs": 4, "lr": 5e-3, "batch_size": 8, "held_out": 0.2, "layer_decay": 0.8, "warmup": 0.1, "weight_decay": 0.01,
    "dropout": 0.0, "evaluations": 4, "seed": 1, "device": "cpu",
}  # fmt: skip


def side(name):
    return import_module(f"peers.head_{name}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small encoder with its tokenizer, as transformers loads it."""
    path = tmp_path_factory.mktemp("encoder")
    config = small_config("encoder")
    save_hf(new_model(config, 1), config, lambda name, data: (path / name).write_bytes(data))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path / "tokenizer.json"))
    names = {
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))
    return path


def records(kind, n, seed):
    """Texts of which the first word says what is right; an answer is always w2."""
    random, found = np.random.default_rng(seed), []
    for number in range(n):
        words = [WORDS[place] for place in random.integers(20, 60, 8)]
        label = int(random.integers(2))
        words[0] = WORDS[label]
        one = {"id": f"{seed}-{number}", "text": " ".join(words)}
        if kind == "classifier":
            one["label"] = "ab"[label]
        elif kind == "tagger":
            one["tags"] = ["B-x" if label else "O", *["O"] * 7]
        else:
            place = int(random.integers(8))
            words[place] = WORDS[2]
            at = sum(len(word) + 1 for word in words[:place])
            one |= {"text": " ".join(words), "text_b": WORDS[5]}
            one["spans"] = [{"start": at, "end": at + len(WORDS[2]), "label": None}]
        found.append(one)
    return found


def task_of(kind, folder, tmp_path):
    for part, n, seed in (("train", 120, 1), ("test", 30, 2)):
        side("data").write_records(records(kind, n, seed), tmp_path / f"{part}.jsonl")
    name = {"classifier": "sst", "tagger": "wnut", "reader": "xquad"}[kind]
    return {
        "set": name, "command": kind, "settings": SETTINGS, "model": str(folder), "threads": 1, "max_len": 24,
        "train": str(tmp_path / "train.jsonl"), "test": str(tmp_path / "test.jsonl"), "dropouts": ["classifier_dropout"],
    }  # fmt: skip


@pytest.mark.landing
@pytest.mark.parametrize("kind", ["classifier", "tagger", "reader"])
def test_both_sides_learn_what_a_word_says(kind, folder, tmp_path, cli):
    task = task_of(kind, folder, tmp_path)
    fields = side("data").FIELDS[task["set"]]
    assert cli("ingest", task["train"], "-o", tmp_path / "corpus", "--valid", 0, *fields).code == 0
    ours = side("sides").train_ours(
        task | {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "head"),
                "settings": SETTINGS | {"init": str(folder), "threads": 1}}
    )  # fmt: skip
    theirs = side("sides").train_theirs(task)
    heads, test = import_module("heads"), side("data").read_records(tmp_path / "test.jsonl")
    for found in (ours, theirs):
        assert len(found["said"]) == len(test) == 30
        assert found["seconds"] > 0
        rows = heads.statistics_of(task["set"], found["said"], test)
        assert heads.score_of(task["set"], rows) > 0.8
    apart = heads.compared(task["set"], {"ours": [ours], "theirs": [theirs]}, test)
    low, high = apart["difference"]["interval"]
    assert low <= apart["difference"]["mean"] <= high


@pytest.mark.landing
def test_layers_have_the_same_rates_on_both_sides(folder):
    import transformers

    model = start_headed(new_model(small_config("encoder"), 1), HeadConfig("sequence", ("a", "b")), 1)
    ours = layered_optimiser(model, lr=1e-3, layer_decay=0.8, weight_decay=0.01, freeze=0)
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    theirs = side("sides")._layered(peer, SETTINGS | {"lr": 1e-3})

    def sizes(optimiser):
        found = {}
        for group in optimiser.param_groups:
            key = round(group["share"], 9), group["weight_decay"]
            found[key] = found.get(key, 0) + sum(one.numel() for one in group["params"])
        return found

    assert sizes(ours) == sizes(theirs)


def test_a_part_of_the_texts_is_drawn_by_its_seed():
    some_of, given = side("data").some_of, records("classifier", 50, 3)
    drawn = [some_of(given, 10, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {one["id"] for one in some_of(given, 99, 1)} == {one["id"] for one in given}
    assert some_of(given, 10, 1) == some_of(given[::-1], 10, 1)


def test_the_floors_learn_from_the_same_files(tmp_path):
    texts = [
        {"id": str(i), "text": f"{w} it is", "label": label}
        for i, (w, label) in enumerate([("red", "a"), ("blue", "b")] * 5)
    ]
    side("data").write_records(texts, tmp_path / "train.jsonl")
    files = {part: str(tmp_path / "train.jsonl") for part in ("train", "test")}
    assert side("sides").bags(files)["said"] == ["a", "b"] * 5
    tagged = [{"id": "0", "text": "in New York now", "tags": ["O", "B-x", "I-x", "O"]}]
    side("data").write_records(tagged, tmp_path / "train.jsonl")
    assert side("sides").gazetteer(files)["said"] == [["O", "B-x", "I-x", "O"]]


def test_sets_are_parted_by_their_files_and_by_hashes(tmp_path):
    labelled = tmp_path / "labelled"
    for name in ("sst", "trec", "wnut17"):
        (labelled / name).mkdir(parents=True)
    for part in ("train", "dev"):
        (labelled / "sst" / f"{part}.tsv").write_text(f"label\ttext\n1\tgood {part}\n0\tbad {part}\n")
    (labelled / "trec" / "train.txt").write_text("".join(f"HUM:ind Who is {i} \xe9?\n" for i in range(40)), "latin-1")
    (labelled / "wnut17" / "wnut17train.conll").write_text("See\tO\nRome\tB-location\n\nNo\tO\n")
    (labelled / "wnut17" / "emerging.dev.conll").write_text("\nHi\tO\n\n")
    counts = {name: side("data").write_set(name, tmp_path, tmp_path) for name in ("sst", "trec", "wnut")}
    assert counts["sst"] == {"train": 2, "test": 2}
    assert counts["wnut"] == {"train": 2, "test": 1}
    assert sum(counts["trec"].values()) == 40
    assert counts["trec"]["test"] > 0
    read = side("data").read_records
    assert read(tmp_path / "wnut-train.jsonl")[0] == {"id": "train-0", "text": "See Rome", "tags": ["O", "B-location"]}
    assert {one["label"] for one in read(tmp_path / "trec-test.jsonl")} == {"HUM"}
    assert all(side("data").is_measured(one["text"]) for one in read(tmp_path / "trec-test.jsonl"))


def test_what_is_not_as_it_should_be_is_said():
    good = {"difference": {"mean": 0.0, "interval": [-0.01, 0.01]}}
    worse = {"difference": {"mean": -0.02, "interval": [-0.03, -0.01]}}
    gain = {
        "sst-all": {"fresh": {"mean": 0.7}, "pretrained": {"mean": 0.75}, "bags": {"mean": 0.8}, "words": {"mean": 0.8}}
    }
    faults = import_module("heads").faults
    assert list(faults({"heads": {"sst": good}})) == []
    assert [one.split(":")[0] for one in faults({"heads": {"trec": worse}})] == ["trec"]
    slow = {"sst": {"times_as_fast": 2.5}, "trec": {"times_as_fast": 1.5}, "threads": 2}
    assert list(faults({"speed": slow})) == ["trec: 1.5 times as fast, less than 2"]
    assert list(faults({"gain": gain})) == ["sst-all: not ahead of TF-IDF"]
