"""Text encoders out of artifacts: from a model or words artifact, and as an index carries them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from wordpipe.artifacts.reader import Artifact
from wordpipe.runtime import cpu_count
from wordpipe.sentences.encoder import TextEncoder
from wordpipe.sentences.loading import load_encoder
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.word_encoder import WordEncoder
from wordpipe.stages.index import ENCODER
from wordpipe.stages.making import Job
from wordpipe.stages.word_vectors import read_word_vectors
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.words import WordSplitter, piece_splitter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.sentences.transformer_encoder import HiddenModel, TransformerEncoder

__all__ = ["Encoder", "carry_encoder", "carried_encoder", "open_encoder", "word_splitter"]

TOKENIZER = "tokenizer.json"
_MODEL_FILES = ("config.json", "model.safetensors", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json")


Encoder: TypeAlias = "WordEncoder | TransformerEncoder"


def open_encoder(origin: Artifact, settings: EmbedSettings) -> Encoder:
    """The encoder in a model or words artifact, with no transform yet."""
    facts = {**origin.manifest.facts, "kind": origin.kind, "digest": origin.digest}
    if origin.kind == "words":
        table = read_word_vectors(origin)
        identity = {name: facts.get(name) for name in ("kind", "digest", "unit", "keep_case")}
        identity["tokenizer"] = TOKENIZER in origin.names()
        return WordEncoder(table, word_splitter(origin.read, identity), settings, identity=identity)
    from wordpipe.sentences.transformer_encoder import TransformerEncoder

    model, tokenizer, max_len = _open_model(origin.read)
    return TransformerEncoder(
        model,
        tokenizer,
        settings,
        dim=int(facts["dim"]),
        max_len=max_len,
        model_files=origin.read,
        model_names=_MODEL_FILES,
        identity={name: facts[name] for name in ("kind", "digest")},
    )


def carry_encoder(job: Job, encoder: Encoder, origin: Artifact) -> None:
    """Put the encoder's files into the artifact, so that what is made of it can be asked wherever it is moved."""
    encoder.save(lambda name, data: job.write(ENCODER + name, data))
    if TOKENIZER in origin.names() and origin.kind == "words":
        job.write(ENCODER + TOKENIZER, origin.read(TOKENIZER))
    if getattr(encoder, "assumes_zipf", False):
        job.note(
            "these words were imported without counts: sif takes them to be as common as their rank says (Zipf's law); "
            "--pooling mean weighs all alike"
        )


def carried_encoder(index: Artifact) -> TextEncoder:
    """The query encoder that an index (or sentences artifact) carries."""

    def read(name: str) -> bytes:
        return index.read(ENCODER + name)

    return load_encoder(
        read,
        open_words=lambda identity: word_splitter(read, identity),
        open_model=lambda _: _open_model(read)[:2],
    )


def word_splitter(read: Callable[[str], bytes], facts: Mapping[str, Any]) -> Callable[[str], list[str]]:
    """Text to the words (or tokens) that the table of word vectors was made of.

    Words that were imported without a tokenizer are what the Unicode pattern finds; scripts without spaces stay uncut.
    """
    if not facts.get("tokenizer", True):
        return WordSplitter(keep_case=bool(facts["keep_case"]))
    tokenizer = open_tokenizer(read(TOKENIZER), where=TOKENIZER)
    if facts["unit"] == "token":
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False).tokens)
    return WordSplitter(piece_splitter(tokenizer), keep_case=bool(facts["keep_case"]))


def device_and_threads(encoder: Encoder, settings: EmbedSettings) -> tuple[str, int]:
    """Where the encoder runs."""
    return str(getattr(encoder, "device", "cpu")), settings.threads or cpu_count()


def _open_model(read: Callable[[str], bytes]) -> "tuple[HiddenModel, Tokenizer, int]":
    """Model, tokenizer and the model's length. Imports torch."""
    from wordpipe.model.formats.folder import load_hf

    loaded = load_hf(read)
    return loaded.model, open_tokenizer(read(TOKENIZER), where=TOKENIZER), loaded.config.max_len
