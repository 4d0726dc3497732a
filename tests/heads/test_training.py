"""Losses equal those of transformers; layers keep their rates, frozen ones their weights; the best weights are kept."""

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from tests.support.models import small_config
from tests.support.variants import some_of
from wordpipe.errors import ConfigError
from wordpipe.heads import (
    IGNORED,
    Encoded,
    ExampleWriter,
    HeadObjective,
    SeenRows,
    TextEncoder,
    head_loss_sum,
    head_trainer,
    layered_optimiser,
    open_examples,
)
from wordpipe.heads.settings import ClassifierSettings
from wordpipe.model import HeadConfig, headed_class, new_model, save_headed, start_headed
from wordpipe.runtime import StopFlag
from wordpipe.training import make_execution

NONE = np.zeros(0, np.int32)
CPU = torch.device("cpu")


def examples(folder, targets, width, seed=1, tokens=False):
    """Random texts with these targets."""
    random, writer = np.random.default_rng(seed), ExampleWriter(folder, width)
    for target in targets:
        length = int(random.integers(4, 12))
        ids = random.integers(7, 96, length).astype(np.int32)
        firsts = np.arange(1, 1 + len(target), dtype=np.int32) if tokens else NONE
        writer.add(Encoded(ids, length, 0, firsts), target)
    writer.close()
    return open_examples(folder, width)


def peer_of(model, folder):
    import transformers

    folder.mkdir()
    save_headed(model, lambda name, data: (folder / name).write_bytes(data))
    name = headed_class(model.language_config, model.head_config.kind)
    return getattr(transformers, name).from_pretrained(folder).eval()


def padded(rows):
    """The texts of some rows in one matrix, and where they are real."""
    starts, T = np.cumsum(rows.lengths) - rows.lengths, int(rows.lengths.max())
    ids = np.zeros((len(starts), T), np.int64)
    for row, (start, length) in enumerate(zip(starts, rows.lengths, strict=True)):
        ids[row, :length] = rows.ids[start : start + length]
    return torch.from_numpy(ids), torch.arange(T) < torch.from_numpy(rows.lengths)[:, None]


@pytest.mark.landing
@pytest.mark.parametrize("style", ["modern", "classic"])
@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_losses_of_texts_equal_transformers(tmp_path, style, problem):
    random, labels = np.random.default_rng(2), ("score",) if problem == "regression" else ("a", "b", "c")
    targets = {
        "single_label": random.integers(0, 3, (9, 1)), "multi_label": random.integers(0, 2, (9, 3)),
        "regression": random.normal(size=(9, 1)),
    }[problem].astype(np.float32)  # fmt: skip
    model = start_headed(
        new_model(small_config("encoder", style), 1), HeadConfig("sequence", labels, problem), 1
    ).eval()
    given = examples(tmp_path / "ids", targets, targets.shape[1])
    batch = HeadObjective(False).targets(given.rows(np.arange(9)), torch.Generator(), 0.0)
    ids, mask = padded(batch.given)
    wanted = torch.from_numpy(targets)
    wanted = wanted[:, 0].long() if problem == "single_label" else wanted
    theirs = peer_of(model, tmp_path / "peer")(input_ids=ids, attention_mask=mask.long(), labels=wanted).loss
    ours = head_loss_sum(model, batch) / batch.n_targets
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    parts = sum(head_loss_sum(model, batch.rows(first, min(9, first + 4))) for first in (0, 4, 8))
    assert float(parts.detach() / batch.n_targets) == pytest.approx(float(theirs.detach()), rel=1e-5)


@pytest.mark.landing
def test_losses_of_tags_equal_transformers(tmp_path):
    random = np.random.default_rng(3)
    targets = [random.integers(0, 3, random.integers(1, 4)).tolist() for _ in range(7)]
    model = start_headed(new_model(small_config("encoder"), 1), HeadConfig("token", ("O", "B", "I")), 1).eval()
    given = examples(tmp_path / "ids", targets, 0, tokens=True)
    batch = HeadObjective(True).targets(given.rows(np.arange(7)), torch.Generator(), 0.0)
    ids, mask = padded(batch.given)
    labels = torch.full(ids.shape, IGNORED)
    for row, target in enumerate(targets):
        labels[row, 1 : 1 + len(target)] = torch.tensor(target)
    theirs = peer_of(model, tmp_path / "peer")(input_ids=ids, attention_mask=mask.long(), labels=labels).loss
    assert float(batch.n_targets) == sum(map(len, targets))
    ours = head_loss_sum(model, batch) / batch.n_targets
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)


@pytest.mark.landing
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_losses_and_scores_of_answers_equal_transformers(tmp_path, style):
    """Text by text: where a batch is padded, transformers counts the padding among the places of an answer."""
    random = np.random.default_rng(7)
    model = start_headed(new_model(small_config("encoder", style), 1), HeadConfig("span"), 1).eval()
    given = examples(tmp_path / "ids", [random.integers(0, 4, 2).tolist() for _ in range(9)], 2)
    peer = peer_of(model, tmp_path / "peer")
    batch = HeadObjective(False).targets(given.rows(np.arange(9)), torch.Generator(), 0.0)
    total = 0.0
    for number in range(9):
        rows = given.rows(np.array([number]))
        ids, wanted = torch.from_numpy(rows.ids).long()[None], torch.from_numpy(rows.targets).long()
        with torch.inference_mode():
            theirs = peer(input_ids=ids, start_positions=wanted[:, 0], end_positions=wanted[:, 1])
            ours = model.scores(ids)[0]
        assert torch.allclose(ours, torch.stack([theirs.start_logits[0], theirs.end_logits[0]], 1), atol=1e-5)
        total += float(theirs.loss)
    ours = head_loss_sum(model, batch)
    assert float(batch.n_targets) == 9
    assert float(ours.detach()) == pytest.approx(total, rel=1e-5)
    parts = sum(head_loss_sum(model, batch.rows(first, min(9, first + 4))) for first in (0, 4, 8))
    assert float(parts.detach()) == pytest.approx(total, rel=1e-5)


def test_weights_of_labels_are_those_of_torch(tmp_path):
    weights = torch.tensor([0.5, 2.0, 1.0])
    targets = np.random.default_rng(4).integers(0, 3, (8, 1)).astype(np.float32)
    model = start_headed(new_model(small_config("encoder"), 1), HeadConfig("sequence", ("a", "b", "c")), 1).eval()
    given = examples(tmp_path / "ids", targets, 1)
    batch = HeadObjective(False, weights).targets(given.rows(np.arange(8)), torch.Generator(), 0.0)
    ids, mask = padded(batch.given)
    with torch.no_grad():
        wanted = torch.nn.functional.cross_entropy(
            model.scores(ids, mask), torch.from_numpy(targets[:, 0]).long(), weight=weights
        )
        assert float(head_loss_sum(model, batch) / batch.n_targets) == pytest.approx(float(wanted), rel=1e-5)


def trainer_of(folder, *, architecture="encoder", style="modern", n=40, seen=None, **settings):
    """A training on texts whose label is whether they begin with a small id."""
    random, chosen = np.random.default_rng(5), {"epochs": 3, "lr": 1e-2, "threads": 1, "batch_size": 8, "dropout": 0.0}
    writer = ExampleWriter(folder / "ids", 1)
    for _ in range(n):
        ids = random.integers(7, 96, 8).astype(np.int32)
        writer.add(Encoded(ids, 8, 0, NONE), [float(ids[0] < 50)])
    writer.close()
    given = open_examples(folder / "ids", 1)
    made = ClassifierSettings.make({"init": "x", "device": "cpu", "dtype": "float32"} | chosen | settings)
    base = new_model(small_config(architecture, style), 1)
    model = start_headed(base, HeadConfig("sequence", ("no", "yes"), dropout=made.dropout), 1, made.dropout)

    def figures(found, wanted):
        return {"accuracy": float(np.mean([row.argmax() == one[0] for row, one in zip(found, wanted, strict=True)]))}

    return head_trainer(
        made, model, HeadObjective(False), given, given, figures=figures, execution=make_execution(made), seed=1,
        state_dir=folder / "state", run_key="key", seen=None if seen is None else seen(model.embedding, (given, given)),
    )  # fmt: skip


def weights_of(trainer):
    return {name: weight.detach().clone() for name, weight in trainer.learner.model.named_parameters()}


@pytest.mark.parametrize(
    ("body", "freeze"),
    some_of([("encoder", "modern"), ("encoder", "classic"), ("decoder", "modern")], [0, 1, 3], together=1),
)
def test_frozen_layers_keep_their_weights(tmp_path, body, freeze):
    architecture, style = body
    trainer = trainer_of(tmp_path, architecture=architecture, style=style, freeze=freeze, epochs=1)
    before = weights_of(trainer)
    list(trainer.steps(StopFlag()))
    heights = {"embedding": 0, "blocks.0": 1, "blocks.1": 2, "blocks.2": 3}
    for name, weight in weights_of(trainer).items():
        height = next((number for start, number in heights.items() if name.startswith(start)), 4)
        if "position" in name or "segment" in name or name.startswith("embedding"):
            height = 0
        moved = not torch.equal(weight, before[name])
        assert moved == (height >= freeze) or name == "segment_embedding", name


def test_lower_layers_move_less_by_the_decay(tmp_path):
    trainer = trainer_of(tmp_path, layer_decay=0.5, epochs=0.2, weight_decay=0.0, warmup=1)
    before = weights_of(trainer)
    list(trainer.steps(StopFlag(), until=1))
    # AdamW's first step moves every weight that has a gradient by its rate
    moved = {name: float((weight - before[name]).abs().max()) for name, weight in weights_of(trainer).items()}
    rate = moved["classifier.weight"]
    for layer in range(3):
        assert moved[f"blocks.{layer}.feedforward.down.weight"] == pytest.approx(rate * 0.5 ** (3 - layer), rel=1e-3)
    assert moved["embedding"] == pytest.approx(rate * 0.5**4, rel=1e-3)


def test_more_layers_than_there_are_cannot_be_frozen():
    model = start_headed(new_model(small_config("encoder"), 1), HeadConfig("sequence", ("a", "b")), 1)
    with pytest.raises(ConfigError, match="larger than the number of layers"):
        layered_optimiser(model, lr=1e-3, layer_decay=0.9, weight_decay=0.0, freeze=5)


def test_it_learns_keeps_the_best_and_ends_early(tmp_path):
    trainer = trainer_of(tmp_path, epochs=40, patience=3, evaluations=40, lr=5e-3, layer_decay=1.0)
    reports = list(trainer.steps(StopFlag()))
    found = [report for report in reports if report.split == "valid"]
    assert trainer.learner.best == 1.0
    assert trainer.step < trainer.plan.steps
    assert len(found) == trainer.learner.best_step + 3
    trainer.learner.take_best()
    scores, wanted, _ = trainer.learner.measured()
    assert all(row.argmax() == one[0] for row, one in zip(scores, wanted, strict=True))


def test_a_training_with_the_rows_that_occur_is_the_training_with_all(tmp_path):
    seen = []

    def rows(table, examples):
        seen.append(SeenRows(table, examples))
        return seen[0]

    whole, some = trainer_of(tmp_path / "whole"), trainer_of(tmp_path / "some", seen=rows)
    n_rows, dim = some.learner.model.embedding.shape
    assert n_rows + seen[0].n_left_out // dim == len(whole.learner.model.embedding) > n_rows
    for trainer in (whole, some):
        list(trainer.steps(StopFlag()))
    made = dict(seen[0].whole(some.learner.model).named_parameters())
    for name, weight in whole.learner.model.named_parameters():
        torch.testing.assert_close(made[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.landing
@pytest.mark.parametrize("until", [3, 7])
def test_a_stopped_training_ends_with_the_same_weights(tmp_path, until):
    whole = trainer_of(tmp_path / "whole", dropout=0.2, checkpoint_steps=1)
    list(whole.steps(StopFlag()))
    first = trainer_of(tmp_path / "parts", dropout=0.2, checkpoint_steps=1)
    list(first.steps(StopFlag(), until=until))
    again = trainer_of(tmp_path / "parts", dropout=0.2, checkpoint_steps=1)
    assert again.resumed_from == until
    list(again.steps(StopFlag()))
    assert again.learner.best == whole.learner.best
    again.learner.take_best()
    whole.learner.take_best()
    one, other = weights_of(whole), weights_of(again)
    assert all(torch.equal(one[name], other[name]) for name in one)


def words_tokenizer():
    """Pieces of three characters, with a template of pairs."""
    vocabulary = {name: place for place, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    pieces = pre_tokenizers.Split(pattern=Regex(".{1,3}"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pieces])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def test_first_pieces_of_words_and_segments():
    encoder = TextEncoder(words_tokenizer(), 64)
    text = "na\u00efve e\u0301t\u00e9s \U0001f600 abcdefg"
    (found,) = encoder.encode([(text,)], words=True)
    assert len(found.firsts) == 4
    assert (np.diff(found.firsts) > 0).all()
    assert found.second == len(found.ids)
    (pair,) = encoder.encode([("one two", "three")])
    assert pair.ids[pair.second - 1] == 3
    assert pair.second < len(pair.ids)


def test_what_is_cut_is_counted():
    encoder = TextEncoder(words_tokenizer(), 6)
    short, long = encoder.encode([("a b",), (" ".join("abcdefgh"),)], words=True)
    assert (short.cut, long.cut) == (0, 4)
    assert len(long.ids) == 6
    assert (long.firsts >= 0).tolist() == [True] * 4 + [False] * 4
