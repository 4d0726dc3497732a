"""The table that a static encoder begins as: parts of it made here, or the table of an earlier one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load
from tokenizers import Tokenizer

from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search.analysis import Analyser, looks_english
from wordpipe.sentences.static_encoder import TABLE_FILE, TENSOR
from wordpipe.sentences.static_tokenizer import listed_words
from wordpipe.stages.making import Job
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.vocabulary import number_of_ids, vocabulary_of
from wordpipe.training.contrast.encoder_settings import ContrastiveSettings
from wordpipe.training.contrast.pair_text import PairText
from wordpipe.training.contrast.stem_means import count_stems, near_their_stems
from wordpipe.training.contrast.table_start import (
    Stem,
    join_compounds,
    joined_parts,
    lexical_part,
    lsi_part,
    passage_weights,
    word_weights,
)
from wordpipe.words.table import WordVectors

__all__ = ["first_table", "spelled"]

Floats = npt.NDArray[np.float32]
_SPACE_MARKS = "Ġ▁#"  # what byte-level, sentencepiece and WordPiece tokenizers put before a token
_SAMPLE = 1_000  # rows that tell the language


def first_table(job: Job, settings: ContrastiveSettings, words: Sequence[str], text: PairText) -> Floats:
    """The table before its first step, (V, D).

    Args:
        job: what the settings name becomes its input.
        settings: which parts, and their weights.
        words: V words or tokens.
        text: gives counts, and what stands beside what.

    Raises:
        ConfigError: no part has a weight.
        InputError: too little text for a part; no word has a vector.
        ArtifactError: a table of another unit.
    """
    vectors = None if settings.words is None else _word_part(job, settings, words)
    if settings.init is not None:
        return _table_of(job, settings, words, text)
    stems = _stem(words, settings.unit, text)([*words])
    weights, of_stems = _weights(settings, stems, text)
    parts: list[tuple[Floats, Floats, float]] = []
    if vectors is not None and settings.words_weight:
        parts.append((near_their_stems(vectors, stems, text.counts), weights, settings.words_weight))
    if settings.lexical_weight:
        directions = lexical_part(stems, settings.lexical_dim, settings.seed)
        parts.append((directions, of_stems, settings.lexical_weight))
    if settings.lsi_weight:
        job.report("finding latent directions")
        parts.append((lsi_part(text, settings.lsi_dim, stems), weights, settings.lsi_weight))
    if not parts:
        raise ConfigError(
            "the table begins as nothing", where="words_weight, lexical_weight, lsi_weight", got="no part with a weight",
            hint="give --words WORDS, or a weight above 0",
        )  # fmt: skip
    table_VD = joined_parts(parts, text)
    return join_compounds(table_VD, words) if settings.goal == "search" and settings.unit == "word" else table_VD


def _weights(settings: ContrastiveSettings, stems: Sequence[str], text: PairText) -> tuple[Floats, Floats]:
    """What the words begin to weigh, (V,), and what they do in the lexical part."""
    if settings.word_weighting == "idf":
        weights = passage_weights(text, stems)
        return weights, weights
    # a stem weighs as its forms together do; word by word STS fell from 64.3 to 63.8 (see near_their_stems)
    of_stems = word_weights(count_stems(stems, text.counts), settings.sif_a, text.counts.sum())
    return word_weights(text.counts, settings.sif_a), of_stems


def _word_part(job: Job, settings: ContrastiveSettings, words: Sequence[str]) -> Floats:
    """The vectors of a words artifact, zero for words that it lacks."""
    artifact = job.open_input(settings.words, ["words"])  # type: ignore[arg-type]  # the caller has looked
    _check_unit(artifact, settings)
    table = WordVectors.from_batches(read_batches(artifact, "words"))
    rows = np.array([-1 if (row := table.find(word)) is None else row for word in words])
    known = rows >= 0
    if not known.any():
        raise InputError("no word of this text has a vector there", where=artifact.path)
    job.counts |= {"words_with_vector": int(known.sum()), "words_without_vector": int((~known).sum())}
    part_VD = np.zeros((len(words), table.dim), np.float32)
    part_VD[known] = table.vectors[rows[known]]
    return part_VD


def _table_of(job: Job, settings: ContrastiveSettings, words: Sequence[str], text: PairText) -> Floats:
    """The rows of an earlier static encoder.

    A word that it lacks begins as a random direction of its stem, as long as the median row: nothing else is known of it.
    """
    artifact = job.open_input(settings.init, ["model"])  # type: ignore[arg-type]  # the caller has looked
    if artifact.manifest.facts.get("encoder") != "static":
        raise ArtifactError(
            "this model is no static encoder", where=artifact.path, hint="train it further with --encoder transformer"
        )
    _check_unit(artifact, settings)
    table_VD = load(artifact.read(TABLE_FILE))[TENSOR]
    row_of = {word: row for row, word in enumerate(_words_of(artifact))}
    rows = np.array([row_of.get(word, -1) for word in words])
    known = rows >= 0
    job.counts |= {"words_from_init": int(known.sum()), "words_new": int((~known).sum())}
    began_VD = np.empty((len(words), table_VD.shape[1]), np.float32)
    began_VD[known] = table_VD[rows[known]]
    length = float(np.median(np.linalg.norm(table_VD, axis=1)))
    new = [word for word, is_known in zip(words, known, strict=True) if not is_known]
    if new:
        began_VD[~known] = length * lexical_part(
            new, table_VD.shape[1], settings.seed, _stem(words, settings.unit, text)
        )
    return began_VD


def _words_of(artifact: Artifact) -> Sequence[str]:
    """The word or token of each row."""
    data = artifact.read(TOKENIZER)
    listed = listed_words(data)
    if listed is not None:
        return listed[0]
    tokenizer = open_tokenizer(data, where=str(artifact.path / TOKENIZER))
    return spelled(tokenizer)


def spelled(tokenizer: Tokenizer) -> list[str]:
    """The token of each id; ids that no token has stand for nothing."""
    return [token or "" for token in vocabulary_of(tokenizer).tokens[: number_of_ids(tokenizer)]]


def _check_unit(artifact: Artifact, settings: ContrastiveSettings) -> None:
    if (unit := artifact.manifest.facts.get("unit", "word")) != settings.unit:
        raise ArtifactError(
            "vectors of another unit", where=artifact.path, got=unit, expected=settings.unit, hint=f"give --unit {unit}"
        )


def _stem(words: Sequence[str], unit: str, text: PairText) -> Stem:
    """Stemming in English, if the text is; else words stand for themselves. A token stands for the letters that it has."""

    def plain(word: str) -> str:
        return word.lstrip(_SPACE_MARKS).lower() or word if unit == "token" else word

    bounds = zip(text.rows.offsets[:_SAMPLE], text.rows.offsets[1 : _SAMPLE + 1], strict=False)
    rows = (" ".join(plain(words[number]) for number in text.rows.ids[first:last]) for first, last in bounds)
    analyser = Analyser("english" if looks_english(rows) else "none")
    return lambda some: [analyser.stem(plain(word)) or plain(word) for word in some]  # a stop word has a direction, too
