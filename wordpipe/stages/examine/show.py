"""`wordpipe show` and `wordpipe verify`: what an artifact holds, and whether it is whole.

Shown are the manifest and the first rows; of a tokenizer a text as it cuts it; of a model (`--params`) its parts, the shapes
of their weights, and how many numbers they are.
"""

import math
import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wordpipe.artifacts import (
    TARGET,
    TOKENIZER,
    TOKENIZER_B,
    Artifact,
    StoppedRun,
    is_artifact,
    is_broken_artifact,
    manifest_at,
    open_part,
    open_regular_file,
    parse_json_object,
    read_batches,
    read_schema,
    row_shower,
    stopped_runs,
    type_name,
    visible_columns,
)
from wordpipe.errors import ArtifactError
from wordpipe.stages.job import PathLike
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import refuse_headless
from wordpipe.storage import as_path, url_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NUMBERS_SHOWN = 8  # of a vector or list
_MAX_FILE = 1 << 40  # bytes
_INDEX = "model.safetensors.index.json"
_BLOCK = re.compile(r"(?<=\.)\d+(?=\.)")


@public()
def show(path: PathLike, *, rows: int = 0, params: bool = False) -> dict[str, Any]:
    """Show what an artifact holds: its manifest, the columns of its main table, and the first rows, as a query shows rows.

    Args:
        path: an artifact.
        rows: number of first rows to show; long vectors and lists are shortened.
        params: show the parts of a model instead; the model may be a folder of transformers.

    Returns:
        path, manifest, columns (name, as a condition has it, to type; none where the table is damaged) and rows; with
        `params` path, architecture, class, parameters (how many) and parts, each with the shapes of its weights. Of a
        training that was stopped, or goes on, the manifest is None, and `stopped` says where it stands.

    Raises:
        ArtifactError: not an artifact.

    Example:
        >>> found = wordpipe.show("run/words", rows=2)
        >>> found["manifest"]["kind"], [row["word"] for row in found["rows"]]
        ('words', ['the', 'a'])
    """
    if params:
        return parameters(path)
    # A training that was stopped, or goes on, has no manifest yet.
    if url_of(path) is None and not is_artifact(Path(path)) and (stopped := stopped_runs(Path(path))):
        stands = _where_it_stands(stopped[-1])
        return {"path": str(path), "manifest": None, "columns": {}, "rows": [], "stopped": stands}
    # The columns of the main table, and its first rows.
    with Artifact(path, verify=False) as artifact:
        found: list[dict[str, Any]] = []
        columns: dict[str, str] = {}
        has_table = any(name.startswith(f"{artifact.kind}-") for name in artifact.names())
        if has_table:
            with suppress(ArtifactError):  # of a damaged one the manifest can be seen all the same
                schema = read_schema(artifact, artifact.kind)
                stored = visible_columns(schema)
                if artifact.kind == "predictions":  # they have no fields of the user's: each column by its own name
                    stored = {name: name for name in schema.names}
                columns = {name: type_name(schema.field(one)) for name, one in stored.items()}
        if rows and has_table:
            shown = dict if artifact.kind == "predictions" else row_shower(read_schema(artifact, artifact.kind))
            for batch in read_batches(artifact, artifact.kind):
                found += [_shortened(shown(row)) for row in batch.slice(0, rows - len(found)).to_pylist()]
                if len(found) >= rows:
                    break
        manifest = artifact.manifest.model_dump(mode="json")
        return {"path": str(path), "manifest": manifest, "columns": columns, "rows": found}


def _where_it_stands(run: StoppedRun) -> dict[str, Any]:
    """Return for `show` the state of a training that is not finished: its last checkpoint, and figures."""
    from wordpipe.stages.examine.plot import unfinished_run

    known = unfinished_run(run.state, run.output.name) or {}
    figures = {name: known.get(name) for name in ("loss", "valid_loss", "tokens", "seconds")}
    return {
        "output": str(run.output), "command": run.command, "at": run.step, "of": run.steps, "stands_at": run.stands_at,
        "folder": str(run.state), **figures,
    }  # fmt: skip


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row to show, its long vectors and lists cut."""
    shown = dict(row)
    for name, value in row.items():
        if isinstance(value, list) and len(value) > _NUMBERS_SHOWN:
            shown[name] = [*value[:_NUMBERS_SHOWN], f"… {len(value)} in all"]
    return shown


def segment(path: PathLike, text: str) -> dict[str, Any]:
    """Show a text cut into tokens; special tokens are not added.

    Args:
        path: an artifact with a tokenizer: tokens, words or model.
        text: the text.

    Returns:
        path, text, tokens (as the vocabulary spells them), ids, offsets (pairs of positions in the text, in characters),
        pieces (as a reader would write them, see `readable_tokens`), special and unknown (one bool per token); where second
        texts have a tokenizer of their own, `target` has the same of it, but for the path.

    Raises:
        ArtifactError: no artifact, or none with a tokenizer.
    """
    from wordpipe.tokens import open_tokenizer

    text = text.encode("utf-8", "replace").decode()
    with Artifact(path, verify=False) as artifact:
        names = [name for name in (TOKENIZER, TOKENIZER_B, TARGET + TOKENIZER) if name in artifact.names()]
        if TOKENIZER not in names:
            article = "an" if artifact.kind == "index" else "a"
            raise ArtifactError(
                f"{article} {artifact.kind} artifact has no tokenizer", where=str(path), expected="tokens, words or model",
                hint="give a tokens artifact",
            )  # fmt: skip
        found = []
        for name in names:
            with artifact.damage_of(name):
                tokenizer = open_tokenizer(artifact.read(name), where=str(path))
            found.append(_cut_into_tokens(tokenizer, text, name))
    return {"path": str(path), **found[0], **({"target": found[1]} if len(found) > 1 else {})}


def _cut_into_tokens(tokenizer: "Tokenizer", text: str, name: str) -> dict[str, Any]:
    """Return for `show` a text cut by the tokenizer of a file."""
    from wordpipe.tokens import library_errors, readable_tokens, unknown_token, vocabulary_of

    with library_errors("the tokenizer cannot encode the text", name):
        encoding = tokenizer.encode(text, add_special_tokens=False)
    special, unknown = vocabulary_of(tokenizer).special, unknown_token(tokenizer)
    return {
        "text": text,
        "tokens": encoding.tokens,
        "ids": encoding.ids,
        "offsets": [list(pair) for pair in encoding.offsets],
        "pieces": readable_tokens(tokenizer, encoding, text),
        "special": [bool(special[number]) and number != unknown for number in encoding.ids],
        "unknown": [number == unknown for number in encoding.ids],
    }


@public()
def verify(path: PathLike) -> dict[str, Any]:
    """Verify an artifact: read every byte and compare it with its hash, and every table with its row count.

    Args:
        path: an artifact.

    Returns:
        path, ok, kind, digest, files, bytes and warnings (inputs that have changed since).

    Raises:
        ArtifactError: the first thing that is wrong.

    Example:
        >>> wordpipe.verify("run/index")["ok"]
        True
    """
    path = Path(path)
    with Artifact(path, verify=False) as artifact:
        artifact.check_hashes()
        for output in artifact.manifest.outputs:
            if output.rows is not None:
                with open_part(artifact, output.path) as part:
                    if part.metadata.num_rows != output.rows:
                        what = "the table and the manifest have different numbers of rows"
                        raise ArtifactError(what, where=path / output.path)
        outputs = artifact.manifest.outputs
        size = {"files": len(outputs) + 1, "bytes": sum(output.bytes for output in outputs)}
        about = {"path": str(path), "ok": True, "kind": artifact.kind, "digest": artifact.digest}
        return about | size | {"warnings": _changed_inputs(artifact)}


def _changed_inputs(artifact: Artifact) -> list[str]:
    """Return for `verify` a warning for each input of an artifact that has changed or is damaged."""
    warnings = []
    for entry in artifact.manifest.inputs:
        path = as_path(artifact.path.parent / (entry.path or ""))
        if url_of(path) is not None and url_of(artifact.path) is None:  # what lies here is checked without a network
            continue
        if (
            entry.kind in ("source", "file")
            or entry.path is None
            or not (is_artifact(path) or is_broken_artifact(path))
        ):
            continue
        try:
            found = manifest_at(path).digest
        except ArtifactError as error:
            warnings.append(f"the input {path} is damaged: {error.what}")
            continue
        if found != entry.digest:
            warnings.append(f"the input {path} has changed: its digest was {entry.digest[:16]} and is now {found[:16]}")
    return warnings


def parameters(path: PathLike) -> dict[str, Any]:
    """Show the parts of a model; of the weights only names, shapes and types are read.

    Args:
        path: a model artifact, or a folder of transformers.

    Returns:
        path, architecture, class (of transformers, None for our own format), parameters (their number as they are stored:
        tied ones once, with the two rows of BART's tables that no position uses) and parts: for each part its name, its
        parameters and its weights: name as it is stored, with # for the numbers of several blocks, shape, dtype, times (how
        many blocks have it) and parameters of all of them.

    Raises:
        ArtifactError: no model, or one that our blocks do not compute.
    """
    folder = Path(path)
    if is_artifact(folder) or not folder.is_dir():
        with Artifact(folder, ["model"], verify=False) as artifact:
            return {"path": str(path), **_parameters(artifact.names(), artifact.open, str(folder))}
    refuse_headless(folder)
    names = [one.name for one in folder.iterdir()]

    def open_file(name: str) -> BinaryIO:
        return open_regular_file(folder / name, limit=_MAX_FILE, what="a file of a model")

    return {"path": str(path), **_parameters(names, open_file, str(folder))}


def _parameters(
    names: Collection[str], open_file: Callable[[str], AbstractContextManager[BinaryIO]], where: str
) -> dict[str, Any]:
    """Return for `show` the parts of a model by the headers of its files of weights."""
    from wordpipe.model import CONFIG, PARTS, WEIGHTS, StoredWeight, parts_of, read_header

    def read_json(name: str) -> dict[str, Any]:
        with open_file(name) as file:
            return parse_json_object(file.read(), name)

    # The names, shapes and types of all weights, which may lie in several files.
    files = [WEIGHTS]
    if WEIGHTS not in names and _INDEX in names:
        places = read_json(_INDEX).get("weight_map")
        files = sorted({str(file) for file in places.values()}) if isinstance(places, dict) else []
    if missing := [file for file in files or [WEIGHTS] if file not in names]:
        raise ArtifactError("the model has no file of weights", where=where, expected=missing[0])
    weights: dict[str, StoredWeight] = {}
    for name in files:
        with open_file(name) as file:
            weights |= read_header(file, f"{where}/{name}")
    # The weights of each part; those of several blocks with one shape are one entry.
    architecture, class_name, part_of = parts_of(list(weights), read_json(CONFIG) if CONFIG in names else None)
    rows: dict[tuple[str, str, StoredWeight], list[str]] = {}
    for name, weight in weights.items():
        rows.setdefault((part_of[name], _BLOCK.sub("#", name, count=1), weight), []).append(name)
    parts: list[dict[str, Any]] = []
    for part in PARTS:
        own: list[dict[str, Any]] = [
            {"name": name if len(alike) > 1 else alike[0], "shape": list(weight.shape), "dtype": weight.dtype,
             "times": len(alike), "parameters": math.prod(weight.shape) * len(alike)}
            for (of, name, weight), alike in rows.items() if of == part
        ]  # fmt: skip
        if own:
            parts.append({"part": part, "parameters": sum(one["parameters"] for one in own), "weights": own})
    return {
        "architecture": architecture,
        "class": class_name,
        "parameters": sum(one["parameters"] for one in parts if one["part"] != "not counted"),
        "parts": parts,
    }
