"""The modules of one package, read when asked for, and the public names of what they define."""

from collections.abc import Mapping
from functools import partial

from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.literals import Found
from wordpipe.corpus.modules import Module, is_private, parse_module, read_docstrings
from wordpipe.corpus.packages import PackageFile

__all__ = ["Library"]

_CHAIN = 30  # imports followed from one module to the next


class Library:
    """Parses modules once, follows imports through them, and names things as users import them.

    Args:
        files: the package's files.
        ledger: counts the modules that cannot be parsed.
    """

    def __init__(self, files: list[PackageFile], ledger: Ledger) -> None:
        self.files = {file.module: file for file in files}
        self.ledger = ledger
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of that name, or None where the package has no Python source for it."""
        if name not in self._modules:
            self._modules[name] = None
            if name in self.files:
                self._read(self.files[name])
        return self._modules[name]

    def known(self, name: str) -> Module | None:
        """The module of that name if it has been read already."""
        return self._modules.get(name)

    def _read(self, file: PackageFile) -> None:
        try:
            module, tree = parse_module(file)
        except (SyntaxError, ValueError, RecursionError):
            self.ledger.add("python_files_not_parsed")
            return
        self._modules[file.module] = module  # before its docstrings: they may lead to another module and back
        module.docstrings = list(read_docstrings(module, tree, partial(self._text_of, module)))

    def _text_of(self, module: Module, name: str) -> Found | None:
        if name in module.texts:
            return module.texts[name], partial(self._text_of, module)
        origin, original = module.imports.get(name, ("", ""))
        other = self.module(origin) if original else None
        return self._text_of(other, original) if other is not None and original in other.texts else None

    def resolve(self, module: str, name: str, chain: int = _CHAIN) -> tuple[str, str] | None:
        """Module and name under which `name` of `module` was defined, as far as imports can be followed.

        A name that comes from a compiled module of the package is followed to that module. None where it is not there
        at all.
        """
        found = self.module(module)
        if found is None or chain == 0:
            return None
        if name in found.imports:  # before definitions: `try: from _fast import f` is followed by a slow `def f`
            origin, original = found.imports[name]
            if not original or f"{origin}.{original}" in self.files:
                return None  # a module, not something defined in one
            target = self.resolve(origin, original, chain - 1)
            if target is not None or _top(origin) == _top(module):
                return target or (origin, original)
        if name in found.defined:
            return module, name
        for star in found.stars:
            if (target := self.resolve(star, name, chain - 1)) is not None:
                return target
        return None

    def public_names(self) -> dict[tuple[str, str], str]:
        """For each definition (its module, its name there) that a public module offers, the shortest way to import it.

        Classes that users only know by their one instance (`norm = norm_gen()`) go by the instance's name, and methods
        that are offered as functions (`shuffle = _inst.shuffle`) by the function's.
        """
        names: dict[tuple[str, str], str] = {}
        for module in sorted(self.files):
            for name in () if is_private(module) else sorted(self._offered(module)):
                self._offer(names, self.resolve(module, name), f"{module}.{name}")
        for known in [module for module in self._modules.values() if module is not None]:
            for name in sorted(known.instances):
                made = (known.name, known.instances[name])
                is_hidden = made not in names or made[1] == f"{name}_gen"  # scipy's way to name such classes
                if (known.name, name) in names and is_hidden and made[1] in known.defined:
                    names[made] = names[known.name, name]
            for name, (instance, method) in sorted(known.bound.items()):
                if (known.name, name) in names and instance in known.instances:
                    self._offer(names, (known.name, f"{known.instances[instance]}.{method}"), names[known.name, name])
        return names

    def public_name(self, home: str, name: str, names: Mapping[tuple[str, str], str]) -> str | None:
        """The public name of `name` of the module `home`, which may be a method's; None where there is none."""
        if (home, name) in names:
            return names[home, name]
        top, _, rest = name.partition(".")
        public = names.get((home, top)) or names.get(self.resolve(home, top) or ("", ""))
        return f"{public}.{rest}" if public and rest else public

    @staticmethod
    def _offer(names: dict[tuple[str, str], str], target: tuple[str, str] | None, candidate: str) -> None:
        if target and _rank(candidate) < _rank(names.get(target, "." * 99)):
            names[target] = candidate

    def _offered(self, name: str, chain: int = _CHAIN) -> set[str]:
        """Names that a module gives to `import *`; what a plain module imports by name is not its own to offer."""
        module = self.module(name)
        if module is None or chain == 0:
            return set()
        origin, exports = module.imports.get("__all__", ("", ""))
        if exports == "__all__":
            return self._offered(origin, chain - 1)
        if module.exports is not None:
            return {export for export in module.exports if not is_private(export)}
        names = set(module.defined)
        if module.is_init or chain < _CHAIN:
            names |= module.imports.keys()
        for star in module.stars:
            names |= self._offered(star, chain - 1)
        return {each for each in names if not is_private(each)}


def _top(module: str) -> str:
    return module.partition(".")[0]


def _rank(name: str) -> tuple[int, int, str]:
    return name.count("."), len(name), name
