"""`wordpipe generate` and `wordpipe fill`: texts continued, targets of sources, masks filled; as text, lines, or JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import COMMON, ExampleCommand, Option
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, emphasised, escaped, human_count, one_line, safe_text, say
from wordpipe.cli.query import given_lines, is_prompt, print_unanswered, together
from wordpipe.model.settings import FillSettings, GenerateSettings
from wordpipe.settings import Settings

if TYPE_CHECKING:
    from wordpipe.errors import InputError
    from wordpipe.stages import DenoisingFiller, Filled, Filler, OpenModel, Writing, Written

_HELP = """Continue a text with a causal model, or write the target of a source text with an encoder-decoder.

A causal model (wordpipe train clm) goes on where PROMPT ends, or, where it learned from pairs, with the text that belongs to
PROMPT; a single text is shown while it is made. An encoder-decoder (wordpipe train seq2seq) reads PROMPT whole and writes
another text: a translation, a title, an answer. Folders of transformers serve for both. All PROMPT words are one prompt.
Without PROMPT, prompts are read from --prompts or stdin, one per line; on a terminal there is a prompt. An encoder-decoder,
and in a pipe a causal model of pairs, answers each line by one line, a blank line by an empty one; several targets of a line
(--n-best, --samples) are lines of its number, rank, score and text, parted by tabs. Special tokens never come, but the one
that ends a text. Exit code 3 when there was nothing to do."""


def _generate(
    model: Path, prompt: tuple[str, ...], prompts: Path | None, as_json: bool, verify: bool, quiet: bool, verbose: bool,
    **given: Any,
) -> None:  # fmt: skip
    from wordpipe.stages import open_model

    settings = GenerateSettings.make(chosen_settings(GenerateSettings, given))
    opened = open_model(model, verify=verify)
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    if opened.writes_targets:
        _write_targets(opened, prompt, prompts, settings, as_json=as_json, quiet=quiet, verbose=verbose)
    else:
        _continue(opened, prompt, prompts, settings, as_json=as_json, quiet=quiet, verbose=verbose)


def _continue(
    opened: "OpenModel", prompt: tuple[str, ...], prompts: Path | None, settings: GenerateSettings,
    *, as_json: bool, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Texts that go on, by a decoder, one prompt after the other; in a pipe a line for a line, where it learned from pairs."""
    from wordpipe.stages import Writing

    opened.need("decoder")
    if opened.answers and not as_json and not sys.stdout.isatty():
        _answer_lines(opened, prompt, prompts, settings, quiet=quiet, verbose=verbose)
        return
    number = 0
    for line in given_lines(prompt, prompts, what="prompt", option="--prompts", quiet=quiet):
        if not (prompt or line.strip()):
            if as_json:
                print_unanswered(as_json=True, prompt=line, text="")
            continue
        number += 1
        writing = Writing(opened, line, settings)
        if as_json:
            _print_json(writing)
        else:
            if number > 1:
                click.echo()
            (_print_live if settings.samples == 1 else _print_samples)(writing)
        if not quiet:
            for note in writing.notes:
                say(note)
        if verbose:
            _say_rate(writing.tokens, writing.seconds)
    if not number:
        raise _no_text()


def _no_text() -> "InputError":
    from wordpipe.errors import InputError

    return InputError("there is no text in the prompts", hint="give some words")


def _answer_lines(
    opened: "OpenModel", prompt: tuple[str, ...], prompts: Path | None, settings: GenerateSettings,
    *, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """The second texts of pairs, by a decoder that learned from pairs: lines as those of an encoder-decoder."""
    from wordpipe.stages import Writing, answer_notes

    number = answered = shortened = cut = outgrown = tokens = 0
    seconds = 0.0
    for line in given_lines(prompt, prompts, what="prompt", option="--prompts", quiet=quiet):
        number += 1
        found = [(0.0, "")]
        if line.strip():
            writing = Writing(opened, line, settings)
            found = [(one.logprob, one.text) for one in writing.results()]
            answered, tokens, seconds = answered + 1, tokens + writing.tokens, seconds + writing.seconds
            shortened, cut, outgrown = shortened + (writing.cut > 0), cut + writing.cut, outgrown + writing.outgrown
        _print_lines(number, found, several=settings.samples > 1)
    for note in () if quiet else answer_notes(opened.max_len, number, shortened, cut, outgrown, number - answered):
        say(note)
    if verbose:
        _say_rate(tokens, seconds)
    if not answered:
        raise _no_text()


def _say_rate(tokens: int, seconds: float) -> None:
    rate = human_count(tokens / max(seconds, 1e-9))
    say(f"{counted(tokens, 'tokens')} in {seconds:.2f} s, {rate} tokens/s")


def _write_targets(
    opened: "OpenModel", prompt: tuple[str, ...], prompts: Path | None, settings: GenerateSettings,
    *, as_json: bool, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Target texts, by an encoder-decoder: as many lines together as have come, at most a window."""
    from wordpipe.stages import WINDOW, TargetWriter

    writer = TargetWriter(opened, settings)
    for note in () if quiet else writer.notes:
        say(note)
    lines = given_lines(prompt, prompts, what="prompt", option="--prompts", quiet=quiet)
    for some in together(lines, prompt, prompts, WINDOW):
        first = writer.sources + 1
        _print_targets(writer.write(some), first, settings, as_json=as_json)
    for note in () if quiet else writer.losses:
        say(note)
    if verbose:
        seconds = max(writer.seconds, 1e-9)
        rates = (f"{human_count(count / seconds)} {what}/s" for count, what in
                 ((writer.sources, "sentences"), (writer.tokens, "tokens")))  # fmt: skip
        say(f"{counted(writer.sources, 'sentences')} in {writer.seconds:.2f} s, {', '.join(rates)}")
    if writer.empty == writer.sources:
        raise _no_text()


def _print_targets(found: "list[Written]", first: int, settings: GenerateSettings, *, as_json: bool) -> None:
    """One line for each source; of several targets one each, parted by tabs: number of the source, rank, score, text."""
    for number, written in enumerate(found, start=first):
        if as_json:
            for rank, target in enumerate(written.targets, start=1):
                about = {"source": written.source, **asdict(target), "rank": rank, "cut": written.cut}
                click.echo(json.dumps(about, ensure_ascii=False))
        else:
            lines = [(target.score, target.text) for target in written.targets]
            _print_lines(number, lines, several=max(settings.n_best, settings.samples) > 1)


def _print_lines(number: int, found: list[tuple[float, str]], *, several: bool) -> None:
    """The one text of a source as a line; or several with their scores, a line each."""
    if not several:
        click.echo(safe_text(" ".join((found[0][1] if found else "").splitlines())))
        return
    for rank, (score, text) in enumerate(found, start=1):
        click.echo(f"{number}\t{rank}\t{score:.4f}\t{escaped(text)}")


def _print_live(writing: "Writing") -> None:
    """The prompt, and the text as it comes."""
    click.echo(emphasised(safe_text(writing.prompt)), nl=writing.answers)
    for _, text in writing.texts:
        click.echo(safe_text(text), nl=False)
    click.echo()


def _print_samples(writing: "Writing") -> None:
    for number, made in enumerate(writing.results(), start=1):
        click.echo(("\n" if number > 1 else "") + emphasised(f"# {number}"))
        click.echo(emphasised(safe_text(made.prompt)) + ("\n" if writing.answers else "") + safe_text(made.text))


def _print_json(writing: "Writing") -> None:
    for made in writing.results():
        click.echo(json.dumps(asdict(made), ensure_ascii=False))


def _params(argument: str, settings: type[Settings]) -> list[click.Parameter]:
    """A model and texts, given or from a file; the settings."""
    return [
        click.Argument(["model"], metavar="MODEL", type=click.Path(path_type=Path)),
        click.Argument([argument], nargs=-1),
        *settings_options(settings),
        click.Option(
            [f"--{argument}s"], type=click.Path(path_type=Path), metavar="FILE",
            help=f"Read {argument}s from a file, one per line.",
        ),
    ]  # fmt: skip


_verbose = Option(["-v", "--verbose"], is_flag=True, section=COMMON, expert=True, help="Say how fast it was.")

generate = ExampleCommand(
    "generate",
    params=[*_params("prompt", GenerateSettings), _verbose],
    callback=_generate,
    help=_HELP,
    example='wordpipe generate run/model "The bees of the valley"\n'
    'wordpipe generate run/model "Honey is" --samples 3 --temperature 0.7 --seed 5 --json\n'
    "wordpipe generate run/translator --prompts german.txt > english.txt",
    json="Print one JSON object per text.",
    quiet="Print nothing but the texts and errors.",
    verify="artifact's",
)


_FILL_HELP = """Guess the missing words of a text with a masked model, or with a denoised encoder-decoder.

All TEXT words are one text; [MASK] (or what the model's tokenizer has for it) stands for what is missing. Without TEXT,
texts are read from --texts or stdin, one per line; on a terminal there is a prompt. A masked model (wordpipe train mlm) knows
one token for a mask, and predicts several masks together, each without knowing the others. In a pipe, there is one line per
candidate, parted by tabs: probability, token, text; of several masks, the mask's number first. An encoder-decoder (wordpipe
train denoising) writes as many tokens as it takes for all masks at once; in a pipe each candidate is its score and the text.
A line that is blank, or has nothing to fill, has one line for its answer: an empty one, or with --json an object with its text
alone. Folders of transformers serve for both. Exit code 3 when nothing was filled."""


def _fill(
    model: Path, text: tuple[str, ...], texts: Path | None, as_json: bool, verify: bool, quiet: bool, **given: Any
) -> None:
    from wordpipe.errors import InputError
    from wordpipe.stages import filler_of, open_model

    settings = FillSettings.make(chosen_settings(FillSettings, given))
    opened = open_model(model, verify=verify)
    filler = filler_of(opened, settings)
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    n_filled = 0
    for line in given_lines(text, texts, what="text", option="--texts", quiet=quiet):
        try:
            filled = filler.fill(line)
        except InputError as error:
            if text:
                raise
            if line.strip():
                say(f"skipped: {error.message}")  # one bad line ends no batch
            if not is_prompt(text, texts):
                print_unanswered(as_json=as_json, text=line)
            continue
        n_filled += 1
        if filled.cut and not quiet:
            say(
                f"the text is longer than the model's {filler.max_len:,} positions: {filled.cut:,} of its tokens were cut"
            )
        if filled.fillings and len(filled.fillings) < settings.top_k and not quiet:
            say(
                f"{counted(len(filled.fillings), 'candidates')} of {settings.top_k:,}: no search found more different texts"
            )
        _print_filled(filled, filler, as_json=as_json)
    if not n_filled:
        raise InputError("nothing was filled", hint=f"write {filler.mask} for what is missing")


def _print_filled(filled: "Filled", filler: "Filler | DenoisingFiller", *, as_json: bool) -> None:
    candidates = [one for mask in filled.masks for one in mask]
    if as_json:
        for values in (*map(asdict, filled.fillings), *map(asdict, candidates)):
            click.echo(json.dumps({"text": filled.text, **values}, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(filled, filler)
    else:
        for filling in filled.fillings:
            click.echo(f"{filling.score:.4f}\t{escaped(one_line(filling.filled))}")
        for candidate in candidates:
            number = [str(candidate.mask)] if len(filled.masks) > 1 else []
            shown = escaped(one_line(candidate.filled))
            click.echo("\t".join([*number, f"{candidate.probability:.4f}", escaped(candidate.token), shown]))


def _print_table(filled: "Filled", filler: "Filler | DenoisingFiller") -> None:
    """The filled text, and below it the candidates, mask by mask; of an encoder-decoder the texts."""
    click.echo(emphasised(safe_text(filled.filled)))
    for filling in filled.fillings:
        click.echo(safe_text(f"  {filling.score:8.4f}  {' … '.join(filling.spans) or filling.filled}"))
    for number, mask in enumerate(filled.masks, start=1):
        if len(filled.masks) > 1:
            click.echo(f"{filler.mask} {number}")
        for one in mask:
            click.echo(safe_text(f"  {one.probability:7.2%}  {one.token}"))


fill = ExampleCommand(
    "fill",
    params=_params("text", FillSettings),
    callback=_fill,
    help=_FILL_HELP,
    example='wordpipe fill run/model "the bees fly to the [MASK]"\n'
    'wordpipe fill run/model "honey is [MASK] and [MASK]" --top-k 3 --json',
    json="Print one JSON object per candidate.",
    quiet="Print nothing but the candidates and errors.",
    verify="artifact's",
)
