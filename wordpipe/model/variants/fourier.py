"""A Fourier transform in the place of attention: positions are mixed by waves, and nothing is learned.

    y = Re(F_T(F_D(x)))        F_T: the discrete Fourier transform along the positions, F_D: along the width

Number k of a transform of n numbers is Σ_t x_t exp(-2πi k t / n): its size is not that of the numbers but of sqrt(n) of them.
With norms after each half, as in the paper, the next norm takes that away. With norms before, the residual stream would drown
in sums of T · D numbers, so there the transform is the unitary one, divided by sqrt(T D), which keeps lengths.

The waves depend on the length: a sequence that is filled up to others of its batch is transformed by its own, so that a text
means the same in any batch. (transformers' FNet takes the padding for text.)

Source: Lee-Thorp et al. 2022, "FNet: Mixing Tokens with Fourier Transforms", equation 3.
"""

import torch
from torch import Tensor, nn


class Fourier(nn.Module):
    """The transform of whole sequences, in float32.

    Args:
        unitary: divided by sqrt(T D).
    """

    def __init__(self, *, unitary: bool) -> None:
        super().__init__()
        self.norm = "ortho" if unitary else "backward"

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None) -> Tensor:
        """Return the real part, (B, T, D); 0 at padding.

        Args:
            x_BTD: numbers of any type.
            real_BT: true at the positions that are no padding, which stands behind them; None: there is none.
        """
        with torch.autocast(x_BTD.device.type, enabled=False):
            x_BTD = x_BTD.float()
            if real_BT is None:
                return self._transformed(x_BTD)
            lengths_B = real_BT.sum(dim=1)
            out_BTD = torch.zeros_like(x_BTD)
            for length in sorted({*lengths_B.tolist()}):
                if length:
                    here = torch.nonzero(lengths_B == length)[:, 0]
                    out_BTD[here, :length] = self._transformed(x_BTD[here, :length])
            return out_BTD

    def _transformed(self, x_BTD: Tensor) -> Tensor:
        """Return the real part of the Fourier transform over positions and channels, (B, T, D)."""
        spectrum: Tensor = torch.fft.fft2(x_BTD, dim=(1, 2), norm=self.norm)
        return spectrum.real
