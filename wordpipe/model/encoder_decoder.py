"""The encoder-decoder: an encoder reads the source text, a decoder writes the target text and looks at both.

    source ids → encoder → hidden states → keys and values of every decoder block
    start, target ids → decoder: x += attention(x); x += cross-attention(x, source); x += feedforward(x) → logits

Both are `LanguageModel`s, which share the embedding table unless the target has a vocabulary of its own.

Sources: Vaswani et al. 2017; Lewis et al. 2020 (BART); Raffel et al. 2020 (T5).
"""

import torch
from torch import Tensor, nn

from wordpipe.model.attention import Cache, Source
from wordpipe.model.config import ModelConfig
from wordpipe.model.packing import Group, Packed
from wordpipe.model.transformer import Block, LanguageModel


class EncoderDecoder(nn.Module):
    """An encoder and a decoder that reads its result.

    The weights are uninitialised memory: fill them with `initialise` or `load_hf`.

    Args:
        config: of both, `architecture` "encoder-decoder".

    Attributes:
        encoder, decoder: models of their own; `decoder.embedding` is `encoder.embedding` where they share it.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = LanguageModel(config.stack("encoder"))
        self.decoder = LanguageModel(config.stack("decoder"), reads_source=True)
        if not config.decoder_vocab_size:
            self.decoder.embedding = self.encoder.embedding

    @property
    def embedding(self) -> Tensor:
        """Return the table of the source ids (V, D)."""
        return self.encoder.embedding

    @property
    def recompute(self) -> bool:
        """True if only the input of each block is kept while training (`LanguageModel.recompute`)."""
        return self.encoder.recompute

    @recompute.setter
    def recompute(self, value: bool) -> None:
        self.encoder.recompute = self.decoder.recompute = value

    def read(self, ids_BS: Tensor, mask_BS: Tensor | None = None) -> Source:
        """Encode source texts, for the cross-attention of the decoder.

        Args:
            ids_BS: int64, each text as in training, its end included.
            mask_BS: true at real ids; None where there is no padding.
        """
        return self._source(self.encoder.encode(ids_BS, mask_BS), (None if mask_BS is None else mask_BS.bool(),))

    def read_packed(self, packed: Packed) -> Source:
        """Read packed source texts; those that the decoder writes are packed in the same order."""
        groups = self.encoder.groups_of(packed)
        real = packed.real if len(groups) == len(packed.shapes) else (None,) * len(groups)
        return self._source(self.encoder.encode_packed(packed), real, groups)

    def _source(
        self, hidden: Tensor, real: tuple[Tensor | None, ...], groups: tuple[Group, ...] | None = None
    ) -> Source:
        """Return the keys and values that cross-attention makes of the encoder's hidden states."""
        crosses = [block.cross for block in self.decoder.blocks if isinstance(block, Block)]
        return Source(tuple(cross.read(hidden, real, groups) for cross in crosses if cross is not None))

    def write(
        self, ids_BT: Tensor, source: Source, mask_BT: Tensor | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """Compute hidden states of the decoder, (B, T, D), for `decoder.logits_at`.

        Args:
            ids_BT: int64; `config.start_id` and the target so far, or with a cache what is new of it. Their number may be a
                multiple of the sources: so many first ones belong to the first source.
            source: from `read`.
            mask_BT: as in `LanguageModel.encode`.
            cache: of the decoder, made with `decoder.config`.
        """
        return self.decoder.encode(ids_BT, mask_BT, cache=cache, source=source)

    def write_packed(self, packed: Packed, source: Source) -> Tensor:
        """Compute hidden states of packed targets, (N, D), in the order of the packed sources."""
        return self.decoder.encode_packed(packed, source=source)

    def forward(
        self, ids_BS: Tensor, target_BT: Tensor, mask_BS: Tensor | None = None, target_mask_BT: Tensor | None = None
    ) -> Tensor:
        """Compute the logits (B, T, V) after each position of `target_BT`, which begins with `config.start_id`."""
        return self.decoder.logits_at(self.write(target_BT, self.read(ids_BS, mask_BS), target_mask_BT))

    def features_at(self, hidden: Tensor) -> Tensor:
        """Return the input of the decoder's output matrix."""
        return self.decoder.features_at(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """Return the output matrix (V, D)."""
        return self.decoder.output_matrix

    @property
    def output_bias(self) -> Tensor | None:
        """Return the offset of the logits, (V,)."""
        return self.decoder.output_bias


Transformer = LanguageModel | EncoderDecoder


def shifted(labels_BT: Tensor, start_id: int) -> Tensor:
    """Return the decoder's input while it learns to write the labels: the start, and all labels but the last, (B, T)."""
    return torch.cat((torch.full_like(labels_BT[:, :1], start_id), labels_BT[:, :-1]), dim=1)
