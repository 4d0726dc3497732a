"""`wordpipe train word2vec`: tokens → words."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.training_text import SourceText
from wordpipe.stages.word_tables import start_from, write_tables
from wordpipe.stages.word_training import TrainingRun
from wordpipe.words.ngrams import NGrams
from wordpipe.words.probe import Probe
from wordpipe.words.settings import Word2VecPlan, Word2VecSettings
from wordpipe.words.step import Training
from wordpipe.words.text import TrainingText, write_text

if TYPE_CHECKING:
    from wordpipe.words.corpus_file import CorpusFiles

__all__ = ["train_word2vec"]

_LIBRARIES = {"native": "numba", "gensim": "gensim", "torch": "torch"}


def train_word2vec(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train word vectors on a tokens artifact.

    A run that was stopped is continued by the same call, exactly where `deterministic` is set.

    Args:
        tokens: a tokens artifact.
        output: folder of the words artifact.
        run: progress, fresh start, verification.
        settings: fields of `Word2VecSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = Word2VecSettings.make(settings)
    backend = "native" if chosen.backend == "auto" else chosen.backend
    if backend == "gensim":
        from wordpipe.words.gensim_backend import require_gensim

        require_gensim()
    with making("words", "train word2vec", output, chosen, run) as job, job.telling_of_compilation():
        job.libraries = (_LIBRARIES[backend], "numpy", "pyarrow")
        source = job.open_input(tokens, ["tokens"])
        before = None if chosen.init is None else job.open_input(chosen.init, ["words"])
        text = SourceText(job, source, chosen)
        plan, words = text.plan, text.spelled()
        _say_defaults(job, chosen, plan)
        ngrams = _ngrams(job, text, words)
        begin = _beginning(job, backend, text, ngrams)

        def begin_from() -> Training:
            training = begin()
            if before is not None:
                start_from(job, training, before, words, ngrams)
            return training

        training = _train(job, begin_from, plan)
        write_tables(job, training, words, text.vocabulary, ngrams, plan)
        job.write(TOKENIZER, source.read(TOKENIZER))  # queries and embed cut unspaced scripts with it
        job.facts |= _facts(source, plan)
    return job.made


def _say_defaults(job: Job, chosen: Word2VecSettings, plan: Word2VecPlan) -> None:
    """What the size of the text decided."""
    names = [name for name in ("window", "epochs", "min_count") if getattr(chosen, name) is None]
    if names:
        words = job.counts["words_kept"] + job.counts["words_dropped_rare"]
        job.note(f"for {words:,} words: {', '.join(f'{name} {getattr(plan, name)}' for name in names)}")


def _ngrams(job: Job, text: SourceText, words: pa.StringArray) -> NGrams | None:
    plan = text.plan
    if not plan.max_n:
        return None
    job.report("finding n-grams")
    ngrams = NGrams.of(words, text.vocabulary.counts, plan.min_n, plan.max_n, plan.max_ngrams)
    job.counts |= {
        "ngrams": len(ngrams.spelled),
        "ngrams_dropped": ngrams.dropped,
        "ngrams_of_one_word": ngrams.of_one_word,
    }
    return ngrams


def _beginning(job: Job, backend: str, text: SourceText, ngrams: NGrams | None) -> Callable[[], Training]:
    """What gives the training as it is before its first step."""
    plan, vocabulary, probe = text.plan, text.vocabulary, _probe(text)
    if backend == "gensim":
        from wordpipe.words.gensim_backend import GensimTraining

        files = _write_for_gensim(job, text)
        return lambda: GensimTraining(files, vocabulary, plan, probe)
    written = _write_text(job, text)
    if backend == "torch":
        from wordpipe.words.torch_backend.training import TorchTraining

        return lambda: TorchTraining(written, vocabulary, plan, probe, plan.device)
    from wordpipe.words.native.training import NativeTraining, Parts

    parts = [] if ngrams is None else [Parts(ngrams.part_starts, ngrams.parts, len(ngrams.spelled))]
    return lambda: NativeTraining(written, vocabulary, plan, probe, *parts)


def _write_for_gensim(job: Job, text: SourceText) -> "CorpusFiles":
    from wordpipe.words.corpus_file import part_words, write_corpus_files
    from wordpipe.words.gensim_backend import threads_of
    from wordpipe.words.lines import cut_lines

    folder = Path(job.scratch) / "text"
    folder.mkdir()
    files = write_corpus_files(
        cut_lines(text.rows("train", "preparing")),
        folder,
        vocab_size=len(text.vocabulary),
        words_per_part=part_words(text.vocabulary.tokens, threads_of(text.plan)),
    )
    job.counts |= {"texts": files.texts, "texts_cut_for_length": files.cuts}
    return files


def _write_text(job: Job, text: SourceText) -> TrainingText:
    written = write_text(text.rows("train", "preparing"), Path(job.scratch) / "text.rows")
    job.counts["texts"] = written.texts
    return written


def _probe(text: SourceText) -> Probe | None:
    """What the held-out loss is measured on, where text is held out."""
    return Probe.sample(text.rows("valid"), text.vocabulary, text.plan, split="valid")


def _train(job: Job, begin: Callable[[], Training], plan: Word2VecPlan) -> Training:
    run = TrainingRun(job, begin, plan, job.counts["distinct_kept"])
    run.resume()
    training = run.training
    job.threads, job.bitwise, job.device = training.threads, training.bitwise, training.device
    run.run()
    return run.training


def _facts(source: Artifact, plan: Word2VecPlan) -> dict[str, Any]:
    """What readers of the artifact need to know."""
    return {
        "dim": plan.dim, "unit": plan.unit, "keep_case": source.manifest.facts["keep_case"],
        "window": plan.window, "epochs": plan.epochs, "min_count": plan.min_count, "lr": plan.lr,
        "min_n": plan.min_n if plan.max_n else 0, "max_n": plan.max_n, "phrases": plan.phrases,
        "vectors": plan.vectors, "remove_components": plan.remove_components,
        "outputs": plan.keep_outputs and plan.loss != "hs",
    }  # fmt: skip
