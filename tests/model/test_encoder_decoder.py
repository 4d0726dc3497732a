"""The encoder-decoder: `transformers` computes the same, nothing leaks, caches and packing change nothing."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from tests.support.models import edited, files_of, pair_config, shaken, weights_of
from tests.support.variants import some_of
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    Cache,
    config_from_hf,
    load_hf,
    new_encoder_decoder,
    pack_pairs,
    seed_of,
    shifted,
    transformers_class,
    why_no_class,
)

STYLES = ("t5", "bart", "vaswani")
# class → (style, what is changed)
SHAPES = {
    "T5ForConditionalGeneration": [
        ("t5", {}),
        ("t5", {"feedforward": "relu", "head_dim": 12}),
        ("t5", {"feedforward": "swiglu", "n_decoder_layers": 1, "norm_eps": 1e-4}),
    ],
    "BartForConditionalGeneration": [
        ("bart", {}),
        ("bart", {"scale_embedding": True, "feedforward": "gelu_tanh", "start_id": 5}),
    ],
    "MarianMTModel": [
        ("vaswani", {}),
        ("vaswani", {"decoder_vocab_size": 64, "feedforward": "silu", "n_decoder_layers": 1}),
    ],
}
ALL = [
    pytest.param(name, *shape, id=f"{name}-{i}") for name, shapes in SHAPES.items() for i, shape in enumerate(shapes)
]
T5 = {
    "vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0,
    "layer_norm_epsilon": 1e-4,
}  # fmt: skip
BART = {
    "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 24,
    "decoder_start_token_id": 2, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0,
}  # fmt: skip
MARIAN = BART | {"scale_embedding": True, "decoder_vocab_size": 96, "activation_function": "swish"}
# what it is → class, config
THEIRS = {
    "t5": ("T5ForConditionalGeneration", T5),
    "t5, gated": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 3}),
    "bart": ("BartForConditionalGeneration", BART),
    "bart, scaled": ("BartForConditionalGeneration", BART | {"scale_embedding": True, "activation_function": "relu"}),
    "marian": ("MarianMTModel", MARIAN),
    "marian, two vocabularies": (
        "MarianMTModel", MARIAN | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 64}),
}  # fmt: skip


def model_of(style, seed=5, **changes):
    return shaken(new_encoder_decoder(pair_config(style, **changes), seed))


def batch(config, seed=3):
    """Sources with padding, and targets that begin with the start."""
    generator = torch.Generator().manual_seed(seed)
    ids_BS = torch.randint(7, 60, (3, 9), generator=generator)
    mask_BS = torch.ones(3, 9, dtype=torch.bool)
    for row, length in enumerate((9, 6, 2)):
        mask_BS[row, length:] = False
        ids_BS[row, length:] = config.pad_id or 0
    labels_BT = torch.randint(7, 60, (3, 8), generator=generator)
    return ids_BS, mask_BS, shifted(labels_BT, config.start_id)


@torch.no_grad()
def assert_equal_logits(ours, theirs):
    ids_BS, mask_BS, target_BT = batch(ours.config)
    want = theirs(input_ids=ids_BS, attention_mask=mask_BS.long(), decoder_input_ids=target_BT).logits
    torch.testing.assert_close(ours(ids_BS, target_BT, mask_BS), want, atol=1e-4, rtol=1e-4)
    assert want.std() > 0.05  # of numbers that are all near 0, any two are close


def load_from(path):
    return load_hf(lambda file: (path / file).read_bytes())


@pytest.mark.landing
@pytest.mark.parametrize(("name", "style", "changes"), ALL)
def test_transformers_loads_our_folder_and_we_load_theirs(name, style, changes, tmp_path):
    from transformers import AutoModelForSeq2SeqLM

    model = model_of(style, **changes)
    assert transformers_class(model.config) == name
    for file, data in files_of(model).items():
        (tmp_path / file).write_bytes(data)
    theirs, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(theirs).__name__ == name
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_equal_logits(model, theirs.eval())
    theirs.save_pretrained(tmp_path / "again")
    again = load_from(tmp_path / "again")
    assert (again.config, again.notes) == (model.config, ())
    assert_equal_logits(again.model, theirs)


@pytest.mark.landing
@pytest.mark.parametrize("name", sorted(THEIRS))
def test_we_load_their_folder(name, tmp_path):
    import transformers

    kind, values = THEIRS[name]
    torch.manual_seed(13)
    theirs = getattr(transformers, kind)(getattr(transformers, kind).config_class(**values))
    fixed = {name: weight.clone() for name, weight in theirs.named_parameters() if not weight.requires_grad}
    shaken(theirs).load_state_dict(fixed, strict=False)  # Marian's sines are no weights
    theirs.save_pretrained(tmp_path)
    loaded = load_from(tmp_path)
    assert loaded.notes == ()
    assert_equal_logits(loaded.model, theirs)


def test_old_folders_of_marian_keep_their_sines():
    files = files_of(model_of("vaswani"))
    weights = weights_of(files) | {"model.encoder.embed_positions.weight": torch.zeros(24, 32)}
    loaded = load_hf((files | {"model.safetensors": save(weights)}).__getitem__)
    assert loaded.notes == ()


@pytest.mark.parametrize(
    ("style", "values", "message"),
    [
        ("t5", {"relative_attention_num_buckets": 16}, "relative_attention_num_buckets"),
        ("t5", {"feed_forward_proj": "gated-relu"}, "feed_forward_proj"),
        ("bart", {"decoder_attention_heads": 2}, "decoder_attention_heads"),
        ("vaswani", {"scale_embedding": False}, "scale_embedding"),
        ("vaswani", {"decoder_vocab_size": 50}, "decoder_vocab_size"),
        ("vaswani", {"decoder_start_token_id": None}, None),
        ("bart", {"decoder_start_token_id": "two"}, "decoder_start_token_id"),
    ],
)
def test_what_we_do_not_compute_is_refused_by_its_key(style, values, message):
    files = edited(files_of(model_of(style)), **values)
    if message is None:
        assert config_from_hf(json.loads(files["config.json"]))[1].start_id == 0  # the usual one
        return
    with pytest.raises(ArtifactError, match=message):
        load_hf(files.__getitem__)


def test_what_no_class_computes_keeps_our_own_format():
    model = model_of("vaswani", positions="rope", norm="rms", norm_bias=False)
    assert transformers_class(model.config) is None
    assert "encoder-decoder with" in why_no_class(model.config)
    again = load_hf(files_of(model).__getitem__)
    assert again.config == model.config
    ids_BS, mask_BS, target_BT = batch(model.config)
    with torch.no_grad():
        assert torch.equal(again.model(ids_BS, target_BT, mask_BS), model(ids_BS, target_BT, mask_BS))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"n_decoder_layers": 0}, "n_decoder_layers"),
        ({"windows": (0, 4)}, "windows"),
        ({"attention": "linear", "positions": "rope"}, "attention"),
        ({"segments": 2}, "segments"),
        ({"start_id": 96}, "start_id"),
        ({"decoder_vocab_size": 6}, "eos_id"),
        ({"architecture": "decoder"}, "n_decoder_layers"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_name(changes, where):
    with pytest.raises(ConfigError) as caught:
        pair_config("vaswani", **changes)
    assert caught.value.where == where


@pytest.mark.parametrize("style", STYLES)
def test_fresh_weights_depend_on_the_seed_alone_and_logits_start_small(style):
    a, b, other = (new_encoder_decoder(pair_config(style), seed) for seed in (1, 1, 2))
    for (name, weight), same, third in zip(a.named_parameters(), b.parameters(), other.parameters(), strict=True):
        assert torch.equal(weight, same)
        assert weight.dim() < 2 or not torch.equal(weight, third), name
    ids_BS, mask_BS, target_BT = batch(a.config)
    assert 0.01 < float(a(ids_BS, target_BT, mask_BS).detach().std()) < 2.0


@torch.no_grad()
@pytest.mark.parametrize("style", STYLES)
def test_nothing_leaks(style):
    """A position depends on its whole source and on the target before it, and on nothing else."""
    model = model_of(style)
    ids_BS, mask_BS, target_BT = batch(model.config)
    before = model(ids_BS, target_BT, mask_BS)

    def changed(where, what, at):
        ids, target = ids_BS.clone(), target_BT.clone()
        (ids if where == "source" else target)[at] = what
        return (model(ids, target, mask_BS) - before).abs().amax(dim=-1) > 1e-6

    assert not changed("source", 33, (1, slice(6, None))).any(), "padding of a source is read"
    in_source = changed("source", 33, (1, 4))
    assert in_source[1].all()
    assert not in_source[[0, 2]].any(), "one source shows in another's target"
    in_target = changed("target", 33, (2, 5))
    assert not in_target[2, :5].any(), "the target's future is seen"
    assert in_target[2, 5:].all()
    assert not in_target[:2].any()


@torch.no_grad()
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("multiple", [1, 4])
def test_packed_pairs_equal_pairs_one_by_one(style, multiple):
    model, random = model_of(style), np.random.default_rng(seed_of(7, style))
    sizes = [(5, 4), (7, 2), (5, 6), (3, 4), (5, 4), (1, 1)]
    sources, targets = ([random.integers(7, 96, pair[side]) for pair in sizes] for side in (0, 1))
    lengths = [np.array([len(one) for one in side]) for side in (sources, targets)]
    packed, packed_target = pack_pairs(
        (np.concatenate(sources), lengths[0]), (np.concatenate(targets), lengths[1]), multiple=multiple
    )
    assert packed.order.tolist() == packed_target.order.tolist()
    hidden = packed_target.runs(model.write_packed(packed_target, model.read_packed(packed)))
    found = [row for run in hidden for row in run]
    for number, row in zip(packed.order, found, strict=True):
        source, target = (torch.from_numpy(side[number])[None] for side in (sources, targets))
        alone = model.write(target, model.read(source))[0]
        torch.testing.assert_close(row[: len(alone)], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("longest", "style"), some_of([(15, 12), (300, 12), (15, 300)], STYLES, together=1))
def test_pairs_of_about_one_length_are_taken_together_and_learn_as_if_alone(style, longest):
    """While a gradient is wanted attention pads groups of runs; what it hides must not show anywhere."""
    random, sizes = (
        np.random.default_rng(seed_of(8, style)),
        [(9, 12), (15, 8), (11, 11), (2, 3), (9, 12), (1, 7), longest],
    )
    sources, targets = ([random.integers(7, 96, pair[side]) for pair in sizes] for side in (0, 1))
    gradients, losses = [], []
    for way in ("alone", "packed"):
        model = model_of(style, seed=11, max_len=300)
        if way == "alone":
            pairs = [[torch.from_numpy(one)[None] for one in pair] for pair in zip(sources, targets, strict=True)]
            loss = sum(model.write(target, model.read(source)).cos().sum() for source, target in pairs)
        else:
            packed, packed_target = pack_pairs(
                *((np.concatenate(side), np.array([len(one) for one in side])) for side in (sources, targets))
            )
            assert len(packed.groups(together=True)) < len(packed.shapes)
            assert any(group.hidden is not None for group in packed.groups(together=True))
            loss = model.write_packed(packed_target, model.read_packed(packed)).cos().sum()
        loss.backward()
        losses.append(float(loss.detach()))
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-4, rtol=1e-3, msg=name)


def test_gradients_of_packed_pairs_equal_those_of_padded_ones():
    model = model_of("t5", seed=9)
    ids_BS, mask_BS, target_BT = batch(model.config)
    model.decoder.logits_at(model.write(target_BT, model.read(ids_BS, mask_BS))).square().sum().backward()
    want = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    lengths = mask_BS.sum(dim=1).numpy()
    packed, packed_target = pack_pairs((ids_BS[mask_BS].numpy(), lengths), (target_BT.flatten().numpy(), np.full(3, 8)))
    model.decoder.logits_at(model.write_packed(packed_target, model.read_packed(packed))).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, f"{name} does not move"
        torch.testing.assert_close(weight.grad, want[name], atol=1e-3, rtol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("style", STYLES)
def test_caches_equal_no_cache(style):
    model = model_of(style)
    ids_BS, mask_BS, target_BT = batch(model.config)
    source = model.read(ids_BS, mask_BS)
    whole = model.write(target_BT, source)
    cache = Cache(model.decoder.config, len(ids_BS), 8, ids_BS.device)
    steps = [model.write(target_BT[:, i : i + 1], source, cache=cache) for i in range(8)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("style", STYLES)
def test_several_targets_of_one_source_equal_the_source_repeated(style):
    model = model_of(style)
    ids_BS, mask_BS, target_BT = batch(model.config)
    targets = torch.stack((target_BT, target_BT.roll(1, dims=1), target_BT.roll(2, dims=1)), dim=1).flatten(0, 1)
    repeated = model.read(ids_BS.repeat_interleave(3, dim=0), mask_BS.repeat_interleave(3, dim=0))
    folded = model.read(ids_BS, mask_BS)
    assert folded.size == 3
    torch.testing.assert_close(model.write(targets, folded), model.write(targets, repeated), atol=1e-5, rtol=1e-4)
    some = torch.tensor([2, 0])
    here = targets.view(3, 3, -1)[some].flatten(0, 1)
    torch.testing.assert_close(
        model.write(here, folded.rows(some)), model.write(targets, folded).view(3, 3, 8, -1)[some].flatten(0, 1),
        atol=1e-5, rtol=1e-4,
    )  # fmt: skip


def test_gradient_checkpointing_changes_no_gradient():
    model = model_of("bart")
    ids_BS, mask_BS, target_BT = batch(model.config)
    grads = []
    for model.recompute in (False, True):
        model.train()
        model.zero_grad()
        model(ids_BS, target_BT, mask_BS).square().mean().backward()
        grads.append([weight.grad.clone() for weight in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
