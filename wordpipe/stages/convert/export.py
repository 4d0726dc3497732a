"""`wordpipe export`: words, vectors of texts, encoders and tokenizers → the formats of other programs."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import safetensors.numpy

from wordpipe.artifacts import (
    ENCODER,
    TOKENIZER,
    WEIGHTS_FILE,
    Artifact,
    atomic_file,
    atomic_folder,
    read_batches,
    row_count,
)
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    CONFIG,
    WEIGHTS,
    config_from_hf,
    is_of_head,
    transformers_class,
    why_no_class,
    without_tensors,
)
from wordpipe.removed import why_no_value
from wordpipe.sentences import (
    ENCODER_FILE,
    TRANSFORM_FILE,
    WORDS_FILE,
    Transform,
    sentence_transformers_files,
    sif_weights,
    static_files,
    word_tokenizer,
)
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.tokens import FOLDERS as TOKENIZER_FOLDERS
from wordpipe.tokens import FORMATS, ExportedTokenizer, export_tokenizer, open_tokenizer
from wordpipe.words import FILES, FOLDERS, WordTable, WordVectors, check_words, vector_files

WORD_FORMATS = (*FILES, *FOLDERS)
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TOKENIZER_FILES = (TOKENIZER, _TOKENIZER_CONFIG, "special_tokens_map.json")
_OWN_FILES = {"transformer": (CONFIG, WEIGHTS, *_TOKENIZER_FILES), "static": (WEIGHTS, TOKENIZER)}


def export(artifact: PathLike, form: str, output: PathLike) -> dict[str, Any]:
    """Write what an artifact holds in another program's format, whole or not at all.

    Args:
        artifact: words; sentences or an index, of which the vectors or the encoder are written; a model, of which the
            encoder or the tokenizer is; or tokens, of which the tokenizer is.
        form: word2vec-text, word2vec-binary, glove, numpy, npy or projector for words; npy for sentences and indexes;
            sentence-transformers for an encoder; tokenizer-json, vocab-txt, vocab-merges, transformers or tiktoken for a
            tokenizer.
        output: the file (or, for numpy, projector, an encoder, vocab-merges and transformers, the folder) to write; an older
            one is replaced in one step.

    Returns:
        path and bytes; words and dim, vectors and dim, files and notes of an encoder, or tokens and notes (what the format
        leaves out).

    Raises:
        ConfigError: no such format, one for other artifacts, or one that cannot hold this tokenizer.
        InputError: the format cannot hold one of the words.
        WordpipeError: see wordpipe/errors.py.
    """
    if form == "sentence-transformers":
        return _export_encoder(artifact, Path(output))
    if form in (*WORD_FORMATS, "npy"):
        return _export_table(artifact, form, Path(output))
    if said := why_no_value("export", "to", form):
        raise ConfigError(said)
    if form not in FORMATS:
        known = ", ".join((*WORD_FORMATS, "npy", "sentence-transformers", *FORMATS))
        raise ConfigError("unknown format", where="form", got=form, expected=known)
    return _export_tokenizer(artifact, form, Path(output))


def _export_table(path: PathLike, form: str, output: Path) -> dict[str, Any]:
    """The words of a table with their vectors; npy is the vectors alone, one row each, of sentences or an index too.

    A few thousand rows are in memory at a time.
    """
    if form not in FOLDERS:
        _refuse_folder(output)
    with storage_errors(), Artifact(path, ["sentences", "words", "index"]) as artifact:
        kind, facts, size = artifact.kind, artifact.manifest.facts, row_count(artifact, artifact.kind)
        if kind != "words" and form != "npy":
            raise ConfigError(f"not a format of {kind}", where="form", got=form, expected="npy")
        counted = kind == "words" and facts.get("counts") != "unknown"
        table = WordTable(size, int(facts["dim"]), counted, partial(read_batches, artifact, kind))
        if form == "npy":
            about = {"path": str(output), "vectors": size, "dim": table.dim}
            return about | _file(output, vector_files(table, "numpy")["vectors.npy"])
        check_words(table, form)
        about, files = {"path": str(output), "words": size, "dim": table.dim}, vector_files(table, form)
        return about | (_file(output, files[form]) if form in FILES else _folder(output, files, FOLDERS[form]))


@dataclass(frozen=True)
class EncoderFiles:
    """An encoder as its artifact has it.

    Attributes:
        kind: transformer or static.
        files: its own files, by the names they have in a folder of transformers.
        dim: width of its vectors before the transform.
        pooling: mean, weighted, cls, max, ….
        max_len: of a transformer: its longest sequence, special tokens included.
        weights: what each token id weighs in the mean, (V,) float32, or None.
        transform: of the space.
        notes: what the files leave out, and what other programs do otherwise.
    """

    kind: Literal["transformer", "static"]
    files: Mapping[str, bytes]
    dim: int
    pooling: str
    max_len: int | None
    weights: npt.NDArray[np.float32] | None
    transform: Transform
    notes: Sequence[str]


def encoder_files(artifact: Artifact) -> EncoderFiles:
    """The encoder of a model, of sentences, or of an index over sentences; word vectors become a static encoder.

    Raises:
        ConfigError: there is none, or its words are tokens or phrases.
    """
    prefix, facts = "" if artifact.kind == "model" else ENCODER, artifact.manifest.facts
    names = {name.removeprefix(prefix) for name in artifact.names(prefix)}
    if artifact.kind == "model":
        about = {"kind": facts.get("encoder", "transformer"), "dim": int(facts["dim"]), "max_len": facts.get("max_len")}
        about["pooling"] = facts.get("pooling", "mean")
    elif ENCODER_FILE in names:
        about = json.loads(artifact.read(ENCODER + ENCODER_FILE))
    else:
        raise ConfigError(
            "an index over words has no encoder of texts", where=artifact.path, hint="embed a corpus first"
        )
    transform = Transform.none(about["dim"])
    if TRANSFORM_FILE in names:
        where = str(artifact.path / prefix / TRANSFORM_FILE)
        transform = Transform.from_bytes(artifact.read(prefix + TRANSFORM_FILE), about["transform"], where=where)
    dim = len(transform.mean)  # encoder.json may have the one after the transform
    if about["kind"] == "words":
        table, notes = _static_table(artifact, about)
        return EncoderFiles("static", table, dim, about["pooling"], None, None, transform, notes)
    files = {name: artifact.read(prefix + name) for name in _OWN_FILES[about["kind"]] if name in names}
    weighted = about["pooling"] == "weighted" and WEIGHTS_FILE in names
    weights_V = safetensors.numpy.load(artifact.read(prefix + WEIGHTS_FILE))["weights"] if weighted else None
    max_len = about.get("max_len")
    cut = f"a text of more than {max_len} tokens is cut there; wordpipe reads it in windows"
    notes = [cut] if about["kind"] == "transformer" else []
    return EncoderFiles(about["kind"], files, dim, about["pooling"], max_len, weights_V, transform, notes)


def _static_table(artifact: Artifact, about: Mapping[str, Any]) -> tuple[dict[str, bytes], list[str]]:
    """tokenizer.json and model.safetensors of a words encoder with this encoder.json, and what they leave out.

    Each word's weight (of sif) is in the length of its row; a last row of zeros is for what is unknown.

    Raises:
        ConfigError: the words are tokens or phrases, which a tokenizer of words does not find.
    """
    table = WordVectors.from_batches(pq.read_table(io.BytesIO(artifact.read(ENCODER + WORDS_FILE))).to_batches())
    identity = about["identity"]
    if identity.get("unit") == "token" or len(table.phrases):
        what = "tokens" if identity.get("unit") == "token" else "phrases"
        hint = "wordpipe train contrastive TOKENS --encoder static makes an encoder of its own"
        raise ConfigError(f"word vectors of {what} cannot be exported", where=artifact.path, hint=hint)
    notes = ["words of scripts without spaces, which wordpipe cuts, are unknown"] if identity.get("tokenizer") else []
    if "ngrams" in about:
        notes.append("words that are not in the table are left out; wordpipe guesses their vectors from their letters")
    rows_VD = np.zeros((len(table) + 1, table.dim), np.float32)
    rows_VD[:-1] = table.vectors
    if about["pooling"] == "sif":
        rows_VD[:-1] *= sif_weights(table.counts, about["settings"]["sif_a"])[:, None]
    return static_files(rows_VD, word_tokenizer(list(table.words), keep_case=bool(identity["keep_case"]))), notes


def _export_encoder(path: PathLike, output: Path) -> dict[str, Any]:
    with storage_errors(), Artifact(path, ["model", "sentences", "index"]) as artifact:
        encoder = encoder_files(artifact)
        own, tokens = encoder.files, list[str]()
        if encoder.kind == "transformer":
            own = _files_of_transformer(encoder, where=str(path))
        if encoder.weights is not None:  # ids that pad the table have names of their own
            tokenizer = open_tokenizer(own[TOKENIZER], where=TOKENIZER)
            tokens = [tokenizer.id_to_token(row) or f"[unused{row}]" for row in range(len(encoder.weights))]
        beside = sentence_transformers_files(
            encoder.kind,
            dim=encoder.dim,
            pooling=encoder.pooling,
            max_len=encoder.max_len,
            weights_V=encoder.weights,
            tokens=tokens,
            transform=encoder.transform,
        )
        written = _folder(output, {name: [content] for name, content in {**own, **beside}.items()})
        return {
            "path": str(output),
            "encoder": encoder.kind,
            "pooling": encoder.pooling,
            "transform": encoder.transform.kind,
            "dim": encoder.transform.dim,
            "notes": encoder.notes,
            **written,
        }


def _files_of_transformer(encoder: EncoderFiles, *, where: str) -> dict[str, bytes]:
    """Its own files, as AutoModel and AutoTokenizer read them.

    Raises:
        ConfigError: transformers has no class for the model.
    """
    try:
        family, config = config_from_hf(json.loads(encoder.files[CONFIG]))
    except ValueError as error:
        raise ArtifactError("not JSON", where=CONFIG, got=error) from None
    if transformers_class(config) is None:
        raise ConfigError(why_no_class(config), where=where, hint="export its vectors of texts: --to npy")
    # a decoder pads on the left, for going on from the last token; but here positions are counted from the first column
    settings = {**json.loads(encoder.files[_TOKENIZER_CONFIG]), "padding_side": "right"}
    return {
        **encoder.files,
        # AutoModel has no place for the head's tensors, and warns of each
        WEIGHTS: without_tensors(encoder.files[WEIGHTS], is_of_head(family, config)),
        _TOKENIZER_CONFIG: f"{json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode(),
    }


def _export_tokenizer(path: PathLike, form: str, output: Path) -> dict[str, Any]:
    with storage_errors(), Artifact(path, ["tokens", "model"]) as artifact:
        data = artifact.read(TOKENIZER)
        made = export_tokenizer(data, form, output.name, where=str(artifact.path / TOKENIZER))
        if form == "transformers" and artifact.kind == "model":  # it has these files, with the model's own settings
            made = ExportedTokenizer({name: artifact.read(name) for name in _TOKENIZER_FILES}, made.tokens)
        if form in TOKENIZER_FOLDERS:
            _folder(output, {name: [content] for name, content in made.files.items()})
        else:
            _refuse_folder(output)
            for name, content in made.files.items():
                _file(output.with_name(name), [content])
        size = sum(len(content) for content in made.files.values())
        files = sorted(made.files)
        return {"path": str(output), "tokens": made.tokens, "bytes": size, "files": files, "notes": made.notes}


def _file(path: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    with atomic_file(path) as file:
        for chunk in chunks:
            file.write(chunk)
        return {"bytes": file.size}


def _folder(path: Path, files: Mapping[str, Iterable[bytes]], may_replace: Iterable[str] = ()) -> dict[str, Any]:
    sizes = atomic_folder(path, files, may_replace=frozenset(may_replace))
    return {"bytes": sum(sizes.values()), "files": sorted(sizes)}


def _refuse_folder(output: Path) -> None:
    if output.is_dir() or str(output) == "-":
        raise ConfigError("this format is a file", where="output", got=output, hint="name a file with -o")
