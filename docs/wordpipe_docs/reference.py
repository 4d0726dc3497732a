"""The reference, in Markdown, from what the program is made of: commands, settings classes, schemas, errors.

Every option has an anchor, `option-COMMAND-NAME`; `tests/test_docs.py` holds that each is there once.
"""

import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
import pyarrow as pa

from wordpipe import errors
from wordpipe.artifacts import (
    CORPUS,
    COUNTS,
    DOUBLES,
    OPTIONAL,
    REMOVED,
    SOURCES,
    SPANS,
    STEPS,
    TAGS,
    VOCABULARY,
    clusters_schema,
    members_schema,
    ngrams_schema,
    predictions_schema,
    sentences_schema,
    tokens_schema,
    vectors_schema,
    words_schema,
)  # fmt: skip
from wordpipe.cli.app import app
from wordpipe.cli.command import ExampleCommand, Option
from wordpipe.model import MUON_LR, PRESETS
from wordpipe.search import RULES
from wordpipe.settings import Setting
from wordpipe.stages import COMMANDS, Maker
from wordpipe.web import STATUSES
from wordpipe_docs.figures import result

_ELSEWHERE = ("train", "evaluate")  # groups that have a page of their own
_MARKUP = re.compile(r"([\\*_<>\[\]$|{}~#])")
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


def plain(text: str) -> str:
    """The text as Markdown that shows it letter by letter; `code` stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _MARKUP.sub(r"\\\1", part) for part in parts)


def groups() -> dict[str, list[str]]:
    """The whole names of all commands, by the page they stand on: a heading of `wordpipe --help`, or a group."""
    found: dict[str, list[str]] = {}
    for title, section in app._sections.items():
        found[title] = [name for name in section if name not in _ELSEWHERE]
    context = click.Context(app)
    for name in _ELSEWHERE:
        group = app.get_command(context, name)
        assert isinstance(group, click.Group)
        found[name] = [f"{name} {inner}" for inner in group.list_commands(context)]
    return found


def command_named(name: str) -> click.Command:
    """A command by its whole name ("train mlm")."""
    found: click.Command = app
    for word in name.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, name
        found = inner
    return found


def commands(*titles: str) -> str:
    """The commands of a page, each with its arguments and options."""
    return "\n\n".join(_command(name) for title in titles for name in groups()[title])


def _command(name: str) -> str:
    command, made = command_named(name), COMMANDS.get(name)
    parts = [f"(command-{_slug(name)})=", f"## `wordpipe {name}`", *_said(command, made)]
    if isinstance(command, ExampleCommand) and command.example:
        parts.append(f"```text\n{command.example.strip()}\n```")
    if arguments := [param for param in command.params if isinstance(param, click.Argument)]:
        parts.append("### Arguments")
        known = {argument.name: argument.text for argument in made.arguments} if made else {}
        parts += [_item(f"`{_metavar(one)}`", _argument_text(one, known), "") for one in arguments]
    sections: dict[str, list[str]] = {}
    for section, item in _options(name, command, made):
        sections.setdefault(section, []).append(item)
    for section, items in sections.items():
        parts += [f"### {section}", *items]
    return "\n\n".join(parts)


def _said(command: click.Command, made: Maker | None) -> list[str]:
    if made:
        return [plain(made.summary), f"Makes an artifact of the kind **{made.made_kinds}**."]
    help_ = re.sub(r"\A\s*Example:.*\n", "", command.help or "")
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", help_.strip()):
        if paragraph.lstrip().startswith("\b"):
            paragraphs.append("```text\n" + paragraph.lstrip().removeprefix("\b").strip("\n") + "\n```")
        else:
            paragraphs.append(plain(" ".join(paragraph.split())))
    return paragraphs


def _metavar(argument: click.Argument) -> str:
    return re.sub(r"[\[\]]", "", argument.make_metavar(click.Context(click.Command("any"))))


def _argument_text(argument: click.Argument, known: dict[str, str]) -> str:
    name = _metavar(argument).replace("...", "")
    text = plain(known.get(name, ""))
    notes = ["one or more" if argument.required else "any number"] if argument.nargs == -1 else []
    if not argument.required and argument.nargs != -1:
        said = isinstance(argument.default, str)
        notes.append(f"default: `{argument.default}`" if said else "may be left out where `--config` has it")
    return "; ".join(filter(None, [text, *notes])) or "required"


def _options(name: str, command: click.Command, made: Maker | None) -> Iterator[tuple[str, str]]:
    """Heading and item of every option, the settings first."""
    settings = made.load_settings() if made else None
    section, own = "Options", [param for param in command.params if isinstance(param, click.Option)]
    for setting_name, setting in settings.model_fields.items() if settings else ():
        section = setting.section or section
        short = [flag for option in own if option.name == setting_name for flag in option.opts if len(flag) == 2]
        yield section, _setting(name, setting_name, setting, short)
    for option in own:
        if settings is None or option.name not in settings.model_fields:
            heading = (option.section if isinstance(option, Option) else "") or "Options"
            yield ("Common options" if made else heading), _flag(name, option)


def _setting(command: str, name: str, setting: Setting, short: list[str]) -> str:
    """A setting: its option (with the `short` flags) or `--set`, its TOML key, its values, default and meaning."""
    kind, flag = _type(setting.annotation), "--" + name.replace("_", "-")
    shown = " ".join(f"`{one}`" for one in [*short, flag]) if setting.option else f"`--set {name}=…`"
    if kind == "on or off" and setting.option:
        shown += f" `--no-{flag[2:]}`"
    facts = [f"TOML `{name}`", kind, *_bounds(setting), _default(setting)]
    if setting.artifact:
        facts.append("an artifact, by its digest: " + " or ".join(setting.artifact))
    elif not setting.recipe:
        facts.append("does not change the result")
    return _item(f"[{shown}]{{#option-{_slug(command)}-{_slug(name)}}}", plain(_sentence(setting.description)), facts)


def _flag(command: str, option: click.Option) -> str:
    """An option that is no setting."""
    shown = " ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    facts = []
    if not option.is_flag:
        facts.append(_click_type(option))
    if option.multiple:
        facts.append("may be repeated")
    if option.required:
        facts.append("required")
    text = re.sub(r"\s*\[(?:default: )?([^\]]*)\]\s*$", r" Default: \1.", option.help or "")
    return _item(f"[{shown}]{{#option-{_slug(command)}-{_slug(option.name or '')}}}", plain(text), facts)


def _click_type(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return ", ".join(f"`{choice}`" for choice in option.type.choices)
    if isinstance(option.type, click.IntRange | click.FloatRange):
        low, high = option.type.min, option.type.max
        kind = "a whole number" if isinstance(option.type, click.IntRange) else "a number"
        bounds = [f"{'>' if option.type.min_open else '≥'} {low}"] if low is not None else []
        bounds += [f"{'<' if option.type.max_open else '≤'} {high:,}"] if high is not None else []
        return ", ".join([kind, *bounds])
    return f"`{option.metavar or option.make_metavar(click.Context(click.Command('any')))}`"


def _item(term: str, text: str, facts: "list[str] | str") -> str:
    shown = f" [{' · '.join(filter(None, facts))}]{{.facts}}" if facts else ""
    return f"{term}{shown}\n: {text}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _slug(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name)


def _type(annotation: Any) -> str:
    """A type in words."""
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [_type(inner) for inner in get_args(annotation) if inner is not type(None)]
        return " or ".join(dict.fromkeys(kinds))
    if get_origin(annotation) is tuple:
        return f"{_type(get_args(annotation)[0])}, several"
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    names = {bool: "on or off", int: "a whole number", float: "a number", str: "text"}
    return names.get(annotation, "a path")


def _bounds(setting: Setting) -> Iterator[str]:
    for name, sign in _BOUNDS:
        if (bound := setting.bounds.get(name)) is not None:
            yield f"{sign} {bound:,}" if isinstance(bound, int) else f"{sign} {bound:g}"


def _default(setting: Setting) -> str:
    if setting.is_required():
        return "required"
    value = setting.default
    if value is None or value in ((), ""):
        return "no default"
    return f"default {'on' if value else 'off'}" if isinstance(value, bool) else f"default `{value}`"


def exit_codes() -> str:
    """The exit codes: those of the families of errors, and those of no family."""
    rows = [("0", "Done; of a query: it found anything.")]
    rows += [
        (f"{family.exit_code}", f"`{family.__name__}`: {plain((family.__doc__ or '').splitlines()[0])}")
        for family in sorted(errors.WordpipeError.__subclasses__(), key=lambda one: one.exit_code)
    ]
    rows.append((f"{errors.BUG}", "A bug of ours, with a traceback."))
    rows.append(("130, 143, 129, 141", "Ended by Ctrl-C, SIGTERM, SIGHUP, or a closed pipe."))
    return _table(["code", "meaning"], rows)


COLUMNS = {
    "doc_id": "the first 80 bits of the BLAKE3 hash of its text (a pair's other, an id-less record's fields), in hexadecimal",
    "sentence_id": "0, 1, … within the document; a document's sentences concatenate to its text",
    "title": "the document's title, or null",
    "text": "the text",
    "split": "`train`, `valid` or `test`",
    "source": "the file, or `python:package.module`, that it came from",
    "line": "the line or record, from 1, where it begins",
    "anchor": "the anchor of the section in its source, the page of a PDF (`page=12`), or null",
    "record_id": "your own id of the record (`--id-field`)",
    "ids": "token ids, without special tokens",
    "ids_b": "token ids of the second text; only where the texts are pairs",
    "word_ids": "the words, by their row in `words-*`",
    "word": "the word",
    "count": "how often it came",
    "pretoken": "a piece of text as it was cut before the tokenizer's algorithm",
    "vector": "the vector",
    "ngram": "a character n-gram, `<` and `>` for the ends of a word",
    "step": "the step; of word vectors the epoch",
    "tokens": "tokens seen so far",
    "loss": "nats per target; null where the backend gives no honest figure",
    "lr": "the learning rate",
    "seconds": "since the training began",
    "id": "the number of the row, 0, 1, …",
    "row": "the number of the row, 0, 1, …",
    "digest": "BLAKE3 of its content; empty for a stream",
    "rows": "how many rows it gave",
    "told": "counts and warnings, and by which addition (`--add`) it came, JSON",
    "document": "the `doc_id` of a removed document, if it has no id of its own; else null",
    "text_b": "the second text of a pair (`--text-b`, `--parallel`)",
    "label": "of a text its label (`--label-field`); of a cluster the words that tell it from the others",
    "tags": "a label for each word (`--tags-field`, or what a tagger says)",
    "spans": "marked spans of the text (`--spans-field`, or what a tagger finds, each with its probability)",
    "cluster": "0, 1, …, the largest first",
    "size": "how many texts are in it",
    "share": "of all texts",
    "see_also": "what a docstring points to, by name (`python:PACKAGE`)",
    "central": "the texts nearest to its centre, the nearest first",
    "central_rows": "their rows in the sentences",
    "similarity": "the cosine with the centre of its cluster",
    "labels": "those that the text has, the most probable first",
    "probabilities": "of every label, in the order of `labels` in the manifest's facts",
    "score": "the number that the model says",
    "answer": "the answer in the text; empty: there is none",
    "start": "its first character in the text; -1: there is none",
    "end": "the character after its last one",
    "probability": "of the answer",
    "no_answer": "the probability that there is none",
    "gold_label": "what the corpus says of the text, where it says anything: its `label`",
    "gold_tags": "likewise its `tags`",
    "gold_spans": "likewise its `spans`",
}
"""What every column holds, in a few words."""


def _predictions() -> Iterator[tuple[str, str, pa.Schema]]:
    """Whose predictions they are, what keeps their names apart, and their schema without what is sometimes there."""
    tasks = {
        "classifier": "a classifier",
        "score": "a classifier of scores",
        "tagger": "a tagger",
        "reader": "a reader",
    }
    corpus = pa.schema([*CORPUS, pa.field("label", pa.string()), pa.field("tags", TAGS), pa.field("spans", SPANS)])
    for task, whose in tasks.items():
        yield whose, "" if task == "classifier" else f" ({task})", predictions_schema(task, corpus)


TABLES: dict[str, dict[str, tuple[str, pa.Schema]]] = {
    "corpus": {
        "corpus-*.parquet": ("one row per sentence", CORPUS),
        "sources.parquet": ("what each source gave, for `--update`; a log", SOURCES),
        "removed.parquet": ("what was removed with `--remove`, if anything was; a log", REMOVED),
        "doubles.parquet": (
            "in which other sources documents stand, if any do; sentences and indexes have it too",
            DOUBLES,
        ),
    },
    "tokens": {
        "tokens-*.parquet": ("one row per sentence, or per pair", tokens_schema(pa.uint16(), pairs=True)),
        "words.parquet": ("one row per distinct word, the commonest first; the row number is the word id", VOCABULARY),
        "counts.parquet": ("what the tokenizer was trained from, the commonest first", COUNTS),
        "counts_b.parquet": ("what `tokenizer_b.json` was trained from, where there is one", COUNTS),
    },
    "words": {
        "words-*.parquet": ("one row per word, the commonest first", words_schema(1, "int8")),
        "outputs-*.parquet": (
            "the output vectors, in the order of the words; with `keep_outputs`",
            vectors_schema(1, "int8"),
        ),
        "ngrams-*.parquet": ("the character n-grams, with `--max-n`", ngrams_schema(1, "int8")),
        "steps.parquet": ("the log of the training", STEPS),
    },
    "model": {"steps.parquet": ("the log of the training", STEPS)},
    "sentences": {
        "sentences-*.parquet": ("one row per embedded text", sentences_schema(1, store="int8")),
    },
    "index": {
        "index-*.parquet": (
            "the rows of the sentences (or words), in the order of the index",
            sentences_schema(1, store="int8"),
        ),
    },
    "clusters": {
        "clusters-*.parquet": (
            "one row per cluster; `vector` is its centre, of length 1",
            clusters_schema(1),
        ),
        "members-*.parquet": (
            "one row per text, in the order of the sentences, with the columns of these that name it: `record_id` where "
            "records had ids, `doc_id`",
            members_schema([]),
        ),
    },
    "predictions": {
        f"predictions-*.parquet{behind}": (f"one row per record, in the order of the corpus; of {whose}", schema)
        for whose, behind, schema in _predictions()
    },
}
"""The tables of each kind of artifact: what a row is, and the schema that the program writes and checks."""

OTHER_FILES = {
    "tokens": {
        "tokenizer.json": "the tokenizer, as Hugging Face tokenizers reads it",
        "tokenizer_b.json": "that of the second texts; only where they have a vocabulary of their own",
    },
    "model": {
        "config.json, model.safetensors": "configuration and weights, in the layout of transformers where it has a class",
        "tokenizer.json and its companions": "the tokenizer",
        "target/": "the tokenizer of what an encoder-decoder writes, where it has a vocabulary of its own",
        "generation_config.json": "how `generate` of transformers writes what ours does; of an encoder-decoder",
        "optimiser.safetensors, training.json": "the state of the training, for `--extend`; with `keep_state`",
    },
    "sentences": {
        "encoder/": "what is needed to embed a query, or more texts, the same way",
        "rows_without_vector.npy": "the rows whose text has no vector, where there are any: their vectors are zeros",
    },
    "index": {
        "index.faiss": "the FAISS index without the vectors, which are in the rows; it numbers those that have a vector",
        "rows_without_vector.npy": "the rows that have none, where there are any",
        "encoder/": "what is needed to embed a query, or more texts, the same way",
        "lexical/": "the words of the rows, for BM25",
        "row_keys.npy": "a key of every row, by which an update finds it again",
        "held_out.npy": "queries by which recall is measured, with their true neighbours",
    },
}


_CARRY, _OWN = ("corpus", "sentences", "index"), (*OPTIONAL, "see_also")


def artifacts() -> str:
    """Every kind of artifact with its files and columns."""
    parts = []
    for kind, tables in TABLES.items():
        parts += [f"(artifact-{kind})=", f"## {kind}"]
        for name, (text, schema) in tables.items():
            rows = [(f"`{field.name}`", _arrow(field.type), COLUMNS[field.name]) for field in schema]
            parts += [f"`{name}`: {text}.", _table(["column", "type", "what it holds"], rows)]
        if kind in _CARRY:
            parts.append("Columns of ours that are there where the texts have them; then the fields of your records:")
            parts.append(_table(["column", "what it holds"], [(f"`{name}`", COLUMNS[name]) for name in _OWN]))
        others = [(f"`{name}`", text) for name, text in OTHER_FILES.get(kind, {}).items()]
        if others:
            parts.append(_table(["other files", "what they hold"], others))
    return "\n\n".join(parts)


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"list of {kind.value_type}, all of one length"
    if pa.types.is_fixed_size_binary(kind):
        return "bytes, or list of float, all of one length"
    return f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind)


def _table(head: list[str], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def presets() -> str:
    """Sizes of the presets, and what was measured of each; a dash where nothing was."""
    measured = {"mini": _mini_speed(), "base": _base_speed()}
    default = next(one for one in result("model_recipes")["lines"] if one["cell"] == "default")
    losses = {"mini": f"{default['loss']:.2f} after {result('model_recipes')['tokens'] / 1e6:.1f} million tokens"}
    rows = []
    for name, one in PRESETS.items():
        weights = one.n_layers * (4 * one.dim**2 + 3 * one.dim * one.ffn_dim)
        rows.append(
            (f"`{name}`", f"{one.n_layers}", f"{one.dim}", f"{one.n_heads}", f"{one.ffn_dim}", f"{one.max_len}",
             f"{one.batch_size}", f"{one.lr:g}", f"{MUON_LR * one.lr:g}", f"{weights / 1e6:.1f}M",
             measured.get(name, "–"), losses.get(name, "–"))
        )  # fmt: skip
    head = [
        "preset", "layers", "width", "heads", "feed-forward", "positions", "sequences a step", "lr, AdamW", "lr, Muon",
        "weights of the layers", "tokens/s", "held-out loss",
    ]  # fmt: skip
    text = (
        "Weights beside the table of embeddings, which has vocabulary × width more. A dash: not measured. The "
        "loss is that of `train mlm` on Wikipedia, where knowing how frequent each token is gives "
        f"{result('model_recipes')['text']['unigram_entropy']:.2f}. Sources: `benchmarks/results/model.json`, "
        "`model_gpu.json`, `model_recipes.json`."
    )
    return f"{_table(head, rows)}\n\n{text}"


def _mini_speed() -> str:
    """Of a preset on a CPU, if what was measured has its shape."""
    found, mini = result("model"), PRESETS["mini"]
    shape = found["shape"]
    assert (shape["dim"], shape["n_layers"], shape["seq_len"]) == (mini.dim, mini.n_layers, mini.max_len)
    by = {
        one["dtype"]: one["tokens_per_s"]
        for one in found["lines"]
        if (one["kind"], one["says"]) == ("mlm", "wordpipe, Muon")
    }
    return f"{by['float32']:,} on {found['machine']['cores']} cores, {by['bfloat16']:,} in bfloat16"


def _base_speed() -> str:
    found, base = result("model_gpu"), PRESETS["base"]
    one = next(line for line in found["lines"] if line.get("way") == "compiled, Muon")
    assert one["speed"].startswith(f"{base.n_layers}L/{base.dim}/{base.ffn_dim} ")
    positions = int(one["speed"].rpartition(" T")[2])
    return f"{one['tokens_per_s']:,} on one {found['machine']['name']} (`train clm`, {positions:,} positions, compiled)"


def word_rules() -> str:
    """The rules by which words of a question and words of a text are the same, each with its switch."""
    rows = []
    for rule in RULES:
        switch = f"`{rule.switch} {rule.name}`" if rule.switch == "--without-rules" else f"`{rule.switch}`"
        rows.append((f"`{rule.name}`", rule.says, rule.written, rule.asked, switch if rule.switch else "always on"))
    return _table(["rule", "what it does", "in a text", "found by", "switch"], rows)


def readme() -> str:
    """The README as a page of the book, without links to files that are in no book."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(r"\[([^]]+)\]\((?:CONTRIBUTING|CHANGELOG)\.md\)", r"\1", text)


def http_statuses() -> str:
    """The statuses of errors over HTTP, and why a reply has each."""
    return _table(["status", "why"], [(f"{status}", plain(why)) for status, why in STATUSES.items()])


REFERENCE: dict[str, Callable[..., str]] = {
    "commands": commands, "artifacts": artifacts, "exit-codes": exit_codes, "presets": presets,
    "word-rules": word_rules, "readme": readme, "http-statuses": http_statuses,
}  # fmt: skip
"""The parts of the reference, by the names that pages call them by."""
