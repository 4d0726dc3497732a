"""`wordpipe train static`: tokens → model, a table of vectors whose sums encode texts.

the rows     words of the text, or the tokenizer's tokens: `_words`, `_tokens`
the start    word vectors, random directions, latent directions side by side: `_first_table`; an earlier table; or what
             another encoder teaches: `distil.py`
the training `StaticLearner` of `training/contrastive`
the folder   which sentence-transformers loads: `_write`
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, read_batches, row_count
from wordpipe.encoders import (
    TABLE_FILE,
    UNKNOWN_PAIRS,
    listed_words,
    sentence_transformers_files,
    static_files,
    static_table,
    unspaced_share,
    word_tokenizer,
)
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search import Analyser, recognised_language
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.train.distil import teacher_table
from wordpipe.stages.train.pair_text import IdsOf, check_pairs, contrast_text, pair_kinds, token_ids
from wordpipe.stages.train.run import ending_of, train_on_pairs
from wordpipe.tokens import WordSplitter, is_byte_level, number_of_ids, open_tokenizer, run_splitter, vocabulary_of
from wordpipe.training.contrastive import (
    Finish,
    Pairs,
    PairText,
    StaticLearner,
    continued_table,
    count_stems,
    held_out_pairs,
    join_compounds,
    joined_parts,
    lexical_part,
    lsi_part,
    near_their_stems,
    pair_trainer,
    passage_weights,
    spelled_part,
    word_weights,
)
from wordpipe.training.contrastive.settings import LEAST_STEPS, StaticSettings
from wordpipe.words import WordVectors

Floats = npt.NDArray[np.float32]
_SPACE_MARKS = "Ġ▁#"  # what byte-level, sentencepiece and WordPiece tokenizers put before a token
_SAMPLE = 1_000  # rows that tell the language
_MANY_WORDS = (
    100_000  # different ones; 324,000 of 100 MB of Wikipedia took 10 GB with those that came once, 5 GB without
)
_UNSPACED = 0.05  # of a text's words; names in an English encyclopaedia are less


@public(StaticSettings)
def train_static(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a static encoder of texts without labels: texts that belong together get near vectors, others do not.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `StaticSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_static("run/tokens", output="new/encoder", words="run/words", steps=5)
        >>> with wordpipe.open(made, "model") as encoder:
        ...     encoder.encode(["why does the sea have tides", "the moon pulls the water"]).shape
        (2, 536)
    """
    chosen = StaticSettings.make(settings)
    with open_job("model", output, chosen, run) as job:
        job.arguments = [tokens]
        job.libraries = ("safetensors", "tokenizers", "numpy", "pyarrow", "numba", "PyStemmer")
        source = job.open_input(tokens, ["tokens"])
        job.note_first_texts(source)
        check_pairs(chosen)
        if chosen.words is not None:
            Artifact(chosen.words, ["words"], verify=False).close()
        if chosen.teacher is not None:
            Artifact(chosen.teacher, ["model", "words"], verify=False).close()
        _train(job, source, chosen)
    return job.made


@dataclass(frozen=True)
class _Units:
    """The units that have a row in a static table: words or tokens.

    Attributes:
        words: of each row.
        spelled: how a text has each of them.
        ids_of: texts to rows.
        tokenizer_json: by which other programs find the rows.
        extra: rows after those of the words, which stay zero: the tokenizer's unknown word.
        byte_level: tokens are written in byte letters.
    """

    words: Sequence[str]
    spelled: Sequence[str]
    ids_of: IdsOf
    tokenizer_json: bytes
    extra: int
    byte_level: bool = False


def _train(job: Job, source: Artifact, settings: StaticSettings) -> None:
    """Train a static encoder, and write the model's folder."""
    settings = _with_unit(source, settings)
    # the rows, and the text in them
    units = _words(source, _min_count(job, source, settings)) if settings.unit == "word" else _tokens(source)
    text, given = contrast_text(
        job, source, settings, units.ids_of, vocab_size=len(units.words),
        column="word_ids" if settings.unit == "word" else "ids",
    )  # fmt: skip
    # the first table, and what it learns from
    table_VD = _first_table(job, source, settings, units, text)
    job.counts |= {"words": len(units.words), "parameters": table_VD.size}
    if settings.trains:
        _learn(job, settings, table_VD, Pairs(text, settings, given=given), text)
    # the finish of a table for similarity
    if settings.goal == "similarity" and settings.teacher is None:
        denies = {} if _is_english(units.words, settings.unit, text) else {"negation_weight": 0.0}
        job.facts["finish"] = weights = settings.finish | denies
        table_VD = Finish.of(units.words, weights, byte_level=units.byte_level).apply(table_VD, text)
    _write(job, source, table_VD, units, settings)


def _learn(job: Job, settings: StaticSettings, table_VD: Floats, pairs: Pairs, text: PairText) -> None:
    """Train a static table on pairs, in place."""
    with job.announce_compilation():
        # the training, and what is said of it before the first step
        learner = StaticLearner(pairs, table_VD, settings, held_out=held_out_pairs(settings, text))
        training = pair_trainer(
            learner, settings, pairs.n_pairs, state_dir=job.partial, run_key=job.recipe, ending=ending_of(job)
        )
        # how many passes over the sentences the steps are
        steps, at_once = training.plan.steps, training.plan.batch_size
        passes = f"{steps * at_once / pairs.n_pairs:,.3g} passes over the {pairs.n_pairs:,} sentences"
        if training.limit is not None:
            passes = f"{pairs.n_pairs:,} sentences"
        elif not (settings.steps or settings.epochs or steps > LEAST_STEPS):
            passes += f", because {LEAST_STEPS} steps are the minimum"
        job.note(
            f"static encoder of {len(table_VD):,} {settings.unit}s, width {table_VD.shape[1]}; training: "
            f"{training.length(f'{at_once:,} pairs')} ({passes})"
        )
        train_on_pairs(job, training, pairs)


def _with_unit(source: Artifact, settings: StaticSettings) -> StaticSettings:
    """Return the settings with the unit that auto stands for: tokens where a text has no spaces between its words.

    Raises:
        ConfigError: words were asked for, and more than a twentieth of the text is words of scripts without spaces.
    """
    if settings.unit == "token":
        return settings
    # words that no pattern finds again the encoder would leave out, though it was trained on them
    unspaced = total = 0.0
    for batch in read_batches(source, "words", ["word", "count"]):
        counts = batch["count"].to_numpy()
        unspaced += unspaced_share(batch["word"].to_pylist(), counts) * counts.sum()
        total += counts.sum()
    share = unspaced / max(1, total)
    if settings.unit == "word" and share > _UNSPACED:
        raise ConfigError(
            "--unit word does not work for a script without spaces between words", where=str(source.path),
            got=f"{share:.0%} of the words", expected=f"at most {_UNSPACED:.0%}", hint="leave out --unit",
        )  # fmt: skip
    return settings.model_copy(update={"unit": "token" if share > _UNSPACED else "word"})


def _min_count(job: Job, source: Artifact, settings: StaticSettings) -> int:
    """Return how often a word must come to have a row in the static encoder's table.

    Of a large text, a table has no room for words that came once.
    """
    least = settings.parts.min_count
    if settings.min_count is None and least == 1 and (words := row_count(source, "words")) > _MANY_WORDS:
        job.note(
            f"the text has {words:,} different words, so words that occur only once get no vector (use --min-count 1 "
            "for a vector for every word)"
        )
        return 2
    return least


def _words(source: Artifact, min_count: int) -> _Units:
    """Return the words of the text that are common enough for a row in the static encoder's table."""
    tokenizer = open_tokenizer(source.read(TOKENIZER), where=str(source.path / TOKENIZER))
    words: list[str] = []
    for batch in read_batches(source, "words", ["word", "count"]):  # the commonest first
        often = int((batch["count"].to_numpy() >= min_count).sum())
        words += batch["word"].slice(0, often).to_pylist()
    keep_case = source.fact("keep_case", bool)
    split = WordSplitter(run_splitter(tokenizer), keep_case=keep_case)
    row_of = {word: row for row, word in enumerate(words)}

    def ids_of(texts: Sequence[str]) -> list[list[int]]:
        return [[row_of[word] for word in split(text) if word in row_of] for text in texts]

    return _Units(words, words, ids_of, word_tokenizer(words, keep_case=keep_case), extra=1)


def _tokens(source: Artifact) -> _Units:
    """Return the tokenizer's tokens as the rows of the static table."""
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    tokens = _spelled(tokenizer)
    decoded = tokenizer.decode_batch([[number] for number in range(len(tokens))], skip_special_tokens=True)
    spelled = [text.strip().removeprefix("##") for text in decoded]
    return _Units(tokens, spelled, token_ids(tokenizer), data, extra=0, byte_level=is_byte_level(tokenizer))


def _write(
    job: Job, source: Artifact, table_VD: npt.NDArray[np.float32], units: _Units, settings: StaticSettings
) -> None:
    """Write the static encoder's folder, which sentence-transformers loads as a StaticEmbedding."""
    dim = table_VD.shape[1]
    whole_VD = np.concatenate([table_VD, np.zeros((units.extra, dim), np.float32)])
    files = static_files(whole_VD, units.tokenizer_json, settings.store) | sentence_transformers_files(
        "static", dim=dim
    )
    for name, content in files.items():
        job.write(name, content)
    job.facts |= {
        "encoder": "static", "pooling": "mean", "goal": settings.goal,
        "pairs": pair_kinds(settings) if settings.trains else [UNKNOWN_PAIRS],
        "dim": dim, "unit": settings.unit, "keep_case": source.fact("keep_case", bool),
    }  # fmt: skip


def _first_table(job: Job, source: Artifact, settings: StaticSettings, units: _Units, text: PairText) -> Floats:
    """Return the static table before its first step, (V, D).

    Args:
        job: what the settings name becomes its input.
        source: the tokens.
        settings: which parts, and their weights.
        units: V words or tokens.
        text: gives counts, and the words that occur together.

    Raises:
        ConfigError: no part has a weight.
        InputError: too little text for a part; no word has a vector.
        ArtifactError: a table of another unit.
    """
    # an earlier table, or the stems that parts are made of
    words = units.words
    vectors = None if settings.words is None else _word_part(job, settings, words)
    if settings.init is not None:
        return _table_of(job, settings, words, text)
    # parts side by side: what a teacher says, word vectors, lexical directions, latent directions
    parts: list[tuple[Floats, Floats, float]] = []
    share = settings.parts
    if settings.teacher is not None:
        taught = teacher_table(job, source, settings, text, units.spelled, units.ids_of)
        parts.append((taught, np.ones(len(words), np.float32), 1.0))
        if not (share.lexical or share.lsi):
            return joined_parts(parts, text)
    stems = _stem(words, settings.unit, text, stop_words=settings.word_weighting == "sif")([*words])
    weights, of_stems = _weights(settings, stems, text)
    if vectors is not None and share.words:
        parts.append((near_their_stems(vectors, stems, text.counts), weights, share.words))
    if share.lexical:
        part = lexical_part if settings.goal == "search" else spelled_part
        directions = part(stems, settings.lexical_dim, settings.seed)
        parts.append((directions, of_stems, share.lexical))
    # the latent part needs some text
    if share.lsi:
        job.report("finding latent directions")
        try:
            parts.append((lsi_part(text, settings.lsi_dim, stems), weights, share.lsi))
        except InputError as error:
            if settings.lsi_weight is not None:  # asked for by name
                raise
            job.warn(
                f"there is too little text for latent semantic indexing ({error.got}), so the encoder does not use "
                "latent semantic indexing"
            )
    # the table is the parts side by side
    if not parts:
        raise ConfigError(
            "all initial weights are 0", where="words_weight, lexical_weight, lsi_weight", got="no weight above 0",
            hint="use --words WORDS, or set words_weight, lexical_weight or lsi_weight to a value above 0",
        )  # fmt: skip
    table_VD = joined_parts(parts, text)
    joins = settings.goal == "search" and settings.unit == "word" and settings.teacher is None  # which knows compounds
    return join_compounds(table_VD, words) if joins else table_VD


def _weights(settings: StaticSettings, stems: Sequence[str], text: PairText) -> tuple[Floats, Floats]:
    """Return the first weights of the static encoder's words, (V,), and those in the lexical part."""
    if settings.word_weighting == "idf":
        weights = passage_weights(text, stems)
        return weights, weights
    # a stem weighs as its forms together do; word by word STS fell from 64.3 to 63.8 (see near_their_stems)
    of_stems = word_weights(count_stems(stems, text.counts), settings.sif_a, text.counts.sum())
    return word_weights(text.counts, settings.sif_a), of_stems


def _word_part(job: Job, settings: StaticSettings, words: Sequence[str]) -> Floats:
    """Return the vectors of a words artifact for the static table, zero for words that it lacks."""
    artifact = job.open_input(settings.words, ["words"])  # type: ignore[arg-type]  # the caller has looked
    _check_unit(artifact, settings)
    table = WordVectors.from_batches(read_batches(artifact, "words"))
    rows = np.array([-1 if (row := table.find(word)) is None else row for word in words])
    known = rows >= 0
    if not known.any():
        raise InputError("the words artifact has no vector for any word of this text", where=artifact.path)
    job.counts |= {"words_with_vector": int(known.sum()), "words_without_vector": int((~known).sum())}
    part_VD = np.zeros((len(words), table.dim), np.float32)
    part_VD[known] = table.vectors[rows[known]]
    return part_VD


def _table_of(job: Job, settings: StaticSettings, words: Sequence[str], text: PairText) -> Floats:
    """Return the table of the given static encoder for the words of this training, before its finish, which is made anew."""
    artifact = job.open_input(settings.init, ["model"])  # type: ignore[arg-type]  # the caller has looked
    if artifact.manifest.facts.get("encoder") != "static":
        raise ArtifactError(
            "this model is not a static encoder",
            where=artifact.path,
            hint="to train this model further, use wordpipe train contrastive",
        )
    _check_unit(artifact, settings)
    known, byte_level = _words_of(artifact)
    table_VD = static_table(artifact.read(TABLE_FILE))
    if (weights := artifact.manifest.facts.get("finish")) is not None:
        raw_VD = Finish.of(known, weights, byte_level=byte_level).undo(table_VD[: len(known)])
        table_VD = np.concatenate([raw_VD, table_VD[len(known) :]])
    row_of = {word: row for row, word in enumerate(known)}
    rows = np.array([row_of.get(word, -1) for word in words])
    job.counts |= {"words_from_init": int((rows >= 0).sum()), "words_new": int((rows < 0).sum())}
    new = [word for word, row in zip(words, rows, strict=True) if row < 0]
    stems = _stem(words, settings.unit, text)(new) if new else []
    return continued_table(table_VD, rows, stems, settings.seed)


def _words_of(artifact: Artifact) -> tuple[Sequence[str], bool]:
    """Return the word or token of each row of a given static encoder."""
    data = artifact.read(TOKENIZER)
    if (listed := listed_words(data)) is not None:
        return listed[0], False
    tokenizer = open_tokenizer(data, where=str(artifact.path / TOKENIZER))
    return _spelled(tokenizer), is_byte_level(tokenizer)


def _spelled(tokenizer: Tokenizer) -> list[str]:
    """Return the token of each id; ids that no token has stand for nothing."""
    return [token or "" for token in vocabulary_of(tokenizer).tokens[: number_of_ids(tokenizer)]]


def _check_unit(artifact: Artifact, settings: StaticSettings) -> None:
    """Refuse vectors of words for a static table of tokens, and of tokens for one of words."""
    if (unit := artifact.manifest.facts.get("unit", "word")) != settings.unit:
        raise ArtifactError(
            "the unit of the vectors is different from the unit of this training", where=artifact.path, got=unit,
            expected=settings.unit,
            hint=f"use --unit {unit}, or vectors that were trained with --unit {settings.unit}",
        )  # fmt: skip


def _stem(
    words: Sequence[str], unit: str, text: PairText, *, stop_words: bool = True
) -> Callable[[list[str]], list[str]]:
    """Return a function that stems words of a static table in English, if the text is English; else words are their own stems.

    The stem of a stop word is itself where `stop_words`, else empty.
    """
    analyser = Analyser("english" if _is_english(words, unit, text) else "none")

    def stem(some: list[str]) -> list[str]:
        plain = [_plain_word(word, unit) for word in some]
        return [analyser.stem(word) or (word if stop_words else "") for word in plain]

    return stem


def _is_english(words: Sequence[str], unit: str, text: PairText) -> bool:
    """Return True if the first sentences that a static encoder learns from are English."""
    bounds = zip(text.rows.offsets[:_SAMPLE], text.rows.offsets[1 : _SAMPLE + 1], strict=False)
    texts = (
        " ".join(_plain_word(words[number], unit) for number in text.rows.ids[first:last]) for first, last in bounds
    )
    return recognised_language(texts) == "english"


def _plain_word(word: str, unit: str) -> str:
    """Return a token without its mark, in lower case; a word is itself."""
    return word.lstrip(_SPACE_MARKS).lower() or word if unit == "token" else word
