"""The little language of word queries: `king - man + woman`.

A plus or minus counts as an operator only where it stands alone, so `well-known` and `c++` are words. Words side by side
are added: `paris france` asks for what is near both.
"""

from collections.abc import Callable
from dataclasses import dataclass

from wordpipe.errors import ConfigError

__all__ = ["SIGNS", "Expression", "parse_expression"]

SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}  # editors turn a lone hyphen into a minus sign or a dash


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


def parse_expression(text: str, join: Callable[[list[str]], list[str]] = list) -> Expression:
    """Read an expression.

    Args:
        text: words and operators.
        join: makes one word of words side by side that are a phrase; words on two sides of an operator stay apart.

    Raises:
        ConfigError: no word, or an operator without a word after it.
    """
    terms: list[tuple[int, list[str]]] = [(1, [])]  # the sign of the first of some words side by side, and these words
    pending = None
    parts = text.split()
    for part in parts:
        if part not in SIGNS:
            terms[-1][1].append(part)
            pending = None
        elif pending is not None:
            raise _no_word_after(pending, text)
        else:
            terms.append((SIGNS[part], []))
            pending = part
    if pending is not None:
        raise _no_word_after(pending, text)
    if not parts:
        raise ConfigError("the query has no words", hint="give words, such as: king - man + woman")
    words: dict[int, list[str]] = {1: [], -1: []}
    for sign, run in terms:
        for place, word in enumerate(join(run)):
            words[1 if place else sign].append(word)
    return Expression(tuple(words[1]), tuple(words[-1]), len(terms) > 1)


def _no_word_after(operator: str, text: str) -> ConfigError:
    return ConfigError(
        f"no word follows {operator!r}",
        where="query",
        got=text,
        expected="words and operators such as: king - man + woman",
    )
