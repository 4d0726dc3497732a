"""`wordpipe predict` of a reader: answers with their passages, as lines, for people on a terminal, or JSON."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.output import counted, escaped, one_line, safe_text, say

if TYPE_CHECKING:
    from wordpipe.heads import Answered
    from wordpipe.stages import FoundAnswer, Predictor

_AROUND = 60  # characters of a passage on either side of an answer, on a terminal


def print_answers(
    opened: "Predictor", questions: Iterable[str], *, index: Path | None, passages: tuple[str, ...], k: int, as_json: bool,
    verify: bool, quiet: bool,
) -> None:  # fmt: skip
    """Ask an index, or passages, and print the best answers of each question.

    Raises:
        InputError: no question has an answer.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages import best_answers, open_passages

    asked = without = cut = 0
    with open_passages(index=index, passages=passages or None, read=10, verify=verify) as texts:
        for question in questions:
            asked += 1
            found = best_answers(opened, question, texts, k)
            without += not found
            cut += bool(found) and found[0].said.cut > 0
            for one in found:
                _print(question, one, first=one.rank == 1, as_json=as_json)
    if cut and not quiet:
        say(f"{counted(cut, 'questions')} of {asked:,} are longer than the model reads: their ends were left out")
    if asked and without == asked:
        hint = "ask in other words, or name more passages" if asked == 1 else "name other passages"
        raise InputError("no passage has an answer, as the model says", got=counted(asked, "questions"), hint=hint)
    if without and not quiet:
        say(f"{counted(without, 'questions')} of {asked:,} have no answer, as the model says")


def _print(question: str, found: "FoundAnswer", *, first: bool, as_json: bool) -> None:
    place = f"{found.source}:{found.line}"
    if as_json:
        about = {"title": found.title, "source": found.source, "line": found.line, "id": found.id, "text": found.text}
        known = {name: value for name, value in about.items() if value is not None}
        click.echo(
            json.dumps({"question": question, "rank": found.rank, **values_of(found.said), **known}, ensure_ascii=False)
        )
    elif not sys.stdout.isatty():
        said = f"{found.rank}\t{found.said.probability:.4f}\t{escaped(one_line(found.said.answer))}"
        click.echo(f"{said}\t{escaped(place)}\t{escaped(one_line(found.text))}")
    else:
        if first:
            click.echo(safe_text(one_line(question)))
        click.echo(safe_text(f"  {found.said.probability:7.2%}  {one_line(found.said.answer)}"))
        click.echo(safe_text(f"           {_around(found)}  ({place})"))


def _around(found: "FoundAnswer") -> str:
    """What stands around an answer in its passage."""
    start, end = max(0, found.said.start - _AROUND), found.said.end + _AROUND
    before, after = "… " * (start > 0), " …" * (end < len(found.text))
    return before + one_line(found.text[start:end]).strip() + after


def print_answer(number: int, question: str, found: "Answered") -> None:
    """The answer of one passage."""
    if sys.stdout.isatty():
        click.echo(safe_text(one_line(question)))
        click.echo(safe_text(f"  {found.probability:7.2%}  {one_line(found.answer) or '(no answer)'}"))
        return
    said = escaped(one_line(found.answer))
    click.echo(f"{number}\t{found.start}\t{found.end}\t{found.probability:.4f}\t{said}")


def values_of(found: "Answered") -> dict[str, Any]:
    """An answer as an object of JSON; where there is none at all, it has no score."""
    values = {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(found).items()}
    return {name: value for name, value in values.items() if name != "score" or abs(value) < float("inf")}
