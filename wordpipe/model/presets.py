"""Model sizes with a name, each with the batch and the learning rate that suit it. Imports nothing heavy.

`tiny` and `mini` train on two CPU cores, `small` on a GPU or with patience, `base` is BERT's and GPT-2's size.
"""

from dataclasses import dataclass
from typing import Literal

PresetName = Literal["tiny", "mini", "small", "base"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named size.

    Attributes:
        dim: width of the model.
        n_layers: blocks.
        n_heads: query heads, each 32 or 64 wide.
        n_kv_heads: key and value heads.
        ffn_dim: width of the gated feed-forward; 8/3 of `dim` has the parameters of a plain one of 4 `dim`
            (Shazeer 2020), less is ModernBERT's habit.
        max_len: positions of a training sequence, special tokens included.
        batch_size: sequences per step.
        lr: peak learning rate of AdamW; falls with the width. Muon's is `MUON_LR` times as high.
    """

    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    ffn_dim: int
    max_len: int
    batch_size: int
    lr: float


PRESETS: dict[PresetName, Preset] = {
    "tiny": Preset(dim=128, n_layers=2, n_heads=4, n_kv_heads=4, ffn_dim=320, max_len=128, batch_size=16, lr=2e-3),
    "mini": Preset(dim=256, n_layers=4, n_heads=4, n_kv_heads=4, ffn_dim=384, max_len=128, batch_size=32, lr=1e-3),
    "small": Preset(dim=384, n_layers=6, n_heads=6, n_kv_heads=6, ffn_dim=1024, max_len=256, batch_size=256, lr=1e-3),
    "base": Preset(dim=768, n_layers=12, n_heads=12, n_kv_heads=12, ffn_dim=2048, max_len=512, batch_size=512, lr=6e-4),
}

MUON_LR = 4.0
"""Muon's best learning rate over AdamW's. mini, 3 million tokens of Wikipedia, loss of the last 50 of 732 steps at 30 % masks:
rate 4e-3 4.33, 1e-2 4.36; after 200 steps 1e-3 6.81, 3e-3 6.27."""
