"""Heads give the scores of the classes of transformers, from their folders and ours, packed and padded."""

import json

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from tests.support.variants import some_of
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    HeadConfig,
    HeadedModel,
    headed_class,
    is_headed,
    load_headed,
    load_hf,
    new_model,
    pack,
    save_headed,
    start_headed,
)

BODIES = {
    "modernbert": ("encoder", "modern", {}),
    "bert": ("encoder", "classic", {}),
    "llama": ("decoder", "modern", {}),
    "mistral": ("decoder", "modern", {"windows": (5, 5, 5)}),
    "gpt2": ("decoder", "classic", {}),
    "own": ("encoder", "modern", {"positions": "alibi"}),
}
HEADS = {
    "sequence": HeadConfig("sequence", ("a", "b", "c")),
    "token": HeadConfig("token", ("B-x", "I-x", "O")),
    "span": HeadConfig("span"),
}


def headed(body, kind, seed=1, **changes):
    architecture, style, parts = BODIES[body]
    torch.manual_seed(seed)
    model = start_headed(new_model(small_config(architecture, style, **parts, **changes), seed), HEADS[kind], seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model.eval()


def batch(seed):
    """Ids of texts of several lengths, padded at their end, and where they are real."""
    random = np.random.default_rng(seed)
    lengths = [12, 5, 9, 12]
    texts = [random.integers(7, 96, length) for length in lengths]
    ids = np.zeros((4, 12), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    return torch.from_numpy(ids), torch.arange(12) < torch.tensor(lengths)[:, None], texts


def write(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_headed(model, lambda name, data: (folder / name).write_bytes(data))
    return folder


def read(folder):
    return load_headed(lambda name: (folder / name).read_bytes(), {path.name for path in folder.iterdir()})


def theirs(model, ids, mask, **more):
    with torch.inference_mode():
        found = model(input_ids=ids, attention_mask=mask.long(), **more)
    return torch.stack((found.start_logits, found.end_logits), -1) if "start_logits" in found else found.logits


def real(scores, mask):
    return scores if scores.ndim == 2 else scores[mask]


@pytest.mark.landing
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("body", [body for body in BODIES if body != "own"])
def test_scores_equal_those_of_transformers_in_both_directions(tmp_path, body, kind):
    import transformers

    model, (ids, mask, _) = headed(body, kind), batch(3)
    name = headed_class(model.language_config, kind)
    peer = getattr(transformers, name).from_pretrained(write(model, tmp_path / "ours")).eval()
    with torch.inference_mode():
        ours = model.scores(ids, mask)
    assert torch.allclose(real(ours, mask), real(theirs(peer, ids, mask), mask), atol=2e-5)

    with torch.no_grad():
        for weight in peer.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    peer.save_pretrained(tmp_path / "theirs")
    again = read(tmp_path / "theirs")
    assert again.model.head_config.labels == HEADS[kind].labels
    with torch.inference_mode():
        scores = again.model.scores(ids, mask)
    assert torch.allclose(real(scores, mask), real(theirs(peer, ids, mask), mask), atol=2e-5)


@pytest.mark.parametrize(("kind", "body", "multiple"), some_of(HEADS, BODIES, [1, 4]))
def test_packed_texts_have_the_scores_of_padded_ones(body, kind, multiple):
    model, (ids, mask, texts) = headed(body, kind), batch(5)
    packed = pack(np.concatenate(texts), np.array([len(text) for text in texts]), multiple=multiple)
    with torch.inference_mode():
        wanted, found = model.scores(ids, mask), model.scores_packed(packed)
    if kind == "sequence":
        assert torch.allclose(found, wanted[packed.order], atol=1e-5)
        return
    runs, place = packed.runs(found), 0
    for run in runs:
        for row in run:
            text = packed.order[place]
            length = len(texts[text])
            assert torch.allclose(row[:length], wanted[text, :length], atol=1e-5)
            place += 1


@pytest.mark.landing
def test_segments_of_pairs_count_as_in_transformers(tmp_path):
    import transformers

    model, (ids, mask, texts) = headed("bert", "sequence"), batch(7)
    segments = (torch.arange(12)[None] >= 4).long().expand(4, -1) * mask
    peer = transformers.BertForSequenceClassification.from_pretrained(write(model, tmp_path)).eval()
    wanted = theirs(peer, ids, mask, token_type_ids=segments)
    packed = pack(np.concatenate(texts), np.array([len(text) for text in texts]))
    flat = pack(np.concatenate([(np.arange(len(text)) >= 4) for text in texts]).astype(np.int64),
                np.array([len(text) for text in texts]))  # fmt: skip
    with torch.inference_mode():
        assert torch.allclose(model.scores(ids, mask, segments), wanted, atol=2e-5)
        assert torch.allclose(model.scores_packed(packed, flat.ids), wanted[packed.order], atol=2e-5)
        assert not torch.allclose(model.scores(ids, mask), wanted, atol=1e-3)


@pytest.mark.landing
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling_of_modernbert(tmp_path, pooling):
    import transformers

    base = new_model(small_config("encoder"), 1)
    model = start_headed(base, HeadConfig("sequence", ("a", "b"), pooling=pooling), 1).eval()
    ids, mask, _ = batch(9)
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(write(model, tmp_path)).eval()
    with torch.inference_mode():
        assert torch.allclose(model.scores(ids, mask), theirs(peer, ids, mask), atol=2e-5)
    assert read(tmp_path).model.head_config.pooling == pooling


@pytest.mark.landing
@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_what_the_labels_mean_is_kept(tmp_path, problem):
    import transformers

    labels = ("score",) if problem == "regression" else ("ä", "<b>")
    model = start_headed(new_model(small_config("encoder"), 1), HeadConfig("sequence", labels, problem), 1)
    found = read(write(model, tmp_path)).model.head_config
    assert (found.labels, found.problem) == (labels, problem)
    peer = transformers.AutoConfig.from_pretrained(tmp_path)
    assert peer.problem_type == {"regression": "regression"}.get(problem, f"{problem}_classification")
    assert [peer.id2label[place] for place in range(len(labels))] == [*labels]


@pytest.mark.parametrize("body", BODIES)
def test_a_start_keeps_the_body_and_draws_the_head_by_its_seed(body):
    architecture, style, parts = BODIES[body]
    base = new_model(small_config(architecture, style, **parts), 3)
    one, same, other = (start_headed(base, HEADS["token"], seed) for seed in (1, 1, 2))
    kept = dict(base.named_parameters())
    for name, weight in one.named_parameters():
        if name.startswith("classifier"):
            assert torch.equal(weight, dict(same.named_parameters())[name])
        else:
            assert torch.equal(weight, kept[name])
    assert not torch.equal(one.classifier.weight, other.classifier.weight)
    assert float(one.classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.4)


def test_our_own_format_is_read_again(tmp_path):
    model, (ids, mask, _) = headed("own", "token"), batch(2)
    again = read(write(model, tmp_path))
    with torch.inference_mode():
        assert torch.equal(model.scores(ids, mask), again.model.scores(ids, mask))
    assert headed_class(model.language_config, "token") is None


def test_a_head_starts_from_another_heads_body():
    model = headed("modernbert", "token")
    other = start_headed(model, HEADS["sequence"], 1)
    assert torch.equal(other.blocks[0].attention.qkv.weight, model.blocks[0].attention.qkv.weight)
    assert other.classifier.weight.shape == (3, 32)


@pytest.mark.landing
def test_folders_without_labels_mean_what_transformers_means(tmp_path):
    import transformers

    config = transformers.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=24,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert is_headed(values)
    assert "id2label" not in values
    assert read(tmp_path).model.head_config.labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id2label": {"0": "a"}}, "wrong shape"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label"),
        ({"id2label": {"0": "a", "1": 3}}, "id2label"),
        ({"id2label": ["a", "b"]}, "id2label"),
        ({"id2label": {}}, "labels"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "the same name"),
        ({"problem_type": "guess"}, "problem_type"),
        ({"problem_type": "regression"}, "labels"),
        ({"classifier_pooling": "last"}, "cannot use this pooling"),
        ({"classifier_pooling": 3}, "classifier_pooling"),
        ({"id2label": None, "num_labels": "many"}, "num_labels"),
        ({"architectures": ["ModernBertForMaskedLM"]}, "architectures"),
        ({"architectures": []}, "architectures"),
        ({"architectures": "ModernBertForTokenClassification"}, "architectures"),
    ],
)
def test_forged_configs_are_named(tmp_path, changes, says):
    folder = write(headed("modernbert", "sequence"), tmp_path)
    values = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=says):
        read(folder)


def test_a_head_that_no_model_has():
    with pytest.raises(ConfigError, match="number of labels"):
        HeadConfig("sequence", ("a", "b"), "regression")
    with pytest.raises(ConfigError, match="the same name"):
        HeadConfig("token", ("a", "a"))
    with pytest.raises(ConfigError, match="cannot use this pooling"):
        HeadedModel(small_config("decoder"), HeadConfig("sequence", ("a", "b"), pooling="cls"))


def test_a_folder_with_a_head_is_no_language_model(tmp_path):
    folder = write(headed("modernbert", "token"), tmp_path)
    names = {path.name for path in folder.iterdir()}
    found = load_hf(lambda name: (folder / name).read_bytes(), names - {"x"}, allow_missing_head=True)
    assert any("initialised at random" in note for note in found.notes)
    assert any("classifier" in note for note in found.notes)
