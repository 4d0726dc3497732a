"""What the build of a wheel makes first: the stub of the public functions, which git does not hold."""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Stub(BuildHookInterface):  # type: ignore[type-arg]
    """Write `wordpipe/__init__.pyi`; nothing but Python and the sources needs to be there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file before files are chosen; git ignores it, so it is named as one that is built."""
        sys.path.insert(0, self.root)
        from tests.support.stub import write

        build_data["artifacts"].append(str(write().relative_to(self.root)))
