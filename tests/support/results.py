"""What commands leave, for tests: what they said, the manifest, the lines of a table."""

import json
import re
from pathlib import Path
from typing import Any

from wordpipe.runtime import Progress


class Said(list[str]):
    """The messages of a stage; to be given as `report`."""

    def __call__(self, progress: Progress) -> None:
        if progress.note is not None:
            self.append(progress.note)

    def about(self, words: str) -> str:
        """The first message with some words."""
        return next(line for line in self if words in line)


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an artifact as it is written."""
    return json.loads((folder / "manifest.json").read_text())


def rows_of(out: str) -> dict[str, list[str]]:
    """The lines of a printed table: name → cells."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if line.strip()]
    return {cells[0]: cells[1:] for cells in lines}
