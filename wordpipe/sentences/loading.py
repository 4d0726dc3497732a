"""Loading an encoder of any kind from its files."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wordpipe.errors import ArtifactError
from wordpipe.sentences.encoder import ENCODER_FILE, Read, TextEncoder

if TYPE_CHECKING:
    from wordpipe.sentences.transformer_encoder import ModelParts
    from wordpipe.sentences.word_encoder import WordSplit

__all__ = ["load_encoder"]


def load_encoder(
    read: Read,
    *,
    open_words: "Callable[[Mapping[str, Any]], WordSplit]",
    open_model: "Callable[[Mapping[str, Any]], ModelParts]",
) -> TextEncoder:
    """Load what `save` wrote.

    Args:
        read: gives the bytes of a file by name.
        open_words: gives the word splitter, from the identity that the encoder was saved with.
        open_model: gives model, tokenizer and the weights of tokens, likewise.

    Raises:
        ArtifactError: encoder.json is not one of ours.
    """
    try:
        about = json.loads(read(ENCODER_FILE))
        kind, identity = about["kind"], about["identity"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError("not a readable encoder", where=ENCODER_FILE, got=error) from None
    if kind == "words":
        from wordpipe.sentences.word_encoder import WordEncoder

        return WordEncoder.load(about, read, open_words(identity))
    if kind == "static":
        from wordpipe.sentences.static_encoder import StaticEncoder

        return StaticEncoder.load(about, read)
    if kind == "transformer":
        from wordpipe.sentences.transformer_encoder import TransformerEncoder

        return TransformerEncoder.load(about, read, open_model(identity))
    raise ArtifactError(
        "unknown kind of encoder", where=ENCODER_FILE, got=kind, expected="words, static or transformer"
    )
