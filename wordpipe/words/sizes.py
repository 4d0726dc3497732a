"""Defaults that follow the size of the text.

Few words need many passes, wide windows and every word they have; many words need none of that.
"""

__all__ = ["defaults_for"]

_TABLE = (  # words of the text below which the rest of the line holds, window, epochs, min_count
    (300_000, 10, 50, 1),
    (3_000_000, 10, 20, 3),
    (30_000_000, 5, 5, 5),
    (300_000_000, 5, 5, 5),
)
_LARGER = (5, 3, 5)


def defaults_for(words: int) -> dict[str, int]:
    """window, epochs and min_count for a training text of so many words."""
    chosen = next((rest for below, *rest in _TABLE if words < below), list(_LARGER))
    return dict(zip(("window", "epochs", "min_count"), chosen, strict=True))
