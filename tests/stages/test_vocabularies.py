"""A vocabulary for each side of pairs: from two texts to two tokenizers, a model that has both, and what it writes."""

import json
import shutil
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

import wordpipe
from tests.conftest import TINY
from tests.support.forged import forge_file
from tests.support.results import manifest
from tests.support.small_shards import SMALL
from wordpipe.artifacts import Artifact, read_batches, tables
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.pipeline import Pipeline
from wordpipe.stages.corpus import tokenize_shards
from wordpipe.tokens.settings import TokenizeSettings

QUICK = TINY | {"threads": 1, "dtype": "float32", "batch_size": 8, "steps": 3, "device": "cpu", "seq_len": 48}
SHAPE = ("dim", "n_layers", "n_heads", "ffn_dim", "preset")
WORDS = "sea tide moon coast water north south ship light stone".split()  # noqa: SIM905
SEPARATE = {"vocab_size": 340, "vocabulary": "separate"}
ONLY_TARGETS = "ταμ"
AS_A_FOLDER = shutil.ignore_patterns("manifest.json", "steps.parquet", "optimiser.safetensors", "training.json")


def pair(i):
    words = [WORDS[(i * k + k) % len(WORDS)] for k in range(1, 3 + i % 6)]
    return f"{i} " + " ".join(words), " ".join(word[::-1].upper() for word in words) + f" {ONLY_TARGETS} {i}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs in several row groups, and each side of them alone."""
    root = tmp_path_factory.mktemp("pairs")
    rows = [dict(zip(("text", "text_b"), pair(i), strict=True)) for i in range(240)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
        wordpipe.ingest(rows, output=root / "corpus", text_b="text_b", valid=0.2)
    for side in ("text", "text_b"):
        wordpipe.ingest([{"text": row[side]} for row in rows], output=root / side, newline="space")
    return root / "corpus"


@pytest.fixture(scope="module")
def tokens(corpus):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)
        wordpipe.tokenize(corpus, output=corpus.parent / "tokens", **SEPARATE)
    return corpus.parent / "tokens"


@pytest.fixture(scope="module")
def model(tokens):
    """A translator, further from its beginning than a few steps take it."""
    trained(tokens, tokens.parent / "model", steps=60, lr=5e-3)
    return tokens.parent / "model"


def trained(tokens, output, **settings):
    values = {name: value for name, value in QUICK.items() if "init" not in settings or name not in SHAPE}
    style = {} if "init" in settings else {"style": "vaswani"}
    return wordpipe.train_seq2seq(tokens, output=output, **values | style | settings)


def rows_of(path, stem=None):
    with Artifact(path) as artifact:
        return [row for batch in read_batches(artifact, stem or artifact.kind) for row in batch.to_pylist()]


def both(folder):
    return [(folder / name).read_bytes() for name in ("tokenizer.json", "tokenizer_b.json")]


# ---- tokens


@pytest.mark.parametrize("algorithm", ["bpe", pytest.param("unigram", marks=pytest.mark.slow), "wordpiece"])
def test_each_side_learns_from_its_own_texts_alone(corpus, tmp_path, algorithm):
    settings = {"vocab_size": 320, "algorithm": algorithm}
    wordpipe.tokenize(corpus, output=tmp_path / "both", vocabulary="separate", **settings)
    for side, suffix in (("text", ""), ("text_b", "_b")):
        wordpipe.tokenize(corpus.parent / side, output=tmp_path / side, **settings)
        alone, together = tmp_path / side, tmp_path / "both"
        assert (together / f"tokenizer{suffix}.json").read_bytes() == (alone / "tokenizer.json").read_bytes()
        assert rows_of(together, f"counts{suffix}") == rows_of(alone, "counts")
        assert manifest(together)["counts"][f"pretokens{suffix}"] == manifest(alone)["counts"]["pretokens"]


def test_ids_of_either_side_are_those_of_its_tokenizer(corpus, tokens):
    first, second = (Tokenizer.from_str(data.decode()) for data in both(tokens))
    texts, rows = rows_of(corpus), rows_of(tokens)
    assert len(list(tokens.glob("tokens-*.parquet"))) > 1
    for text, row in zip(texts, rows, strict=True):
        assert row["ids"] == first.encode(text["text"], add_special_tokens=False).ids
        assert row["ids_b"] == second.encode(text["text_b"], add_special_tokens=False).ids
    assert "Ġsea" in first.get_vocab()
    assert "Ġsea" not in second.get_vocab()
    facts, counts = manifest(tokens)["facts"], manifest(tokens)["counts"]
    assert (facts["vocab_size"], facts["vocab_size_b"]) == (first.get_vocab_size(), second.get_vocab_size())
    assert counts["tokens_b"] == sum(len(row["ids_b"]) for row in rows)


@pytest.mark.slow
def test_ids_are_as_wide_as_the_larger_vocabulary_needs(corpus, tokens, tmp_path):
    """Tokenizers with numbers far above those of the other side, as others may give them."""
    shutil.copytree(tokens, tmp_path / "wide")
    values = json.loads((tmp_path / "wide" / "tokenizer_b.json").read_text())
    token = max(values["model"]["vocab"], key=values["model"]["vocab"].get)
    merged = [merge for merge in values["model"]["merges"] if "".join(merge) == token]
    assert merged, "the last token is made by a merge"
    values["model"]["vocab"] |= {f"<{i}>": i for i in range(len(values["model"]["vocab"]), 66_000)}
    values["model"]["vocab"][token] = 66_000
    values["model"]["vocab"]["<in its place>"] = len(Tokenizer.from_str(both(tokens)[1].decode()).get_vocab()) - 1
    forge_file(tmp_path / "wide", "tokenizer_b.json", json.dumps(values).encode())
    made = wordpipe.tokenize(corpus, output=tmp_path / "made", tokenizer=tmp_path / "wide")
    second = Tokenizer.from_file(str(tmp_path / "wide" / "tokenizer_b.json"))
    rows = rows_of(made)
    assert max(max(row["ids_b"]) for row in rows) == 66_000
    for text, row in zip(rows_of(corpus), rows, strict=True):
        assert row["ids_b"] == second.encode(text["text_b"], add_special_tokens=False).ids
    made = trained(tmp_path / "made", tmp_path / "model", steps=1)
    assert made.counts["tokens_train"] > 0


@pytest.mark.landing
def test_killed_runs_continue_to_the_same_bytes(corpus, tokens, nursery, tmp_path):
    output = tmp_path / "tokens"
    call = ("tests.support.small_shards:tokenize", str(corpus), str(output), json.dumps(SEPARATE))
    n_shards, trained_at = len([*tokens.glob("tokens-*.parquet")]), []
    of_counts = 4 * n_shards  # of each shard the pre-tokens of both sides, the words, and that it is counted
    for nth in (3, of_counts + 1, 2, 2, 1):
        process = nursery.start(*call, WORDPIPE_FAILPOINT=f"resume_cache.file_finished:kill:{nth}")
        assert process.wait() == -signal.SIGKILL
        assert not output.exists()
        trained_at.append(len([*(tmp_path / ".tokens.partial").glob("tokenizer*.json.json")]))
    assert trained_at == [0, 0, 1, 2, 2], "killed before, between and after the training of the two"
    assert nursery.start(*call).wait() == 0
    assert wordpipe.verify(output)["digest"] == wordpipe.verify(tokens)["digest"]
    assert not (tmp_path / ".tokens.partial").exists()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_bytes_do_not_depend_on_workers_or_memory(corpus, tokens, tmp_path, monkeypatch, workers):
    run = wordpipe.RunOptions(workers=workers)
    monkeypatch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", run=run, memory="70MB", **SEPARATE)
    assert wordpipe.verify(made)["digest"] == wordpipe.verify(tokens)["digest"]


def test_another_size_is_trained_from_the_counts_of_both_sides(corpus, tokens, tmp_path):
    wordpipe.tokenize(corpus, output=tmp_path / "a", vocab_size=310, counts=tokens)
    wordpipe.tokenize(corpus, output=tmp_path / "b", vocab_size=310, vocabulary="separate")
    assert both(tmp_path / "a") == both(tmp_path / "b") != both(tokens)
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    wordpipe.tokenize(corpus.parent / "text", output=tmp_path / "one", vocab_size=310, counts=tokens)
    assert (tmp_path / "one" / "tokenizer.json").read_bytes() == both(tmp_path / "a")[0]
    assert not (tmp_path / "one" / "tokenizer_b.json").exists()
    with pytest.raises(ConfigError, match="the counts were made with another value of this setting") as caught:
        wordpipe.tokenize(corpus, output=tmp_path / "c", counts=tokens, vocabulary="joint")
    assert (caught.value.where, caught.value.got) == ("vocabulary", "joint")
    wordpipe.tokenize(corpus, output=tmp_path / "joint", vocab_size=310)
    with pytest.raises(ConfigError, match="the counts were made with another value of this setting"):
        wordpipe.tokenize(corpus, output=tmp_path / "c", counts=tmp_path / "joint", vocabulary="separate")


def test_a_pre_tokenizer_suits_the_scripts_of_its_side(tmp_path):
    rows = [{"text": f"the sea is wide {i}", "text_b": f"समुद्र चौड़ा है {i}"} for i in range(60)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", text_b="text_b")
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "t", **SEPARATE)
    facts = manifest(tmp_path / "t")["facts"]
    assert (facts["pretokenizer"], facts["pretokenizer_b"]) == ("gpt2", "marks")
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "u", vocab_size=310, counts=tmp_path / "t")
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "v", vocab_size=310, vocabulary="separate")
    assert both(tmp_path / "u") == both(tmp_path / "v")


@pytest.mark.slow
def test_given_tokenizers_encode_each_its_side(corpus, tokens, model, tmp_path):
    for number, given in enumerate((tokens, model)):
        made = wordpipe.tokenize(corpus, output=tmp_path / str(number), tokenizer=given)
        assert rows_of(made) == rows_of(tokens)
    shutil.copytree(model, tmp_path / "folder", ignore=AS_A_FOLDER)
    made = wordpipe.tokenize(corpus, output=tmp_path / "of a folder", tokenizer=tmp_path / "folder")
    assert rows_of(made) == rows_of(tokens)
    (tmp_path / "folder" / "target" / "tokenizer.json").write_bytes(both(tokens)[0])
    other = wordpipe.tokenize(corpus, output=tmp_path / "other", tokenizer=tmp_path / "folder")
    assert other.recipe != made.recipe, "the second tokenizer is a part of what is given"
    one = wordpipe.tokenize(corpus.parent / "text", output=tmp_path / "one", tokenizer=tokens)
    assert [row["ids"] for row in rows_of(one)] == [row["ids"] for row in rows_of(tokens)]
    assert not (tmp_path / "one" / "tokenizer_b.json").exists()
    made = wordpipe.tokenize(corpus, output=tmp_path / "by a file", tokenizer=tokens / "tokenizer.json")
    assert not (tmp_path / "by a file" / "tokenizer_b.json").exists()


def test_what_cannot_be_combined_is_refused(corpus, tokens, built, tmp_path):
    with pytest.raises(ConfigError, match="has single texts, not pairs") as caught:
        wordpipe.tokenize(built / "corpus", output=tmp_path / "t", **SEPARATE)
    assert caught.value.where == "vocabulary"
    assert "--text-b" in caught.value.hint
    with pytest.raises(ConfigError, match="leave out vocabulary"):
        wordpipe.tokenize(corpus, output=tmp_path / "t", tokenizer=tokens, vocabulary="separate")


def test_a_joint_vocabulary_is_the_usual_recipe():
    assert TokenizeSettings(vocabulary="joint").recipe() == TokenizeSettings().recipe()
    assert TokenizeSettings(vocabulary="separate").recipe()["vocabulary"] == "separate"


def test_a_pipeline_says_what_changed_there_and_back(corpus, tmp_path):
    def reasons(more):
        (tmp_path / "p.toml").write_text(
            f'[stage.tokens]\ncommand = "tokenize"\ninputs = ["{corpus}"]\nvocab_size = 340\n{more}'
        )
        return Pipeline(tmp_path / "p.toml").states()[0].reasons

    separate = 'vocabulary = "separate"\n'
    assert reasons("") == ("missing",)
    list(Pipeline(tmp_path / "p.toml").run(wordpipe.RunOptions()))
    assert reasons("") == reasons('vocabulary = "joint"\n') == ()
    assert reasons(separate) == ("tokens.vocabulary joint → separate",)
    list(Pipeline(tmp_path / "p.toml").run(wordpipe.RunOptions()))
    assert reasons(separate) == ()
    assert reasons("") == ("tokens.vocabulary separate → joint",)


def test_what_reads_one_text_reads_the_first(corpus, tokens, tmp_path, cli):
    short = QUICK | {"steps": 1}
    wordpipe.train_mlm(tokens, output=tmp_path / "mlm", **short)
    wordpipe.train_denoising(tokens, output=tmp_path / "denoiser", **short)
    wordpipe.train_word2vec(tokens, output=tmp_path / "words", unit="token", dim=8, epochs=1, min_count=1)
    for name in ("mlm", "denoiser", "words"):
        assert not (tmp_path / name / "target").exists()
        assert (tmp_path / name / "tokenizer.json").is_file()
    assert ONLY_TARGETS not in " ".join(row["word"] for row in rows_of(tokens, "words"))
    assert wordpipe.show(tokens, rows=1)["columns"]["ids_b"] == "list of uint16"
    found = wordpipe.evaluate_tokenizer([tokens, tokens / "tokenizer_b.json"], corpus.parent / "text_b")
    one, other = (entry["metrics"]["bytes_per_token"] for entry in found["tokenizers"])
    assert other > one, "that of the second texts fits them better"
    assert cli("show", str(tokens)).code == 0


@pytest.mark.parametrize("kind", ["tokens", "model"])
def test_a_text_is_shown_as_either_side_cuts_it(kind, tokens, model, cli):
    path, text = {"tokens": tokens, "model": model}[kind], f"sea {ONLY_TARGETS}"
    sides = [Tokenizer.from_file(str(tokens / name)) for name in ("tokenizer.json", "tokenizer_b.json")]
    own = [side.encode(text, add_special_tokens=False).ids for side in sides]
    assert own[0] != own[1]
    found = json.loads(cli("show", path, "--text", text, "--json").out)
    assert [found["ids"], found["target"]["ids"]] == own
    shown = cli("show", path, "--text", text).out
    first, second = shown.split("if this is the second text of a pair (tokenizer for second texts):\n")
    assert first.startswith("if this is the first text of a pair:\n")
    assert f"{len(own[0])} tokens" in first
    assert f"{len(own[1])} tokens" in second


def test_an_exported_tokenizer_is_the_first_and_says_where_the_second_is(tokens, model, tmp_path):
    for given, form, second in (
        (tokens, "tokenizer-json", "tokenizer_b.json"), (model, "transformers", "target/tokenizer.json"),
    ):  # fmt: skip
        made = wordpipe.export(given, form, tmp_path / form)
        assert any(note.endswith(str(given / second)) for note in made["notes"])
    exported, first = (tmp_path / "tokenizer-json").read_text(), both(tokens)[0].decode()
    assert Tokenizer.from_str(exported).get_vocab() == Tokenizer.from_str(first).get_vocab()


# ---- a model


def batch(opened, texts):
    ids = [[*opened.encode(text), 6] for text in texts]
    ids_BS = torch.tensor([one + [0] * (max(map(len, ids)) - len(one)) for one in ids])
    return ids_BS, ids_BS != 0


@pytest.mark.landing
@torch.no_grad()
def test_transformers_loads_the_folder_with_equal_logits_and_both_tokenizers(tokens, model):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    opened, theirs = wordpipe.open_model(model), AutoModelForSeq2SeqLM.from_pretrained(model).eval()
    assert type(theirs).__name__ == "MarianMTModel"
    config = opened.model.config
    assert (config.vocab_size, config.decoder_vocab_size) == (320, 384)
    assert not theirs.config.share_encoder_decoder_embeddings
    texts, written = zip(*map(pair, range(5)), strict=True)
    ids_BS, mask_BS = batch(opened, texts)
    asked = AutoTokenizer.from_pretrained(model)(list(texts), return_tensors="pt", padding=True)
    assert torch.equal(asked.input_ids, ids_BS)
    labels = AutoTokenizer.from_pretrained(model / "target")(list(written), return_tensors="pt", padding=True)
    first = [*opened.encode_target(written[0]), 6]
    assert labels.input_ids[0, : len(first)].tolist() == first
    seen_BT = torch.cat((torch.zeros_like(labels.input_ids[:, :1]), labels.input_ids[:, :-1]), dim=1)
    want = theirs(input_ids=ids_BS, attention_mask=mask_BS.long(), decoder_input_ids=seen_BT).logits
    torch.testing.assert_close(opened.model(ids_BS, seen_BT, mask_BS), want, atol=1e-4, rtol=1e-4)
    assert want.std() > 0.05


@pytest.mark.landing
def test_targets_are_decoded_by_their_own_tokenizer(model, tokens, cli):
    """As transformers writes them with the target's tokenizer; greedy, and with beams."""

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    texts = [pair(i)[0] for i in range(12)]
    source, target = AutoTokenizer.from_pretrained(model), AutoTokenizer.from_pretrained(model / "target")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(model).eval()
    asked, opened = source(texts, return_tensors="pt", padding=True), wordpipe.open_model(model)
    for beams in (1, 5):
        found = theirs.generate(**asked, num_beams=beams, max_length=14)
        want = target.batch_decode(found, skip_special_tokens=True)
        ours = [
            wordpipe.generate(opened, text, beams=beams, max_tokens=13, threads=1, device="cpu")[0] for text in texts
        ]
        assert [one.text for one in ours] == want
        assert any(ONLY_TARGETS in text for text in want), "letters that the sources' tokenizer spells in bytes"
    said = cli("generate", str(model), texts[0], "--beams", "1", "--max-tokens", "13", "--device", "cpu").out
    assert said.strip() == wordpipe.generate(opened, texts[0], beams=1, max_tokens=13, device="cpu")[0].text
    assert cli("show", str(model), "--params").code == 0


@pytest.mark.landing
@torch.no_grad()
def test_the_loss_of_an_evaluation_is_that_of_transformers(model, tmp_path):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    pairs = [pair(i) for i in range(300, 312)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(one) + "\n" for one in pairs))
    found = wordpipe.evaluate_seq2seq(model, path, draws=0, max_tokens=13, threads=1, device="cpu")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(model).eval()
    source, target = AutoTokenizer.from_pretrained(model), AutoTokenizer.from_pretrained(model / "target")
    nats = []
    for text, text_b in pairs:
        labels = target(text_b, return_tensors="pt").input_ids
        loss = theirs(**source(text, return_tensors="pt"), labels=labels).loss
        nats.append((float(loss) * labels.shape[1], labels.shape[1]))
    total, tokens = np.sum(nats, axis=0)
    assert found["metrics"]["loss"] == pytest.approx(total / tokens, abs=1e-4)
    assert found["systems"][0]["counts"]["targets"] == tokens


def test_styles_with_one_table_are_refused(tokens, tmp_path):
    for style in ("t5", "bart"):
        with pytest.raises(ConfigError, match="need one vocabulary for source and target texts") as caught:
            trained(tokens, tmp_path / "x", style=style)
        assert (caught.value.where, caught.value.expected) == ("style", "vaswani")


@pytest.mark.landing
def test_a_training_goes_on_from_a_model_with_the_same_two_vocabularies(corpus, tokens, model, tmp_path):
    trained(tokens, tmp_path / "next", init=model)
    before, after = (load_file(folder / "model.safetensors") for folder in (model, tmp_path / "next"))
    assert {name: one.shape for name, one in before.items()} == {name: one.shape for name, one in after.items()}
    assert (tmp_path / "next" / "target" / "tokenizer.json").read_bytes() == (
        model / "target" / "tokenizer.json"
    ).read_bytes()
    trained(tokens, tmp_path / "first")
    longer = trained(tokens, tmp_path / "longer", extend=tmp_path / "first", steps=5)
    assert longer.counts["steps"] == 5
    joint = wordpipe.tokenize(corpus, output=tmp_path / "as first", tokenizer=tokens / "tokenizer.json")
    with pytest.raises(ArtifactError, match="the model and the tokens have different tokenizers") as caught:
        trained(joint.path, tmp_path / "x", init=model)
    assert (caught.value.got, "--tokenizer" in caught.value.hint) == ("a vocabulary for each text", True)
    plain = trained(joint.path, tmp_path / "plain")
    with pytest.raises(ArtifactError, match="the model and the tokens have different tokenizers") as caught:
        trained(tokens, tmp_path / "x", init=plain.path)
    assert caught.value.got == "one vocabulary for both texts"
    shutil.copytree(tokens, tmp_path / "swapped")
    values = json.loads((tokens / "tokenizer_b.json").read_text())
    known = values["model"]["vocab"]
    known["a"], known["b"] = known["b"], known["a"]
    forge_file(tmp_path / "swapped", "tokenizer_b.json", json.dumps(values).encode())
    with pytest.raises(ArtifactError, match="the model and the tokens have different tokenizers"):
        trained(tmp_path / "swapped", tmp_path / "x", init=model)


def test_special_tokens_of_other_ids_are_refused(tokens, tmp_path):
    shutil.copytree(tokens, tmp_path / "other")
    text = (tokens / "tokenizer_b.json").read_text()
    swapped = text.replace("</s>", "<e>").replace("<s>", "</s>").replace("<e>", "<s>")
    forge_file(tmp_path / "other", "tokenizer_b.json", swapped.encode())
    with pytest.raises(ArtifactError, match="different ids for their special tokens") as caught:
        trained(tmp_path / "other", tmp_path / "x")
    assert (caught.value.got, "eos_id" in caught.value.got or "bos_id" in caught.value.got) == (
        "the id 6 for bos_id",
        True,
    )


def test_a_folder_with_two_vocabularies_fills_no_gaps_and_says_what_it_lacks(model, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(model, folder, ignore=AS_A_FOLDER)
    text = pair(3)[0]
    assert wordpipe.generate(folder, text, device="cpu")[0].text == wordpipe.generate(model, text, device="cpu")[0].text
    with pytest.raises(ArtifactError, match="not trained for denoising") as caught:
        wordpipe.fill(folder, "the [MASK]", device="cpu")
    assert caught.value.got == "separate vocabularies for source and target"
    large = json.loads((folder / "target" / "tokenizer.json").read_text())
    large["model"]["vocab"] |= {f"<{i}>": i for i in range(len(large["model"]["vocab"]), 500)}
    (folder / "target" / "tokenizer.json").write_text(json.dumps(large))
    with pytest.raises(ArtifactError, match="more tokens than the model has embeddings") as caught:
        wordpipe.open_model(folder)
    assert str(caught.value.where).endswith("target")


def test_a_damaged_second_tokenizer_is_named(model, tokens, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    forge_file(tmp_path / "model", "target/tokenizer.json", b"{}")
    with pytest.raises(ArtifactError, match="cannot read this tokenizer") as caught:
        wordpipe.open_model(tmp_path / "model")
    assert str(caught.value.where).endswith("target/tokenizer.json")
    shutil.copytree(tokens, tmp_path / "tokens")
    forge_file(tmp_path / "tokens", "tokenizer_b.json", b"{}")
    with pytest.raises(InputError, match=r"tokenizer_b\.json"):
        trained(tmp_path / "tokens", tmp_path / "x")


def test_a_folder_that_lost_its_second_tokenizer_says_so(model, tmp_path, cli):
    folder = tmp_path / "folder"
    shutil.copytree(model, folder, ignore=AS_A_FOLDER)
    call = ("generate", str(folder), pair(3)[0], "--device", "cpu", "--beams", "1")
    assert "no tokenizer for this vocabulary" not in cli(*call).err
    shutil.rmtree(folder / "target")
    assert "no tokenizer for this vocabulary" in cli(*call).err
