"""The facts that a report on a pipeline shows, as plain values: no artifact is opened for them here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReportedArtifact:
    """One artifact of a pipeline.

    Attributes:
        name: of it in the pipeline.
        manifest: as JSON has it; empty: it could not be read.
        state: fresh, stale, kept, damaged, or unknown (nobody knows how it should be made).
        reasons: of the state; of what is damaged what is wrong.
        chosen: settings that are not as they are by default.
        logs: runs of its training: finished, log, unigram_entropy.
        made_from: names of artifacts of the pipeline.
        sources: other inputs: kind, path, bytes, digest.
    """

    name: str
    manifest: Mapping[str, Any] = field(default_factory=dict)
    state: str = "unknown"
    reasons: Sequence[str] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    logs: Sequence[Mapping[str, Any]] = ()
    made_from: Sequence[str] = ()
    sources: Sequence[Mapping[str, Any]] = ()

    @property
    def kind(self) -> str:
        """Of artifact; empty: unknown."""
        return str(self.manifest.get("kind", ""))

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(one["bytes"] for one in self.manifest.get("outputs", ()))

    @property
    def seconds(self) -> float:
        """How long it took to make."""
        return float(self.manifest.get("seconds", 0.0))


@dataclass(frozen=True)
class ReportedPipeline:
    """What a report shows.

    Attributes:
        title: of the page.
        version: of wordpipe, which writes the report.
        artifacts: each after what it was made from.
        evaluations: file name → what `evaluate --json` printed.
        missing: stages of the config that were never made: name, why.
        said_by: the config that says what is fresh; empty: the artifacts alone.
        verified: every file was compared with its hash.
        notes: what could not be read.
    """

    title: str
    version: str
    artifacts: Sequence[ReportedArtifact]
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: Sequence[tuple[str, str]] = ()
    said_by: str = ""
    verified: bool = False
    notes: Sequence[str] = ()
