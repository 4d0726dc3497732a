"""Curves as pictures: the same bytes each time, everything in its place, and what cannot be drawn."""

import itertools
import math
import re
from io import BytesIO

import numpy as np
import pytest

from tests.report.training_logs import made_log
from wordpipe.errors import ConfigError, InputError
from wordpipe.report import curves
from wordpipe.report.curve_style import COLOURS
from wordpipe.report.curves import MOST_RUNS, draw_curves, smooth
from wordpipe.report.end_labels import End, spread_out, write_ends
from wordpipe.report.run_log import RunLog

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
    assert [has_colour(image, colour) for colour in COLOURS[:4]] == [True, True, True, False]
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


def test_one_run_says_which_line_is_which():
    words = words_of(draw_curves([made_log("run/model", steps=2000)], form="svg"))
    log = made_log("run/model", steps=2000)
    assert "run/model" in words
    assert "2,000 steps, 8.192M tokens" in words
    assert f"training {log.loss('train', 'steps').y[-1]:.2f}" in words
    assert f"held-out {log.loss('valid', 'steps').y[-1]:.2f}" in words
    assert "unigram entropy 7.00: token frequencies and nothing else" in words
    assert {"learning rate", "tokens", "2M", "8M"} <= set(words)


def test_several_runs_are_named_at_their_ends():
    runs = [made_log("a", floor=3.0), made_log("b$x$", floor=3.5, finished=False, entropy=None, valid=0)]
    words = words_of(draw_curves(runs, axis="seconds", form="svg"))
    assert f"a {runs[0].loss('valid', 'steps').y[-1]:.2f}" in words
    assert f"b$x$ {runs[1].loss('train', 'steps').y[-1]:.2f} …" in words
    assert "a, b$x$" in words
    assert {"seconds", "learning rate"} <= set(words)


def test_a_logarithmic_axis_and_one_that_begins_later():
    words = words_of(draw_curves([made_log()], axis="steps", log_axis=True, form="svg"))
    assert {"steps", "10", "100", "200"} <= set(words)
    words = words_of(draw_curves([made_log()], axis="steps", start=200, form="svg"))
    assert {"200", "400"} <= set(words)
    assert "100" not in words
    assert not any(word.startswith("unigram") for word in words)  # so far above that it would press the curves together


def test_words_are_counted_in_epochs():
    words = words_of(draw_curves([made_log(kind="words", steps=5, every=1, entropy=None)], axis="steps", form="svg"))
    assert {"epochs", "5 epochs, 20.48k tokens"} <= set(words)


@pytest.mark.parametrize("log", [made_log(steps=10), made_log(steps=1, every=1, valid=0, kind="words", lr=math.nan)])
@pytest.mark.parametrize("log_axis", [False, True])
def test_a_single_report_is_a_dot(log, log_axis):
    *_, image = pixels(draw_curves([log], log_axis=log_axis))
    assert has_colour(image, COLOURS[0])


def test_what_cannot_be_drawn(monkeypatch):
    with pytest.raises(InputError, match=r"empty.*got 0 reports"):
        draw_curves([made_log(), RunLog("empty", "model", ())])
    with pytest.raises(InputError, match="no loss"):
        draw_curves([made_log()], axis="steps", start=401)
    with pytest.raises(ConfigError, match=f"1 to {MOST_RUNS}"):
        draw_curves([made_log(str(n)) for n in range(MOST_RUNS + 1)])
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        draw_curves([made_log()])
    assert "pip install" in caught.value.hint
    assert "matplotlib" in caught.value.hint


def test_labels_stand_beside_the_ends_of_their_lines():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([0, 5], [9, 7])
    axes.plot([0, 9], [9, 4])
    axes.axhline(-20.0)  # widens the axis after the lines were drawn
    write_ends(figure, axes, [End(5, 7, "one", "blue"), End(9, -4, "other", "red")])
    figure.canvas.draw()
    for text, (x, y) in zip(axes.texts, [(5, 7), (9, -4)], strict=True):
        box = text.get_window_extent()
        assert (box.y0 + box.y1) / 2 == pytest.approx(axes.transData.transform((x, y))[1], abs=2)
        assert axes.bbox.x1 < box.x0 < box.x1 < figure.bbox.x1


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


def moves(heights, wanted):
    return sum((height - wish) ** 2 for height, wish in zip(heights, wanted, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_labels_keep_their_order_and_room_and_move_least(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    wanted = np.round(rng.uniform(0.0, 4.0, n), 1).tolist()
    heights = spread_out(wanted, 1.0, 0.0, 8.0)
    ordered = sorted(heights)
    assert all(later - before >= 1.0 - 1e-6 for before, later in itertools.pairwise(ordered))
    assert ordered[0] >= 0.0
    assert [wanted[heights.index(height)] for height in ordered] == sorted(wanted)
    grid = [0.2 * step for step in range(31)]
    best = min(
        (tuple(some) for some in itertools.product(grid, repeat=n) if fits(some)), key=lambda some: moves(some, wanted)
    )
    assert moves(heights, wanted) <= moves(best, wanted) + 1e-6 or min(wanted) < (n - 1) / 2  # a bound moves them all


def fits(heights):
    ordered = sorted(heights)
    return all(later - before >= 1.0 - 1e-9 for before, later in itertools.pairwise(ordered))
