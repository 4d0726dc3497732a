"""The encoders that `wordpipe evaluate sts` and `evaluate retrieval` judge: whatever artifact texts can be encoded with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.errors import ArtifactError
from wordpipe.runtime import Progress
from wordpipe.sentences.encoder import TextEncoder, learned_from_pairs, transform_kind
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import Moments, Transform, TransformKind
from wordpipe.stages.encoders import carried_encoder, open_encoder
from wordpipe.stages.making import PathLike, RunOptions

__all__ = ["JudgedEncoder", "Texts", "first_words", "open_judged"]

_AT_ONCE = 2_048  # texts encoded between two reports


@dataclass(frozen=True, slots=True)
class Texts:
    """N texts as vectors.

    Attributes:
        vectors: (N, D) float32 of length 1; zero for a text that has none.
        empty: (N,) bool, which have none.
        unknown: words without a vector, each time they came.
    """

    vectors: npt.NDArray[np.float32]
    empty: npt.NDArray[np.bool_]
    unknown: list[str]

    def transformed(self, transform: Transform) -> "Texts":
        """The same texts with a transform applied."""
        return Texts(*transform.apply(self.vectors), self.unknown)


@dataclass(frozen=True)
class JudgedEncoder:
    """One encoder.

    Attributes:
        name: where it is.
        kind: of the artifact.
        encoder: with the transform that it carries.
        carries: whether it carries one, fitted when its sentences were embedded.
        settings: how texts become vectors, where the artifact does not say.
        run: progress.
    """

    name: str
    kind: str
    encoder: TextEncoder
    carries: bool
    settings: EmbedSettings
    run: RunOptions

    def encode(self, texts: Sequence[str]) -> Texts:
        """Encode texts, with what the encoder carries and nothing more."""
        pieces = []
        for first in range(0, len(texts), _AT_ONCE):
            pieces.append(self.encoder.encode(texts[first : first + _AT_ONCE]))
            done = min(first + _AT_ONCE, len(texts))
            self.run.report(Progress(f"embedding with {self.name}", done, len(texts), "texts"))
        if not pieces:
            nothing = np.zeros((0, self.encoder.transform.dim), dtype=np.float32)
            return Texts(nothing, np.zeros(0, dtype=np.bool_), [])
        return Texts(
            np.concatenate([piece.vectors for piece in pieces]),
            np.concatenate([piece.empty for piece in pieces]),
            [word for piece in pieces for words in piece.unknown for word in words],
        )

    def fitted(self, texts: Texts) -> Transform:
        """The transform that the settings call for, fitted on encoded texts; none where the encoder carries its own."""
        moments = Moments(texts.vectors.shape[1])
        moments.add(texts.vectors)
        kind = "none" if self.carries else self._kind(moments.count)
        return moments.fit(kind, self.settings.components, dims=self.settings.dims)

    def _kind(self, texts: int) -> TransformKind:
        contrastive = learned_from_pairs(self.encoder)
        return transform_kind(self.settings, self.encoder.kind, self.encoder.dim, texts, contrastive=contrastive)


@contextmanager
def open_judged(path: PathLike, settings: EmbedSettings, run: RunOptions) -> Iterator[JudgedEncoder]:
    """Open a model or words artifact, or the encoder that sentences or an index carry.

    Raises:
        ArtifactError: missing, corrupt, of another kind, or an index that carries no encoder of texts.
    """
    run.report(Progress(f"reading {path}"))
    with Artifact(path, ["model", "words", "sentences", "index"], verify=run.verify) as artifact:
        carries = artifact.kind in ("sentences", "index")
        if artifact.kind == "index" and artifact.manifest.facts.get("of") == "words":
            raise ArtifactError("an index over words encodes no texts", where=str(path), hint="name the words artifact")
        encoder = carried_encoder(artifact) if carries else open_encoder(artifact, settings)
        yield JudgedEncoder(str(path), artifact.kind, encoder, carries, settings, run)


def first_words(paths: Sequence[PathLike]) -> str | None:
    """The first words artifact among some paths, of which the plain mean of vectors is a floor."""
    for path in filter(is_artifact, map(Path, paths)):
        with Artifact(path, verify=False) as artifact:
            if artifact.kind == "words":
                return str(path)
    return None
