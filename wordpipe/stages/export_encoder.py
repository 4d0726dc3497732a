"""Encoders of artifacts as folders for sentence-transformers: files, pooling, transform."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import safetensors.numpy

from wordpipe.artifacts import ENCODER, TOKENIZER, WEIGHTS_FILE, Artifact, parse_json_object
from wordpipe.encoders import (
    ENCODER_FILE,
    LAYERS_FILE,
    TRANSFORM_FILE,
    WORDS_FILE,
    Layers,
    Transform,
    load_facts,
    sentence_transformers_files,
    sif_weights,
    static_files,
    word_tokenizer,
)
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    CONFIG,
    WEIGHTS,
    Family,
    ModelConfig,
    config_from_hf,
    is_of_head,
    transformers_class,
    why_no_class,
    without_tensors,
)
from wordpipe.words import WordVectors

TOKENIZER_CONFIG = "tokenizer_config.json"
_OWN = {
    "transformer": (CONFIG, WEIGHTS, TOKENIZER, TOKENIZER_CONFIG, "special_tokens_map.json"),
    "static": (WEIGHTS, TOKENIZER),
}


@dataclass(frozen=True)
class EncoderFiles:
    """The files and facts of an artifact's encoder.

    Attributes:
        kind: transformer or static.
        files: its own files, by the names they have in a folder of transformers.
        dim: width of its vectors before the transform.
        pooling: mean, weighted, cls, max, ….
        max_len: of a transformer: its longest sequence, special tokens included.
        weights: what each token id weighs in the mean, (V,) float32, or None.
        transform: of the space.
        notes: what the files leave out.
        layers: between pooling and unit length.
        prompts: of texts and queries.
    """

    kind: Literal["transformer", "static"]
    files: Mapping[str, bytes]
    dim: int
    pooling: str
    max_len: int | None
    weights: npt.NDArray[np.float32] | None
    transform: Transform
    notes: Sequence[str] = ()
    layers: Layers = field(default_factory=Layers)
    prompts: Mapping[str, str] = field(default_factory=dict)


def encoder_files(artifact: Artifact) -> EncoderFiles:
    """Export the encoder of a model, of sentences, or of an index; word vectors become a static encoder.

    Raises:
        ConfigError: there is none, or its words are tokens or phrases.
    """
    # What the artifact says of its encoder.
    prefix = "" if artifact.kind == "model" else ENCODER
    names = {name.removeprefix(prefix) for name in artifact.names(prefix)}
    if artifact.kind == "model":
        about: dict[str, Any] = {
            "kind": artifact.fact("encoder", str, "transformer"), "dim": artifact.fact("dim", int, least=1),
            "max_len": artifact.manifest.facts.get("max_len"), "pooling": artifact.fact("pooling", str, "mean"),
            "prompts": {role: artifact.fact(f"{role}_prompt", str, "") for role in ("text", "query")},
        }  # fmt: skip
    elif ENCODER_FILE in names:
        about = load_facts(artifact.read(ENCODER + ENCODER_FILE))
    else:
        raise ConfigError(
            "an index over words contains no text encoder", where=artifact.path, hint="embed a corpus first"
        )
    # A later version may know other kinds.
    if about["kind"] not in ("words", *_OWN):
        raise ArtifactError(
            "unknown kind of encoder", where=artifact.path, got=about["kind"][:60], expected=" or ".join(_OWN)
        )
    # The transform of its space.
    transform = Transform.none(about["dim"])
    if TRANSFORM_FILE in names:
        where = str(artifact.path / prefix / TRANSFORM_FILE)
        transform = Transform.from_bytes(artifact.read(prefix + TRANSFORM_FILE), about["transform"], where=where)
    dim = len(transform.mean)  # encoder.json may have the one after the transform
    if about["kind"] == "words":
        table, notes = _static_table(artifact, about)
        return EncoderFiles("static", table, dim, about["pooling"], None, None, transform, notes)
    # Its own files, and the weights of tokens.
    files = {name: artifact.read(prefix + name) for name in _OWN[about["kind"]] if name in names}
    weighted = about["pooling"] == "weighted" and WEIGHTS_FILE in names
    with artifact.damage_of(prefix + WEIGHTS_FILE):
        weights_V = safetensors.numpy.load(artifact.read(prefix + WEIGHTS_FILE))["weights"] if weighted else None
    layers = Layers.from_bytes(artifact.read(prefix + LAYERS_FILE)) if LAYERS_FILE in names else Layers()
    return EncoderFiles(
        about["kind"], files, dim, about["pooling"], about.get("max_len"), weights_V, transform, layers=layers,
        prompts=about.get("prompts") or {},
    )  # fmt: skip


def _static_table(artifact: Artifact, about: Mapping[str, Any]) -> tuple[dict[str, bytes], list[str]]:
    """Return the exported table of a words encoder: tokenizer.json, model.safetensors, what they leave out.

    Each word's weight (of sif) is in the length of its row; a last row of zeros is for what is unknown.

    Raises:
        ConfigError: the words are tokens or phrases, which a tokenizer of words does not find.
    """
    table = WordVectors.from_batches(pq.read_table(io.BytesIO(artifact.read(ENCODER + WORDS_FILE))).to_batches())
    identity = about["identity"]
    if identity.get("unit") == "token" or len(table.phrases):
        what = "tokens" if identity.get("unit") == "token" else "phrases"
        hint = "wordpipe train static TOKENS trains an encoder that can be exported"
        raise ConfigError(f"word vectors of {what} cannot be exported", where=artifact.path, hint=hint)
    words = list(table.words)
    notes = []
    # what the exported encoder cannot do
    if identity.get("tokenizer"):
        notes.append("the exported encoder does not know words of scripts without spaces, which only wordpipe splits")
    if "ngrams" in about:
        unknown = "in other programs, words that are not in the table have no vector"
        notes.append(f"{unknown}; wordpipe computes the vectors of these words from their letters")
    # the table
    rows_VD = np.zeros((len(table) + 1, table.dim), np.float32)
    rows_VD[:-1] = table.vectors
    if about["pooling"] == "sif":
        rows_VD[:-1] *= sif_weights(table.counts, about["settings"]["sif_a"])[:, None]
    return static_files(rows_VD, word_tokenizer(words, keep_case=bool(identity["keep_case"]))), notes


def sentence_transformers_folder(encoder: EncoderFiles, *, where: str) -> dict[str, bytes]:
    """All files of a folder that sentence-transformers loads.

    Args:
        encoder: the encoder.
        where: the artifact, for errors.

    Raises:
        ConfigError: transformers has no class for the model, or sentence-transformers no module for its pooling.
    """
    # Files of transformers, without the tensors of a head.
    tokens: list[str] = []
    own, dim = dict(encoder.files), encoder.dim
    if encoder.kind == "transformer":
        # AutoModel has no place for the head's tensors, and warns of each
        family, config = _class_and_shape(encoder, where)
        own[WEIGHTS], dim = without_tensors(own[WEIGHTS], is_of_head(family, config)), config.dim
        if encoder.weights is not None:
            tokens = _tokens(own[TOKENIZER], len(encoder.weights))
        # a decoder's is left, for going on from the last token; but positions are counted from the first column
        settings = {**parse_json_object(own[TOKENIZER_CONFIG], TOKENIZER_CONFIG), "padding_side": "right"}
        own[TOKENIZER_CONFIG] = f"{json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
    # Modules of sentence-transformers.
    return {
        **own,
        **sentence_transformers_files(
            encoder.kind,
            dim=dim,
            pooling=encoder.pooling,
            layers=encoder.layers,
            prompts=encoder.prompts,
            max_len=encoder.max_len,
            weights_V=encoder.weights,
            tokens=tokens,
            transform=encoder.transform,
        ),
    }


def encoder_facts(encoder: EncoderFiles) -> dict[str, Any]:
    """Return the facts of an exported encoder, with what other programs do otherwise."""
    notes = [*encoder.notes]
    if encoder.kind == "transformer":
        notes.append(
            f"other programs cut a text after {encoder.max_len} tokens; wordpipe reads a longer text in windows"
        )
    return {
        "encoder": encoder.kind,
        "pooling": encoder.pooling,
        "transform": encoder.transform.kind,
        "dim": encoder.transform.dim,
        "notes": notes,
    }


def _class_and_shape(encoder: EncoderFiles, where: str) -> tuple[Family, ModelConfig]:
    """Return the transformers class of an exported encoder and its shape. Raises ConfigError: there is no class."""
    try:
        family, config = config_from_hf(parse_json_object(encoder.files[CONFIG], CONFIG))
    except ValueError as error:
        raise ArtifactError("not JSON", where=CONFIG, got=error) from None
    if transformers_class(config) is None:
        raise ConfigError(why_no_class(config), where=where, hint="export the vectors of texts instead: --to npy")
    return family, config


def _tokens(tokenizer_json: bytes, count: int) -> list[str]:
    """Return the exported tokens of the first `count` ids of an encoder; ids that pad the table have names of their own."""
    from wordpipe.tokens import open_tokenizer

    tokenizer = open_tokenizer(tokenizer_json, where=TOKENIZER)
    return [tokenizer.id_to_token(number) or f"[unused{number}]" for number in range(count)]
