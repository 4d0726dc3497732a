"""`wordpipe evaluate tokenizer`, `model` and `words`: measures in tables for people, or as JSON."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import ExampleCommand, Option
from wordpipe.cli.output import counted, human_bytes, human_count
from wordpipe.cli.tables import Column, answer, figure, new_table, print_columns, short_name

_MAX_GROUPS = 20
_MAX_WORDS = 5
_MAX_TEXT = 100  # characters of a text that did not come back
_NAME_WIDTH, _MIN_NAME_WIDTH, _GROUP_COLUMN_WIDTH = 28, 10, 10
_COLUMN_GAP = 2
_GROUP_COLUMNS = {
    "bytes_per_token": "bytes/\ntoken",
    "tokens_per_word": "tokens/\nword",
    "split_words": "words\nsplit",
    "unknown_rate": "un-\nknown",
    "text_failures": "text\nlost",
    "bytes": "text",
}
_TOKENIZER_MEASURES = {  # the name in metrics → its line in the table, and how it is written
    "bytes_per_token": ("bytes per token", "{:.3f}"),
    "characters_per_token": ("characters per token", "{:.3f}"),
    "tokens_per_word": ("tokens per word", "{:.3f}"),
    "split_words": ("words split", "{:.1%}"),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
    "vocabulary_used": ("vocabulary used", "{:.1%}"),
    "round_trip_failures": ("texts changed", "{:.2%}"),
    "text_failures": ("  beyond spaces", "{:.2%}"),
}
_MODEL_MEASURES = {
    "bits_per_byte": ("bits per byte", "{:.4f}"),
    "perplexity_per_word": ("perplexity per word", "{:,.1f}"),
    "perplexity": ("perplexity per target", "{:,.2f}"),
    "loss": ("loss (nats per target)", "{:.4f}"),
    "accuracy": ("guessed first", "{:.1%}"),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
}
_METHODS = {"cosadd": "3CosAdd", "cosmul": "3CosMul"}


def evaluation(
    name: str,
    metavar: str,
    *,
    example: str,
    json: str,
    required: bool = True,
    params: Sequence[click.Parameter] = (),
    nargs: int = -1,
) -> Callable[[Callable[..., None]], click.Command]:
    """A command that evaluates what its arguments name: with --json, -q and --verify."""

    def make(function: Callable[..., None]) -> click.Command:
        take = click.argument(name, nargs=nargs, required=required, metavar=metavar, type=click.Path(path_type=Path))
        command = click.command(
            cls=ExampleCommand, params=[*params], example=example, json=f"Print one JSON object, with {json}.",
            quiet="Print nothing but the table and errors.", verify="artifacts'",
        )  # fmt: skip
        return command(take(function))

    return make


def number(name: str, least: int, default: int, text: str, *, expert: bool = False) -> Callable[[Any], Any]:
    """An option that takes a whole number."""
    return click.option(
        name, cls=Option, expert=expert, type=click.IntRange(min=least), default=default, metavar="N",
        help=f"{text}  [default: {default}]",
    )  # fmt: skip


def some_words(found: dict[str, Any]) -> str:
    """The first of some words."""
    first = found["first"]
    return ", ".join([*first[:_MAX_WORDS], *["…"] * (len(first) > _MAX_WORDS)])


def passed_over(found: dict[str, Any]) -> list[str]:
    """Which files of folders were not taken, in a line if there are any."""
    skipped = ", ".join(f"{count:,} {ending}" for ending, count in found["skipped"].items())
    return [f"files passed over: {skipped}"] if skipped else []


_data = click.option(
    "--data", required=True, multiple=True, metavar="CORPUS", help="A corpus artifact, or any source of text."
)


@evaluation(
    "tokens", "TOKENS...", example="wordpipe evaluate tokenizer run/tokens --data run/corpus",
    json="the first failures and unused tokens",
)  # fmt: skip
@_data
@click.option(
    "--by", metavar="COLUMN", help="Figures for each source, or each value of a metadata column such as lang."
)
@click.option("--split", type=click.Choice(["train", "valid", "test"]), help="Evaluate this part of the corpus only.")
def tokenizer(tokens: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate tokenizers on a text, side by side.

    TOKENS are artifacts with a tokenizer, or whatever tokenize --tokenizer takes. More bytes per token make shorter
    sequences; tokens per word (fertility) and split words count words where spaces mark them.

    Another size of the vocabulary is trained in seconds: wordpipe tokenize CORPUS --counts TOKENS --vocab-size N.
    """
    from wordpipe.stages import evaluate_tokenizer

    answer(evaluate_tokenizer, tokens, data, show=_show_tokenizers, remarks=_tokenizer_remarks, **options)


def _show_tokenizers(found: dict[str, Any]) -> None:
    print_columns([
        (short_name(one["name"], _NAME_WIDTH), [
            ("vocabulary", f"{one['vocab_size']:,}"),
            *((label, figure(one["metrics"][name], form)) for name, (label, form) in _TOKENIZER_MEASURES.items()),
        ])
        for one in found["tokenizers"]
    ])  # fmt: skip
    for one in found["tokenizers"] if found["by"] is not None else ():
        _print_groups(one, found["by"])


def _print_groups(one: dict[str, Any], by: str) -> None:
    """One line per group, the ones with most text first; as many columns as there is room for."""
    from wordpipe.cli.tables import console

    screen = console()
    n_columns = max(1, (screen.width - _MIN_NAME_WIDTH - _COLUMN_GAP) // _GROUP_COLUMN_WIDTH)
    columns = list(_GROUP_COLUMNS.items())[:n_columns]
    room = min(_NAME_WIDTH, max(_MIN_NAME_WIDTH, screen.width - _COLUMN_GAP - len(columns) * _GROUP_COLUMN_WIDTH))
    left_out = len(_GROUP_COLUMNS) - len(columns)
    title = short_name(one["name"], _NAME_WIDTH) + (f" ({left_out} columns do not fit)" if left_out else "")
    table = new_table(short_name(by, room), *(head for _, head in columns), title=title)
    for name, group in list(one["groups"].items())[:_MAX_GROUPS]:
        cells = {name: figure(group["metrics"][name], form) for name, (_, form) in _TOKENIZER_MEASURES.items()}
        cells["bytes"] = human_bytes(group["counts"]["bytes"])
        table.add_row(short_name(name, room), *(cells[column] for column, _ in columns))
    if (more := len(one["groups"]) - _MAX_GROUPS) > 0:
        table.add_row(f"… {more:,} more", *[""] * len(columns))
    screen.print(table)


def _tokenizer_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on how much text it stands, and the first text that did not come back."""
    counts = found["tokenizers"][0]["counts"]
    lines = [
        f"{human_count(counts['texts'])} texts, {human_bytes(counts['bytes'])}, {human_count(counts['words'])} words"
        + (f"; {human_count(runs)} runs in scripts without spaces" if (runs := counts["unspaced_runs"]) else "")
    ]
    for one in found["tokenizers"]:
        if one["failures"]:
            first, count = one["failures"][0], one["counts"]["round_trip_failures"]
            name = short_name(one["name"], _NAME_WIDTH)
            lines.append(f"{name}: {count:,} texts do not come back as they were; the first:")
            lines += [f"  text     {_start(first['text'])}", f"  decoded  {_start(first['decoded'])}"]
            lines.append(f"  differs  {_start(first['was'])} → {_start(first['became'])}")
    return lines


def _start(text: str) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


@evaluation(
    "models", "MODEL...", json="all counts",
    example="wordpipe evaluate model run/model --data run/corpus\n"
    "wordpipe evaluate model run/clm run/larger --data held_out.txt --json",
)  # fmt: skip
@_data
@click.option(
    "--split", type=click.Choice(["train", "valid", "test", "all"]),
    help="The part of the corpus to evaluate on.  [default: what is held out: valid, else test, else all; of sources: all]",
)  # fmt: skip
@click.option(
    "--seq-len", type=int, metavar="N",
    help="Positions of a sequence: how far a model can look back.  [default: the model's length, at most 2048]",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), default="auto",
    help="Where the models run; auto takes the fastest there is.  [default: auto]",
)  # fmt: skip
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="CPU threads, 0 = one per core.  [default: 0]",
)
def model(models: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate language models by how much a text surprises them, side by side.

    MODEL is an artifact, or a folder of transformers. A target is a token to be guessed: every token for a model that reads
    from left to right, 15 % of them, always the same, for one that sees both sides.

    Models with different tokenizers compare by bits per byte and by perplexity per word; those of equal tokenizers by
    their loss too. Models that see both sides compare only with each other.
    """
    from wordpipe.stages import evaluate_model

    answer(evaluate_model, models, data, show=_show_models, remarks=_model_remarks, **options)


def _show_models(found: dict[str, Any]) -> None:
    print_columns([
        (short_name(one["name"], _NAME_WIDTH), [
            ("reads", "to the right" if one["architecture"] == "decoder" else "both sides"),
            *((label, _figure(one["metrics"][name], form)) for name, (label, form) in _MODEL_MEASURES.items()),
            ("targets", f"{one['counts']['targets']:,}"),
            ("tokens of the text", f"{one['counts']['tokens']:,}"),
            ("vocabulary", f"{one['vocab_size']:,}"),
            ("positions", f"{one['seq_len']:,}"),
            ("weights", human_count(one["parameters"])),
        ])
        for one in found["models"]
    ])  # fmt: skip


def _figure(value: float | None, form: str) -> str | None:
    return None if value is None else figure(value, form)


def _model_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on which text it stands, and whether its columns compare."""
    models, counts = found["models"], found["models"][0]["counts"]
    part = f"the split {found['split']}" if found["split"] else "all of the text"
    lines = [
        f"{part}: documents {human_count(counts['documents'])}, words {human_count(counts['words'])}, "
        f"{human_bytes(counts['bytes'])}"
    ]
    if len({one["architecture"] for one in models}) > 1:
        lines.append("models that see both sides guess an easier thing: their figures do not compare with the others'")
    if len({one["seq_len"] for one in models}) > 1:
        lines.append("longer sequences let a model look further back; --seq-len gives all the same")
    return lines


@evaluation(
    "words", "WORDS...", json="all sections and the first unknown words",
    example="wordpipe evaluate words run/words --data wordsim353.txt --data questions-words.txt\n"
    "wordpipe evaluate words run/words run/small --data sets/ --sections",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PATH", help="A set, or a folder of .txt, .tsv and .csv sets."
)
@number("--restrict-vocab", 0, 30_000, "Ask and answer analogies with the N commonest words; 0 takes all.")
@click.option(
    "--analogy", type=click.Choice([*_METHODS]), default="cosadd",
    help="Add the cosines of a question, or multiply them.  [default: cosadd]",
)  # fmt: skip
@click.option(
    "--unknown", type=click.Choice(["drop", "zero"]), default="drop",
    help="Leave out pairs and questions with unknown words, or count them as cosine 0 and as wrong.  [default: drop]",
)  # fmt: skip
@click.option("--sections", is_flag=True, help="Figures for each section of the analogies.")
def words(words: tuple[Path, ...], data: tuple[str, ...], sections: bool, **options: Any) -> None:
    """Evaluate word vectors on word similarity and analogies, side by side.

    A similarity set has two words and a score a line; the figure is Spearman's correlation of the scores with the cosines.
    An analogy set has lines of four words below lines such as ": family"; the figure is the share of questions whose
    fourth word is found from the other three.

    Figures depend on which pairs and questions are known, and those of analogies on --restrict-vocab, so both are printed;
    only figures of equal ones can be compared.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages import evaluate_words

    show = partial(_show_words, sections=sections)
    found = answer(evaluate_words, words, data, show=show, remarks=_words_remarks, **options)
    if all(figure is None for one in found["words"] for figure in one["metrics"].values()):
        hint = "look at the case and the language of the sets, or raise --restrict-vocab"
        raise InputError("nothing could be evaluated: the tables know too few words of the sets", hint=hint)


def _show_words(found: dict[str, Any], *, sections: bool) -> None:
    kinds = {one["kind"] for one in found["words"][0]["sets"]}
    cut = f"the {found['restrict_vocab']:,} commonest words" if found["restrict_vocab"] else "all words"
    said = {
        "similarity": "Similarity: Spearman's correlation with the cosines.",
        "analogies": f"Analogies: {_METHODS[found['analogy']]} among {cut}.",
    }
    unknown = "left out" if found["unknown"] == "drop" else "counted as cosine 0 and as wrong"
    above = " ".join([*(said[kind] for kind in said if kind in kinds), f"Unknown words: {unknown}."])
    whole = "asked" if found["unknown"] == "zero" else "seen"  # the questions that a section's share is of
    print_columns([_words_column(one, whole, sections=sections) for one in found["words"]], above=above)


def _words_column(one: dict[str, Any], whole: str, *, sections: bool) -> Column:
    lines: list[tuple[str, str | None]] = [("words", f"{one['distinct']:,}"), ("dimensions", f"{one['dim']:,}")]
    for dataset in one["sets"]:
        name = short_name(dataset["name"], _NAME_WIDTH)
        if dataset["kind"] == "similarity":
            lines.append((name, figure(dataset["spearman"], "{:.3f}")))
            lines.append(("  pairs known", f"{dataset['known']:,} of {dataset['pairs']:,}"))
            continue
        lines.append((name, figure(dataset["accuracy"], "{:.1%}")))
        parts = {part: dataset[part] for part in ("semantic", "syntactic") if dataset[part] is not None}
        lines += [(f"  {part}", figure(figures["accuracy"], "{:.1%}")) for part, figures in parts.items()]
        lines.append(("  questions seen", f"{dataset['seen']:,} of {dataset['asked']:,}"))
        lines.append(("  among words", f"{dataset['among']:,}"))
        for part in dataset["sections"] if sections else ():
            share = f"{figure(part['accuracy'], '{:.1%}')} of {part[whole]:,}"
            lines.append((f"  {short_name(part['name'], _NAME_WIDTH)}", share))
    for measure, form in (("spearman", "{:.3f}"), ("accuracy", "{:.1%}")):
        if sum(name.startswith(f"{measure}/") for name in one["metrics"]) > 1:
            lines.append((f"mean {measure}", figure(one["metrics"][measure], form)))
    return short_name(one["name"], _NAME_WIDTH), lines


def _words_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: which words are unknown, whether columns compare, which files were passed over."""
    lines = []
    for one in found["words"]:
        name = short_name(one["name"], _NAME_WIDTH)
        if one["unit"] == "token":
            lines.append(f"{name}: its rows are tokens, so a word of several tokens is unknown")
        for kind in ("unknown_words", "guessed_words"):
            found_words = (dataset for dataset in one["sets"] if dataset.get(kind, {}).get("count"))
            lines += [f"{name}: {_named(dataset, kind)}" for dataset in found_words]
    known = [[one.get("known", one.get("seen")) for one in table["sets"]] for table in found["words"]]
    if found["unknown"] == "drop" and any(one != known[0] for one in known):
        lines.append("the columns know different pairs or questions; --unknown zero counts all of them")
    return lines + passed_over(found)


def _named(dataset: dict[str, Any], kind: str) -> str:
    """How many words are unknown or guessed, and the first of them."""
    what = f"not among the {dataset['among']:,} commonest" if "among" in dataset else "unknown"
    what = "guessed from the letters, not in the table" if kind == "guessed_words" else what
    return f"{counted(dataset[kind]['count'], 'words')} of {dataset['name']} {what}: {some_words(dataset[kind])}"
