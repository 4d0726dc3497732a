"""A tokenizer and a model small enough to think through."""

from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from wordpipe.encoders import TransformerEncoder
from wordpipe.encoders.settings import EmbedSettings

CLS, SEP, UNK = 1, 2, 3
WORDS = {f"w{i}": i + 4 for i in range(30)}


def tokenizer(*, specials: bool = True) -> Tokenizer:
    """Words w0 … w29, with [CLS] and [SEP] around a text; it would truncate and pad if it were let."""
    made = Tokenizer(WordLevel({"[PAD]": 0, "[CLS]": CLS, "[SEP]": SEP, "[UNK]": UNK} | WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    if specials:
        made.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
        )
    made.enable_truncation(4)
    made.enable_padding()
    return made


class Mixing(torch.nn.Module):
    """Every position gets its embedding plus the mean of all real positions: a stand-in for attention."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = torch.nn.Embedding(40, dim)
        self.dropout = torch.nn.Dropout(0.5)

    def encode(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        assert ids_BT.dtype == torch.int64
        assert mask_BT.dtype == torch.bool
        hidden_BTD = self.dropout(self.embedding(ids_BT))
        mask_BT1 = mask_BT.unsqueeze(-1)
        mean_B1D = (hidden_BTD * mask_BT1).sum(1, keepdim=True) / mask_BT1.sum(1, keepdim=True)
        return torch.tanh(hidden_BTD + mean_B1D)


def encoder(*, specials: bool = True, max_len: int = 10, model: Any = None, **values: Any) -> TransformerEncoder:
    """An encoder over the tiny model."""
    settings = EmbedSettings(**({"device": "cpu", "threads": 1, "overlap": 2} | values))
    return TransformerEncoder(model or Mixing(), tokenizer(specials=specials), settings, dim=8, max_len=max_len)


def token_windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """The slow twin of `frame`: windows (start, stop) over `length` tokens, at most `size` long, sharing `overlap` each."""
    starts = range(0, max(length - overlap, 1), size - overlap)
    return [(start, min(start + size, length)) for start in starts] if length else []
