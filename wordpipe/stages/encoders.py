"""Text encoders out of artifacts: from a model or words artifact, and as an index carries them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import ENCODER, TOKENIZER, WEIGHTS_FILE, Artifact
from wordpipe.runtime import cpu_count
from wordpipe.sentences import TextEncoder, load_encoder
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.tokens import open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.model import ModelConfig
    from wordpipe.sentences import ModelParts
    from wordpipe.stages.job import Job

_MODEL_FILES = ("config.json", "model.safetensors", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json")


def open_encoder(origin: Artifact, settings: EmbedSettings) -> TextEncoder:
    """The encoder in a model or words artifact, with no transform yet."""
    facts = {**origin.manifest.facts, "kind": origin.kind, "digest": origin.digest}
    if origin.kind == "words":
        from wordpipe.sentences import WordEncoder
        from wordpipe.stages.word_vectors import read_word_vectors

        table = read_word_vectors(origin)
        identity = {name: facts.get(name) for name in ("kind", "digest", "unit", "keep_case")}
        identity["tokenizer"] = TOKENIZER in origin.names()
        return WordEncoder(table, word_splitter(origin.read, identity), settings, identity=identity)
    identity = {name: facts[name] for name in ("kind", "digest", "pairs") if name in facts}
    if facts.get("encoder") == "static":
        from wordpipe.sentences import StaticEncoder

        return StaticEncoder(origin.read, settings, identity=identity)
    from wordpipe.sentences import TransformerEncoder

    there = set(origin.names())
    parts, config = _by_torch(origin.read, weighted=WEIGHTS_FILE in there)
    return TransformerEncoder(
        parts.model,
        parts.tokenizer,
        settings,
        dim=int(facts["dim"]),
        max_len=config.max_len,
        model_files=origin.read,
        model_names=[*_MODEL_FILES, *({WEIGHTS_FILE} & there)],
        identity=identity,
        trained=facts.get("pooling", "mean"),
        token_weights=parts.token_weights,
    )


def bundle_encoder(job: "Job", encoder: TextEncoder, origin: Artifact) -> None:
    """Put the encoder's files into the artifact, so that what is made of it can be asked wherever it is moved."""
    encoder.save(lambda name, data: job.write(ENCODER + name, data))
    if TOKENIZER in origin.names() and origin.kind == "words":
        job.write(ENCODER + TOKENIZER, origin.read(TOKENIZER))
    if getattr(encoder, "assumes_zipf", False):
        job.note(
            "these words were imported without counts: sif takes them to be as common as their rank says (Zipf's law); "
            "--pooling mean weighs all alike"
        )


def bundled_encoder(index: Artifact) -> TextEncoder:
    """The query encoder that an index (or sentences artifact) carries; a transformer without torch, where numpy can."""

    def read(name: str) -> bytes:
        return index.read(ENCODER + name)

    weighted = ENCODER + WEIGHTS_FILE in index.names(ENCODER)
    return load_encoder(
        read,
        open_words=lambda identity: word_splitter(read, identity),
        open_model=lambda _: _by_numpy(read, weighted=weighted) or _by_torch(read, weighted=weighted)[0],
    )


def word_splitter(read: Callable[[str], bytes], facts: Mapping[str, Any]) -> Callable[[str], list[str]]:
    """Text to the words (or tokens) that the table of word vectors was made of.

    Words that were imported without a tokenizer are what the Unicode pattern finds; scripts without spaces stay uncut.
    """
    from wordpipe.tokens import WordSplitter, piece_splitter

    if not facts.get("tokenizer", True):
        return WordSplitter(keep_case=bool(facts["keep_case"]))
    tokenizer = open_tokenizer(read(TOKENIZER), where=TOKENIZER)
    if facts["unit"] == "token":
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False).tokens)
    return WordSplitter(piece_splitter(tokenizer), keep_case=bool(facts["keep_case"]))


def device_and_threads(encoder: TextEncoder, settings: EmbedSettings) -> tuple[str, int]:
    """Where the encoder runs."""
    return str(getattr(encoder, "device", "cpu")), settings.threads or cpu_count()


def _by_numpy(read: Callable[[str], bytes], *, weighted: bool) -> "ModelParts | None":
    """Model, tokenizer and token weights without torch; None where numpy cannot compute the model."""
    from wordpipe.model import ArrayModel, read_arrays
    from wordpipe.sentences import ArrayStates, ModelParts

    if (found := read_arrays(read)) is None:
        return None
    return ModelParts(ArrayStates(ArrayModel(*found)), _tokenizer(read), _token_weights(read) if weighted else None)


def _by_torch(read: Callable[[str], bytes], *, weighted: bool) -> "tuple[ModelParts, ModelConfig]":
    """The same, and the model's shape. Imports torch."""
    from wordpipe.model import load_hf
    from wordpipe.sentences import ModelParts

    loaded = load_hf(read)
    return ModelParts(loaded.model, _tokenizer(read), _token_weights(read) if weighted else None), loaded.config


def _tokenizer(read: Callable[[str], bytes]) -> "Tokenizer":
    return open_tokenizer(read(TOKENIZER), where=TOKENIZER)


def _token_weights(read: Callable[[str], bytes]) -> npt.NDArray[np.float32]:
    from safetensors.numpy import load

    weights_V: npt.NDArray[np.float32] = load(read(WEIGHTS_FILE))["weights"]
    return weights_V
