"""What every recipe of the table does: its model learns a few sequences, a stopped training ends with the same bytes, and what
is saved is read back."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models

from tests.support.small_trainings import N_TOKENS, SMALL, SPECIAL, text, weights_hash
from wordpipe.model import load_hf, new_encoder_decoder, new_model, save_hf
from wordpipe.runtime import StopFlag
from wordpipe.stages import COMMANDS
from wordpipe.tokens import number_of_ids
from wordpipe.training import assemble, loss_sum, make_execution
from wordpipe.training.recipes import NAMES, Opened, PairTexts, fresh_config, recipe_for, recipe_named, recipe_of

WAYS = {  # settings of each recipe; a name may have several
    "mlm": {"mask_unit": "word"}, "mlm on two texts": {"pair": "sop", "style": "classic"}, "electra": {"mask_unit": "word"},
    "permutation": {}, "clm": {}, "clm on pairs": {}, "denoising": {"style": "t5"}, "denoising bart": {"style": "bart"},
    "seq2seq": {"prefix": "w8"},
}  # fmt: skip
CPU = {"threads": 1, "device": "cpu", "dtype": "float32", "compile": "off", "lr": 1e-2, "warmup": 4, "report_every": 1}


@pytest.fixture(scope="module")
def tokenizer():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", *(f"w{i}" for i in range(7, N_TOKENS))]
    found = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    found.add_special_tokens([f"<extra_id_{i}>" for i in reversed(range(20))])
    return found


def opened_for(way, tokenizer, seq_len):
    return Opened(
        special=SPECIAL, n_tokens=number_of_ids(tokenizer), tokenizer=tokenizer, seq_len=seq_len,
        is_paired="pairs" in way or way == "seq2seq", style=WAYS[way].get("style", ""),
    )  # fmt: skip


def training(way, folder, tokenizer, n=260, **values):
    """A small training of a recipe on ids that follow each other."""
    recipe = recipe_named(way.split()[0])
    settings = recipe.settings.make(SMALL | CPU | WAYS[way] | values)
    opened = opened_for(way, tokenizer, settings.seq_len)
    config = fresh_config(settings, opened)
    new = new_encoder_decoder if recipe.architecture == "encoder-decoder" else new_model
    model = recipe.model(new(config, settings.seed), settings)
    opened = replace(opened, start_id=config.start_id)
    data = recipe.data(opened, settings)
    if isinstance(data, PairTexts):
        for split, writer in data.writers(folder.parent).items():
            ids = text(n if split == "train" else 60, seed=len(split))
            for first in range(0, len(ids) - 6, 6):
                writer.add(ids[first : first + 3], ids[first + 3 : first + 6])
            writer.close()
        held = data.open(folder.parent)
    else:
        starts = tuple(np.arange(size) % 2 == 0 for size in (n, 120)) if data.find_starts else (None, None)
        held = data.held(text(n), text(120, seed=1), starts)
    return assemble(
        settings, opened, model, held, execution=make_execution(settings), state_dir=folder, run_key="contract"
    )


def steps_of(run):
    return [step for step in run.steps(StopFlag()) if step.split == "train"]


def test_each_recipe_is_tried_and_has_its_command():
    assert {way.split()[0] for way in WAYS} == {*NAMES}
    for name in NAMES:
        recipe = recipe_named(name)
        assert COMMANDS[recipe.command].load_settings() is recipe.settings
        assert recipe_of(recipe.settings()) is recipe


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_learned_by_heart_and_every_weight_moves(way, tokenizer, tmp_path):
    run = training(way, tmp_path / "state", tokenizer, steps=1, batch_size=4, valid_tokens=64)
    model, targets = run.learner.model, run.learner.targets(0)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimiser, losses = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.0), []
    while not losses or losses[-1] > 0.1 * losses[0]:
        assert len(losses) < 60  # 15 to 40 are enough
        optimiser.zero_grad()
        loss = loss_sum(model, targets) / targets.n_targets
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert [name for name, weight in model.named_parameters() if torch.equal(weight, before[name])] == []
    assert run.learner.validate().loss > 0.0


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_training_ends_with_the_same_bytes(way, tokenizer, tmp_path):
    values = {"steps": 6, "dropout": 0.1, "checkpoint_steps": 3, "eval_every": 3}
    whole = training(way, tmp_path / "whole", tokenizer, **values)
    steps_of(whole)
    list(training(way, tmp_path / "halves", tokenizer, **values).steps(StopFlag(), until=3))
    again = training(way, tmp_path / "halves", tokenizer, **values)
    assert again.resumed_from == 3
    steps_of(again)
    assert weights_hash(again) == weights_hash(whole)
    assert again.metrics == whole.metrics


@pytest.mark.parametrize("way", WAYS)
def test_what_is_saved_is_read_back_and_can_be_a_start(way, tokenizer, tmp_path):
    run, files = training(way, tmp_path / "state", tokenizer, steps=1), {}
    recipe = recipe_named(way.split()[0])
    saved = recipe.saved(run.learner.model)
    save_hf(saved, run.learner.model.config, files.__setitem__)
    loaded = load_hf(files.__getitem__, [*files])
    assert loaded.config.architecture == recipe.architecture
    theirs = dict(loaded.model.named_parameters())
    for name, weight in saved.named_parameters():
        torch.testing.assert_close(weight, theirs[name], msg=name)  # a scaled table comes back to a last bit
    if "init" in recipe.settings.model_fields:
        assert recipe.accepts(loaded.config) == ""
        assert not recipe_for(loaded.config).accepts(loaded.config)
    else:
        assert recipe.accepts(loaded.config)


@pytest.mark.parametrize("way", WAYS)
def test_the_frequencies_that_a_loss_is_compared_with_are_those_of_all_ids(way, tokenizer):
    """Of every recipe but ELECTRA's, whose loss has several parts; of pairs they are counted in what was written."""
    settings = recipe_named(way.split()[0]).settings.make(SMALL | CPU | WAYS[way])
    data, n_ids = recipe_of(settings).data(opened_for(way, tokenizer, 16), settings), number_of_ids(tokenizer)
    if not isinstance(data, PairTexts):
        counts_V = data.label_counts(None, np.bincount(text(400), minlength=n_ids))
        assert (counts_V is None) == (way == "electra")
        assert way == "electra" or counts_V.shape == (n_ids,)
        assert data.label_counts(None, None) is None  # in all processes but the first


@pytest.mark.parametrize("name", NAMES)
def test_the_function_in_python_says_what_the_recipe_is(name):
    import wordpipe

    train = getattr(wordpipe, f"train_{name}")
    assert train.__name__ == f"train_{name}"
    assert train.__doc__.startswith(recipe_named(name).does)
    assert re.search(rf"wordpipe\.train_{name}\(", train.__doc__)
