"""The plan of a training: what the settings come to for one model and one corpus (flag > config file > preset > default).

The learning rate of each step is a pure function: nothing to save, nothing to get out of step with.
"""

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    MUON_LR,
    PRESETS,
    ROLES,
    SCORED,
    STYLES,
    Architecture,
    ModelConfig,
    Preset,
    pad_vocab,
)
from wordpipe.training.settings import PretrainSettings

if TYPE_CHECKING:
    from wordpipe.training.contrastive.settings import EncoderSettings

Schedule = Literal["cosine", "linear", "wsd", "noam", "constant"]

# an encoder of Llama's blocks, which has no head and no norm of the embeddings (Boizard et al. 2025, arXiv 2503.05500)
_EUROBERT = {"positions": "rope", "norm": "rms", "norm_place": "pre", "feedforward": "swiglu", "bias": False}
_TOKEN_NAMES = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
    "bos": "<s>",
    "eos": "</s>",
}
_OF_STYLE = ("positions", "norm", "norm_place", "feedforward")  # unless they are set
_AS_SET = ("attention", "mem_len", "global_tokens", "dropout", "tied", "shared_layers", "embedding_dim")
_GATED = ("geglu", "swiglu")
_EPOCHS = 3
_EVALUATIONS = 5
_AVERAGED = 10  # sets of weights
_LEAST_STEPS = 200
# beyond that a GPU is busy enough, and larger matrices are no faster; one that has not the memory halves it (see learner.py)
_POSITIONS_AT_ONCE = {"cpu": 1 << 12, "mps": 1 << 14, "cuda": 1 << 17}
_LOGITS_AT_ONCE = {"mps": 1 << 27}  # 512 MiB of float32; on a CPU they never are all there


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The tokenizer's special ids; None for what it lacks."""

    pad: int | None = None
    unk: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    bos: int | None = None
    eos: int | None = None

    def present(self) -> tuple[int, ...]:
        """Return all special ids that the tokenizer has, in order."""
        return tuple(sorted({token_id for token_id in astuple(self) if token_id is not None}))

    def need(self, role: str) -> int:
        """Return the special id of a role that a planned training needs.

        Raises:
            ArtifactError: the tokenizer has none.
        """
        if (found := getattr(self, role)) is None:
            raise ArtifactError(
                f"the tokenizer has no {_TOKEN_NAMES[role]} token",
                hint="train a tokenizer with `wordpipe tokenize`, which adds all special tokens",
            )
        return int(found)

    def of_config(self) -> dict[str, Any]:
        """Return the fields of `ModelConfig` that hold special ids, such as pad_id."""
        return {f"{role}_id": getattr(self, role) for role in ROLES}

    def completed(self, architecture: Architecture) -> "SpecialIds":
        """Return the special ids that a planned training needs, where another token does the same.

        GPT-2 parts documents by one token that begins and ends them, EuroBERT frames sequences as a decoder does, and what
        ends a text of BERT ends one that is written, too.
        """
        bos = self.eos if self.bos is None else self.bos
        eos = self.bos if self.eos is None else self.eos
        if architecture == "encoder-decoder":
            return replace(self, bos=self.cls if bos is None else bos, eos=self.sep if eos is None else eos)
        if architecture != "encoder":
            return replace(self, bos=bos, eos=eos)
        return replace(self, cls=bos if self.cls is None else self.cls, sep=eos if self.sep is None else self.sep)


def warmup_steps(warmup: float, steps: int) -> int:
    """Return the planned steps of warm-up: a share of all below 1, a number of steps from 1 on.

    >>> warmup_steps(0.06, 200), warmup_steps(50, 200)
    (12, 50)
    """
    wanted = round(warmup * steps) if warmup < 1 else int(warmup)
    return min(wanted, steps)


def learning_rate(
    step: int, *, steps: int, peak: float, warmup: int, min_frac: float, schedule: Schedule, decay: float
) -> float:
    """Return the planned learning rate of a step by its schedule.

    It rises linearly over `warmup` steps, the first of which is already above 0 and the last of which has the peak. Then

        cosine      falls along half a cosine to min_frac · peak (Loshchilov & Hutter 2017, equation 5)
        linear      falls along a line to min_frac · peak
        wsd         stays at the peak, and falls along a line in the last `decay` of all steps (Hu et al. 2024, section 4)
        noam        falls as peak · sqrt(warmup / (step + 1)), never below min_frac · peak (Vaswani et al. 2017, equation 3,
                    where the peak is factor / sqrt(width · warmup); without warm-up it falls from the first step on)
        constant    stays at the peak

    What `noam`, `constant` and the phases of `wsd` before its fall give a step does not depend on `steps`.

    Args:
        step: from 0 to steps - 1.
        steps: of the whole run.
        peak: the highest rate.
        warmup: steps of the rise.
        min_frac: the lowest rate after the rise as a share of the peak.
        schedule: the shape.
        decay: share of the steps in which `wsd` falls.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    if schedule == "noam":
        return peak * max(min_frac, math.sqrt(max(1, warmup) / (step + 1)))
    begin = max(warmup, steps - math.ceil(decay * steps)) if schedule == "wsd" else warmup
    if step < begin:
        return peak
    done = (step + 1 - begin) / (steps - begin)  # 1 at the last step of all
    left = (1.0 + math.cos(math.pi * done)) / 2.0 if schedule == "cosine" else 1.0 - done
    return peak * (min_frac + (1.0 - min_frac) * left)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides the steps of a training.

    Attributes:
        steps: of the optimiser.
        batch_size: sequences per step, or pairs.
        lr: peak learning rate.
        warmup: steps of its rise.
        min_lr_frac: the last learning rate as a share of the peak.
        schedule: its shape.
        decay: share of the steps in which a `wsd` schedule falls.
        report_every: steps between two lines of the log.
        eval_every: steps between two validations.
        clip: largest gradient, 0 = any.
        seed: of order, masks and dropout.
        seq_len: positions per sequence; 0 where they differ.
        micro_batch: sequences computed at once, to begin with.
        label_smoothing: share of each target spread over all tokens; in training only.
        average: share of the steps, at the end, whose weights are averaged (Vaswani et al. 2017, section 6.1).
        warmup_share: what `warmup` was made of: a share of the steps below 1, a number of them from 1 on.
        evaluations: validations over the run, which `eval_every` was made of; 0: it was given.
        cooled_from: of a training that is ended early, the step from which the rate falls along a line to nothing; or None.
        scheduled: steps of the schedule that is followed until then; 0: all steps.
    """

    steps: int
    batch_size: int
    lr: float
    warmup: int
    min_lr_frac: float
    schedule: Schedule
    decay: float
    report_every: int
    eval_every: int
    clip: float = 0.0
    seed: int = 0
    seq_len: int = 0
    micro_batch: int = 0
    label_smoothing: float = 0.0
    average: float = 0.0
    warmup_share: float = 0.0
    evaluations: int = 0
    cooled_from: int | None = None
    scheduled: int = 0

    def lasting(self, steps: int) -> "Plan":
        """Return the plan for another number of steps."""
        every = max(1, math.ceil(steps / self.evaluations)) if self.evaluations else self.eval_every
        return replace(self, steps=steps, warmup=warmup_steps(self.warmup_share, steps), eval_every=every)

    def ending(self, step: int, more: int) -> "Plan":
        """Return the plan ended after this step, or after so many more in which the learning rate falls to nothing."""
        return replace(
            self, steps=step + more, cooled_from=step if more else None, scheduled=self.scheduled or self.steps
        )

    def averages(self, step: int) -> bool:
        """Return True if the weights after this many steps are averaged at the end: about ten sets, the last included."""
        span = self.average * self.steps
        apart = max(1, round(span / _AVERAGED))
        return step > self.steps - span and (self.steps - step) % apart == 0

    def lr_at(self, step: int) -> float:
        """Return the planned learning rate of a step, from 0."""
        if self.cooled_from is not None and step >= self.cooled_from:
            begin = self.cooled_from
            left = (self.steps - step) / (self.steps - begin + 1)  # the last step is to teach something, too
            return left * self._scheduled_lr(max(0, begin - 1))
        return self._scheduled_lr(step)

    def _scheduled_lr(self, step: int) -> float:
        return learning_rate(
            step, steps=self.scheduled or self.steps, peak=self.lr, warmup=self.warmup, min_frac=self.min_lr_frac,
            schedule=self.schedule, decay=self.decay,
        )  # fmt: skip

    @property
    def tokens_per_step(self) -> int:
        """Return the positions per step, where all sequences are of one length."""
        return self.batch_size * self.seq_len


def _schedule(settings: "PretrainSettings | EncoderSettings", steps: int) -> dict[str, Any]:
    """Return the fields of a `Plan` that every training's settings have."""
    same = ("min_lr_frac", "schedule", "decay", "report_every")
    return {name: getattr(settings, name) for name in same} | {
        "steps": steps, "warmup": warmup_steps(settings.warmup, steps), "warmup_share": settings.warmup,
        "eval_every": settings.eval_every or max(1, math.ceil(steps / _EVALUATIONS)),
        "evaluations": 0 if settings.eval_every else _EVALUATIONS,
    }  # fmt: skip


def model_config(
    settings: PretrainSettings, architecture: Architecture, *, n_tokens: int, special: SpecialIds, **parts: Any
) -> ModelConfig:
    """Plan the config of the model that the settings describe: sizes by the preset, unless set.

    Args:
        settings: the preset and what overrides it.
        architecture: encoder, decoder, or both.
        n_tokens: ids of the tokenizer.
        special: its special ids.
        parts: further fields, which the objective decides.

    Raises:
        ConfigError: sizes that do not go together.
    """
    # sizes by the preset, parts by the style, the rest as it is set
    preset, known = PRESETS[settings.preset], type(settings).model_fields
    n_layers, n_heads = settings.n_layers or preset.n_layers, settings.n_heads or _heads(settings, preset)
    chosen = {name: getattr(settings, name) for name in _OF_STYLE if getattr(settings, name, None) is not None}
    given = {name: getattr(settings, name) for name in _AS_SET if name in known}
    mixing = _mixing(settings, n_layers) if "mixers" in known else {}
    made: dict[str, Any] = STYLES[architecture, settings.style] | chosen | given | mixing
    if {*(made.get("mixers") or (made.get("attention"),))} == {"relative"} and "positions" not in chosen:
        made["positions"] = "none"
    # what goes with such norms and such blocks
    if made["norm"] == "rms":
        made["norm_bias"] = False  # RMSNorm has no offset, in any library
    if architecture == "encoder" and all(made[name] == value for name, value in _EUROBERT.items()):
        made |= {"embedding_norm": False, "head": False, "output_bias": False}
    return ModelConfig(
        **{
            "architecture": architecture, "vocab_size": pad_vocab(n_tokens), "dim": settings.dim or preset.dim,
            "n_layers": n_layers, "n_heads": n_heads, "n_kv_heads": settings.n_kv_heads or n_heads,
            "ffn_dim": settings.ffn_dim or _ffn_dim(settings, preset, gated=made["feedforward"] in _GATED),
            "max_len": settings.seq_len or preset.max_len,
        } | made | parts | special.of_config()
    )  # fmt: skip


def _mixing(settings: Any, n_layers: int) -> dict[str, Any]:
    """Plan the config fields of mixers and windows, layer by layer.

    Raises:
        ConfigError: the pattern is longer than the model is deep, or no layer of it has windows.
    """
    pattern, every = settings.mixer_pattern, settings.global_every
    if len(pattern) > n_layers:
        expected = f"at most {n_layers} mixers, one for each layer"
        raise ConfigError(
            "the pattern has more mixers than the model has layers", where="mixers", got=settings.mixers,
            expected=expected,
        )  # fmt: skip
    mixers = tuple(pattern[layer % len(pattern)] for layer in range(n_layers)) if pattern else ()
    # every so many layers one sees everything: window 0
    windows = tuple(0 if every and layer % every == 0 else settings.window for layer in range(n_layers))
    if mixers and settings.window:  # which is of those layers alone that have scores
        windows = tuple(window * (kind in SCORED) for kind, window in zip(mixers, windows, strict=True))
        if not any(windows):
            what = "window has no effect, because no layer in mixers uses attention"
            raise ConfigError(
                what, where="mixers", got=settings.mixers, expected=" or ".join(SCORED), hint="--window 0"
            )
    kinds = {settings.attention, *pattern}
    return {
        "mixers": mixers, "windows": windows, "linformer_dim": settings.linformer_dim if "linformer" in kinds else 0,
        "state_dim": settings.state_dim if "ssm" in kinds else 0,
    }  # fmt: skip


def make_plan(settings: PretrainSettings, config: ModelConfig, *, n_blocks: int, seq_len: int, device: str) -> Plan:
    """Plan the training of a language model: numbers of steps and sizes of batches.

    Args:
        settings: the preset and what overrides it.
        config: the model.
        n_blocks: sequences in one pass over the training text.
        seq_len: their length (shorter than `config.max_len` only where the text is).
        device: cpu, cuda or mps.
    """
    preset = PRESETS[settings.preset]
    batch_size = settings.batch_size or preset.batch_size
    epochs, least = (_EPOCHS, _LEAST_STEPS) if settings.epochs is None else (settings.epochs, 1)
    steps = settings.steps or max(least, math.ceil(epochs * n_blocks / batch_size))
    rate = settings.guessed_share
    return Plan(
        **_schedule(settings, steps), batch_size=batch_size,
        micro_batch=min(batch_size, settings.micro_batch or _micro_batch(config, batch_size, seq_len, rate, device)),
        seq_len=seq_len, clip=settings.clip,
        lr=settings.lr or _usual_lr(settings, config) * (MUON_LR if settings.optimiser == "muon" else 1.0),
        seed=settings.seed, label_smoothing=settings.label_smoothing,
        average=getattr(settings, "average", 0.0),
    )  # fmt: skip


def pair_plan(settings: "EncoderSettings", n_pairs: int) -> Plan:
    """Plan a contrastive training, of either encoder, with `n_pairs` pairs in one pass over the training text."""
    steps = settings.steps_for(n_pairs)
    return Plan(
        **_schedule(settings, steps),
        batch_size=settings.pairs_per_step(n_pairs),
        lr=settings.lr,
        seed=settings.seed,
    )


def trained_shape(
    settings: PretrainSettings, config: ModelConfig, before: int | None = None
) -> tuple[ModelConfig, int]:
    """Plan the dropout and the length that a config is trained with, and the positions of a sequence.

    A fresh model is as long as its sequences. One that was given keeps its length if they are shorter; if they are longer it
    grows, unless its positions are a table of weights.

    Args:
        settings: what was asked for.
        config: of the model.
        before: positions of a sequence in the training that is extended.

    Raises:
        ConfigError: sequences longer than the model's table of positions.
    """
    usual = PRESETS[settings.preset].max_len if settings.given("init") else config.max_len
    seq_len = settings.seq_len or before or min(usual, config.max_len)
    if seq_len > config.max_len and config.has_fixed_length:
        raise ConfigError(
            "the sequences are longer than the learned positions of the model", where="seq_len", got=seq_len,
            expected=f"at most {config.max_len}",
        )  # fmt: skip
    return replace(config, dropout=settings.dropout, max_len=max(seq_len, config.max_len)), seq_len


def _usual_lr(settings: PretrainSettings, config: ModelConfig) -> float:
    """Return AdamW's usual learning rate for a plan: the preset's, or the nearest smaller preset's."""
    if settings.given("init") is None:
        return PRESETS[settings.preset].lr
    smaller = [preset for preset in PRESETS.values() if preset.dim <= config.dim]
    return max(smaller, key=lambda preset: preset.dim).lr if smaller else PRESETS["tiny"].lr


def _heads(settings: PretrainSettings, preset: Preset) -> int:
    """Return the number of heads of the preset's width, if the model's width is a multiple of it; else the preset's number."""
    head_dim = preset.dim // preset.n_heads
    return settings.dim // head_dim if settings.dim and settings.dim % head_dim == 0 else preset.n_heads


def _ffn_dim(settings: PretrainSettings, preset: Preset, *, gated: bool) -> int:
    """Return the planned width of the feed-forward: the preset's proportion, rounded up to tiles of 64.

    A gated feed-forward has three matrices, a plain one two: with 3/2 of the width it has as many weights.
    """
    wanted = (settings.dim or preset.dim) * preset.ffn_dim / preset.dim
    width = math.ceil(wanted / 64) * 64
    return width if gated else width * 3 // 2


def _micro_batch(config: ModelConfig, batch_size: int, seq_len: int, rate: float, device: str) -> int:
    """Plan the sequences computed at once, whose activations and logits stay in bounds.

    A pure function of the settings and the kind of device, not of the memory that happens to be free: the order of
    summation shows in the last bits of the weights.
    """
    bound = min(batch_size, _POSITIONS_AT_ONCE[device] // seq_len)
    if device in _LOGITS_AT_ONCE:
        written = config.decoder_vocab_size or config.vocab_size
        bound = min(bound, _LOGITS_AT_ONCE[device] // max(1, round(written * seq_len * rate)))
    divisor = next(size for size in range(max(1, bound), 0, -1) if batch_size % size == 0)
    # equal shapes, if they are not too small
    return divisor if 2 * divisor >= bound else even_chunks(batch_size, bound)


def even_chunks(n: int, largest: int) -> int:
    """Return the planned size of equal chunks of `n`, none larger than `largest`; the last one may be shorter.

    >>> even_chunks(32, 12), even_chunks(37, 32)
    (11, 19)
    """
    return math.ceil(n / math.ceil(n / largest))
