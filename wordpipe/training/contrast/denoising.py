"""Denoising: rebuild a text from the one vector of what is left of it (TSDAE).

The encoder reads a text of which most tokens were deleted. A decoder of one layer, causal, must rebuild the whole text and
knows of it nothing but the vector and the tokens before; so the vector has to hold what the text says. The decoder is thrown
away.

The paper's decoder attends to the vector. Attention to a single thing gives its value whatever the query, so that is a
linear map of the vector, the same at every position; here it is added to what goes into the layer.

Source: Wang et al. 2021, "TSDAE", section 3 (deletion of 60 %, tied embeddings).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wordpipe.model.config import ModelConfig
from wordpipe.model.initialise import initialise
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.layers import Linear
from wordpipe.model.packed import Packed
from wordpipe.model.seeds import seed_of
from wordpipe.training.contrast.batch import PairBatch, Ragged
from wordpipe.training.contrast.learner import StepResult
from wordpipe.training.contrast.sequences import Framing, rows_of
from wordpipe.training.contrast.vectors import text_vectors
from wordpipe.training.cross_entropy import cross_entropy_sum
from wordpipe.training.execution import Execution

__all__ = ["Autoencoder", "DenoisingLearner", "deleted"]


class Autoencoder(nn.Module):
    """An encoder, and the decoder that shares its embeddings.

    Args:
        encoder: trained in place.
        seed: of the decoder's first weights.
    """

    def __init__(self, encoder: LanguageModel, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = LanguageModel(_decoder_config(encoder.config))
        initialise(self.decoder, seed_of(seed, "decoder"))
        self.decoder.embedding = encoder.embedding
        self.from_vector = Linear(encoder.config.dim, encoder.config.dim, bias=False)
        nn.init.eye_(self.from_vector.weight)

    def loss_sum(self, seen: Packed, whole: Packed, weights_V: Tensor | None) -> tuple[Tensor, int]:
        """Nats summed over the tokens to rebuild, and their number.

        Args:
            seen: what is left of S texts.
            whole: the same texts, undamaged, in [CLS] … [SEP].
            weights_V: what a token weighs in the mean; None: all alike.
        """
        vectors_SD = self.from_vector(text_vectors(self.encoder, seen, weights_V)[torch.from_numpy(whole.order)])
        hidden_ND = self.decoder.encode_packed(whole, torch.repeat_interleave(vectors_SD, _lengths(whole), dim=0))
        inputs_N, targets_N = _shifted(whole)
        labels = whole.ids[targets_N]
        loss = cross_entropy_sum(
            hidden_ND[inputs_N], self.encoder.embedding, None, labels, torch.ones(len(labels), device=labels.device)
        )
        return loss, len(labels)


def _decoder_config(config: ModelConfig) -> ModelConfig:
    """One causal layer of the encoder's kind, which shares its table."""
    return replace(
        config, architecture="decoder", n_layers=1, windows=(), head=False, output_bias=False, tied=True, segments=0,
        bos_id=config.cls_id, eos_id=config.sep_id,
    )  # fmt: skip


def _lengths(packed: Packed) -> Tensor:
    """Positions of each packed sequence, (S,)."""
    return torch.cat([torch.full((B,), T, device=packed.ids.device) for B, T in packed.shapes])


def _shifted(packed: Packed) -> tuple[Tensor, Tensor]:
    """Which positions are read, and which are to be told from them: all but the last of each sequence, all but the first."""
    inputs, targets = [], []
    for (B, T), real_BT in zip(packed.shapes, packed.real, strict=True):
        counts_BT = torch.ones(B, T, dtype=torch.bool, device=packed.ids.device) if real_BT is None else real_BT
        nothing_B1 = torch.zeros(B, 1, dtype=torch.bool, device=packed.ids.device)
        inputs.append(torch.cat([counts_BT[:, 1:], nothing_B1], dim=1).flatten())
        targets.append(torch.cat([nothing_B1, counts_BT[:, 1:]], dim=1).flatten())
    return torch.cat(inputs), torch.cat(targets)


def deleted(texts: Ragged, rate: float, seed: int) -> Ragged:
    """The texts without a share of their tokens, drawn anew for each; at least one token of each stays."""
    draw_N = np.random.default_rng(seed).random(len(texts.ids))
    begins_S = np.cumsum(texts.lengths) - texts.lengths
    text_N = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    last_S = np.maximum.reduceat(draw_N, begins_S)
    stays_N: npt.NDArray[np.bool_] = (draw_N >= rate) | (draw_N == last_S[text_N])
    return Ragged(texts.ids[stays_N], np.bincount(text_N[stays_N], minlength=len(texts.lengths)))


class DenoisingLearner:
    """Learns from single texts.

    Args:
        module: on the execution's device; trained in place.
        batch: gives the pairs of a step, of which both texts are taken.
        framing: of the sequences.
        weights_V: what each token weighs in the mean, on the device; None: all alike.
        execution: device and numbers.
        rate: share of the tokens that are deleted.
        seed: of deletion and dropout.
        at_once: positions computed at a time.
    """

    def __init__(
        self,
        module: Autoencoder,
        batch: Callable[[int], PairBatch],
        framing: Framing,
        weights_V: Tensor | None,
        execution: Execution,
        *,
        rate: float,
        seed: int,
        at_once: int,
    ) -> None:
        self.module: nn.Module = module
        self._module, self._batch, self._framing, self._weights_V = module, batch, framing, weights_V
        self._execution, self._rate, self._seed, self._at_once = execution, rate, seed, at_once

    def gradients(self, step: int) -> StepResult:
        """See `Learner.gradients`."""
        given = self._batch(step).first
        texts = self._framing.cut(given)
        seen = deleted(texts, self._rate, seed_of(self._seed, "deletion", step))
        divisor = int(texts.lengths.sum()) + len(texts.lengths)  # every token and the end of every text
        total = torch.zeros((), device=self._execution.device)
        with self._execution.attention_kernels():
            for number, rows in enumerate(self._framing.pieces(texts, self._at_once)):
                torch.manual_seed(seed_of(self._seed, "dropout", step, number))
                packed = [self._framing.packed(rows_of(each, rows)) for each in (seen, texts)]
                with self._execution.autocast():
                    loss, _ = self._module.loss_sum(packed[0], packed[1], self._weights_V)
                (loss / divisor).backward()  # type: ignore[no-untyped-call]
                total += loss.detach() / divisor
        return StepResult(total, len(texts.ids) + 2 * len(texts.lengths), self._framing.n_cut(given))

    def state(self) -> dict[str, Tensor]:
        """Nothing: what a step does depends on the weights, the seed and the step alone."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """See `Learner.load`."""
        del state
