"""The little language of word queries: `king - man + woman`.

A plus or minus counts as an operator only where it stands alone, so `well-known` and `c++` are words. Words side by side
are added: `paris france` asks for what is near both.
"""

from dataclasses import dataclass

from wordpipe.errors import ConfigError

__all__ = ["Expression", "parse_expression"]

_SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}  # editors turn a lone hyphen into a minus sign or a dash


@dataclass(frozen=True, slots=True)
class Expression:
    """Words to add and words to take away, in the order they were written.

    Attributes:
        positive: words added.
        negative: words taken away.
        has_operators: whether a plus or minus was written: every word is then needed for an answer.
    """

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    has_operators: bool


def parse_expression(text: str) -> Expression:
    """Read an expression.

    Raises:
        ConfigError: no word, or an operator without a word after it.
    """
    words: dict[int, list[str]] = {1: [], -1: []}
    sign, pending = 1, None
    parts = text.split()
    for part in parts:
        if part in _SIGNS:
            if pending is not None:
                raise _no_word_after(pending, text)
            sign, pending = _SIGNS[part], part
        else:
            words[sign].append(part)
            sign, pending = 1, None
    if pending is not None:
        raise _no_word_after(pending, text)
    if not parts:
        raise ConfigError("the query has no words", hint="give words, such as: king - man + woman")
    return Expression(tuple(words[1]), tuple(words[-1]), any(part in _SIGNS for part in parts))


def _no_word_after(operator: str, text: str) -> ConfigError:
    return ConfigError(
        f"no word follows {operator!r}",
        where="query",
        got=text,
        expected="words and operators such as: king - man + woman",
    )
