"""What every saved encoder says of itself, and its transform: the same two files beside whatever else it is made of."""

import json
from typing import Any

from wordpipe.sentences.encoder import ENCODER_FILE, TRANSFORM_FILE, TextEncoder, Write
from wordpipe.sentences.settings import EmbedSettings

__all__ = ["save_facts"]


def save_facts(write: Write, encoder: TextEncoder, settings: EmbedSettings, **own: Any) -> None:
    """Write encoder.json and transform.safetensors, which `loading.load_encoder` begins with.

    Args:
        write: takes a file's name and content.
        encoder: gives kind, pooling, width, transform and identity.
        settings: what it was made with.
        own: what else this kind needs to be loaded, or has otherwise than the others, as JSON values.
    """
    about = {
        "kind": encoder.kind,
        "pooling": encoder.pooling,
        "dim": encoder.dim,
        "transform": encoder.transform.kind,
        "settings": settings.carried(),
        "identity": encoder.identity,
    }
    write(ENCODER_FILE, json.dumps(about | own, indent=2, sort_keys=True).encode())
    write(TRANSFORM_FILE, encoder.transform.to_bytes())
