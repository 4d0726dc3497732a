"""Settings of `wordpipe embed`."""

from typing import Any, Literal

from wordpipe.search.settings import UnitSettings
from wordpipe.settings import checked, setting


class EmbedSettings(UnitSettings):
    """Settings of `embed`: how texts become unit vectors."""

    command = "embed"

    pooling: Literal["auto", "mean", "cls", "max", "last", "mean-root", "rising", "first-last", "weighted", "sif"] = (
        setting(
            "auto",
            "how token vectors become one vector; for a model: mean, cls (the first token), max, last (the last token), "
            "mean-root (the sum, divided by the root of the number of tokens), rising (later tokens have more weight), "
            "first-last (mean of the first and last layers) or weighted (weights that contrastive training learned); for "
            "word vectors: mean or sif (rare words have more weight); auto: for a model, the pooling of its training, else "
            "mean; for word vectors, sif",
            section="How texts become vectors",
        )
    )
    transform: Literal["auto", "none", "centre", "remove-components", "whiten"] = setting(
        "auto",
        "change to all vectors: none, centre (subtract their mean), remove-components (also remove their strongest "
        "directions) or whiten (give every direction the same weight); auto: for a model without contrastive training, "
        "whiten if there are at least as many texts as numbers in a vector, else centre if there are at least 16 "
        "texts; none in all other cases",
    )
    store: Literal["int8", "float16", "float32"] = setting(
        "int8",
        "number format of the stored vectors: int8 (a byte for each number, and a scale for each vector), float16 or float32",
    )
    components: int = setting(1, "number of directions that remove-components removes", ge=1, le=1024, expert=True)
    dims: int = setting(0, "number of dimensions that `whiten` keeps (the strongest directions); 0 = all", ge=0)
    sif_a: float = setting(
        1e-4,
        "with sif, a word with the relative frequency p gets the weight a / (a + p)",
        gt=0,
        le=1,
        expert=True,
    )
    batch_tokens: int = setting(
        16_384, "number of tokens per batch, including padding", ge=1, expert=True, section="Where and how it runs"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "device that runs the model")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX, bfloat16 is two "
        "to four times as fast, and changed the numbers of vectors by at most 3e-4",
        expert=True,
    )
    threads: int = setting(0, "number of CPU threads; 0 = one per core", ge=0, expert=True)
    update: bool = setting(
        False,
        "reuse the vectors of unchanged texts from the sentences artifact in the output folder; embed only new texts",
        recipe=False,
    )

    def bundled(self) -> dict[str, Any]:
        """Return the settings that an encoder is saved with, as JSON values: not those of a machine, a run or a table."""
        return {name: value for name, value in self.recipe().items() if name not in ("device", "threads", "store")}

    @checked
    def _dims_are_of_whiten(self) -> None:
        if self.dims and self.transform != "whiten":
            raise ValueError(f"dims = {self.dims} needs transform = whiten, but transform is {self.transform}")
