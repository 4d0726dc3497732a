"""The weights of a folder: shards, half precision, models without a head, tensors cut out, and what is refused by name."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_torch
from safetensors.torch import save

from tests.support.models import edited, files_of, shaken, small_config, weights_of, with_weights
from wordpipe.errors import ArtifactError
from wordpipe.model import config_from_hf, is_of_head, load_hf, new_model, without_tensors

IDS_BT = torch.arange(10, 34)[None]
INDEX = "model.safetensors.index.json"


def small_model(architecture="decoder", style="modern", **changes):
    return shaken(new_model(small_config(architecture, style, **changes), 1))


def load(files, **options):
    return load_hf(files.__getitem__, list(files), **options)


def folder_files(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def written(files, path):
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


@torch.no_grad()
def same_logits(a, b):
    return torch.equal(a(IDS_BT), b(IDS_BT))


@pytest.mark.landing
def test_weights_in_several_files(tmp_path):
    from transformers import AutoModelForCausalLM

    model = small_model()
    theirs = AutoModelForCausalLM.from_pretrained(written(files_of(model), tmp_path))
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    files = folder_files(tmp_path / "sharded")
    assert INDEX in files
    assert sum(name.endswith(".safetensors") for name in files) > 2
    assert same_logits(load(files).model, model)


def shards(model):
    files = files_of(model)
    weights = weights_of(files)
    parts = {"a.safetensors": {}, "b.safetensors": {}}
    for i, (name, weight) in enumerate(sorted(weights.items())):
        parts[f"{'ab'[i % 2]}.safetensors"][name] = weight
    places = {name: file for file, part in parts.items() for name in part}
    stored = {file: save(part) for file, part in parts.items()}
    return {"config.json": files["config.json"], INDEX: json.dumps({"weight_map": places}).encode()} | stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, m: f.pop("b.safetensors"), "a weights file is missing; expected b.safetensors"),
        (lambda f, m: m.update({"model.norm.weight": "../b.safetensors"}), "missing; expected ../b.safetensors"),
        (lambda f, m: m.update({"model.norm.weight": "a.safetensors", "model.embed_tokens.weight": "b.safetensors"}),
         "is not in the file that the index names"),
        (lambda f, m: m.update({"extra": "a.safetensors"}), "extra is not in the file that the index names"),
        (lambda f, m: m.clear(), "no weight_map"),
        (lambda f, m: f.update({"a.safetensors": b"x" * 20}), "a.safetensors: not a safetensors file"),
    ],
)  # fmt: skip
def test_shards_that_are_not_those_of_the_index_are_refused(change, message):
    files = shards(small_model())
    places = json.loads(files[INDEX])["weight_map"]
    change(files, places)
    files[INDEX] = json.dumps({"weight_map": places}).encode()
    with pytest.raises(ArtifactError, match=message):
        load(files)


def test_an_index_that_is_no_object_is_refused():
    with pytest.raises(ArtifactError, match=f"{INDEX}: not a JSON object"):
        load(shards(small_model()) | {INDEX: b"[]"})


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_converted_and_noted(kind):
    model = small_model()
    halved = with_weights(files_of(model), lambda w: w.update({name: part.to(kind) for name, part in w.items()}))
    loaded = load(halved)
    assert loaded.notes == (f"weights stored as {str(kind)[6:]} were converted to float32",)
    for ours, exact in zip(loaded.model.parameters(), model.parameters(), strict=True):
        assert ours.dtype is torch.float32
        assert torch.equal(ours, exact.to(kind).float())


BASES = {
    "encoder modern": ("decoder.bias, head.dense.weight, head.norm.weight", {}),
    "encoder classic": ("cls.predictions.bias, cls.predictions.transform.LayerNorm.bias", {}),
    "decoder modern": ("lm_head.weight", {"tied": False}),
    "decoder classic": ("lm_head.weight", {"tied": False}),
}


@pytest.mark.landing
@pytest.mark.parametrize("name", BASES)
def test_a_folder_without_the_output_head(name, tmp_path):
    """As `AutoModel` saves it: names without a prefix, and no head."""

    from transformers import AutoModel

    named, changes = BASES[name]
    model = small_model(*name.split(), **changes)
    theirs = AutoModel.from_pretrained(written(files_of(model), tmp_path))
    theirs.save_pretrained(tmp_path / "bare")
    files = folder_files(tmp_path / "bare")
    with pytest.raises(ArtifactError, match="weights are missing") as caught:
        load(files)
    assert caught.value.hint == "the folder has a model without its output head"
    loaded, again, other = (load(files, allow_missing_head=True, seed=seed) for seed in (3, 3, 4))
    fresh = [note for note in loaded.notes if "initialised at random" in note]
    assert len(fresh) == 1
    assert fresh[0].startswith(f"the folder does not have some weights, so they are initialised at random: {named}")
    with torch.no_grad():
        assert torch.equal(loaded.model.encode(IDS_BT), model.encode(IDS_BT))
    assert torch.isfinite(loaded.model(IDS_BT)).all()
    assert same_logits(loaded.model, again.model)
    assert not same_logits(loaded.model, other.model)


@pytest.mark.landing
def test_a_tied_decoder_without_its_prefix_is_whole(tmp_path):
    from transformers import AutoModel

    model = small_model()
    AutoModel.from_pretrained(written(files_of(model), tmp_path)).save_pretrained(tmp_path / "bare")
    loaded = load(folder_files(tmp_path / "bare"))
    assert loaded.notes == ()
    assert same_logits(loaded.model, model)


@pytest.mark.landing
def test_a_model_trained_on_for_a_task_leaves_that_head_behind(tmp_path):
    from transformers import BertForSequenceClassification

    model = small_model("encoder", "classic")
    BertForSequenceClassification.from_pretrained(written(files_of(model), tmp_path)).save_pretrained(tmp_path / "task")
    loaded = load(folder_files(tmp_path / "task"), allow_missing_head=True)
    left = "bert.pooler.dense.bias, bert.pooler.dense.weight, classifier.bias, classifier.weight"
    assert loaded.notes[0] == f"the language model does not use some weights, so they are left out: {left}"
    assert "initialised at random: cls.predictions.bias" in loaded.notes[1]


def test_the_body_may_not_be_missing():
    cut = with_weights(
        files_of(small_model("encoder")), lambda w: (w.pop("model.final_norm.weight"), w.pop("decoder.bias"))
    )
    with pytest.raises(ArtifactError, match=r"2 weights are missing; the first is decoder.bias") as caught:
        load(cut, allow_missing_head=True)
    assert caught.value.hint is None


def test_copies_of_tied_weights_are_accepted_where_they_are_equal():
    files = files_of(small_model())
    copied = with_weights(files, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].clone()}))
    assert load(copied).config.tied
    files = files_of(small_model("encoder", "classic"))
    table, offset = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
    copied = with_weights(
        files,
        lambda w: w.update(
            {"cls.predictions.decoder.weight": w[table].clone(), "cls.predictions.decoder.bias": w[offset].clone()}
        ),
    )
    assert load(copied).notes == ()
    other = with_weights(copied, lambda w: w["cls.predictions.decoder.bias"].add_(1))
    with pytest.raises(ArtifactError, match=r"cls\.predictions.decoder.bias differs from cls.predictions.bias"):
        load(other)


def test_an_untied_bert_adds_the_offset_of_its_matrix():
    """transformers keeps a second one that nothing reads; only the first one counts."""
    model = small_model("encoder", "classic", tied=False)
    files = files_of(model)
    assert {"cls.predictions.bias", "cls.predictions.decoder.bias"} <= weights_of(files).keys()
    assert same_logits(load(with_weights(files, lambda w: w["cls.predictions.bias"].zero_())).model, model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("model.norm.weight"), "1 weights are missing; the first is model.norm.weight"),
        (lambda w: w.update(extra=torch.ones(1)), "1 weights are unknown; the first is extra"),
        (lambda w: w.update({"model.norm.weight": torch.ones(31)}), r"model.norm.weight has the wrong shape.*\(31,\)"),
        (lambda w: w.update({"model.norm.weight": torch.ones(32).double()}), "wrong shape or type.*float64.*float32"),
        (
            lambda w: w["model.embed_tokens.weight"][3].fill_(float("nan")),
            "embed_tokens.weight has numbers that are not finite",
        ),
        (lambda w: w.update({"lm_head.weight": torch.ones(96, 32)}), "lm_head.weight differs from model.embed_tokens"),
        (lambda w: w.update({"model.layers.1.self_attn.k_proj.weight": torch.ones(16, 32)}), r"k_proj.*\(16, 32\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change, message):
    with pytest.raises(ArtifactError, match=message):
        load(with_weights(files_of(small_model()), change))


def test_a_transposed_weight_that_is_not_is_refused():
    name = "transformer.h.0.mlp.c_fc.weight"
    turned = with_weights(
        files_of(small_model("decoder", "classic")), lambda w: w.update({name: w[name].T.contiguous()})
    )
    with pytest.raises(ArtifactError, match=rf"{name} has the wrong shape; got \(48, 32\).*expected \(32, 48\)"):
        load(turned)


def test_one_weight_under_two_names_is_refused():
    files = files_of(small_model("decoder", "classic"))
    twice = with_weights(files, lambda w: w.update({"wte.weight": torch.zeros(96, 32)}))
    with pytest.raises(
        ArtifactError,
        match=r"the folder has the weight transformer\.wte\.weight under two names; got (transformer\.)?wte\.weight",
    ):
        load(twice)


@pytest.mark.parametrize("cut", [0, 4, 200, -1])
def test_a_cut_file_is_refused(cut):
    files = files_of(small_model("encoder"))
    with pytest.raises(ArtifactError, match=r"model\.safetensors: the file is (empty|cut short)"):
        load(files | {"model.safetensors": files["model.safetensors"][:cut]})


def test_a_config_that_is_no_object_is_refused():
    files = files_of(small_model("encoder"))
    with pytest.raises(ArtifactError, match="JSON"):
        load(files | {"config.json": files["config.json"][:-5]})
    with pytest.raises(ArtifactError, match="JSON object"):
        load(files | {"config.json": b"[]"})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["config.json", "pytorch_model.bin"], "pytorch_model.bin: the weights are in a Python pickle"),
        (
            ["config.json", "model.gguf"],
            "no weights in a format that wordpipe reads; got model.gguf; expected model.safetensors",
        ),
        (
            ["config.json", "model.fp16.safetensors"],
            "no weights in a format that wordpipe reads; got model.fp16.safetensors",
        ),
        (["config.json"], "no weights in a format that wordpipe reads; expected model.safetensors"),
        (["model.safetensors"], "no config.json"),
    ],
)
def test_a_folder_without_safetensors_is_refused_unread(names, message):
    config = files_of(small_model())["config.json"]
    with pytest.raises(ArtifactError, match=message):
        load_hf({"config.json": config}.__getitem__, names)


def test_a_pickle_is_not_read_where_there_are_safetensors():
    model = small_model()
    files = files_of(model) | {"pytorch_model.bin": b"never read"}
    assert same_logits(load(files).model, model)


def test_the_config_decides_whether_the_matrix_is_tied():
    files = files_of(small_model(tied=False))
    with pytest.raises(ArtifactError, match=r"lm_head\.weight differs"):
        load(edited(files, tie_word_embeddings=True))


def test_the_others_stay_as_they_were():
    draw = np.random.default_rng(1)
    tensors = {
        "b.head": draw.standard_normal((3, 5)).astype(np.float32),
        "a": draw.integers(0, 9, 7, dtype=np.int8),
        "c": draw.standard_normal((2, 2)).astype(np.float64),
        "d": np.zeros((0, 4), np.float32),
        "ä": draw.standard_normal(1).astype(np.float16),
    }
    found = load_arrays(
        without_tensors(save_arrays(tensors, metadata={"format": "pt"}), lambda name: name.endswith("head"))
    )
    assert found.keys() == tensors.keys() - {"b.head"}
    for name, array in found.items():
        np.testing.assert_array_equal(array, tensors[name], strict=True)


def test_types_that_numpy_does_not_have_and_metadata_are_kept():
    data = save({"x": torch.arange(6, dtype=torch.bfloat16), "y": torch.ones(2)}, {"format": "pt"})
    cut = without_tensors(data, {"y"}.__contains__)
    assert torch.equal(load_torch(cut)["x"], torch.arange(6, dtype=torch.bfloat16))
    assert json.loads(cut[8 : 8 + int.from_bytes(cut[:8], "little")])["__metadata__"] == {"format": "pt"}
    assert load_torch(without_tensors(data, lambda _: True)) == {}


def test_nothing_to_leave_out_changes_no_tensor():
    data = save_arrays({"x": np.arange(3, dtype=np.float32)})
    assert without_tensors(data, lambda _: False) == data


@pytest.mark.landing
@pytest.mark.parametrize(
    ("architecture", "style"), [("encoder", "modern"), ("encoder", "classic"), ("decoder", "modern")]
)
def test_the_head_is_what_transformers_base_class_has_no_place_for(architecture, style):
    from transformers import AutoConfig, AutoModel

    files = files_of(small_model(architecture, style))
    family, config = config_from_hf(json.loads(files["config.json"]))
    cut = weights_of({"model.safetensors": without_tensors(files["model.safetensors"], is_of_head(family, config))})
    with torch.device("meta"):
        wanted = AutoModel.from_config(AutoConfig.for_model(**json.loads(files["config.json"]))).state_dict().keys()
    assert cut.keys() == {name for name in weights_of(files) if name.removeprefix(family.prefix) in wanted}
    assert len(cut) > 3  # and not nothing
