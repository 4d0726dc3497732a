"""Which modules a smaller installation would lack: for tests that run a program as if it had only some packages."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    """The package of a requirement, as an index of packages writes it."""
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def packages_of(*extras: str) -> set[str]:
    """The packages that the project asks for by itself and by some of its extras."""
    asked = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    return {name_of(one) for some in asked for one in some}


@cache
def package_of() -> dict[str, set[str]]:
    """The packages that each module at the top is of; a namespace may be of several."""
    return {module: {name_of(one) for one in packages} for module, packages in packages_distributions().items()}


def with_their_own(packages: Iterable[str]) -> set[str]:
    """Packages, and what these ask for on this machine, without extras of theirs."""
    found, left = set(), [*packages]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            asked = map(Requirement, distribution(name).requires or [])
            left += (name_of(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""}))
    return found


def missing_without(packages: Iterable[str]) -> list[str]:
    """The modules that this Python has, and would not have with these packages alone."""
    there = with_their_own(packages) | {"wordpipe"}
    return sorted(module for module, owners in package_of().items() if not owners & there)
