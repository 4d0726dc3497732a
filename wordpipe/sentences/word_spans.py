"""Where in a text its words stand, when they are known as they are spelled in a table."""

from collections.abc import Sequence

from wordpipe.words.lookup import JOINT

__all__ = ["word_spans"]

_MARKS = "Ġ▁#"  # of subword tokens: a space before, or none


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """The characters (start, stop) of each word, in order; an empty span where one is not found.

    Args:
        text: the text.
        words: its words in order, folded or not; phrases joined by `_`, tokens with their marks.
    """
    folded = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
    spans, at = [], 0
    for word in words:
        spans.append(found := _span(text, folded, word, at))
        at = found[1]
    return spans


def _span(text: str, folded: str, word: str, at: int) -> tuple[int, int]:
    """The span of one word that begins at `at` or later."""
    for parts in ([word], word.split(JOINT), [word.strip(_MARKS)]):
        found = [_run(spelled, parts, at) for spelled in (folded, text)]
        if spans := [span for span in found if span is not None]:
            return min(spans)
    return at, at


def _run(text: str, parts: Sequence[str], at: int) -> tuple[int, int] | None:
    """From the first of the parts to the last, one after the other."""
    starts = []
    for part in parts:
        start = text.find(part, at)
        if start < 0 or not part:
            return None
        starts.append(start)
        at = start + len(part)
    return starts[0], at
