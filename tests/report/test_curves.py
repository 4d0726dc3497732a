"""Curves as pictures: the same bytes each time, everything in its place, and what cannot be drawn."""

import math
import re
from io import BytesIO

import numpy as np
import pytest

from tests.support.training_logs import made_log
from wordpipe.errors import ConfigError, InputError
from wordpipe.report import CURVE_COLOURS, draw_curves, smooth

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")  # matplotlib writes its PNGs by it


def pixels(png):
    """Width, height and the RGB values of a PNG in which nothing says when or by whom it was made."""
    image = Image.open(BytesIO(png))
    assert set(image.info) <= {"dpi"}
    return *image.size, np.asarray(image.convert("RGB"))


def has_colour(image, colour):
    wanted = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])
    return bool((np.abs(image.astype(int) - wanted).max(axis=2) < 12).any())


def test_a_picture_has_its_size_and_colours_and_no_date():
    width, height, image = pixels(draw_curves([made_log("a"), made_log("b", floor=3.5), made_log("c", valid=0)]))
    assert (width, height) == (1200, 700)
    assert [has_colour(image, colour) for colour in CURVE_COLOURS[:4]] == [True, True, True, False]
    assert (image[:, 0] == 255).all()


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_logs_give_the_same_bytes(form, monkeypatch):
    import matplotlib as mpl

    first = draw_curves([made_log("a"), made_log("b", floor=3.0)], form=form)
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 30.0, "svg.hashsalt": None}):  # a user's own style
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
        assert draw_curves([made_log("a"), made_log("b", floor=3.0)], form=form) == first
        assert mpl.rcParams["font.size"] == 30.0


def words_of(svg):
    """The texts of an SVG, which matplotlib writes as comments before the outlines of the letters."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL)]


def losses(log, split):
    return [row["loss"] for row in log["log"] if row["split"] == split]


def test_one_run_says_which_line_is_which():
    log = made_log("run/model", steps=2000)
    words = words_of(draw_curves([log], form="svg"))
    assert "run/model" in words
    assert f"training {losses(log, 'train')[-1]:.2f}" in words
    assert f"held-out {losses(log, 'valid')[-1]:.2f}" in words
    assert "unigram entropy 7.00:" in words
    assert {"learning rate", "loss, nats per target", "tokens", "2M", "8M"} <= set(words)


def test_several_runs_are_named():
    runs = [made_log("a", floor=3.0), made_log("b$x$", floor=3.5, finished=False, entropy=None, valid=0)]
    words = words_of(draw_curves(runs, axis="seconds", form="svg"))
    assert f"a {losses(runs[0], 'valid')[-1]:.2f}" in words
    assert f"b$x$ {losses(runs[1], 'train')[-1]:.2f} …" in words
    assert "a, b$x$" in words
    assert {"seconds", "learning rate", "…: not finished", "dots: held-out text"} <= set(words)


def test_a_long_training_is_told_in_hours():
    assert "hours" in words_of(draw_curves([made_log(steps=40_000, every=1000)], axis="seconds", form="svg"))


def test_a_long_name_keeps_its_end():
    words = words_of(draw_curves([made_log("long/" * 40 + "end"), made_log("b")], form="svg"))
    assert any(word.startswith("…") and word.endswith("long/end 4.18") for word in words)


def test_a_logarithmic_axis_and_one_that_begins_later():
    words = words_of(draw_curves([made_log()], axis="steps", log_axis=True, form="svg"))
    assert {"steps", "10", "100"} <= set(words)
    words = words_of(draw_curves([made_log()], axis="steps", start=200, form="svg"))
    assert {"200", "400"} <= set(words)
    assert "100" not in words
    assert not any(word.startswith("unigram") for word in words)  # so far above that it would press the curves together


def test_words_are_counted_in_epochs():
    log = made_log(kind="words", steps=5, every=1, entropy=None)
    assert "epochs" in words_of(draw_curves([log], axis="steps", form="svg"))


def test_held_out_losses_alone_are_drawn():
    log = made_log()
    alone = {**log, "log": [row for row in log["log"] if row["split"] == "valid"]}
    assert not any(word.startswith("training") for word in words_of(draw_curves([alone], form="svg")))


@pytest.mark.parametrize("log", [made_log(steps=10), made_log(steps=1, every=1, valid=0, kind="words", lr=math.nan)])
@pytest.mark.parametrize("log_axis", [False, True])
def test_a_single_report_is_a_dot(log, log_axis):
    *_, image = pixels(draw_curves([log], log_axis=log_axis))
    assert has_colour(image, CURVE_COLOURS[0])


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match=r"empty.*got 0 reports"):
        draw_curves([made_log(), {**made_log("empty"), "log": []}])
    with pytest.raises(InputError, match="no loss"):
        draw_curves([made_log()], axis="steps", start=401)
    with pytest.raises(ConfigError, match=f"at most {len(CURVE_COLOURS)}"):
        draw_curves([made_log(str(n)) for n in range(len(CURVE_COLOURS) + 1)])


def slowly_smoothed(values, reach):
    means = []
    for n in range(len(values)):
        wide = min(n // 8, len(values) - 1 - n, reach)
        means.append(sum(values[n - wide : n + wide + 1]) / (2 * wide + 1))
    return means


@pytest.mark.parametrize("n", [1, 9, 100])
def test_smoothing(n):
    values = np.random.default_rng(n).normal(size=n)
    np.testing.assert_allclose(smooth(values, 5), slowly_smoothed(values.tolist(), 5), atol=1e-12)
    line = 3.0 * np.arange(n) - 7.0
    np.testing.assert_allclose(smooth(line, 5), line, atol=1e-12)
    assert smooth(values, 5)[-1] == pytest.approx(values[-1])
