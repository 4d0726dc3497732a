"""The command that makes an artifact again, with vectors that are mended."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from wordpipe.artifacts.reader import Artifact
from wordpipe.sentences.diagnosis import Figures
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import TransformKind
from wordpipe.settings import Settings
from wordpipe.words.settings import Word2VecSettings

__all__ = ["mending", "training_first"]

_HARDLY = 0.05  # of the dimensions: an effective rank below it is sick, see `NORMS` in sentences/verdicts.py
_FEWEST = 3.0  # directions; 5 % of a narrow table's are less than the one that there always is
# times the epochs. Of 2 MB of Wikipedia 1, 4 and 20 epochs gave mean cosines of 0.95, 0.83 and 0.18, in 1.4, 2.3 and 35.7 of
# 64 directions
_MORE = 4


def mending(artifact: Artifact, best: TransformKind, *, components: int, dims: int) -> dict[str, Any] | None:
    """What mends the vectors of this artifact: transform and command; None where nothing does better than none.

    Args:
        artifact: sentences, words or an index.
        best: the transform that helps most.
        components: for remove-components.
        dims: for whiten.
    """
    if best == "none":
        return None
    chosen: dict[str, Any] = {"transform": best}
    chosen |= {"components": components} if best == "remove-components" and components != 1 else {}
    chosen |= {"dims": dims} if best == "whiten" and dims else {}
    if artifact.kind == "sentences":
        command = _again(artifact, ["embed"], EmbedSettings, chosen, ["MODEL", "CORPUS"])
    elif artifact.kind == "words" and artifact.manifest.command == "train word2vec" and best != "whiten":
        again = {"remove_components": components}
        command = _again(artifact, ["train", "word2vec"], Word2VecSettings, again, ["TOKENS"])
    elif artifact.kind == "words":  # of another program, or by what only texts can be given
        command = f"wordpipe embed {_shown(artifact)} CORPUS -o SENTENCES {_flags(chosen)}"
    else:
        embed = f"wordpipe embed MODEL CORPUS -o SENTENCES {_flags(chosen)}"
        command = f"{embed} && wordpipe index SENTENCES -o {_shown(artifact)}"
    return {"transform": best, "command": command}


def training_first(artifact: Artifact, figures: Figures) -> str | None:
    """What should be done before any transform: vectors that lie in next to no directions have hardly been trained.

    Args:
        artifact: sentences, words or an index.
        figures: of its vectors as they are.

    Returns:
        A line for people, with the command; None where the vectors do not come of such a table of words.
    """
    if figures.effective_rank >= max(_FEWEST, _HARDLY * figures.dim):
        return None
    if artifact.kind == "words":
        if artifact.manifest.command != "train word2vec":
            return None
        epochs = int(artifact.manifest.facts["epochs"])
        command = _again(artifact, ["train", "word2vec"], Word2VecSettings, {"epochs": _MORE * epochs}, ["TOKENS"])
        return f"Trained too little (--epochs {epochs}): no transform brings what was not learned. First:\n  {command}"
    if artifact.manifest.facts.get("encoder", {}).get("kind") != "words":
        return None
    words = _input(artifact, artifact.manifest.inputs[0].path) or "WORDS"
    return f"Perhaps the word vectors were trained too little. First:\n  wordpipe doctor {shlex.quote(words)}"


def _again(
    artifact: Artifact, verb: list[str], cls: type[Settings], chosen: Mapping[str, Any], names: list[str]
) -> str:
    """The command that made the artifact, with other settings."""
    made, fields = artifact.manifest.settings, cls.model_fields
    kept = {name: made[name] for name in fields if name in made and made[name] != fields[name].default}
    plain = {name: value for name, value in kept.items() if isinstance(value, str | int | float)}
    found = [_input(artifact, entry.path) for entry in artifact.manifest.inputs]
    # several sources that were read on the fly are left to the reader
    paths = [found[at] if len(found) == len(names) else None for at in range(len(names))]
    inputs = [shlex.quote(path) if path else name for path, name in zip(paths, names, strict=True)]
    return " ".join(["wordpipe", *verb, *inputs, "-o", _shown(artifact), _flags({**plain, **chosen})])


def _flags(values: Mapping[str, Any]) -> str:
    return " ".join(_flag(name.replace("_", "-"), value) for name, value in values.items())


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{name}"
    return f"--{name} {shlex.quote(str(value))}"


def _input(artifact: Artifact, path: str | None) -> str | None:
    """The path of an input, as seen from here."""
    if path is None or path.startswith("python:"):
        return path
    return os.path.normpath(artifact.path.parent / path)


def _shown(artifact: Artifact) -> str:
    return shlex.quote(str(artifact.path))
