"""Where the names of curves stand, in a column beside their ends: near them, and never over each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["End", "spread_out", "write_ends"]

_ROOM = 1.25  # heights of a letter
_GAP, _LEAD, _MARGIN = 3, 14, 30  # pixels


@dataclass(frozen=True)
class End:
    """Where a line ends, in the data's units, and what is written there."""

    x: float
    y: float
    text: str
    colour: str


def write_ends(figure: "Figure", axes: "Axes", ends: Sequence[End]) -> None:
    """Write what the lines are to the right of the axes, which become as much narrower as these words are wide.

    Where a line ends elsewhere than beside its words, dashes lead there.
    """
    texts = [
        axes.text(1.0, 0.5, end.text, transform=axes.transAxes, color=end.colour, va="center", fontweight="bold")
        for end in ends
    ]
    axes.set_ylim(axes.get_ylim())  # it is found when asked for; where lines end on the page, nobody would ask
    boxes = [text.get_window_extent() for text in texts]
    figure.subplots_adjust(right=1 - (max(box.width for box in boxes) + _MARGIN) / figure.bbox.width)
    to_axes = axes.transAxes.inverted()
    places = to_axes.transform(axes.transData.transform([(end.x, end.y) for end in ends]))
    pixel_x, pixel_y = to_axes.transform((1, 1)) - to_axes.transform((0, 0))
    heights = spread_out(places[:, 1].tolist(), _ROOM * boxes[0].height * pixel_y, 0.0, 1.0)
    for end, text, (x, y), height in zip(ends, texts, places, heights, strict=True):
        text.set_position((1 + _LEAD * pixel_x, height))
        axes.plot(
            [x, 1 + _GAP * pixel_x, 1 + (_LEAD - _GAP) * pixel_x], [y, y, height], transform=axes.transAxes,
            clip_on=False, color=end.colour, linewidth=0.7, alpha=0.5, linestyle=(0, (2, 1.5)), zorder=1.6,
            scalex=False, scaley=False,
        )  # fmt: skip


def spread_out(wanted: Sequence[float], room: float, low: float, high: float) -> list[float]:
    """The heights of labels, each as near to the wanted one as the others let it be.

    Labels that would overlap become one stack around the mean of their wishes, and stacks that would overlap become one
    stack in turn: the least sum of squared moves that keeps the order and the room. Stacks are then pushed inside the bounds.

    Args:
        wanted: the height of each curve's end.
        room: height of a label.
        low: nothing is put below.
        high: nothing is put above; where there is no room for all, they run out above.

    Source: Best and Chakravarti 1990, "Active set algorithms for isotonic regression" (pool adjacent violators).

    >>> spread_out([1.0, 1.2, 5.0], 1.0, 0.0, 10.0)
    [0.6, 1.6, 5.0]
    """
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    # label n of a stack stands n rooms above its foot, so without these rooms the feet must not fall
    feet = [wanted[number] - place * room for place, number in enumerate(order)]
    stacks: list[tuple[float, int]] = []  # mean and number of wishes
    for foot in feet:
        mean, count = foot, 1
        while stacks and stacks[-1][0] > mean:
            before, n = stacks.pop()
            mean, count = (before * n + mean * count) / (n + count), n + count
        stacks.append((mean, count))
    even = [mean for mean, count in stacks for _ in range(count)]
    top = high - (len(wanted) - 1) * room
    heights = [0.0] * len(wanted)
    for place, (number, foot) in enumerate(zip(order, even, strict=True)):
        heights[number] = round(max(low, min(top, foot)) + place * room, 9)
    return heights
