"""Loss and gradients of a batch of windows, as dense products over groups.

Skip-gram: a centre's vector h_a predicts each word c of its window, against K noise words per pair,

    loss = Σ_a Σ_c [ -log s(u_c · h_a) + K E_n -log s(-u_n · h_a) ],   s the logistic function.

The expectation is taken over the group's N noise words instead of K fresh ones per pair, so each counts K / N; one that is
the word to be predicted is left out. A group is then one product: (A centres × D) by (D × C + N words), three times over with
the gradients. CBOW: the mean of a window's vectors predicts its centre, and each of the window's vectors receives the whole
gradient of the mean, as in word2vec.c.

Source: Mikolov et al. 2013, "Distributed Representations of Words and Phrases", equation 4; noise words shared between pairs
as in Ji et al. 2016, "Parallelizing Word2Vec in Shared and Distributed Memory".

Beside its movement each row gets the curvature of the loss along it, which `climbing` needs to keep large batches stable:

    Σ over its pairs of   share · s (1 - s) |h|² + LEAST,

where s is the pair's probability and h the other vector: the trace of the Hessian, times the share of it that lies in the
steepest direction (see `batch_size.steep_share`). The second term holds at the start, where vectors are tiny and would all
jump at once.

Axes as in `windows`; D numbers per vector, R rows. The matrices have one row more than the vocabulary, of zeros: "no word".
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from wordpipe.words.torch_backend.windows import Windows

__all__ = ["LEAST", "Ascent", "Batch", "cbow", "skipgram"]

LEAST = 0.05


@dataclass(frozen=True, slots=True)
class Ascent:
    """Where rows of one matrix should move; a row may come many times.

    Attributes:
        rows: (R,) int32.
        ascent: minus the gradient of the loss, summed over the pairs that the row stands for here, (R, D) float32.
        curvature: how fast that gradient falls as the row follows it, (R,) float32.
    """

    rows: Tensor
    ascent: Tensor
    curvature: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch of windows asks for.

    Attributes:
        inputs: movement of the words' vectors.
        outputs: movement of the output vectors.
        loss: sum of the loss in nats, a scalar.
        predictions: how many there were, a scalar: pairs for skip-gram, centres for CBOW; float32.
    """

    inputs: Ascent
    outputs: Ascent
    loss: Tensor
    predictions: Tensor


def skipgram(vectors_VD: Tensor, outputs_VD: Tensor, windows: Windows, negatives: int, share: float) -> Batch:
    """Loss and gradients where each centre predicts the words of its window."""
    contexts = windows.contexts.shape[1]
    inside_GAC = windows.inside().float()
    rows_GX = torch.cat([windows.contexts, windows.noise], dim=1)
    centres_GAD = _fetch(vectors_VD, windows.centres)
    words_GXD = _fetch(outputs_VD, rows_GX)

    same_GCN = (windows.contexts[:, :, None] == windows.noise[:, None, :]).float()
    weight_GAN = windows.pairs[:, :, None] - torch.bmm(inside_GAC, same_GCN)
    weight_GAN *= negatives / windows.noise.shape[1]
    weight_GAX = torch.cat([inside_GAC, weight_GAN], dim=2)

    slope_GAX, bend_GAX, loss = _slopes(torch.bmm(centres_GAD, words_GXD.mT), weight_GAX, contexts)
    return Batch(
        _ascent(windows.centres, torch.bmm(slope_GAX, words_GXD), _curvature(bend_GAX, weight_GAX, words_GXD, share)),
        _ascent(
            rows_GX, torch.bmm(slope_GAX.mT, centres_GAD), _curvature(bend_GAX.mT, weight_GAX.mT, centres_GAD, share)
        ),
        loss,
        windows.pairs.sum().float(),
    )


def cbow(vectors_VD: Tensor, outputs_VD: Tensor, windows: Windows, negatives: int, share: float) -> Batch:
    """Loss and gradients where the mean of each window predicts its centre."""
    inside_GAC = windows.inside().float()
    filled_GA1 = (windows.pairs[..., None] > 0).float()
    mean_GAC = inside_GAC / windows.pairs.clamp(min=1)[..., None]
    hidden_GAD = torch.bmm(mean_GAC, _fetch(vectors_VD, windows.contexts))
    centres_GAD = _fetch(outputs_VD, windows.centres)
    noise_GND = _fetch(outputs_VD, windows.noise)

    other_GAN = (windows.centres[:, :, None] != windows.noise[:, None, :]).float()
    weight_GAN = other_GAN * filled_GA1 * (negatives / windows.noise.shape[1])
    true_GA1, true_bend_GA1, true_loss = _slopes((hidden_GAD * centres_GAD).sum(2, keepdim=True), filled_GA1, 1)
    slope_GAN, bend_GAN, noise_loss = _slopes(torch.bmm(hidden_GAD, noise_GND.mT), weight_GAN, 0)

    moved_GAD = torch.bmm(slope_GAN, noise_GND).addcmul_(true_GA1, centres_GAD)
    bent_GA = _curvature(bend_GAN, weight_GAN, noise_GND, share) + _own_curvature(
        true_bend_GA1, filled_GA1, centres_GAD, share
    )
    return Batch(
        _ascent(
            windows.contexts,
            torch.bmm(inside_GAC.mT, moved_GAD),
            torch.bmm(inside_GAC.mT, bent_GA[..., None]),
        ),
        _ascent(
            torch.cat([windows.centres, windows.noise], dim=1),
            torch.cat([true_GA1 * hidden_GAD, torch.bmm(slope_GAN.mT, hidden_GAD)], dim=1),
            torch.cat(
                [
                    _own_curvature(true_bend_GA1, filled_GA1, hidden_GAD, share),
                    _curvature(bend_GAN.mT, weight_GAN.mT, hidden_GAD, share),
                ],
                dim=1,
            ),
        ),
        true_loss + noise_loss,
        filled_GA1.sum(),
    )


def _fetch(matrix_VD: Tensor, rows: Tensor) -> Tensor:
    """The rows of a matrix, in the shape of `rows` with D behind it."""
    return matrix_VD.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)


def _slopes(score_GAX: Tensor, weight_GAX: Tensor, true: int) -> tuple[Tensor, Tensor, Tensor]:
    """Minus the first and plus the second derivative of the loss by each score, and the loss.

    The first `true` columns are pairs, the rest noise. Overwrites the scores.
    """
    score_GAX[:, :, true:].neg_()
    loss = -(logsigmoid(score_GAX) * weight_GAX).sum()
    missing_GAX = score_GAX.neg_().sigmoid_()  # what each probability lacks of what it should be, 1 or 0
    slope_GAX = missing_GAX * weight_GAX
    bend_GAX = torch.addcmul(slope_GAX, slope_GAX, missing_GAX, value=-1)
    slope_GAX[:, :, true:].neg_()
    return slope_GAX, bend_GAX, loss


def _curvature(bend_GYX: Tensor, weight_GYX: Tensor, others_GXD: Tensor, share: float) -> Tensor:
    """Curvature (G, Y) of the loss along the Y rows whose pairs with X others have these second derivatives."""
    square_GX1 = others_GXD.square().sum(2, keepdim=True)
    return torch.baddbmm(weight_GYX.sum(2, keepdim=True), bend_GYX, square_GX1, beta=LEAST, alpha=share).squeeze(2)


def _own_curvature(bend_GA1: Tensor, weight_GA1: Tensor, others_GAD: Tensor, share: float) -> Tensor:
    """The same, (G, A), where each row is paired with one other only."""
    return (share * bend_GA1 * others_GAD.square().sum(2, keepdim=True) + LEAST * weight_GA1).squeeze(2)


def _ascent(rows: Tensor, ascent: Tensor, curvature: Tensor) -> Ascent:
    """The three of them without their groups."""
    return Ascent(rows.reshape(-1), ascent.reshape(-1, ascent.shape[-1]), curvature.reshape(-1))
