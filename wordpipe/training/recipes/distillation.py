"""A smaller masked model that learns from a larger one, its teacher.

At the hidden positions, with z the logits and h the hidden states of student (s) and teacher (t), T a temperature:

    5 · T² KL(softmax(z_t / T) ‖ softmax(z_s / T))  +  2 · cross-entropy of the token  +  1 - cos(h_s, h_t)

The student has the teacher's shape with half of its layers, and begins with every second one. A BERT becomes a DistilBERT: its
first segment, which every token has, goes into the table of positions.

Source: Sanh et al. 2019, "DistilBERT", section 3 (T = 2; weights 5, 2, 1 in their code, which takes the first loss at all
positions; here it is at those that are hidden, as their option `restrict_ce_to_mask` has it); Hinton et al. 2015.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wordpipe.errors import ConfigError
from wordpipe.model import LanguageModel, ModelConfig, new_model
from wordpipe.training.objectives import LanguageObjective, Masked, WithTargets
from wordpipe.training.sequences import Rows

TEMPERATURE = 2.0
WEIGHTS = (5.0, 2.0, 1.0)
"""Of the teacher's guesses, of the token, of the hidden states."""

_LOGITS_AT_ONCE = 1 << 22  # numbers: 16 MiB of float32 for each of some


@dataclass(frozen=True)
class DistilledTargets(WithTargets):
    """What is hidden, and who knows it.

    Attributes:
        teacher: on the same device, in evaluation mode.
    """

    teacher: LanguageModel

    def rows(self, first: int, last: int) -> "DistilledTargets":
        """Sequences `first` to `last` - 1."""
        return replace(self, targets=self.targets.rows(first, last))

    def loss_sum(self, model: LanguageModel, label_smoothing: float) -> Tensor:
        """The loss above, summed over the targets, float32; the model is the student."""
        targets, teacher = self.targets, self.teacher
        hidden_ND = model.encode(targets.inputs, segments_BT=targets.segments, at_BK=targets.positions).flatten(0, 1)
        with torch.no_grad():
            theirs_ND = teacher.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
        labels_N, weights_N = targets.labels.flatten(), targets.weights.flatten()
        total = torch.zeros((), device=hidden_ND.device)
        rows = max(1, _LOGITS_AT_ONCE // model.config.vocab_size)
        for first in range(0, len(labels_N), rows):
            some = slice(first, first + rows)
            parts = (hidden_ND[some], theirs_ND[some], labels_N[some], weights_N[some])
            total = total + checkpoint(_part, model, teacher, *parts, label_smoothing, use_reentrant=False)
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
        """See `Masked.targets`."""
        return DistilledTargets(self._masked.targets(rows, generator, progress), self._teacher)


def _part(
    model: LanguageModel,
    teacher: LanguageModel,
    hidden_ND: Tensor,
    theirs_ND: Tensor,
    labels_N: Tensor,
    weights_N: Tensor,
    label_smoothing: float,
) -> Tensor:
    """The loss of some targets; their logits are not kept for the gradient."""
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
    """The shape of a student: half of the layers, or so many, and no segments.

    Raises:
        ConfigError: more layers than the teacher has.
    """
    n_layers = n_layers or max(1, teacher.n_layers // 2)
    if n_layers > teacher.n_layers:
        raise ConfigError("a student has no more layers than its teacher", where="n_layers", got=n_layers,
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
    """Of which of the teacher's layers the student has copies, the first one included."""
    return [layer * n_theirs // n_ours for layer in range(n_ours)]


@torch.no_grad()
def start_from_teacher(teacher: LanguageModel, config: ModelConfig, seed: int) -> LanguageModel:
    """The student, with its teacher's embeddings, head and some of its layers."""
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
