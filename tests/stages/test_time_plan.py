"""`wordpipe plan`: what fits into a time, by the one rule of estimates."""

import json
from pathlib import Path

import pytest

import wordpipe
from wordpipe.errors import ConfigError, InputError
from wordpipe.model import PRESETS

RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results"


def test_more_time_is_more_steps_and_a_larger_model_fewer(built):
    short, long = (wordpipe.plan(time, built / "tokens") for time in ("10m", "5h"))
    for few, many in zip(short["presets"], long["presets"], strict=True):
        assert few["steps"] < many["steps"]
        assert few["passes"] is not None
        assert many["tokens"] == many["steps"] * many["batch_size"] * many["seq_len"]
    steps = [row["steps"] for row in long["presets"]]
    assert steps[1] > steps[2] > steps[3]
    assert [row["preset"] for row in long["presets"]] == [*PRESETS]
    order = [*PRESETS, None]
    assert order.index(short["recommended"]) <= order.index(long["recommended"])


def test_a_time_is_read_and_what_is_none_is_refused():
    assert wordpipe.plan("90s")["seconds"] == 90
    assert wordpipe.plan("1h30m")["seconds"] == 5400
    assert wordpipe.plan(0.5)["seconds"] == 30
    assert wordpipe.plan("0.001s")["recommended"] is None  # too little on any machine
    for time in ("", "soon", "0", "-5m", "m", "nan"):
        with pytest.raises(ConfigError, match="not a time"):
            wordpipe.plan(time)
    with pytest.raises(ConfigError, match=r"plan does not support this command.*train mlm"):
        wordpipe.plan("1h", command="train word2vec")
    with pytest.raises(ConfigError, match="unknown device"):
        wordpipe.plan("1h", device="tpu")
    with pytest.raises(InputError, match="the text does not exist"):
        wordpipe.plan("1h", "nowhere")


def test_a_gpu_that_is_not_here_is_named_as_a_stored_figure(monkeypatch):
    monkeypatch.setattr("wordpipe.stages.time_plan._has_gpu", lambda: False)
    found = wordpipe.plan("1h", device="cuda")
    assert "a stored measurement" in found["basis"]
    lines = json.loads((RESULTS / "model_gpu.json").read_bytes())["lines"]
    stored = next(line for line in lines if line.get("way") == "compiled, Muon" and line["speed"].startswith("12L/768"))
    assert {row["tokens_per_s"] for row in found["presets"]} == {stored["tokens_per_s"]}


def test_the_measured_loss_is_that_of_the_results():
    kept = json.loads((RESULTS / "model_recipes.json").read_bytes())
    default = next(line for line in kept["lines"] if line["cell"] == "default")
    assert wordpipe.plan("1h")["measured"] == {
        "preset": "mini", "tokens": kept["tokens"], "loss": round(default["loss"], 2),
        "frequencies": round(kept["text"]["unigram_entropy"], 2),
    }  # fmt: skip
    assert wordpipe.plan("1h", command="train clm")["measured"] is None


def test_the_table_names_the_next_command(built, cli):
    found = cli("plan", "30m", built / "tokens")
    assert found.code == 0
    assert all(preset in found.out for preset in PRESETS)
    assert "after 3.0 million tokens of Wikipedia, the preset mini had a held-out loss of 4.07" in found.err
    assert f"next: wordpipe train mlm {built / 'tokens'} -o run/model --preset " in found.err
    assert "--minutes 30" in found.err
    assert json.loads(cli("plan", "30m", "--json").out)["seconds"] == 1800
    assert cli("plan", "soon").code == 2
