"""`wordpipe import` of text encoders: each part of a folder against a slow twin, everything that takes a model, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from tokenizers import Tokenizer

import wordpipe
from tests.stages.test_export_encoder import word_tokenizer
from tests.support.model_artifacts import ROLES, folder_of, model_files
from wordpipe.artifacts import Artifact, Manifest
from wordpipe.encoders import UNKNOWN_PAIRS
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model import load_hf
from wordpipe.search import ELSEWHERE_UNMEASURED
from wordpipe.stages import bundled_encoder

TEXTS = ["the bees fly home", "home", "  a bee and the Hive.  ", "the the unseen the", "fly the bees home"]
DIM = 32
RANDOM = np.random.default_rng(5)
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
SLOW = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(axis=0),
    "mean": lambda states: states.mean(axis=0),
    "mean_sqrt_len_tokens": lambda states: states.sum(axis=0) / np.sqrt(len(states)),
    "weightedmean": lambda states: np.average(states, axis=0, weights=range(1, len(states) + 1)),
    "lasttoken": lambda states: states[-1],
}


@pytest.fixture(scope="module")
def bert() -> dict[str, bytes]:
    """The files of a small BERT, as transformers keeps them."""
    return model_files(word_tokenizer(ROLES).to_str().encode(), "encoder", "classic")


def files(data: dict[str, bytes], path: Path) -> Path:
    """A folder with subfolders."""
    for name, content in data.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def modules(*more: str, first: str = "Transformer") -> dict[str, bytes]:
    """modules.json of these modules; the first has the root."""
    listed = [
        {"idx": n, "name": str(n), "path": f"{n}_{name}" if n else "", "type": f"sentence_transformers.models.{name}"}
        for n, name in enumerate((first, *more))
    ]
    return {"modules.json": json.dumps(listed).encode()}


def pooling(mode: object, **more: object) -> dict[str, bytes]:
    return {"1_Pooling/config.json": json.dumps({"pooling_mode": mode, **more}).encode()}


def dense(number: int, wide: int, out: int, activation: str, *, bias: bool = True) -> tuple[dict[str, bytes], dict]:
    """The files of a dense layer, and its tensors."""
    tensors = {"linear.weight": RANDOM.standard_normal((out, wide)).astype(np.float32)}
    tensors |= {"linear.bias": RANDOM.standard_normal(out).astype(np.float32)} if bias else {}
    about = {"bias": bias, "activation_function": f"torch.nn.modules.activation.{activation}"}
    folder = f"{number}_Dense"
    return {f"{folder}/config.json": json.dumps(about).encode(), f"{folder}/model.safetensors": save(tensors)}, tensors


def imported(folder: Path, **settings: object) -> Path:
    made = wordpipe.import_words(folder, output=folder.with_name("imported"), **settings)
    assert made.kind == "model"
    return folder.with_name("imported")


def vectors_of(artifact: Path, texts: list[str] = TEXTS) -> np.ndarray:
    with wordpipe.open(artifact, "model") as encoder:
        return encoder.encode(texts)


def facts_of(artifact: Path) -> dict:
    return Manifest.from_bytes((artifact / "manifest.json").read_bytes(), where="m").facts


def prompts_of(artifact: Path) -> tuple[str | None, str | None]:
    """The prompts of queries and of texts that the manifest names."""
    facts = facts_of(artifact)
    return facts.get("query_prompt"), facts.get("text_prompt")


def states_of(data: dict[str, bytes], texts: list[str]) -> list[np.ndarray]:
    """The last hidden states of each text, one text at a time, special tokens included."""
    model, tokenizer = load_hf(data.__getitem__).language_model, Tokenizer.from_str(data["tokenizer.json"].decode())
    with torch.inference_mode():
        return [model.encode(torch.tensor([tokenizer.encode(text).ids]))[0].numpy() for text in texts]


def unit(vectors: object) -> np.ndarray:
    found = np.array(vectors)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("mode", [*MODES, ["cls", "lasttoken", "mean_sqrt_len_tokens"]], ids=str)
def test_every_pooling_and_the_layers_after_it(mode: object, bert: dict[str, bytes], tmp_path: Path) -> None:
    parts = [mode] if isinstance(mode, str) else mode
    wide = DIM * len(parts)
    layer, tensors = dense(2, wide, 12, "Tanh")
    norm = {"norm.weight": RANDOM.random(12).astype(np.float32), "norm.bias": RANDOM.random(12).astype(np.float32)}
    more = modules("Pooling", "Dense", "LayerNorm", "Normalize") | pooling(mode) | layer
    folder = files(bert | more | {"3_LayerNorm/model.safetensors": save(norm)}, tmp_path / "folder")
    artifact = imported(folder)
    pooled = [np.concatenate([SLOW[part](states) for part in parts]) for states in states_of(bert, TEXTS)]
    x = np.tanh(np.array(pooled) @ tensors["linear.weight"].T + tensors["linear.bias"])
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    expected = unit(x * norm["norm.weight"] + norm["norm.bias"])
    np.testing.assert_allclose(vectors_of(artifact), expected, atol=3e-6)
    assert facts_of(artifact)["dim"] == 12


def test_flags_of_old_folders_say_the_pooling(bert: dict[str, bytes], tmp_path: Path) -> None:
    flags = {"1_Pooling/config.json": b'{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}'}
    artifact = imported(files(bert | modules("Pooling") | flags, tmp_path / "folder"))
    np.testing.assert_allclose(
        vectors_of(artifact), unit([states.max(axis=0) for states in states_of(bert, TEXTS)]), atol=3e-6
    )
    assert facts_of(artifact)["pooling"] == "max"


def test_a_prompt_stands_before_texts_and_another_before_queries(bert: dict[str, bytes], tmp_path: Path) -> None:
    about = {"prompts": {"query": "bee: ", "passage": "hive ", "other": "x"}}
    more = modules("Pooling") | {"config_sentence_transformers.json": json.dumps(about).encode()}
    folder = files(bert | more, tmp_path / "folder")
    artifact = imported(folder)
    assert prompts_of(artifact) == ("bee: ", "hive ")
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n".join(TEXTS))
    wordpipe.embed(artifact, corpus, output=tmp_path / "sentences")
    with Artifact(tmp_path / "sentences") as sentences:
        encoder = bundled_encoder(sentences)
    for read, prompt in ((encoder, "hive "), (encoder.for_queries, "bee: ")):
        expected = unit([one.mean(axis=0) for one in states_of(bert, [prompt + text for text in TEXTS])])
        np.testing.assert_allclose(read.encode(TEXTS).vectors, expected, atol=3e-6)
        many = read.encode(TEXTS * 60).vectors  # by the compiled tokenizer
        np.testing.assert_allclose(many[: len(TEXTS)], expected, atol=3e-6)
        parts = read.parts(TEXTS[0])
        np.testing.assert_allclose(parts.vectors.sum(axis=0), expected[0], atol=3e-6)
        assert [TEXTS[0][start:stop] for start, stop in parts.spans[:4]] == TEXTS[0].split()
    assert encoder.encode([""]).empty[0]
    again = imported(folder.rename(tmp_path / "again"), query_prompt="", text_prompt="fly ")
    assert prompts_of(again) == (None, "fly ")


def test_a_long_text_is_read_in_windows_of_the_folder_and_a_short_one_as_it_is(
    bert: dict[str, bytes], tmp_path: Path
) -> None:
    said = {"sentence_bert_config.json": b'{"max_seq_length": 8, "do_lower_case": true}'}
    artifact = imported(files(bert | modules("Pooling") | said, tmp_path / "folder"))
    words = ["the", "bees", "fly", "home", "a", "bee", "and", "the", "hive"]
    windows = states_of(bert, [" ".join(words[:6]), " ".join(words[3:])])  # with half a window of overlap
    whole = (windows[0].mean(axis=0) + windows[1].mean(axis=0)) / 2
    np.testing.assert_allclose(vectors_of(artifact, [" ".join(words)]), unit([whole]), atol=3e-6)
    assert facts_of(artifact)["max_len"] == 8


def test_case_is_folded_where_the_folder_says_so(bert: dict[str, bytes], tmp_path: Path) -> None:
    tokenizer = word_tokenizer(ROLES)
    tokenizer.normalizer = None
    own = Tokenizer.from_str(bert["tokenizer.json"].decode())
    tokenizer.post_processor = own.post_processor
    kept = bert | {"tokenizer.json": tokenizer.to_str().encode()}
    for lower in (False, True):
        said = {"sentence_bert_config.json": json.dumps({"do_lower_case": lower}).encode()}
        artifact = imported(files(kept | modules("Pooling") | said, tmp_path / str(lower) / "folder"))
        pair = vectors_of(artifact, ["The Bees", "the bees"])
        assert bool(np.abs(pair[0] - pair[1]).max() < 1e-6) is lower


@pytest.mark.parametrize("with_head", [False, True])
def test_a_plain_folder_of_transformers_is_averaged(with_head: bool, bert: dict[str, bytes], tmp_path: Path) -> None:
    weights = {name: one for name, one in load(bert["model.safetensors"]).items() if with_head or name[:3] != "cls"}
    folder = files(bert | {"model.safetensors": save(weights)}, tmp_path / "folder")
    artifact = imported(folder)
    np.testing.assert_allclose(
        vectors_of(artifact), unit([one.mean(axis=0) for one in states_of(bert, TEXTS)]), atol=3e-6
    )
    facts = facts_of(artifact)
    assert (facts["has_head"], "pairs" in facts) == (with_head, False)
    stored = load((artifact / "model.safetensors").read_bytes())
    assert any(name.startswith("cls.") for name in stored) is with_head
    if with_head:
        assert wordpipe.fill(artifact, "the [MASK]").text.startswith("the ")
    else:
        with pytest.raises(ArtifactError, match="has no output head, because the imported folder has none"):
            wordpipe.fill(artifact, "the [MASK]")


def test_a_roberta_is_read_as_the_bert_that_it_is(bert: dict[str, bytes], tmp_path: Path) -> None:
    renamed = {"cls.predictions.transform.dense": "lm_head.dense", "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
               "cls.predictions.bias": "lm_head.bias", "bert.": "roberta."}  # fmt: skip
    weights = {}
    for name, one in load(bert["model.safetensors"]).items():
        for old, new in renamed.items():
            name = name.replace(old, new)
        weights[name] = np.concatenate([np.full((2, DIM), 9, np.float32), one]) if "position_emb" in name else one
    values = json.loads(bert["config.json"]) | {
        "model_type": "roberta",
        "pad_token_id": 1,
        "max_position_embeddings": 50,
    }
    changed = {"model.safetensors": save(weights), "config.json": json.dumps(values).encode()}
    artifact = imported(files(bert | changed, tmp_path / "folder"))
    np.testing.assert_allclose(
        vectors_of(artifact), unit([one.mean(axis=0) for one in states_of(bert, TEXTS)]), atol=3e-6
    )
    assert json.loads((artifact / "config.json").read_bytes())["model_type"] == "bert"


TABLE = RANDOM.standard_normal((word_tokenizer({}).get_vocab_size(), 6)).astype(np.float32)


def table_vectors(table: np.ndarray, *, unknown: bool = True) -> np.ndarray:
    rows = [[n for n in one.ids if unknown or n != 0] for one in word_tokenizer({}).encode_batch(TEXTS)]
    return unit([table[ids].mean(axis=0) for ids in rows])


def test_a_static_embedding_is_averaged_and_projected(tmp_path: Path) -> None:
    layer, tensors = dense(2, 6, 4, "Identity", bias=False)
    data = {
        "tokenizer.json": word_tokenizer({}).to_str().encode(),
        "model.safetensors": save({"embedding.weight": TABLE}),
    }
    folder = files(data | modules("Normalize", "Dense", first="StaticEmbedding") | layer, tmp_path / "folder")
    artifact = imported(folder)
    expected = unit(table_vectors(TABLE) @ tensors["linear.weight"].T)
    np.testing.assert_allclose(vectors_of(artifact), expected, atol=2e-6)


def test_a_table_of_model2vec_has_shared_rows_and_weights(tmp_path: Path) -> None:
    rows = RANDOM.integers(0, 5, len(TABLE))
    weights = RANDOM.random(len(TABLE))
    tensors = {"embeddings": TABLE[:5].astype(np.float16), "mapping": rows.astype(np.int64), "weights": weights}
    data = {"tokenizer.json": word_tokenizer({}).to_str().encode(), "model.safetensors": save(tensors)}
    folder = files(data | {"config.json": b'{"model_type": "model2vec", "normalize": true}'}, tmp_path / "folder")
    whole = TABLE[:5].astype(np.float16).astype(np.float32)[rows] * weights.astype(np.float32)[:, None]
    np.testing.assert_allclose(vectors_of(imported(folder)), table_vectors(whole, unknown=False), atol=2e-6)


def test_the_licence_and_the_origin_are_kept(bert: dict[str, bytes], tmp_path: Path) -> None:
    card = b"---\r\nlanguage: en\r\nlicense: 'mit'\r\nbase_model: some/model\r\n---\r\n# A model\r\nlicense: none\r\n"
    artifact = imported(files(bert | modules("Pooling") | {"README.md": card}, tmp_path / "folder"))
    facts = facts_of(artifact)
    assert (facts["origin"], facts["licence"], facts["made_from"]) == ("folder", "mit", "some/model")
    (tmp_path / "folder" / "README.md").unlink()
    made = wordpipe.import_words(tmp_path / "folder", output=tmp_path / "other")
    assert facts_of(tmp_path / "other")["licence"] is None
    assert any("does not say its licence" in warning for warning in made.warnings)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    wordpipe.embed(artifact, tmp_path / "texts.txt", output=tmp_path / "sentences")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    for made_of_it in ("sentences", "index"):
        encoder = facts_of(tmp_path / made_of_it)["encoder"]
        assert (encoder["origin"], encoder["licence"]) == ("folder", "mit")


def test_index_query_and_a_classifier_take_it(bert: dict[str, bytes], tmp_path: Path, cli) -> None:
    folder = files(bert | modules("Pooling", "Normalize"), tmp_path / "folder")
    result = cli("import", folder, "-o", tmp_path / "run" / "encoder", "--json")
    assert result.code == 0, result.err
    made = json.loads(result.out)
    stored = load((tmp_path / "run/encoder/model.safetensors").read_bytes())
    n_stored = sum(one.size for name, one in stored.items())
    assert (made["kind"], made["counts"]["parameters"]) == ("model", n_stored)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 4))
    assert cli("embed", tmp_path / "run/encoder", tmp_path / "texts.txt", "-o", tmp_path / "run/sentences").code == 0
    assert cli("index", tmp_path / "run/sentences", "-o", tmp_path / "run/index").code == 0
    found = cli("query", tmp_path / "run/index", "bees fly home", "--mode", "dense", "--json", "-k", "1")
    assert json.loads(found.out)["text"] in ("the bees fly home", "fly the bees home")
    # its vectors have their share whatever the question's length, unless the asker says another
    about = facts_of(tmp_path / "run/index")["lexical"]
    assert (about["measured"], about["weight"]) == (None, ELSEWHERE_UNMEASURED)  # of so few texts
    for asked, weight in (({}, ELSEWHERE_UNMEASURED), ({"weight": 0.25}, 0.25)):
        (hit,) = wordpipe.query(tmp_path / "run/index", "the bees fly home", k=1, mode="hybrid", explain=True, **asked)
        assert hit["explain"]["dense"]["weight"] == weight
    exported = cli("export", tmp_path / "run/sentences", "--to", "sentence-transformers", "-o", tmp_path / "out")
    assert exported.code == 0, exported.err
    np.testing.assert_allclose(vectors_of(imported(tmp_path / "out")), vectors_of(tmp_path / "run/encoder"), atol=3e-6)


def test_a_pipeline_imports_an_encoder(bert: dict[str, bytes], tmp_path: Path, cli) -> None:
    files(bert | modules("Pooling"), tmp_path / "folder")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    (tmp_path / "wordpipe.toml").write_text(
        '[stage.encoder]\ncommand = "import"\ninputs = ["folder"]\n'
        '[stage.corpus]\ncommand = "ingest"\ninputs = ["texts.txt"]\n'
        '[stage.sentences]\ncommand = "embed"\ninputs = ["encoder", "corpus"]\n'
    )
    result = cli("run", tmp_path / "wordpipe.toml")
    assert result.code == 0, result.err
    assert "nothing" in cli("run", tmp_path / "wordpipe.toml").err


REFUSED = {
    "a pickle": ({"model.safetensors": None, "pytorch_model.bin": b"x"}, "does not open pickle files"),
    "its own code": ({"modules.json": b'[{"type": "mine.Model", "path": ""}]'}, "got mine.Model"),
    "another module": (modules("CNN"), "got CNN"),
    "another first module": (modules(first="BoW"), "got BoW"),
    "another pooling": (modules("Pooling") | pooling("median"), "got pooling_mode"),
    "a prompt that is not pooled": (
        modules("Pooling") | pooling("mean", include_prompt=False)
        | {"config_sentence_transformers.json": b'{"prompts": {"query": "q: "}}'}, "include_prompt"),
    "a residual": (
        modules("Pooling", "Dense") | dense(2, DIM, DIM, "Tanh")[0] | {"2_Dense/config.json": b'{"use_residual": true}'},
        "use_residual"),
    "an unknown activation": (modules("Pooling", "Dense") | dense(2, DIM, 4, "Mish")[0], "activation_function Mish"),
    "a layer of another width": (modules("Pooling", "Dense") | dense(2, 8, 4, "Tanh")[0], "another width; got 8"),
    "a layer without weights": (modules("Pooling", "Dense"), "no weights in a format"),
    "weights before another pooling": (
        modules("WordWeights", "Pooling") | pooling("cls")
        | {"1_WordWeights/model.safetensors": save({"emb_layer.weight": np.ones((24, 1), np.float32)}),
           "2_Pooling/config.json": b'{"pooling_mode": "cls"}'}, "WordWeights"),
    "an unknown model": ({"config.json": b'{"model_type": "deberta-v2"}'}, "got 'deberta-v2'"),
    "no modules": ({"modules.json": b"{}"}, "not a list of modules"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_named(case: str, bert: dict[str, bytes], tmp_path: Path) -> None:
    changes, message = REFUSED[case]
    folder = files({name: data for name, data in (bert | changes).items() if data is not None}, tmp_path / "folder")
    with pytest.raises(ArtifactError, match=message):
        imported(folder)
    assert not (tmp_path / "imported").exists()


def test_a_folder_that_was_not_imported_says_how(bert: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    with pytest.raises(ArtifactError) as caught:
        wordpipe.embed(folder_of(bert, tmp_path / "folder"), tmp_path / "texts.txt", output=tmp_path / "sentences")
    assert "wordpipe import " in caught.value.hint


@pytest.mark.parametrize("given", ["hub", "hub/models/tiny", "hub/gone", "hub/models/tiny/snapshots/other"])
def test_a_folder_near_the_encoder_says_where_it_is(given: str, bert: dict[str, bytes], tmp_path: Path) -> None:
    there = files(bert | modules("Pooling"), tmp_path / "hub/models/tiny/snapshots/one")
    with pytest.raises(InputError) as caught:
        imported(tmp_path / given)
    assert f"wordpipe import {there} -o ENCODER" in caught.value.hint
    with pytest.raises(InputError, match="safetensors") as caught:
        wordpipe.import_words(there / "model.safetensors", output=tmp_path / "imported")
    assert "give the folder" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\x10", "the file is cut short"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90868376\n", "pointer of Git LFS"),
        (b"<!DOCTYPE html><title>404</title>" * 9, "not a safetensors file"),
    ],
)
def test_weights_that_are_not_whole_say_so(data: bytes, message: str, bert: dict[str, bytes], tmp_path: Path) -> None:
    whole = bert["model.safetensors"]
    with pytest.raises(ArtifactError, match=message) as caught:
        imported(files(bert | {"model.safetensors": data}, tmp_path / "folder"))
    assert caught.value.hint
    for length in (9, 60, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ArtifactError, match="the file is cut short") as caught:
            imported(files(bert | {"model.safetensors": whole[:length]}, tmp_path / f"folder-{length}"))
    assert (caught.value.got, caught.value.expected) == (f"{len(whole) - 1:,} bytes", f"{len(whole):,} bytes")


def test_settings_of_words_are_refused(bert: dict[str, bytes], tmp_path: Path) -> None:
    folder = folder_of(bert, tmp_path / "folder")
    with pytest.raises(ConfigError, match="limit is a setting for word vectors"):
        imported(folder, limit=3)
    with pytest.raises(ArtifactError, match="already an artifact"):
        imported(imported(folder))


def test_the_root_of_a_folder_may_be_a_point(bert: dict[str, bytes], tmp_path: Path) -> None:
    plain = modules("Pooling")
    pointed = {"modules.json": plain["modules.json"].replace(b'"path": ""', b'"path": "."')}
    assert pointed != plain
    one, other = (
        vectors_of(imported(files(bert | listed, tmp_path / name / "folder")))
        for name, listed in (("plain", plain), ("pointed", pointed))
    )
    np.testing.assert_array_equal(one, other)


def test_trainings_start_from_it_and_learn_from_it(bert: dict[str, bytes], tmp_path: Path) -> None:
    artifact = imported(files(bert | modules("Pooling"), tmp_path / "folder"))
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS * 12))
    corpus = wordpipe.ingest(tmp_path / "texts.txt", output=tmp_path / "corpus", documents="block", deduplicate=False)
    tokens = wordpipe.tokenize(corpus, output=tmp_path / "tokens", tokenizer=artifact)
    taught = {"steps": 2, "batch_size": 4, "device": "cpu", "threads": 1}
    going_on = wordpipe.train_contrastive(tokens, output=tmp_path / "on", init=artifact, **taught)
    learned = wordpipe.train_contrastive(
        tokens, output=tmp_path / "learned", teacher=artifact, dim=32, n_layers=1, **taught
    )
    before = vectors_of(artifact)
    assert [facts_of(Path(one.path))["pairs"][0] == UNKNOWN_PAIRS for one in (going_on, learned)] == [True, False]
    assert vectors_of(Path(going_on.path)).shape == before.shape
    assert 0 < np.abs(vectors_of(Path(going_on.path)) - before).max() < 0.3  # two steps from where it stood
    assert vectors_of(Path(learned.path)).shape[0] == len(TEXTS)
    masked = wordpipe.train_mlm(tokens, output=tmp_path / "masked", init=artifact, **taught)
    assert masked.kind == "model"
