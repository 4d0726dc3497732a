"""Settings of `wordpipe embed`."""

from typing import Any, Literal

from wordpipe.settings import Settings, checked, setting


class EmbedSettings(Settings):
    """Settings of `embed`: how texts become unit vectors."""

    command = "embed"

    pooling: Literal["auto", "mean", "cls", "max", "first-last", "weighted", "sif"] = setting(
        "auto",
        "what makes one vector of many; mean, cls (the first token), max, first-last (mean of the first and the last layer) "
        "or weighted (by the weights that a contrastive model was trained with) of a model's; mean or sif (rare words weigh "
        "more) of word vectors; auto: what a model was trained with, else mean, and sif for words",
        section="How texts become vectors",
    )
    unit: Literal["sentence", "document", "window"] = setting(
        "sentence",
        "what gets a vector: a sentence, a document, or as many sentences as fit a window",
        section="What gets a vector",
    )
    with_title: bool = setting(True, "documents and windows are read with their title before the text", expert=True)
    window: int = setting(
        0, "tokens (or words) per window, 0 = as many as the model reads at once, 128 for word vectors", ge=0
    )
    overlap: int = setting(
        16, "tokens that a window shares with the one before it; never more than half", ge=0, expert=True
    )
    transform: Literal["auto", "none", "centre", "remove-components", "whiten"] = setting(
        "auto",
        "what is done to every vector; nothing, the mean of all taken away, also the directions that all share, or every "
        "direction given the same weight; auto, for a model that no contrast has "
        "trained: whiten for as many texts as a vector has numbers, centre for 16 or more; else none",
        section="How texts become vectors",
    )
    components: int = setting(1, "directions that remove-components takes away", ge=1, le=1024, expert=True)
    dims: int = setting(0, "numbers per vector that whiten keeps, of the strongest directions, 0 = all", ge=0)
    sif_a: float = setting(1e-4, "sif: a word of share p in the text weighs a / (a + p)", gt=0, le=1, expert=True)
    batch_tokens: int = setting(
        16_384, "tokens per batch, padding included", ge=1, expert=True, section="Where and how it runs"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where a model runs")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX bfloat16 is two to four "
        "times as fast, and no number of a vector was more than 3e-4 off",
        expert=True,
    )
    threads: int = setting(0, "threads on the CPU, 0 = one per core", ge=0, expert=True)
    update: bool = setting(
        False,
        "take the vectors of texts that have not changed from the sentences at the output; what is embedded is what is new",
        recipe=False,
    )

    def bundled(self) -> dict[str, Any]:
        """Return the settings that an encoder is saved with, as JSON values: not those of a machine or of one run."""
        return {name: value for name, value in self.recipe().items() if name not in ("device", "threads")}

    @checked
    def _dims_are_of_whiten(self) -> None:
        if self.dims and self.transform != "whiten":
            raise ValueError(f"dims = {self.dims} is for transform = whiten, not {self.transform}")
