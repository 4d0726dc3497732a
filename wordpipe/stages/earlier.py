"""What `--update` may take over: the artifact that stands at the output."""

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.errors import ArtifactError
from wordpipe.stages.making import Job

__all__ = ["earlier_artifact"]


def earlier_artifact(job: Job, instead: str) -> Artifact | None:
    """Open the artifact at the job's output, of the job's kind; None, and a note why, where there is none or it is damaged.

    A damaged one is no error: what is made takes its place, as it would without `--update`.

    Args:
        job: the job; closes it.
        instead: what is done without it, for the note.
    """
    if not is_artifact(job.output):
        job.note(f"nothing to update at {job.output}: {instead}")
        return None
    try:
        return job.keep_open(Artifact(job.output, [job.kind], verify=job.run.verify))
    except ArtifactError as error:
        job.note(f"what is at {job.output} cannot be used ({error.what}): {instead}")
        return None
