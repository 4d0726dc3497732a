"""Settings of `wordpipe embed`."""

from typing import Any, Literal

from wordpipe.settings import Settings, checked, setting


class EmbedSettings(Settings):
    """Settings of `embed`: how texts become unit vectors."""

    command = "embed"

    pooling: Literal["auto", "mean", "cls", "max", "first-last", "weighted", "sif"] = setting(
        "auto",
        "how one vector is made of many; for a model: mean, cls (the first token), max, first-last (mean of the first "
        "and the last layer) or weighted (with the weights that contrastive training learned); for word vectors: mean "
        "or sif (rare words weigh more); auto: the pooling that a model was trained with, else mean; for word vectors "
        "sif",
        section="How texts become vectors",
    )
    unit: Literal["sentence", "document", "window"] = setting(
        "sentence",
        "what gets a vector: a sentence, a document, or as many sentences as fit a window",
        section="What gets a vector",
    )
    with_title: bool = setting(True, "documents and windows are read with their title before the text", expert=True)
    window: int = setting(
        0, "tokens (or words) per window; 0 = as many as the model can read at once, 128 for word vectors", ge=0
    )
    overlap: int = setting(
        16, "tokens that a window shares with the window before it; at most half of a window", ge=0, expert=True
    )
    transform: Literal["auto", "none", "centre", "remove-components", "whiten"] = setting(
        "auto",
        "how all vectors are changed; none, centre (subtract their mean), remove-components (also remove the "
        "directions that all share) or whiten (give every direction the same weight); auto: for a model without "
        "contrastive training, whiten if there are at least as many texts as numbers in a vector, else centre from 16 "
        "texts on; none in all other cases",
        section="How texts become vectors",
    )
    components: int = setting(1, "number of directions that remove-components removes", ge=1, le=1024, expert=True)
    dims: int = setting(0, "number of dimensions that `whiten` keeps (the strongest directions); 0: all", ge=0)
    sif_a: float = setting(
        1e-4,
        "with sif, a word of relative frequency p in the text gets the weight a / (a + p)",
        gt=0,
        le=1,
        expert=True,
    )
    batch_tokens: int = setting(
        16_384, "tokens per batch, padding included", ge=1, expert=True, section="Where and how it runs"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "device that runs the model")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX, bfloat16 is two "
        "to four times as fast, and changed the numbers of vectors by at most 3e-4",
        expert=True,
    )
    threads: int = setting(0, "threads on the CPU, 0 = one per core", ge=0, expert=True)
    update: bool = setting(
        False,
        "reuse the vectors of unchanged texts from the sentences artifact at the output; only new texts are embedded",
        recipe=False,
    )

    def bundled(self) -> dict[str, Any]:
        """Return the settings that an encoder is saved with, as JSON values: not those of a machine or of one run."""
        return {name: value for name, value in self.recipe().items() if name not in ("device", "threads")}

    @checked
    def _dims_are_of_whiten(self) -> None:
        if self.dims and self.transform != "whiten":
            raise ValueError(f"dims = {self.dims} needs transform = whiten, not {self.transform}")
