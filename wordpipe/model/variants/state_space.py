"""A diagonal state-space layer: each channel of the residual stream drives a few damped waves, and reads their sum.

    x'(t) = A x(t) + u(t)        y(t) = 2 Re(C · x(t)) + D u(t)        A diagonal and complex, one of each conjugate pair

Held for a step of Δ between two positions (zero-order hold) it is a recurrence over positions, and the same written out:

    x_t = Ā x_{t-1} + B̄ u_t        Ā = exp(Δ A),  B̄ = (Ā - 1) / A
    y_t = Σ_l K_l u_{t-l} + D u_t        K_l = 2 Re Σ_n C_n B̄_n Ā_n^l

In training the sum is a convolution, made by Fourier transforms of twice the length (so that nothing comes around) in
T log T. A decoder that writes token by token keeps the states alone, however long the text is. An encoder adds a second
kernel that runs from the end to the beginning. What a layer gives on is GELU(y), which its output matrix mixes.

Δ, A, C and D are learned; the real part of A is below 0 as -exp(…), so that no wave grows. At first A_n = -1/2 + πi n
(S4D-Lin), C is normal, and Δ is between 0.001 and 0.1: the channels remember from ten to a thousand positions.

Source: Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space Models", equations 2 to 6, section
3.3 and definition 4.1 (S4D-Lin); both sides and GELU: Gu et al. 2022 (S4), in their code.

Shapes: N waves of each channel, half of `state_dim`; K directions, 1 in a decoder, 2 in an encoder.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = (0.001, 0.1)  # Δ at first


@dataclass
class States:
    """The states of one layer after the positions so far, complex, (B, D, N)."""

    waves: Tensor


def empty_states(batch_size: int, dim: int, state_dim: int, device: torch.device) -> States:
    """The states before the first position."""
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
        """GELU(y), (B, T, D).

        Args:
            x_BTD: u, of any type.
            real_BT: true at the positions that are no padding; None: there is none.
            states: what came before (causal only); brought up to date in place.
        """
        with torch.autocast(x_BTD.device.type, enabled=False):
            u_BTD = x_BTD.float()
            if real_BT is not None:
                u_BTD = u_BTD * real_BT.to(u_BTD.dtype)[..., None]
            u_BDT = u_BTD.transpose(1, 2)
            poles_DN = torch.complex(-self.log_decay.float().exp(), self.frequency.float())
            turn_DN = self.log_step.float().exp()[:, None] * poles_DN  # Δ A
            # exp(z) - 1 = 2 sinh(z / 2) exp(z / 2), of which no digits are lost where z is small
            input_DN = 2.0 * torch.sinh(turn_DN / 2) * torch.exp(turn_DN / 2) / poles_DN
            readout_KDN = torch.view_as_complex(self.readout.float())
            if states is not None and x_BTD.shape[1] == 1:
                states.waves = turn_DN.exp() * states.waves + input_DN * u_BDT
                y_BDT = 2.0 * (readout_KDN[0] * states.waves).real.sum(dim=2, keepdim=True)
            else:
                y_BDT = self._convolved(u_BDT, turn_DN, input_DN, readout_KDN, states)
            return F.gelu((y_BDT + self.skip.float()[:, None] * u_BDT).transpose(1, 2))

    def _convolved(
        self, u_BDT: Tensor, turn_DN: Tensor, input_DN: Tensor, readout_KDN: Tensor, states: States | None
    ) -> Tensor:
        T = u_BDT.shape[2]
        powers_DNT = torch.exp(turn_DN[..., None] * torch.arange(T, device=u_BDT.device))
        kernel_KDT = 2.0 * torch.einsum("kdn,dnt->kdt", readout_KDN * input_DN, powers_DNT).real
        spectrum_KDF = torch.fft.rfft(kernel_KDT, n=2 * T)
        # the conjugate runs backwards
        spectrum_DF = spectrum_KDF[0] if len(spectrum_KDF) == 1 else spectrum_KDF[0] + spectrum_KDF[1].conj()
        y_BDT: Tensor = torch.fft.irfft(torch.fft.rfft(u_BDT, n=2 * T) * spectrum_DF, n=2 * T)[..., :T]
        if states is not None:
            first_BDN = states.waves * turn_DN.exp()
            y_BDT = y_BDT + 2.0 * torch.einsum("bdn,dnt->bdt", readout_KDN[0] * first_BDN, powers_DNT).real
            added_BDN = torch.einsum("bdt,dnt->bdn", u_BDT.to(powers_DNT.dtype), powers_DNT.flip(2)) * input_DN
            states.waves = states.waves * (turn_DN * T).exp() + added_BDN
        return y_BDT


def initial_weight(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """The first values of a weight of `StateSpace`, by its name there: S4D-Lin.

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
