"""The oracle for XLNet: transformers loads our folders and computes what we compute, and the other way round."""

import pytest
import torch
from torch.nn import functional as F

from tests.model.test_hf_oracle import assert_equal_outputs, batch, folder_of, load_from
from tests.support.models import XLNET, edited, files_of, shaken, small_config
from wordpipe.errors import ArtifactError
from wordpipe.model import (
    HeadConfig,
    headed_class,
    load_headed,
    load_hf,
    new_model,
    save_headed,
    start_headed,
    transformers_class,
    why_no_class,
)

SHAPES = [
    {},
    {"tied": False, "feedforward": "relu", "norm_eps": 1e-3},
    {"n_heads": 2, "n_kv_heads": 2, "feedforward": "gelu_tanh", "pad_id": None, "mask_id": None, "max_len": 9},
]
SIZES = {"vocab_size": 96, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48, "pad_token_id": 0}
THEIRS = {
    "as published": {"mem_len": 384, "reuse_len": 128},
    "untied, relu": {"tie_word_embeddings": False, "ff_activation": "relu", "layer_norm_eps": 1e-4},
    "silu": {"ff_activation": "silu"},
}
HEADS = {
    "sequence": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnsweringSimple",
}


def ours_of(changes):
    return shaken(new_model(small_config("encoder", "classic", **XLNET | changes), 5))


def segments_of(ids_BT):
    return (torch.arange(ids_BT.shape[1]) > 8).long().expand(ids_BT.shape)


@torch.no_grad()
def assert_equal_streams(ours, theirs):
    """The content stream with segments and padding; the query stream with an order."""
    ids_BT, mask_BT = batch(12, padded=True)
    real, segments_BT = mask_BT.bool(), segments_of(ids_BT)
    want = theirs(input_ids=ids_BT, attention_mask=mask_BT, token_type_ids=segments_BT).logits
    got = ours.logits_at(ours.encode(ids_BT, mask_BT, segments_BT=segments_BT))
    torch.testing.assert_close(got[real], want[real], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(got[0], ours(ids_BT)[0], atol=1e-3)

    generator, ids_BT = torch.Generator().manual_seed(3), batch(13, padded=False)[0]
    at_BK = torch.stack([torch.randperm(20, generator=generator)[:6] for _ in range(4)])
    order_BT = torch.full((4, 20), -1.0).scatter(1, at_BK, torch.rand(4, 6, generator=generator))
    hidden_BTS = (order_BT >= 0)[:, None] & (order_BT[:, None] >= order_BT[..., None])
    want = theirs(
        input_ids=ids_BT, perm_mask=hidden_BTS.float(), target_mapping=F.one_hot(at_BK, 20).float(),
        token_type_ids=segments_BT,
    ).logits  # fmt: skip
    got = ours.logits_at(ours.encode_to_guess(ids_BT, at_BK, order_BT, segments_BT))
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert got.std() > 0.05


@pytest.mark.landing
@pytest.mark.parametrize("changes", SHAPES)
def test_transformers_loads_our_folder(changes, tmp_path):
    import transformers

    model = ours_of(changes)
    assert transformers_class(model.config) == "XLNetLMHeadModel"
    auto = transformers.AutoModelForCausalLM  # where transformers has it, though both sides are seen
    theirs, report = auto.from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert type(theirs).__name__ == "XLNetLMHeadModel"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_equal_outputs(model, theirs.eval())
    assert_equal_streams(model, theirs)
    loaded = load_hf(files_of(model).__getitem__)
    assert loaded.config == model.config
    assert files_of(loaded.model) == files_of(model)


@pytest.mark.landing
@pytest.mark.parametrize("name", THEIRS)
def test_we_load_their_folder(name, tmp_path):
    import transformers

    torch.manual_seed(13)
    theirs = shaken(transformers.XLNetLMHeadModel(transformers.XLNetConfig(**SIZES | THEIRS[name])))
    with torch.no_grad():
        for weight_name, weight in theirs.named_parameters():
            weight.mul_(
                6.0 if ".rel_attn." in weight_name else 1.0
            )  # fresh ones are so small that little of them shows
    theirs.save_pretrained(tmp_path)
    loaded = load_from(tmp_path)
    assert loaded.notes == ()
    assert loaded.config.two_streams
    assert_equal_outputs(loaded.model, theirs)
    assert_equal_streams(loaded.model, theirs)


@pytest.mark.landing
def test_their_model_without_a_head_is_read_with_a_fresh_one(tmp_path):
    import transformers

    theirs = transformers.XLNetModel(transformers.XLNetConfig(**SIZES)).eval()
    theirs.save_pretrained(tmp_path)
    loaded = load_hf(lambda file: (tmp_path / file).read_bytes(), allow_missing_head=True)
    assert loaded.notes == ("the folder does not have some weights, so they are initialised at random: lm_loss.bias",)
    ids_BT, mask_BT = batch(14, padded=True)
    with torch.no_grad():
        want = theirs(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
        got = loaded.model.encode(ids_BT, mask_BT)
    torch.testing.assert_close(got[mask_BT.bool()], want[mask_BT.bool()], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"two_streams": False}, "two_streams = False"),
        ({"norm_place": "pre"}, "norm_place = pre"),
        ({"positions": "learned"}, "positions = learned"),
        ({"n_kv_heads": 2}, "n_kv_heads = 2"),
    ],
)
def test_what_it_cannot_be_is_named(changes, named):
    config = small_config("encoder", "classic", **XLNET | changes)
    assert transformers_class(config) is None
    assert named in why_no_class(config)
    model = shaken(new_model(config, 3))
    assert files_of(load_hf(files_of(model).__getitem__).model) == files_of(model)


@pytest.mark.landing
@pytest.mark.parametrize("kind", HEADS)
def test_heads_load_on_both_sides(kind, tmp_path):
    import transformers

    model = ours_of({})
    assert headed_class(model.config, kind) == f"XLNet{HEADS[kind]}"
    headed = shaken(start_headed(model, HeadConfig(kind, () if kind == "span" else ("a", "b", "c")), 7))
    files: dict[str, bytes] = {}
    save_headed(headed, files.__setitem__)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    cls = getattr(transformers, f"XLNet{HEADS[kind]}")
    theirs, report = cls.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert not report["missing_keys"]
    ids_BT, mask_BT = batch(14, padded=True)
    real, given = mask_BT.bool(), {"attention_mask": mask_BT, "token_type_ids": segments_of(ids_BT)}
    with torch.no_grad():
        scores = headed.eval().scores(ids_BT, mask_BT, segments_of(ids_BT))
        found = theirs.eval()(input_ids=ids_BT, **given)
    if kind == "span":
        torch.testing.assert_close(scores[..., 0][real], found.start_logits[real], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(scores[..., 1][real], found.end_logits[real], atol=1e-4, rtol=1e-4)
    else:
        picked = (scores, found.logits) if kind == "sequence" else (scores[real], found.logits[real])
        torch.testing.assert_close(*picked, atol=1e-4, rtol=1e-4)
    theirs.save_pretrained(tmp_path / "theirs")
    again = load_headed(lambda file: (tmp_path / "theirs" / file).read_bytes(), ["config.json", "model.safetensors"])
    with torch.no_grad():
        scores_again = again.model.scores(ids_BT, mask_BT, segments_of(ids_BT))
    some = ... if kind == "sequence" else real
    torch.testing.assert_close(scores_again[some], scores[some], atol=1e-6, rtol=1e-6)


def test_a_sequence_that_is_read_at_its_end_is_refused():
    files: dict[str, bytes] = {}
    save_headed(start_headed(ours_of({}), HeadConfig("sequence", ("a", "b")), 7), files.__setitem__)
    with pytest.raises(ArtifactError, match=r"this value of summary_type; got 'last'; expected 'first'"):
        load_headed(edited(files, summary_type="last").__getitem__, files)
