"""The facts that a report is about, and sentences on them in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wordpipe.pages.drawings import is_number
from wordpipe.wording import counted, human_bytes, human_count

_MOST_SENTENCES = 6
_RISE = 0.02  # of the lowest held-out loss: what lies above it is no noise


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
        samples: of an index, questions and answers: query, answers (title, place, pieces: text, whether it is marked).
        dates: of a corpus, field → its first and its last value.
        clusters: of clusters, labels and sizes, the largest first.
    """

    name: str
    manifest: Mapping[str, Any] = field(default_factory=dict)
    state: str = "unknown"
    reasons: Sequence[str] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    logs: Sequence[Mapping[str, Any]] = ()
    made_from: Sequence[str] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    samples: Sequence[Mapping[str, Any]] = ()
    dates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    clusters: Sequence[tuple[str, int]] = ()

    @property
    def kind(self) -> str:
        """Kind of the artifact; empty: unknown."""
        return str(self.manifest.get("kind", ""))

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(one["bytes"] for one in self.manifest.get("outputs", ()))

    @property
    def seconds(self) -> float:
        """Seconds that it took to make."""
        return float(self.manifest.get("seconds", 0.0))


@dataclass(frozen=True)
class ReportedPipeline:
    """The contents of a report.

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


def plain_words(artifacts: Sequence[ReportedArtifact]) -> list[tuple[str, str]]:
    """Return what a pipeline was made from and what it does, without terms of the field: name of an artifact, its sentence."""
    said = list[tuple[str, str]]()
    for one in artifacts:
        counts, metrics = one.manifest.get("counts", {}), one.manifest.get("metrics", {})
        number, read = counts.get("documents_kept"), counts.get("bytes_read")
        right, held = metrics.get("valid_accuracy"), counts.get("texts_held_out")
        if one.kind == "corpus" and isinstance(number, int):
            size = f" ({human_bytes(read)})" if isinstance(read, int) else ""
            files = f" from {counted(counts['sources'], 'files')}" if isinstance(counts.get("sources"), int) else ""
            said.append((one.name, f"has {counted(number, 'texts')}{files}{size}."))
        elif one.kind == "index":
            facts, texts = one.manifest.get("facts", {}), counts.get("vectors")
            how = ["by their words"] if facts.get("lexical") else []
            how += ["by their meaning"] if facts.get("dim") else []
            found = counted(texts, "texts") if isinstance(texts, int) else "texts"
            said.append((one.name, f"finds {found} {' and '.join(how) or 'by their words'}."))
        elif one.manifest.get("command") == "train classifier" and is_number(right):
            of = f" of {held:,}" if isinstance(held, int) else " of the"
            said.append((one.name, f"gives the right label to {right:.0%}{of} texts that it did not learn from."))
    return said[:_MOST_SENTENCES]


def overfit(log: Sequence[Mapping[str, Any]]) -> str:
    """Return what a log says of too long a training; empty if its held-out loss did not rise from its lowest value."""
    losses = [(row["loss"], row["tokens"]) for row in log if row["split"] == "valid" and is_number(row["loss"])]
    if not losses:
        return ""
    (lowest, tokens), (last, _) = min(losses), losses[-1]
    if last <= lowest + _RISE * abs(lowest):
        return ""
    where = f" after {human_count(tokens)} tokens" if is_number(tokens) else ""
    return (
        f"the held-out loss was lowest{where} ({lowest:.3f}) and rose to {last:.3f}: from there on the training learned "
        "its own texts by heart; train for fewer steps or epochs, or use more text"
    )
