"""What `wordpipe show` and `wordpipe verify` know: an artifact's manifest, first rows, and whether it is whole."""

from pathlib import Path
from typing import Any

from wordpipe.artifacts import Artifact, is_artifact, open_part, read_batches
from wordpipe.errors import ArtifactError
from wordpipe.stages.job import PathLike

_LONG = 8  # numbers of a vector or list that are shown


def show(path: PathLike, *, rows: int = 0) -> dict[str, Any]:
    """The manifest, and the first `rows` rows of the artifact's main table. Raises ArtifactError: not an artifact."""
    with Artifact(path, verify=False) as artifact:
        found: list[dict[str, Any]] = []
        if rows and any(name.startswith(f"{artifact.kind}-") for name in artifact.names()):
            for batch in read_batches(artifact, artifact.kind):
                found += [_shortened(row) for row in batch.slice(0, rows - len(found)).to_pylist()]
                if len(found) >= rows:
                    break
        return {"path": str(path), "manifest": artifact.manifest.model_dump(mode="json"), "rows": found}


def verify(path: PathLike) -> dict[str, Any]:
    """Read every byte of an artifact and compare it with its hash, and every table with its row count.

    Returns:
        path, ok, kind, digest, files, bytes and warnings (inputs that have changed since).

    Raises:
        ArtifactError: the first thing that is wrong.
    """
    path = Path(path)
    with Artifact(path, verify=False) as artifact:
        artifact.check_hashes()
        for output in artifact.manifest.outputs:
            if output.rows is not None:
                with open_part(artifact, output.path) as part:
                    if part.metadata.num_rows != output.rows:
                        what = "the table has another number of rows than it had"
                        raise ArtifactError(what, where=path / output.path)
        outputs = artifact.manifest.outputs
        size = {"files": len(outputs) + 1, "bytes": sum(output.bytes for output in outputs)}
        about = {"path": str(path), "ok": True, "kind": artifact.kind, "digest": artifact.digest}
        return about | size | {"warnings": _changed_inputs(artifact)}


def _changed_inputs(artifact: Artifact) -> list[str]:
    """Inputs that stand where they stood but hold something else now."""
    warnings = []
    for entry in artifact.manifest.inputs:
        path = artifact.path.parent / (entry.path or "")
        if entry.kind in ("source", "file") or entry.path is None or not is_artifact(path):
            continue
        try:
            with Artifact(path, verify=False) as now:
                found = now.digest
        except ArtifactError as error:
            warnings.append(f"its input {path} is not whole: {error.what}")
            continue
        if found != entry.digest:
            warnings.append(f"{path} has changed since: it was {entry.digest[:16]} and is {found[:16]}")
    return warnings


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [*value[:_LONG], f"… {len(value)} in all"] if isinstance(value, list) and len(value) > _LONG else value
        for name, value in row.items()
    }
