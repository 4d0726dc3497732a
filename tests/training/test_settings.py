import json
import subprocess
import sys
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

from tests.support.small_trainings import N_TOKENS, SPECIAL
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import MUON_LR, PRESETS
from wordpipe.settings import Settings
from wordpipe.training import SpecialIds, make_plan, model_config, settings
from wordpipe.training.recipes import NAMES, Opened, recipe_named
from wordpipe.training.settings import CausalSettings, MaskedSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 5, "epochs": 1}, "set only one of steps = 5 and epochs = 1.0"),
        ({"mask_share": 0.95, "random_share": 0.1}, "mask_share .* at most 1, but the sum is 1.05"),
        ({"preset": "huge"}, "preset = 'huge' should be 'tiny', 'mini', 'small' or 'base'"),
        ({"steps": 0}, "steps = 0 should be greater than or equal to 1"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"dim": -1}, "dim = -1"),
        ({"lr": float("inf")}, "lr = inf"),
        ({"mask_rat": 0.1}, "unknown setting 'mask_rat'"),
        (
            {"mixers": "ssm,waves"},
            "mixers = ssm,waves contains 'waves', which is not a mixer; expected: dot, .* fourier, ssm",
        ),
        ({"mixers": "ssm,,dot"}, "contains '', which is not a mixer"),
        ({"mixers": "ssm", "attention": "linear"}, "set only one of mixers and attention = linear"),
        (
            {"mixers": "ssm", "linformer_dim": 8},
            "linformer_dim = 8 has no effect, because the model has no linformer layer",
        ),
        ({"attention": "linformer", "state_dim": 8}, "state_dim = 8 has no effect, because the model has no ssm layer"),
        ({"init": "model", "mixers": "ssm"}, "mixers cannot be set together with init"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(values, message):
    with pytest.raises(ConfigError, match=message):
        MaskedSettings.make(values)


def test_a_causal_run_has_no_masks():
    with pytest.raises(ConfigError, match="unknown setting 'mask_rate'"):
        CausalSettings.make({"mask_rate": 0.1})


PARTS = [
    part for name, part in vars(settings).items()
    if isinstance(part, type) and issubclass(part, Settings) and part.__module__ == settings.__name__ and not part.command
]  # fmt: skip


def test_no_two_parts_share_the_name_of_a_setting_or_of_a_check():
    """Of two checks with one name the first alone is run, without a word."""
    own = [part for part in PARTS if part.__bases__ == (Settings,)]
    assert {"Length", "Shape", "Mixers", "Start", "Masks"} <= {part.__name__ for part in own}
    names = [name for part in own for name in {*part.model_fields, *part._checks}]
    assert len(names) == len({*names})


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_takes_one_value_alone(name):
    for field in recipe_named(name).settings.model_fields.values():
        assert field.annotation is not type(None)
        assert get_origin(field.annotation) is not Literal or len(get_args(field.annotation)) > 1


@pytest.mark.parametrize(
    ("name", "values"),
    [("electra", {"init": "model"}), ("electra", {"pair": "nsp"}), ("permutation", {"window": 8}),
     ("permutation", {"mask_unit": "word"}), ("denoising", {"attention": "linear"}), ("seq2seq", {"shared_layers": True})],
)  # fmt: skip
def test_what_an_objective_has_not_is_unknown_to_it(name, values):
    with pytest.raises(ConfigError, match=f"unknown setting '{next(iter(values))}'"):
        recipe_named(name).settings.make(values)


def test_what_cannot_change_the_weights_is_not_in_the_recipe():
    recipe = MaskedSettings.make({}).recipe()
    assert not {"checkpoint_seconds", "checkpoint_steps", "report_every", "eval_every", "valid_tokens"} & set(recipe)
    assert {"preset", "seed", "threads", "micro_batch", "dtype", "mask_rate", "compile"} <= set(recipe)


def test_importing_settings_imports_nothing_heavy():
    code = "import sys, wordpipe.training.settings, wordpipe.training.plan; print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "numpy", "pyarrow"} & set(json.loads(out.replace("'", '"')))


def plan_of(values, n_blocks=1000, seq_len=128, cls=MaskedSettings, device="cpu"):
    settings = cls.make(values)
    config = model_config(settings, "encoder", n_tokens=16_000, special=SPECIAL)
    return make_plan(settings, config, n_blocks=n_blocks, seq_len=seq_len, device=device)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_preset_fills_in_what_is_not_set(name):
    preset = PRESETS[name]
    config = model_config(MaskedSettings.make({"preset": name}), "encoder", n_tokens=16_001, special=SPECIAL)
    assert (config.dim, config.n_layers, config.ffn_dim, config.max_len) == (
        preset.dim, preset.n_layers, preset.ffn_dim, preset.max_len,
    )  # fmt: skip
    assert config.vocab_size == 16_064
    assert config.mask_id == 4
    plan = plan_of({"preset": name})
    assert (plan.lr, plan.batch_size) == (preset.lr * MUON_LR, preset.batch_size)


def test_a_setting_overrides_the_preset_and_the_rest_follows():
    settings = CausalSettings.make({"preset": "mini", "dim": 128, "n_layers": 3, "seq_len": 64, "dropout": 0.1})
    config = model_config(settings, "decoder", n_tokens=100, special=SPECIAL)
    assert (config.dim, config.n_heads, config.ffn_dim) == (
        128,
        2,
        192,
    )  # heads of 64, feed-forward of 1.5 D as in mini
    assert (config.n_layers, config.max_len, config.dropout) == (3, 64, 0.1)
    with pytest.raises(ConfigError, match="must be an even whole number"):
        model_config(CausalSettings.make({"dim": 100, "n_heads": 3}), "decoder", n_tokens=100, special=SPECIAL)


def test_numbers_of_steps():
    assert plan_of({"steps": 7}).steps == 7
    assert plan_of({"epochs": 2, "batch_size": 300}).steps == 7  # 2000 blocks in batches of 300
    assert plan_of({"batch_size": 10}).steps == 300  # neither: three epochs
    assert plan_of({"batch_size": 1000}).steps == 200  # but at least 200 steps
    assert plan_of({"steps": 500}).eval_every == 100
    assert plan_of({"steps": 500, "eval_every": 30, "report_every": 3}).report_every == 3


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
@pytest.mark.parametrize("cls", [MaskedSettings, CausalSettings])
def test_micro_batches_divide_the_batch(device, cls):
    for batch_size in (1, 7, 32, 96, 1000):
        plan = plan_of({"batch_size": batch_size}, cls=cls, device=device)
        assert batch_size % plan.micro_batch == 0
    assert plan_of({"preset": "base"}, seq_len=512).micro_batch == 8
    assert plan_of({"batch_size": 32, "micro_batch": 5}).micro_batch == 5
    assert plan_of({"batch_size": 4, "micro_batch": 50}).micro_batch == 4


@pytest.mark.parametrize(
    ("name", "missing"), [("mlm", ["mask"]), ("mlm", ["cls", "bos", "eos"]), ("clm", ["bos", "eos"])]
)
def test_a_tokenizer_without_the_special_tokens_is_refused(name, missing):
    ids = {role: i for i, role in enumerate(("pad", "unk", "cls", "sep", "mask", "bos", "eos")) if role not in missing}
    with pytest.raises(ArtifactError, match=r"the tokenizer has no (\[MASK\]|\[CLS\]|<s>) token"):
        data_of(name, **ids)


def data_of(name, **ids):
    recipe = recipe_named(name)
    return recipe.data(Opened(special=SpecialIds(**ids), n_tokens=N_TOKENS), recipe.settings())


def test_another_token_may_do_the_same():
    as_gpt2 = data_of("clm", eos=0)
    assert (as_gpt2.before, as_gpt2.after) == ((), (0,))
    as_eurobert = data_of("mlm", bos=1, eos=2, mask=3)
    assert as_eurobert.after == (2,)
    ids_T = as_eurobert.blocks(np.arange(7, 40, dtype="<u2"), 8).rows(np.array([0])).ids_BT[0]
    assert ids_T[[0, -1]].tolist() == [1, 2]


@pytest.mark.parametrize(("n", "largest", "size"), [(37, 32, 19), (32, 12, 8), (32, 32, 32), (1000, 32, 25), (7, 1, 1)])
def test_a_batch_is_cut_into_pieces_that_are_not_small(n, largest, size):
    plan = plan_of({"batch_size": n}, seq_len=4096 // largest)
    assert plan.micro_batch == size
