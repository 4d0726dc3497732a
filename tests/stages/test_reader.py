"""`train reader`, `predict` of a reader and `ask`: from questions to answers with their places; what they refuse and count."""

import json
import shutil

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import wordpipe
from tests.conftest import TINY
from wordpipe import RunOptions
from wordpipe.cli.app import app as cli
from wordpipe.errors import ArtifactError, ConfigError, InputError, NothingFound
from wordpipe.heads import choose_no_answer

NAMES = ("Ada", "Ben", "Eve")
SMALL = {"device": "cpu", "dtype": "float32", "threads": 1, "epochs": 4, "lr": 5e-3, "dropout": 0.0, "held_out": 0.2}
QUIET = RunOptions(report=lambda progress: None)


def rows_of(n=90, filler="", none=0):
    """Passages of a name among other words; each `none`-th has no name and no answer."""
    found = []
    for i in range(n):
        name = NAMES[i % 3] if not none or i % none else "nobody"
        text = f"{filler}Sheep {i}: {name} is here.{filler}"
        start = text.index(name)
        found.append(
            {"text": text, "q": "Who is here?", "a": [] if name == "nobody" else [[start, start + len(name), None]]}
        )
    return found


def trained(folder, rows, model, run=QUIET, **settings):
    wordpipe.ingest(rows, output=folder / "corpus", text_b="q", spans_field="a", run=QUIET, valid=0.0)
    return wordpipe.train_reader(folder / "corpus", output=folder / "reader", init=model, run=run, **SMALL | settings)


@pytest.fixture(scope="module")
def reader(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    return folder / "reader", trained(folder, rows_of(), base, epochs=15)


def test_a_reader_learns_and_says_where_the_answer_stands(reader):
    folder, made = reader
    assert made.metrics["valid_f1"] > 0.9
    assert made.counts["texts_train"] + made.counts["texts_held_out"] == made.counts["windows"] == 90
    facts = json.loads((folder / "manifest.json").read_text())["facts"]
    assert (facts["task"], facts["pairs"], facts["thresholds"]) == ("reader", True, None)
    text = "e\u0301 \U0001f600 Sheep 7: Ben is here."
    found = wordpipe.predict(folder, text, "Who is here?")
    assert found.answer == "Ben"
    assert text[found.start : found.end] == "Ben"
    assert 0 < found.probability <= 1


@pytest.mark.landing
def test_transformers_loads_the_folder_and_its_folder_is_asked(reader, tmp_path):
    import transformers

    folder, _ = reader
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer("Who is here?", "Sheep 8: Eve is here.", return_offsets_mapping=True)
    with torch.inference_mode():
        out = model(
            input_ids=torch.tensor([given["input_ids"]]), attention_mask=torch.tensor([given["attention_mask"]])
        )
    start, end = (given["offset_mapping"][int(one.argmax())] for one in (out.start_logits, out.end_logits))
    assert "Sheep 8: Eve is here."[start[0] : end[1]].strip() == "Eve"
    model.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / name)
    pairs = [(row["text"], row["q"]) for row in rows_of(6)]
    one, other = ([said.answer for said in wordpipe.open_predictor(path).predict(pairs)] for path in (folder, tmp_path))
    assert one == other == [NAMES[i % 3] for i in range(6)]


@pytest.mark.slow
def test_long_passages_are_read_in_windows(base, tmp_path):
    made = trained(tmp_path, rows_of(45, filler=" ba di go ku mi " * 8), base, epochs=20, max_query=10)
    assert made.counts["windows"] > 90
    assert made.counts["answers_in_no_window"] == 0
    text = " ba di go ku mi " * 30 + "Sheep 7: Ben is here." + " ba di go ku mi " * 11
    found = wordpipe.predict(tmp_path / "reader", text, "Who is here?")
    assert text[found.start : found.end] == found.answer
    assert made.metrics["valid_f1"] > 0.5
    assert found.answer == "Ben"


def test_questions_without_an_answer_have_a_threshold(base, tmp_path):
    made = trained(tmp_path, rows_of(120, none=2), base, epochs=15)
    facts = json.loads((tmp_path / "reader" / "manifest.json").read_text())["facts"]
    assert len(facts["thresholds"]) == 1
    assert made.metrics["valid_f1_by_threshold"] > 0.9
    pairs = [(f"Sheep 8: {name} is here.", "Who is here?") for name in ("nobody", "Eve")]
    answers = [*wordpipe.open_predictor(tmp_path / "reader").predict(pairs)]
    assert [(one.answer, one.start) for one in answers] == [("", -1), ("Eve", 9)]
    assert answers[0].no_answer > answers[1].no_answer
    assert answers[0].probability == answers[0].no_answer
    with pytest.raises(NothingFound, match="the model found no answer in any passage"):
        CliRunner().invoke(
            cli, ["predict", str(tmp_path / "reader"), "Who is here?", "--passages", _file(tmp_path, pairs[0][0])],
            standalone_mode=False, catch_exceptions=False,
        )  # fmt: skip


def _file(folder, *lines):
    (folder / "texts.txt").write_text("\n\n".join(lines))
    return str(folder / "texts.txt")


def test_a_passage_is_on_one_side_with_all_its_questions(base, tmp_path):
    rows = [
        row | {"q": f"{question} is here?"}
        for row in rows_of(40)
        for question in ("Who", "Which one", "Does it say who")
    ]
    made = trained(tmp_path, rows, base, epochs=1)
    assert made.counts["texts_held_out"] % 3 == made.counts["texts_train"] % 3 == 0
    assert made.counts["texts_held_out"] + made.counts["texts_train"] == 120


def test_the_commonest_answer_is_learned_and_unknown_ones_are_left_out(base, tmp_path):
    rows = rows_of(40)
    rows[3]["a"] = [[0, 5, None], rows[3]["a"][0], rows[3]["a"][0]]
    rows[4]["a"] = None
    made = trained(tmp_path, rows, base, epochs=1)
    assert made.counts["texts_without_label"] == 1
    assert made.counts["texts_train"] + made.counts["texts_held_out"] == 39
    assert any("have no spans" in text for text in made.warnings)


@pytest.mark.parametrize(
    ("change", "settings", "error", "says"),
    [
        (lambda rows: [row | {"a": [[5, 6, None]]} for row in rows], {}, InputError, "is not inside the passage"),
        (lambda rows: [rows[0]], {}, InputError, "too few records"),
        (lambda rows: rows, {"seq_len": 4096}, ConfigError, "cannot read sequences of this length"),
    ],
)
def test_bad_answers_and_settings_are_named(base, tmp_path, change, settings, error, says):
    with pytest.raises(error, match=says):
        trained(tmp_path, change(rows_of(20)), base, **settings)
    assert not (tmp_path / "reader").exists()


def test_a_corpus_without_questions_and_a_decoder_are_refused(built, base, tmp_path):
    wordpipe.ingest(
        [{"text": "a b", "a": [[0, 1, None]]}], output=tmp_path / "c", spans_field="a", run=QUIET, valid=0.0
    )
    with pytest.raises(InputError, match="no column 'text_b'") as caught:
        wordpipe.train_reader(tmp_path / "c", output=tmp_path / "x", init=base, **SMALL)
    assert "--text-b" in str(caught.value.hint)
    wordpipe.train_clm(built / "tokens", output=tmp_path / "clm", steps=1, **TINY)
    with pytest.raises(ConfigError, match="needs an encoder"):
        wordpipe.train_reader(tmp_path / "c", output=tmp_path / "x", init=tmp_path / "clm", **SMALL)


def test_an_index_and_passages_are_asked(reader, built, tmp_path):
    folder, _ = reader
    texts = [f"Sheep {n}: {NAMES[n % 3]} is here." for n in range(30)]
    wordpipe.ingest(
        [{"id": str(n), "text": text} for n, text in enumerate(texts)], output=tmp_path / "c", run=QUIET, valid=0.0
    )
    found = wordpipe.ask(folder, "Who is here?", passages=tmp_path / "c", k=4)
    assert [one.rank for one in found] == [1, 2, 3, 4]
    assert [one.said.score for one in found] == sorted((one.said.score for one in found), reverse=True)
    assert all(one.text[one.said.start : one.said.end] == one.said.answer for one in found)
    assert {one.id for one in found} <= {str(n) for n in range(30)}
    wordpipe.embed(built / "model", tmp_path / "c", output=tmp_path / "s", unit="document", run=QUIET)
    wordpipe.index(tmp_path / "s", output=tmp_path / "i", run=QUIET)
    (one, *_) = wordpipe.ask(folder, "Who is here?", index=tmp_path / "i", read=3)
    assert one.said.answer in NAMES
    assert one.text in texts
    run = CliRunner().invoke
    lines = run(
        cli, ["predict", str(folder), "Who is here?", "--index", str(tmp_path / "i"), "-k", "2", "--json"]
    ).output
    said = [json.loads(line) for line in lines.splitlines()]
    assert [line["rank"] for line in said] == [1, 2]
    assert all(line["text"][line["start"] : line["end"]] == line["answer"] and line["source"] for line in said)
    plain = run(
        cli, ["predict", str(folder), "Who is here?", "--passages", str(tmp_path / "c"), "-k", "1"]
    ).output.split("\t")
    assert plain[0] == "1"
    assert plain[2] in plain[4]
    with pytest.raises(ConfigError, match="give an index or passages"):
        wordpipe.ask(folder, "Who?", index=tmp_path / "i", passages=tmp_path / "c")


def test_a_passage_with_several_questions_is_read_once(reader, tmp_path):
    folder, _ = reader
    rows = [{"text": "Sheep 3: Ada is here.", "q": question, "a": []} for question in ("Who?", "What?", "Why?")]
    wordpipe.ingest(rows, output=tmp_path / "c", text_b="q", spans_field="a", run=QUIET, valid=0.0)
    assert len(wordpipe.ask(folder, "Who is here?", passages=tmp_path / "c")) == 1


def test_lines_are_a_question_a_tab_and_a_passage(reader):
    folder, _ = reader
    run = CliRunner().invoke
    given = "Who is here?\tSheep 1: Ben is here.\nWho is here?\tSheep\t2: Eve is here.\n"
    lines = [line.split("\t") for line in run(cli, ["predict", str(folder)], input=given).output.splitlines()]
    assert [(line[0], line[1], line[2], line[4]) for line in lines] == [
        ("1", "9", "12", "Ben"),
        ("2", "9", "12", "Eve"),
    ]
    (first, _) = run(cli, ["predict", str(folder), "--json"], input=given).output.splitlines()
    known = json.loads(first)
    assert (known["question"], known["text"], known["answer"]) == ("Who is here?", "Sheep 1: Ben is here.", "Ben")
    with pytest.raises(InputError, match="is a single text"):
        run(cli, ["predict", str(folder), "Who?"], standalone_mode=False, catch_exceptions=False)
    found = run(cli, ["predict", str(folder)], input=f"\n{given}\n\nWho?\n")
    assert "text 6 is a single text" in str(found.exception)  # the number of the line


def test_a_classifier_finds_no_answers(base, tmp_path):
    rows = [{"text": f"{i} is {w}", "label": w} for i in range(20) for w in ("red", "blue")]
    wordpipe.ingest(rows, output=tmp_path / "c", label_field="label", run=QUIET)
    wordpipe.train_classifier(tmp_path / "c", output=tmp_path / "m", init=base, epochs=1, device="cpu", run=QUIET)
    with pytest.raises(ArtifactError, match="cannot find answers"):
        wordpipe.ask(tmp_path / "m", "Who?", passages=tmp_path / "c")


def test_the_threshold_of_no_answer_is_the_best_of_all():
    random = np.random.default_rng(1)
    for n in (1, 2, 7, 30):
        for _ in range(40):
            none = random.random(n) < 0.5
            f1 = np.where(none, 0.0, np.round(random.random(n), 1))
            sure = np.round(np.clip(random.normal(0.4 + 0.2 * none, 0.3), 0, 1), 1)
            tried = (choose_no_answer(sure, f1, none), *np.linspace(0, 1.1, 45))
            scores = [float(np.where(sure >= one, none, f1).mean()) for one in tried]
            assert scores[0] == pytest.approx(max(scores))
