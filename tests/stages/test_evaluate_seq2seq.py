"""`evaluate seq2seq`: figures of what a model wrote, beside baselines; the loss against a slow loop; the file of outputs."""

import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sacrebleu
import torch

import wordpipe
from tests.support.model_artifacts import artifact_of, folder_of, model_files, pair_files, tokenizer_file
from wordpipe import evaluate_seq2seq, open_model
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError
from wordpipe.metrics import (
    bleu_score,
    bleu_statistics,
    exact_match,
    mean_interval,
    paired_difference,
    paired_score_difference,
    rouge_l,
    score_interval,
)
from wordpipe.stages import RunOptions, Target, TargetWriter, Written
from wordpipe.stages.evaluate import seq2seq as stage

STYLES = ("t5", "bart", "vaswani")
PAIRS = [
    ("the cat sat on the mat. it slept.", "the cat sat on the mat"),
    ("Two Dogs run, fast!", "Two Dogs run, fast!"),
    ("bread rises in the oven", "a loaf in the oven"),
    ("the moon pulls the sea", "tides follow the moon"),
    ("bees dance for honey. They fly far.", "bees dance for honey."),
]
OUTPUTS = {
    "the cat sat on the mat. it slept.": "the cat sat on a mat",
    "Two Dogs run, fast!": "two dogs run , fast !",
    "bread rises in the oven": "a loaf in the oven",
    "the moon pulls the sea": "",
    "bees dance for honey. They fly far.": "The bees dance for honey",
}
TRAIN = [
    ("a cat sat on a mat", "the cat on the mat"),
    ("dogs run in the park", "dogs run"),
    ("the oven is hot, bread is in it", "hot bread"),
    ("bees fly", "bees"),
]


@pytest.fixture(scope="module")
def tokenizer(handbook, tmp_path_factory, _own_cache):
    return tokenizer_file(handbook, tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def models(tokenizer, tmp_path_factory):
    """A folder of transformers for each style."""
    folder = tmp_path_factory.mktemp("models")
    return {style: folder_of(pair_files(tokenizer, style), folder / style) for style in STYLES}


def lines_of(pairs):
    return "".join("\t".join(pair) + "\n" for pair in pairs)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data.tsv").write_text(lines_of(PAIRS))
    return tmp_path / "data.tsv"


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.tsv").write_text(lines_of(TRAIN))
    return tmp_path / "train.tsv"


@pytest.fixture
def written(monkeypatch):
    """A writer that gives these outputs, with the settings that it was made with."""
    made = []

    def make(outputs):
        def make_writer(opened, settings, run):
            made.append(settings)
            return lambda sources: [
                Written(text, [Target(outputs[text], -1.5, -3.0, 2, finished=len(outputs[text]) > 5)], len(text) % 2)
                for text in sources
            ]

        monkeypatch.setattr(stage, "make_writer", make_writer)
        return made

    return make


def evaluated(*args, **wishes):
    return evaluate_seq2seq(*args, **{"draws": 100, "device": "cpu", "threads": 1, "run": quiet(), **wishes})


def quiet():
    return RunOptions(report=lambda _: None)


# ---- figures


def by_hand(outputs, references):
    """The figures by the metrics themselves."""
    bleu = sacrebleu.BLEU().corpus_score(outputs, [references])
    return {
        "bleu": bleu.score,
        "bleu_lc": sacrebleu.BLEU(tokenize="none", lowercase=True).corpus_score(outputs, [references]).score,
        "chrf": sacrebleu.CHRF().corpus_score(outputs, [references]).score,
        "rouge_l": rouge_l(outputs, references).mean(),
        "exact_match": exact_match(outputs, references, normalised=True).mean(),
        "length_ratio": bleu.sys_len / bleu.ref_len,
    }


def test_the_figures_are_those_of_the_metrics(models, data, written):
    written(OUTPUTS)
    found = evaluated(models["t5"], data)
    outputs, references = [OUTPUTS[source] for source, _ in PAIRS], [target for _, target in PAIRS]
    model = found["systems"][0]
    got = {name: model["metrics"][name] for name in by_hand(outputs, references)}
    assert got == pytest.approx(by_hand(outputs, references), abs=1e-6)
    assert found["metrics"]["bleu"] == found["metrics"]["model"]["bleu"] == model["metrics"]["bleu"]
    assert model["metrics"]["unfinished"] == 0.2  # the empty one
    assert model["counts"]["outputs_empty"] == 1
    lengths = [len(source) % 2 for source, _ in PAIRS]
    assert (model["counts"]["sources_cut"], model["counts"]["tokens_cut"]) == (sum(lengths), sum(lengths))
    assert found["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert found["signatures"]["bleu_lc"].startswith("nrefs:1|case:lc|eff:no|tok:none|")
    assert found["signatures"]["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    json.dumps(found)


def test_golden_figures(models, data, written):
    """BLEU and chrF by sacrebleu 2.6, the others counted by hand."""
    written(OUTPUTS)
    metrics = evaluated(models["t5"], data)["metrics"]
    scores = [metrics[name] for name in ("bleu", "bleu_lc", "chrf")]
    assert scores == pytest.approx([55.041296, 44.889470, 66.966471], abs=1e-5)
    # words of 13a: outputs 6 + 6 + 5 + 0 + 5, references 6 + 6 + 5 + 4 + 5
    assert metrics["length_ratio"] == round(22 / 26, 6)
    # without articles, marks and case all but the empty one are their references
    assert metrics["exact_match"] == 0.8
    assert metrics["rouge_l"] == pytest.approx((10 / 12 + 1 + 1 + 0 + 8 / 9) / 5, abs=1e-6)
    written(dict(PAIRS))
    perfect = evaluated(models["t5"], data)["metrics"]
    wanted = {"bleu": 100, "bleu_lc": 100, "chrf": 100, "rouge_l": 1, "exact_match": 1, "length_ratio": 1}
    assert {name: perfect[name] for name in wanted} == pytest.approx(wanted)


def test_intervals_are_those_of_the_bootstrap_and_of_the_seed(models, data, written):
    written(OUTPUTS)
    outputs, references = [OUTPUTS[source] for source, _ in PAIRS], [target for _, target in PAIRS]
    found = evaluated(models["t5"], data)["systems"]
    intervals = found[0]["intervals"]
    bleu = score_interval(bleu_statistics(outputs, references), bleu_score, draws=100)
    assert intervals["bleu"] == pytest.approx(bleu, abs=1e-6)
    assert intervals["rouge_l"] == pytest.approx(mean_interval(rouge_l(outputs, references), draws=100), abs=1e-6)
    assert intervals["perplexity"] == pytest.approx(np.exp(intervals["loss"]), rel=1e-4)
    copy = [source for source, _ in PAIRS]
    score = paired_score_difference(
        bleu_statistics(outputs, references), bleu_statistics(copy, references), bleu_score, draws=100
    )
    mean = paired_difference(rouge_l(outputs, references), rouge_l(copy, references), draws=100)
    against = found[0]["against"]["copy"]
    for one, want in ((against["bleu"], score), (against["rouge_l"], mean)):
        assert (one["difference"], one["p"]) == pytest.approx((want.mean, want.p), abs=1e-6)
        assert one["interval"] == pytest.approx(want.interval, abs=1e-6)
    assert evaluated(models["t5"], data)["systems"] == found
    other = evaluated(models["t5"], data, seed=2)["systems"]
    assert other[0]["metrics"] == found[0]["metrics"]
    assert other[0]["intervals"] != found[0]["intervals"]
    none = evaluated(models["t5"], data, draws=0)["systems"]
    assert {*none[0]["intervals"].values()} == {None}
    assert none[0]["against"] == {}


def test_without_sacrebleu_the_others_are_measured(data, monkeypatch):
    monkeypatch.setattr(stage, "has_sacrebleu", lambda: False)
    found = evaluated([], data)
    assert {*found["systems"][0]["metrics"]} == {"rouge_l", "exact_match"}
    assert found["signatures"] == {}
    assert any("not measured, because sacrebleu" in line and "pip install" in line for line in found.remarks)


# ---- baselines


def test_baselines_are_measured_as_models_are(models, data, train, written):
    written(OUTPUTS)
    found = evaluated(models["t5"], data, train=train)
    references = [target for _, target in PAIRS]
    outputs = {
        "copy": [source for source, _ in PAIRS],
        "first_sentence": ["the cat sat on the mat. it slept.", "Two Dogs run, fast!", *(source for source, _ in PAIRS[2:4]),
                           "bees dance for honey."],
        "nearest": ["the cat on the mat", "dogs run", "hot bread", "", "bees"],
    }  # fmt: skip
    assert [one["system"] for one in found["systems"]] == ["model", *outputs]
    for one in found["systems"][1:]:
        assert one["metrics"] == pytest.approx(by_hand(outputs[one["name"]], references), abs=1e-6), one["name"]
        assert one["against"] == {}
    assert [*found["systems"][0]["against"]] == [*outputs]
    assert found["systems"][3]["counts"] == {"outputs_empty": 1}
    assert (found["counts"]["train_pairs"], found["counts"]["sources_in_train"]) == (4, 0)
    assert found["train"] == [str(train)]


def test_without_training_pairs_there_is_no_nearest(data):
    found = evaluated([], data)
    assert [one["system"] for one in found["systems"]] == ["copy", "first_sentence"]
    assert found["train"] is None
    assert "train_pairs" not in found["counts"]
    assert found["metrics"]["bleu"] == found["metrics"]["copy"]["bleu"]


def test_sources_of_the_training_are_counted(data, train):
    train.write_text(lines_of([*TRAIN, PAIRS[0], PAIRS[0]]))
    assert evaluated([], data, train=train)["counts"]["sources_in_train"] == 1


# ---- tasks


def test_tasks_stand_by_themselves_and_together(models, tmp_path, written):
    made = written(OUTPUTS)
    tasks = ["title: ", "answer: ", "title: ", "", "answer: "]
    rows = [
        {"text": source, "text_b": target, "task": task}
        for (source, target), task in zip(PAIRS, tasks, strict=True)
    ]  # fmt: skip
    trained = [{"text": PAIRS[1][0], "text_b": "of an answer", "task": "answer: "},
               {"text": "dogs", "text_b": "of a title", "task": "title: "}]  # fmt: skip
    found = evaluated(models["t5"], rows, train=trained, prefix_field="task", samples=5)
    assert [one.prefix for one in made] == ["title: ", "answer: ", ""]
    for one in found["systems"]:
        assert {task: part["pairs"] for task, part in one["by_prefix"].items()} == {"title: ": 2, "answer: ": 2, "": 1}
    model, _, _, nearest = found["systems"]
    for task, part in model["by_prefix"].items():
        own = [pair for pair, one in zip(PAIRS, tasks, strict=True) if one == task]
        want = by_hand([OUTPUTS[source] for source, _ in own], [target for _, target in own])
        assert {name: part["metrics"][name] for name in want} == pytest.approx(want, abs=1e-6)
        assert [*part["against"]] == ["copy", "first_sentence", "nearest"]
    assert model["by_prefix"][""]["intervals"]["bleu"] is None  # of one pair
    # of the same task only: "of an answer" where dogs run, and nothing of a title, as no title has a word of these sources
    assert nearest["counts"]["outputs_empty"] == 4
    assert [one["prefix"] for one in found["samples"]] == tasks
    assert evaluated(models["t5"], rows)["systems"][0]["by_prefix"] == {}


def test_the_prefix_of_all(models, data, written):
    made = written(OUTPUTS)
    found = evaluated(models["t5"], data, prefix="title: ", beams=3, length_penalty=0.5, max_tokens=7)
    assert [one["prefix"] for one in found["systems"]] == ["title: ", None, None]
    assert evaluated(models["t5"], data)["systems"][0]["prefix"] is None
    assert [(one.prefix, one.beams, one.length_penalty, one.max_tokens) for one in made] == [
        ("title: ", 3, 0.5, 7), (None, 5, 1.0, None),
    ]  # fmt: skip


# ---- the loss


@torch.no_grad()
def slow_loss(opened, source, target, prefix="", first=()):
    """Token by token, nothing packed."""
    ids = opened.tokenizer.encode(prefix + source).ids
    labels = [*first, *opened.encode(target), opened.special["eos"]]
    seen, nats = [opened.model.config.start_id], 0.0
    for label in labels:
        logits = opened.model(torch.tensor([ids]), torch.tensor([seen]))[0, -1].double()
        nats -= float(logits.log_softmax(dim=0)[label])
        seen.append(label)
    return nats, len(labels)


@pytest.mark.parametrize("style", STYLES)
def test_the_loss_is_that_of_a_slow_loop(style, models, data, written):
    written(OUTPUTS)
    opened = open_model(models[style])
    slow = [slow_loss(opened, *pair) for pair in PAIRS]
    metrics = evaluated(models[style], data)["systems"][0]
    nats, tokens = map(sum, zip(*slow, strict=True))
    assert metrics["metrics"]["loss"] == pytest.approx(nats / tokens, rel=1e-5)
    assert metrics["metrics"]["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert metrics["counts"]["targets"] == tokens
    found = stage.pair_losses(opened, *map(list, zip(*PAIRS, strict=True)), None, quiet())
    assert found.nats == pytest.approx([nats for nats, _ in slow], rel=1e-5)
    assert found.tokens.tolist() == [tokens for _, tokens in slow]


def test_the_loss_of_a_model_whose_targets_begin_with_a_token_reads_it_first(models, tmp_path):
    """As public BART folders (forced_bos_token_id)."""
    model, first = tmp_path / "forced", 30
    shutil.copytree(models["vaswani"], model)
    (model / "generation_config.json").write_text(json.dumps({"forced_bos_token_id": first}), "utf-8")
    opened = open_model(model)
    assert opened.model.config.first_id == first
    found = stage.pair_losses(opened, *map(list, zip(*PAIRS, strict=True)), None, quiet())
    slow = [slow_loss(opened, *pair, first=(first,)) for pair in PAIRS]
    assert found.nats == pytest.approx([nats for nats, _ in slow], rel=1e-5)
    assert found.tokens.tolist() == [tokens for _, tokens in slow]


@pytest.mark.parametrize("multiple", [1, 4])
def test_the_loss_of_a_prefix_and_of_many_batches(multiple, models, monkeypatch):
    opened = open_model(models["vaswani"])
    sources, targets = map(list, zip(*PAIRS, strict=True))
    whole = stage.pair_losses(opened, sources, targets, "say: ", quiet())
    assert whole.nats == pytest.approx([slow_loss(opened, *pair, "say: ")[0] for pair in PAIRS], rel=1e-5)
    monkeypatch.setattr(stage, "_POSITIONS_AT_ONCE", {"cpu": 20})
    monkeypatch.setattr(stage, "_LOGITS_AT_ONCE", 1000)
    monkeypatch.setattr("wordpipe.training.seq2seq_pairs._MULTIPLES", {"cpu": multiple})
    assert stage.pair_losses(opened, sources, targets, "say: ", quiet()).nats == pytest.approx(whole.nats, rel=1e-5)


@pytest.mark.parametrize("style", STYLES)
def test_the_loss_of_what_was_written_is_its_probability(style, models):
    """The loss reads sources as the writer does: a greedy target has the loss that its search found."""
    opened = open_model(models[style])
    settings = stage.Seq2SeqEvaluationSettings(beams=1, max_tokens=6, device="cpu", threads=1).generation("go: ")
    sources = [word for source, _ in PAIRS for word in source.split()]
    pairs = [(one.source, one.targets[0]) for one in TargetWriter(opened, settings).write(sources)]
    pairs = [(source, target) for source, target in pairs
             if target.finished and len(opened.encode(target.text)) + 1 == target.tokens]  # fmt: skip
    assert len(pairs) > 2
    found = stage.pair_losses(opened, [one for one, _ in pairs], [one.text for _, one in pairs], "go: ", quiet())
    assert found.nats == pytest.approx([-target.logprob for _, target in pairs], rel=1e-3)


def test_a_model_without_an_opinion_has_the_loss_of_its_vocabulary(tokenizer, data, tmp_path, written):
    written(OUTPUTS)
    opened = open_model(folder_of(pair_files(tokenizer, "t5"), tmp_path / "flat"))
    with torch.no_grad():
        for weight in opened.model.parameters():
            weight.zero_()
    found = stage.pair_losses(opened, *map(list, zip(*PAIRS, strict=True)), None, quiet())
    assert found.nats == pytest.approx(found.tokens * math.log(448), rel=1e-6)


def test_what_is_longer_than_the_model_is_counted(tokenizer, tmp_path):
    model = folder_of(pair_files(tokenizer, "vaswani", max_len=12), tmp_path / "short")
    long = " ".join(["bees fly far"] * 20)
    rows = [{"text": long, "text_b": "bees"}, {"text": "bees", "text_b": long}, {"text": "bees", "text_b": "fly"}]
    opened = open_model(model)
    counts = evaluated(model, rows)["systems"][0]["counts"]
    assert counts["sources_cut"] == 1
    assert counts["tokens_cut"] == len(opened.encode(long)) - 12 + len(opened.before) + len(opened.after)
    assert counts["targets_cut"] == 1
    assert counts["targets"] == 12 + len(opened.encode("bees")) + len(opened.encode("fly")) + 2


# ---- the whole


@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_writes_what_its_writer_writes(beams, models, data, tmp_path):
    found = evaluated([models["bart"], models["vaswani"]], data, beams=beams, max_tokens=8, samples=5)
    assert [(one["system"], one["name"]) for one in found["systems"][:2]] == [
        ("model", str(models[style])) for style in ("bart", "vaswani")
    ]
    for style in ("bart", "vaswani"):
        settings = stage.Seq2SeqEvaluationSettings(beams=beams, max_tokens=8, device="cpu", threads=1).generation(None)
        wanted = TargetWriter(open_model(models[style]), settings).write([source for source, _ in PAIRS])
        outputs = [one.targets[0].text for one in wanted]
        assert [one["outputs"][str(models[style])] for one in found["samples"]] == outputs
    assert [(one["source"], one["references"]) for one in found["samples"]] == [(a, [b]) for a, b in PAIRS]


def test_samples_are_chosen_by_the_seed(data):
    def chosen(**wishes):
        return [one["source"] for one in evaluated([], data, samples=2, **wishes)["samples"]]

    assert chosen() == chosen()
    assert len({tuple(chosen(seed=seed)) for seed in range(9)}) > 1
    places = [[source for source, _ in PAIRS].index(one) for one in chosen()]
    assert places == sorted({*places})


# ---- the file of outputs


def test_outputs_are_written(models, tmp_path, written):
    rows = [("a\tb\\c\nd", "eins", "one"), ("e", "zwei", None)]
    written({"a\tb\\c\nd": "x\ty", "e": "long enough"})
    data = [{"text": text, "text_b": target, "other": other} for text, target, other in rows]
    evaluated(models["t5"], data, text_b=["text_b", "other"], output=tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "source\treference\treference_2\toutput\tscore",
        "a\\tb\\\\c\\nd\teins\tone\tx\\ty\t-1.500000",
        "e\tzwei\t\tlong enough\t-1.500000",
    ]
    data = [row | {"task": "t: "} for row in data]
    evaluated(models["t5"], data, prefix_field="task", output=tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"prefix": "t: ", "source": "a\tb\\c\nd", "reference": "eins", "output": "x\ty", "score": -1.5},
        {"prefix": "t: ", "source": "e", "reference": "zwei", "output": "long enough", "score": -1.5},
    ]


def test_a_file_takes_what_one_model_wrote(models, data, tmp_path):
    with pytest.raises(ConfigError, match="0 models"):
        evaluated([], data, output=tmp_path / "out.tsv")
    with pytest.raises(ConfigError, match=r"\.txt.*\.tsv or \.parquet"):
        evaluated(models["t5"], data, output=tmp_path / "out.txt")
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(StorageError, match=r"folder\.tsv"):
        evaluated(models["t5"], data, output=tmp_path / "folder.tsv", max_tokens=2, beams=1)
    assert not [*tmp_path.glob("out*")]


@pytest.mark.parametrize("named", ["the data", "the training pairs", "one of a list", "a link", "a glob", "a folder"])
def test_a_file_that_is_read_is_not_replaced(models, data, train, tmp_path, named, written):
    """By any of its names; another file beside it is."""
    written(OUTPUTS)
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    part = folder / "part.parquet"
    pq.write_table(pa.table({"text": ["a"], "text_b": ["b"]}), part)
    (tmp_path / "link.tsv").symlink_to(data)
    sources, output, file = {
        "the data": ({"data": data}, data, data),
        "the training pairs": ({"data": data, "train": train}, train, train),
        "one of a list": ({"data": [train, data]}, tmp_path / "parts.parquet" / ".." / "data.tsv", data),
        "a link": ({"data": tmp_path / "link.tsv"}, data, data),
        "a glob": ({"data": data, "train": str(tmp_path / "*" / "p*.parquet")}, part, part),
        "a folder": ({"data": folder}, part, part),
    }[named]  # fmt: skip
    before = file.read_bytes()
    with pytest.raises(StorageError, match="the output is one of the input files and would be overwritten") as error:
        evaluated(models["t5"], **sources, output=output)
    assert error.value.where == str(output)
    assert file.read_bytes() == before
    (tmp_path / "out.tsv").write_text("older")
    evaluated(models["t5"], data, output=tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().startswith("source\t")


# ---- errors


def test_other_models_are_refused_before_anything_is_written(models, tokenizer, data, tmp_path, written):
    made = written(OUTPUTS)
    decoder = artifact_of(model_files(tokenizer, "decoder"), tmp_path / "decoder")
    with pytest.raises(ArtifactError, match="expected encoder-decoder"):
        evaluated([models["t5"], decoder], data)
    with pytest.raises((ArtifactError, InputError), match="nowhere"):
        evaluated(tmp_path / "nowhere", data)
    assert made == []


@pytest.mark.parametrize(
    ("wishes", "word"),
    [
        ({"prefix": "a", "prefix_field": "b"}, "prefix_field"),
        ({"beams": 0}, "beams"),
        ({"draws": -1}, "draws"),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens"),
        ({"beams": 1, "length_penalty": 2.0}, "length_penalty"),
        ({"length_penalty_by": "google"}, "length_penalty_by"),
        ({"beam": 3}, "did you mean beams"),
    ],
)
def test_wrong_settings(wishes, word, data):
    with pytest.raises(ConfigError) as caught:
        evaluated([], data, **wishes)
    assert word in str(caught.value)


def test_it_is_offered():
    assert wordpipe.evaluate_seq2seq is evaluate_seq2seq
