"""Whether a model was trained on a text: found by following its inputs from manifest to manifest, by their digests."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wordpipe.artifacts.manifest import KINDS, InputEntry
from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.errors import WordpipeError

__all__ = ["Seen", "seen_text"]

Seen = Literal["yes", "perhaps", "no", "unknown"]
"""Perhaps: the model was trained on the same sources, but they were split in another way. Unknown: the trail is lost."""


@dataclass
class _Trail:
    """All that an artifact was made from.

    Attributes:
        digests: of every input on the way.
        broken: an input is not where its artifact says, or is another one now, so there may be more.
    """

    digests: set[str] = field(default_factory=set)
    broken: bool = False

    def follow(self, artifact: Artifact) -> None:
        for entry in artifact.manifest.inputs:
            if entry.digest in self.digests:
                continue
            self.digests.add(entry.digest)
            if entry.kind in KINDS:
                self._follow_entry(entry, artifact.path.absolute().parent)
            elif entry.kind == "file" and artifact.kind == "model":  # a model of someone else's, to start from
                self.broken = True

    def _follow_entry(self, entry: InputEntry, beside: Path) -> None:
        path = beside / (entry.path or "")
        try:
            with Artifact(path, verify=False) as found:
                if found.digest == entry.digest:
                    self.follow(found)
                    return
        except (WordpipeError, OSError):
            pass
        self.broken = True


def seen_text(model: Path, corpus: Artifact, split: str | None) -> Seen:
    """Whether text of this part of the corpus was among what the model was trained on.

    Args:
        model: a model artifact, or a folder of someone else's, of which nothing is known.
        corpus: what it is judged on.
        split: the part of it: train, valid or test; None: all.
    """
    if not is_artifact(model):
        return "unknown"
    trail = _Trail()
    with Artifact(model, verify=False) as artifact:
        trail.follow(artifact)
    sources = {entry.digest for entry in corpus.manifest.inputs}
    holds_training = split in ("train", None)
    if corpus.digest in trail.digests:
        return "yes" if holds_training else "no"
    if sources & trail.digests:
        return "yes" if split is None else "perhaps"
    return "unknown" if trail.broken else "no"
