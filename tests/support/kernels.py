"""Machine code of kernels kept from earlier runs: what an edit of another file has made outdated is removed, by content.

numba compiles a kernel anew where the content of its own file, numba's version or the processor is another. But a kernel holds
the code of what it calls too, and that may stand in other files.
"""

import hashlib
import json
import re
from pathlib import Path

_IMPORTED = re.compile(r"^from (\w+(?:\.\w+)+) import", re.MULTILINE)


def remove_outdated(package: Path) -> list[str]:
    """Remove the machine code of kernels whose file, or a file with kernels below it, is not what it was at the last call.

    Args:
        package: its folder; contents are remembered in its `__pycache__`, so it is kept and
            restored together with the machine code.

    Returns:
        The modules whose machine code was removed, sorted.
    """
    digests = _digests(package)
    remembered = package / "__pycache__" / "kernels.json"
    before = json.loads(remembered.read_text()) if remembered.exists() else {}
    changed = sorted(module for module, digest in digests.items() if before.get(module) != digest)
    for module in changed:
        folder, name = package.parent.joinpath(*module.split(".")[:-1]), module.rpartition(".")[2]
        for index in (folder / "__pycache__").glob(f"{name}.*.nbi"):
            index.unlink(missing_ok=True)
    if changed:
        remembered.parent.mkdir(exist_ok=True)
        remembered.write_text(json.dumps(digests))
    return changed


def _digests(package: Path) -> dict[str, str]:
    """Of each module with kernels, or parts of them: a digest of its text and of those that it imports."""
    compiled = f"{package.name}.compiled"
    texts = {}
    for path in sorted(package.rglob("*.py")):
        module, text = ".".join(path.relative_to(package.parent).with_suffix("").parts), path.read_text()
        if module == compiled or f"from {compiled} import" in text:
            texts[module] = text
    found: dict[str, str] = {}

    def digest(module: str) -> str:
        if module not in found:
            below = (digest(name) for name in sorted(set(_IMPORTED.findall(texts[module])) & set(texts)))
            found[module] = hashlib.sha256("\n".join([texts[module], *below]).encode()).hexdigest()
        return found[module]

    return {module: digest(module) for module in texts}
