"""Several tasks in one model: what a field of each record says stands before its source, in training and afterwards."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer

import wordpipe
from tests.conftest import TINY
from tests.support.forged import sealed
from tests.support.results import manifest
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, read_batches, tables
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model.settings import GenerateSettings
from wordpipe.pipeline import Pipeline
from wordpipe.stages import TargetWriter
from wordpipe.training import open_pairs
from wordpipe.training.recipes import PairTexts

SMALL = TINY | {"threads": 1, "dtype": "float32", "batch_size": 8, "steps": 2, "device": "cpu", "seq_len": 64}
TASKS = ["turn round: ", "say", "", None]
WORDS = "sea tide moon coast water north south ship".split()  # noqa: SIM905


def record(i, *, ids=False):
    words = [WORDS[(i * k + k) % len(WORDS)] for k in range(1, 4)]
    own = {"text": f"{i} " + " ".join(words), "text_b": " ".join(reversed(words)), "task": TASKS[i % 4], "n": i}
    return own | ({"id": f"r{i}"} if ids else {})


def made(folder, records=None, **settings):
    named = {"id_field": "id"} if records and "id" in records[0] else {}
    wordpipe.ingest(
        records or [record(i) for i in range(120)], output=folder / "corpus", text_b="text_b", valid=0.2, **named
    )
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=300, **settings)
    return folder / "tokens"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Both tables in several row groups, which do not end at the same rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", 2_000)
        patch.setattr(tables, "BATCH_ROWS", 7)
        return made(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def model(tokens):
    return tokens.parent / "model" if trained(tokens, tokens.parent / "model") else None


def trained(tokens, output, run=None, **settings):
    return wordpipe.train_seq2seq(tokens, output=output, run=run, **SMALL | {"prefix_field": "task"} | settings)


def written_pairs(tokens, monkeypatch, tmp_path, **settings):
    """The sources that a training reads, as text, in the order of the tokens."""
    found = {}

    class Stop(Exception):
        pass

    def look(self, folder):
        for split in ("train", "valid"):
            blocks = open_pairs(folder / split, self.n_tokens)
            found[split] = blocks.rows(np.arange(len(blocks)))
        raise Stop

    monkeypatch.setattr(PairTexts, "open", look)
    with pytest.raises(Stop):
        trained(tokens, tmp_path / "x", **settings)
    return found


@pytest.mark.parametrize("batch_rows", [5, 11, 4096])
def test_every_source_has_the_ids_of_its_own_text_before_it(tokens, monkeypatch, tmp_path, batch_rows):
    monkeypatch.setattr(tables, "BATCH_ROWS", batch_rows)
    found = written_pairs(tokens, monkeypatch, tmp_path)
    tokenizer = Tokenizer.from_file(str(tokens / "tokenizer.json"))
    end, ids_of = tokenizer.token_to_id("</s>"), lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    with Artifact(tokens.parent / "corpus") as corpus:
        rows = [row for batch in read_batches(corpus, "corpus") for row in batch.to_pylist()]
    for split, pairs in found.items():
        own = [row for row in rows if row["split"] == split]
        assert len(own) > 10
        want = [[*ids_of(row["task"] or ""), *ids_of(row["text"]), end] for row in own]
        ids, lengths = pairs.sources
        assert [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] == want
        assert pairs.labels[1].sum() == sum(len(ids_of(row["text_b"])) + 1 for row in own)


def test_what_the_field_said_is_counted_and_said(tokens, model):
    about = manifest(model)
    assert about["facts"]["prefixes"] == {"turn round: ": 30, "say": 30}
    assert (about["counts"]["prefixes"], about["counts"]["pairs_without_prefix"]) == (2, 60)
    assert any("the field 'task' has no text: 60" in text for text in about["warnings"])
    assert [entry["kind"] for entry in about["inputs"]] == ["tokens", "corpus"]
    assert about["settings"]["prefix_field"] == "task"


def test_one_prefix_for_all_and_a_field_that_says_it_are_the_same(tmp_path):
    tokens = made(tmp_path, [record(i) | {"task": "turn: "} for i in range(60)])
    by_field = trained(tokens, tmp_path / "field")
    by_text = trained(tokens, tmp_path / "text", prefix_field="", prefix="turn: ")
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("field", "text"))
    assert one == other
    assert by_field.counts["tokens_train"] == by_text.counts["tokens_train"]


def test_both_are_refused(tokens, tmp_path):
    with pytest.raises(ConfigError, match="set only one of prefix and prefix_field"):
        trained(tokens, tmp_path / "x", prefix="a: ")


@pytest.mark.parametrize(
    ("field", "error", "words"),
    [
        ("tusk", ArtifactError, "no column 'tusk'.*task"),
        ("n", InputError, "the field 'n' is not a text field; got int64"),
        ("label", ArtifactError, "no column 'label'"),
        ("title", InputError, "the field 'title' is empty in every record"),
    ],
)
def test_a_field_that_says_nothing_is_an_error(tokens, tmp_path, field, error, words):
    with pytest.raises(error, match=words) as caught:
        trained(tokens, tmp_path / "x", prefix_field=field)
    assert caught.value.hint
    assert not (tmp_path / "x").exists()


def test_moved_together_they_find_each_other_and_alone_they_say_what_to_do(tokens, model, tmp_path):
    shutil.copytree(tokens.parent, tmp_path / "all")
    again = trained(tmp_path / "all" / "tokens", tmp_path / "all" / "again")
    assert again.digest == manifest(model)["digest"]
    shutil.move(tmp_path / "all" / "corpus", tmp_path / "all" / "other")
    with pytest.raises(
        ArtifactError, match="the field 'task' must be read from the corpus of the tokens, but there is no corpus"
    ):
        trained(tmp_path / "all" / "tokens", tmp_path / "x")


def test_another_corpus_in_its_place_is_refused(tokens, tmp_path):
    shutil.copytree(tokens.parent, tmp_path / "all")
    wordpipe.ingest(
        [record(i) | {"task": "x"} for i in range(120)], output=tmp_path / "all" / "corpus", text_b="text_b"
    )
    with pytest.raises(ArtifactError, match="not the corpus that the tokens were made from") as caught:
        trained(tmp_path / "all" / "tokens", tmp_path / "x")
    assert "wordpipe tokenize" in caught.value.hint


def test_a_corpus_with_other_rows_is_refused(tokens, tmp_path):
    """As no command makes it: the digests agree, and the rows do not."""
    shutil.copytree(tokens.parent, tmp_path / "all")
    wordpipe.ingest([record(i) for i in range(119)], output=tmp_path / "all" / "corpus", text_b="text_b", valid=0.2)
    digest = manifest(tmp_path / "all" / "corpus")["digest"]
    sealed(tmp_path / "all" / "tokens", lambda body: body["inputs"][0].update(digest=digest))
    with pytest.raises(ArtifactError, match="do not have the same rows"):
        trained(tmp_path / "all" / "tokens", tmp_path / "x")


def test_other_tasks_of_the_same_texts_are_another_training(tmp_path):
    """Records with an id that was named are known by it: their fields are in no digest of the tokens, and still decide."""
    recipes = []
    for task in ("a: ", "b: "):
        tokens = made(tmp_path, [record(i, ids=True) | {"task": task} for i in range(40)])
        recipes.append((manifest(tokens)["digest"], trained(tokens, tmp_path / "model").recipe))
    assert recipes[0][0] == recipes[1][0]
    assert recipes[0][1] != recipes[1][1]


def test_a_pipeline_knows_the_corpus_behind_the_tokens(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record(i, ids=True)) + "\n" for i in range(40)))
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in SMALL.items())
    (tmp_path / "p.toml").write_text(
        '[stage.corpus]\ncommand = "ingest"\ninputs = ["a.jsonl"]\ntext_b = "text_b"\n'
        '[stage.tokens]\ncommand = "tokenize"\ninputs = ["corpus"]\nvocab_size = 300\n'
        f'[stage.model]\ncommand = "train seq2seq"\ninputs = ["tokens"]\nprefix_field = "task"\n{values}'
    )
    list(Pipeline(tmp_path / "p.toml").run(RunOptions()))
    assert [state.reasons for state in Pipeline(tmp_path / "p.toml").states()] == [(), (), ()]
    kept = (tmp_path / "p.toml").read_text().replace('prefix_field = "task"\n', 'prefix_field = "task"\nkeep = true\n')
    (tmp_path / "kept.toml").write_text(kept)
    other = [record(i, ids=True) | {"task": "other: "} for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in other))
    states = Pipeline(tmp_path / "kept.toml").states()
    assert states[0].kept
    assert states[2].reasons == ()
    made = [state.stage.name for state, one in Pipeline(tmp_path / "p.toml").run(RunOptions()) if one is not None]
    assert made == ["corpus", "tokens", "model"]
    assert [state.reasons for state in Pipeline(tmp_path / "p.toml").states()] == [(), (), ()]


@pytest.mark.landing
def test_a_training_is_extended_with_the_same_fields_alone(tmp_path):
    tokens = made(tmp_path, [record(i, ids=True) for i in range(40)])
    trained(tokens, tmp_path / "model")
    assert trained(tokens, tmp_path / "longer", extend=tmp_path / "model", steps=3).counts["steps"] == 3
    made(tmp_path, [record(i, ids=True) | {"task": "other: "} for i in range(40)])
    with pytest.raises(ArtifactError, match="the fields of another corpus"):
        trained(tokens, tmp_path / "longer", extend=tmp_path / "model", steps=3)


def test_generate_says_which_prefixes_there_are(model):
    opened = wordpipe.open_model(model)
    assert (opened.prefix, opened.prefix_field, sorted(opened.prefixes)) == ("", "task", ["say", "turn round: "])
    (note,) = TargetWriter(opened, GenerateSettings()).notes
    assert '--prefix (known: "turn round: ", "say")' in note or '--prefix (known: "say", "turn round: ")' in note
    assert TargetWriter(opened, GenerateSettings(prefix="say")).notes == []


@pytest.mark.landing
def test_an_evaluation_takes_the_field_of_the_training(model, tokens, tmp_path):
    said = []
    quick = {"draws": 0, "max_tokens": 5, "beams": 1, "run": RunOptions(report=lambda one: said.append(one.note))}
    found = wordpipe.evaluate_seq2seq(model, tokens.parent / "corpus", **quick)
    assert found["settings"]["prefix_field"] == "task"
    assert {"turn round: ", "say", ""} == {*found["systems"][0]["by_prefix"]}
    assert any(note and "as in training, the field 'task'" in note for note in said)
    explicit = wordpipe.evaluate_seq2seq(model, tokens.parent / "corpus", prefix_field="task", **quick)
    assert explicit["metrics"] == found["metrics"]
    without = wordpipe.evaluate_seq2seq(model, tokens.parent / "corpus", prefix="", **quick)
    assert without["systems"][0]["by_prefix"] == {}
    assert without["metrics"]["loss"] != found["metrics"]["loss"]
    (tmp_path / "a.tsv").write_text("sea\tmoon\n")
    with pytest.raises(InputError, match="'task'") as caught:
        wordpipe.evaluate_seq2seq(model, tmp_path / "a.tsv", **quick)
    assert "--prefix" in caught.value.hint


def test_models_of_different_fields_are_not_evaluated_by_a_guess(model, tokens, tmp_path):
    trained(tokens, tmp_path / "plain", prefix_field="")
    with pytest.raises(ConfigError, match="different fields"):
        wordpipe.evaluate_seq2seq([model, tmp_path / "plain"], tokens.parent / "corpus", draws=0)
