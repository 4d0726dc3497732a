"""Small models for the tests of this folder."""

from wordpipe.model.config import ModelConfig


def small_config(architecture: str, **changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "architecture": architecture,
        "vocab_size": 96,
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "n_kv_heads": 4,
        "ffn_dim": 48,
        "max_len": 24,
        "pad_id": 0,
        "bos_id": 5,
        "eos_id": 6,
        "cls_id": 2,
        "sep_id": 3,
        "mask_id": 4,
    }
    return ModelConfig(**(values | changes))  # type: ignore[arg-type]
