"""Masked language modelling: hidden tokens are guessed from both sides; of two texts, and with a teacher, too.

Documents end in [SEP]; every sequence is [CLS] … [SEP].

**Two texts** stand in one sequence as [CLS] A [SEP] B [SEP], and how they belong together is guessed beside the hidden tokens:

    nsp   next sentence:    0 = B follows A in the text, 1 = B is from another sequence of the batch
    sop   sentence order:   0 = A comes before B in the text, 1 = the two have changed places

A block of the stream is cut in two, at a place drawn from its middle half, so that no sequence has padding; the texts are runs
of tokens, as in BERT's data, where a "sentence" is a span too. The loss is the mean over hidden tokens plus the mean over
sequences.

**A student** learns from a larger model, its teacher. At the hidden positions, with z the logits and h the hidden states of
student (s) and teacher (t), T a temperature:

    5 · T² KL(softmax(z_t / T) ‖ softmax(z_s / T))  +  2 · cross-entropy of the token  +  1 - cos(h_s, h_t)

The student has the teacher's shape with half of its layers, and begins with every second one. A BERT becomes a DistilBERT: its
first segment, which every token has, goes into the table of positions.

Source: Devlin et al. 2019, section 3.1 (two texts: task 2); Lan et al. 2020, section 3.1; Sanh et al. 2019, "DistilBERT",
section 3 (T = 2; weights 5, 2, 1 in their code, which takes the first loss at all positions; here it is at those that are
hidden, as their option `restrict_ce_to_mask` has it); Hinton et al. 2015.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wordpipe.errors import ConfigError
from wordpipe.model import LanguageModel, ModelConfig, new_model, seed_of
from wordpipe.training.objectives_and_masking import Examples, LanguageObjective, Masked, Targets, guessed_loss_sum
from wordpipe.training.recipes.data import Texts
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.settings import ElectraSettings, MaskedSettings
from wordpipe.training.token_stream import Blocks, Flags, Ids, Rows, WordStarts, masked_blocks, pair_blocks, spread

if TYPE_CHECKING:
    from wordpipe.model import LanguageModel


PairKind = Literal["nsp", "sop"]

_SPECIAL = 3  # [CLS], [SEP], [SEP]
_MEASURED, _AT_ONCE = 512, 32  # held-out sequences, and so many together


@dataclass(frozen=True)
class TextPairTargets(Targets):
    """Targets of masked language modelling of two texts: hidden tokens, and how the texts belong together.

    Attributes:
        pair_labels: of each sequence, (B,), 0 or 1.
    """

    pair_labels: Tensor = field(kw_only=True)

    def loss_sum(self, model: "LanguageModel", label_smoothing: float) -> Tensor:
        """Return the loss of masked language modelling: of hidden tokens, plus that of pairs of texts."""
        assert self.positions is not None
        at_BK = F.pad(self.positions, (1, 0))  # the first position, too
        hidden_BKD = model.encode(self.inputs, segments_BT=self.segments, at_BK=at_BK)
        logits_B2 = model.pair_logits(hidden_BKD[:, 0]).float()
        of_pairs = F.cross_entropy(logits_B2, self.pair_labels, reduction="sum") * self.weights.sum() / len(self)
        return of_pairs + guessed_loss_sum(model, hidden_BKD[:, 1:], self, label_smoothing)


class MaskedPairs(LanguageObjective):
    """Masked language modelling of two texts, with a second task: how the texts belong together (BERT, ALBERT).

    Args:
        masked: hides tokens.
        kind: what is guessed of the two.
    """

    def __init__(self, masked: Masked, kind: PairKind) -> None:
        self._masked, self.kind = masked, kind

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> TextPairTargets:
        """Cut sequences into two texts for masked language modelling, change half of the pairs, and mask.

        Args:
            rows: of `pair_blocks`, on the device.
            generator: on the same device; what is drawn depends on it alone.
            progress: share of the training's steps that are done.
        """
        pairs, segments_BT, labels_B = self.pairs(rows, generator)
        hidden = replace(self._masked.targets(pairs, generator, progress), segments=segments_BT)
        return TextPairTargets(**vars(hidden), pair_labels=labels_B)

    def pairs(self, rows: Rows, generator: torch.Generator) -> tuple[Rows, Tensor, Tensor]:
        """Return sequences of two texts for masked language modelling, their segments, and labels, (B,)."""
        ids_BT, device = rows.ids_BT, generator.device
        B, T = ids_BT.shape
        # where the block is cut, and which sequences are changed
        width = T - _SPECIAL
        drawn_3B = torch.rand(3, B, generator=generator, device=device)
        cut_B = (width // 4 + (drawn_3B[0] * (width // 2 + 1)).long()).clamp(1, width - 1)
        labels_B = (drawn_3B[1] < 0.5).long()
        if B == 1 and self.kind == "nsp":  # there is no other
            labels_B = torch.zeros_like(labels_B)
        row_B, place_T = torch.arange(B, device=device), torch.arange(T, device=device)
        is_changed_B = labels_B.bool()
        # the first text: its length, and where it begins in the row
        swapped_B = is_changed_B if self.kind == "sop" else torch.zeros_like(is_changed_B)
        first_B = torch.where(swapped_B, width - cut_B, cut_B)
        first_B1 = first_B[:, None]
        # the position from which each takes its id
        in_second_BT = place_T > first_B1 + 1
        from_BT = torch.where(in_second_BT, place_T - 1, place_T.expand(B, T))
        moved_BT = torch.where(in_second_BT, place_T - 1 - first_B1, place_T + cut_B[:, None])
        from_BT = torch.where(swapped_B[:, None], moved_BT, from_BT)
        # the row from which it does: of nsp the second text may be another's
        other_B = row_B
        if self.kind == "nsp":
            other_B = torch.where(is_changed_B, (row_B + 1 + (drawn_3B[2] * (B - 1)).long()) % B, row_B)
        row_BT = torch.where(in_second_BT, other_B[:, None], row_B[:, None])
        # the sequences, with special tokens at their new places
        is_sep_BT = (place_T == first_B1 + 1) | (place_T == T - 1)
        is_text_BT = ~is_sep_BT & (place_T > 0)
        from_BT = torch.where(is_text_BT, from_BT, 0)
        texts_BT = ids_BT[row_BT, from_BT]
        new_BT = torch.where(is_sep_BT, ids_BT[:, -1:], torch.where(is_text_BT, texts_BT, ids_BT))
        starts_BT = None
        if rows.word_starts_BT is not None:
            begins_BT = (place_T == 1) | (place_T == first_B1 + 2)
            starts_BT = ~is_text_BT | begins_BT | rows.word_starts_BT[row_BT, from_BT]
        return Rows(new_BT, starts_BT), in_second_BT.long(), labels_B

    def measure(self, model: Any, blocks: Examples) -> dict[str, float]:
        """Return the share of sequences for which the model predicts rightly how the two texts belong together."""
        return {"pair_accuracy": pair_accuracy(model, self, blocks)}


@torch.no_grad()
def pair_accuracy(model: "LanguageModel", objective: MaskedPairs, blocks: Examples) -> float:
    """Return the share of text pairs of masked language modelling that the model labels right; no token is hidden.

    Args:
        model: with a second head.
        objective: makes the pairs, always the same ones.
        blocks: of `pair_blocks`; some, evenly spread, are looked at.
    """
    was_training, device = model.training, model.embedding.device
    model.eval()
    index = spread(len(blocks), _MEASURED)
    generator, right = torch.Generator(device).manual_seed(seed_of("pairs")), 0
    for first in range(0, len(index), _AT_ONCE):
        rows = blocks.rows(index[first : first + _AT_ONCE]).to(device)
        pairs, segments_BT, labels_B = objective.pairs(rows, generator)
        hidden_B1D = model.encode(pairs.ids_BT, segments_BT=segments_BT, at_BK=torch.zeros_like(labels_B)[:, None])
        right += int((model.pair_logits(hidden_B1D[:, 0]).argmax(1) == labels_B).sum())
    model.train(was_training)
    return right / len(index)


@dataclass(frozen=True)
class BagTargets(Targets):
    """Targets of masked language modelling with a bag of words: hidden tokens, and which tokens the sequence has.

    Attributes:
        ids: of the text itself, nothing hidden, (B, T), int64.
        shares: of each position in the bag of its sequence, (B, T), float32: they add up to 1, special tokens have 0.
        weight: of the bag beside a hidden token.
    """

    ids: Tensor = field(kw_only=True)
    shares: Tensor = field(kw_only=True)
    weight: float = field(kw_only=True)

    def loss_sum(self, model: LanguageModel, label_smoothing: float) -> Tensor:
        """Return the loss of hidden tokens, plus for each of them `weight` times that of the bags in the mean."""
        assert self.positions is not None
        hidden_BTD = model.encode(self.inputs, segments_BT=self.segments)
        at_BKD = self.positions[..., None].expand(-1, -1, hidden_BTD.shape[2])
        guessed = guessed_loss_sum(model, hidden_BTD.gather(1, at_BKD), self, label_smoothing)
        counted_BT1 = (self.shares > 0)[..., None]
        mean_BD = (hidden_BTD * counted_BT1).sum(1) / counted_BT1.sum(1).clamp_min(1)
        surprise_BV = -torch.log_softmax(model.logits_at(mean_BD).float(), dim=1)
        of_bags = (self.shares * surprise_BV.gather(1, self.ids)).sum()
        return guessed + self.weight * of_bags * self.weights.sum() / len(self)


class MaskedBags(LanguageObjective):
    """Masked language modelling with a second task: the tokens of a sequence, from the mean of its hidden states.

    A sequence's bag has each of its tokens once, with the weight log((B + 1) / (b + 1)), of B sequences in the batch and b
    with the token; the loss is the cross-entropy of the bag and the softmax over the vocabulary.

    Args:
        masked: hides tokens.
        weight: of the second task.

    Source: Liu et al. 2023, "RetroMAE-2: Duplex Masked Auto-Encoder for Pre-training Retrieval-Oriented Language Models" (the
    bag of words); there without weights.
    """

    def __init__(self, masked: Masked, weight: float) -> None:
        self._masked, self.weight = masked, weight

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> BagTargets:
        hidden = self._masked.targets(rows, generator, progress)
        special_V = self._masked.is_special_V
        return BagTargets(
            **vars(hidden), ids=rows.ids_BT, shares=bag_shares(rows.ids_BT, special_V), weight=self.weight
        )


def bag_shares(ids_BT: Tensor, is_special_V: Tensor) -> Tensor:
    """Return each position's share in the bag of its sequence, (B, T), float32; a repeated token shares that of one.

    >>> bag_shares(torch.tensor([[0, 5, 5, 6], [0, 6, 6, 6]]), torch.arange(7) < 1).round(decimals=2).tolist()
    [[0.0, 0.5, 0.5, 0.0], [0.0, 0.33, 0.33, 0.33]]
    """
    B, V = len(ids_BT), len(is_special_V)
    count_BV = torch.zeros(B, V, device=ids_BT.device).scatter_add(
        1, ids_BT, torch.ones_like(ids_BT, dtype=torch.float32)
    )
    rarity_V = (
        torch.log((B + 1) / ((count_BV > 0).sum(0) + 1)) + 1e-3
    )  # 0 for none, also where all sequences have the same
    share_BT = (rarity_V * ~is_special_V)[ids_BT] / count_BV.gather(1, ids_BT)
    return share_BT / share_BT.sum(1, keepdim=True).clamp_min(1e-9)


TEMPERATURE = 2.0
WEIGHTS = (5.0, 2.0, 1.0)
"""Of the teacher's guesses, of the token, of the hidden states."""

_LOGITS_AT_ONCE = 1 << 22  # numbers: 16 MiB of float32 for each of some


@dataclass(frozen=True)
class DistilledTargets(Targets):
    """Targets of distillation: hidden tokens, and the teacher model.

    Attributes:
        teacher: on the same device, in evaluation mode.
    """

    teacher: LanguageModel = field(kw_only=True)

    def loss_sum(self, model: LanguageModel, label_smoothing: float) -> Tensor:
        """Return the distillation loss of masked language modelling; the model is the student."""
        hidden_ND = model.encode(self.inputs, segments_BT=self.segments, at_BK=self.positions).flatten(0, 1)
        with torch.no_grad():
            theirs_ND = self.teacher.encode(self.inputs, at_BK=self.positions).flatten(0, 1)
        labels_N, weights_N = self.labels.flatten(), self.weights.flatten()
        total = torch.zeros((), device=hidden_ND.device)
        rows = max(1, _LOGITS_AT_ONCE // model.config.vocab_size)
        for first in range(0, len(labels_N), rows):
            some = slice(first, first + rows)
            parts = (hidden_ND[some], theirs_ND[some], labels_N[some], weights_N[some])
            total = total + checkpoint(_part, model, self.teacher, *parts, label_smoothing, use_reentrant=False)
        return total


class Distilled(LanguageObjective):
    """Masked language modelling with a teacher.

    Args:
        masked: hides tokens.
        teacher: on the device of the batches; it is not trained.
    """

    compiled = False

    def __init__(self, masked: Masked, teacher: LanguageModel) -> None:
        self._masked, self._teacher = masked, teacher.eval().requires_grad_(requires_grad=False)

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> DistilledTargets:
        return DistilledTargets(**vars(self._masked.targets(rows, generator, progress)), teacher=self._teacher)


def _part(
    model: LanguageModel,
    teacher: LanguageModel,
    hidden_ND: Tensor,
    theirs_ND: Tensor,
    labels_N: Tensor,
    weights_N: Tensor,
    label_smoothing: float,
) -> Tensor:
    """Return the distillation loss of some masked targets; their logits are not kept."""
    logits_NV = model.logits_at(hidden_ND).float()
    with torch.no_grad():
        wanted_NV = torch.log_softmax(teacher.logits_at(theirs_ND).float() / TEMPERATURE, dim=1)
    found_NV = torch.log_softmax(logits_NV / TEMPERATURE, dim=1)
    apart_N = F.kl_div(found_NV, wanted_NV, reduction="none", log_target=True).sum(1) * TEMPERATURE**2
    surprise_N = F.cross_entropy(logits_NV, labels_N, reduction="none", label_smoothing=label_smoothing)
    turned_N = 1.0 - F.cosine_similarity(hidden_ND.float(), theirs_ND.float(), dim=1)
    losses_N = sum(weight * loss_N for weight, loss_N in zip(WEIGHTS, (apart_N, surprise_N, turned_N), strict=True))
    total: Tensor = (weights_N * losses_N).sum()
    return total


def student_config(teacher: ModelConfig, n_layers: int | None) -> ModelConfig:
    """Return the shape of a student of masked language modelling: half of the teacher's layers.

    Raises:
        ConfigError: more layers than the teacher has.
    """
    n_layers = n_layers or max(1, teacher.n_layers // 2)
    if n_layers > teacher.n_layers:
        raise ConfigError("the student model cannot have more layers than the teacher model", where="n_layers", got=n_layers,
                          expected=f"at most {teacher.n_layers}")  # fmt: skip
    layers = _layers(teacher.n_layers, n_layers)
    windows = tuple(teacher.windows[layer] for layer in layers)
    mixers = tuple(teacher.layer_mixers[layer] for layer in layers)
    segments = 0 if teacher.positions == "learned" else teacher.segments
    return replace(
        teacher, n_layers=n_layers, windows=windows, attention="dot", mixers=mixers, segments=segments, pair_head=False,
        positions="none" if {*mixers} == {"relative"} and teacher.positions == "rope" else teacher.positions,
        linformer_dim=teacher.linformer_dim if "linformer" in mixers else 0,
        state_dim=teacher.state_dim if "ssm" in mixers else 0,
    )  # fmt: skip


def _layers(n_theirs: int, n_ours: int) -> list[int]:
    """Return the numbers of the teacher's layers that a student copies, the first layer included."""
    return [layer * n_theirs // n_ours for layer in range(n_ours)]


@torch.no_grad()
def start_from_teacher(teacher: LanguageModel, config: ModelConfig, seed: int) -> LanguageModel:
    """Return a student for masked language modelling with its teacher's embeddings and some layers."""
    model, given = new_model(config, seed), dict(teacher.named_parameters())
    layers = _layers(teacher.config.n_layers, config.n_layers)
    for name, weight in model.named_parameters():
        source = name
        if name.startswith("blocks."):
            _, layer, rest = name.split(".", 2)
            source = f"blocks.{layers[int(layer)]}.{rest}"
        weight.copy_(given[source])
    if teacher.segment_embedding is not None and model.segment_embedding is None:
        assert model.position_embedding is not None
        model.position_embedding.add_(teacher.segment_embedding[0])
    return model


def masked_texts(opened: Opened, unit: str = "token", **given: Any) -> Texts:
    """Return the layout of documents for masked language modelling; `given`: further attributes of `Texts`.

    Raises:
        ArtifactError: the tokenizer lacks [CLS], [SEP] or [MASK].
    """
    ids = opened.special.completed("encoder")
    cut = partial(_cut, masked_blocks, cls_id=ids.need("cls"), sep_id=ids.need("sep"))
    ids.need("mask")
    given = {"blocks": cut, "valid_blocks": cut} | given
    return Texts(
        opened.n_tokens, opened.seq_len, after=(ids.need("sep"),),
        find_starts=None if unit == "token" else lambda: WordStarts(opened.tokenizer),  # type: ignore[arg-type]
        **given,
    )  # fmt: skip


def _cut(lay: Any, ids: Ids, seq_len: int, starts: Flags | None = None, *, cls_id: int, sep_id: int) -> Blocks:
    """Cut a stream of ids into sequences for an encoder, by `masked_blocks` or `pair_blocks`."""
    return lay(ids, seq_len=seq_len, cls_id=cls_id, sep_id=sep_id, word_starts=starts)  # type: ignore[no-any-return]


def hiding(opened: Opened, device: torch.device, **given: Any) -> Masked:
    """Return the masking of masked language modelling: BERT's masks, but for given arguments."""
    ids = opened.special.completed("encoder")
    berts: dict[str, Any] = {"rate": 0.15, "unit": "token", "mask_share": 0.8, "random_share": 0.1}
    return Masked(
        mask_id=ids.need("mask"), special_ids=ids.present(), n_tokens=opened.n_tokens, device=device, **berts | given
    )


def as_set(
    settings: MaskedSettings | ElectraSettings, opened: Opened, device: torch.device, rate_end: float | None = None
) -> Masked:
    """Return the masking of masked language modelling as the settings say."""
    return hiding(
        opened, device, rate=settings.mask_rate, rate_end=rate_end, unit=settings.mask_unit,
        mask_share=settings.mask_share, random_share=settings.shown_at_random,
    )  # fmt: skip


def held_out(settings: Any, opened: Opened, device: torch.device) -> Masked:
    """Return the masking of held-out texts: always BERT's, so that trainings with different masks compare."""
    del settings
    return hiding(opened, device)


def _data(opened: Opened, settings: MaskedSettings) -> Texts:
    """Lay out the texts of `train mlm`; held-out sequences are single texts, even where training has two in a sequence."""
    texts = masked_texts(opened, settings.mask_unit)
    if settings.pair == "none":
        return texts
    ids = opened.special.completed("encoder")
    return replace(texts, blocks=partial(_cut, pair_blocks, cls_id=ids.need("cls"), sep_id=ids.need("sep")))


def _objective(settings: MaskedSettings, opened: Opened, device: torch.device) -> LanguageObjective:
    """Return the objective of `train mlm`: masks, with a teacher or with two texts where the settings say so."""
    masked = as_set(settings, opened, device, settings.mask_rate_end)
    if opened.teacher is not None:
        return Distilled(masked, opened.teacher.to(device))
    if settings.pair != "none":
        return MaskedPairs(masked, settings.pair)
    if settings.bag > 0:
        return MaskedBags(masked, settings.bag)
    return masked


def _with_pair_head(model: LanguageModel, settings: MaskedSettings) -> LanguageModel:
    """Return a masked language model with a second head for two texts, or without one; a new head is fresh.

    Raises:
        ConfigError: the model does not know two texts from each other.
    """
    wanted = settings.pair != "none"
    if model.config.pair_head == wanted:
        return model
    other = new_model(replace(model.config, pair_head=wanted), settings.seed)
    given = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in other.named_parameters():
            weight.copy_(given.get(name, weight))
    return other


def accepts_encoders(config: ModelConfig) -> str:
    """Return "" for an encoder without a query stream, else the kind of model that masked language modelling needs."""
    if config.architecture != "encoder":
        return "encoder"
    return "an encoder that is not an XLNet model (no query stream)" if config.two_streams else ""


RECIPE = Recipe(
    name="mlm",
    settings=MaskedSettings,
    architecture="encoder",
    does="Train a bidirectional transformer by masked language modelling.",
    data=_data,
    objective=_objective,
    valid_objective=held_out,
    accepts=accepts_encoders,
    parts=lambda settings, _: {"pair_head": settings.pair != "none"},
    model=_with_pair_head,
)
