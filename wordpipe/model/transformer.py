"""The transformer: embedding, blocks, final norm, and the head that turns hidden states into logits.

A block is attention, then feed-forward, each added to the residual stream:

pre     x ← x + attention(norm(x))        x ← x + feedforward(norm(x))        Xiong et al. 2020, figure 1b
post    x ← norm(x + attention(x))        x ← norm(x + feedforward(x))        Vaswani et al. 2017, section 3.1
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wordpipe.errors import ConfigError
from wordpipe.model.attention import (
    Cache,
    CrossAttention,
    Memory,
    PackedView,
    Source,
    SourceLayer,
    View,
    make_mixer,
    make_view,
    rows_at,
    split_rows,
)
from wordpipe.model.config import MixerKind, ModelConfig
from wordpipe.model.fused_attention import MAX_KEYS
from wordpipe.model.layers import ACTIVATIONS, Dropout, FeedForward, Linear, Norm, Product, filled, fuses
from wordpipe.model.positions import N_BUCKETS, Rotary, alibi_bias, alibi_slopes, sinusoidal_table, t5_bias

if TYPE_CHECKING:
    from wordpipe.model.packing import Group, Packed


class Block(nn.Module):
    """A block.

    Args:
        config: the model's shape and parts.
        layer: its number, from 0, which decides its mixer.
        norm_input: False where the input comes straight from a norm (`ModelConfig.normed_input`), so that a second one would
            only add a weight.
        reads_source: cross-attention stands between the two halves.
    """

    def __init__(
        self, config: ModelConfig, layer: int = 0, *, norm_input: bool = True, reads_source: bool = False
    ) -> None:
        super().__init__()
        self.pre = config.norm_place == "pre"
        self.attention_norm = Norm(config) if norm_input else None
        self.attention = make_mixer(config, layer)
        self.cross_norm = Norm(config) if reads_source else None
        self.cross = CrossAttention(config) if reads_source else None
        self.feedforward_norm = Norm(config)
        self.feedforward = FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: Memory | None = None,
        at_BK: Tensor | None = None,
        source: SourceLayer | None = None,
    ) -> Tensor:
        """Return the residual stream after this block of a transformer; arguments as of `Attention`."""
        packed = view if isinstance(view, PackedView) else None
        normed_BTD = self.attention_norm(x_BTD) if self.pre and self.attention_norm is not None else x_BTD
        x_BTD = self.dropout.add(rows_at(x_BTD, at_BK), self.attention(normed_BTD, view, memory, at_BK))
        if self.pre:
            if self.cross is not None and self.cross_norm is not None:
                assert source is not None
                x_BTD = self.dropout.add(x_BTD, self.cross(self.cross_norm(x_BTD), source, packed))
            return self.dropout.add(x_BTD, self.feedforward(self.feedforward_norm(x_BTD)))
        assert self.attention_norm is not None
        x_BTD = self.attention_norm(x_BTD)
        if self.cross is not None and self.cross_norm is not None:
            assert source is not None
            x_BTD = self.cross_norm(self.dropout.add(x_BTD, self.cross(x_BTD, source, packed)))
        out_BTD: Tensor = self.feedforward_norm(self.dropout.add(x_BTD, self.feedforward(x_BTD)))
        return out_BTD


class MaskedHead(nn.Module):
    """The head of an encoder, before the output matrix: norm(act(dense(h))).

    The activation is that of a plain feed-forward, as in BERT, and GELU beside a gated one, as in ModernBERT.

    Source: Devlin et al. 2019 (in their code, `get_masked_lm_output`).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.dim, config.table_dim, bias=config.bias)
        self.activate = ACTIVATIONS["gelu" if config.gated else config.feedforward]
        self.norm = Norm(config, config.table_dim)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Return transformed hidden states, as wide as the embedding table."""
        normed_ND: Tensor = self.norm(self.activate(self.dense(hidden_ND)))
        return normed_ND


class ReplacedHead(nn.Module):
    """A number for each position, above 0 where its token was replaced: W₂ act(W₁ h).

    Source: Clark et al. 2020 (in their code, `_get_discriminator_output`).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.dim, config.dim, bias=True)
        self.activate = ACTIVATIONS["gelu" if config.gated else config.feedforward]
        self.score = Linear(config.dim, 1, bias=True)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return a number for each hidden state: (…, D) → (…)."""
        scores: Tensor = self.score(self.activate(self.dense(hidden)))
        return scores[..., 0]


class LanguageModel(nn.Module):
    """A bidirectional encoder or a causal decoder, made of the parts that `config` names.

    The weights are uninitialised memory: fill them with `initialise` or `load_hf`.

    Args:
        config: its shape and parts.
        reads_source: its blocks have cross-attention: it is the decoder of an `EncoderDecoder`.

    Attributes:
        recompute: while training, keep only what goes into each block and compute the rest again for the gradient
            (Chen et al. 2016): a third more work for a fraction of the memory.
    """

    slopes: Tensor  # of ALiBi, (H,)
    fixed_table: Tensor  # sinusoidal positions, (T, D)

    def __init__(self, config: ModelConfig, *, reads_source: bool = False) -> None:
        super().__init__()
        self.config, self.recompute = config, False
        width = config.table_dim
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, width))
        self._make_positions(config)
        has_table = config.segments and "relative" not in config.kinds  # which compares segments in its layers
        self.segment_embedding = nn.Parameter(torch.empty(config.segments, width)) if has_table else None
        self.query_embedding = nn.Parameter(torch.empty(1, width)) if config.two_streams else None
        self.embedding_norm = Norm(config, width) if config.embedding_norm else None
        self.embedding_projection = Linear(width, config.dim, bias=True) if config.embedding_dim else None
        self.dropout = Dropout(config.dropout)
        # the blocks; layers that share their weights are one block
        blocks = [
            Block(config, layer, norm_input=layer > 0 or not config.normed_input, reads_source=reads_source)
            for layer in range(1 if config.shared_layers else config.n_layers)
        ]
        self.blocks = nn.ModuleList(blocks * config.n_layers if config.shared_layers else blocks)
        self.final_norm = Norm(config) if config.norm_place == "pre" else None
        # what guesses tokens, finds replaced ones, judges pairs
        self.head = MaskedHead(config) if config.head else None
        self.output = None if config.tied else nn.Parameter(torch.empty(config.vocab_size, width))
        self.output_bias = nn.Parameter(torch.empty(config.vocab_size)) if config.output_bias else None
        self.replaced_head = ReplacedHead(config) if config.replaced_head else None
        self.pair_pooler = Linear(config.dim, config.dim, bias=True) if config.pair_head else None
        self.pair_classifier = Linear(config.dim, 2, bias=True) if config.pair_head else None
        self._product = Product()

    def _make_positions(self, config: ModelConfig) -> None:
        """Make what tells the transformer's positions apart: rotary angles, a table, or a bias by distance."""
        kind = config.positions
        thetas = dict.fromkeys(config.theta_of(layer) for layer in range(config.n_layers)) if kind == "rope" else {}
        self.rotaries = nn.ModuleDict(
            {_key(theta): Rotary(head_dim=config.head_dim, max_len=config.max_len, theta=theta) for theta in thetas}
        )
        shape = (config.max_len, config.table_dim)
        self.position_embedding = nn.Parameter(torch.empty(shape)) if kind in ("learned", "learned-t5") else None
        has_bias = kind in ("t5", "learned-t5")
        self.position_bias = nn.Parameter(torch.empty(N_BUCKETS, config.n_heads)) if has_bias else None
        if kind == "sinusoidal":
            self.register_buffer(
                "fixed_table", sinusoidal_table(*shape, scaled=config.scale_embedding), persistent=False
            )
        if kind == "alibi":
            self.register_buffer("slopes", alibi_slopes(config.n_heads), persistent=False)

    def encode(
        self,
        ids_BT: Tensor,
        mask_BT: Tensor | None = None,
        *,
        cache: Cache | None = None,
        segments_BT: Tensor | None = None,
        at_BK: Tensor | None = None,
        source: Source | None = None,
    ) -> Tensor:
        """Compute the transformer's hidden states after the last norm (`last_hidden_state` in `transformers`).

        Args:
            ids_BT: token ids, int32 or int64, special tokens included.
            mask_BT: true (or 1) at real tokens, false at padding; None where there is no padding.
            cache: of a decoder: what came before these positions; they are added to it. None: they are the first.
            segments_BT: which segment each token belongs to, for a model with segment embeddings; None: the first one.
            at_BK: the positions that are wanted, int64; None: all, in order. The last block computes no others: at a mask
                rate of 15 % and with 4 layers that spares a seventh of the whole step.
            source: what cross-attention reads, where the model has it.

        Returns:
            hidden_BTD: float32, of the given positions, or hidden_BKD of those wanted. At padding the values mean
                nothing, but are finite.

        Raises:
            ConfigError: more positions than the model (with a table of positions) or the cache has.
        """
        first = 0
        if cache is not None:
            assert self.config.causal
            assert mask_BT is None
            first = cache.length
            if (last := first + ids_BT.shape[1]) > cache.max_len:
                raise ConfigError(
                    "the sequence is longer than the cache", got=last, expected=f"at most {cache.max_len}"
                )
        x_BTD = self._embed(ids_BT, segments_BT, first, first + ids_BT.shape[1])
        views = self._views(ids_BT.shape[1], mask_BT, first, segments_BT)
        hidden_BTD = self._run_blocks(x_BTD, views, cache, at_BK, source)
        if cache is not None:
            cache.length += ids_BT.shape[1]
        return hidden_BTD

    def encode_to_guess(
        self, ids_BT: Tensor, at_BK: Tensor | None, order_BT: Tensor | None = None, segments_BT: Tensor | None = None
    ) -> Tensor:
        """Compute hidden states for guesses of the tokens at some positions, (B, K, D).

        A model of two streams guesses by its query stream: whatever stands at these positions is not seen there. Other models
        see it, so that what is to be guessed must be hidden in `ids_BT`.

        Args:
            ids_BT: token ids, without padding.
            at_BK: the positions; None: all, in a model of one stream.
            order_BT: of two streams: when the token is known, float32; a position sees those with a lower number, the content
                of a position itself too. Below 0: at once. None: those at `at_BK` never, the others at once.
            segments_BT: as in `encode`.
        """
        if self.query_embedding is None or at_BK is None:
            return self.encode(ids_BT, segments_BT=segments_BT, at_BK=at_BK)
        from wordpipe.model.variants.relative import two_stream_views

        (B, T), K = ids_BT.shape, at_BK.shape[1]
        if order_BT is None:
            order_BT = torch.full(ids_BT.shape, -1.0, device=ids_BT.device).scatter(1, at_BK, 0.0)
        query_BKD = self.dropout(self.query_embedding.expand(B, K, -1))
        x = torch.cat((self._embed(ids_BT, None, 0, T), query_BKD), dim=1)
        views = two_stream_views(self._views(T, None, 0, segments_BT), at_BK, order_BT)
        return self._run_blocks(x, views, at_BK=torch.arange(T, T + K, device=ids_BT.device).expand(B, K))

    def encode_packed(
        self, packed: "Packed", *, source: Source | None = None,
        segments_N: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Compute hidden states of packed sequences, (N, D): those of `encode`, position by position.

        Dropout, while training, draws other masks than for the sequences one by one.

        Args:
            packed: N positions.
            source: what cross-attention reads, packed in the same order.
            segments_N: which segment each position belongs to, for a model with segment embeddings; None: the first one.

        Raises:
            ConfigError: a sequence is longer than the model's table of positions.
        """
        groups = self.groups_of(packed) if source is None else source.groups_of(packed)
        real = packed.real if len(groups) == len(packed.shapes) else (None,) * len(groups)
        segments = [None] * len(groups) if segments_N is None else split_rows(segments_N[:, None], groups)
        of_groups = [
            self._views(group.shape[1], real_BT, 0, None if of_group is None else of_group[..., 0])
            for group, real_BT, of_group in zip(groups, real, segments, strict=True)
        ]
        views = {
            kind: PackedView(groups, tuple(views[kind] for views in of_groups)) for kind in self.config.layer_views
        }
        x_ND = self._embed(packed.ids, segments_N, 0, packed.longest, packed.places())
        n_rows = len(x_ND)
        if fuses(x_ND):
            x_ND = filled(x_ND)
        return self._run_blocks(x_ND[None], views, source=source)[0, :n_rows]

    def groups_of(self, packed: "Packed") -> "tuple[Group, ...]":
        """Return the sequences that attention takes together: groups while a gradient is wanted on a CPU, else runs."""
        longest, dtypes = max(T for _, T in packed.shapes), (torch.float32, torch.bfloat16)
        is_plain = self.config.kinds == {"dot"} and not any(self.config.windows)
        is_short = longest <= MAX_KEYS and all(mask is None for mask in packed.real)
        is_here = fuses(self.embedding) and self.embedding.dtype in dtypes
        return packed.groups(together=is_plain and is_short and is_here and torch.is_grad_enabled())

    def _run_blocks(
        self,
        x_BTD: Tensor,
        views: Mapping[tuple[MixerKind, int], View | PackedView],
        cache: Cache | None = None,
        at_BK: Tensor | None = None,
        source: Source | None = None,
    ) -> Tensor:
        """Run all blocks of the transformer and the final norm; `views` by mixer and window."""
        kinds = self.config.layer_views
        for layer, block in enumerate(self.blocks):
            memory = None if cache is None else cache.layers[layer]
            at = at_BK if layer == len(self.blocks) - 1 else None
            read = None if source is None else source.layers[layer]
            inputs = (x_BTD, views[kinds[layer]], memory, at, read)
            if self.recompute and self.training and cache is None:
                x_BTD = checkpoint(block, *inputs, use_reentrant=False)
            else:
                x_BTD = block(*inputs)
        return x_BTD if self.final_norm is None else self.final_norm(x_BTD)

    def _embed(
        self, ids: Tensor, segments_BT: Tensor | None, first: int, last: int, places_N: Tensor | None = None
    ) -> Tensor:
        """Embed ids (B, T) for the first block of the transformer, or packed ids (N) with their positions."""
        x_BTD = F.embedding(ids, self.embedding)
        if self.config.scale_embedding:
            x_BTD = x_BTD * math.sqrt(self.config.dim)
        table_TD = self.fixed_table if self.config.positions == "sinusoidal" else self.position_embedding
        if table_TD is not None:
            if last > len(table_TD):
                raise ConfigError(
                    "the sequence has more tokens than the model has positions", got=last, expected=len(table_TD)
                )
            x_BTD = x_BTD + (table_TD[first:last] if places_N is None else table_TD[places_N])
        if self.segment_embedding is not None:
            segment = self.segment_embedding[0] if segments_BT is None else self.segment_embedding[segments_BT]
            x_BTD = x_BTD + segment
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD)
        if self.embedding_projection is not None:
            x_BTD = self.embedding_projection(x_BTD).float()
        dropped_BTD: Tensor = self.dropout(x_BTD)
        return dropped_BTD

    def _views(
        self, n_new: int, mask_BT: Tensor | None, first: int, segments_BT: Tensor | None = None
    ) -> dict[tuple[MixerKind, int], View]:
        """Return the transformer's view of each kind of layer, by its mixer and its window."""
        last, views = first + n_new, dict[tuple[MixerKind, int], View]()
        for layer, kind in enumerate(self.config.layer_views):
            if kind in views:
                continue
            angles = self.rotaries[_key(self.config.theta_of(layer))](first, last) if self.rotaries else None
            views[kind] = make_view(
                self.config, *kind, angles, self._distance_bias,
                first=first, last=last, real=mask_BT, device=self.embedding.device, segments=segments_BT,
            )  # fmt: skip
        return views

    def _distance_bias(self, distance_TS: Tensor) -> Tensor | None:
        """Return the transformer's bias on the scores, (1, H, …), for distances of shape (…).

        None where positions are known otherwise.
        """
        if self.position_bias is not None:
            return t5_bias(self.position_bias, distance_TS, causal=self.config.causal)[None]
        if self.config.positions == "alibi":
            return alibi_bias(self.slopes, distance_TS)[None]
        return None

    def logits_at(self, hidden_ND: Tensor) -> Tensor:
        """Compute the transformer's logits over the vocabulary for some hidden states.

        Args:
            hidden_ND: rows of `encode`'s result, any leading shape.

        Returns:
            logits_NV: of the same leading shape.
        """
        return self._product(self.features_at(hidden_ND), self.output_matrix, self.output_bias)

    def features_at(self, hidden_ND: Tensor) -> Tensor:
        """Return the input of the transformer's output matrix: hidden states as they are, or after the head."""
        if self.head is None:
            return hidden_ND
        features_ND: Tensor = self.head(hidden_ND)
        return features_ND

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Return a number for each hidden state, (…, D) → (…): above 0 where the token is not the text's own."""
        assert self.replaced_head is not None
        logits: Tensor = self.replaced_head(hidden)
        return logits

    def pair_logits(self, first_BD: Tensor) -> Tensor:
        """Compute the transformer's two logits for each pair of texts, (B, 2): W₂ tanh(W₁ h).

        Source: Devlin et al. 2019, section 3.1, task 2.
        """
        assert self.pair_pooler is not None
        assert self.pair_classifier is not None
        logits_B2: Tensor = self.pair_classifier(torch.tanh(self.pair_pooler(first_BD)))
        return logits_B2

    @property
    def output_matrix(self) -> Tensor:
        """Return the output matrix, (V, D) or as wide as the embedding table, which it is where the two are tied."""
        return self.embedding if self.output is None else self.output

    def forward(self, ids_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        """Compute the logits at every position, shape (B, T, V); arguments as in `encode`."""
        return self.logits_at(self.encode(ids_BT, mask_BT))


def _key(theta: float) -> str:
    """Return a name for a module, without a full stop, which torch does not allow."""
    return f"theta {theta!r}".replace(".", ",")
