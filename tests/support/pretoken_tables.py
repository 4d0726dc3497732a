"""Tables of pre-tokens as tests write them, and read them."""

from collections.abc import Mapping

from wordpipe.tokens import StringCounts


def table_of(counts: Mapping[str, int]) -> StringCounts:
    """From a mapping in any order."""
    ordered = sorted(((text.encode(), count) for text, count in counts.items()), key=lambda item: (-item[1], item[0]))
    return StringCounts.from_sorted([text for text, _ in ordered], [count for _, count in ordered])


def text_of(table: StringCounts, row: int) -> str:
    """One pre-token."""
    return table.data[table.offsets[row] : table.offsets[row + 1]].tobytes().decode()
