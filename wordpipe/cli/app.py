"""The `wordpipe` command and its lazily loaded subcommands.

click asks every subcommand for its help to print the group's, which would import everything; so the one-line helps stand
in a static table here and a command is built only when it is called.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from wordpipe import __version__
from wordpipe.elsewhere import COMMANDS as MEANT
from wordpipe.runtime import Stopped, StopRequest
from wordpipe.stages import COMMANDS, load_named

_MEASURE = "Measure how good something is"
_TRAIN = "Train word vectors, a transformer or an encoder of texts."
_USE = {
    "query": ("wordpipe.cli.query:query", "Find the nearest neighbours of a text or a word."),
    "serve": ("wordpipe.cli.serve:serve", "Answer queries over HTTP: a page and an API."),
    "generate": ("wordpipe.cli.generate:generate", "Continue a text, or write the target of a source text."),
    "fill": ("wordpipe.cli.generate:fill", "Guess the missing words of a text."),
    "predict": ("wordpipe.cli.predict:predict", "Label texts, or find names in them, with a trained head."),
    "finish": ("wordpipe.cli.stage:finish", "Make a model of a training that was stopped."),
    "plot": ("wordpipe.cli.examine:plot", "Draw loss and learning rate of trainings, side by side."),
    "diff": ("wordpipe.cli.examine:diff", "Show which words moved between two tables of word vectors."),
    "evaluate": ("wordpipe.cli.app:_evaluate", f"{_MEASURE}; a tokenizer, word vectors, a model, an encoder of texts."),
    "show": ("wordpipe.cli.show:show", "Say what an artifact is, how it was made and what it holds."),
    "verify": ("wordpipe.cli.show:verify", "Check that artifacts are whole and unchanged."),
    "doctor": ("wordpipe.cli.evaluate:doctor", "Say how healthy vectors or a model are, and what would mend it."),
    "duplicates": ("wordpipe.cli.examine:duplicates", "Report groups of texts that say nearly the same."),
    "map": ("wordpipe.cli.examine:map_", "Draw a map of word vectors as one HTML page."),
    "report": ("wordpipe.cli.examine:report", "Write a report on a whole pipeline as one HTML page."),
    "attention": ("wordpipe.cli.examine:attention", "Draw what looks where in a text as one HTML page."),
    "export": ("wordpipe.cli.export:export", "Write an artifact in another program's format."),
    "copy": ("wordpipe.cli.export:copy", "Copy an artifact to or from a bucket, or between folders."),
}
_PROJECT = {
    "plan": ("wordpipe.cli.examine:plan", "Say which model can be trained in a time, such as 30m."),
    "init": ("wordpipe.cli.stage:init", "Write a config and a Makefile to start from; --from FILE looks at records."),
    "run": ("wordpipe.cli.stage:run", "Make what is missing or stale in a pipeline, in order."),
    "status": (
        "wordpipe.cli.stage:status",
        "Say which stages of a pipeline are stale, why, what it takes.",
    ),
    "help": ("wordpipe.cli.command:help_", "Show the help of a command; --all: with every option."),
}


class LazyGroup(click.Group):
    """A group whose commands are known by name and help, and imported when called.

    Args:
        sections: title → command name → (module:attribute or "" for one of the registry, one-line help).
        prefix: what stands before a command's name in the registry ("train ").
    """

    def __init__(self, sections: dict[str, dict[str, tuple[str, str]]], *, prefix: str = "", **attrs: object) -> None:
        super().__init__(**attrs)  # type: ignore[arg-type]
        self._sections = sections
        self._prefix = prefix
        self._where = {name: where for section in sections.values() for name, (where, _) in section.items()}

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse; the reader of a help page may go away."""
        with _stopping():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the reader of its output may go away."""
        with _stopping():
            return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its options, and --help-all, which shows what --help does: all its commands."""
        from wordpipe.cli.command import HELP_ALL

        return [*super().get_params(ctx), HELP_ALL]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help page."""
        return list(self._where)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._where:
            return None
        if where := self._where[cmd_name]:
            command: click.Command = load_named(where)
            return command
        from wordpipe.cli.stage import stage_command

        return stage_command(COMMANDS[self._prefix + cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelled name is answered with the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            meant = [MEANT[name] for name in get_close_matches(args[0], MEANT, n=1, cutoff=0.8)]
            near = meant if {*meant} <= {*self._where} else []
            near = near or get_close_matches(args[0], self._where, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" There are: {', '.join(self._where)}."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its commands; the help says what options there are."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the static table."""
        from wordpipe.cli.command import first_clause

        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, first_clause(text)) for name, (_, text) in section.items()])


@contextmanager
def _stopping() -> Iterator[None]:
    """Take a closed pipe, and a stop that has saved something, for what they are before click ends the process by them."""
    try:
        yield
    except BrokenPipeError:
        raise StopRequest(signal.SIGPIPE) from None
    except Stopped as stopped:
        raise StopRequest(stopped.signum, stopped.saved) from stopped


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

_OBJECTIVES = {
    name.removeprefix("train "): ("", command.summary)
    for name, command in COMMANDS.items()
    if name.startswith("train ")
}

_train = LazyGroup(
    {"Objectives": _OBJECTIVES},
    prefix="train ",
    name="train",
    help=f"Example:  wordpipe train mlm run/tokens -o run/model --preset tiny\n\n{_TRAIN}",
    context_settings=_CONTEXT,
    options_metavar="",
    subcommand_metavar="OBJECTIVE TOKENS -o OUTPUT [OPTIONS]",
)

_EVALUATE = {
    "tokenizer": ("wordpipe.cli.evaluate:tokenizer", "Evaluate tokenizers on a text, side by side."),
    "words": (
        "wordpipe.cli.evaluate:words",
        "Evaluate word vectors on similarity and analogies, side by side.",
    ),
    "model": (
        "wordpipe.cli.evaluate:model",
        "Evaluate language models by how much a text surprises them, side by side.",
    ),
    "seq2seq": (
        "wordpipe.cli.evaluate_texts:seq2seq",
        "Evaluate encoder-decoders by the target texts that they write, beside baselines.",
    ),
    "predictions": (
        "wordpipe.cli.evaluate_texts:predictions",
        "Evaluate classifiers and taggers on labelled texts, beside baselines.",
    ),
    "sts": (
        "wordpipe.cli.evaluate_texts:sts",
        "Evaluate encoders of texts on pairs of sentences that people have scored.",
    ),
    "search": (
        "wordpipe.cli.evaluate:search",
        "Evaluate an index by your own questions, in every way it can be asked.",
    ),
    "retrieval": (
        "wordpipe.cli.evaluate_texts:retrieval",
        "Evaluate how well encoders find the documents that people judged relevant.",
    ),
}

_evaluate = LazyGroup(
    {"What is evaluated": _EVALUATE},
    name="evaluate",
    help=f"Example:  wordpipe evaluate tokenizer run/tokens --data run/corpus\n\n{_MEASURE}. Makes nothing.",
    context_settings=_CONTEXT,
    options_metavar="",
    subcommand_metavar="WHAT … --data PATH [OPTIONS]",
)

_MAKE = {name: ("", COMMANDS[name].summary) for name in ("ingest", "import", "tokenize")}
_MAKE |= {"train": ("wordpipe.cli.app:_train", _TRAIN)}
_MAKE |= {name: ("", COMMANDS[name].summary) for name in ("embed", "index", "cluster")}

_HELP = """\b
From your own text to a searchable index. Stages read and make folders (-o).
wordpipe init --from bees.txt && wordpipe run && wordpipe query run/index bee
"""


@click.command(
    cls=LazyGroup,
    sections={"Make artifacts": _MAKE, "Use them": _USE, "Whole pipelines": _PROJECT},
    context_settings=_CONTEXT,
    subcommand_metavar="COMMAND …",
    help=_HELP,
)
@click.version_option(__version__, message="wordpipe %(version)s")
def app() -> None:
    """The `wordpipe` command."""
