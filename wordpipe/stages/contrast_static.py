"""The contrastive training of a static encoder: from the artifacts to the table, and from the table to its files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from safetensors.torch import load, save

from wordpipe.artifacts.checkpoints import Checkpoint, Checkpoints
from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ConfigError
from wordpipe.sentences.folder import sentence_transformers_files
from wordpipe.sentences.static_encoder import static_files
from wordpipe.sentences.static_tokenizer import unspaced_share, word_tokenizer
from wordpipe.stages.contrast_table import first_table, spelled
from wordpipe.stages.contrast_telling import ContrastTelling
from wordpipe.stages.contrast_text import IdsOf, contrast_text, pair_kinds
from wordpipe.stages.making import Job
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.words import WordSplitter, piece_splitter
from wordpipe.training.contrast.encoder_assembly import held_out_pairs
from wordpipe.training.contrast.encoder_settings import ContrastiveSettings
from wordpipe.training.contrast.positives import Pairs
from wordpipe.training.contrast.static_training import StaticTraining

__all__ = ["train_static"]

_TENSORS, _LOG = "state.safetensors", "log.json"
_UNSPACED = 0.05  # of a text's words; names in an English encyclopaedia are less


@dataclass(frozen=True)
class _Units:
    """What has a row: words or tokens.

    Attributes:
        words: of each row.
        ids_of: texts to rows.
        tokenizer_json: by which other programs find the rows.
        extra: rows after those of the words, which stay zero: the tokenizer's unknown word.
    """

    words: Sequence[str]
    ids_of: IdsOf
    tokenizer_json: bytes
    extra: int


def train_static(job: Job, source: Artifact, settings: ContrastiveSettings) -> None:
    """Train, and write the model's folder.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    job.libraries = (*job.libraries, "scipy", "numba", "PyStemmer")
    units = _words(source, settings.min_count) if settings.unit == "word" else _tokens(source)
    text, given = contrast_text(
        job, source, settings, units.ids_of, vocab_size=len(units.words),
        column="word_ids" if settings.unit == "word" else "ids",
    )  # fmt: skip
    table_VD = first_table(job, settings, units.words, text)
    pairs = Pairs(text, settings, given=given)
    for line in pairs.notes:
        job.warn(line)
    job.counts |= {"words": len(units.words)} | {name: count for name, count in pairs.counts.items() if count}
    kept = Checkpoints(job.partial, job.recipe)

    def keep(training: StaticTraining) -> str:
        tensors, log = training.state()
        files = [(_TENSORS, iter([save(tensors)])), (_LOG, iter([json.dumps(log).encode()]))]
        return str(kept.save(training.step, files))

    with job.telling_of_compilation():
        training = StaticTraining(pairs, table_VD, settings, valid=held_out_pairs(settings, text), save=keep)
        kept.restore(lambda found: _load(training, found))
        _announce(job, training, kept, settings)
        telling = ContrastTelling(job)
        telling.total = training.n_steps
        telling.train(training, settings.pairs_per_step)
    job.bitwise = training.bitwise
    _write(job, source, training.table, units, settings)


def _words(source: Artifact, min_count: int) -> _Units:
    """The words of the text that are common enough."""
    tokenizer = open_tokenizer(source.read(TOKENIZER), where=str(source.path / TOKENIZER))
    words: list[str] = []
    counts: list[npt.NDArray[np.int64]] = []
    for batch in read_batches(source, "words", ["word", "count"]):  # the commonest first
        often = int((batch["count"].to_numpy() >= min_count).sum())
        words += batch["word"].slice(0, often).to_pylist()
        counts.append(batch["count"].to_numpy()[:often])
    _refuse_unspaced(words, np.concatenate([np.zeros(0, np.int64), *counts]), where=str(source.path))
    keep_case = bool(source.manifest.facts["keep_case"])
    split, row_of = (
        WordSplitter(piece_splitter(tokenizer), keep_case=keep_case),
        {w: row for row, w in enumerate(words)},
    )

    def ids_of(texts: Sequence[str]) -> list[list[int]]:
        return [[row_of[word] for word in split(text) if word in row_of] for text in texts]

    return _Units(words, ids_of, word_tokenizer(words, keep_case=keep_case), extra=1)


def _refuse_unspaced(words: Sequence[str], counts: npt.NDArray[np.int64], *, where: str) -> None:
    """Refuse text whose words no pattern finds again: the encoder would leave out what it was trained on.

    Raises:
        ConfigError: more than a twentieth of it.
    """
    share = unspaced_share(words, counts)
    if share > _UNSPACED:
        raise ConfigError(
            "a table of words cannot be asked in a script without spaces",
            where=where,
            got=f"{share:.0%} of the words",
            expected=f"at most {_UNSPACED:.0%}",
            hint="train it with --unit token",
        )


def _tokens(source: Artifact) -> _Units:
    """The tokenizer's tokens."""
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))

    def ids_of(texts: Sequence[str]) -> list[list[int]]:
        return [item.ids for item in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    return _Units(spelled(tokenizer), ids_of, data, extra=0)


def _load(training: StaticTraining, found: Checkpoint) -> bool:
    training.load(load(found.read_bytes(_TENSORS)), json.loads(found.read_bytes(_LOG)))
    return True


def _announce(job: Job, training: StaticTraining, kept: Checkpoints, settings: ContrastiveSettings) -> None:
    rows, dim = training.table.shape
    job.counts |= {"steps": training.n_steps, "parameters": training.table.size}
    job.threads = training.threads
    job.note(
        f"static encoder of {rows:,} {settings.unit}s, width {dim}: {training.n_steps:,} steps of "
        f"{settings.pairs_per_step:,} pairs"
    )
    for text in kept.notes:
        job.warn(text)
    if training.resumed_from is not None:
        job.note(f"continuing a stopped run at step {training.resumed_from:,}")


def _write(
    job: Job, source: Artifact, table_VD: npt.NDArray[np.float32], units: _Units, settings: ContrastiveSettings
) -> None:
    """The model's folder, which sentence-transformers loads as a StaticEmbedding."""
    dim = table_VD.shape[1]
    whole_VD = np.concatenate([table_VD, np.zeros((units.extra, dim), np.float32)])
    for name, content in (
        static_files(whole_VD, units.tokenizer_json) | sentence_transformers_files("static", dim=dim)
    ).items():
        job.write(name, content)
    job.facts |= {
        "encoder": "static", "pooling": "mean", "goal": settings.goal, "pairs": pair_kinds(settings),
        "dim": dim, "unit": settings.unit, "keep_case": bool(source.manifest.facts["keep_case"]),
    }  # fmt: skip
