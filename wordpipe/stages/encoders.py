"""Encoders of texts and tables of word vectors, opened out of artifacts.

An index carries its encoder with it (`bundle_encoder`, `bundled_encoder`), with which `embed` embeds more texts
(`bundled_settings`). Torch is imported when a model is read that needs it: a query over word vectors, or of an encoder that
NumPy can compute, does without.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import (
    ENCODER,
    MANIFEST,
    TOKENIZER,
    WEIGHTS_FILE,
    Artifact,
    BundledFiles,
    hash_bytes,
    read_batches,
    read_fact,
)
from wordpipe.encoders import ENCODER_FILE, TextEncoder, load_facts
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.runtime import ADDRESS_SPACE, need_address_space
from wordpipe.tokens import (
    WordSplitter,
    library_errors,
    open_tokenizer,
    run_splitter,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.encoders import ArrayStates, HiddenModel
    from wordpipe.stages.job import Job
    from wordpipe.words import WordVectors

_ENCODER_FILES = (
    "config.json", "model.safetensors", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json",
)  # fmt: skip
_OF_MACHINE = ("batch_tokens", "dtype")  # settings with which an encoder is saved that another run may change


def read_word_vectors(artifact: Artifact) -> "WordVectors":
    """Return the table of an open words artifact, or of an index over words, with n-grams where the artifact has n-grams.

    Raises:
        ArtifactError: a file of it is missing or of another schema.
    """
    from wordpipe.words import WordVectors

    min_n, max_n = (artifact.fact(name, int, 0, least=0) for name in ("min_n", "max_n"))
    with artifact.damage_of(artifact.kind, "not a table of word vectors"):
        ngrams = read_batches(artifact, "ngrams") if max_n else None
        return WordVectors.from_batches(read_batches(artifact, artifact.kind), ngrams, min_n=min_n, max_n=max_n)


def open_encoder(origin: Artifact, settings: EmbedSettings) -> TextEncoder:
    """Return the encoder in a model or words artifact, with no transform yet; or the one that an index carries, with its own.

    The settings of an encoder that an index carries begin with `bundled_settings`.
    """
    if origin.kind == "index":
        return bundled_encoder(origin, settings)
    facts, files = {**origin.manifest.facts, "kind": origin.kind, "digest": origin.digest}, BundledFiles(origin)
    # word vectors
    if origin.kind == "words":
        from wordpipe.encoders import WordEncoder

        identity = {name: facts.get(name) for name in ("kind", "digest", "unit", "keep_case")}
        identity["tokenizer"] = TOKENIZER in files
        with files.damage("the tokenizer cannot be read"):
            split = word_splitter(files, identity)
        return WordEncoder(read_word_vectors(origin), split, settings, identity=identity)
    # a model, with the pooling that it was trained with
    from wordpipe.encoders import LAYERS_FILE, Layers, pooling_named

    identity = {name: facts[name] for name in ("kind", "digest", "pairs") if name in facts}
    trained: Any = origin.fact("pooling", str, "mean")
    if pooling_named(trained) is None:
        raise ArtifactError("unknown pooling", where=origin.path / MANIFEST, got=trained[:60])
    # a trained table, which needs no torch
    if facts.get("encoder") == "static":
        from wordpipe.encoders import StaticEncoder

        return StaticEncoder(files, settings, identity=identity)
    # a transformer
    need_address_space(ADDRESS_SPACE["torch"])
    from wordpipe.encoders import TransformerEncoder
    from wordpipe.model import load_hf

    # its files
    with files.damage("the model cannot be read"):
        loaded = load_hf(files.__getitem__, allow_missing_head=True)
        tokenizer, weights_V = _tokenizer(files), _token_weights(files)
        layers = Layers.from_bytes(files[LAYERS_FILE]) if LAYERS_FILE in files else None
    # the encoder with its tokenizer
    return TransformerEncoder(
        loaded.language_model.requires_grad_(False),
        tokenizer,
        settings,
        dim=loaded.config.dim,
        max_len=min(origin.fact("max_len", int, loaded.config.max_len, least=1), loaded.config.max_len),
        model_files=files,
        model_names=[*_ENCODER_FILES, *sorted({WEIGHTS_FILE, LAYERS_FILE} & {*files})],
        identity=identity,
        trained=trained,
        token_weights=weights_V,
        layers=layers,
        prompts={role: origin.fact(f"{role}_prompt", str, "") for role in ("text", "query")},
    )


def encoder_bytes(origin: Artifact) -> int:
    """Return the bytes of the files of the encoder in a model, words or index artifact."""
    folder = ENCODER if origin.kind == "index" else ""
    return sum(entry.bytes for entry in origin.manifest.outputs if entry.path.startswith(folder))


def is_transformer(origin: Artifact) -> bool:
    """True if the encoder in a model, words or index artifact is a transformer."""
    if origin.kind == "index":
        return bool(load_facts(origin.read(ENCODER + ENCODER_FILE))["kind"] == "transformer")
    return origin.kind == "model" and origin.manifest.facts.get("encoder") != "static"


def bundled_settings(index: Artifact, given: EmbedSettings) -> EmbedSettings:
    """Return settings of `embed` with the encoder that an index carries: its own, and of a run those that are given.

    Raises:
        ArtifactError: the index carries no encoder, or one that cannot be read.
        ConfigError: a setting that is given is not the encoder's.
    """
    if not index.names(ENCODER):
        got, hint = "an index of words alone, without vectors", "give a model or words, or an index of embedded texts"
        if index.manifest.facts.get("of") == "words":
            got, hint = "an index of word vectors", "give the words that the index was made of"
        raise ArtifactError("the index does not contain a text encoder", where=index.path, got=got, hint=hint)
    with index.damage_of(ENCODER + ENCODER_FILE, "the encoder cannot be read"):
        about = load_facts(index.read(ENCODER + ENCODER_FILE))
        own = EmbedSettings.make(about["settings"])
    fixed = {name: getattr(own, name) for name in own.bundled() if name not in _OF_MACHINE}
    # `auto` is as good as what it stood for
    meant = fixed | {name: about[name] for name in ("pooling", "transform")}
    for name in sorted(given.model_fields_set & fixed.keys()):
        if (value := getattr(given, name)) not in (fixed[name], meant[name], "auto"):
            hint = "leave this setting out; for other vectors, give the model or words that the index was made with"
            what = "the encoder of the index was made with another value"
            raise ConfigError(what, where=name, got=value, expected=meant[name], hint=hint)
    free = {name: getattr(given, name) for name in given.model_fields_set - fixed.keys()}
    return EmbedSettings.make({**about["settings"], **free})


def bundle_encoder(job: "Job", encoder: TextEncoder, origin: Artifact) -> None:
    """Put the encoder's files into the artifact, so that an index made from it can encode queries.

    Those that are the origin's as they are lie on the disk once; one that an index carries is taken on whole.
    """
    if origin.kind == "index":
        for name in origin.names(ENCODER):
            job.writer.share(origin, name)
        return
    there = {entry.path: entry.blake3 for entry in origin.manifest.outputs}
    for name, data in encoder.files():
        if there.get(name) == hash_bytes(data):
            job.writer.share(origin, name, ENCODER + name)
        else:
            job.write(ENCODER + name, data)
    if TOKENIZER in there and origin.kind == "words":
        job.writer.share(origin, TOKENIZER, ENCODER + TOKENIZER)
    if getattr(encoder, "assumes_zipf", False):
        job.note(
            "the words were imported without counts, so sif estimates their frequencies from their ranks (Zipf's law); "
            "with --pooling mean, all words have the same weight"
        )


def bundled_encoder(index: Artifact, settings: EmbedSettings | None = None) -> TextEncoder:
    """Return the query encoder that an index (or sentences artifact) carries; a transformer without torch, where NumPy can.

    Args:
        index: the artifact.
        settings: for many texts: where and how they are encoded, and by torch, as by the encoder that the index was made
            with. None: for a query.

    Raises:
        ArtifactError: it carries none that can be read.
    """
    files = BundledFiles(index, ENCODER)
    with files.damage("the encoder cannot be read"):
        about = load_facts(files[ENCODER_FILE])
        if settings is not None:
            about |= {"settings": settings.manifest()}
        if about["kind"] == "words":
            from wordpipe.encoders import WordEncoder

            return WordEncoder.load(about, files, word_splitter(files, about["identity"]))
        if about["kind"] == "static":
            from wordpipe.encoders import StaticEncoder

            return StaticEncoder.load(about, files)
        need_address_space(ADDRESS_SPACE["transformer"])
        from wordpipe.encoders import TransformerEncoder

        model = _state_model(files) if settings is None else _torch_model(files)
        return TransformerEncoder.load(about, files, model, _tokenizer(files), _token_weights(files))


def word_splitter(
    files: Mapping[str, bytes], facts: Mapping[str, Any], where: str | Path = ENCODER_FILE
) -> Callable[[str], list[str]]:
    """Return the function that splits a text into the words (or tokens) of an encoder's table.

    Words that were imported without a tokenizer are what the Unicode pattern finds; scripts without spaces stay uncut.
    """
    if not read_fact(facts, "tokenizer", bool, where, default=True):
        return WordSplitter(keep_case=read_fact(facts, "keep_case", bool, where, default=False))
    tokenizer = open_tokenizer(files[TOKENIZER], where=TOKENIZER)
    if read_fact(facts, "unit", str, where) == "token":

        def tokens_of(text: str) -> list[str]:
            with library_errors("the tokenizer cannot encode the text", TOKENIZER):
                return list(tokenizer.encode(text, add_special_tokens=False).tokens)

        return tokens_of
    return WordSplitter(run_splitter(tokenizer), keep_case=read_fact(facts, "keep_case", bool, where, default=False))


def _state_model(files: BundledFiles) -> "ArrayStates | HiddenModel":
    """Return the model for an encoder's hidden states: in NumPy where that is possible, else in torch."""
    from wordpipe.encoders import ArrayStates
    from wordpipe.model import NumpyModel, read_arrays

    if (found := read_arrays(files.__getitem__)) is not None:
        return ArrayStates(NumpyModel(*found))
    return _torch_model(files)


def _torch_model(files: BundledFiles) -> "HiddenModel":
    """Return the model of an encoder's files in torch."""
    need_address_space(ADDRESS_SPACE["torch"])
    from wordpipe.model import load_hf

    return load_hf(files.__getitem__, allow_missing_head=True).language_model.requires_grad_(False)


def _tokenizer(files: Mapping[str, bytes]) -> "Tokenizer":
    """Open the tokenizer among an encoder's files."""
    return open_tokenizer(files[TOKENIZER], where=TOKENIZER)


def _token_weights(files: Mapping[str, bytes]) -> npt.NDArray[np.float32] | None:
    """Return an encoder's weight of each token id in a weighted mean, (V,); None: no weights.

    None where the model has no weights of tokens.
    """
    if WEIGHTS_FILE not in files:
        return None
    from safetensors.numpy import load

    weights_V: npt.NDArray[np.float32] = load(files[WEIGHTS_FILE])["weights"]
    if weights_V.ndim != 1 or weights_V.dtype != np.float32 or not np.isfinite(weights_V).all():
        raise ValueError(f"{weights_V.dtype} {weights_V.shape}")
    return weights_V
