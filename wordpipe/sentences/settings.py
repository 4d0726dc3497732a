"""Settings of `wordpipe embed`."""

from typing import Literal

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
    with_title: bool = setting(True, "documents and windows are read with their title before them")
    window: int = setting(
        0, "tokens (or words) per window; 0 = as many as the model reads at once, 128 for word vectors", ge=0
    )
    overlap: int = setting(16, "tokens that a window shares with the one before it; never more than half", ge=0)
    transform: Literal["auto", "none", "centre", "remove-components"] = setting(
        "auto",
        "what is taken from every vector: nothing, the mean of all, or also the directions that all share; auto: centre "
        "for 16 texts or more of a model, else none",
    )
    components: int = setting(1, "directions that remove-components takes away", ge=1, le=1024)
    sif_a: float = setting(1e-4, "sif: a word of share p in the text weighs a / (a + p)", gt=0, le=1)
    batch_tokens: int = setting(16_384, "tokens per batch, padding included", ge=1)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where a model runs")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere"
    )
    threads: int = setting(0, "threads of a model on the CPU, 0 = one per core", ge=0)
