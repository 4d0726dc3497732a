"""Settings of `wordpipe embed`."""

from typing import Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting

__all__ = ["EmbedSettings"]


class EmbedSettings(Settings):
    """How texts become unit vectors."""

    pooling: Literal["auto", "mean", "cls", "max", "sif"] = setting(
        "auto",
        "what makes one vector of many: mean, cls (the first token) or max of a model's; mean or sif (rare words weigh "
        "more) of word vectors; auto: mean for a model, sif for words",
    )
    unit: Literal["sentence", "document", "window"] = setting(
        "sentence", "what gets a vector: a sentence, a document, or as many sentences as fit a window"
    )
    window: int = setting(
        0, "tokens (or words) per window; 0 = as many as the model reads at once, 128 for word vectors", ge=0
    )
    overlap: int = setting(16, "tokens that a window shares with the one before it, at most", ge=0)
    transform: Literal["auto", "none", "centre", "remove-components"] = setting(
        "auto",
        "what is taken from every vector: nothing, the mean of all, or also the directions that all share; auto: centre "
        "for a model, remove-components for words; nothing below 16 texts",
    )
    components: int = setting(1, "directions that remove-components takes away", ge=1, le=1024)
    sif_a: float = setting(1e-3, "sif: a word of share p in the text weighs a / (a + p)", gt=0, le=1)
    batch_tokens: int = setting(16_384, "tokens per batch, padding included", ge=1)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where a model runs")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere"
    )
    threads: int = setting(0, "threads of a model on the CPU, 0 = one per core", ge=0)

    @model_validator(mode="after")
    def _windows_move_on(self) -> Self:
        if self.window and self.overlap >= self.window:
            raise ValueError(f"overlap = {self.overlap} should be less than window = {self.window}")
        return self
