"""Where a stage's text comes from: a corpus artifact, or sources that are ingested on the fly."""

from collections.abc import Iterable
from pathlib import Path

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.stages.ingest import ingest
from wordpipe.stages.making import Job, PathLike, RunOptions
from wordpipe.stages.sources import as_list, refuse_artifacts

__all__ = ["open_corpus"]


def open_corpus(job: Job, corpus: PathLike | Iterable[PathLike]) -> Artifact:
    """The corpus to work on. Sources are ingested into the job's scratch folder with the default settings.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths = as_list(corpus)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        return job.open_input(paths[0], ["corpus"])
    refuse_artifacts(paths)
    made = ingest(paths, output=job.scratch / "corpus", run=RunOptions(report=job.run.report))
    artifact = job.keep_open(Artifact(made.path, ["corpus"]))
    job.inputs += artifact.manifest.inputs
    job.counts |= {f"ingest_{name}": count for name, count in made.counts.items()}
    job.warnings += made.warnings
    return artifact
