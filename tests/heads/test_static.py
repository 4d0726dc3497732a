"""Static heads: steps equal plain torch, NumPy says what torch says, rows that no text has stay; units and damaged files."""

import json

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.heads import (
    ExampleWriter,
    HeadObjective,
    RowEncoder,
    StaticClassifier,
    StaticHead,
    StaticHeadConfig,
    StaticModel,
    StaticTagger,
    UnitCounts,
    UnitRows,
    bags_of,
    extended,
    open_examples,
    read_static_config,
    read_static_head,
    static_head_files,
    static_model,
    static_trainer,
    text_units,
    word_units,
)
from wordpipe.heads.settings import ClassifierSettings
from wordpipe.model import HeadConfig
from wordpipe.runtime import StopFlag

WORDS = [f"w{number}" for number in range(30)]
LABELS = ("a", "b", "c")
DIM = 6
CASES = {
    "single": ("sequence", "single_label", False), "several": ("sequence", "multi_label", False),
    "score": ("sequence", "regression", False), "pairs": ("sequence", "single_label", True),
    "tags": ("token", "single_label", False),
}  # fmt: skip


class Case:
    """Random texts of some of the words, with targets, and everything to train on them."""

    def __init__(self, folder, name, n=24, seed=1, **settings):
        kind, problem, pairs = CASES[name]
        random = np.random.default_rng(seed)
        labels = ("score",) if problem == "regression" else LABELS
        self.config = StaticHeadConfig(kind, labels, problem, pairs, DIM)
        # some texts have no unit with a row, or only some: w25 and above have none
        self.texts = [
            tuple(" ".join(random.choice(WORDS, random.integers(1, 7))) for _ in range(2 if pairs else 1))
            for _ in range(n)
        ]
        counts = UnitCounts()
        for texts in self.texts:
            counts.add(bags_of(texts, str.split, words=kind == "token")[0])
        known = UnitRows(WORDS[:10])
        new, _ = counts.new_units(known, least=2, most=20)
        self.units = extended(known, [unit for unit in new if unit not in WORDS[25:]])
        self.table = random.normal(size=(len(self.units), DIM)).astype(np.float32)
        encoder = RowEncoder(self.units, str.split, None)
        encoded = encoder.encode(self.texts, words=kind == "token")
        self.width = {"multi_label": 3}.get(problem, 1) if kind == "sequence" else 0
        self.targets = [
            random.integers(0, 3, len(one.firsts)).tolist() if kind == "token"
            else random.integers(0, 2, 3).tolist() if problem == "multi_label"
            else [float(random.normal())] if problem == "regression" else [int(random.integers(0, 3))] for one in encoded
        ]  # fmt: skip
        writer = ExampleWriter(folder / "ids", self.width)
        for one, target in zip(encoded, self.targets, strict=True):
            writer.add(one, target)
        writer.close()
        self.examples, self.used = open_examples(folder / "ids", self.width), encoder.used
        chosen = {"epochs": 2, "lr": 0.05, "batch_size": 8, "dropout": 0.0, "threads": 1, "layer_decay": 0.5}
        self.settings = ClassifierSettings.make({"init": "x"} | chosen | settings)
        self.head = HeadConfig(kind, labels, problem, dropout=self.settings.dropout)
        self.model = StaticModel(self.config, self.head, seed=3)
        self.trainer = static_trainer(
            self.settings, self.model, self.table, self.used, HeadObjective(kind == "token"), self.examples, self.examples,
            figures=lambda found, wanted: {"value": -float(np.mean([np.abs(one).sum() for one in found]))}, seed=1,
            state_dir=folder / "state", run_key="key",
        )  # fmt: skip

    def numpy_head(self):
        weights = {name: weight.detach().numpy() for name, weight in self.model.named_parameters()}
        return StaticHead(self.config, self.units, self.trainer.learner.learner.table(self.table), weights, str.split)


class Twin(torch.nn.Module):
    """The same in plain torch: a table, loops over texts and words."""

    def __init__(self, case):
        super().__init__()
        self.case, self.config = case, case.config
        self.table = torch.nn.Parameter(torch.from_numpy(case.table.copy()))
        self.head = torch.nn.ParameterDict(
            {name.replace(".", "_"): torch.nn.Parameter(weight.detach().clone())
             for name, weight in case.model.named_parameters()}
        )  # fmt: skip
        self.row_of = {unit: row for row, unit in enumerate(case.units.units)}

    def vector(self, units):
        rows = [self.row_of[unit] for unit in units if unit in self.row_of]
        return self.table[rows].sum(0) / max(1, len(rows)) ** 0.5

    def loss(self, numbers):
        """The mean loss of some of the texts."""
        scores, wanted = [], []
        for number in numbers:
            texts, target = self.case.texts[number], self.case.targets[number]
            if self.config.kind == "token":
                words = [self.vector(word_units(word, str.split)) for word in texts[0].split()]
                padded = [torch.zeros(DIM)] * 2 + words + [torch.zeros(DIM)] * 2
                for place, tag in enumerate(target):
                    wide = self.head["hidden_weight"] @ torch.cat(padded[place : place + 5]) + self.head["hidden_bias"]
                    scores.append(self.read(torch.tanh(wide)))
                    wanted.append(tag)
                continue
            parts = [self.vector(text_units(text.split())) for text in texts]
            if self.config.pairs:
                u, v = parts
                parts = [torch.cat([u, v, (u - v).abs(), u * v])]
            scores.append(self.read(parts[0]))
            wanted.append(target)
        logits = torch.stack(scores)
        if self.config.problem == "regression":
            return F.mse_loss(logits, torch.tensor(wanted))
        if self.config.problem == "multi_label":
            return F.binary_cross_entropy_with_logits(logits, torch.tensor(wanted, dtype=torch.float32))
        return F.cross_entropy(logits, torch.tensor(wanted).flatten())

    def read(self, features):
        return self.head["classifier_weight"] @ features + self.head["classifier_bias"]


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_equal_plain_torch(tmp_path, name):
    case = Case(tmp_path, name)
    learner, twin = case.trainer.learner.learner, Twin(case)
    numbers = case.examples.order(0, batch_size=8, seed=1)
    found = learner.gradients(0)
    loss = twin.loss(numbers)
    loss.backward()
    assert float(found.loss / found.n_targets) == pytest.approx(float(loss.detach()), rel=1e-4)
    for name, mine in case.model.named_parameters():
        assert torch.allclose(mine.grad / found.n_targets, twin.head[name.replace(".", "_")].grad, atol=1e-5)
    # a row's gradient is that of each bag that has it, once for each time
    ids, lengths = learner._bags
    by_row = np.zeros_like(learner.rows)
    np.add.at(by_row, ids, np.repeat(learner._gradient_ND, lengths, axis=0))
    assert np.allclose(by_row, twin.table.grad.numpy()[case.used], atol=1e-5)


@pytest.mark.parametrize("name", ["single", "pairs", "tags"])
def test_three_steps_equal_sparse_adam_of_torch(tmp_path, name):
    case = Case(tmp_path, name, weight_decay=0.0)
    twin = Twin(case)
    head = torch.optim.AdamW(twin.head.values(), weight_decay=0.0)
    rows = torch.optim.SparseAdam([twin.table])
    for step in range(3):
        numbers = case.examples.order(step, batch_size=8, seed=1)
        loss = twin.loss(numbers)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.head.values(), 1.0)
        touched = twin.table.grad.abs().sum(1).nonzero().flatten()
        twin.table.grad = torch.sparse_coo_tensor(
            touched[None], twin.table.grad[touched], twin.table.shape, check_invariants=True
        )
        lr = case.trainer.plan.lr_at(step)
        for optimiser, share in ((head, 1.0), (rows, 0.5)):
            optimiser.param_groups[0]["lr"] = lr * share
            optimiser.step()
            optimiser.zero_grad()
    list(case.trainer.steps(StopFlag(), until=3))
    for name, mine in case.model.named_parameters():
        assert torch.allclose(mine, twin.head[name.replace(".", "_")], atol=1e-4)
    assert np.allclose(case.trainer.learner.learner.rows, twin.table.detach().numpy()[case.used], atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_numpy_says_what_torch_says(tmp_path, name):
    case = Case(tmp_path, name)
    list(case.trainer.steps(StopFlag()))
    scores, wanted, _ = case.trainer.learner.measured()
    bags = [bags_of(texts, str.split, words=case.config.kind == "token")[0] for texts in case.texts]
    found = case.numpy_head().scores(bags)
    for one, other, target, true in zip(found, scores, case.targets, wanted, strict=True):
        assert np.allclose(one, other, atol=1e-5)
        assert np.allclose(np.ravel(true), target)


def test_rows_that_no_text_has_and_frozen_ones_stay(tmp_path):
    case = Case(tmp_path / "one", "single")
    assert case.used.sum() > 0
    case.used[0] = True  # a row that only a held-out text would have
    list(case.trainer.steps(StopFlag()))
    moved = (case.trainer.learner.learner.table(case.table) != case.table).any(1)
    assert not moved[~case.used].any()
    assert moved[case.used].mean() > 0.9
    frozen = Case(tmp_path / "two", "single", freeze=1)
    list(frozen.trainer.steps(StopFlag()))
    assert np.array_equal(frozen.trainer.learner.learner.table(frozen.table), frozen.table)
    with pytest.raises(ConfigError, match="only one layer to freeze"):
        Case(tmp_path / "three", "single", freeze=2)


@pytest.mark.parametrize("name", ["single", "tags"])
@pytest.mark.parametrize("until", [1, 4])
def test_a_stopped_training_ends_with_the_same_rows(tmp_path, name, until):
    settings = {"dropout": 0.2, "checkpoint_steps": 1}
    whole = Case(tmp_path / "whole", name, **settings)
    list(whole.trainer.steps(StopFlag()))
    first = Case(tmp_path / "parts", name, **settings)
    list(first.trainer.steps(StopFlag(), until=until))
    again = Case(tmp_path / "parts", name, **settings)
    assert again.trainer.resumed_from == until
    list(again.trainer.steps(StopFlag()))
    for case in (whole, again):
        case.trainer.learner.take_best()
    assert np.array_equal(whole.trainer.learner.learner.rows, again.trainer.learner.learner.rows)
    assert all(
        torch.equal(one, other) for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True)
    )


@given(
    st.lists(st.text("abc ", min_size=1, max_size=3), unique=True, max_size=20), st.lists(st.text("abc ", max_size=3))
)
def test_rows_are_those_of_a_dictionary(units, wanted):
    rows, slow = UnitRows(units), {unit: row for row, unit in enumerate(units)}
    expected = [slow.get(unit, -1) for unit in wanted]
    assert rows.rows_of(wanted).tolist() == expected  # the first time without a table of hashes
    assert rows.rows_of(wanted).tolist() == expected


def test_units_of_words_and_texts():
    assert text_units([]) == []
    assert text_units(["one"]) == ["one"]
    lower = str.lower
    assert word_units("McDonald's", lambda text: lower(text).split("'")) == [
        "mcdonald", "shape XxXx-x", "prefix mcd", "suffix d's",
    ]  # fmt: skip
    assert word_units("--", lambda text: [])[0] == "--"
    assert bags_of(("a b c d",), str.split, words=False, most=2) == ([["a", "b", "a b"]], 2)
    bags, cut = bags_of(("a b c d",), str.split, words=True, most=3)
    assert (len(bags), cut) == (3, 1)


def test_new_units_are_the_most_frequent_ones():
    counts = UnitCounts()
    for text in ("b a", "b c", "b a"):
        counts.add([text_units(text.split())])
    found, more = counts.new_units(UnitRows(["c"]), least=1, most=3)
    assert (found, more) == (["b", "a", "b a"], 1)
    assert counts.new_units(UnitRows(["c"]), least=2, most=9)[0] == ["b", "a", "b a"]


def test_too_many_different_units_lose_those_of_one_occurrence(monkeypatch):
    monkeypatch.setattr(static_model, "_MOST_COUNTED", 4)
    counts = UnitCounts()
    counts.add([["a", "a", "b", "c", "d", "e"]])
    assert (counts.counts, counts.dropped) == ({"a": 2}, 4)
    assert counts.new_units(UnitRows(["x"]), least=1, most=9) == (["a"], 4)


def test_texts_without_known_words_get_the_offsets(tmp_path):
    case = Case(tmp_path, "single")
    with torch.no_grad():
        case.model.classifier.bias.copy_(torch.tensor([0.0, 2.0, 0.0]))
    found = list(StaticClassifier(case.numpy_head()).predict(iter([("zzz",), ("",), ("w1",)])))
    assert found[0] == found[1]
    assert found[0].labels == ("b",)
    tagger = StaticTagger(Case(tmp_path / "tags", "tags").numpy_head())
    assert [len(one.tags) for one in tagger.predict(iter([("",), ("zzz",), ("a b",)]))] == [0, 1, 2]


def stored(case):
    head = case.numpy_head()
    return dict(static_head_files(case.config, head.vectors, head.weights, {"unit": "word"}))


@pytest.mark.parametrize("name", CASES)
def test_a_folder_says_the_same_when_it_is_read(tmp_path, name):
    case = Case(tmp_path, name)
    files = stored(case)
    config, about = read_static_config(files["config.json"])
    assert (config, about) == (case.config, {"unit": "word"})
    head = read_static_head(config, case.units, files["model.safetensors"], str.split)
    bags = [bags_of(texts, str.split, words=config.kind == "token")[0] for texts in case.texts]
    for one, other in zip(head.scores(bags), case.numpy_head().scores(bags), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("change", [
    {"id2label": {"0": "a", "2": "b"}}, {"id2label": {}}, {"architectures": []}, {"architectures": ["Bert"]},
    {"hidden_size": -1}, {"hidden_size": "x"}, {"problem_type": "odd"}, {"pairs": 1}, {"words": None},
    {"id2label": {"0": 5}},
])  # fmt: skip
def test_a_config_that_is_malformed_is_named(tmp_path, change):
    values = json.loads(stored(Case(tmp_path, "single"))["config.json"]) | change
    with pytest.raises(ArtifactError, match="config"):
        read_static_config(json.dumps(values).encode())


@pytest.mark.parametrize("damage", ["short table", "not finite", "no bias", "bytes"])
def test_weights_that_do_not_fit_are_named(tmp_path, damage):
    case = Case(tmp_path, "single")
    weights = safetensors.numpy.load(stored(case)["model.safetensors"])
    if damage == "short table":
        weights["embedding.weight"] = weights["embedding.weight"][:-1].copy()
    elif damage == "not finite":
        weights["classifier.weight"][0, 0] = np.nan
    else:
        del weights["classifier.bias"]
    data = b"12345678" if damage == "bytes" else safetensors.numpy.save(weights)
    with pytest.raises(ArtifactError):
        read_static_head(case.config, case.units, data, str.split)
