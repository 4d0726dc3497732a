"""Figures, systems and tables, as every evaluation is put together of them."""

import json

import numpy as np
import pytest

from wordpipe.metrics import (
    MEASURES,
    Apart,
    Evaluation,
    Figure,
    Measured,
    System,
    Table,
    beside_models,
    mean_interval,
    paired_difference,
    paired_score_difference,
    ratio_of,
    score_interval,
    side_by_side,
    written,
)
from wordpipe.wording import short_name


def test_little_is_not_nothing():
    shown = [written(value, "{:.2%}") for value in (None, 0, 0.00001, 0.0001, 0.5, 1, -0.25)]
    assert shown == ["–", "0", "<0.01%", "0.01%", "50.00%", "100.00%", "-25.00%"]
    assert written(-2.34567, "{:.3f}") == "-2.346"


def test_the_end_of_a_long_name_says_most():
    assert short_name("run/words", 10) == "run/words"
    assert short_name("a/long\npath/to/words", 10) == "…/to/words"
    assert short_name("evil\x1b", 20) == "evil\\x1b"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_mean_and_a_score_of_sums_are_those_of_the_bootstrap(seed):
    one, other = np.random.default_rng(seed).random((2, 30))
    mean, floor = Measured(one), Measured(other)
    assert mean.value() == pytest.approx(one.mean())
    assert mean.interval(200) == pytest.approx(mean_interval(one, draws=200), abs=1e-6)
    slow = paired_difference(one, other, draws=200)
    assert mean.against(floor, 200).to_json() == {
        "difference": round(slow.mean, 6), "interval": pytest.approx(slow.interval, abs=1e-6), "p": round(slow.p, 6),
    }  # fmt: skip
    rows = [np.stack([values, np.ones(30)], axis=1) for values in (one, other)]
    summed = [Measured(some, ratio_of) for some in rows]
    assert summed[0].value() == pytest.approx(one.mean())
    assert summed[0].interval(200, 7) == pytest.approx(score_interval(rows[0], ratio_of, draws=200, seed=7), abs=1e-6)
    slow = paired_score_difference(*rows, ratio_of, draws=200)
    assert summed[0].against(summed[1], 200).p == slow.p
    some = np.arange(30) < 10
    assert mean.rows_at(some).value() == pytest.approx(one[:10].mean())
    assert mean.interval(0) is mean.against(floor, 0) is None


@pytest.mark.parametrize(
    ("p", "draws", "shown"), [(0.05, 20, "p ≤ 0.05"), (0.1, 20, "p 0.1"), (0.001, 1_000, "p ≤ 0.001"), (1.0, 1, "p 1")]
)
def test_the_least_p_that_draws_can_give_is_a_bound(p, draws, shown):
    apart = Apart(0.015, [0.01, 0.02], p, draws)
    lines = [*Figure("mrr", 0.5, below={"above": apart}).lines()]
    assert lines == [("MRR", "50.00"), ("  above", f"+1.50, {shown}")]
    assert apart.to_json() == {"difference": 0.015, "interval": [0.01, 0.02], "p": p}


def test_a_figure_is_written_as_its_key_says():
    assert [*Figure("spearman/dev", 0.5, [0.25, 1.0]).lines()] == [("Spearman", "50.00"), ("  95 %", "25.00 … 100.00")]
    assert [*Figure("spearman/dev", 0.5, label="dev", form="{:.3f}").lines()] == [("dev", "0.500")]
    assert [*Figure("of_another_program", 12345.678).lines()] == [("of another program", "1.235e+04")]
    assert all(measure.form.format(0.5) for measure in MEASURES.values())


def test_columns_of_other_figures_stand_side_by_side():
    one = System("one", [Figure("bleu", 10.0, [9.0, 11.0], drawn=True), Figure("loss", 2.0)])
    other = System(
        "other", [Figure("bleu", 20.0, below={"model above": None})], shown=[Figure("bleu", 20.0), ("kind", "x")]
    )
    table = side_by_side([one, other])
    assert table.heads == ["one", "other"]
    assert table.rows == [
        ("BLEU", ["10.00", "20.00"]), ("  95 %", ["9.00 … 11.00", None]), ("loss (nats per target)", ["2.0000", None]),
        ("kind", [None, "x"]),
    ]  # fmt: skip
    turned = table.turned("x")
    assert (turned.heads, turned.corner) == (["BLEU", "95 %", "loss (nats per target)", "kind"], "x")
    assert turned.rows[1] == ("other", ["20.00", None, None, "x"])
    assert one.to_json() == {"metrics": {"bleu": 10.0, "loss": 2.0}, "intervals": {"bleu": [9.0, 11.0]}}
    assert other.to_json() == {"metrics": {"bleu": 20.0}}


def test_an_evaluation_is_what_json_prints():
    found = Evaluation({"evaluated": "x"}, parts=[Table(["a"], [("b", ["c"])]), "said"], remarks=["more"])
    assert json.dumps(found) == '{"evaluated": "x"}'
    assert (found["evaluated"], len(found.parts), found.remarks, found.details) == ("x", 2, ["more"], ())


@pytest.mark.parametrize("floors_only", [True, False])
def test_models_are_set_beside_the_others_on_the_same_examples(floors_only):
    random = np.random.default_rng(4)
    systems = [("run/one", True), ("run/other", True), ("floor", False)]
    measures = [{key: Measured(random.random(30)) for key in ("f1", "loss")} for _ in systems]
    del measures[2]["loss"]  # which a baseline does not have
    found = beside_models(systems, measures, 50, 7, floors_only=floors_only)
    apart = {number: measures[number]["f1"].against(measures[2]["f1"], 50, 7) for number in (0, 1)}
    assert found[2].below["f1"] == {"above: run/one": apart[0], "above: run/other": apart[1]}
    assert found[2].against == {}
    assert found[0].against["floor"] == {"f1": apart[0].to_json()}
    assert ("run/other" in found[0].against) is ("above: run/other" in found[0].below["f1"]) is not floors_only
    if not floors_only:
        assert [*found[0].against["run/other"]] == ["f1", "loss"]
    assert beside_models(systems, measures, 0, 7)[0] == ({"f1": {}, "loss": {}}, {})
    one = beside_models(systems[1:], measures[1:], 50, 7, keys=["loss"])
    assert one[1].below == {"f1": {}}
    assert beside_models(systems[1:], measures[1:], 50, 7)[1].below["f1"] == {"model above": apart[1]}
