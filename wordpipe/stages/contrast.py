"""`wordpipe train contrastive`: tokens → model, an encoder of texts."""

from typing import Any

from wordpipe.stages.making import Made, PathLike, RunOptions, making
from wordpipe.training.contrast.encoder_settings import ContrastiveSettings

__all__ = ["train_contrastive"]


def train_contrastive(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train an encoder of texts, without labels: texts that belong together come near, others are kept apart.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ContrastiveSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = ContrastiveSettings.make(settings)
    with making("model", "train contrastive", output, chosen, run) as job:
        job.libraries = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
        source = job.open_input(tokens, ["tokens"])
        if chosen.encoder == "static":
            from wordpipe.stages.contrast_static import train_static as train
        else:
            from wordpipe.stages.contrast_encoder import train_transformer as train
        train(job, source, chosen)
    return job.made
