"""A table of word vectors with its weights as a static encoder, which other programs know."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from wordpipe.artifacts.reader import Artifact
from wordpipe.errors import ConfigError
from wordpipe.sentences.static_encoder import static_files
from wordpipe.sentences.static_tokenizer import word_tokenizer
from wordpipe.sentences.word_encoder import WORDS_FILE, sif_weights
from wordpipe.stages.carried import ENCODER
from wordpipe.words.table import WordVectors

__all__ = ["static_table"]


def static_table(artifact: Artifact, about: Mapping[str, Any]) -> tuple[dict[str, bytes], list[str]]:
    """tokenizer.json and model.safetensors of a words encoder, and what they leave out.

    Each word's weight (of sif) is in the length of its row; a last row of zeros is for what is unknown.

    Args:
        artifact: sentences, or an index over some.
        about: its encoder.json.

    Raises:
        ConfigError: the words are tokens or phrases, which a tokenizer of words does not find.
    """
    table = WordVectors.from_batches(pq.read_table(io.BytesIO(artifact.read(ENCODER + WORDS_FILE))).to_batches())
    identity = about["identity"]
    if identity.get("unit") == "token" or len(table.phrases):
        what = "tokens" if identity.get("unit") == "token" else "phrases"
        hint = "wordpipe train contrastive TOKENS --encoder static makes an encoder of its own"
        raise ConfigError(f"word vectors of {what} cannot be exported", where=artifact.path, hint=hint)
    words = list(table.words)
    notes = ["words of scripts without spaces, which wordpipe cuts, are unknown"] if identity.get("tokenizer") else []
    if "ngrams" in about:
        notes.append("words that are not in the table are left out; wordpipe guesses their vectors from their letters")
    return static_files(_weighted(table, about), word_tokenizer(words, keep_case=bool(identity["keep_case"]))), notes


def _weighted(table: WordVectors, about: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    rows_VD = np.zeros((len(table) + 1, table.dim), np.float32)
    rows_VD[:-1] = table.vectors
    if about["pooling"] == "sif":
        rows_VD[:-1] *= sif_weights(table.counts, about["settings"]["sif_a"])[:, None]
    return rows_VD
