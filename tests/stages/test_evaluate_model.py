"""The evaluation of language models: the oracle is transformers, which computes the likelihood of the same ids."""

import math
import shutil
import tempfile

import pytest
import torch
from tokenizers import Tokenizer

import wordpipe
from tests.support.model_artifacts import made_model, small_corpus
from wordpipe import RunOptions, evaluate_model, open_model
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.settings import Settings
from wordpipe.stages import OpenModel, open_job
from wordpipe.stages.evaluate import language_model as stage
from wordpipe.tokens import WordSplitter

BOS, EOS, T = 5, 6, 32


@pytest.fixture(scope="module")
def root(tmp_path_factory, handbook, _own_cache):
    """A corpus with held-out documents, its tokens by two tokenizers, and models of both."""
    root = tmp_path_factory.mktemp("evaluated")
    small_corpus(root / "corpus", handbook, valid=0.2, test=0.2)
    wordpipe.tokenize(root / "corpus", output=root / "tokens", vocab_size=600)
    wordpipe.tokenize(root / "corpus", output=root / "pieces", vocab_size=700, algorithm="wordpiece")
    made_model(root / "decoder", root / "tokens", "decoder")
    made_model(root / "classic", root / "tokens", "decoder", "classic")
    made_model(root / "encoder", root / "tokens", "encoder")
    made_model(root / "uniform", root / "tokens", "decoder", zero=True)
    made_model(root / "pieces_decoder", root / "pieces", "decoder")
    return root


@pytest.fixture
def evaluated(monkeypatch, tmp_path):
    """`evaluate_model` on one thread, which leaves nothing in the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    yield lambda *args, **wishes: evaluate_model(*args, **{"device": "cpu", "threads": 1, **wishes})
    assert not list((tmp_path / "scratch").glob("wordpipe-*"))  # torch may leave something of its own


def texts_of(corpus, split):
    """The sentences of each document of a split."""
    documents = {}
    with Artifact(corpus) as artifact:
        for batch in read_batches(artifact, "corpus", ["doc_id", "split", "text"]):
            for row in batch.to_pylist():
                if split in (None, row["split"]):
                    documents.setdefault(row["doc_id"], []).append(row["text"])
    return list(documents.values())


def by_transformers(folder, documents):
    """-Σ log p of every token and every end of a document, blocks of T inputs; the number of first guesses, of targets."""

    from transformers import AutoModelForCausalLM

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = []
    for sentences in documents:
        pieces = [tokenizer.encode(text, add_special_tokens=False).ids for text in sentences]
        ids += [BOS, *(number for piece in pieces for number in piece), EOS]
    nats, first, targets, done = 0.0, 0, 0, 1
    while done < len(ids):
        begin = min(done - 1, len(ids) - T - 1)  # the last block begins early, so as to be full
        block = torch.tensor(ids[begin : begin + T + 1])
        with torch.no_grad():
            log_p = torch.log_softmax(model(input_ids=block[None, :-1]).logits[0].double(), dim=1)
        for place in range(done - begin, T + 1):
            if (label := int(block[place])) != BOS:
                nats -= float(log_p[place - 1, label])
                first += int(log_p[place - 1].argmax() == label)
                targets += 1
        done = begin + T + 1
    return nats, first, targets


@pytest.mark.landing
@pytest.mark.parametrize("name", ["decoder", "classic", "pieces_decoder"])
def test_a_causal_model_is_evaluated_as_transformers_computes_it(evaluated, root, name):
    found = evaluated(root / name, root / "corpus")
    documents = texts_of(root / "corpus", "valid")
    nats, first, targets = by_transformers(root / name, documents)
    text = "".join(sentence for sentences in documents for sentence in sentences)
    words = sum(len(WordSplitter()(sentence)) for sentences in documents for sentence in sentences)
    (only,) = found["models"]
    assert only["nats"] == pytest.approx(nats, rel=1e-5)
    assert only["counts"]["targets"] == targets == only["counts"]["tokens"] + len(documents)
    assert (only["counts"]["documents"], only["counts"]["document_ends"]) == (len(documents), len(documents))
    assert (only["counts"]["bytes"], only["counts"]["words"]) == (len(text.encode()), words)
    assert (
        found["metrics"]
        == only["metrics"]
        == {
            "loss": pytest.approx(nats / targets, rel=1e-5),
            "perplexity": pytest.approx(math.exp(nats / targets), rel=1e-4),
            "perplexity_per_word": pytest.approx(math.exp(nats / words), rel=1e-3),
            "bits_per_byte": pytest.approx(nats / math.log(2) / len(text.encode()), rel=1e-5),
            "accuracy": pytest.approx(first / targets, abs=2e-6),
            "unknown_rate": 0.0,
        }
    )
    assert (found["split"], only["seen"], only["warnings"]) == ("valid", "no", [])


def test_figures_by_hand(evaluated, root, tmp_path):
    """A model that takes all ids to be as likely pays ln V for each target: 600 ids, so 9.2 bits."""
    text = "The sea-bed isn't deep; 3.5 km."
    (tmp_path / "text.txt").write_text(text)
    found = evaluated(root / "uniform", tmp_path / "text.txt")
    (only,) = found["models"]
    n = only["counts"]["targets"]
    tokenizer = Tokenizer.from_file(str(root / "uniform" / "tokenizer.json"))
    assert n == len(tokenizer.encode(text, add_special_tokens=False).ids) + 1
    assert (only["counts"]["words"], only["counts"]["bytes"]) == (6, 31)  # the sea-bed isn't deep 3.5 km
    assert found["metrics"]["loss"] == pytest.approx(math.log(600), abs=1e-5)
    assert found["metrics"]["perplexity"] == pytest.approx(600, rel=1e-5)
    assert found["metrics"]["perplexity_per_word"] == pytest.approx(600 ** (n / 6), rel=1e-4)
    assert found["metrics"]["bits_per_byte"] == pytest.approx(n * math.log2(600) / 31, rel=1e-5)
    assert found["metrics"]["accuracy"] == 0.0
    assert (found["split"], only["seen"]) == (None, "no")


def test_a_masked_model_guesses_the_same_tokens_each_time(evaluated, root, monkeypatch):
    found = evaluated(root / "encoder", root / "corpus")
    monkeypatch.setitem(stage._POSITIONS_AT_ONCE, "cpu", 3 * T)
    again = evaluated(root / "encoder", root / "corpus")["models"][0]
    (only,) = found["models"]
    assert again["nats"] == pytest.approx(only["nats"], rel=1e-6)
    assert again["counts"] == only["counts"]
    assert only["counts"]["targets"] == pytest.approx(0.15 * only["counts"]["tokens"], rel=0.12)
    assert only["counts"]["document_ends"] == 0
    metrics = only["metrics"]
    assert metrics["loss"] == pytest.approx(only["nats"] / only["counts"]["targets"], abs=1e-6)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]), rel=1e-5)
    assert metrics["perplexity_per_word"] is metrics["bits_per_byte"] is None
    assert 0 <= metrics["accuracy"] < 1


def test_a_fresh_model_knows_nothing(evaluated, root, tmp_path):
    with torch.no_grad():
        for architecture in ("encoder", "decoder"):
            made_model(tmp_path / architecture, root / "tokens", architecture, zero=True)
    for one in evaluated([tmp_path / "encoder", tmp_path / "decoder"], root / "corpus")["models"]:
        assert one["metrics"]["loss"] == pytest.approx(math.log(600), abs=1e-4)


def test_what_is_held_out_is_evaluated_first(evaluated, root, tmp_path):
    notes = []
    run = RunOptions(report=lambda progress: notes.append(progress.note) if progress.note else None)
    assert evaluated(root / "decoder", root / "corpus", split="test")["split"] == "test"
    whole = evaluated(root / "decoder", root / "corpus", split="all", run=run)
    assert whole["split"] is None
    assert whole["models"][0]["seen"] == "yes"
    assert "trained on this text" in notes[-1]
    parts = [
        evaluated(root / "decoder", root / "corpus", split=split)["models"][0] for split in ("train", "valid", "test")
    ]
    assert [part["seen"] for part in parts] == ["yes", "no", "no"]
    for name, count in whole["models"][0]["counts"].items():
        assert sum(part["counts"][name] for part in parts) == count
    records = tmp_path / "records.txt"
    records.write_text("The sea is wide and deep.\n" * 3)
    wordpipe.ingest(records, output=tmp_path / "small", valid=0.0, test=0.9)
    assert evaluated(root / "decoder", tmp_path / "small")["split"] in ("test", None)
    wordpipe.ingest(records, output=tmp_path / "none", valid=0.0)
    notes.clear()
    assert evaluated(root / "decoder", tmp_path / "none", run=run)["split"] is None
    assert "this corpus has no held-out split" in notes[-1]


def test_the_trail_of_what_a_model_was_trained_on(evaluated, root, tmp_path):
    def seen(model, data, **wishes):
        return evaluated(model, data, **wishes)["models"][0]["seen"]

    assert seen(root / "decoder", root / "text.txt") == "yes"  # the file itself, all of it
    wordpipe.ingest(root / "text.txt", output=tmp_path / "again", documents="block", valid=0.5)
    assert seen(root / "decoder", tmp_path / "again") == "perhaps"  # the same file, split in another way
    shutil.copytree(root / "decoder", tmp_path / "moved")
    assert seen(tmp_path / "moved", root / "corpus") == "unknown"
    folder = tmp_path / "foreign"
    shutil.copytree(root / "decoder", folder)
    (folder / "manifest.json").unlink()
    assert seen(folder, root / "corpus") == "unknown"
    with open_job("model", tmp_path / "further", Settings(), None) as job:
        job.open_input(root / "decoder", ["model"])
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            job.write(name, (root / "decoder" / name).read_bytes())
    assert seen(tmp_path / "further", root / "corpus", split="train") == "yes"  # what it began with was


def test_a_folder_of_transformers_is_evaluated_like_the_artifact(evaluated, root, tmp_path):
    shutil.copytree(root / "decoder", tmp_path / "folder")
    (tmp_path / "folder" / "manifest.json").unlink()
    ours, theirs = evaluated([root / "decoder", tmp_path / "folder"], root / "corpus")["models"]
    assert (theirs["nats"], theirs["counts"]) == (ours["nats"], ours["counts"])


def test_longer_sequences_see_further(evaluated, root):
    short, long = (evaluated(root / "decoder", root / "corpus", seq_len=n)["models"][0] for n in (8, 64))
    assert short["counts"] == long["counts"]
    assert (short["seq_len"], long["seq_len"]) == (8, 64)
    assert short["nats"] != long["nats"]


def test_one_token_between_documents(evaluated, root, monkeypatch):
    """As in GPT-2: the token that ends a document stands alone before the next; the first of all has nothing before it."""

    def with_one(path, *, verify):
        opened = open_model(path, verify=verify)
        special = {role: number for role, number in opened.special.items() if role not in ("bos", "eos")}
        return OpenModel(opened.path, opened.model, opened.tokenizer, (), (), {**special, "eos": EOS})

    monkeypatch.setattr(stage, "open_model", with_one)
    counts = evaluated(root / "decoder", root / "corpus")["models"][0]["counts"]
    assert counts["document_ends"] > 1
    assert counts["targets"] == counts["tokens"] - 1 + counts["document_ends"]


def test_unknown_tokens_and_unspaced_scripts_are_said(evaluated, root, tmp_path):
    (tmp_path / "text.txt").write_text("東京は大きい。海は広い。 ☃ ☂\n")
    (only,) = evaluated(root / "pieces_decoder", tmp_path / "text.txt")["models"]
    assert only["counts"]["unknown_tokens"] > 0
    assert only["metrics"]["unknown_rate"] == pytest.approx(
        only["counts"]["unknown_tokens"] / only["counts"]["tokens"], abs=1e-6
    )
    assert (only["counts"]["words"], only["counts"]["unspaced_runs"]) == (2, 2)
    assert [word in " ".join(only["warnings"]) for word in ("unknown tokens", "without spaces")] == [True, True]


def test_what_cannot_be_evaluated(evaluated, root, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    for wrong, expected in [({"split": "dev"}, "dev"), ({"seq_len": 3}, "4 or more")]:
        with pytest.raises(ConfigError, match=expected):
            evaluated(root / "decoder", root / "corpus", **wrong)
    with pytest.raises(ConfigError, match="at most 32"):
        evaluated(root / "classic", root / "corpus", seq_len=33)
    with pytest.raises(InputError):
        evaluated(root / "decoder", tmp_path / "empty.txt")
    with pytest.raises(ArtifactError, match="wrong kind"):
        evaluated(root / "tokens", root / "corpus")
    with pytest.raises(ArtifactError, match="wrong kind"):
        evaluated(root / "decoder", root / "tokens")


def test_a_model_that_left_the_numbers_is_refused(evaluated, root, monkeypatch):
    def broken(path, *, verify):
        opened = open_model(path, verify=verify)
        with torch.no_grad():
            opened.model.embedding.fill_(math.nan)
        return opened

    monkeypatch.setattr(stage, "open_model", broken)
    with pytest.raises(ArtifactError, match="are not finite numbers"):
        evaluated(root / "decoder", root / "corpus")
