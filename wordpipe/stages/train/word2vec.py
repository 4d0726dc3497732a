"""`wordpipe train word2vec`: tokens → words."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import (
    STEPS,
    TOKENIZER,
    VOCABULARY,
    Artifact,
    Checkpoint,
    Checkpoints,
    array_blocks,
    matrix_of,
    ngrams_schema,
    read_batches,
    read_schema,
    row_count,
    vector_batches,
    vectors_schema,
    words_schema,
)
from wordpipe.errors import ArtifactError, DivergedError, InputError
from wordpipe.pace import COOL_DOWN, now
from wordpipe.runtime import stop_signal
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.tokens import number_of_ids, open_tokenizer
from wordpipe.words import (
    COLUMN_OF_UNIT,
    CommonPart,
    HeldOutLoss,
    NativeTraining,
    NGrams,
    Parts,
    Step,
    Vocabulary,
    Words,
    count_ids,
    kept_rows,
    read_words,
    write_text,
)
from wordpipe.words.settings import Word2VecPlan, Word2VecSettings

if TYPE_CHECKING:
    from wordpipe.words import GensimTraining

Training: TypeAlias = "NativeTraining | GensimTraining"
Floats = npt.NDArray[np.float32]

_LIBRARIES = {"native": "numba", "gensim": "gensim"}
_STATE = "state.json"
_STRETCH = 200_000  # words after which gensim is asked for its pace
_SECONDS_PER_SAVING = 20  # a checkpoint that takes longer than a second may cost a twentieth of the time


class _SourceText:
    """The words of a tokens artifact for word2vec; `job` gets how far the reading is, and the counts.

    Attributes:
        plan: the settings with nothing left open.
        vocabulary: the words that get vectors.
    """

    def __init__(self, job: Job, source: Artifact, settings: Word2VecSettings) -> None:
        self._job, self._source, self._settings = job, source, settings
        self._words = _spellings(source, settings.unit)
        counts = count_ids(self._rows("counting"), len(self._words), column=COLUMN_OF_UNIT[settings.unit])
        self.plan = settings.plan(int(counts.sum()))
        self.vocabulary = Vocabulary.keep(counts, self.plan.min_count)
        job.counts |= {
            "words_kept": self.vocabulary.tokens,
            "words_dropped_rare": self.vocabulary.dropped_tokens,
            "distinct_kept": len(self.vocabulary),
            "distinct_dropped_rare": self.vocabulary.dropped_kinds,
        }

    def spelled(self) -> pa.StringArray:
        """Return the word of every row of the vocabulary."""
        return self._words.take(pa.array(self.vocabulary.ids))

    def rows(self, split: str, phase: str | None = None) -> Iterator[Words]:
        """Yield the text of a split as rows of the vocabulary; the reading is reported as `phase`."""
        column = COLUMN_OF_UNIT[self._settings.unit]
        ids = read_words(self._rows(phase), column=column, context=self._settings.context, split=split)
        yield from kept_rows(ids, self.vocabulary.row_of_id)

    def _rows(self, phase: str | None) -> Iterator[pa.RecordBatch]:
        read_schema(self._source, "tokens")
        total, done = row_count(self._source, "tokens"), 0
        column = COLUMN_OF_UNIT[self._settings.unit]
        for batch in read_batches(self._source, "tokens", ["doc_id", "sentence_id", "split", column]):
            yield batch
            done += len(batch)
            if phase is not None:
                self._job.report(phase, done, total, "sentences")


@public(Word2VecSettings)
def train_word2vec(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train word vectors on a tokens artifact.

    A run that was stopped is continued by the same call, exactly where `deterministic` is set.

    Args:
        tokens: a tokens artifact.
        output: folder of the words artifact.
        run: progress, fresh start, verification.
        settings: fields of `Word2VecSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_word2vec("run/tokens", output="new/words", architecture="cbow", dim=16, epochs=1)
        >>> with wordpipe.open(made, "words") as words:
        ...     words["water"].shape
        (16,)
    """
    chosen = Word2VecSettings.make(settings)
    # the backend
    backend = "native" if chosen.backend == "auto" else chosen.backend
    if backend == "gensim":
        from wordpipe.words import GensimTraining, require_gensim

        require_gensim()
    with open_job("words", output, chosen, run) as job, job.announce_compilation():
        job.libraries = (_LIBRARIES[backend], "numpy", "pyarrow")
        job.arguments = [tokens]
        source = job.open_input(tokens, ["tokens"])
        job.note_first_texts(source)
        before = None if chosen.init is None else job.open_input(chosen.init, ["words"])

        # the vocabulary
        text = _SourceText(job, source, chosen)
        plan, vocabulary, words = text.plan, text.vocabulary, text.spelled()
        _note_defaults(job, chosen, plan)
        # n-grams, where words have parts
        ngrams, parts = None, []
        if plan.max_n:
            ngrams = NGrams.of(
                words, vocabulary.counts, plan.min_n, plan.max_n, plan.max_ngrams,
                report=lambda done, total: job.report("finding n-grams", done, total, "passes"),
            )  # fmt: skip
            parts = [Parts(*ngrams.parts_of_all(words), len(ngrams))]
            job.counts |= {
                "ngrams": len(ngrams), "ngrams_dropped": ngrams.dropped, "ngrams_of_one_word": ngrams.of_one_word,
            }  # fmt: skip
        # held-out text, and the text itself as rows
        held_out = HeldOutLoss.sample(text.rows("valid"), vocabulary, plan, split="valid")  # None: no text is held out
        written = write_text(text.rows("train", "preparing"), Path(job.scratch) / "text.rows")
        job.counts["texts"] = written.texts

        def begin() -> Training:
            """Return the word2vec training as it is before its first step."""
            if backend == "gensim":
                return GensimTraining(written, vocabulary, plan, held_out)
            training = NativeTraining(written, vocabulary, plan, held_out, *parts)
            if before is not None:
                _start_from(job, training, before, words, ngrams)
            return training

        # train, from the last checkpoint if there is one
        training_run = TrainingRun(job, begin, plan, job.counts["distinct_kept"])
        training_run.resume()
        training = training_run.training
        job.threads, job.bitwise = training.threads, training.bitwise
        training_run.run()
        # the tables, and the facts that readers need
        _write_tables(job, training, words, vocabulary, ngrams, plan)
        job.write(TOKENIZER, source.read(TOKENIZER))  # queries and embed cut unspaced scripts with it
        job.facts |= _facts(source, plan)
    return job.made


def _note_defaults(job: Job, chosen: Word2VecSettings, plan: Word2VecPlan) -> None:
    """Say which settings of word2vec the size of the text decided."""
    names = [name for name in ("window", "epochs", "min_count") if getattr(chosen, name) is None]
    if names:
        words = job.counts["words_kept"] + job.counts["words_dropped_rare"]
        job.note(f"defaults for a text of {words:,} words: {', '.join(f'{one} {getattr(plan, one)}' for one in names)}")


def _facts(source: Artifact, plan: Word2VecPlan) -> dict[str, Any]:
    """Return the facts of word vectors that readers of the artifact need."""
    return {
        "dim": plan.dim, "unit": plan.unit, "keep_case": source.fact("keep_case", bool),
        "window": plan.window, "epochs": plan.epochs, "min_count": plan.min_count, "lr": plan.lr,
        "min_n": plan.min_n if plan.max_n else 0, "max_n": plan.max_n,
        "vectors": plan.vectors, "remove_components": plan.remove_components,
        "outputs": plan.keep_outputs and plan.loss != "hs",
    }  # fmt: skip


def _spellings(source: Artifact, unit: Literal["word", "token"]) -> pa.StringArray:
    """Return the word (or token) of every id of the tokens that word2vec learns from."""
    if unit == "token":
        tokenizer = open_tokenizer(source.read(TOKENIZER), where=str(source.path / TOKENIZER))
        return pa.array([tokenizer.id_to_token(number) or f"<{number}>" for number in range(number_of_ids(tokenizer))])
    words = [batch.column("word") for batch in read_batches(source, "words", ["word"], expected=VOCABULARY)]
    return pa.concat_arrays(words) if words else pa.array([], pa.string())


def _write_tables(
    job: Job, training: Training, words: pa.StringArray, vocabulary: Vocabulary, ngrams: NGrams | None, plan: Word2VecPlan
) -> None:  # fmt: skip
    """Write the words with their vectors, the n-grams with theirs, and what `--init` needs to go on."""
    vectors_VD = training.outputs if plan.vectors == "outputs" else training.vectors
    if plan.vectors == "sum":
        vectors_VD = vectors_VD + training.outputs
    ngrams_GD = training.ngrams if isinstance(training, NativeTraining) else np.zeros((0, plan.dim), dtype=np.float32)
    if plan.remove_components:
        common = CommonPart.of(vectors_VD, plan.remove_components)
        vectors_VD, ngrams_GD = common.removed_from(vectors_VD), common.removed_from(ngrams_GD)
    _write_vectors(job, "words", words_schema(plan.dim, plan.store), vectors_VD, words, pa.array(vocabulary.counts))
    if ngrams is not None:
        _write_vectors(job, "ngrams", ngrams_schema(plan.dim, plan.store), ngrams_GD, ngrams.spelled)
    if plan.keep_outputs and plan.loss != "hs":
        _write_vectors(job, "outputs", vectors_schema(plan.dim, plan.store), training.outputs)


def _start_from(
    job: Job, training: NativeTraining, old: Artifact, words: pa.StringArray, ngrams: NGrams | None
) -> None:
    """Fill a fresh word2vec training with the vectors of another words artifact.

    Raises:
        ArtifactError: its vectors cannot be trained further, are of another kind, or of other words.
    """
    # the words of both
    _refuse_misfit(job, old)
    arrays, dim = training.arrays(), old.fact("dim", int, least=1)
    rows = _rows_in(old, "words", "word", words)
    found = np.zeros(len(words), dtype=np.bool_)
    found[rows[rows >= 0]] = True
    if not found.any():
        hint = "leave out --init, or use the tokens artifact on which the vectors were trained"
        raise ArtifactError("this text contains no word of the words artifact", where=old.path, hint=hint)
    # their vectors, output vectors and n-grams
    _copy(old, "words", rows, arrays["inputs"][:, :dim])
    if old.manifest.facts.get("outputs") and job.settings.model_dump()["loss"] != "hs":
        _copy(old, "outputs", rows, arrays["outputs"][:, :dim])
    else:
        job.warn("the output vectors start at zero, because the words artifact has no output vectors or loss is hs")
    if ngrams is not None:
        _copy(old, "ngrams", _rows_in(old, "ngrams", "ngram", ngrams.spelled), arrays["ngrams"][:, :dim])
        training.subtract_ngrams(found)
    # what was taken, and what was left out
    job.counts |= {"words_from_init": int(found.sum()), "words_new": len(words) - int(found.sum())}
    job.counts["words_of_init_left_out"] = left_out = int((rows < 0).sum())
    if left_out:
        job.warn(f"{left_out:,} of the {len(rows):,} words of --init are left out (rare or missing in this text)")


def _write_vectors(job: Job, stem: str, schema: pa.Schema, vectors_VD: Floats, *columns: pa.Array) -> None:
    with job.table(stem, schema) as table:
        for batch in vector_batches(schema, vectors_VD, *columns):
            table.write(batch)


def _refuse_misfit(job: Job, old: Artifact) -> None:
    """Refuse vectors that this training of word vectors cannot start from."""
    facts, settings = old.manifest.facts, job.settings.model_dump()
    wanted = {
        "dim": settings["dim"], "unit": settings["unit"], "vectors": "inputs", "remove_components": 0,
        "max_n": settings["max_n"], "min_n": settings["min_n"] if settings["max_n"] else 0,
    }  # fmt: skip
    found = {"vectors": "inputs", "remove_components": 0, "max_n": 0, "min_n": 0} | dict(facts)
    for name in ("vectors", "remove_components"):
        if found[name] != wanted[name]:
            what = "these vectors were changed after their training, so their training cannot be continued"
            hint = f"use --{name.replace('_', '-')} only in the last training, not for the vectors of --init"
            raise ArtifactError(what, where=old.path, got=f"{name} = {found[name]}", hint=hint)
    for name, value in wanted.items():
        if found.get(name) != value:
            what = f"the training cannot start from these vectors, because {name} is different"
            hint, expected = "use the settings of the first training, or leave out --init", f"{name} = {value}"
            raise ArtifactError(what, where=old.path, got=f"{name} = {found.get(name)}", expected=expected, hint=hint)


def _rows_in(old: Artifact, stem: str, column: str, spelled: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return for every row of an old words table the row of `spelled` with the same word, (N,), -1 for none.

    All at once: each look-up builds a table of all that is spelled first, 30 ms for 400,000 words.
    """
    there = [batch.column(column) for batch in read_batches(old, stem, [column])]
    found = pc.index_in(pa.chunked_array(there, pa.string()), value_set=spelled)
    rows: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return rows


def _copy(old: Artifact, stem: str, rows: npt.NDArray[np.int64], target_VD: Floats) -> None:
    """Copy the word vectors of an old table to these rows, those at -1 to nowhere."""
    done = 0
    for batch in read_batches(old, stem, ["vector"]):
        here = rows[done : done + len(batch)]
        target_VD[here[here >= 0]] = matrix_of(batch.column("vector"))[here >= 0]
        done += len(batch)


class TrainingRun:
    """The run of a training of word vectors to its end, or to a stop signal; its state is kept beside the output.

    `begin` gives the training as it is before its first step; the job's recipe says which checkpoints are of it.
    """

    def __init__(self, job: Job, begin: Callable[[], Training], plan: Word2VecPlan, distinct: int) -> None:
        self.training = begin()
        self._job, self._begin, self._plan = job, begin, plan
        self._checkpoints = Checkpoints(job.partial, job.recipe, about=job.about)
        self._limit = job.limit if job.run.finish is None else None
        self._replanned = False
        if self._limit is not None:
            passes = self.training.total // plan.epochs
            self._limit.wanting(self.training.total, passes)  # words that were never read would be as they began
            if not self.training.arrays():  # gensim, which is asked after each stretch
                self.training.stretch = min(passes, _STRETCH)  # type: ignore[union-attr]
        self._chance_loss = math.log(2) * (1 + plan.negatives) if plan.loss == "ns" else math.log(max(distinct, 2))
        self._log: list[dict[str, Any]] = []
        self._distinct = distinct
        self._seconds_before = 0.0
        self._saved_at = time.monotonic()
        self._last = now()  # when there was a step
        self._between = plan.checkpoint_seconds

    def resume(self) -> None:
        """Fill the word2vec training with the newest checkpoint of the same recipe, if there is one."""
        state = self._checkpoints.restore(self._load) if self.training.arrays() else None
        for note in self._checkpoints.notes:
            self._job.warn(note)
        if state is None:
            if self._job.run.finish is not None:
                raise self._checkpoints.nothing_to_finish()
            if self._checkpoints.tried:  # a refused checkpoint may have left anything in the arrays
                del self.training  # before there is another as large
                self.training = self._begin()
            return
        self.training.progress = state["progress"]
        self._log, self._seconds_before = state["log"], state["seconds"]
        self.training.bitwise &= state["bitwise"] and state["threads"] == self.training.threads
        self.training.total = state.get("total", self.training.total)
        if self._job.run.finish is not None:
            self._end_early(int(state["progress"]["words"]))
            return
        if self._limit is not None:
            self._limit.go_on(state["limit"])
        self._job.note(f"continuing a stopped run at {int(state['progress']['words']):,} words")

    def _end_early(self, done: int) -> None:
        """End a stopped run of word2vec where it is, or after a tenth more of its words."""
        planned = self.training.total
        assert isinstance(self.training, NativeTraining), "the other backend keeps no checkpoints"
        if done == 0:
            raise self._checkpoints.nothing_to_finish()
        if done < planned:
            more = min(round(COOL_DOWN * done), planned - done) if self._job.run.finish == "cool-down" else 0
            self.training.end_early(more)
            cooled = f"; the learning rate falls in {more:,} more words" if more else ""
            self._job.note(f"ending a stopped run after {done:,} of {planned:,} words{cooled}")
            self._job.end_early(done, planned, more)
            self.training.bitwise = False

    def run(self) -> None:
        """Run `train word2vec` to the end: reports, checkpoints, the pace.

        Raises:
            Stopped: a stop signal came; what was learned is kept where the backend can go on from it.
            DivergedError: the loss is far above that of guessing, or the vectors are no longer finite.
            InputError: nothing predicted anything.
        """
        last: Step | None = None  # stays None where only the end of a run was left to do
        # what a stop signal says
        note = "saving and stopping (press Ctrl-C again to stop now)"
        if not self.training.arrays():
            note = "stopping without saving, because this backend cannot continue a stopped training"
        if self._limit is not None:
            self._limit.refuse_past()
        # step after step: the pace, the log, checkpoints, the progress line
        with stop_signal(lambda _: self._job.note(note)) as flag:
            for step in self.training.steps(flag, lambda: self._replanned or self._is_save_due()):  # when threads rest
                self._follow_pace(step)
                if step.loss is not None:
                    self._add_to_log(step, step.loss)
                # a checkpoint, while the threads rest
                saving = flag.signum is not None or (self._is_save_due() and step.tokens < step.total)
                if step.resting and saving:
                    self._save(step)
                    flag.raise_if_set(saved=self._saved)
                self._report(step)
                last = step
            if flag.signum is not None and last is not None and last.resting:
                self._save(last)
            flag.raise_if_set(saved=self._saved)
        # a training in which nothing was predicted is none
        losses = self._losses()
        if self.training.arrays() and "train" not in losses:
            hint = "use a higher --subsample (0 keeps all words), a lower --min-count, or --context document"
            if self._distinct < 2:
                hint = "the text has only one frequent word, so add more text with different words"
            raise InputError("no word has a neighbouring word, so nothing can be learned", hint=hint)
        # what is recorded of the run
        if last is not None:
            self._job.rates = {"words_per_s": round(self._words_per_second(last), 1)}
        names = {"train": "loss", "valid": "valid_loss"}
        if self._limit is not None:
            self._job.facts["within"] = self._limit.facts(self.training.total)
            self._job.bitwise &= self.training.total == self._limit.most
        self._job.metrics = {names[split]: round(loss, 6) for split, loss in losses.items()}
        with self._job.table("steps", STEPS, single=True, log=True) as log:
            log.write(pa.RecordBatch.from_pylist(self._log, schema=STEPS))

    @property
    def _saved(self) -> str | None:
        """Return the folder of the newest checkpoint."""
        return None if self._checkpoints.newest is None else str(self._checkpoints.newest)

    def _is_save_due(self) -> bool:
        if self._job.run.finish is not None:  # nothing is saved, and threads need not rest
            return False
        return time.monotonic() - self._saved_at >= self._between

    def _follow_pace(self, step: Step) -> None:
        """Plan the words that word2vec trains in a limit of time, as soon as the pace is known."""
        self._replanned = self._replanned and not step.resting
        if self._limit is None:
            return
        apart, before, self._last = self._limit.apart, self._last, now()
        if step.split == "valid":  # measured since the step before; gensim has trained then, too
            apart["validation"] = self._last - before
        if step.tokens >= self.training.total:
            return
        arrays = self.training.arrays() or {"vectors": self.training.vectors}
        closing = 2 * self._limit.saving(sum(one.nbytes for one in arrays.values())) + apart.get("validation", 0.0)
        total = self._limit.replanned(step.tokens, closing=closing)
        if total is not None:
            self.training.total, self._replanned = total, True
            words = f"{total:,} words ({total / self._limit.fewest:.3g} passes over the text)"
            changed = "the training speed has changed: " if len(self._limit.planned) > 1 else ""
            if self._limit.is_news() and (changed or total < self._limit.most):
                self._job.note(f"{changed}{words} fit into the time limit of {self._limit.shown}")

    def _save(self, step: Step) -> None:
        """Save the state of the word2vec training; how long that takes decides when it is done again."""
        if self._job.run.finish is not None:  # the stopped run stays where it was
            return
        start = time.monotonic()
        state = {
            "total": self.training.total, **({} if self._limit is None else {"limit": self._limit.log()}),
            "progress": self.training.progress, "log": self._log, "threads": self.training.threads,
            "bitwise": self.training.bitwise, "seconds": self._seconds_before + step.seconds,
        }  # fmt: skip
        files = [(f"{name}.f32", array_blocks(array)) for name, array in self.training.arrays().items()]
        self._checkpoints.about["steps"] = self.training.total
        with nullcontext() if self._limit is None else self._limit.beside("saving"):
            self._checkpoints.save(step.tokens, [*files, (_STATE, [json.dumps(state).encode()])])
        self._saved_at = time.monotonic()
        took = self._saved_at - start
        self._between = max(self._plan.checkpoint_seconds, _SECONDS_PER_SAVING * took if took > 1 else 0)

    def _load(self, checkpoint: Checkpoint) -> dict[str, Any]:
        for name, array in self.training.arrays().items():
            checkpoint.read_into(f"{name}.f32", array)
        state: dict[str, Any] = json.loads(checkpoint.read_bytes(_STATE))
        return state

    def _add_to_log(self, step: Step, loss: float) -> None:
        """Log a loss of word2vec; one far above that of guessing ends the training."""
        if loss > 2 * self._chance_loss:
            where, got, expected = f"epoch {step.epoch}", f"{loss:.4g} nats", f"less than {self._chance_loss:.4g}"
            what, hint = "the loss is far above the loss of random guessing", f"use a lower --lr (now {self._plan.lr})"
            raise DivergedError(what, where=where, got=got, expected=expected, hint=hint)
        self._log.append(
            {"step": step.epoch, "tokens": step.tokens, "split": step.split, "loss": loss, "lr": step.lr,
             "seconds": self._seconds_before + step.seconds}
        )  # fmt: skip

    def _report(self, step: Step) -> None:
        """Report the progress of `train word2vec`, with the last losses."""
        speed = f"{self._words_per_second(step):,.0f}"
        figures = {"epoch": str(step.epoch), "lr": f"{step.lr:.4f}", "words/s": speed}
        figures |= {f"{split} loss": f"{loss:.4f}" for split, loss in self._losses().items()}
        self._job.report("training", step.tokens, step.total, "words", **figures)

    def _losses(self) -> dict[str, float]:
        """Return the last loss of each split."""
        return {row["split"]: row["loss"] for row in self._log}

    def _words_per_second(self, step: Step) -> float:
        return step.tokens / max(self._seconds_before + step.seconds, 1e-9)
