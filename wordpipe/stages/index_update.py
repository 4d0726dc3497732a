"""What an index at the output is still good for: which of its rows are rows of the new table."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts.reader import Artifact
from wordpipe.search.kinds import candidate_kinds
from wordpipe.search.matching import matched_rows
from wordpipe.search.settings import IndexSettings
from wordpipe.search.update import can_be_updated
from wordpipe.stages.index_figures import lineage_of
from wordpipe.stages.index_vectors import IndexVectors, carried_keys
from wordpipe.stages.inputs import earlier_artifact
from wordpipe.stages.making import Job

__all__ = ["Earlier", "earlier_index"]

_MOST_CHANGED = 0.2  # of the rows that the lists or the graph were made for; they fit the rest less and less


@dataclass(frozen=True)
class Earlier:
    """The index that stands at the output.

    Attributes:
        artifact: open as long as the job.
        old_rows: for each new row its row there, or -1.
        kind: of the index.
        in_place: whether it can be changed; else it is built anew, and only what was found out about its texts is of use.
        changed: rows that came or went since it was built, these included.
    """

    artifact: Artifact
    old_rows: npt.NDArray[np.int64]
    kind: str
    in_place: bool
    changed: int

    @property
    def old_count(self) -> int:
        """Rows that it has."""
        return int(self.artifact.manifest.counts["vectors"])

    @property
    def recall_at_10(self) -> float:
        """What it finds of the true ten nearest."""
        return float(self.artifact.manifest.metrics["recall_at_10"])

    @property
    def counts(self) -> dict[str, int]:
        """Rows that stay, come and go; a changed one comes and goes."""
        kept = int((self.old_rows >= 0).sum())
        return {"kept": kept, "added": len(self.old_rows) - kept, "removed": self.old_count - kept}


def earlier_index(job: Job, source: Artifact, table: IndexVectors, settings: IndexSettings) -> Earlier | None:
    """Open the index at the output and find its rows again; None, and a note why, where it is of no use.

    A row is found again by its document, its text, its title where that was read, and the bits of its vector.
    """
    old = earlier_artifact(job, "building anew")
    if old is None:
        return None
    if reason := _misfit(old, source, settings):
        job.note(f"{reason}: building anew")
        return None
    if (old_keys := carried_keys(old)) is None:
        job.note("the index there has no keys of its rows: building anew")
        return None
    job.report("comparing rows")
    old_rows = matched_rows(old_keys, table.keys())
    return _judged(job, Earlier(old, old_rows, str(old.manifest.facts["type"]), True, 0), settings)


def _misfit(old: Artifact, source: Artifact, settings: IndexSettings) -> str | None:
    """Why nothing of the old index fits the new vectors."""
    facts, ours = old.manifest.facts, lineage_of(source)
    if facts["of"] != source.kind:
        return f"the index there is of {facts['of']}, and these are {source.kind}"
    if facts["dim"] != source.manifest.facts["dim"]:
        return f"the index there has vectors of width {facts['dim']}"
    theirs = facts.get("lineage", {})
    if changed := [name for name, digest in ours.items() if name != "vectors" and theirs.get(name) != digest]:
        return f"the vectors come from another {' and '.join(changed)}"
    asked = settings.recipe()
    other = [name for name, value in asked.items() if old.manifest.settings.get(name) != value]
    return f"the index there was built with another {', '.join(other)}" if other else None


def _judged(job: Job, found: Earlier, settings: IndexSettings) -> Earlier:
    """Whether the index can be changed in place; says why not."""
    facts, n = found.artifact.manifest.facts, len(found.old_rows)
    changed = int(facts.get("changed_since_built", 0)) + found.counts["added"] + found.counts["removed"]
    built_for = int(facts.get("built_for", n))
    reason = None
    if found.kind == "flat":
        return Earlier(found.artifact, found.old_rows, found.kind, False, 0)
    if not can_be_updated(found.kind):
        reason = f"a {found.kind} index cannot be changed"
    elif changed > _MOST_CHANGED * built_for:
        reason = f"{changed:,} rows came or went since it was built for {built_for:,}, more than a fifth"
    elif settings.type == "auto" and candidate_kinds(settings, n)[0].name != found.kind:
        reason = f"for {n:,} rows auto takes another kind than {found.kind}"
    if reason:
        job.note(f"{reason}: building anew")
    return Earlier(found.artifact, found.old_rows, found.kind, reason is None, changed if reason is None else 0)
