"""The oracle for what BERT's relatives have beside guesses of tokens: two texts in a sequence, and replaced tokens."""

import pytest
import torch

from tests.model.test_hf_oracle import THEIR_SIZES, batch, folder_of, load_from
from tests.support.models import files_of, shaken, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import (  # fmt: skip
    HeadConfig,
    load_headed,
    load_hf,
    new_model,
    save_headed,
    start_headed,
    transformers_class,
)

PAIRS = {
    "BertForPreTraining": ({}, "seq_relationship_logits"),
    "AlbertForPreTraining": ({"shared_layers": True, "embedding_dim": 12, "feedforward": "gelu_tanh"}, "sop_logits"),
}
ELECTRA = {"head": False, "output_bias": False, "replaced_head": True}
ELECTRA_SHAPES = [{}, {"embedding_dim": 12}, {"feedforward": "relu", "segments": 1, "norm_eps": 1e-3}]


def segments():
    return (torch.arange(20) > 8).long().expand(4, 20)


@pytest.mark.landing
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_transformers_says_of_two_texts_what_we_say(name, tmp_path):
    import transformers

    changes, said = PAIRS[name]
    model = shaken(new_model(small_config("encoder", "classic", pair_head=True, **changes), 5))
    assert transformers_class(model.config) == name
    theirs, report = getattr(transformers, name).from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids_BT, mask_BT = batch(11, padded=True)
    with torch.no_grad():
        want = theirs.eval()(input_ids=ids_BT, attention_mask=mask_BT, token_type_ids=segments())
        hidden_BTD = model.encode(ids_BT, mask_BT, segments_BT=segments())
        torch.testing.assert_close(model.pair_logits(hidden_BTD[:, 0]), want[said], atol=1e-5, rtol=1e-4)
        real = mask_BT.bool()
        torch.testing.assert_close(
            model.logits_at(hidden_BTD)[real], want.prediction_logits[real], atol=1e-4, rtol=1e-4
        )
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load_from(tmp_path / "theirs")
    assert loaded.config == model.config
    assert files_of(loaded.model) == files_of(model)


def test_a_decoder_knows_no_two_texts():
    with pytest.raises(ConfigError, match="segments"):
        small_config("decoder", "classic", pair_head=True)
    with pytest.raises(ConfigError, match="segments"):
        small_config("encoder", "modern", pair_head=True)


@pytest.mark.landing
@pytest.mark.parametrize("changes", ELECTRA_SHAPES)
def test_transformers_finds_the_replaced_tokens_that_we_find(changes, tmp_path):
    import transformers

    model = shaken(new_model(small_config("encoder", "classic", **ELECTRA | changes), 5))
    assert transformers_class(model.config) == "ElectraForPreTraining"
    theirs, report = transformers.ElectraForPreTraining.from_pretrained(
        folder_of(model, tmp_path), output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids_BT, mask_BT = batch(12, padded=True)
    with torch.no_grad():
        want = theirs.eval()(input_ids=ids_BT, attention_mask=mask_BT).logits
        got = model.replaced_logits(model.encode(ids_BT, mask_BT))
    torch.testing.assert_close(got[mask_BT.bool()], want[mask_BT.bool()], atol=1e-4, rtol=1e-4)
    assert got.std() > 0.01
    assert files_of(load_hf(files_of(model).__getitem__).model) == files_of(model)


@pytest.mark.landing
def test_we_load_their_electra(tmp_path):
    import transformers

    torch.manual_seed(13)
    config = transformers.ElectraConfig(**THEIR_SIZES | {"embedding_size": 12, "layer_norm_eps": 1e-4})
    theirs = shaken(transformers.ElectraForPreTraining(config))
    theirs.save_pretrained(tmp_path)
    loaded = load_from(tmp_path)
    assert (loaded.notes, loaded.config.embedding_dim, loaded.config.replaced_head) == ((), 12, True)
    ids_BT, _ = batch(13, padded=False)
    with torch.no_grad():
        torch.testing.assert_close(
            loaded.model.replaced_logits(loaded.model.encode(ids_BT)),
            theirs(input_ids=ids_BT).logits,
            atol=1e-4,
            rtol=1e-4,
        )


@pytest.mark.landing
@pytest.mark.parametrize("kind", ["sequence", "token", "span"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Albert", {"shared_layers": True, "embedding_dim": 12}),
        ("DistilBert", {"segments": 0}),
        ("", ELECTRA),
        ("", {"embedding_dim": 12}),
    ],
)
def test_heads_of_relatives(name, changes, kind, tmp_path):
    """Where transformers has the class, its scores are ours; else the folder is our own, and comes back."""

    import transformers

    model = shaken(new_model(small_config("encoder", "classic", **changes), 5))
    head = HeadConfig(kind, () if kind == "span" else ("a", "b", "c"))
    headed = shaken(start_headed(model, head, 7))
    files: dict[str, bytes] = {}
    save_headed(headed, files.__setitem__)
    ids_BT, mask_BT = batch(14, padded=True)
    with torch.no_grad():
        scores = headed.eval().scores(ids_BT, mask_BT)
        again = load_headed(files.__getitem__, files).model.scores(ids_BT, mask_BT)
    torch.testing.assert_close(scores[mask_BT.bool()] if kind != "sequence" else scores,
                               again[mask_BT.bool()] if kind != "sequence" else again, atol=0, rtol=0)  # fmt: skip
    ends = {"sequence": "ForSequenceClassification", "token": "ForTokenClassification", "span": "ForQuestionAnswering"}
    if not name or (name, kind) == ("DistilBert", "sequence"):
        return
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    theirs = getattr(transformers, name + ends[kind]).from_pretrained(tmp_path).eval()
    with torch.no_grad():
        found = theirs(input_ids=ids_BT, attention_mask=mask_BT)
    real = mask_BT.bool()
    if kind == "span":
        torch.testing.assert_close(scores[..., 0][real], found.start_logits[real], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(scores[..., 1][real], found.end_logits[real], atol=1e-4, rtol=1e-4)
    else:
        picked = (scores, found.logits) if kind == "sequence" else (scores[real], found.logits[real])
        torch.testing.assert_close(*picked, atol=1e-4, rtol=1e-4)
