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
        raise ValueError(
            f"set only one of steps = {steps} and epochs = {epochs}, because each of them sets the length of the "
            "training"
        )


_AVERAGE = (
    "share of the steps, at the end of the training, over which the weights are averaged (the mean of about ten sets of "
    "weights); 0 = use the weights of the last step"
)
"""What `average` does."""


class Length(Settings):
    """The size of the model, and the length of the training."""

    preset: PresetName = setting(
        "mini", "size of the model, with a suitable batch size and learning rate; with --init, the preset sets only "
        "batch size and sequence length",
    )  # fmt: skip
    steps: int | None = setting(None, "number of optimiser steps", ge=1, le=10**9)
    epochs: float | None = setting(
        None, "number of passes over the training text, instead of steps; default: 3 passes, but at least 200 steps",
        gt=0, le=10**6,
    )  # fmt: skip
    minutes: float | None = minutes_setting()

    @checked
    def _one_length(self) -> None:
        refuse_two_lengths(self.steps, self.epochs)


class Shape(Settings):
    """The parts that every model has."""

    style: Style = setting(
        "modern", "design of the model: modern (as in ModernBERT and Llama) or classic (as in BERT and GPT-2)",
        section="The model", expert=True,
    )  # fmt: skip
    dim: int | None = setting(None, "width of the model; default: set by --preset", ge=2, le=16_384, expert=True)
    n_layers: int | None = setting(
        None, "number of transformer blocks; default: set by --preset", ge=1, le=256, expert=True
    )
    n_heads: int | None = setting(
        None, "number of attention heads; default: set by --preset", ge=1, le=256, option=False,
    )  # fmt: skip
    n_kv_heads: int | None = setting(
        None, "number of key and value heads, which the query heads share (grouped-query attention); default: one per "
        "query head", ge=1, le=256, option=False,
    )  # fmt: skip
    ffn_dim: int | None = setting(
        None, "inner width of the feed-forward layers; default: set by --preset", ge=1, le=65_536, option=False,
    )  # fmt: skip
    norm: NormKind | None = setting(None, "norm layers: LayerNorm or RMSNorm; default: set by --style", option=False)
    norm_place: NormPlace | None = setting(
        None, "place of the norm layers: before or after each half of a block; default: set by --style", option=False,
    )  # fmt: skip
    feedforward: FeedForwardKind | None = setting(
        None, "activation of the feed-forward layers (geglu and swiglu are gated); default: set by --style",
        option=False,
    )  # fmt: skip
    tied: bool = setting(True, "use the embedding table also as the output matrix", option=False)


class SharedLayers(Settings):
    """Of a model with one stack."""

    shared_layers: bool = setting(
        False, "all layers share one set of weights, as in ALBERT", section="The model", option=False,
    )  # fmt: skip


class Positioned(Settings):
    """Of a model that is told where each token stands."""

    positions: Positions | None = setting(
        None, "how the position of a token is encoded; default: set by --style", section="The model", expert=True,
    )  # fmt: skip


class Mixers(Settings):
    """The mixers of the layers: how positions see each other."""

    attention: AttentionKind = setting(
        "dot", "kind of attention (how queries and keys are compared); Hugging Face transformers can load only models "
        "with dot", section="The model", option=False,
    )  # fmt: skip
    mixers: str = setting(
        "", "mixer of each layer, as a pattern that repeats over the layers, for example ssm,ssm,dot; a mixer is any "
        "kind of attention, fourier, or ssm (state space)", metavar="NAME,…", option=False,
    )  # fmt: skip
    linformer_dim: int = setting(
        64, "for linformer layers: number of keys that remain after a sequence is reduced", ge=1, le=65_536,
        option=False,
    )  # fmt: skip
    state_dim: int = setting(
        32, "for ssm layers: state size of each channel (an even number)", ge=2, le=4_096, option=False,
    )  # fmt: skip
    mem_len: int = setting(
        0, "for relative layers of a decoder: number of positions in a segment; each segment attends to itself and to "
        "the memory of the previous segment (Transformer-XL); 0 = no segments, so each position attends to all earlier "
        "positions", ge=0, le=65_536, option=False,
    )  # fmt: skip
    window: int = setting(
        0, "number of positions on each side (in a decoder: on the left) to which a local layer attends; 0 = no local "
        "layers", ge=0, le=65_536, expert=True,
    )  # fmt: skip
    global_every: int = setting(
        3, "with --window: every n-th layer, starting with the first layer, attends to the whole sequence (3 = layers "
        "1, 4, 7 and so on); 0 = no layer", ge=0, le=256, option=False,
    )  # fmt: skip
    global_tokens: int = setting(
        0, "with --window: number of positions at the start that attend to all positions, and to which all positions "
        "attend", ge=0, le=65_536, option=False,
    )  # fmt: skip
    embedding_dim: int = setting(
        0, "for an encoder: width of the embedding tables (a matrix projects this width to dim, as in ALBERT); 0 = dim",
        ge=0, le=16_384, option=False,
    )  # fmt: skip

    @checked
    def _window_is_used(self) -> None:
        if self.global_tokens and not self.window:
            raise ValueError(f"global_tokens = {self.global_tokens} has no effect without a window")
        if self.window and self.global_every == 1:
            raise ValueError(
                f"window = {self.window} has no effect, because with global_every = 1 every layer attends to the "
                "whole text"
            )

    @checked
    def _mixers_are_used(self) -> None:
        known, kinds = get_args(MixerKind), {self.attention, *self.mixer_pattern}
        if unknown := [name for name in self.mixer_pattern if name not in known]:
            raise ValueError(
                f"mixers = {self.mixers} contains {unknown[0]!r}, which is not a mixer; expected: {', '.join(known)}"
            )
        if self.mixers and self.attention != "dot":
            raise ValueError(
                f"set only one of mixers and attention = {self.attention}, because each of them sets the kind of the "
                "layers"
            )
        for name, kind in (("linformer_dim", "linformer"), ("state_dim", "ssm"), ("mem_len", "relative")):
            if kind not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} has no effect, because the model has no {kind} layer")

    @property
    def mixer_pattern(self) -> tuple[MixerKind, ...]:
        """The names in `mixers`."""
        return tuple(name.strip() for name in self.mixers.split(",")) if self.mixers else ()  # type: ignore[misc]


class Dropout(Settings):
    """The share of the model that is left out while it learns."""

    dropout: float = setting(
        0.0, "share of each block's output that is set to zero in training", ge=0, lt=1, section="The model",
        expert=True,
    )  # fmt: skip


class Sequences(Settings):
    """The text that is read at a step."""

    seq_len: int | None = setting(
        None, "number of tokens in a sequence, including special tokens; default: set by --preset", ge=8, le=65_536,
        section="The sequences",
    )  # fmt: skip
    batch_size: int | None = setting(None, "number of sequences per step; default: set by --preset", ge=1, le=1_000_000)
    micro_batch: int = setting(
        0, "number of sequences that are computed together (the gradients of a step are summed); 0 = chosen for the "
        "device", ge=0, le=1_000_000, option=False,
    )  # fmt: skip


class Optimiser(Settings):
    """The optimiser, and its learning rate."""

    optimiser: Literal["muon", "adamw"] = setting(
        "muon", "muon: Muon for the matrices of the blocks, AdamW for all other weights; adamw: AdamW for all "
        "weights",
        section="The optimiser", option=False,
    )  # fmt: skip
    lr: float | None = setting(None, "peak learning rate; default: set by --preset", gt=0, le=1e3)
    min_lr_frac: float = setting(
        0.1, "final learning rate, as a fraction of the peak learning rate", ge=0, le=1, option=False
    )
    # 0.2 and not the usual 0.06: a masked model sits at the unigram entropy until it learns to look around, and leaves it
    # sooner. tiny, 600 steps, held-out loss of two seeds 6.47 and 6.42 against 7.00 and 6.84; causal the same (6.93, 6.95)
    warmup: float = setting(
        0.2, "length of the learning rate warm-up; below 1: a fraction of all steps; 1 or more: a number of steps",
        ge=0, le=10**9, expert=True,
    )  # fmt: skip
    schedule: Literal["cosine", "linear", "wsd", "noam", "constant"] = setting(
        "cosine", "learning rate after the warm-up; cosine and linear: falls until the end; wsd (warmup-stable-decay): "
        "is constant, then falls; noam: falls with the inverse square root of the step; constant: does not fall",
        expert=True,
    )  # fmt: skip
    decay: float = setting(
        0.2, "with schedule = wsd: fraction of the steps in which the learning rate falls", gt=0, le=1, option=False,
    )  # fmt: skip
    weight_decay: float = setting(0.05, "decoupled weight decay, on matrices only", ge=0, le=10, expert=True)
    beta1: float = setting(0.9, "AdamW: decay rate of the moving average of gradients", ge=0, lt=1, option=False)
    beta2: float = setting(
        0.98, "AdamW: decay rate of the moving average of squared gradients", ge=0, lt=1, option=False
    )
    momentum: float = setting(
        0.95, "Muon: momentum (decay rate of the moving average of gradients)", ge=0, lt=1, option=False
    )
    clip: float = setting(1.0, "maximum norm of the gradient of a step; 0 = no limit", ge=0, option=False)
    label_smoothing: float = setting(
        0.0, "share of the target probability that is spread over all tokens", ge=0, lt=1, option=False,
    )  # fmt: skip


class Where(Settings):
    """The device of a run, its numbers, threads and seed."""

    seed: int = setting(
        1, "random seed for weights, text order, masks and dropout", ge=0, lt=2**32, expert=True,
        section="Where and how it runs",
    )  # fmt: skip
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "where to train; auto: the fastest device of this machine"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto",
        "number format of matrix products (weights, norms and losses are always float32); auto: bfloat16 where the "
        "hardware supports it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 on other devices",
        expert=True,
    )  # fmt: skip
    threads: int = setting(
        0, "number of CPU threads (0 = one per core); another number of threads gives slightly different weights", ge=0,
        le=1024, expert=True,
    )  # fmt: skip
    compile: Literal["auto", "on", "off"] = setting(
        "auto", "use torch.compile, which takes a minute at the start; auto: only on CUDA", option=False,
    )  # fmt: skip
    recompute: bool = setting(
        False, "gradient checkpointing: store only the input of each block and compute the rest a second time; slower, "
        "but needs much less memory", expert=True,
    )  # fmt: skip
    deterministic: bool = setting(
        False, "make every run on a GPU give exactly the same weights (slower); on a CPU, the weights are always the "
        "same", option=False,
    )  # fmt: skip


class Log(Settings):
    """The checkpoints, and the measurements on the way."""

    checkpoint_seconds: float = setting(
        60, "seconds between checkpoints", gt=0, section="Where and how it runs", recipe=False, option=False
    )
    checkpoint_steps: int = setting(
        0, "number of steps between additional checkpoints; 0 = no additional checkpoints", ge=0, recipe=False,
        option=False,
    )  # fmt: skip
    report_every: int = setting(
        10, "number of steps between two rows of the log; the screen is updated every few seconds", ge=1, recipe=False,
        option=False,
    )  # fmt: skip
    eval_every: int = setting(
        0, "number of steps between two validations; 0 = five validations per run", ge=0, recipe=False, option=False,
    )  # fmt: skip
    valid_tokens: int = setting(
        32_768, "number of held-out positions that are used in each validation", ge=1, recipe=False, option=False
    )
    patience: int = setting(
        0, "number of steps after which a warning is shown if the loss is still above the unigram entropy; 0 = half of "
        "all steps", ge=0, recipe=False, option=False,
    )  # fmt: skip


class Start(Settings):
    """From which model it goes on."""

    keep_state: bool = setting(
        True, "save the optimiser state in the model folder, because --extend needs the state; its size is one or two "
        "times the size of the weights", section="Where and how it runs", option=False,
    )  # fmt: skip
    init: Path | None = setting(
        None, "start from the weights of this model (an artifact, or a Hugging Face transformers folder with the same "
        "tokenizer)", metavar="MODEL", artifact=("model",), section="The initial weights",
    )  # fmt: skip
    extend: Path | None = setting(
        None, "continue the training of this finished model for more steps, with the saved optimiser state and the "
        "same order of the text", metavar="MODEL", artifact=("model",),
    )  # fmt: skip

    @checked
    def _one_start(self) -> None:
        if self.extend is not None and all(getattr(self, name) is None for name in ("steps", "epochs", "minutes")):
            raise ValueError("extend needs the new total length of the training, so set steps, epochs or minutes")
        starts = [name for name in ("init", "extend", "init_embeddings") if getattr(self, name, None) is not None]
        if len(starts) > 1:
            raise ValueError(f"set only one of {' and '.join(starts)}, because each of them sets the initial weights")

    @checked
    def _shape_is_given_once(self) -> None:
        given = sorted(self.model_fields_set.intersection(SHAPE))
        if self.init is not None and given:
            raise ValueError(
                f"{', '.join(given)} cannot be set together with init, because the init model already "
                "has an architecture"
            )


class FromWords(Settings):
    """Fresh weights, but for those of tokens."""

    init_embeddings: Path | None = setting(
        None, "start from the vectors of this words artifact (trained with --unit token)", metavar="WORDS",
        artifact=("words",), expert=True, section="The initial weights",
    )  # fmt: skip


class Masks(Settings):
    """The tokens that are hidden."""

    mask_rate: float = setting(
        0.3, "share of the tokens that the model must predict in training", gt=0, le=0.9, section="Masks", expert=True
    )
    mask_unit: Literal["token", "word", "span"] = setting(
        "token", "unit that is masked: single tokens, whole words, or spans of whole words", expert=True,
    )  # fmt: skip
    mask_share: float = setting(
        0.8, "share of the tokens to predict that are replaced by [MASK]; 1 = all", ge=0, le=1, option=False,
    )  # fmt: skip
    random_share: float | None = setting(
        None, "share of the tokens to predict that are replaced by a random token; default: the smaller value of 0.1 "
        "and 1 - mask_share; the remaining tokens are not replaced", ge=0, le=1, option=False,
    )  # fmt: skip

    @checked
    def _shares_add_up(self) -> None:
        if (total := self.mask_share + self.shown_at_random) > 1:
            raise ValueError(f"mask_share + random_share must be at most 1, but the sum is {total:g}")

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
        None, "mask rate at the end of the training (mask_rate changes linearly to this value); default: mask_rate "
        "does not change", gt=0, le=0.9, option=False,
    )  # fmt: skip

    bag: float = setting(
        0.0, "weight of a second task: from the mean of its hidden states a sequence must also predict which tokens it has, "
        "rare tokens more; 0 = no second task", ge=0, le=100, option=False,
    )  # fmt: skip
    average: float = setting(
        0.0, _AVERAGE, ge=0, le=1, option=False,
    )  # fmt: skip
    pair: Literal["none", "nsp", "sop"] = setting(
        "none", "put two texts into each sequence and learn a second task; nsp: predict whether the second text "
        "follows the first text, as in BERT; sop: predict whether the two texts are swapped, as in ALBERT", expert=True,
    )  # fmt: skip

    teacher: Path | None = setting(
        None, "teacher model: the new model also learns the predictions and hidden states of the teacher, as "
        "DistilBERT does, and starts with every second layer of the teacher", metavar="MODEL", artifact=("model",),
        expert=True,
    )  # fmt: skip

    @property
    def guessed_share(self) -> float:
        return max(self.mask_rate, self.mask_rate_end or 0.0)

    @checked
    def _teacher_is_the_start(self) -> None:
        others = [name for name in ("init", "extend", "init_embeddings") if self.given(name) is not None]
        if self.teacher is not None and others:
            raise ValueError(
                f"set only one of teacher and {' and '.join(others)}, because each of them sets the initial weights"
            )
        if self.teacher is not None and self.pair != "none":
            raise ValueError(f"teacher cannot be used with pair = {self.pair}, because teacher needs pair = none")
        if self.bag and (self.teacher is not None or self.pair != "none"):
            raise ValueError(f"bag = {self.bag:g} is a second task, and cannot be used with teacher or pair")
        given = sorted(self.model_fields_set.intersection(SHAPE) - {"n_layers"})
        if self.teacher is not None and given:
            raise ValueError(
                f"{', '.join(given)} cannot be set together with teacher, because the new model has the architecture "
                "of the teacher"
            )


class ElectraSettings(Masks, FromWords, Mixers, Positioned, SharedLayers, PretrainSettings):
    """Replaced-token detection: find the tokens that a small masked model has put in."""

    command = "train electra"

    style: Style = setting(
        "classic", "design of the model: classic (as in BERT, saved as Hugging Face ELECTRA) or modern (as in "
        "ModernBERT, saved in the format of wordpipe)", section="The model", expert=True,
    )  # fmt: skip
    generator_size: float = setting(
        0.25, "width of the generator, as a fraction of the width of the model", gt=0, le=1, section="The generator",
        expert=True,
    )  # fmt: skip
    mask_rate: float = setting(
        0.15, "fraction of the tokens that the generator must predict", gt=0, le=0.9, section="Masks", expert=True
    )
    mask_share: float = setting(
        1.0, "share of the tokens to predict that are replaced by [MASK]; 1 = all", ge=0, le=1, option=False,
    )  # fmt: skip

    @property
    def guessed_share(self) -> float:
        return self.mask_rate


class PermutationSettings(FromWords, Start, SharedLayers, PretrainSettings):
    """Permutation language modelling: guess tokens in a random order, each from those before it in that order (XLNet)."""

    command = "train permutation"

    style: Style = setting(
        "classic", "design of the model: classic (as in XLNet) or modern (as in ModernBERT, saved in the format of "
        "wordpipe)", section="The model", expert=True,
    )  # fmt: skip
    mask_rate: float = setting(
        1 / 6, "share of the tokens that the model must predict (the last tokens of the random order)", gt=0, le=0.9,
        section="The predicted tokens", expert=True,
    )  # fmt: skip
    max_span: int = setting(
        5, "maximum number of neighbouring tokens that are predicted together", ge=1, le=10, expert=True
    )

    @property
    def guessed_share(self) -> float:
        return self.mask_rate


class CausalSettings(FromWords, Start, Mixers, Positioned, SharedLayers, PretrainSettings):
    """Causal language modelling: guess each token from the earlier tokens."""

    command = "train clm"


class TwoStackSettings(Start, Positioned, PretrainSettings):
    """Training of an encoder-decoder."""

    style: PairStyle = setting(  # type: ignore[assignment]
        "vaswani", "design of the model: t5 (T5 1.1), bart (BART), or vaswani (the original transformer, saved as "
        "Marian)",
        section="The model",
    )  # fmt: skip
    n_decoder_layers: int | None = setting(
        None, "number of decoder blocks; default: the number of encoder blocks", ge=1, le=256, section="The model",
        option=False,
    )  # fmt: skip
    dropout: float = setting(
        0.1, "share of each block's output that is set to zero in training", ge=0, lt=1, section="The model",
        expert=True,
    )  # fmt: skip
    average: float = setting(
        0.1, _AVERAGE, ge=0, le=1, section="The optimiser", expert=True,
    )  # fmt: skip
    seed: int = setting(
        1, "random seed for weights, text order, noise and dropout", ge=0, lt=2**32, section="Where and how it runs",
        expert=True,
    )  # fmt: skip
    extend: Path | None = setting(
        None, "continue the training of this finished model for more steps, with the saved optimiser state and the "
        "same order of the text", metavar="MODEL", artifact=("model",), expert=True,
    )  # fmt: skip


class DenoisingSettings(TwoStackSettings):
    """Learn to restore a text that was damaged: T5's spans, or BART's masks and mixed-up sentences."""

    command = "train denoising"

    style: Literal["t5", "bart"] = setting(
        "t5", "how training texts are damaged: t5 (spans are removed, and the model writes the removed spans) or bart "
        "(spans are masked, and the model writes the whole text)", section="The model",
    )  # fmt: skip
    noise: float | None = setting(
        None, "share of the tokens that is removed; default: 0.15 for t5, 0.3 for bart", gt=0, lt=1,
        section="The damage to the text", expert=True,
    )  # fmt: skip
    mean_span: float | None = setting(
        None, "average span length in tokens; default: 3 for t5, 3.5 for bart", ge=1, le=100, expert=True,
    )  # fmt: skip


class Seq2SeqSettings(TwoStackSettings):
    """Learn to write the second text of a pair from the first."""

    command = "train seq2seq"

    prefix: str = setting(
        "", 'text to add before every source text, for example "translate German to English: "', metavar="TEXT",
        section="The pairs", prose=True,
    )  # fmt: skip
    prefix_field: str = setting(
        "", "name of the field with the prefix of each source text, to train one model for several tasks",
        metavar="NAME", expert=True,
    )  # fmt: skip
    lr: float | None = setting(
        None, "peak learning rate; default: set by --preset", gt=0, le=1e3, section="The optimiser", expert=True,
    )  # fmt: skip
    label_smoothing: float = setting(
        0.1, "share of the target probability that is spread over all tokens", ge=0, lt=1, section="The optimiser",
        expert=True,
    )  # fmt: skip

    @property
    def reads_corpus(self) -> bool:
        return bool(self.prefix_field)

    @checked
    def _one_prefix(self) -> None:
        if self.prefix and self.prefix_field:
            raise ValueError(
                "set only one of prefix and prefix_field, because each of them sets the text before a source text"
            )


OBJECTIVES: tuple[type[PretrainSettings], ...] = (
    MaskedSettings, ElectraSettings, PermutationSettings, CausalSettings, DenoisingSettings, Seq2SeqSettings,
)  # fmt: skip
"""What a language model can learn, each a file in `recipes/`; a model goes on with the first whose recipe accepts it."""
