"""An artifact in two generations that a reader can tell apart, and the job that publishes one: as a function and a program.

python -m tests.support.generations TARGET GENERATION [--two-renames]
"""

import errno
import os
import sys
from pathlib import Path

from wordpipe.artifacts import (
    FORMATS,
    Artifact,
    ArtifactWriter,
    Manifest,
    OutputEntry,
    OutputLock,
    check_replaceable,
    clear_leftovers,
    digest_of,
    recipe_of,
)
from wordpipe.artifacts import publish as publication

FILES = {"corpus-00000.parquet": 3000, "corpus-00001.parquet": 1700, "parts/steps.json": 40}
LOG = "parts/steps.json"
MARKER = "/begin-of-the-job"


def content(name: str, generation: int) -> bytes:
    """What a file holds in a generation; never the same in two, and of another length."""
    line = f"{name} of generation {generation}\n".encode()
    return (line * FILES[name])[: FILES[name] + generation]


def manifest_for(outputs: list[OutputEntry], generation: int = 1, **more) -> Manifest:
    """A manifest of these files."""
    settings = {"generation": generation}
    fields = {
        "format": FORMATS["corpus"],
        "kind": "corpus",
        "command": "ingest",
        "wordpipe": "0.0",
        "settings": settings,
        "inputs": [],
        "outputs": outputs,
        "recipe": recipe_of("corpus", settings, []),
        "digest": digest_of(outputs),
    }
    return Manifest(**(fields | more))


def publish(target: Path, generation: int) -> str:
    """What every stage does: lock, clear, check, write, publish. Returns the digest."""
    with OutputLock(target):
        clear_leftovers(target)
        check_replaceable(target, "corpus")
        with ArtifactWriter(target) as new:
            for name in FILES:
                data = content(name, generation)
                with new.create(name, log=name == LOG) as file:
                    file.write(data[:1000])
                    file.write(data[1000:])
            manifest = manifest_for(new.outputs, generation)
            new.publish(manifest)
            return manifest.digest


def generation_of(target: Path) -> int:
    """The one generation that the artifact wholly is, checked byte by byte."""
    with Artifact(target, ["corpus"]) as artifact:
        artifact.check_hashes()
        generation = artifact.manifest.settings["generation"]
        assert artifact.digest == digest_of(artifact.manifest.outputs)
        for name in FILES:
            assert artifact.read(name) == content(name, generation), name
        return generation


def beside(target: Path) -> list[str]:
    """Names of what stands beside the target, but for its lock."""
    return sorted(
        path.name for path in target.parent.iterdir() if path.name not in (target.name, f".{target.name}.lock")
    )


def one_rename_impossible(*_: Path) -> bool:
    """In place of `exchange`, where the system has none."""
    return False


if __name__ == "__main__":
    if "--two-renames" in sys.argv:
        publication.exchange = one_rename_impossible
    os.access(MARKER, os.F_OK)  # seen in a system call trace: here the imports end
    try:
        publish(Path(sys.argv[1]), int(sys.argv[2]))
    except OSError as error:
        sys.exit(f"{errno.errorcode[error.errno or 0]} {error.filename}")
