"""What a shard of the text is trained on: its windows and their noise words, drawn on the device.

Words that survive subsampling are put into groups of `GROUP` that follow one another. A group's centres, with the `window`
words before and behind them, are one row of `contexts`, and all of them meet the same `NOISE` noise words.

Axes: G groups, A centres of a group, C = A + 2 · window words of a group and its surroundings, N noise words, V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from wordpipe.words.probe import keep_probabilities, noise_distribution
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.torch_backend.draws import DRAWS, draw, key_of
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["GROUP", "NOISE", "Sampler", "Windows"]

GROUP = 32
NOISE = 64
_SUBSAMPLE, _REACH, _NOISE = 1, 2, 3  # purposes of draws


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of some groups.

    Attributes:
        contexts: rows, (G, C) int32; V where there is no word. The centres are [:, window : window + A].
        left: words before each centre that its window holds, (G, A) int32; 0 where there is no centre.
        right: words behind it, (G, A) int32.
        noise: rows of the noise words, (G, N) int32.
    """

    contexts: Tensor
    left: Tensor
    right: Tensor
    noise: Tensor

    def __len__(self) -> int:
        return len(self.contexts)

    def part(self, begin: int, end: int) -> "Windows":
        """Groups `begin` to `end`, as views."""
        some = slice(begin, end)
        return Windows(self.contexts[some], self.left[some], self.right[some], self.noise[some])

    @property
    def window(self) -> int:
        """Words before the first centre."""
        return (self.contexts.shape[1] - self.left.shape[1]) // 2

    @property
    def centres(self) -> Tensor:
        """Rows of the centres, (G, A) int32."""
        return self.contexts[:, self.window : self.window + self.left.shape[1]]

    @property
    def pairs(self) -> Tensor:
        """Words in each centre's window, (G, A) int32."""
        return self.left + self.right

    def inside(self) -> Tensor:
        """Whether a word of the group lies in a centre's window, (G, A, C) bool; the centre itself does not."""
        device, centres = self.contexts.device, self.left.shape[1]
        place_C = torch.arange(self.contexts.shape[1], dtype=torch.int32, device=device) - self.window
        offset_AC = place_C - torch.arange(centres, dtype=torch.int32, device=device)[:, None]
        inside = (offset_AC >= -self.left[..., None]) & (offset_AC <= self.right[..., None])
        return inside.logical_and_(offset_AC != 0)


class Sampler:
    """Draws the windows of any piece of the text.

    Args:
        vocabulary: rows and their counts.
        settings: window, subsampling, noise and seed.
        device: where the windows are made.
    """

    def __init__(self, vocabulary: Vocabulary, settings: Word2VecPlan, device: torch.device) -> None:
        self._settings = settings
        self._size = len(vocabulary)
        keep_V = keep_probabilities(vocabulary.counts, settings.subsample)
        edges_V = np.cumsum(noise_distribution(vocabulary.counts, settings.ns_exponent)) * DRAWS
        edges_V[-1] = DRAWS
        self._kept_below_V = torch.from_numpy((keep_V * DRAWS).round().astype(np.int64)).to(device)
        self._edges_V = torch.from_numpy(edges_V.round().astype(np.int64)).to(device)

    def windows(
        self, text: Tensor, first: int, begin: int, end: int, epoch: int
    ) -> tuple[Windows, npt.NDArray[np.int64]]:
        """Draw the windows whose centres are the words `begin` to `end`.

        Waits for the device once, to learn how many words survive.

        Args:
            text: the words from `first` on, int32 on the device, the first of each text as `~row`; those before `begin` and
                from `end` on are only looked at by windows.
            first: position in the whole text.
            begin: position.
            end: position.
            epoch: from 0.

        Returns:
            The windows, and (groups + 1,) positions: `position[g]` words of the text come before group g.
        """
        rows, number, position = self._surviving(text, first, epoch)
        edges = torch.tensor([begin, end], device=text.device)
        own_begin, own_end = torch.searchsorted(position, edges).tolist()
        left, right = self._reaches(number, position, epoch)
        own = slice(own_begin, own_end)
        groups, window = -(-(own_end - own_begin) // GROUP), self._settings.window
        gap = groups * GROUP - (own_end - own_begin)
        stream = pad(rows, (window, window + GROUP), value=self._size)[own_begin:][: groups * GROUP + 2 * window]
        drawn = Windows(
            stream.unfold(0, GROUP + 2 * window, GROUP) if groups else stream.new_empty((0, GROUP + 2 * window)),
            pad(left[own], (0, gap)).view(groups, GROUP),
            pad(right[own], (0, gap)).view(groups, GROUP),
            self._noise(groups, begin, epoch, text.device),
        )
        positions = np.append(position[own][::GROUP].cpu().numpy(), end)
        positions[0] = begin if groups else end
        return drawn, positions

    def _surviving(self, text: Tensor, first: int, epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (int32), numbers of their texts (int32) and positions (int64) of the words that subsampling leaves."""
        number = torch.cumsum(text < 0, 0, dtype=torch.int32)
        rows = torch.where(text < 0, ~text, text)
        position = torch.arange(first, first + len(text), device=text.device)
        key = key_of(self._settings.seed, epoch, _SUBSAMPLE)
        kept = torch.nonzero(draw(key, position) < self._kept_below_V[rows]).squeeze(1)
        return rows[kept], number[kept], position[kept]

    def _reaches(self, number: Tensor, position: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """How many words the window of each word holds before and behind it, int32; a window ends where its text does."""
        reach = torch.full_like(position, self._settings.window)
        if self._settings.dynamic_window:
            reach = 1 + (draw(key_of(self._settings.seed, epoch, _REACH), position) * self._settings.window >> 32)
        here = torch.arange(len(number), device=number.device)
        before = here - torch.searchsorted(number, number)
        behind = torch.searchsorted(number, number, right=True) - 1 - here
        return torch.minimum(reach, before).int(), torch.minimum(reach, behind).int()

    def _noise(self, groups: int, begin: int, epoch: int, device: torch.device) -> Tensor:
        """Noise words of every group, (G, N) int32."""
        counter = torch.arange(groups * NOISE, device=device)
        drawn = draw(key_of(self._settings.seed, epoch, _NOISE, begin), counter)
        return torch.searchsorted(self._edges_V, drawn, right=True, out_int32=True).view(groups, NOISE)
