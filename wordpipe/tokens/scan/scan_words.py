"""The scanner of our own words (`words.WordSplitter`), which counts them without making a string of each."""

from wordpipe.compiled import kernel
from wordpipe.tokens.scan.codepoints import COUNTED, SPOKEN, UNSPACED
from wordpipe.tokens.scan.scan_steps import Bytes, Counts, Positions, run_end, step, worded_end

__all__ = ["words"]


@kernel
def _number_end(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    r"""Where `\p{N}+(?:[.,]\p{N}+)+` ends; `at` itself if it is not there."""
    end = at
    after = run_end(data, at, stop, classes, COUNTED, COUNTED)
    while after < stop and (data[after] == 0x2E or data[after] == 0x2C):
        following = run_end(data, after + 1, stop, classes, COUNTED, COUNTED)
        if following == after + 1:
            break
        after = end = following
    return end


@kernel
def _joiner(data: Bytes, at: int, stop: int) -> int:
    """The length of the apostrophe or hyphen (' - ’ ‐) at `at`; 0 if there is none."""
    if at >= stop:
        return 0
    if data[at] == 0x27 or data[at] == 0x2D:
        return 1
    if data[at] == 0xE2 and data[at + 1] == 0x80 and (data[at + 2] == 0x99 or data[at + 2] == 0x90):
        return 3
    return 0


@kernel
def words(data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts) -> int:
    """The words of `words.WordSplitter` as they are written; a run of a script without spaces is one span."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if not seen & (SPOKEN | COUNTED | UNSPACED):
                continue
            if seen & UNSPACED:
                at = run_end(data, at, stop, classes, UNSPACED, UNSPACED)
            else:
                end = _number_end(data, begin, stop, classes) if seen & COUNTED else begin
                at = begin if end == begin else stop
                while at < stop:  # letters, again behind an apostrophe or hyphen
                    after = worded_end(data, at, stop, classes, SPOKEN, SPOKEN)
                    if after == at:
                        break
                    end = after
                    at = end + _joiner(data, end, stop)
                    if at == end:
                        break
                at = end
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans
