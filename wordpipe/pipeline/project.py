"""The files of a new project: a config for searching one's own texts, and a Makefile that runs the config.

The config begins with what was measured best for that: a static encoder, trained on the text itself, and an index that is
asked by vectors and words together. Of records (JSON Lines, CSV, TSV, Parquet) the first ones are looked at, and the fields
that hold text, title and id are written down.
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from wordpipe.artifacts import atomic_file, is_artifact, refuse_inside_artifact
from wordpipe.corpus import (
    IDS,
    READERS,
    Field,
    Source,
    Sources,
    called,
    expand,
    first_values,
    has_titles,
    parquet_fields,
    seen_fields,
    text_and_title,
)
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ConfigError, InputError, StorageError
from wordpipe.pipeline.config import CONFIG
from wordpipe.pipeline.run import Pipeline
from wordpipe.stages import (
    Estimate,
    PathLike,
    Preview,
    Size,
    imported_kind,
    preview_of,
    public,
    size_of_sources,
    storage_errors,
    total,
)

WHY = (
    "a static encoder that is trained on your own text, and hybrid search (by vectors and by words)."
    " How well searches find on four test collections, as a mean nDCG@10 (0 to 100): 49.3 with hybrid search;"
    " 46.1 with words only (BM25);"
    " 48.3 with words only and a second search that uses the first answers"
)
"""What a new config begins with, and the figures for it (benchmarks/results/retrieval.json, left out)."""

WHY_IMPORTED = (
    "the text encoder that you brought, and hybrid search (by vectors and by words). `wordpipe index` says whether its "
    "vectors help for your text"
)
"""What a new config with an encoder from elsewhere begins with."""

_IMPORTED = """[stage.encoder]                  # a text encoder that others trained, read from your disk
command = "import"
inputs = [{folder}]
# query_prompt = "query: "       # for encoders that were taught with a text before each query and each text,
# text_prompt = "passage: "      # where the folder itself does not say so

"""
_ASSUMED = 10_000_000  # bytes of text, where there is none yet
_FEW_FILES = 20  # of text: what one file says of itself is then parted at its blank lines
_WITH_FIELDS = ("jsonl", "csv", "tsv", "parquet")  # formats whose fields are looked at
_FILES_COMPARED = 5  # of a folder of records
_SHORT_RECORD = 1500  # characters: a record is then one passage
_SHORT_ID = 40  # characters


@dataclass(frozen=True)
class Project:
    """The files that `init_project` wrote, and the settings that were chosen."""

    files: tuple[tuple[Path, bool], ...]  # each file, and whether it is new; those that were there are not touched
    settings: dict[str, Any]  # of the stage that reads the texts, as far as they were chosen
    others: tuple[str, ...]  # fields of records that nothing was chosen for
    fields_of: str | None  # the source whose fields were looked at, if it holds records
    id_like: (
        str | None
    )  # where no field is called like an id: one that is short and different in each of the first records
    estimate: Estimate | None  # of making all of it
    text_bytes: int  # of the sources that the estimate is for
    is_assumed: bool  # there is no text yet
    preview: Preview | None = None  # what would be read, and passed over, of the sources that were given


@public(name="init")
def init_project(
    folder: PathLike = ".", *, source: PathLike | Sequence[PathLike] | None = None, encoder: PathLike | None = None
) -> Project:
    """Write the config and the Makefile of a new project into a folder; files that exist are left alone.

    Args:
        folder: made where it is not there.
        source: the texts: a file or folder of texts or records, or several; the fields of the first records are looked at.
            Without one the config reads the folder `texts`, which is made.
        encoder: a folder with a text encoder that `import` takes; it stands in the place of one trained on the texts.

    Raises:
        ConfigError: the folder is a file, or there is no text encoder at `encoder`.
        InputError: there is nothing to read at `source`, or no field of its records holds text.

    Example:
        >>> [path.name for path, is_new in wordpipe.init("project").files]
        ['wordpipe.toml', 'Makefile']
    """
    home = Path(folder)
    if home.is_file():
        hint = f"wordpipe init --from {shlex.quote(str(home))}"
        raise ConfigError("a project needs a folder, but this is a file", where=home, hint=hint)
    refuse_inside_artifact(home / CONFIG)
    if encoder is not None and (is_artifact(Path(encoder)) or imported_kind(encoder) != "model"):
        expected = "a folder with modules.json or config.json, not an artifact"
        raise ConfigError("this is not a folder with a text encoder", where=Path(encoder), expected=expected)
    # look at the texts, and choose settings for them
    given = [] if source is None else [source] if isinstance(source, (str, os.PathLike)) else [*source]
    stage, others, fields_of, id_like = _look_at(list(map(str, given)), home) if given else _look_at_own(home)
    # write the files that are not there
    written: list[tuple[Path, bool]] = []
    with storage_errors():
        (home if given else home / "texts").mkdir(parents=True, exist_ok=True)
        for name in (CONFIG, "Makefile"):
            path = home / name
            is_new = not os.path.lexists(path)
            if is_new:
                text = files("wordpipe").joinpath("templates", name).read_text(encoding="utf-8")
                if name == CONFIG:
                    text = _filled_in(text, stage, id_like)
                    text = text if encoder is None else _with_encoder(text, os.path.relpath(encoder, home))
                with atomic_file(path) as file:
                    file.write(text.encode())
            written.append((path, is_new))
    # how long all of it will take
    estimate, text_bytes, is_assumed = None, 0, False
    if written[0][1]:
        estimate, text_bytes, is_assumed = _estimate(home / CONFIG, [*stage.get("inputs", ["texts"])])
    seen = None if not given else preview_of(expand(map(str, given)), IngestSettings())
    return Project(tuple(written), stage, others, fields_of, id_like, estimate, text_bytes, is_assumed, seen)


def _estimate(config: Path, inputs: Sequence[str]) -> tuple[Estimate, int, bool]:
    """Return the estimate of making a new project, the bytes of its text, and True if that size is assumed."""
    pipeline = Pipeline(config)
    names = [name if name.startswith("python:") else str(config.parent / name) for name in inputs]
    try:
        size, is_assumed = size_of_sources(_sources(names)), False
    except InputError:  # nothing there yet
        size, is_assumed = Size(form="txt", files=1, bytes=_ASSUMED), True
    stale = [state for state in pipeline.estimated(pipeline.all_missing(), sources=size) if state.estimate]
    return total([state.estimate for state in stale if state.estimate]), int(size.bytes), is_assumed


_Found = tuple[dict[str, Any], tuple[str, ...], str | None, str | None]


def _look_at_own(home: Path) -> _Found:
    """Return what `_look_at` finds for the texts in a new project's folder; nothing if they cannot be read yet."""
    try:
        return _look_at([str(home / "texts")], home)
    except (InputError, StorageError):
        return {}, (), None, None


def _look_at(names: Sequence[str], home: Path) -> _Found:
    """Choose the settings of `ingest` for the sources of a new project, with inputs and a unit; then fields of `Project`."""
    sources = _sources(names)
    named = [name if name.startswith("python:") else os.path.relpath(name, home) for name in names]
    records = _records_among(sources)
    # a folder of many kinds: the fields of each file are recognised when it is read, and all texts become passages
    if records is None and any(READERS[one.format].is_structured or _holds_records(one) for one in sources):
        return {"inputs": named, "unit": "window"}, (), None, None
    # plain texts: a few long files have a document in each block
    if records is None:
        few = len(sources) < _FEW_FILES and all(one.kind == "file" for one in sources)
        if not few or any(one.format not in ("txt", "python") for one in sources):
            return {"inputs": named}, (), None, None
        by_block: dict[str, Any] = {"inputs": named, "documents": "block"}
        if all(one.format == "txt" and one.path is not None and has_titles(one.path) for one in sources):
            by_block["first_line_title"] = True
        return by_block, (), None, None
    # records: the fields of text, title and id
    fields = _fields(records)
    text, title = text_and_title(fields)
    if text is None:
        got = ", ".join(field.name for field in fields[:20]) or "no fields"
        raise InputError("no field of the first records contains text", where=records.name, got=got)
    rest = [field for field in fields if field != text]
    record_id = called(IDS, [field for field in rest if field.distinct and field.type in ("str", "int")])
    chosen: dict[str, Any] = {"inputs": named, "text_field": text.name}
    if title is not None:
        chosen["title_field"] = title.name
    if record_id is not None:
        chosen["id_field"] = record_id.name
    # the other fields: in files of text each number needs its type
    left = [field for field in rest if field.name not in chosen.values()]
    others: tuple[str, ...] = ()  # all are carried with their types, but numbers of text files have none
    if records.format in ("csv", "tsv") and any(field.type not in ("str", "other") for field in left):
        chosen["metadata"] = [entry for field in left if (entry := _metadata(field)) is not None]
        named_there = {entry.rpartition(":")[0] or entry for entry in chosen["metadata"]}
        others = tuple(field.name for field in left if field.name not in named_there)
    # the unit of search, and a field that may be the id
    chosen["unit"] = "document" if text.length <= _SHORT_RECORD else "window"
    able = [*left, *([title] if title is not None else [])]  # of many tables the name is what tells rows apart
    keys = [one.name for one in able if one.distinct and one.is_full and one.length <= _SHORT_ID and _metadata(one)]
    return chosen, others, records.name, keys[0] if keys and record_id is None else None


def _sources(names: Sequence[str]) -> Sources:
    """Return the sources of a new project.

    Raises:
        InputError: nothing is there, or files without a byte alone.
    """
    sources = expand(names)
    if all(one.kind == "file" and not one.bytes for one in sources):
        one = sources[0].path if len(sources) == 1 else None
        what = "the file is empty" if one else f"all of these {len(sources):,} files are empty"
        raise InputError(what, where=one or ", ".join(names), hint="give files that contain text")
    return sources


def _holds_records(source: Source) -> bool:
    """True if a new project's source has records with named fields, as CSV has."""
    return source.kind == "file" and READERS[source.format].fields == "named"


def _is_seen(source: Source) -> bool:
    """True if the fields of a new project's source can be looked at: a compressed Parquet file is not unpacked for that."""
    return source.format != "parquet" or source.compression == "none"


def _records_among(sources: Sequence[Source]) -> Source | None:
    """Return the source of records by which a new project's config names fields: a named file, or the first of a folder.

    None where there are none, and for a folder in which other files are, too, or files with another field of text: what is
    named in a config is named for all of them.
    """
    able = [one for one in sources if _holds_records(one) and one.format in _WITH_FIELDS and _is_seen(one)]
    named = [one for one in able if not one.is_found]
    if named or not able:
        return named[0] if named else None
    if any(one.is_found and one.format != able[0].format for one in sources):
        return None
    texts = [text_and_title(_fields(one))[0] for one in able[:_FILES_COMPARED]] if len(able) > 1 else []
    return able[0] if len({field.name if field else None for field in texts}) <= 1 else None


def _metadata(field: Field) -> str | None:
    """Return the entry of `metadata` in a new project's config for a field of the records; None: not kept.

    None if the field cannot be kept.
    """
    if field.type == "other" or "," in field.name:  # commas part the entries
        return None
    entry = field.name if field.type == "str" else f"{field.name}:{field.type}"
    try:
        entry.encode()  # a lone surrogate is no Unicode
        IngestSettings.make({"metadata": (entry,)})
    except (ConfigError, UnicodeEncodeError):
        return None
    return entry


def _filled_in(text: str, chosen: Mapping[str, Any], id_like: str | None) -> str:
    """Return the template of wordpipe.toml with the chosen settings in place of its lines."""
    if not chosen:
        return text
    begin, end = text.index("inputs ="), text.index("\n\n[stage.words-index]")
    keys = [f"{name} = {_toml(chosen[name])}" for name in chosen if name not in ("unit",) and chosen[name] != []]
    if "text_field" in chosen and "id_field" not in chosen:
        why = (
            "but this field has a different value in each of the first records"
            if id_like
            else "so replace NAME by the name of a field that contains ids"
        )
        keys.append(
            f"# id_field = {_toml(id_like or 'NAME')}  # no field is called id, {why}; search results show the id"
        )
    text = text[:begin] + "\n".join(keys) + text[end:]
    if "text_field" in chosen:  # records: many documents, each of which says one thing
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("false_negatives"))
        before = 'unit = "window"                  # passages of 128 words; or "sentence", "document"'
        after = {"document": 'unit = "document"                # a record is one passage; or "sentence", "window"'}
        text = text.replace(before, after.get(chosen["unit"], before))
    return text


def _with_encoder(text: str, folder: str) -> str:
    """Return the config with an encoder from elsewhere in the place of the trained one, whose tokens become optional."""
    begin, trained, end = (text.index(f"[stage.{name}]") for name in ("tokens", "encoder", "sentences"))
    tokens = "".join(f"# {line}\n" for line in text[begin:trained].rstrip().split("\n"))
    tokens = tokens.replace("# from here on: vectors; when they are made, `wordpipe query run` searches by them too",
                            "# for words and models of your own")  # fmt: skip
    rest = text[end:].replace("# [stage.words] ", f"{tokens}\n# [stage.words] ", 1)
    return text[:begin] + _IMPORTED.format(folder=_toml(folder)) + rest


def _toml(value: Any) -> str:
    """Return a string or a list of strings as TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _fields(source: Source) -> list[Field]:
    """Return the fields of the first records of a new project's source, in their order.

    Raises:
        InputError: not records.
    """
    if source.format == "parquet":
        return _parquet_fields(source)
    return seen_fields(first_values(source), from_text=source.format != "jsonl")


def _parquet_fields(source: Source) -> list[Field]:
    """Return the fields of a new project's Parquet file from its schema; no value is decoded."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with source.open() as file:
        try:
            parquet = pq.ParquetFile(file)
            schema, metadata = parquet.schema_arrow, parquet.metadata
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"not Parquet: {str(error)[:200]}", where=source.name) from None
    return parquet_fields(schema, metadata)
