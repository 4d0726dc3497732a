"""`wordpipe train seq2seq` and `wordpipe train denoising`: tokens → encoder-decoder, in one process or several."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from wordpipe.artifacts import TARGET, TOKENIZER, TOKENIZER_B, Artifact, read_schema
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model import (
    GENERATION,
    EncoderDecoder,
    PairStyle,
    generation_config,
    new_encoder_decoder,
    pad_vocab,
    transformers_class,
    why_no_class,
)
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import without_memory
from wordpipe.stages.calls import public
from wordpipe.stages.job import Job, Made, PathLike, RunOptions
from wordpipe.stages.train.pair_files import Prefixes, corpus_of, count_pairs, note_pairs, write_pairs
from wordpipe.stages.train.run import (
    SPLITS,
    compare_with_frequencies,
    refuse_too_large,
    special_ids,
    train_together,
    write_token_streams,
)
from wordpipe.tokens import (
    FRAMES,
    N_SENTINELS,
    framed_tokenizer,
    number_of_ids,
    open_tokenizer,
    sentinel_ids,
    text_ids,
    transformers_files,
    with_sentinels,
)
from wordpipe.training import (
    Blocks,
    Denoising,
    Execution,
    LanguageLearner,
    PairBlocks,
    Pairs,
    PairWriter,
    Snapshot,
    SpanCorruption,
    SpecialIds,
    Stream,
    TextInfilling,
    Trainer,
    assemble_learner,
    model_config,
    open_ids,
    open_pairs,
    open_starts,
    row_starts,
    trained_shape,
    unigram_entropy,
)
from wordpipe.training.settings import DenoisingSettings, PairSettings, Seq2SeqSettings

_STYLES: dict[str, PairStyle] = {"t5": "t5", "learned": "bart"}  # of a model that is given, by its positions


@public(Seq2SeqSettings)
def train_seq2seq(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train an encoder-decoder on pairs: translations, titles, answers.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact of pairs: its corpus has a second text (`ingest --text-b`, `ingest --parallel`).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `Seq2SeqSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> pairs = [{"text": f"{i} und {i}", "text_b": f"{i} and {i}"} for i in range(40)]
        >>> _ = wordpipe.ingest(pairs, output="new/pairs", text_b="text_b")
        >>> _ = wordpipe.tokenize("new/pairs", output="new/pair-tokens", vocab_size=300)
        >>> made = wordpipe.train_seq2seq("new/pair-tokens", output="new/seq2seq", preset="tiny", steps=2, batch_size=8)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    chosen = Seq2SeqSettings.make(settings)
    return train_together(output, chosen, run, tokens, lambda job: _prepare(job, tokens, chosen))


@public(DenoisingSettings)
def train_denoising(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train an encoder-decoder without pairs: it restores texts that were damaged.

    The model is a start for `train_seq2seq`, and fills gaps. A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `DenoisingSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_denoising("run/tokens", output="new/denoiser", preset="tiny", steps=2, seq_len=64)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    chosen = DenoisingSettings.make(settings)
    return train_together(output, chosen, run, tokens, lambda job: _prepare_denoising(job, tokens, chosen))


@dataclass(frozen=True)
class _Start:
    """A training of an encoder-decoder before its first step.

    Attributes:
        source: the tokens artifact.
        tokenizer: its tokenizer.
        tokenizer_json: the file of that.
        special: its special ids.
        model: with its first weights.
        settings: how to train.
        style: of the model.
        frame: roles of what stands before and after a source, see `FRAMES`.
        begin: the end of the finished training that is extended, or None.
        target: the tokenizer of the second texts, and its file; None where it is the same.
        seq_len: most positions of a text.
    """

    source: Artifact
    tokenizer: Tokenizer
    tokenizer_json: bytes
    special: SpecialIds
    model: EncoderDecoder
    settings: PairSettings
    style: PairStyle
    frame: tuple[str, str]
    begin: Snapshot | None
    target: tuple[Tokenizer, bytes] | None
    seq_len: int

    @property
    def n_tokens(self) -> int:
        """Ids of the tokenizer."""
        return number_of_ids(self.tokenizer)

    @property
    def n_target_tokens(self) -> int:
        """Ids of the tokenizer of the second texts; 0 where it is the same."""
        return number_of_ids(self.target[0]) if self.target else 0

    @property
    def start_id(self) -> int:
        """What the decoder begins with."""
        assert self.model.config.start_id is not None
        return self.model.config.start_id

    def entropy_of(self, counts_V: npt.NDArray[np.number]) -> float:
        """What the loss should fall below, where these are the labels."""
        return unigram_entropy(counts_V, self.settings.label_smoothing)

    def note_shape(self, job: Job, trainer: Trainer[LanguageLearner], what: str) -> None:
        """Say and record what is going to be trained."""
        config, plan = self.model.config, trainer.plan
        weights = sum(weight.numel() for weight in self.model.parameters())
        job.counts |= {"steps": plan.steps, "parameters": weights}
        job.device = str(trainer.execution.device)
        job.facts |= {
            "n_layers": config.n_layers, "n_decoder_layers": config.n_decoder_layers, "n_heads": config.n_heads,
            "ffn_dim": config.ffn_dim, "positions": config.positions, "seq_len": self.seq_len,
            "batch_size": plan.batch_size, "lr": plan.lr, "dtype": trainer.execution.facts()["dtype"],
            "processes": trainer.world.size,
        }  # fmt: skip
        several = "" if trainer.world.is_alone else f", {trainer.world.size} processes"
        job.note(
            f"encoder-decoder of {config.n_layers} + {config.n_decoder_layers} layers, width {config.dim}, "
            f"{weights / 1e6:.1f}M weights: {trainer.length(f'{plan.batch_size:,} {what}')}, on {job.device} in "
            f"{job.facts['dtype']}{several}"
        )
        if transformers_class(config) is None:
            job.warn(why_no_class(config))
        if trainer.extended_from is not None:
            job.facts["extended_from"] = trainer.extended_from

    def tokenizer_files(self) -> dict[str, bytes]:
        """The tokenizer, which frames a source as in training; that of the targets; and how transformers is to write these."""
        config = self.model.config
        ids = config.special_ids | {"unk": self.special.unk}
        tokenizer, names = framed_tokenizer(self.tokenizer_json, ids, frame=self.frame, vocab_size=config.vocab_size)
        files = transformers_files(tokenizer, names, max_len=config.max_len)
        if self.target is not None:  # labels end as in training, and nothing stands before them
            ids |= {"unk": special_ids(self.target[0], "encoder-decoder").unk}
            size, frame = config.decoder_vocab_size, FRAMES["source"]
            tokenizer, names = framed_tokenizer(self.target[1], ids, frame=frame, vocab_size=size)
            its_files = transformers_files(tokenizer, names, max_len=config.max_len)
            files |= {TARGET + name: content for name, content in its_files.items()}
        if transformers_class(config) is None:
            return files
        special = {number for number in ids.values() if number is not None}
        may_come = text_ids(tokenizer, special, config.decoder_vocab_size or config.vocab_size)
        learned = sentinel_ids(tokenizer) if isinstance(self.settings, DenoisingSettings) else []
        may_come[[self.special.need("eos"), *learned]] = True
        beams = GenerateSettings().of_pairs().beams
        assert beams is not None, "the settings say a number"
        suppressed = np.flatnonzero(~may_come).tolist()
        return files | {GENERATION: generation_config(config, suppressed=suppressed, beams=beams)}


@dataclass(frozen=True)
class _OnPairs(_Start):
    """The second text is learned from the first.

    Attributes:
        prefixes: what stands before each source.
    """

    prefixes: Prefixes

    def write_inputs(self, job: Job) -> None:
        """The pairs as flat files that are mapped into memory."""
        before, after = (tuple(self.special.need(role) for role in (one,) if role) for one in self.frame)
        end = (self.special.need("eos"),)
        writers = {
            split: PairWriter(
                job.scratch / split, vocab_size=self.n_tokens, before=before, after=after, end=end,
                max_len=self.seq_len, target_vocab_size=self.n_target_tokens,
            )
            for split in SPLITS
        }  # fmt: skip
        empty = write_pairs(job, self.source, writers, self.prefixes)
        long_source, long_target = (sum(writer.left_out[side] for writer in writers.values()) for side in (0, 1))
        left_out = {"empty": empty, "long_source": long_source, "long_target": long_target}
        count_pairs(job, writers, left_out, self.seq_len)

    def trainer(self, folder: Path, execution: Execution, **given: Any) -> Trainer[LanguageLearner]:
        """The training on what the first process wrote to a folder."""
        train, valid = (open_pairs(folder / split, self.n_tokens, self.n_target_tokens) for split in SPLITS)
        objective = Pairs(start_id=self.start_id, device=execution.device)
        return assemble_learner(
            self.settings, self.model, train, valid if len(valid) else None, objective=objective,
            valid_objective=objective, execution=replace(execution, compiled=False), begin=self.begin,
            unigram_entropy=self.entropy_of(self._label_counts(train)), **given,
        )  # fmt: skip

    def _label_counts(self, blocks: PairBlocks) -> npt.NDArray[np.int64]:
        return blocks.label_counts(self.n_target_tokens or self.n_tokens)

    def announce(self, job: Job, trainer: Trainer[LanguageLearner]) -> None:
        """Say and record what is going to be trained."""
        blocks = trainer.learner.blocks
        assert isinstance(blocks, PairBlocks)
        self.note_shape(job, trainer, f"pairs, {blocks.seq_len:,} tokens each")
        compare_with_frequencies(job, self._label_counts(blocks), trainer.plan.label_smoothing)
        note_pairs(job, len(blocks), trainer.plan.batch_size)


@dataclass(frozen=True)
class _OnDamage(_Start):
    """A text is learned from what a corruption leaves of it.

    Attributes:
        corruption: what damages the sequences.
        raw_len: tokens of a sequence before.
        streams: what was written.
    """

    corruption: SpanCorruption | TextInfilling
    raw_len: int
    streams: dict[str, Stream] = field(default_factory=dict)

    def write_inputs(self, job: Job) -> None:
        """The training and held-out ids as flat files: of BART with the end of a text after each document, of T5 without.

        So T5's inputs are all of one length, as no span is cut in two by an end.
        """
        is_bart = self.style == "bart"
        streams = write_token_streams(
            job, self.source, vocab_size=self.n_tokens, after=(self.special.need("eos"),) if is_bart else (),
            find_starts=row_starts if is_bart else None,
        )  # fmt: skip
        self.streams.update(streams)

    def trainer(self, folder: Path, execution: Execution, **given: Any) -> Trainer[LanguageLearner]:
        """The training on what the first process wrote to a folder."""
        train, valid = (self._blocks(folder / f"{split}.ids") for split in SPLITS)
        if train is None:
            raise InputError("no text to train on", hint="look at the corpus: wordpipe show, or give more text")
        objective = Denoising(self.corruption, start_id=self.start_id, device=execution.device)
        return assemble_learner(
            self.settings, self.model, train, valid, objective=objective, valid_objective=objective,
            execution=replace(execution, compiled=False), begin=self.begin,
            unigram_entropy=self.entropy_of(self._label_counts()) if self.streams else None, **given,
        )  # fmt: skip

    def _label_counts(self) -> npt.NDArray[np.number]:
        """How often each id is a label: of BART all ids of the text, of T5 a share of them, and the sentinels."""
        counts_V, eos = self.streams["train"].counts, self.special.need("eos")
        if isinstance(self.corruption, TextInfilling):
            counts_V = counts_V.copy()
            counts_V[eos] += counts_V.sum() // self.raw_len
            return counts_V
        n_noise, n_spans = self.corruption.noise_of(self.raw_len)
        shares_V: npt.NDArray[np.float64] = counts_V * (n_noise / max(1, counts_V.sum()))
        shares_V[[*sentinel_ids(self.tokenizer)[:n_spans], eos]] += 1.0
        return shares_V

    def _blocks(self, path: Path) -> Blocks | None:
        ids = open_ids(path, self.n_tokens)
        if not len(ids):
            return None
        starts = open_starts(path) if self.style == "bart" else None
        width = min(self.raw_len, len(ids))
        return Blocks(ids, width=width, stride=width, word_starts=starts)

    def announce(self, job: Job, trainer: Trainer[LanguageLearner]) -> None:
        """Say and record what is going to be trained."""
        blocks = trainer.learner.blocks
        job.counts |= {"sequences": len(blocks), "tokens_repeated_to_fill": blocks.n_repeated}
        self.note_shape(job, trainer, f"sequences, {blocks.seq_len:,} tokens each")
        compare_with_frequencies(job, self._label_counts(), trainer.plan.label_smoothing)
        if blocks.seq_len < self.raw_len:
            job.warn(f"the text is too short for sequences of {self.raw_len:,} tokens: they have {blocks.seq_len:,}")
        if not self.streams["valid"].n_ids:
            job.note("no document is held out, so there is no validation loss; ingest more, or with a larger --valid")


def _prepare(job: Job, path: PathLike, settings: Seq2SeqSettings) -> _OnPairs:
    """Open the inputs, and make the model as it is before its first step.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    source = job.open_input(path, ["tokens"])
    if "ids_b" not in read_schema(source, "tokens").names:
        raise ArtifactError(
            "the tokens have no second text", where=source.path, expected="a column ids_b",
            hint="ingest pairs with --text-b FIELD or --parallel A B, and tokenize them",
        )  # fmt: skip
    start = _with_model(job, source, settings)
    named = settings.prefix_field
    corpus = corpus_of(job, source, what=f"the field {named!r}") if named else None
    if corpus is not None and settings.extend is not None:
        with Artifact(settings.extend, ["model"], verify=False) as before:
            known = {entry.digest for entry in before.manifest.inputs}
        if corpus.digest not in known:
            raise ArtifactError(
                "this model was trained with the fields of another corpus", where=settings.extend, got=corpus.digest[:16],
                hint="start from its weights with --init",
            )  # fmt: skip
    return _OnPairs(**vars(start), prefixes=Prefixes(start.tokenizer, settings.prefix, corpus, named))


def _prepare_denoising(job: Job, path: PathLike, settings: DenoisingSettings) -> _OnDamage:
    start = _with_model(job, job.open_input(path, ["tokens"]), settings)
    special, seq_len = start.special, start.seq_len
    if start.style == "vaswani":
        raise ArtifactError(
            "nobody denoises with such a model", where=settings.init, got=start.model.config.positions,
            expected="the positions of T5 or of BART",
        )  # fmt: skip
    if start.style == "bart":
        infilling = TextInfilling(
            rate=settings.noise or 0.3, mean_span=settings.mean_span or 3.5, mask_id=special.need("mask"),
            bos_id=special.need("bos"), eos_id=special.need("eos"), special_ids=special.present(), n_tokens=start.n_tokens,
            max_len=seq_len,
        )  # fmt: skip
        # a span of no token makes a source longer than its text
        return _OnDamage(**vars(start), corruption=infilling, raw_len=seq_len * 3 // 4 - 2)
    spans = SpanCorruption(
        noise_density=settings.noise or 0.15, mean_span=settings.mean_span or 3.0,
        sentinels=sentinel_ids(start.tokenizer), eos_id=special.need("eos"), special_ids=special.present(),
    )  # fmt: skip
    raw_len = spans.lengths_for(seq_len)[0]
    if (needed := spans.sentinels_for(raw_len)) > N_SENTINELS:
        raise ConfigError(
            f"sequences of {seq_len:,} positions have more spans than there are sentinels", where="seq_len", got=needed,
            expected=f"at most {N_SENTINELS}", hint="a shorter --seq-len, or a longer --mean-span",
        )  # fmt: skip
    return _OnDamage(**vars(start), corruption=spans, raw_len=raw_len)


def _with_model(job: Job, source: Artifact, settings: PairSettings) -> _Start:
    """The model before its first step, fresh or that of `init`; of a T5 that learns to denoise the tokenizer has sentinels."""
    data, style, model, frame = source.read(TOKENIZER), settings.style, None, None
    where, begin, before = str(source.path / TOKENIZER), None, None
    denoises = isinstance(settings, DenoisingSettings)
    target = _target_tokenizer(source) if isinstance(settings, Seq2SeqSettings) else None
    if settings.extend is not None:
        model, begin, frame, before = _extended(job, settings, settings.extend)
        style = "bart" if frame == FRAMES["framed source"] else "t5" if denoises else style
    elif settings.init is not None:
        model, frame = _given(job, settings, settings.init, open_tokenizer(data, where=where), target)
        style = _STYLES.get(model.config.positions, "vaswani")
    if style == "t5" and denoises:
        data = with_sentinels(data, N_SENTINELS)
    tokenizer = open_tokenizer(data, where=where)
    special = special_ids(tokenizer, "encoder-decoder")
    special.need("eos")
    if model is None:
        config = model_config(
            settings, "encoder-decoder", n_tokens=number_of_ids(tokenizer), special=special,
            n_target_tokens=0 if target is None else number_of_ids(target[0]),
        )  # fmt: skip
        with without_memory():
            refuse_too_large(EncoderDecoder(config))
        model = new_encoder_decoder(config, settings.seed)
    if number_of_ids(tokenizer) > model.config.vocab_size:
        raise ArtifactError(
            "the model has no embeddings for the sentinels", where=settings.init, got=model.config.vocab_size,
            expected=f"{number_of_ids(tokenizer)}", hint="start from a model of train denoising --style t5",
        )  # fmt: skip
    frame = frame or FRAMES["framed source" if style == "bart" else "source"]
    model, seq_len = _shaped(model, settings, before)
    return _Start(source, tokenizer, data, special, model, settings, style, frame, begin, target, seq_len)


def _target_tokenizer(source: Artifact) -> tuple[Tokenizer, bytes] | None:
    """The tokenizer of the second texts, and its file, where they have one of their own.

    Raises:
        ArtifactError: its special tokens have other ids: a model has one start, one end and one padding for both sides.
    """
    if TOKENIZER_B not in source.names():
        return None
    data, where = source.read(TOKENIZER_B), source.path / TOKENIZER_B
    tokenizer = open_tokenizer(data, where=str(where))
    of_sources = open_tokenizer(source.read(TOKENIZER), where=str(source.path / TOKENIZER))
    own, others = (special_ids(one, "encoder-decoder").of_config() for one in (tokenizer, of_sources))
    for role, number in others.items():
        if own[role] != number:
            raise ArtifactError(
                "the tokenizers of the two texts have special tokens of other ids", where=where, got=f"{role} {own[role]}",
                expected=f"{role} {number}, as in {TOKENIZER}",
                hint="let `wordpipe tokenize --vocabulary separate` train both",
            )  # fmt: skip
    return tokenizer, data


def _extended(
    job: Job, settings: PairSettings, path: Path
) -> tuple[EncoderDecoder, Snapshot, tuple[str, str] | None, int]:
    """The model of a finished training, its state, how it frames a source, and most positions of a text."""
    from wordpipe.stages.train.initial_weights import extended_training, read_frame

    model, begin = extended_training(job, path, settings)
    assert isinstance(model, EncoderDecoder), "the settings of the training before name the command"
    with Artifact(path, ["model"], verify=False) as before:
        tokenizer = open_tokenizer(before.read(TOKENIZER), where=str(path / TOKENIZER))
        seq_len = before.fact("seq_len", int, model.config.max_len, least=1)
    return model, begin, read_frame(tokenizer), seq_len


def _given(
    job: Job, settings: PairSettings, path: Path, tokenizer: Tokenizer, target: tuple[Tokenizer, bytes] | None
) -> tuple[EncoderDecoder, tuple[str, str] | None]:
    """The model to start from, or one with a fresh decoder whose encoder that is, and how it frames a source."""
    from wordpipe.stages.train.initial_weights import given_pair_model, with_fresh_decoder

    pairs = isinstance(settings, Seq2SeqSettings)
    given = given_pair_model(job, path, tokenizer, target and target[0], encoders=pairs)
    if isinstance(given.model, EncoderDecoder):
        has, wanted = given.model.config.n_decoder_layers, settings.n_decoder_layers
        if wanted not in (None, has):
            raise ConfigError(
                "the model of init has its own decoder", where="n_decoder_layers", got=wanted, expected=has
            )
        return given.model, given.frame
    job.note("the encoder begins with the given weights, the decoder is fresh")
    model = with_fresh_decoder(
        given.model, path, n_layers=settings.n_decoder_layers, special=special_ids(tokenizer, "encoder-decoder"),
        seed=settings.seed, target_vocab_size=pad_vocab(number_of_ids(target[0])) if target else 0,
    )  # fmt: skip
    job.counts["parameters_given"] = sum(weight.numel() for weight in model.encoder.parameters())
    return model, given.frame or FRAMES["encoder"]


def _shaped(model: EncoderDecoder, settings: PairSettings, before: int | None) -> tuple[EncoderDecoder, int]:
    """The same weights in a model with the dropout and the length of the settings, and most positions of a text."""
    # its targets begin with their first token from now on
    config, seq_len = trained_shape(settings, replace(model.config, first_id=None), before)
    if config == model.config:
        return model, seq_len
    other = EncoderDecoder(config)
    other.load_state_dict(model.state_dict())
    return other, seq_len
