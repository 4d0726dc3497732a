"""`wordpipe evaluate seq2seq`: tables, JSON, samples and the file of outputs."""

import json
import re
from itertools import pairwise

import pytest

from tests.support.model_artifacts import artifact_of, folder_of, model_files, pair_files, tokenizer_file
from tests.support.results import rows_of
from wordpipe.metrics import Figure

PAIRS = [
    ("the bees fly to the hill. They come back.", "bees fly to the hill"),
    ("honey is sweet", "sweet honey"),
    ("the sea is high", "high sea"),
]


@pytest.fixture(scope="module")
def tokenizer(handbook, tmp_path_factory, _own_cache):
    return tokenizer_file(handbook, tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    return folder_of(pair_files(tokenizer, "vaswani", max_len=24), tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "data.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS) + "nothing\t\n")
    (tmp_path / "train.de").write_text("the bees fly\nhoney is sweet\n")
    (tmp_path / "train.en").write_text("they fly\nsweet\n")
    return tmp_path


def arguments(model, files):
    return [
        "evaluate", "seq2seq", model, "--data", files / "data.tsv", "--train", files / "train.de", "--train",
        files / "train.en", "--max-tokens", 8, "--draws", 50, "--device", "cpu", "--threads", 1,
    ]  # fmt: skip


def test_a_table_and_its_json_say_the_same(cli, model, files):
    args = [*arguments(model, files), "--samples", 2, "-o", files / "out.tsv"]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    assert [one["system"] for one in found["systems"]] == ["model", "copy", "first_sentence", "nearest"]
    rows = rows_of(table.out)
    for measure in ("bleu", "bleu_lc", "chrf", "rouge_l", "exact_match", "length_ratio"):
        figures = [Figure(measure, one["metrics"][measure]) for one in found["systems"]]
        assert rows[figures[0].measure.label] == [one.shown for one in figures]
    metrics = found["systems"][0]["metrics"]
    assert rows["loss (nats/token)"] == [f"{metrics['loss']:.4f}", "–", "–", "–"]
    assert rows["perplexity"][0] == f"{metrics['perplexity']:,.2f}"
    nearest = found["systems"][0]["against"]["nearest"]["exact_match"]
    least = "≤ " if nearest["p"] == 1 / 50 else ""
    assert (
        rows["model above"][-1] == f"{100 * nearest['difference']:+.2f}, p {least}{nearest['p']:.3g}"
    )  # of the last measure
    low, high = found["systems"][-1]["intervals"]["exact_match"]
    lines = [line.strip() for line in table.out.splitlines()]
    drawn = next(after for line, after in pairwise(lines) if line.startswith("exact match"))
    assert drawn.endswith(f"{100 * low:.2f} … {100 * high:.2f}")
    for signature in found["signatures"].values():
        assert f": {signature}\n" in table.out
    first = found["samples"][0]
    assert f"sample 1\nsource     {first['source']}\nreference  {first['references'][0]}\noutput" in table.out
    assert "3 pairs\nleft out: 1 pair without a target\nalso in the training pairs: 1 source\n" in table.err
    empty = {one["name"]: one["counts"]["outputs_empty"] for one in found["systems"]}
    assert empty["nearest"] == 1
    assert "the nearest in training: 1 empty output\n" in table.err
    assert len((files / "out.tsv").read_text().splitlines()) == 4
    bare = cli(*args, "-q")
    assert (bare.code, bare.err) == (0, "")


def test_what_is_cut_or_missing_is_said(cli, model, files):
    long = " ".join(["bees"] * 60)
    (files / "data.tsv").write_text(f"{long}\tx\nbees\t{long}\n")
    told = cli(*arguments(model, files)[:5], "--max-tokens", 2, "--draws", 0, "--device", "cpu").err
    assert re.search(r"model did not read \d+ tokens of 1 source: the model cannot read longer sources\n", told)
    assert "model read only the beginning of 1 reference, so the loss covers only this part\n" in told
    assert told.endswith("to add the nearest training pair as a baseline, use --train\n")


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ((), 2, "--data"),
        (("--data", "nowhere.tsv"), 3, "nowhere.tsv"),
        (("--data", "nowhere.tsv", "--draws", "-1"), 2, "-1"),
        (("--data", "nowhere.tsv", "--prefix", "a", "--prefix-field", "b"), 2, "prefix_field"),
        (("--data", "nowhere.tsv", "-o", "out.txt"), 2, ".parquet"),
        (("nothing", "--data", "{data}"), 4, "nothing"),
    ],
)
def test_wrong_wishes(cli, files, args, code, word):
    result = cli("evaluate", "seq2seq", *(arg.format(data=files / "data.tsv") for arg in args))
    assert (result.code, result.out) == (code, "")
    assert word in result.err


def test_a_model_of_another_kind(cli, tokenizer, files):
    decoder = artifact_of(model_files(tokenizer, "decoder"), files / "decoder")
    result = cli("evaluate", "seq2seq", decoder, "--data", files / "data.tsv")
    assert (result.code, result.out) == (4, "")
    assert "encoder-decoder" in result.err
