"""How curves look: colours, sizes, and numbers on axes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["COLOURS", "GREY", "INK", "count_label", "plain_style", "rate_label", "short_name", "time_unit"]

# Okabe and Ito 2008, "Color Universal Design", told apart by people with any kind of colour blindness; their yellow is left
# out, as white swallows it
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, GREY, _FAINT = "#1A1A1A", "#5F6368", "#E3E5E8"

_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,  # a name of a folder may hold a dollar
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",  # looks the same wherever it is opened
    "svg.hashsalt": "wordpipe",  # names of clip paths are random without it
    "path.simplify": True,
}


@contextmanager
def plain_style() -> Iterator[None]:
    """Our style alone: what the user's matplotlibrc says is set aside, so that the same curves give the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def count_label(value: float) -> str:
    """A count on an axis.

    >>> [count_label(value) for value in (0, 500, 2_000, 12_500, 1_000_000, 2.5e9)]
    ['0', '500', '2,000', '12.5k', '1M', '2.5G']
    """
    for bound, unit, size in ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e4, "k", 1e3)):
        if abs(value) >= bound:
            return f"{value / size:.4g}{unit}"
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def rate_label(value: float) -> str:
    """A learning rate on an axis.

    >>> [rate_label(value) for value in (0, 0.025, 0.001, 0.0005, 0.00002)]
    ['0', '0.025', '0.001', '0.0005', '2e-5']
    """
    return f"{value:g}".replace("e-0", "e-")


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time is told, and its seconds.

    >>> time_unit(90), time_unit(900), time_unit(90_000)
    (('seconds', 1.0), ('minutes', 60.0), ('hours', 3600.0))
    """
    if seconds < 300:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 3 * 3600 else ("hours", 3600.0)


def short_name(name: str, room: int) -> str:
    """A name of at most `room` characters; the end of a long one says most."""
    return name if len(name) <= room else "…" + name[1 - room :]
