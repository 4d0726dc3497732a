"""The layer of a head: scores of a text, of every token, or of where an answer begins and ends. How it learns: `heads/`.

It is a matrix over the hidden states, as the classes of `transformers` have it, so that folders load on both sides:

    encoder that is normed before (ModernBERT)   pooled states → dense, activation, norm (those of its masked head) → scores
    encoder that is normed after (BERT)          first state → dense, tanh (its pooler) → scores; of tokens: states → scores
    decoder (Llama, Mistral, GPT-2)              last state → scores

Source: Devlin et al. 2019, section 4 (arXiv 1810.04805); Warner et al. 2024 (arXiv 2412.13663); Radford
et al. 2018, section 3.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from wordpipe.errors import ConfigError
from wordpipe.model.config import EMBEDDING_STD, ModelConfig, seed_of
from wordpipe.model.layers import Linear
from wordpipe.model.transformer import LanguageModel

if TYPE_CHECKING:
    from wordpipe.model.packing import Packed

HeadKind = Literal["sequence", "token", "span"]
Problem = Literal["single_label", "multi_label", "regression"]
Pooling = Literal["cls", "mean", "last", ""]


@dataclass(frozen=True)
class HeadConfig:
    """The settings of a head: which scores it gives.

    Attributes:
        kind: one row of scores for a text (`sequence`), for each position (`token`), or two numbers for each position, of an
            answer's beginning and of its end (`span`).
        labels: the names of the scores, in their order; a span has none.
        problem: of a sequence: one label is right, several may be, or a number is wanted.
        pooling: where a sequence is read: at its first position, as the mean of all, at its last one; "": see `of_body`.
        dropout: share of what goes into the last matrix zeroed in training.

    Raises:
        ConfigError: no labels, one twice, or a number with several.
    """

    kind: HeadKind
    labels: tuple[str, ...] = ()
    problem: Problem = "single_label"
    pooling: Pooling = ""
    dropout: float = 0.0

    def __post_init__(self) -> None:
        wanted = {"span": 0, "regression": 1}.get(self.kind if self.kind == "span" else self.problem)
        if (wanted is not None and len(self.labels) != wanted) or (wanted is None and not self.labels):
            raise ConfigError(
                "the number of labels is wrong for this kind of head", where="labels", got=len(self.labels),
                expected="at least 1" if wanted is None else wanted,
            )  # fmt: skip
        if len({*self.labels}) != len(self.labels):
            raise ConfigError("two labels have the same name", where="labels", got=", ".join(self.labels))

    @property
    def n_outputs(self) -> int:
        """Return the number of scores of a text or of a position."""
        return 2 if self.kind == "span" else len(self.labels)

    def of_body(self, config: ModelConfig) -> "HeadConfig":
        """Return the settings with the pooling of a model of this shape.

        Raises:
            ConfigError: it is read elsewhere.
        """
        allowed: tuple[Pooling, ...] = ("last",)
        if not config.causal:
            allowed = ("cls",) if has_pooler(config) else ("mean", "cls")
        if self.pooling and self.pooling not in allowed:
            raise ConfigError(
                "a model of this class cannot use this pooling",
                where="pooling",
                got=self.pooling,
                expected=" or ".join(allowed),
            )
        return replace(self, pooling=self.pooling or allowed[0])


def has_pooler(config: ModelConfig) -> bool:
    """True if texts are read as in BERT: at the first position, through a dense layer and tanh."""
    return not config.causal and config.norm_place == "post"


def body_of(config: ModelConfig) -> ModelConfig:
    """Return the shape of a language model without the parts that only guess tokens."""
    keeps_head = config.head and not has_pooler(config) and not config.embedding_dim
    return replace(config, head=keeps_head, output_bias=False, tied=True, pair_head=False, replaced_head=False)


class HeadedModel(LanguageModel):
    """An encoder or a decoder with a head.

    The weights are uninitialised memory: fill them with `start_headed` or `load_headed`.

    Args:
        config: of the language model that it was; an encoder-decoder is none.
        head: what it says.

    Attributes:
        language_config: as given; `config` is that of the blocks, see `body_of`.
        head_config: with the place where it is read.

    Raises:
        ConfigError: an encoder-decoder, or a head that such a model cannot have.
    """

    def __init__(self, config: ModelConfig, head: HeadConfig) -> None:
        if config.architecture == "encoder-decoder":
            raise ConfigError(
                "an encoder-decoder cannot have a head", got=config.architecture, expected="encoder or decoder"
            )
        super().__init__(body_of(config))
        self.language_config, self.head_config = config, head.of_body(config)
        is_sequence = head.kind == "sequence"
        self.pooler = Linear(config.dim, config.dim, bias=True) if is_sequence and has_pooler(config) else None
        self.classifier = Linear(config.dim, head.n_outputs, bias=not (is_sequence and config.causal))
        self.head_dropout = nn.Dropout(head.dropout)

    def scores(self, ids_BT: Tensor, mask_BT: Tensor | None = None, segments_BT: Tensor | None = None) -> Tensor:
        """Compute a head's scores: logits, or the number itself.

        Args:
            ids_BT: token ids, special tokens included.
            mask_BT: true at real tokens, which stand before the padding; None where there is none.
            segments_BT: which text of a pair each token belongs to; None: the first.

        Returns:
            (B, n_outputs) for a sequence, (B, T, n_outputs) for tokens and spans, where padding means nothing.
        """
        hidden_BTD = self.encode(ids_BT, mask_BT, segments_BT=segments_BT)
        if self.head_config.kind == "sequence":
            return self._read(self._pooled(hidden_BTD, mask_BT))
        return self._read(hidden_BTD)

    def scores_packed(self, packed: "Packed", segments_N: Tensor | None = None) -> Tensor:
        """Compute the head's scores of packed sequences.

        Args:
            packed: S sequences, N positions.
            segments_N: which text of a pair each position belongs to.

        Returns:
            (S, n_outputs) in the order of `packed`, or (N, n_outputs).
        """
        hidden_ND = self.encode_packed(packed, segments_N=segments_N)
        if self.head_config.kind != "sequence":
            return self._read(hidden_ND)
        runs = zip(packed.runs(hidden_ND), packed.real, strict=True)
        return self._read(torch.cat([self._pooled(hidden_BTD, real_BT) for hidden_BTD, real_BT in runs]))

    def head_weights(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield name and weight of what the head has beside the body of the language model."""
        yield from (
            (name, weight) for name, weight in self.named_parameters() if name.startswith(("pooler.", "classifier."))
        )

    def _pooled(self, hidden_BTD: Tensor, mask_BT: Tensor | None) -> Tensor:
        """Return one vector of each text, (B, D), for a head that scores whole texts."""
        if self.head_config.pooling == "cls":
            return hidden_BTD[:, 0]
        if mask_BT is None:
            return hidden_BTD[:, -1] if self.head_config.pooling == "last" else hidden_BTD.mean(1)
        mask_BT = mask_BT.bool()
        if self.head_config.pooling == "last":
            last_B = mask_BT.sum(1) - 1
            return hidden_BTD[torch.arange(len(last_B), device=last_B.device), last_B]
        summed_BD = torch.where(mask_BT[..., None], hidden_BTD, 0.0).sum(1)
        return summed_BD / mask_BT.sum(1, keepdim=True)

    def _read(self, states: Tensor) -> Tensor:
        """Return the scores of the head for pooled or single states."""
        if self.pooler is not None:
            states = torch.tanh(self.pooler(states))
        scores: Tensor = self.classifier(self.head_dropout(self.features_at(states)))
        return scores


@torch.no_grad()
def start_headed(model: LanguageModel, head: HeadConfig, seed: int, dropout: float = 0.0) -> HeadedModel:
    """Return a model with the weights of a language model and a fresh head.

    Args:
        model: the weights are copied; those that serve the guesses of tokens alone stay behind.
        head: what the new model says.
        seed: of the head's weights, which are drawn on the CPU: normal, of deviation 0.02; offsets are 0.
        dropout: of the blocks, in training.
    """
    config = model.language_config if isinstance(model, HeadedModel) else model.config
    headed = HeadedModel(replace(config, dropout=dropout), head)
    given, generator = dict(model.named_parameters()), torch.Generator().manual_seed(seed_of(seed, "head"))
    fresh = {name for name, _ in headed.head_weights()}
    for name, weight in headed.named_parameters():
        if name not in fresh:
            weight.copy_(given[name])
        elif weight.ndim == 1:
            weight.zero_()
        else:
            weight.copy_(torch.empty(weight.shape).normal_(0.0, EMBEDDING_STD, generator=generator))
    return headed.to(model.embedding.device)
