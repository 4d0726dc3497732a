"""`train classifier` and `train tagger` from word vectors, or from a static encoder: the table, its new rows, its folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import TOKENIZER, VOCABULARY, Artifact, BundledFiles, is_artifact
from wordpipe.encoders import TABLE_FILE, listed_words, static_table
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.heads import (
    HeadLearner,
    LabelledExamples,
    RowEncoder,
    RowsLearner,
    StaticHeadConfig,
    StaticModel,
    UnitCounts,
    UnitRows,
    bags_of,
    counted,
    extended,
    is_pair,
    static_head_files,
    static_trainer,
)
from wordpipe.heads.settings import HeadSettings
from wordpipe.model import HeadConfig, seed_of
from wordpipe.stages.encoders import read_word_vectors, word_splitter
from wordpipe.stages.job import Job
from wordpipe.stages.train.head_tasks import HeadTask
from wordpipe.stages.train.labelled import Labelled
from wordpipe.tokens import number_of_ids, open_tokenizer, vocabulary_of
from wordpipe.training import Trainer

Floats = npt.NDArray[np.float32]

_MOST_NEW = 500_000  # units of labelled texts that get a row of their own: of width 100, 200 MB
_SIZE = 0.3  # root mean square of a table's numbers: word2vec's are about that large, and rates are made for it
_ONLY_TRANSFORMERS = {"device": ("auto", "cpu"), "dtype": ("auto", "float32")}


def names_word_vectors(path: Path) -> bool:
    """Return True if `--init` names word vectors or a static encoder, for a static head."""
    if not is_artifact(path):
        return False
    with Artifact(path, verify=False) as artifact:
        return artifact.kind == "words" or artifact.manifest.facts.get("encoder") == "static"


@dataclass
class StaticStart:
    """The start of a head on word vectors, or on the table of a static encoder; see `Start`.

    Attributes:
        rows: the units that have a row; after `prepare` with those of the labelled texts.
        table: (V, D) float32.
        split: text to words, as those of the table were made.
        about: what `split` is made of, JSON values.
        tokenizer: the tokenizer.json that it needs; None where it needs none.
        guess: first vectors of words that are not in the table, and which have one.
    """

    rows: UnitRows
    table: Floats
    split: Callable[[str], list[str]]
    about: dict[str, Any]
    tokenizer: bytes | None
    guess: Callable[[Sequence[str]], tuple[Floats, npt.NDArray[np.bool_]]] | None
    unit = "words"
    counts: Mapping[str, int] = field(default_factory=dict, init=False)
    _encoder: RowEncoder | None = field(default=None, init=False)
    _pairs: bool = field(default=False, init=False)

    @classmethod
    def open(cls, job: Job, path: Path) -> "StaticStart":
        """Open the table that `--init` names, recorded as an input; its numbers are brought to the size that rates suit."""
        # how texts are cut into units
        artifact = job.open_input(path, ["words", "model"])
        files = BundledFiles(artifact)
        about, data = split_facts(artifact, files)
        # their vectors, and first vectors of words without a row
        guess = None
        with artifact.damage_of(artifact.kind, "the word vectors cannot be read"):
            if artifact.kind == "words":
                vectors = read_word_vectors(artifact)
                units: Any = vectors.words
                table_VD, guess = vectors.vectors, None if vectors.ngrams is None else vectors.ngrams.vectors_of
            else:
                table_VD = static_table(files[TABLE_FILE])
                units = _units_of(files[TOKENIZER], len(table_VD))
            split = word_splitter({} if data is None else {TOKENIZER: data}, about, artifact.path)
        # numbers of the size that rates are made for
        size = float(np.sqrt(np.mean(np.square(table_VD, dtype=np.float64)))) if table_VD.size else 0.0
        if not (np.isfinite(size) and size > 0 and table_VD.dtype == np.float32):
            raise ArtifactError(
                "all vectors are zero, or some numbers are not finite", where=path, hint="train the vectors again"
            )
        factor = np.float32(_SIZE / size)
        scaled = None if guess is None else lambda words: _scaled(guess(words), factor)
        return cls(UnitRows(units), table_VD * factor, split, about, data, scaled)

    def resolved(self, settings: HeadSettings, n_texts: int) -> HeadSettings:
        for name, allowed in _ONLY_TRANSFORMERS.items():
            if (given := getattr(settings, name)) not in allowed:
                raise ConfigError(
                    "a head on word vectors is always trained on the CPU, in float32", where=name, got=given,
                    expected=" or ".join(allowed),
                    hint="leave out this setting (a training step takes only a millisecond)",
                )  # fmt: skip
        return settings.of_words(n_texts)

    def prepare(self, job: Job, labelled: Labelled, task: HeadTask) -> None:
        """Give rows of the static head's table to the words, and pairs of words, of the texts to learn from.

        They begin as zeros, words as what their n-grams say where the table has n-grams. Where the table is frozen, zeros
        would stay zeros: nothing is added.
        """
        settings: Any = job.settings
        counts, n_rows = UnitCounts(), len(self.rows)
        for record in labelled.records():
            if not record.held_out:
                counts.add(bags_of(record.texts, self.split, words=task.per_word, most=settings.seq_len)[0])
        self.counts, self._pairs = counts.counts, labelled.pairs
        if settings.freeze:
            return
        new, more = counts.new_units(self.rows, least=1, most=_MOST_NEW)
        first_ND = np.zeros((len(new), self.table.shape[1]), np.float32)
        if self.guess is not None and new:
            words = [place for place, unit in enumerate(new) if not is_pair(unit)]
            first_ND[words] = self.guess([new[place] for place in words])[0]
        self.rows, self.table = extended(self.rows, new), np.concatenate([self.table, first_ND])
        job.counts |= {"rows_of_vectors": n_rows, "rows_new": len(new), "units_dropped": more}
        if more:
            job.warn(
                f"{more:,} rare words and word pairs of the labelled texts get no vector, because the limit is "
                f"{_MOST_NEW:,} new vectors"
            )

    def encoder(self, settings: HeadSettings, task: HeadTask) -> RowEncoder:
        del task
        self._encoder = RowEncoder(self.rows, self.split, settings.seq_len)
        return self._encoder

    def trainer(
        self, settings: HeadSettings, head: HeadConfig, task: HeadTask, labelled: Labelled, examples: LabelledExamples,
        held_out: LabelledExamples, **given: Any,
    ) -> Trainer[HeadLearner[RowsLearner]]:  # fmt: skip
        import torch

        assert self._encoder is not None
        assert head.kind != "span"  # which needs a model that reads texts in their order
        config = StaticHeadConfig(head.kind, head.labels, head.problem, labelled.pairs, self.table.shape[1])
        model = StaticModel(config, head, seed_of(given["seed"], "start"))
        task.prepare(model, labelled)
        objective = task.objective(labelled, torch.device("cpu"))
        return static_trainer(settings, model, self.table, self._encoder.used, objective, examples, held_out, **given)

    def numbers(self, learner: HeadLearner[RowsLearner]) -> tuple[int, int]:
        head = sum(one.numel() for one in learner.model.parameters())
        return head + self.table.size, sum(one.numel() for one in learner.learner.moving.values())

    def shown(self, learner: HeadLearner[RowsLearner]) -> str:
        return f"{len(self.rows):,} vectors of width {self.table.shape[1]}"

    def save(self, job: Job, learner: HeadLearner[RowsLearner]) -> dict[str, Any]:
        assert self._encoder is not None
        weights = {name: weight.detach().numpy() for name, weight in learner.model.named_parameters()}
        table_VD = learner.learner.table(self.table)
        for name, content in static_head_files(learner.learner.static_config, table_VD, weights, self.about):
            job.write(name, content)
        if self.tokenizer is not None:
            job.write(TOKENIZER, self.tokenizer)
        with job.table("words", VOCABULARY, single=True) as table:
            for batch in counted(self.rows, self.counts):
                table.write(batch)
        share = self._encoder.n_unknown / max(1, self._encoder.n_units)
        job.facts["unknown_share"] = round(share, 6)
        job.note(
            f"the vectors need {table_VD.nbytes / 1e6:,.0f} MB; {share:.1%} of the words and word pairs in the texts "
            "have no vector"
        )
        return {"architecture": "words", "dim": self.table.shape[1], "n_layers": 1, "transformers": None}


def split_facts(artifact: Artifact, files: BundledFiles) -> tuple[dict[str, Any], bytes | None]:
    """Return how the table of a static head cuts texts into words, and the tokenizer if one is needed."""
    facts = artifact.manifest.facts
    if artifact.kind == "words":
        has = TOKENIZER in files
        about = {"unit": facts.get("unit", "word"), "keep_case": facts.get("keep_case", False), "tokenizer": has}
        return about, files[TOKENIZER] if has else None
    with artifact.damage_of(artifact.kind, "the static encoder cannot be read"):
        data = files[TOKENIZER]
        listed = listed_words(data)
    if listed is None:
        return {"unit": "token", "keep_case": True, "tokenizer": True}, data
    return {"unit": "word", "keep_case": listed[1], "tokenizer": False}, None


def _units_of(tokenizer_json: bytes, n_rows: int) -> list[str]:
    """Return the word or token of each row of the static encoder that a static head starts from.

    Of rows that stand for none a name that no text has.
    """
    listed = listed_words(tokenizer_json)
    if listed is not None:
        names = [*listed[0]]
    else:
        tokenizer = open_tokenizer(tokenizer_json, where=TOKENIZER)
        names = [name or "" for name in vocabulary_of(tokenizer).tokens[: number_of_ids(tokenizer)]]
    names += [""] * (n_rows - len(names))
    return [name or f"row {place}" for place, name in enumerate(names)]


def _scaled(found: tuple[Floats, npt.NDArray[np.bool_]], factor: np.float32) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return guessed vectors in the size of the table."""
    return found[0] * factor, found[1]
