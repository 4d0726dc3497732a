"""Settings of the trainings of language models, put together from parts. Imports nothing heavy.

A part says one thing: how long, which shape, where it starts from. The class of an objective lists the parts that it has, and
what is its own; so no setting is there only to be refused. Fields come from the last base to the first: help begins
with `Length`. Of two parts' checks with one name only the first would run: no two parts share a name, a test sees to it.
"""

from pathlib import Path
from typing import Literal, get_args

from wordpipe.model import (
    AttentionKind,
    FeedForwardKind,
    MixerKind,
    NormKind,
    NormPlace,
    PairStyle,
    Positions,
    PresetName,
    Style,
)
from wordpipe.settings import Settings, checked, minutes_setting, setting

STEPS_OR_EPOCHS: dict[str, tuple[str, ...]] = {"steps": ("epochs",), "epochs": ("steps",)}
"""For `Settings.displaces`: a flag of the one takes the place of the other in a file."""

LEARNING_RATE_SETTINGS = ("lr", "min_lr_frac", "warmup", "schedule", "decay")
"""The settings that decide the learning rate of each step."""

EXTENSION_SETTINGS = (
    *LEARNING_RATE_SETTINGS, "steps", "epochs", "minutes", "keep_state", "device", "dtype", "threads", "compile", "recompute",
    "deterministic", "micro_batch",
)  # fmt: skip
"""The settings that an extended training may have otherwise than the one it extends: how long, how fast, and where."""


def refuse_two_lengths(steps: int | None, epochs: float | None) -> None:
    """Refuse a length that is given twice, in steps and in passes over the text. For checks.

    Raises:
        ValueError: both are given.
    """
    if steps is not None and epochs is not None:
        raise ValueError(f"steps = {steps} and epochs = {epochs} both say how long to train: give one")


class Length(Settings):
    """The size of the model, and the length of the training."""

    preset: PresetName = setting(
        "mini",
        "size of the model, with a batch and a learning rate that suit it; with --init only the batch and the length",
    )
    steps: int | None = setting(None, "optimiser steps", ge=1, le=10**9)
    epochs: float | None = setting(
        None, "passes over the training text, instead of steps; with neither: 3, and at least 200 steps", gt=0, le=10**6
    )
    minutes: float | None = minutes_setting()

    @checked
    def _one_length(self) -> None:
        refuse_two_lengths(self.steps, self.epochs)


class Shape(Settings):
    """The parts that every model has."""

    style: Style = setting(
        "modern", "parts of the model: modern as ModernBERT and Llama, classic as BERT and GPT-2",
        section="The model", expert=True,
    )  # fmt: skip
    dim: int | None = setting(None, "width of the model, else the preset's", ge=2, le=16_384, expert=True)
    n_layers: int | None = setting(None, "blocks, else the preset's", ge=1, le=256, expert=True)
    n_heads: int | None = setting(None, "attention heads, else the preset's", ge=1, le=256, option=False)
    n_kv_heads: int | None = setting(
        None, "key and value heads, shared by the query heads (grouped-query attention), else one each", ge=1, le=256,
        option=False,
    )  # fmt: skip
    ffn_dim: int | None = setting(
        None, "inner width of the feed-forward, else the preset's", ge=1, le=65_536, option=False
    )
    norm: NormKind | None = setting(None, "LayerNorm or RMSNorm, else the style's", option=False)
    norm_place: NormPlace | None = setting(
        None, "norms before or after each half of a block, else the style's", option=False
    )
    feedforward: FeedForwardKind | None = setting(
        None, "activation of the feed-forward (geglu, swiglu: gated), else the style's", option=False
    )
    tied: bool = setting(True, "the output matrix is the embedding table", option=False)


class SharedLayers(Settings):
    """Of a model with one stack."""

    shared_layers: bool = setting(
        False, "all layers have the weights of one, as in ALBERT", section="The model", option=False,
    )  # fmt: skip


class Positioned(Settings):
    """Of a model that is told where each token stands."""

    positions: Positions | None = setting(
        None, "how positions are known, else the style's", section="The model", expert=True
    )


class Mixers(Settings):
    """The mixers of the layers: how positions see each other."""

    attention: AttentionKind = setting(
        "dot", "how queries and keys are compared; all but dot have no class in transformers", section="The model",
        option=False,
    )  # fmt: skip
    mixers: str = setting(
        "", "another mixer for each layer, as a pattern that is repeated over the layers: any attention, fourier, ssm "
        "(state spaces), such as ssm,ssm,dot", metavar="NAME,…", option=False,
    )  # fmt: skip
    linformer_dim: int = setting(
        64,
        "with layers of linformer: keys that those of a sequence are brought down to",
        ge=1,
        le=65_536,
        option=False,
    )
    state_dim: int = setting(
        32, "with layers of ssm: numbers of each channel's state, even", ge=2, le=4_096, option=False
    )
    mem_len: int = setting(
        0, "with layers of relative, of a decoder: a sequence is read in segments of so many positions, each of which sees "
        "itself and what is kept of the one before (Transformer-XL); 0 = all that came before", ge=0, le=65_536,
        option=False,
    )  # fmt: skip
    window: int = setting(
        0, "how far a local layer sees to either side (a decoder: to the left), 0 = all layers see everything", ge=0,
        le=65_536, expert=True,
    )  # fmt: skip
    global_every: int = setting(
        3, "with a window: every this many layers one sees everything, the first included; 0 = none does", ge=0,
        le=256, option=False,
    )  # fmt: skip
    global_tokens: int = setting(
        0, "with a window: the first positions of a sequence see all and are seen by all", ge=0, le=65_536, option=False
    )
    embedding_dim: int = setting(
        0, "of an encoder: width of the embedding tables, from which a matrix leads to dim, as in ALBERT; 0 = dim", ge=0,
        le=16_384, option=False,
    )  # fmt: skip

    @checked
    def _window_is_used(self) -> None:
        if self.global_tokens and not self.window:
            raise ValueError(f"global_tokens = {self.global_tokens} has no effect without a window")
        if self.window and self.global_every == 1:
            raise ValueError(
                f"window = {self.window} has no layer to work in: with global_every = 1 all see everything"
            )

    @checked
    def _mixers_are_used(self) -> None:
        known, kinds = get_args(MixerKind), {self.attention, *self.mixer_pattern}
        if unknown := [name for name in self.mixer_pattern if name not in known]:
            raise ValueError(f"mixers = {self.mixers}: there is no {unknown[0]!r}, but {', '.join(known)}")
        if self.mixers and self.attention != "dot":
            raise ValueError(f"mixers and attention = {self.attention} both say what the layers are: give one")
        for name, kind in (("linformer_dim", "linformer"), ("state_dim", "ssm"), ("mem_len", "relative")):
            if kind not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} has no effect without a layer of {kind}")

    @property
    def mixer_pattern(self) -> tuple[MixerKind, ...]:
        """The names in `mixers`."""
        return tuple(name.strip() for name in self.mixers.split(",")) if self.mixers else ()  # type: ignore[misc]


class Dropout(Settings):
    """The share of the model that is left out while it learns."""

    dropout: float = setting(
        0.0, "share of each block's output zeroed in training", ge=0, lt=1, section="The model", expert=True
    )


class Sequences(Settings):
    """The text that is read at a step."""

    seq_len: int | None = setting(
        None, "positions of a sequence, special tokens included, else the preset's", ge=8, le=65_536,
        section="The sequences",
    )  # fmt: skip
    batch_size: int | None = setting(None, "sequences per step, else the preset's", ge=1, le=1_000_000)
    micro_batch: int = setting(
        0, "sequences computed at once (gradients add up over the step), 0 = what the device takes", ge=0,
        le=1_000_000, option=False,
    )  # fmt: skip


class Optimiser(Settings):
    """The optimiser, and its learning rate."""

    optimiser: Literal["muon", "adamw"] = setting(
        "muon", "muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all",
        section="The optimiser", option=False,
    )  # fmt: skip
    lr: float | None = setting(None, "peak learning rate, else the preset's", gt=0, le=1e3)
    min_lr_frac: float = setting(0.1, "learning rate at the end, as a share of the peak", ge=0, le=1, option=False)
    # 0.2 and not the usual 0.06: a masked model sits at the unigram entropy until it learns to look around, and leaves it
    # sooner. tiny, 600 steps, held-out loss of two seeds 6.47 and 6.42 against 7.00 and 6.84; causal the same (6.93, 6.95)
    warmup: float = setting(
        0.2, "steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on", ge=0,
        le=10**9, expert=True,
    )  # fmt: skip
    schedule: Literal["cosine", "linear", "wsd", "noam", "constant"] = setting(
        "cosine",
        "after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), "
        "fall with one over the root of the step (noam), or stay", expert=True,
    )  # fmt: skip
    decay: float = setting(0.2, "share of the steps in which a wsd schedule falls", gt=0, le=1, option=False)
    weight_decay: float = setting(0.05, "decoupled weight decay, on matrices only", ge=0, le=10, expert=True)
    beta1: float = setting(0.9, "AdamW's memory of gradients", ge=0, lt=1, option=False)
    beta2: float = setting(0.98, "AdamW's memory of squared gradients", ge=0, lt=1, option=False)
    momentum: float = setting(0.95, "Muon's memory of gradients", ge=0, lt=1, option=False)
    clip: float = setting(1.0, "largest norm of a step's gradient, 0 = no limit", ge=0, option=False)
    label_smoothing: float = setting(0.0, "share of the target spread over all tokens", ge=0, lt=1, option=False)


class Where(Settings):
    """The device of a run, its numbers, threads and seed."""

    seed: int = setting(
        1, "seed of weights, order, masks and dropout", ge=0, lt=2**32, expert=True, section="Where and how it runs"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to train; auto takes the fastest there is")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto",
        "numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for "
        "it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere", expert=True,
    )  # fmt: skip
    threads: int = setting(
        0, "CPU threads, 0 = one per core; another number gives slightly other weights", ge=0, le=1024, expert=True
    )
    compile: Literal["auto", "on", "off"] = setting(
        "auto", "torch.compile: worth its first minute on CUDA (auto)", option=False
    )
    recompute: bool = setting(
        False,
        "gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory",
        expert=True,
    )
    deterministic: bool = setting(
        False, "same bytes from every run on a GPU too, slower; on a CPU they always are the same", option=False
    )


class Log(Settings):
    """The checkpoints, and the measurements on the way."""

    checkpoint_seconds: float = setting(
        60, "seconds between checkpoints", gt=0, section="Where and how it runs", recipe=False, option=False
    )
    checkpoint_steps: int = setting(
        0, "also a checkpoint every this many steps, 0 = by time only", ge=0, recipe=False, option=False
    )
    report_every: int = setting(
        10,
        "steps between two rows of the log; the screen is refreshed every few seconds",
        ge=1,
        recipe=False,
        option=False,
    )
    eval_every: int = setting(0, "steps between validations, 0 = five over the run", ge=0, recipe=False, option=False)
    valid_tokens: int = setting(
        32_768, "held-out positions looked at in each validation", ge=1, recipe=False, option=False
    )
    patience: int = setting(
        0, "warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all", ge=0,
        recipe=False, option=False,
    )  # fmt: skip


class Start(Settings):
    """From which model it goes on."""

    keep_state: bool = setting(
        True,
        "keep the optimiser's state in the model's folder, once or twice as large as the weights, so that --extend can go on",
        section="Where and how it runs", option=False,
    )  # fmt: skip
    init: Path | None = setting(
        None,
        "start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer",
        metavar="MODEL", artifact=("model",), section="What it starts from",
    )  # fmt: skip
    extend: Path | None = setting(
        None, "go on where this finished model stopped, with its optimiser and its order of the text, to more steps",
        metavar="MODEL", artifact=("model",),
    )  # fmt: skip

    @checked
    def _one_start(self) -> None:
        if self.extend is not None and all(getattr(self, name) is None for name in ("steps", "epochs", "minutes")):
            raise ValueError("extend needs steps (or epochs, or minutes): how long the training is to be in all")
        starts = [name for name in ("init", "extend", "init_embeddings") if getattr(self, name, None) is not None]
        if len(starts) > 1:
            raise ValueError(f"{' and '.join(starts)} both say what to start from: give one")

    @checked
    def _shape_is_given_once(self) -> None:
        given = sorted(self.model_fields_set.intersection(SHAPE))
        if self.init is not None and given:
            raise ValueError(f"{', '.join(given)} cannot be chosen here: the model of init has its own")


class FromWords(Settings):
    """Fresh weights, but for those of tokens."""

    init_embeddings: Path | None = setting(
        None, "start from the vectors of this words artifact, trained with --unit token", metavar="WORDS",
        artifact=("words",), expert=True, section="What it starts from",
    )  # fmt: skip


class Masks(Settings):
    """The tokens that are hidden."""

    mask_rate: float = setting(
        0.3, "share of the tokens to guess in training", gt=0, le=0.9, section="Masks", expert=True
    )
    mask_unit: Literal["token", "word", "span"] = setting(
        "token", "what is hidden together: single tokens, whole words, or spans of whole words", expert=True
    )
    mask_share: float = setting(
        0.8, "share of the tokens to guess that is shown as [MASK]; 1 = all", ge=0, le=1, option=False
    )
    random_share: float | None = setting(
        None, "share of the tokens to guess that is shown as a random token, else 0.1 or what mask_share leaves; the rest is "
        "shown as it is",
        ge=0, le=1, option=False,
    )  # fmt: skip

    @checked
    def _shares_add_up(self) -> None:
        if (total := self.mask_share + self.shown_at_random) > 1:
            raise ValueError(f"mask_share + random_share = {total:g} should be at most 1")

    @property
    def shown_at_random(self) -> float:
        """Share of the chosen tokens that is shown as a random one."""
        return min(0.1, 1.0 - self.mask_share) if self.random_share is None else self.random_share


SHAPE = frozenset(name for part in (Shape, SharedLayers, Positioned, Mixers) for name in part.model_fields)
"""The settings that say what the model is; a model that one starts from has its own."""


class PretrainSettings(Log, Where, Optimiser, Sequences, Dropout, Shape, Length):
    """The settings that every training of a language model has, whatever it learns to predict."""

    displaces = STEPS_OR_EPOCHS | {"init": ("extend",), "extend": ("init",)}

    @property
    def guessed_share(self) -> float:
        """Largest share of the positions of a sequence that are guessed."""
        return 1.0

    def given(self, name: str) -> Path | None:
        """The artifact that a setting names; None where none is given, or this training lacks the setting."""
        path: Path | None = getattr(self, name, None)
        return path


class MaskedSettings(Masks, FromWords, Start, Mixers, Positioned, SharedLayers, PretrainSettings):
    """Masked language modelling: guess hidden tokens from both sides."""

    command = "train mlm"

    mask_rate_end: float | None = setting(
        None, "share of the tokens to guess at the end of the training, reached along a line, else mask_rate all along", gt=0,
        le=0.9, option=False,
    )  # fmt: skip

    pair: Literal["none", "nsp", "sop"] = setting(
        "none",
        "two texts in each sequence, and a second guess: does one follow the other (nsp: BERT's next sentence), or have "
        "they changed places (sop: ALBERT's sentence order)",
        expert=True,
    )

    teacher: Path | None = setting(
        None, "learn from this masked model too (DistilBERT): its guesses and its hidden states; begin with every second "
        "of its layers", metavar="MODEL", artifact=("model",), expert=True,
    )  # fmt: skip

    @property
    def guessed_share(self) -> float:
        return max(self.mask_rate, self.mask_rate_end or 0.0)

    @checked
    def _teacher_is_the_start(self) -> None:
        others = [name for name in ("init", "extend", "init_embeddings") if self.given(name) is not None]
        if self.teacher is not None and others:
            raise ValueError(f"teacher and {' and '.join(others)} both say what to start from: give one")
        if self.teacher is not None and self.pair != "none":
            raise ValueError(f"pair = {self.pair} has no teacher: teacher needs pair = none")
        given = sorted(self.model_fields_set.intersection(SHAPE) - {"n_layers"})
        if self.teacher is not None and given:
            raise ValueError(f"{', '.join(given)} cannot be chosen here: the model has the teacher's")


class ElectraSettings(Masks, FromWords, Mixers, Positioned, SharedLayers, PretrainSettings):
    """Replaced-token detection: find the tokens that a small masked model has put in."""

    command = "train electra"

    style: Style = setting(
        "classic", "parts of the model: classic as BERT, for a folder of ELECTRA; modern as ModernBERT, in our own format",
        section="The model", expert=True,
    )  # fmt: skip
    generator_size: float = setting(
        0.25, "width of the generator, as a share of the model's", gt=0, le=1, section="The generator", expert=True
    )
    mask_rate: float = setting(
        0.15, "share of the tokens that the generator guesses", gt=0, le=0.9, section="Masks", expert=True
    )
    mask_share: float = setting(
        1.0, "share of the tokens to guess that is shown as [MASK]; 1 = all", ge=0, le=1, option=False
    )

    @property
    def guessed_share(self) -> float:
        return self.mask_rate


class PermutationSettings(FromWords, Start, SharedLayers, PretrainSettings):
    """Permutation language modelling: guess tokens in a random order, each from those before it in that order (XLNet)."""

    command = "train permutation"

    style: Style = setting(
        "classic", "parts of the model: classic as XLNet; modern as ModernBERT, in our own format", section="The model",
        expert=True,
    )  # fmt: skip
    mask_rate: float = setting(
        1 / 6, "share of the tokens to guess, the last ones in the order", gt=0, le=0.9, section="What is guessed",
        expert=True,
    )  # fmt: skip
    max_span: int = setting(5, "most tokens side by side that are guessed together", ge=1, le=10, expert=True)

    @property
    def guessed_share(self) -> float:
        return self.mask_rate


class CausalSettings(FromWords, Start, Mixers, Positioned, SharedLayers, PretrainSettings):
    """Causal language modelling: guess each token from the earlier tokens."""

    command = "train clm"


class TwoStackSettings(Start, Positioned, PretrainSettings):
    """Training of an encoder-decoder."""

    style: PairStyle = setting(  # type: ignore[assignment]
        "vaswani", "parts of the model: as T5 1.1, as BART, or as the first transformer (saved as Marian)",
        section="The model",
    )  # fmt: skip
    n_decoder_layers: int | None = setting(
        None, "blocks of the decoder, else as many as of the encoder", ge=1, le=256, section="The model", option=False
    )
    dropout: float = setting(
        0.1, "share of each block's output zeroed in training", ge=0, lt=1, section="The model", expert=True
    )
    average: float = setting(
        0.1,
        "the weights are the mean of about ten sets, evenly spread over this share of the steps at the end; 0 = the last ones",
        ge=0, le=1, section="The optimiser", expert=True,
    )  # fmt: skip
    seed: int = setting(
        1, "seed of weights, order, noise and dropout", ge=0, lt=2**32, section="Where and how it runs", expert=True
    )
    extend: Path | None = setting(
        None, "go on where this finished model stopped, with its optimiser and its order of the text, to more steps",
        metavar="MODEL", artifact=("model",), expert=True,
    )  # fmt: skip


class DenoisingSettings(TwoStackSettings):
    """Learn to restore a text that was damaged: T5's spans, or BART's masks and mixed-up sentences."""

    command = "train denoising"

    style: Literal["t5", "bart"] = setting(
        "t5", "what is damaged, and the model: t5 (spans are written), bart (the whole text is)", section="The model"
    )
    noise: float | None = setting(
        None, "share of the tokens that is taken out; else 0.15 for t5 and 0.3 for bart", gt=0, lt=1,
        section="What is damaged", expert=True,
    )  # fmt: skip
    mean_span: float | None = setting(
        None, "tokens of a span on average; else 3 for t5 and 3.5 for bart", ge=1, le=100, expert=True
    )


class Seq2SeqSettings(TwoStackSettings):
    """Learn to write the second text of a pair from the first."""

    command = "train seq2seq"

    prefix: str = setting(
        "", 'text put before every source, such as "translate German to English: "', metavar="TEXT", section="The pairs",
        prose=True,
    )  # fmt: skip
    prefix_field: str = setting(
        "", "field of the records that holds the prefix of each source, as it is: several tasks in one model",
        metavar="NAME", expert=True,
    )  # fmt: skip
    lr: float | None = setting(
        None, "peak learning rate, else the preset's", gt=0, le=1e3, section="The optimiser", expert=True
    )
    label_smoothing: float = setting(
        0.1, "share of the target spread over all tokens", ge=0, lt=1, section="The optimiser", expert=True
    )

    @property
    def reads_corpus(self) -> bool:
        return bool(self.prefix_field)

    @checked
    def _one_prefix(self) -> None:
        if self.prefix and self.prefix_field:
            raise ValueError("prefix is one text for all sources, prefix_field a text for each: give one of the two")


OBJECTIVES: tuple[type[PretrainSettings], ...] = (
    MaskedSettings, ElectraSettings, PermutationSettings, CausalSettings, DenoisingSettings, Seq2SeqSettings,
)  # fmt: skip
"""What a language model can learn, each a file in `recipes/`; a model goes on with the first whose recipe accepts it."""
