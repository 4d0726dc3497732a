"""`wordpipe plot`: files, lines of blocks, JSON."""

import json

from tests.stages.test_plot import made, running
from tests.support.training_logs import made_log


def test_a_file_is_made_and_said(cli, tmp_path):
    made(tmp_path / "model", made_log())
    result = cli("plot", tmp_path / "model", "-o", tmp_path / "curve.png", "--axis", "steps", "--log")
    assert (result.code, result.out) == (0, "")
    assert "model: 400 steps, 1.6M tokens, 3m20s" in result.err
    assert "curve.png" in result.err
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_file_there_are_lines(cli, tmp_path):
    made(tmp_path / "model", made_log(floor=4.0))
    running(tmp_path / "other", made_log(valid=0), step=50)
    result = cli("plot", tmp_path / "model", tmp_path / "other")
    assert result.code == 0
    first, train, valid, lr, entropy, second, *rest = result.out.splitlines()
    assert (first, second) == (
        "model: 400 steps, 1.6M tokens, 3m20s",
        "other: 50 steps, 204.8k tokens, 25.0 s, not finished",
    )
    name, begins, blocks, ends = train.rsplit(maxsplit=3)
    losses = [row["loss"] for row in made_log(floor=4.0)["log"] if row["split"] == "train"]
    assert (name.strip(), begins, ends) == ("training loss", f"{losses[0]:.3f}", f"{losses[-1]:.3f}")
    assert (len(blocks), blocks[0], blocks[-1]) == (40, "█", "▁")
    assert valid.startswith("  held-out loss   ")
    assert lr.startswith("  learning rate   0.0009")
    assert entropy == "  unigram entropy 7.000  (the loss of a model that knows only token frequencies)"
    assert len(rest) == 2  # nobody measured the entropy of the other, nor its loss on held-out text


def test_json_has_the_whole_log(cli, tmp_path):
    log = made_log()
    made(tmp_path / "model", log)
    found = json.loads(cli("plot", tmp_path / "model", "--json", "-q").out)
    assert (found["path"], found["bytes"]) == (None, None)
    assert found["runs"] == [log]


def test_wrong_wishes(cli, tmp_path):
    made(tmp_path / "model", made_log())
    for args, code, word in [
        (("nowhere",), 4, "the artifact does not exist"),
        ((tmp_path / "model", "-o", tmp_path / "curve.gif"), 2, ".png"),
        ((tmp_path / "model", "--axis", "hours"), 2, "tokens"),
        ((tmp_path / "model", "--start", "-1"), 2, "-1"),
        ((), 2, "MODEL"),
    ]:
        result = cli("plot", *args)
        assert (result.code, result.out) == (code, "")
        assert word in result.err
