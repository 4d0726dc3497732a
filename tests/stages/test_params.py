"""The parts of a model: every weight in one, the shapes as they are stored, of every architecture."""

import json

import pytest
from safetensors.torch import load_file, save, save_file

import wordpipe
from tests.support.model_artifacts import artifact_of, folder_of
from tests.support.models import each_kind, files_of, kind_config, pair_config, shaken
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import new_encoder_decoder, new_model
from wordpipe.stages import parameters


def count(model):
    return sum(weight.numel() for weight in model.parameters())


def by_part(found):
    return {part["part"]: part["parameters"] for part in found["parts"]}


@pytest.mark.parametrize("name", each_kind())
def test_every_weight_of_a_single_stack_is_in_a_part(name, tmp_path):
    model = new_model(kind_config(name), 1)
    found = parameters(folder_of(files_of(model), tmp_path))
    parts, config = by_part(found), model.config
    table = 24 * 32 if config.positions == "sinusoidal" else 0  # the class of transformers keeps it
    assert found["parameters"] == count(model) + table == sum(parts.values())
    assert found["architecture"] == config.architecture
    assert not {"other weights", "not counted", "cross-attention"} & parts.keys()
    assert parts[f"{config.architecture} blocks"] == sum(weight.numel() for weight in model.blocks.parameters())
    embeddings = 96 * config.dim + config.segments * config.dim
    norm = (1 + config.norm_bias) * config.dim if config.embedding_norm else 0
    assert parts["embeddings"] == embeddings + norm
    positions = 24 * config.dim if config.positions in ("learned", "learned-t5", "sinusoidal") else 0
    assert parts.get("positions", 0) == positions + (
        32 * config.n_heads if config.positions in ("t5", "learned-t5") else 0
    )


@pytest.mark.parametrize("style", ["t5", "bart", "vaswani"])
@pytest.mark.parametrize("own", [False, True], ids=["of transformers", "our own"])
def test_every_weight_of_an_encoder_decoder_is_in_a_part(style, own, tmp_path):
    changes = {"norm": "rms", "norm_bias": False} if own and style != "t5" else {"dropout": 0.1}
    changes |= {"positions": "rope"} if own else {}
    model = new_encoder_decoder(pair_config(style, **changes), 1)
    found = parameters(folder_of(files_of(model), tmp_path))
    parts = by_part(found)
    assert (found["class"] is None) == own
    empty = 2 * 2 * 32 if style == "bart" and not own else 0  # rows that no position uses are stored, too
    assert found["parameters"] == count(model) + empty == sum(parts.values())
    blocks = list(model.decoder.blocks)
    cross = sum(weight.numel() for b in blocks for part in (b.cross, b.cross_norm) for weight in part.parameters())
    assert parts["cross-attention"] == cross
    assert parts["decoder blocks"] == sum(weight.numel() for b in blocks for weight in b.parameters()) - cross
    assert parts["encoder blocks"] == sum(weight.numel() for weight in model.encoder.blocks.parameters())
    assert not {"other weights", "not counted"} & parts.keys()


def test_a_row_stands_for_the_same_weight_of_all_blocks(tmp_path):
    found = parameters(folder_of(files_of(new_encoder_decoder(pair_config("t5"), 1)), tmp_path))
    rows = {one["name"]: one for part in found["parts"] for one in part["weights"]}
    assert rows["decoder.block.#.layer.2.DenseReluDense.wo.weight"] == {
        "name": "decoder.block.#.layer.2.DenseReluDense.wo.weight", "shape": [32, 48], "dtype": "F32", "times": 3,
        "parameters": 3 * 32 * 48,
    }  # fmt: skip
    assert rows["shared.weight"]["times"] == 1
    assert "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight" in rows
    assert found["class"] == "T5ForConditionalGeneration"


def test_copies_of_tied_weights_are_not_counted_and_others_are_named(tmp_path):
    model = shaken(new_encoder_decoder(pair_config("bart"), 1))
    folder = folder_of(files_of(model), tmp_path)
    weights = load_file(folder / "model.safetensors")
    more = {
        "lm_head.weight": weights["model.shared.weight"].clone(),
        "pooler.dense.weight": weights["model.shared.weight"][:2].clone(),
    }
    save_file(weights | more, folder / "model.safetensors")
    found = parameters(folder)
    parts = by_part(found)
    assert (parts["not counted"], parts["other weights"]) == (96 * 32, 2 * 32)
    assert found["parameters"] == count(model) + 2 * 2 * 32 + 2 * 32


def test_names_without_the_prefix_of_the_class(tmp_path):
    folder = folder_of(files_of(new_model(kind_config("encoder classic"), 1)), tmp_path)
    whole = by_part(parameters(folder))
    weights = load_file(folder / "model.safetensors")
    save_file({name.removeprefix("bert.").replace("LayerNorm.weight", "LayerNorm.gamma"): weight
               for name, weight in weights.items()}, folder / "model.safetensors")  # fmt: skip
    assert by_part(parameters(folder)) == whole


def test_the_weights_may_be_in_several_files(tmp_path):
    folder = folder_of(files_of(new_encoder_decoder(pair_config("bart"), 1)), tmp_path)
    whole = parameters(folder)
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    places = {name: f"model-{1 + (number > 20)}.safetensors" for number, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: weights[name] for name in names if places[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    again = parameters(folder)
    assert (by_part(again), again["parameters"]) == (by_part(whole), whole["parameters"])
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(ArtifactError, match="the model has no file of weights") as error:
        parameters(folder)
    assert error.value.expected == "model-2.safetensors"


def test_an_artifact_and_a_table(built, tmp_path):
    found = wordpipe.show(built / "model", params=True)
    assert found["parameters"] == json.loads((built / "model" / "manifest.json").read_text())["counts"]["parameters"]
    files = {
        "model.safetensors": save({"embedding.weight": load_file(built / "model" / "model.safetensors").popitem()[1]})
    }
    static = parameters(artifact_of(files, tmp_path / "static"))
    assert static["architecture"] == "static"
    assert list(by_part(static)) == ["embeddings"]


def test_only_the_header_is_read(tmp_path):
    """What is not there behind it is not missed."""
    folder = folder_of(files_of(new_encoder_decoder(pair_config("bart"), 1)), tmp_path)
    whole = parameters(folder)
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: 8 + int.from_bytes(data[:8], "little")])
    assert parameters(folder) == whole


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, b"\x02" + b"\0" * 7 + b"[]", b'\x0a\0\0\0\0\0\0\0{"a": 1}  ',
                                  b'\x17\0\0\0\0\0\0\0{"a": {"shape": [-1]}}  '])  # fmt: skip
def test_what_is_no_model_is_refused(data, tmp_path):
    folder = folder_of(files_of(new_encoder_decoder(pair_config("bart"), 1)), tmp_path / "model")
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises((ArtifactError, InputError)):
        parameters(folder)


def test_what_holds_no_model_is_refused(built, tmp_path, cli):
    for path in (built / "tokens", tmp_path, tmp_path / "nowhere"):
        assert cli("show", path, "--params").code == 4


def test_the_command(built, tmp_path, cli):
    folder = folder_of(files_of(new_encoder_decoder(pair_config("vaswani"), 1)), tmp_path / "model")
    found = parameters(folder)
    assert json.loads(cli("show", folder, "--params", "--json").out) == found
    lines = cli("show", folder, "--params").out.splitlines()
    assert lines[0] == f"{folder}: encoder-decoder, MarianMTModel, {found['parameters']:,} weights"
    heads = [line for line in lines[1:] if not line.startswith("  ")]
    assert [line.split("  ")[0] for line in heads] == [part["part"] for part in found["parts"]]
    shares = [float(line.split()[-1].rstrip("%")) for line in heads]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert any(
        line.split()[0] == "model.decoder.layers.#.fc1.weight" and line.endswith("3 of 48 × 32 F32") for line in lines
    )
    assert cli("show", built / "model", "--params", "--rows", 2).code == 2
    assert cli("show", built / "model", "--params").code == 0
