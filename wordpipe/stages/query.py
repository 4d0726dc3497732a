"""`wordpipe query`: asking an index or a table of words."""

import os
from typing import TYPE_CHECKING

from wordpipe.artifacts.reader import Artifact
from wordpipe.stages.answers import Answers, Ask, Opened
from wordpipe.stages.open_index import OpenIndex

if TYPE_CHECKING:
    from wordpipe.stages.open_words import OpenWords

__all__ = ["Answers", "Ask", "OpenIndex", "Opened", "open_artifact"]


def open_artifact(path: str | os.PathLike[str], *, verify: bool = True) -> "OpenIndex | OpenWords":
    """Open an index or words artifact to ask it. Use it as a context, or close it.

    Args:
        path: the artifact's folder.
        verify: check its hashes first.

    Raises:
        ArtifactError: missing, corrupt, or of another kind.
    """
    artifact = Artifact(path, ["index", "words"], verify=verify)
    if artifact.kind == "index" and artifact.manifest.facts["of"] != "words":
        return OpenIndex(artifact)
    from wordpipe.stages.open_words import OpenWordIndex, OpenWords

    return OpenWords(artifact) if artifact.kind == "words" else OpenWordIndex(artifact)
