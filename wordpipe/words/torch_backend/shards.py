"""The text on its way to the device: a shard at a time, the next one read while this one is trained.

Ids need not stay on the device: at 50 million words/s they are 0.2 GB/s, where a PCIe link carries tens of GB/s.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.words.text import TrainingText

__all__ = ["SHARD", "Shard", "read_shards"]

SHARD = 1 << 22
"""Words whose windows are drawn at a time: 16 MB of ids, some 0.5 GB of windows, noise and scratch."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A piece of the text, and what lies around it.

    Attributes:
        text: int32 on the device, the first word of each text as `~row`.
        first: position of its first word in the whole text.
        begin: position of the first word that is a centre here.
        end: position behind the last one.
    """

    text: Tensor
    first: int
    begin: int
    end: int


def read_shards(
    text: TrainingText, position: int, margin: int, device: torch.device, *, size: int = SHARD
) -> Iterator[Shard]:
    """Read the shards of one epoch, in order.

    Args:
        text: the text.
        position: the first shard given is the one that holds this word.
        margin: words before and behind a shard that its windows can see.
        device: where the words are put.
        size: words per shard; another size draws other noise.
    """
    begins = range(position // size * size, text.words, size)

    def load(begin: int) -> Tensor:
        words = torch.from_numpy(text.read(begin - margin, begin + size + margin))
        return words.pin_memory() if device.type == "cuda" else words

    with ThreadPoolExecutor(1, thread_name_prefix="shards") as reader:
        coming = reader.submit(load, begins[0]) if begins else None
        for begin in begins:
            assert coming is not None
            words = coming.result()
            if begin + size < text.words:
                coming = reader.submit(load, begin + size)
            on_device = words.to(device, non_blocking=True)
            yield Shard(on_device, max(begin - margin, 0), begin, min(begin + size, text.words))
