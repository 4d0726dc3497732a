"""Encoders out of artifacts, as folders of files for other programs: which files, which pooling, which transform."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wordpipe.artifacts.reader import Artifact
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.formats.values import CONFIG
from wordpipe.sentences.encoder import ENCODER_FILE, TRANSFORM_FILE
from wordpipe.sentences.folder import sentence_transformers_files
from wordpipe.sentences.transforms import Transform
from wordpipe.stages.carried import ENCODER, TOKENIZER, WEIGHTS_FILE
from wordpipe.stages.export_weights import is_of_head, without_tensors

if TYPE_CHECKING:
    from wordpipe.model.config import ModelConfig
    from wordpipe.model.formats.family import Family

__all__ = ["EncoderFiles", "encoder_files", "sentence_transformers_folder", "told_of"]

TOKENIZER_CONFIG, WEIGHTS = "tokenizer_config.json", "model.safetensors"
_OWN = {
    "transformer": (CONFIG, WEIGHTS, TOKENIZER, TOKENIZER_CONFIG, "special_tokens_map.json"),
    "static": (WEIGHTS, TOKENIZER),
}


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
        notes: what the files leave out.
    """

    kind: Literal["transformer", "static"]
    files: Mapping[str, bytes]
    dim: int
    pooling: str
    max_len: int | None
    weights: npt.NDArray[np.float32] | None
    transform: Transform
    notes: Sequence[str] = ()


def encoder_files(artifact: Artifact) -> EncoderFiles:
    """The encoder of a model, of sentences, or of an index over sentences; word vectors become a static encoder.

    Raises:
        ConfigError: there is none, or its words are tokens or phrases.
    """
    prefix = "" if artifact.kind == "model" else ENCODER
    about = _about_model(artifact) if artifact.kind == "model" else _about_carried(artifact)
    names = {name.removeprefix(prefix) for name in artifact.names(prefix)}
    transform = Transform.none(about["dim"])
    if TRANSFORM_FILE in names:
        where = str(artifact.path / prefix / TRANSFORM_FILE)
        transform = Transform.from_bytes(artifact.read(prefix + TRANSFORM_FILE), about["transform"], where=where)
    dim = len(transform.mean)  # encoder.json may tell the one after the transform
    if about["kind"] == "words":
        from wordpipe.stages.export_table import static_table

        table, notes = static_table(artifact, about)
        return EncoderFiles("static", table, dim, about["pooling"], None, None, transform, notes)
    files = {name: artifact.read(prefix + name) for name in _OWN[about["kind"]] if name in names}
    weighted = about["pooling"] == "weighted" and WEIGHTS_FILE in names
    weights_V = _tensor(artifact.read(prefix + WEIGHTS_FILE)) if weighted else None
    return EncoderFiles(about["kind"], files, dim, about["pooling"], about.get("max_len"), weights_V, transform)


def _about_model(artifact: Artifact) -> dict[str, Any]:
    facts = artifact.manifest.facts
    return {
        "kind": facts.get("encoder", "transformer"),
        "dim": int(facts["dim"]),
        "pooling": facts.get("pooling", "mean"),
        "max_len": facts.get("max_len"),
    }


def _about_carried(artifact: Artifact) -> dict[str, Any]:
    if ENCODER + ENCODER_FILE not in artifact.names():
        raise ConfigError(
            "an index over words has no encoder of texts", where=artifact.path, hint="embed a corpus first"
        )
    about: dict[str, Any] = json.loads(artifact.read(ENCODER + ENCODER_FILE))
    return about


def _tensor(data: bytes) -> npt.NDArray[np.float32]:
    weights_V: npt.NDArray[np.float32] = safetensors.numpy.load(data)["weights"]
    return weights_V


def sentence_transformers_folder(encoder: EncoderFiles, *, where: str) -> dict[str, bytes]:
    """All files of a folder that sentence-transformers loads.

    Args:
        encoder: the encoder.
        where: the artifact, for errors.

    Raises:
        ConfigError: transformers has no class for the model, or sentence-transformers no module for its pooling.
    """
    tokens: list[str] = []
    own = dict(encoder.files)
    if encoder.kind == "transformer":
        # AutoModel has no place for the head's tensors, and warns of each
        own[WEIGHTS] = without_tensors(own[WEIGHTS], is_of_head(*_native(encoder, where)))
        tokens = _tokens(own[TOKENIZER], 0 if encoder.weights is None else len(encoder.weights))
        # a decoder's is left, for going on from the last token; but positions are counted from the first column
        own[TOKENIZER_CONFIG] = _json({**json.loads(own[TOKENIZER_CONFIG]), "padding_side": "right"})
    return {
        **own,
        **sentence_transformers_files(
            encoder.kind,
            dim=encoder.dim,
            pooling=encoder.pooling,
            max_len=encoder.max_len,
            weights_V=encoder.weights,
            tokens=tokens,
            transform=encoder.transform,
        ),
    }


def told_of(encoder: EncoderFiles) -> dict[str, Any]:
    """What the user should know of an exported encoder: what it is, and what other programs do otherwise."""
    notes = [*encoder.notes]
    if encoder.kind == "transformer":
        notes.append(f"a text of more than {encoder.max_len} tokens is cut there; wordpipe reads it in windows")
    return {
        "encoder": encoder.kind,
        "pooling": encoder.pooling,
        "transform": encoder.transform.kind,
        "dim": encoder.transform.dim,
        "notes": notes,
    }


def _native(encoder: EncoderFiles, where: str) -> "tuple[Family, ModelConfig]":
    """The class of transformers, and the shape."""
    from wordpipe.model.formats.families import config_from_hf, native_class, why_not

    try:
        family, config = config_from_hf(json.loads(encoder.files[CONFIG]))
    except ValueError as error:
        raise ArtifactError("not JSON", where=CONFIG, got=error) from None
    if native_class(config) is None:
        raise ConfigError(why_not(config), where=where, hint="export its vectors of texts: --to npy")
    return family, config


def _tokens(tokenizer_json: bytes, count: int) -> list[str]:
    """The tokens of the first `count` ids; ids that pad the table have names of their own."""
    from wordpipe.tokens.formats.reading import open_tokenizer

    if not count:
        return []
    tokenizer = open_tokenizer(tokenizer_json, where=TOKENIZER)
    return [tokenizer.id_to_token(number) or f"[unused{number}]" for number in range(count)]


def _json(values: Any) -> bytes:
    return f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
