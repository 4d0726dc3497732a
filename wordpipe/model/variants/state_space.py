"""A diagonal state-space layer: each channel of the residual stream drives a few damped waves, and reads their sum.

    x'(t) = A x(t) + u(t)        y(t) = 2 Re(C · x(t)) + D u(t)        A diagonal and complex, one of each conjugate pair

Held for a step of Δ between two positions (zero-order hold) it is a recurrence over positions, and the same written out:

    x_t = Ā x_{t-1} + B̄ u_t        Ā = exp(Δ A),  B̄ = (Ā - 1) / A
    y_t = Σ_l K_l u_{t-l} + D u_t        K_l = 2 Re Σ_n C_n B̄_n Ā_n^l

In training the sum is a convolution, made by Fourier transforms of twice the length (so that nothing comes around) in
T log T. A decoder that writes token by token keeps the states alone, however long the text is. An encoder adds a second
kernel that runs from the end to the beginning. What a layer gives on is GELU(y), which its output matrix mixes.

The D N T powers of the poles are never made: with l = J m + j, J about sqrt(T), Ā^l is Ā^(J m) Ā^j, and the sum over n a
product of real matrices (M, 2 N) and (2 N, J) for each channel. (Made one by one, they took nine tenths of the layer's time at
4,096 positions, and more memory than all the rest.)

Δ, A, C and D are learned; the real part of A is below 0 as -exp(…), so that no wave grows. At first A_n = -1/2 + πi n
(S4D-Lin), C is normal, and Δ is between 0.001 and 0.1: the channels remember from ten to a thousand positions.

Source: Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space Models", equations 2 to 6, section
3.3 and definition 4.1 (S4D-Lin); both sides and GELU: Gu et al. 2022 (S4), in their code.

Shapes: N waves of each channel, half of `state_dim`; K directions, 1 in a decoder, 2 in an encoder; M blocks of J positions
that hold T; L positions of a convolution, F frequencies.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_STEPS = (0.001, 0.1)  # Δ at first


@dataclass
class States:
    """The states of one layer after the positions so far, complex, (B, D, N)."""

    waves: Tensor


def empty_states(batch_size: int, dim: int, state_dim: int, device: torch.device) -> States:
    """Return the states before the first position."""
    return States(torch.zeros(batch_size, dim, state_dim // 2, dtype=torch.complex64, device=device))


class StateSpace(nn.Module):
    """The layer without its output matrix, in float32.

    Args:
        dim: channels, D.
        state_dim: numbers of each channel's state, 2 N.
        causal: a position sees only itself and what came before.
    """

    def __init__(self, dim: int, state_dim: int, *, causal: bool) -> None:
        super().__init__()
        N = state_dim // 2
        self.log_step = nn.Parameter(torch.empty(dim))
        self.log_decay = nn.Parameter(torch.empty(dim, N))  # of -Re A
        self.frequency = nn.Parameter(torch.empty(dim, N))  # Im A
        self.readout = nn.Parameter(torch.empty(1 if causal else 2, dim, N, 2))  # C
        self.skip = nn.Parameter(torch.empty(dim))  # D

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None, states: States | None = None) -> Tensor:
        """Compute GELU(y), (B, T, D).

        Args:
            x_BTD: u, of any type.
            real_BT: true at the positions that are no padding; None: there is none.
            states: what came before (causal only); brought up to date in place.
        """
        with torch.autocast(x_BTD.device.type, enabled=False):
            u_BTD = x_BTD.float()
            if real_BT is not None:
                u_BTD = u_BTD * real_BT.to(u_BTD.dtype)[..., None]
            poles_DN = torch.complex(-self.log_decay.float().exp(), self.frequency.float())
            turn_DN = self.log_step.float().exp()[:, None] * poles_DN  # Δ A
            # exp(z) - 1 = 2 sinh(z / 2) exp(z / 2), of which no digits are lost where z is small
            input_DN = 2.0 * torch.sinh(turn_DN / 2) * torch.exp(turn_DN / 2) / poles_DN
            readout_KDN = torch.view_as_complex(self.readout.float())
            if states is not None and x_BTD.shape[1] == 1:
                states.waves = turn_DN.exp() * states.waves + input_DN * u_BTD.transpose(1, 2)
                y_BTD = 2.0 * (readout_KDN[0] * states.waves).real.sum(dim=2)[:, None] + self.skip.float() * u_BTD
            else:
                y_BTD = self._convolved(u_BTD, turn_DN, input_DN, readout_KDN, states)
            return F.gelu(y_BTD)

    def _convolved(
        self, u_BTD: Tensor, turn_DN: Tensor, input_DN: Tensor, readout_KDN: Tensor, states: States | None
    ) -> Tensor:
        """Compute the outputs of a state-space layer as one convolution over all positions."""
        T = u_BTD.shape[1]
        J = math.isqrt(T - 1) + 1
        M = -(-T // J)
        fine_DNJ, coarse_DNM = _powers(turn_DN, J), _powers(turn_DN * J, M)
        kernel_DKT = _responses(readout_KDN * input_DN, coarse_DNM, fine_DNJ)[..., :T]
        # around a circle: what came before from 0 on, what comes after from the end backwards
        n = _fast_length(2 * T - 1)
        now_D1 = kernel_DKT[..., :1].sum(dim=1) + self.skip.float()[:, None]
        between = now_D1.new_zeros(len(now_D1), n - 1 - len(readout_KDN) * (T - 1))
        after = kernel_DKT[:, 1:, 1:].flip(2).unbind(1)
        kernel_DL = torch.cat([now_D1, kernel_DKT[:, 0, 1:], between, *after], dim=1)
        y_BTD = circular_convolution(u_BTD, kernel_DL)
        if states is not None:
            first_BDN = states.waves * turn_DN.exp()
            y_BTD = y_BTD + _responses(readout_KDN[0] * first_BDN, coarse_DNM, fine_DNJ)[..., :T].permute(1, 2, 0)
            # the last position first, whose power is 0
            backwards_BMJD = F.pad(u_BTD.flip(1), (0, 0, 0, M * J - T)).view(len(u_BTD), M, J, -1)
            parts_BMDN = torch.einsum("bmjd,dnj->bmdn", backwards_BMJD.to(turn_DN.dtype), fine_DNJ)
            added_BDN = torch.einsum("bmdn,dnm->bdn", parts_BMDN, coarse_DNM) * input_DN
            states.waves = states.waves * (turn_DN * T).exp() + added_BDN
        return y_BTD


def _powers(turn_DN: Tensor, n: int) -> Tensor:
    """Compute exp(z l) for l below n, (D, N, n). torch's exponential of complex numbers takes five times as long on a CPU."""
    turn_DNL = turn_DN[..., None] * torch.arange(n, device=turn_DN.device)
    return turn_DNL.real.exp() * torch.complex(turn_DNL.imag.cos(), turn_DNL.imag.sin())


def _responses(weights_KDN: Tensor, coarse_DNM: Tensor, fine_DNJ: Tensor) -> Tensor:
    """Compute 2 Re Σ_n w_n Ā_n^(J m + j), (D, K, M · J); K counts any weights."""
    # Re(a b) is conj(a) · b, each as a vector of two
    left_KDNM2 = torch.view_as_real((2.0 * weights_KDN[..., None] * coarse_DNM).conj_physical())
    return torch.einsum("kdnmr,dnjr->dkmj", left_KDNM2, torch.view_as_real(fine_DNJ)).flatten(2)


def _fast_length(least: int) -> int:
    """Return the next 2^k, 3 · 2^k or 5 · 2^k: a transform of large prime factors takes two to seven times as long."""
    return min(m << (-(-least // m) - 1).bit_length() for m in (1, 3, 5))


def circular_convolution(u_BTD: Tensor, kernel_DL: Tensor) -> Tensor:
    """Compute y_t = Σ_s k_((t - s) mod L) u_s for t below T, (B, T, D), of float32 or float64; L is T or more."""
    y_BTD: Tensor = _CircularConvolution.apply(u_BTD, kernel_DL)  # type: ignore[no-untyped-call]
    return y_BTD


class _CircularConvolution(torch.autograd.Function):
    """The convolution, with a gradient of real transforms alone.

    torch's own gradient of `rfft` is a complex transform of the full length, with which a layer takes half as long again.
    """

    @staticmethod
    def forward(ctx: Any, u_BTD: Tensor, kernel_DL: Tensor) -> Tensor:
        T, n = ctx.sizes = u_BTD.shape[1], kernel_DL.shape[1]
        u_BDF, kernel_DF = torch.fft.rfft(u_BTD.transpose(1, 2), n=n), torch.fft.rfft(kernel_DL)
        ctx.save_for_backward(u_BDF, kernel_DF)
        return _positions(u_BDF * kernel_DF, T, n)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        u_BDF, kernel_DF = ctx.saved_tensors
        T, n = ctx.sizes
        grad_BDF = torch.fft.rfft(grads[0].transpose(1, 2), n=n)
        kernel_DL = torch.fft.irfft((grad_BDF * u_BDF.conj()).sum(dim=0), n=n)
        return _positions(grad_BDF * kernel_DF.conj(), T, n), kernel_DL


def _positions(spectrum_BDF: Tensor, T: int, n: int) -> Tensor:
    """Return the first T of the n positions of a convolution from its spectrum, (B, T, D)."""
    y_BDL: Tensor = torch.fft.irfft(spectrum_BDF, n=n)
    return y_BDL[..., :T].transpose(1, 2).contiguous()


def initial_weight(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Draw the first values of a weight of `StateSpace`, by its name there: S4D-Lin.

    Args:
        name: log_step, log_decay, frequency, readout or skip.
        shape: its own.
        generator: of what is random.
    """
    if name == "log_step":
        first, last = map(math.log, _STEPS)
        return first + (last - first) * torch.rand(shape, generator=generator)
    if name == "log_decay":
        return torch.full(shape, math.log(0.5))
    if name == "frequency":
        return (math.pi * torch.arange(shape[-1])).expand(shape)
    if name == "readout":
        return torch.randn(shape, generator=generator) * math.sqrt(0.5)  # two halves of a complex number of variance 1
    return torch.randn(shape, generator=generator)
