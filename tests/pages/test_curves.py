"""Curves as pictures: the same bytes each time, and every line with its name."""

import math
import re
from importlib.util import find_spec
from io import BytesIO

import numpy as np
import pytest

from tests.support.training_logs import made_log
from wordpipe.pages import draw_curves

pytestmark = [
    pytest.mark.landing,
    pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed"),
]

COLOURS = ("#0b4fa8", "#9a4a08", "#2f7d4f", "#8a3d8f")  # of the curves, in their order


def pixels(png):
    """Width, height and the RGB values of a PNG in which nothing says when it was made."""
    from PIL import Image  # matplotlib writes its PNGs by it

    image = Image.open(BytesIO(png))
    assert set(image.info) <= {"dpi", "Software"}
    return *image.size, np.asarray(image.convert("RGB"))


def has_colour(image, colour):
    wanted = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])
    return bool((np.abs(image.astype(int) - wanted).max(axis=2) < 12).any())


def test_a_picture_has_its_size_and_colours():
    width, height, image = pixels(draw_curves([made_log("a"), made_log("b", floor=3.5), made_log("c", valid=0)]))
    assert (width, height) == (1200, 700)
    assert [has_colour(image, colour) for colour in COLOURS] == [True, True, True, False]


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_logs_give_the_same_bytes(form, monkeypatch):
    import matplotlib as mpl

    first = draw_curves([made_log("a"), made_log("b", floor=3.0)], form=form)
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 30.0, "svg.hashsalt": None}):  # a user's own style
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
        assert draw_curves([made_log("a"), made_log("b", floor=3.0)], form=form) == first
        assert mpl.rcParams["font.size"] == 30.0


def test_every_colour_of_an_svg_has_one_for_a_dark_theme():
    svg = draw_curves([made_log(f"run {number}") for number in range(9)], form="svg").decode()
    drawn, _, rules = svg.partition("<style>@media (prefers-color-scheme: dark)")
    used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn))
    assert len(used) > 15
    assert all(f'[style*="{one}"]' in rules for one in used)


def words_of(svg):
    """The texts of an SVG, which matplotlib writes as comments before the outlines of the letters."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL)]


def test_every_line_is_named():
    runs = [made_log("a/model", floor=3.0), made_log("b$x$", floor=3.5, finished=False, entropy=None, valid=0)]
    words = words_of(draw_curves(runs, axis="seconds", form="svg"))
    assert {"a/model", "a/model: held-out text", "b$x$, not finished", "unigram entropy 7.00"} <= set(words)
    assert {"loss, nats per target", "learning rate", "seconds"} <= set(words)
    assert not any("held-out" in word and word.startswith("b") for word in words)
    assert "2M" in words_of(draw_curves([made_log(steps=2000)], form="svg"))


def test_a_logarithmic_axis_and_one_that_begins_later():
    words = words_of(draw_curves([made_log()], axis="steps", log_axis=True, form="svg"))
    assert {"steps", "10", "100"} <= set(words)
    words = words_of(draw_curves([made_log()], axis="steps", start=200, form="svg"))
    assert {"200", "400"} <= set(words)
    assert "100" not in words


def test_held_out_losses_alone_are_drawn():
    log = made_log()
    alone = {**log, "log": [row for row in log["log"] if row["split"] == "valid"]}
    words = words_of(draw_curves([alone], form="svg"))
    assert "model: held-out text" in words
    assert "model" not in words


@pytest.mark.parametrize("log", [made_log(steps=10), made_log(steps=1, every=1, valid=0, kind="words", lr=math.nan)])
@pytest.mark.parametrize("log_axis", [False, True])
def test_a_single_report_is_a_dot(log, log_axis):
    *_, image = pixels(draw_curves([log], log_axis=log_axis))
    assert has_colour(image, COLOURS[0])


@pytest.mark.parametrize("gap", [None, math.nan, math.inf])
def test_a_loss_that_is_no_number_leaves_a_gap(gap):
    log = made_log(valid=0)
    rows = [{**row, "loss": gap if row["step"] == 100 else row["loss"]} for row in log["log"]]
    assert draw_curves([{**log, "log": rows}]) != draw_curves([log])
