"""Where a stage's text comes from: a corpus artifact, or sources that are ingested on the fly."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.stages.ingest import ingest
from wordpipe.stages.making import Job, PathLike, RunOptions
from wordpipe.stages.sources import as_list, refuse_artifacts

__all__ = ["corpus_to_judge", "open_corpus"]


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


@contextmanager
def corpus_to_judge(data: PathLike | Iterable[PathLike], run: RunOptions) -> Iterator[tuple[Artifact, bool]]:
    """A corpus to be read only, and whether it was made here: sources become one in a temporary folder, gone afterwards.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths = as_list(data)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        with Artifact(paths[0], ["corpus"], verify=run.verify) as artifact:
            yield artifact, False
        return
    refuse_artifacts(paths)
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        made = ingest(paths, output=Path(folder) / "corpus", run=RunOptions(report=run.report))
        with Artifact(made.path, ["corpus"], verify=False) as artifact:
            yield artifact, True
