"""Docstrings of an installed package as records, read by parsing its source: nothing is imported, nothing runs.

The title is the name a user would import the thing by: `numpy.linalg.eigh`, though it is written in
`numpy/linalg/_linalg.py`. What no public module offers is left out and counted.
"""

from collections.abc import Iterable, Iterator, Mapping

from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.library import Library
from wordpipe.corpus.modules import Docstring, is_private
from wordpipe.corpus.packages import PackageFile, find_package
from wordpipe.corpus.records import Record
from wordpipe.corpus.see_also import see_also_names

__all__ = ["package_records"]

_MIN_WORDS = 4  # "Alias of `add`." teaches nothing
_DOCUMENTERS = (b"add_newdoc", b"add_docstr")
_SHOWN_AS = {"_pyio": "io", "posixpath": "os.path"}  # modules that users know by another name, which nothing imports


def package_records(package: str, ledger: Ledger) -> Iterator[Record]:
    """One record for each public docstring of a package, by module and line, with the names it points to.

    Held in memory at once: the docstrings of the package (10 MB for torch), and one parsed module.

    Args:
        package: name, part ("numpy.linalg"), or "stdlib".
        ledger: where files and docstrings that are left out are counted.

    Raises:
        InputError: no such package, or no Python source of it.
    """
    files = find_package(package)
    library = Library(files, ledger)
    names = library.public_names()
    for file in files:
        if is_private(file.module) and _is_documenter(file):
            library.module(file.module)
    titled: list[tuple[PackageFile, Docstring, str]] = []
    for file, doc in _read(files, library, ledger):
        if title := _title(doc, library, names):
            titled.append((file, doc, title))
        else:
            ledger.add("docstrings_not_public")
    titles = {title for _, _, title in titled}
    for file, doc, title in titled:
        yield Record(
            text=doc.text,
            source=f"python:{file.module}",
            line=doc.line,
            title=title,
            metadata={"see_also": _see_also(doc.text, title, titles)},
            newline="space",
            min_words=_MIN_WORDS,
        )


def _is_documenter(file: PackageFile) -> bool:
    source = file.path.read_bytes()
    return any(word in source for word in _DOCUMENTERS)


def _read(files: Iterable[PackageFile], library: Library, ledger: Ledger) -> Iterator[tuple[PackageFile, Docstring]]:
    """Docstrings of the modules that were read, in order; twins of compiled modules are read now."""
    for file in files:
        module = library.module(file.module) if file.module in _SHOWN_AS else library.known(file.module)
        if module is None:
            ledger.add("python_files_not_public")
            continue
        ledger.add("python_files_read")
        ledger.add("bytes_read", file.path.stat().st_size)
        ledger.add("docstrings_read", len(module.docstrings))
        yield from ((file, doc) for doc in module.docstrings)


def _title(doc: Docstring, library: Library, names: Mapping[tuple[str, str], str]) -> str | None:
    """The public name of what is documented, or None."""
    name = library.public_name(doc.home, doc.name, names) if doc.home and doc.name else None
    name = name or ".".join(part for part in (doc.home, doc.name) if part)
    top, dot, rest = name.partition(".")
    name = f"{_SHOWN_AS.get(top, top)}{dot}{rest}"
    return None if is_private(name) else name


def _see_also(text: str, title: str, titles: set[str]) -> list[str]:
    """The full names that a docstring points to, each once, its own left out."""
    names = dict.fromkeys(_full_name(name, title, titles) for name in see_also_names(text))
    return [name for name in names if name != title]


def _full_name(name: str, title: str, titles: set[str]) -> str:
    """`name` as the nearest title that it can mean from within `title`; as it is where there is none."""
    parts = title.split(".")[:-1]
    candidates = (".".join([*parts[:end], name]) for end in range(len(parts), -1, -1))
    return next((candidate for candidate in candidates if candidate in titles), name)
