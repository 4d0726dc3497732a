"""`wordpipe embed --update`: the vectors of the previous artifact whose texts need not be embedded again."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wordpipe import __version__
from wordpipe.artifacts import ENCODER, Artifact, library_versions, matrix_of, read_batches, row_count
from wordpipe.sentences import (
    TRANSFORM_FILE,
    StoredVectors,
    TextEncoder,
    Transform,
    VectorPlan,
    no_keys,
    read_after_title,
    text_keys,
)
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.job import Job

_REFIT_SHARE = 0.2  # of the texts that a transform was fitted on, changed since: then it is fitted anew
_OF_TRANSFORM = ("transform", "components", "dims")
_NOT_OF_VECTORS = {"unit", "with_title", *_OF_TRANSFORM, "batch_tokens", "device"}  # untransformed ones
# a text's vector has the same bits whatever is encoded with it; a transformer's depends on the padding of its batch
_BY_THEMSELVES = ("words", "static")


@dataclass(frozen=True)
class PreviousSentences:
    """A sentences artifact whose vectors this encoder would give again.

    Attributes:
        artifact: it, open.
        keys: uint64 (R, 2), of the text that each of its vectors was made of.
        transform: what its vectors went through.
        fitted_on: how many texts that was fitted on.
        changed: texts that came or went since.
        without_vector: texts of its corpus that it has no vector of; they are encoded again, and are no news.
        same_transform: whether the settings ask for that kind of transform again.
        exact: whether its vectors are to the bit what the encoder gives now, not only to rounding.
    """

    artifact: Artifact
    keys: NDArray[np.uint64]
    transform: Transform
    fitted_on: int
    changed: int
    without_vector: int
    same_transform: bool
    exact: bool

    def changed_with(self, plan: VectorPlan) -> int:
        """Texts that have come or gone since the transform was fitted, those of this update too."""
        return self.changed + max(0, plan.to_encode - self.without_vector) + plan.gone

    def keeps_transform(self, plan: VectorPlan) -> bool:
        """Whether the transform fits well enough still."""
        return self.same_transform and self.changed_with(plan) <= _REFIT_SHARE * self.fitted_on

    def vectors_at(self, job: Job, rows: NDArray[np.int64], *, raw: bool) -> StoredVectors:
        """The vectors of these ascending rows, as they are or as the encoder gave them.

        They go into a file of the job's, as units ask for them in another order, which Parquet cannot give.
        """
        path, done, seen = job.scratch / "previous.f32", 0, 0
        with path.open("wb") as file:
            for batch in read_batches(self.artifact, "sentences", ["vector"]):
                last = int(np.searchsorted(rows, seen + len(batch)))
                vectors_ND = matrix_of(batch.column("vector"))[rows[done:last] - seen]
                file.write(np.ascontiguousarray(self.transform.undone(vectors_ND) if raw else vectors_ND).data)
                done, seen = last, seen + len(batch)
        dim = len(self.transform.mean) if raw else self.transform.dim
        return StoredVectors([path], [len(rows)], dim)


def encoder_facts(origin: Artifact, raw: TextEncoder) -> dict[str, str]:
    """Which encoder gives the raw vectors."""
    return {"kind": origin.kind, "digest": origin.digest, "pooling": raw.pooling}


def open_previous(job: Job, origin: Artifact, raw: TextEncoder, settings: EmbedSettings) -> PreviousSentences | None:
    """The artifact at the job's output, if its vectors can be used; else a note says why not."""
    artifact = job.previous_artifact("all texts are embedded")
    if artifact is None:
        return None
    made, facts, before = artifact.manifest, artifact.manifest.facts, _settings_of(artifact)
    if (reason := _unusable(job, artifact, encoder_facts(origin, raw), settings)) is not None:
        job.note(f"{reason}: all is embedded again")
        return None
    transform = Transform.from_bytes(artifact.read(ENCODER + TRANSFORM_FILE), facts["transform"])
    fit = facts.get("fit") or {"texts": row_count(artifact, "sentences"), "changed": 0}
    # a new run of what made it would give its bytes: it says so, and ran on this code
    repeatable = made.bitwise and made.wordpipe == __version__ and made.versions == library_versions(*job.libraries)
    return PreviousSentences(
        artifact,
        _keys(job, artifact, with_title=before["with_title"] and before["unit"] != "sentence"),
        transform,
        fitted_on=int(fit["texts"]),
        changed=int(fit["changed"]),
        without_vector=made.counts.get("dropped_without_vector", 0),
        same_transform=all(settings.manifest()[name] == before[name] for name in _OF_TRANSFORM),
        exact=transform.kind == "none" and raw.kind in _BY_THEMSELVES and repeatable,
    )


def _unusable(job: Job, artifact: Artifact, encoder: dict[str, str], settings: EmbedSettings) -> str | None:
    """Why the encoder would not give the previous vectors again; None where it would."""
    facts, before = artifact.manifest.facts, _settings_of(artifact)
    if not {"encoder", "transform"} <= facts.keys() or ENCODER + TRANSFORM_FILE not in artifact.names():
        return f"{job.output} does not say how its vectors were made"
    for what, was, now in [
        ("the encoder", facts["encoder"], encoder),
        *((name, before[name], value) for name, value in settings.recipe().items() if name not in _NOT_OF_VECTORS),
        ("the device", artifact.manifest.device, job.device),
    ]:
        if was != now:
            return f"{what} is another than that of {job.output} ({_shown(was)} → {_shown(now)})"
    return None


def _settings_of(artifact: Artifact) -> dict[str, Any]:
    """How it was made; it may be older than some settings, which then had their defaults."""
    return {**EmbedSettings().manifest(), **artifact.manifest.settings}


def _keys(job: Job, artifact: Artifact, *, with_title: bool) -> NDArray[np.uint64]:
    """uint64 (R, 2): keys of what the encoder read."""
    keys, done, rows = [no_keys()], 0, row_count(artifact, "sentences")
    for batch in read_batches(artifact, "sentences", ["title", "text"]):
        text = batch.column("text")
        keys.append(text_keys(read_after_title(text, batch.column("title")) if with_title else text))
        done += len(batch)
        job.report("reading what is there", done, rows, "texts")
    return np.concatenate(keys)


def _shown(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    kind, digest, pooling = (str(value.get(name, "?")) for name in ("kind", "digest", "pooling"))
    return f"{kind} {digest[:12]}, {pooling}"
