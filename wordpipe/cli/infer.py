"""`wordpipe generate`, `fill` and `predict`: what models write and say of texts, as text, lines, or JSON."""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import COMMON, PATH, ExampleCommand, Option
from wordpipe.cli.input_lines import given_lines, is_prompt, print_unanswered, together
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, emphasised, escaped, human_count, one_line, safe_text, say
from wordpipe.cli.stage import make, stage_command
from wordpipe.errors import ConfigError, InputError, NothingFound
from wordpipe.model.settings import FillSettings, GenerateSettings
from wordpipe.runtime import torch_threads
from wordpipe.settings import Settings
from wordpipe.stages import COMMANDS
from wordpipe.storage import url_of

if TYPE_CHECKING:
    from wordpipe.errors import InputError
    from wordpipe.heads import Answered, Classified, Prediction, Tagged
    from wordpipe.stages import DenoisingFiller, Filled, Filler, FoundAnswer, OpenModel, Predictor, Writing, Written

_GENERATE_HELP = """Continue a text with a causal model, or write the target of a source text with an encoder-decoder.

A causal model (`train clm`) continues PROMPT; if it was trained on pairs of texts, it writes the text that belongs to PROMPT.
A single text is shown while the model writes. An encoder-decoder (`train seq2seq`) reads the whole PROMPT and writes another
text: a translation, a title, an answer. Model folders of Hugging Face transformers work too. All PROMPT words are one prompt.
Without PROMPT, prompts are read from --prompts or standard input, one per line; on a terminal you can type them.

An encoder-decoder (and in a pipe also a causal model trained on pairs) prints one line for each input line, and an empty line
for an empty line. With several targets for a line (--n-best, --samples), each target is printed as line number, rank, score
and text, separated by tabs. Special tokens are never written, except the token that ends a text. Exit code 3: the prompts
contain no text."""


def _generate(
    model: Path, prompt: tuple[str, ...], prompts: Path | None, as_json: bool, verify: bool, quiet: bool, verbose: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Run `generate`: open the model, then continue prompts or write targets."""
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
    """Continue prompts by a decoder, one after the other; in a pipe, one trained on pairs gives a line for a line."""
    from wordpipe.stages import Writing

    # pairs in a pipe: a line for a line
    opened.need("decoder")
    if opened.answers and not as_json and not sys.stdout.isatty():
        _answer_lines(opened, prompt, prompts, settings, quiet=quiet, verbose=verbose)
        return
    # each prompt with its text, as the model writes it
    number = 0
    for line in given_lines(prompt, prompts, what="prompt", option="--prompts", quiet=quiet):
        if not (prompt or line.strip()):
            if as_json:
                print_unanswered(as_json=True, prompt=line, text="")
            continue
        # the text, as JSON, while it comes, or all samples
        number += 1
        writing = Writing(opened, line, settings)
        if as_json:
            _print_json(writing)
        else:
            if number > 1:
                click.echo()
            (_print_live if settings.samples == 1 else _print_samples)(writing)
        # what was lost, and how fast it was
        if not quiet:
            for note in writing.notes:
                say(note)
        if verbose:
            _say_rate(writing.tokens, writing.seconds)
    if not number:
        raise _no_text()


def _no_text() -> "InputError":
    from wordpipe.errors import InputError

    return InputError("the prompts contain no text", hint="give at least one word")


def _answer_lines(
    opened: "OpenModel", prompt: tuple[str, ...], prompts: Path | None, settings: GenerateSettings,
    *, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Print what a decoder that was trained on pairs generates: as lines, as for an encoder-decoder."""
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
    """Print the target texts that an encoder-decoder writes: as many lines together as have come, at most a window."""
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
    """Print the generated targets of sources: a line each, or number of the source, rank, score and text."""
    for number, written in enumerate(found, start=first):
        if as_json:
            for rank, target in enumerate(written.targets, start=1):
                about = {"source": written.source, **asdict(target), "rank": rank, "cut": written.cut}
                click.echo(json.dumps(about, ensure_ascii=False))
        else:
            lines = [(target.score, target.text) for target in written.targets]
            _print_lines(number, lines, several=max(settings.n_best, settings.samples) > 1)


def _print_lines(number: int, found: list[tuple[float, str]], *, several: bool) -> None:
    """Print the one generated text of a source as a line, or several texts with their scores, a line each."""
    if not several:
        click.echo(safe_text(" ".join((found[0][1] if found else "").splitlines())))
        return
    for rank, (score, text) in enumerate(found, start=1):
        click.echo(f"{number}\t{rank}\t{score:.4f}\t{escaped(text)}")


def _print_live(writing: "Writing") -> None:
    """Print the prompt, then the text while `generate` is writing."""
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
    """Return the click parameters of `generate` or `fill`: a model, texts given or from a file, settings."""
    return [
        click.Argument(["model"], metavar="MODEL", type=click.Path(path_type=Path)),
        click.Argument([argument], nargs=-1),
        *settings_options(settings),
        click.Option(
            [f"--{argument}s"], type=click.Path(path_type=Path), metavar="FILE",
            help=f"Read {argument}s from a file, one per line.",
        ),
    ]  # fmt: skip


_verbose = Option(["-v", "--verbose"], is_flag=True, section=COMMON, expert=True, help="Show the speed.")

generate = ExampleCommand(
    "generate",
    params=[*_params("prompt", GenerateSettings), _verbose],
    callback=_generate,
    help=_GENERATE_HELP,
    example='wordpipe generate run/model "The bees of the valley"\n'
    'wordpipe generate run/model "Honey is" --samples 3 --temperature 0.7 --seed 5 --json\n'
    "wordpipe generate run/translator --prompts german.txt > english.txt",
    json="Print one JSON object per text.",
    quiet="Print nothing but the texts and errors.",
    verify="artifact's",
)


_FILL_HELP = """Predict the missing words of a text with a masked model, or with a denoising encoder-decoder.

All TEXT words are one text; [MASK] (or the mask token of the model's tokenizer) stands for missing words. Without TEXT, texts
are read from --texts or standard input, one per line; on a terminal you can type them. Model folders of Hugging Face
transformers work too.

A masked model (`train mlm`) puts one token in the place of each mask. Several masks are predicted at the same time, and no
prediction depends on another. In a pipe, each candidate is one line, separated by tabs: probability, token, text; with several
masks, first the number of the mask. An encoder-decoder (`train denoising`) writes any number of tokens for all masks at once;
in a pipe, each candidate is a line of score and text. For a line that is empty or has no mask, an empty line is printed
(with --json: an object that contains only the text). Exit code 3: nothing was filled."""


def _fill(
    model: Path, text: tuple[str, ...], texts: Path | None, as_json: bool, verify: bool, quiet: bool, **given: Any
) -> None:
    """Run `fill`: print candidates for the masks of each text."""
    from wordpipe.errors import InputError
    from wordpipe.stages import filler_of, open_model

    # the model
    settings = FillSettings.make(chosen_settings(FillSettings, given))
    opened = open_model(model, verify=verify)
    filler = filler_of(opened, settings)
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    # each text; one that cannot be filled is named, and the others go on
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
        # the candidates, and what was lost
        n_filled += 1
        if filled.cut and not quiet:
            say(
                f"the text is longer than the {filler.max_len:,} positions of the model, so {filled.cut:,} tokens were cut off"
            )
        if filled.fillings and len(filled.fillings) < settings.top_k and not quiet:
            say(f"the search found only {len(filled.fillings):,} of {settings.top_k:,} candidates")
        _print_filled(filled, filler, as_json=as_json)
    if not n_filled:
        raise InputError("nothing was filled", hint=f"write {filler.mask} where words are missing")


def _print_filled(filled: "Filled", filler: "Filler | DenoisingFiller", *, as_json: bool) -> None:
    """Print the filled texts of `fill` as lines."""
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
    """Print the text that `fill` has filled, and below it the candidates, mask by mask; of an encoder-decoder the texts."""
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


_PREDICT_HELP = """Label texts, find names in texts, or find answers, with a trained classifier, tagger or reader.

With -o, the arguments after MODEL are a corpus or any sources of text, and the result is an artifact with a row for each
record.

Without -o, all TEXT words are one text. Without TEXT, texts are read from --texts or standard input, one per line; on a
terminal you can type them. A model trained on pairs reads two texts from a line, separated by a tab. Output lines are
separated by tabs. A classifier prints a line with the label and the probability (with several labels: each label with its
probability), or the score. A tagger prints a line for each span: number of the text, begin and end of the span in characters,
label, probability, text of the span. An empty input line gives an empty output line (a tagger: no line; --json: an object).

A reader reads a question and a passage, separated by a tab, and prints a line: number of the question, begin and end of the
answer in characters of the passage (-1: no answer), probability, answer. With --index, the reader reads the ten best texts
that a search for the question finds; with --passages, all texts of a corpus or a source. A line is then: rank, probability,
answer, source, passage. Exit code 1: no passage has an answer.

Probabilities are calibrated with a temperature that was chosen on held-out texts. Model folders of Hugging Face transformers
work too."""

_AT_ONCE = 1_024  # texts that are computed together
_SHOWN = 5  # labels on a terminal
_AROUND = 60  # characters of a passage on either side of an answer, on a terminal
_OWN = ("model", "corpus", "as_json", "quiet", "verify")  # parameters that say more here than those of any stage
_COMMAND = COMMANDS["predict"]


def _predict(**given: Any) -> None:
    """Run `predict`: make an artifact with -o or a stage of a --config, otherwise print predictions of texts."""
    if given["output"] is not None or given["config"]:
        if given["texts"] is not None:
            raise ConfigError("--texts cannot be used with -o", hint="write the name of the file after MODEL")
        make(_COMMAND, given)
        return
    if given["fresh"] or given["set"]:
        raise ConfigError("--fresh and --set can be used only with -o", hint="add -o OUTPUT to make an artifact")
    if given["model"] is None:
        raise click.MissingParameter(
            ctx=click.get_current_context(), param=click.get_current_context().command.params[0]
        )
    if len(given["corpus"]) == 1 and _is_there(given["corpus"][0]):  # its name is not the text that is meant
        hint = (
            "add -o OUTPUT to make predictions for all texts of this source, "
            f"or use --texts {given['corpus'][0]} to read one text per line"
        )
        raise ConfigError("this is a file or a folder, not a text", where=given["corpus"][0], hint=hint)
    taken = ("texts", "device", "as_json", "verify", "quiet", "index", "passages", "k")
    with torch_threads(given["threads"] or 0):
        _answer(Path(given["model"]), given["corpus"], **{name: given[name] for name in taken})


def _is_there(name: str) -> bool:
    """True if a name is a file, a folder or a URL."""
    return os.path.lexists(name) or url_of(name) is not None


def _answer(
    model: Path, text: tuple[str, ...], *, texts: Path | None, device: Any, as_json: bool, verify: bool, quiet: bool,
    index: Path | None, passages: tuple[str, ...], k: int,
) -> None:  # fmt: skip
    """Print what `predict` finds: predictions of a model for texts, or the answers of a reader."""
    from wordpipe.stages import open_predictor

    # the model; a reader of an index or of passages has lines of its own
    opened = open_predictor(model, device=device or "auto", verify=verify)
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    if index is not None or passages:
        questions = given_lines(text, texts, what="question", option="--texts", quiet=quiet)
        more: dict[str, Any] = {"as_json": as_json, "verify": verify, "quiet": quiet}
        _print_answers(opened, questions, index=index, passages=passages, k=k, **more)
        return
    # texts are predicted together, and printed in the order of their lines
    number = answered = shortened = without = 0
    lines = given_lines(text, texts, what="text", option="--texts", quiet=quiet)
    for some in together(lines, text, texts, _AT_ONCE):
        asked = [_asked(line, opened) if text or line.strip() else None for line in some]
        numbers = [at for at, one in enumerate(asked, number + 1) if one is not None]
        found = opened.predict([one for one in asked if one is not None], numbers)
        # an empty line has an empty answer
        for one in asked:
            number += 1
            if one is None:
                if as_json or not opened.tags_words:
                    print_unanswered(as_json=as_json, text="")
                continue
            said = next(found)
            answered, shortened = answered + 1, shortened + (said.cut > 0)
            without += opened.tags_words and not said.spans  # type: ignore[union-attr]
            _print(number, one, said, opened, as_json=as_json)
    # what was not found, or cut
    if not answered:
        raise InputError("the input lines contain no text", hint="give at least one word")
    if without and not (quiet or as_json):
        where = f"{without:,} of {counted(answered, 'texts')}" if answered > 1 else "this text"
        say(f"the model found no span in {where}")
    if shortened and not quiet:
        say(
            f"texts that are too long for the model: {shortened:,} of {answered:,}; the ends of these texts were cut off"
        )


def _asked(line: str, opened: "Predictor") -> "str | tuple[str, str]":
    """Return an input line of `predict` as one text, or as a pair of texts for a model of pairs."""
    first, tab, second = line.partition("\t")
    if opened.finds_answers and tab:  # the question comes first, for a passage may have tabs
        first, second = second, first
    return (first, second) if opened.pairs and tab else line


def _print_answers(
    opened: "Predictor", questions: Iterable[str], *, index: Path | None, passages: tuple[str, ...], k: int, as_json: bool,
    verify: bool, quiet: bool,
) -> None:  # fmt: skip
    """Print the best answers that the reader of `predict` finds in an index, or in passages, to each question.

    Raises:
        NothingFound: no question has an answer.
    """
    from wordpipe.stages import best_answers, open_passages

    asked = without = cut = 0
    with open_passages(index=index, passages=passages or None, read=10, verify=verify) as texts:
        for question in questions:
            asked += 1
            found = best_answers(opened, question, texts, k) if question.strip() else []
            if not found and (as_json or not sys.stdout.isatty()):
                print_unanswered(as_json=as_json, question=question)
            without += not found
            cut += bool(found) and found[0].said.cut > 0
            for one in found:
                _print_found(question, one, first=one.rank == 1, as_json=as_json)
    if cut and not quiet:
        say(
            f"questions that are too long for the model: {cut:,} of {asked:,}; the ends of these questions were cut off"
        )
    if asked and without == asked:
        hint = "use other words, or give more passages" if asked == 1 else "give other passages"
        raise NothingFound("the model found no answer in any passage", got=counted(asked, "questions"), hint=hint)
    if without and not quiet:
        say(f"the model found no answer to {without:,} of {counted(asked, 'questions')}")


def _print_found(question: str, found: "FoundAnswer", *, first: bool, as_json: bool) -> None:
    """Print the answers of `predict READER` with their passages."""
    place = f"{found.source}:{found.line}"
    if as_json:
        about = {"title": found.title, "source": found.source, "line": found.line, "id": found.id, "text": found.text}
        known = {name: value for name, value in about.items() if value is not None}
        click.echo(
            json.dumps(
                {"question": question, "rank": found.rank, **_answer_values(found.said), **known}, ensure_ascii=False
            )
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
    """Return the text of a passage around an answer."""
    start, end = max(0, found.said.start - _AROUND), found.said.end + _AROUND
    before, after = "… " * (start > 0), " …" * (end < len(found.text))
    return before + one_line(found.text[start:end]).strip() + after


def _print_answer(number: int, question: str, found: "Answered") -> None:
    """Print the answer that the reader of `predict` found in one passage."""
    if sys.stdout.isatty():
        click.echo(safe_text(one_line(question)))
        click.echo(safe_text(f"  {found.probability:7.2%}  {one_line(found.answer) or '(no answer)'}"))
        return
    said = escaped(one_line(found.answer))
    click.echo(f"{number}\t{found.start}\t{found.end}\t{found.probability:.4f}\t{said}")


def _answer_values(found: "Answered") -> dict[str, Any]:
    """Return the JSON values of an answer; without any answer there is no score."""
    values = {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(found).items()}
    return {name: value for name, value in values.items() if name != "score" or abs(value) < float("inf")}


def _print(number: int, text: Any, found: "Prediction", opened: "Predictor", *, as_json: bool) -> None:
    """Print the prediction of one text (`predict`): answer, labels, spans, or JSON."""
    shown = text if isinstance(text, str) else " | ".join(text)
    if as_json and opened.finds_answers:
        click.echo(json.dumps({"question": text[1], "text": text[0], **_answer_values(found)}, ensure_ascii=False))  # type: ignore[arg-type]
    elif opened.finds_answers:
        _print_answer(number, text[1], found)  # type: ignore[arg-type]
    elif as_json:
        click.echo(json.dumps({"text": text, **opened.values(found)}, ensure_ascii=False))
    elif opened.tags_words:
        _print_spans(number, shown, found)  # type: ignore[arg-type]
    else:
        _print_labels(shown, found, opened)  # type: ignore[arg-type]


def _print_labels(text: str, found: "Classified", opened: "Predictor") -> None:
    if found.score is not None:
        click.echo(f"{found.score:.4f}")
        return
    known = dict(zip(opened.labels, found.probabilities, strict=True))
    if not sys.stdout.isatty():
        click.echo("\t".join(f"{escaped(name)}\t{known[name]:.4f}" for name in found.labels))
        return
    click.echo(safe_text(one_line(text)))
    ranked = sorted(known, key=lambda name: -known[name])
    for name in ranked[:_SHOWN]:
        click.echo(safe_text(f"  {known[name]:7.2%}  {name}{'  ←' if name in found.labels else ''}"))


def _print_spans(number: int, text: str, found: "Tagged") -> None:
    if sys.stdout.isatty():
        click.echo(safe_text(one_line(text)))
        for span in found.spans:
            click.echo(safe_text(f"  {span.probability:7.2%}  {span.label}  {one_line(span.text)}"))
        return
    for span in found.spans:
        place = f"{number}\t{span.start}\t{span.end}"
        click.echo(f"{place}\t{escaped(span.label)}\t{span.probability:.4f}\t{escaped(one_line(span.text))}")


predict = ExampleCommand(
    "predict",
    params=[
        click.Argument(["model"], metavar="MODEL", required=False),
        click.Argument(["corpus"], nargs=-1, metavar="[TEXT|CORPUS]..."),
        *(option for option in stage_command(_COMMAND).params if option.name not in _OWN),
        Option(["--texts"], type=PATH, metavar="FILE", help="Read texts from a file, one per line."),
        Option(
            ["--index"],
            type=PATH,
            metavar="INDEX",
            help="For a reader: search this index for the question, and read the ten best texts.",
        ),
        Option(
            ["--passages"],
            multiple=True,
            metavar="CORPUS|SOURCE",
            help="For a reader: read all documents of this corpus or these files; may be repeated.",
        ),
        Option(["-k"], type=click.IntRange(1, 1000), default=5, help="For a reader: number of answers per question."),
    ],
    callback=_predict,
    help=_PREDICT_HELP,
    example='wordpipe predict run/topics "How far is the moon?"\nwordpipe predict run/names --json < posts.txt\n'
    'wordpipe predict run/reader "Who built the mill?" --index run/index\n' + _COMMAND.example,
    json="Print one JSON object per text; with -o, one object in total.",
    quiet="Print nothing but the predictions and errors.",
    verify="artifacts'",
)
