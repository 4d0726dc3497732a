"""Copies of artifacts: from a folder to a bucket, from a bucket to a folder, or between two of one sort.

The copy is the same to the byte, manifest included, and is published as any artifact is: whole or absent.
"""

import shutil
from pathlib import Path
from typing import Any

from wordpipe.artifacts import (
    Artifact,
    ArtifactWriter,
    OutputLock,
    RemoteOutput,
    check_replaceable,
    clear_leftovers,
    refuse_inside_artifact,
)
from wordpipe.errors import ConfigError
from wordpipe.runtime import Progress
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.storage import as_path, url_of

_BLOCK = 1 << 20


@public()
def copy(artifact: PathLike, *, output: PathLike, run: RunOptions | None = None) -> dict[str, Any]:
    """Copy an artifact, checked, to or from a bucket, or between folders.

    Args:
        artifact: a folder, or a URL.
        output: a folder, or a URL; an artifact of the same kind there is replaced in one step.
        run: progress, verification.

    Returns:
        path, kind, digest, files and bytes.

    Raises:
        ArtifactError: it is not whole; an artifact of another kind is at the output.
        LockedError: another run publishes there.
        StorageError: something else is there; the disk or the store refused.

    Example:
        >>> wordpipe.copy("run/words", output="copied/words")["kind"]
        'words'
    """
    run, target = run or RunOptions(), as_path(output)
    with storage_errors(target), Artifact(artifact, verify=run.verify) as source:
        if str(target.absolute()) == str(source.place):
            raise ConfigError("the output and the input are the same artifact", where=str(target))
        outputs = source.manifest.outputs
        total = sum(entry.bytes for entry in outputs)

        def report(done: float, of: float = total) -> None:
            run.report(Progress("copying", done / 1e6, of / 1e6, "MB"))

        if (url := url_of(target)) is not None:
            RemoteOutput(url, source.kind).send(source.folder, report)
        else:
            _copy_to_folder(source, target, report)
        return {
            "path": str(target), "kind": source.kind, "digest": source.digest, "files": len(outputs) + 1, "bytes": total,
        }  # fmt: skip


def _copy_to_folder(source: Artifact, target: Path, report: Any) -> None:
    """Write the files of an open artifact beside the target, and put them in place."""
    refuse_inside_artifact(target)
    check_replaceable(target, source.kind)
    target.parent.mkdir(parents=True, exist_ok=True)
    with OutputLock(target):
        clear_leftovers(target)
        with ArtifactWriter(target) as writer:
            done = 0
            for entry in source.manifest.outputs:
                with source.open(entry.path) as file:
                    shutil.copyfileobj(file, made := writer.open(entry.path), _BLOCK)
                writer.close(made, rows=entry.rows, log=entry.log)
                done += entry.bytes
                report(done)
            writer.publish(source.manifest)
