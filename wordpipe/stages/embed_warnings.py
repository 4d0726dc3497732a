"""What `wordpipe embed` warns of when its vectors are written: texts that fell out, and a space in which all look alike."""

import shlex

from wordpipe.artifacts.reader import Artifact
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import CROWDED
from wordpipe.stages.making import Job

__all__ = ["warn_of_vectors"]

_MANY_DROPPED = 0.05  # of the units
_WHY_DROPPED = {
    "words": "words of it that are in the table; train the words on text like this, or with a smaller --min-count",
    "model": "tokens that it knows; train on text like this",
}


def warn_of_vectors(job: Job, origin: Artifact, chosen: EmbedSettings) -> None:
    """Warn of what a search would suffer from, as the job's counts and figures tell it.

    Args:
        job: with its counts (units, dropped_without_vector) and, of 16 vectors or more, mean_cosine.
        origin: the model or words.
        chosen: how the texts were embedded.
    """
    dropped, units = job.counts["dropped_without_vector"], job.counts["units"]
    if dropped > _MANY_DROPPED * units:
        job.warn(
            f"{dropped:,} of {units:,} {chosen.unit}s ({dropped / units:.0%}) have no vector and are left out: they hold no "
            f"{_WHY_DROPPED[origin.kind]}"
        )
    cosine = job.metrics.get("mean_cosine", 0.0)
    if cosine > CROWDED:
        job.warn(
            f"all texts look alike: the mean cosine of two is {cosine:.2f}, where 0 is healthy; {_cure(origin)}what mends it: "
            f"wordpipe doctor {shlex.quote(str(job.output))}"
        )


def _cure(origin: Artifact) -> str:
    """What to do about it first: vectors of words are crowded while they have hardly been trained."""
    if origin.manifest.command != "train word2vec":
        return ""
    return f"the word vectors may need more --epochs than {origin.manifest.facts['epochs']}, or more text; "
