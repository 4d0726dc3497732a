"""Deletion of artifacts of a pipeline that only others were made of, to save disk: which they are, and their price.

    made of nothing else    the last artifacts of the pipeline stay, as they are what is queried and served
    up to date              so do artifacts that a stage reads which is to be made, or that a stage updates
    freed                   files that an artifact shares with one that stays (rows and encoder of an index) free nothing;
                            where most of an artifact is shared, it stays

An index that stays carries the encoder of its vectors, with which `embed` goes on without the model or words.
A deleted artifact leaves its manifest, so `run` makes it again only for a stage that is to be made and reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wordpipe.artifacts import MANIFEST, Manifest, delete_artifact, is_artifact, is_deleted, manifest_at
from wordpipe.errors import ConfigError
from wordpipe.pipeline.config import CONFIG, nearest
from wordpipe.pipeline.run import Pipeline, State
from wordpipe.stages import Estimate, PathLike, public
from wordpipe.storage import url_of

_LEAST_FREED = 0.1  # of the bytes of an artifact
_EMBED = "embed, "  # is not lost where an index carries the encoder
_NEEDED_FOR = {
    "corpus": "ingest --update and --add, show and predict of the corpus",
    "tokens": "evaluate tokenizer, show, further trainings",
    "words": f"{_EMBED}query, map and evaluate of these words, further trainings",
    "model": f"{_EMBED}evaluate, fill, generate and predict with this model, further trainings",
    "sentences": "embed --update, cluster, duplicates, another index of these vectors",
    "index": "query and serve of this index",
    "clusters": "show of these clusters",
    "predictions": "show and evaluate of these predictions",
}
"""Kind of an artifact → what works no longer without it."""


@dataclass(frozen=True)
class Deletable:
    """An artifact of a pipeline that can be deleted."""

    stage: str
    output: str  # its folder, seen from the current one
    kind: str
    bytes: int  # of its files
    freed_bytes: int  # of files that no artifact that stays has
    lost: str  # what works no longer
    estimate: Estimate | None  # of making it again


@dataclass(frozen=True)
class Slimmed:
    """The artifacts of a pipeline that can be deleted, or were, and those that stay."""

    deletable: tuple[Deletable, ...]
    kept: tuple[tuple[str, str], ...]  # the other artifacts that are there, each with the reason why it stays
    bytes: int  # of the files of all artifacts, each once
    freed_bytes: int
    deleted: bool

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        found = [asdict(one) | {"estimate": one.estimate.to_json() if one.estimate else None} for one in self.deletable]
        return asdict(self) | {"deletable": found, "kept": [{"stage": name, "why": why} for name, why in self.kept]}


@public(name="slim")
def slim_pipeline(config: PathLike = CONFIG, *, keep: Sequence[str] = (), delete: bool = False) -> Slimmed:
    """List the artifacts of a pipeline from which only others were made, and delete them if that is wanted.

    Args:
        config: the file that describes the stages.
        keep: stages whose artifacts stay.
        delete: delete what is listed; else nothing is changed.

    Returns:
        What can be deleted, with the bytes that this frees, what works no longer, and an estimate of making it again.

    Raises:
        WordpipeError: the config or an input is wrong, or a run is writing one of the artifacts.

    Example:
        >>> [one.stage for one in wordpipe.slim("wordpipe.toml").deletable]
        []
    """
    pipeline = Pipeline(config)
    names = [stage.name for stage in pipeline.stages]
    for name in keep:
        if name not in names:
            raise ConfigError(
                f"there is no stage {name!r}", where="keep", expected=", ".join(names), hint=nearest(name, names)
            )
    states = {state.stage.name: state for state in pipeline.states()}
    there = [name for name, state in states.items() if _is_here(state)]
    files = {name: _files_of(states[name].stage.output) for name in there}
    # the reasons to stay that follow from the stages, and then from the files
    kept = {name: why for name in there if (why := _why_kept(pipeline, states, name, keep))}
    while shared := _shared(files, {*there} - {*kept}):
        kept |= dict.fromkeys(shared, "its files are those of artifacts that stay, too")
    going = [name for name in there if name not in kept]
    sizes, freed = {name: sum(files[name].values()) for name in there}, _freed(files, {*going})
    again = [State(states[name].stage, ("deleted",)) for name in going]
    manifests = {name: manifest_at(states[name].stage.output) for name in there}
    bundled = {
        _made_by(manifests[name]): str(pipeline.from_here(states[name].stage.output))
        for name in kept if manifests[name].kind == "index"
    }  # fmt: skip
    estimates = {state.stage.name: state.estimate for state in pipeline.estimated(again)}
    found = tuple(
        Deletable(
            name, str(pipeline.from_here(states[name].stage.output)), manifests[name].kind, sizes[name], freed[name],
            _lost(manifests[name], bundled), estimates[name],
        ) for name in going
    )  # fmt: skip
    # readers go before what they read: a run that is killed leaves nothing that lacks its input
    if delete:
        left = [name for name, state in states.items() if is_deleted(state.stage.output)]
        for name in [*left, *reversed(going)]:
            delete_artifact(states[name].stage.output)
    whole = {number: size for one in files.values() for number, size in one.items()}
    return Slimmed(found, tuple(kept.items()), sum(whole.values()), sum(freed.values()), delete)


def _is_here(state: State) -> bool:
    """True if the artifact of a stage lies on this machine's disk."""
    return url_of(state.stage.output) is None and is_artifact(state.stage.output)


def _why_kept(pipeline: Pipeline, states: dict[str, State], name: str, keep: Sequence[str]) -> str:
    """Return the reason why the artifact of a stage stays, or an empty text."""
    readers = [state for state in states.values() if name in pipeline.read_by(state.stage)]
    waiting = [state.stage.name for state in readers if not state.fresh]
    if name in keep:
        return "named by --keep"
    if not readers:
        return "no stage reads this artifact"
    if not states[name].fresh:
        return "it is stale"
    if states[name].stage.settings.get("update"):
        return "it is updated"
    return f"needed to make {', '.join(waiting)}" if waiting else ""


def _made_by(index: Manifest) -> str | None:
    """Return the digest of the model or words whose encoder an index carries; None where it carries none."""
    encoder = index.facts.get("encoder")
    return str(encoder.get("digest")) if isinstance(encoder, dict) else None


def _lost(manifest: Manifest, bundled: Mapping[str | None, str]) -> str:
    """Return what works no longer without an artifact.

    Args:
        manifest: of the artifact.
        bundled: digest of a model or words → an index that stays and carries its encoder.
    """
    lost = _NEEDED_FOR[manifest.kind]
    if (index := bundled.get(manifest.digest)) is None:
        return lost
    return f"{lost.removeprefix(_EMBED)} (new texts are embedded with {index})"


def _files_of(folder: Path) -> dict[tuple[int, int], int]:
    """Return the files of an artifact by their numbers on the disk, with their bytes; without the manifest, which stays."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != MANIFEST)
    found = (path.stat() for path in files)
    return {(one.st_dev, one.st_ino): one.st_size for one in found}


def _freed(files: dict[str, dict[tuple[int, int], int]], going: set[str]) -> dict[str, int]:
    """Return the bytes that the deletion of some artifacts frees, by artifact; a file that two of them share counts once."""
    held = {number for name, one in files.items() if name not in going for number in one}
    found: dict[str, int] = {}
    for name in (name for name in files if name in going):
        own = {number: size for number, size in files[name].items() if number not in held}
        found[name], held = sum(own.values()), held | {*own}
    return found


def _shared(files: dict[str, dict[tuple[int, int], int]], going: set[str]) -> list[str]:
    """Return those of some artifacts whose deletion frees nearly nothing, as artifacts that stay have their files."""
    held = {number for name, one in files.items() if name not in going for number in one}
    freed = {name: sum(size for number, size in files[name].items() if number not in held) for name in going}
    return [name for name in files if name in going and freed[name] < _LEAST_FREED * sum(files[name].values())]
