"""Cuts rows of UTF-8 text into pre-tokens, byte for byte where tokenizers cuts them, at hundreds of megabytes a second.

Each scanner is one of tokenizers' pre-tokenizers, read as a left-to-right machine over the classes of code points
(`codepoints`). All are called alike:

    scan(data, offsets, classes, starts, ends, row_ends) -> number of spans

`data` uint8[bytes], `offsets` int64[rows + 1]: valid UTF-8 rows, as an Arrow string array holds them; `classes`:
`code_point_classes()`. Filled by the scanner, made by the caller: `starts` and `ends` int32[bytes + 1], positions in `data`
of the spans of all rows in order, and `row_ends` int64[rows], the number of spans up to and with each row. So a batch is
less than 2 GiB. White space that a pre-tokenizer drops lies in no span. The time is linear in the length of the data,
whatever it holds. A scanner is compiled once if all callers pass it `compiled.read_only` data.
"""

from collections.abc import Callable

from wordpipe.tokens.scan.characters import scan_characters
from wordpipe.tokens.scan.scan_marks import scan_marks
from wordpipe.tokens.scan.scan_patterns import digits, gpt2
from wordpipe.tokens.scan.scan_spaces import bert, metaspace, whitespace, whitespace_split
from wordpipe.tokens.scan.scan_steps import Bytes, Counts, Positions
from wordpipe.tokens.scan.scan_words import words

__all__ = ["SCANNERS", "Scanner"]

Scanner = Callable[[Bytes, Counts, Bytes, Positions, Positions, Counts], int]

SCANNERS: dict[str, Scanner] = {
    "gpt2": gpt2,
    "digits": digits,
    "bert": bert,
    "whitespace": whitespace,
    "whitespace-split": whitespace_split,
    "metaspace": metaspace,
    "characters": scan_characters,
    "marks": scan_marks,
    "words": words,
}
