"""Artifacts that were deleted to save disk, and what stays of each: its manifest, `.NAME.deleted` beside its folder.

By the manifest a pipeline knows what the artifact was, so that what was made of it is still up to date, and an index knows the
settings of its corpus. Where the artifact is made again, its folder counts, and not what stayed of the old one.
"""

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from wordpipe.artifacts.manifest import InputEntry, Kind, Manifest
from wordpipe.artifacts.publish import OutputLock, check_replaceable, clear_leftovers, failpoint, sync_folder
from wordpipe.artifacts.reader import input_of, is_artifact, manifest_at
from wordpipe.artifacts.safe_reading import MANIFEST, MAX_MANIFEST, read_regular_file
from wordpipe.artifacts.writer import atomic_file
from wordpipe.errors import DamageError, InputError, StorageError
from wordpipe.storage import as_path, url_of


def _record_of(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.deleted"


def is_deleted(path: str | Path) -> bool:
    """True if an artifact is not there, but was deleted by `delete_artifact`."""
    return url_of(path) is None and not is_artifact(Path(path)) and _record_of(Path(path)).is_file()


def manifest_known(path: str | Path, kinds: Iterable[Kind] = ()) -> Manifest:
    """Return the manifest of an artifact, also of one that was deleted.

    Raises:
        ArtifactError: there is none, it is of another kind, or it cannot be read.
    """
    if not is_deleted(path):
        return manifest_at(path, kinds)
    record = _record_of(Path(path))
    try:
        found = Manifest.from_bytes(read_regular_file(record, MAX_MANIFEST), where=str(record))
    except InputError as error:
        raise DamageError("the manifest of a deleted artifact cannot be read", where=record, got=error.what) from None
    if found.kind not in (wanted := tuple(kinds) or (found.kind,)):
        raise DamageError(
            "the deleted artifact was of another kind", where=record, got=found.kind, expected=" or ".join(wanted)
        )
    return found


def input_known(artifact: Path, entry: InputEntry) -> tuple[Path, Manifest] | None:
    """Return path and manifest of an input that is there unchanged, see `input_of`, or was deleted so."""
    path = as_path(artifact.absolute().parent / (entry.path or ""))
    if not is_deleted(path):
        return input_of(artifact, entry)
    try:
        manifest = manifest_known(path)
    except (DamageError, StorageError):
        return None
    return (path, manifest) if manifest.digest == entry.digest else None


def delete_artifact(folder: Path) -> None:
    """Delete an artifact but for its manifest, which stays beside the folder.

    A run that is killed leaves it whole, or deleted with files that the next call removes. Files that other artifacts have,
    too, stay there.

    Raises:
        ArtifactError: the folder is no artifact, or has files that wordpipe did not write.
        LockedError: a run is writing it.
        StorageError: the disk refused.
    """
    with OutputLock(folder):
        clear_leftovers(folder)
        if is_deleted(folder):
            return
        check_replaceable(folder, manifest_at(folder).kind)
        with atomic_file(_record_of(folder)) as file:
            file.write(read_regular_file(folder / MANIFEST, MAX_MANIFEST))
        failpoint("delete.noted")
        going = (
            folder.parent / f".{folder.name}.{secrets.token_hex(8)}.tmp"
        )  # what a killed run leaves is cleared as usual
        folder.rename(going)
        failpoint("delete.set_aside")
        sync_folder(folder.parent)
        shutil.rmtree(going)


def forget_deleted(path: str | Path) -> None:
    """Remove what stayed of a deleted artifact that has been made again."""
    if url_of(path) is None:
        _record_of(Path(path)).unlink(missing_ok=True)
