"""Docstrings read from source: a package made here, modules of the standard library against `inspect`; names in "See Also"."""

import importlib
import inspect
import sys
import textwrap

import pytest

from wordpipe.corpus import Ledger, package_records, see_also_names

FILES = {
    "__init__.py": '''
        """The top of it all, in a few words."""
        import os
        from ._core import solve, Solver, Base as Renamed
        from . import linalg
        from ._fast import *
        from ._stats import norm, shuffle
        from ._compiled import where
        try:
            from missing import gone
        except ImportError:
            def gone():
                """What is used where the fast one is missing."""
        raise SystemExit("this package was run")
        ''',
    "_core.py": '''
        """A private module has no name of its own."""
        def solve(a, b):
            """Solve a linear system.

            More words about it.

            See Also
            --------
            linalg.eigh, sap.linalg.eigh : The same twice.
            norm :
                Described below.
            unknown.thing : Not here.

            Notes
            -----
            other : no name
            """
        class Solver:
            """Solves many systems at once."""
            def run(self, *, fast=True):
                """Run it now or never."""
            def _hidden(self):
                """Nobody should see this text."""
            def __call__(self):
                """Nobody should see this one."""
            @property
            def rank(self):
                """The rank of the system."""
            class Options:
                """Options of the solver here."""
        class Base:
            """The base that goes by another name."""
        def not_offered():
            """No public module offers this one."""
        ''',
    "linalg/__init__.py": '''
        """Linear algebra lives in here."""
        from ._linalg import eigh
        from sap.linalg import _extra
        __all__ = ["eigh"]
        __all__ += ["det"]
        __all__.extend(["inv"])
        __all__.append("pinv")
        from ._linalg import det, inv, pinv, secret
        ''',
    "linalg/_linalg.py": '''
        def eigh(a):
            """
            Eigenvalues of a symmetric matrix.
            """
        def det(a):
            """The determinant of a matrix."""
        def inv(a):
            """The inverse of a matrix."""
        def pinv(a):
            """The pseudo-inverse of a matrix."""
        def secret(a):
            """This one is not in the list."""
        ''',
    "linalg/_extra.py": "",
    "_fast.py": '''
        from ._core import not_offered as _n
        from ._faster import *
        def quick():
            """Found through one star."""
        if True:
            async def slow():
                """Found under an if."""
        ''',
    "_faster.py": '''
        __all__ = ["quicker"]
        def quicker():
            """Found through two stars."""
        def quickest():
            """The list does not have it."""
        ''',
    "_stats.py": '''
        class norm_gen:
            """A normal distribution of numbers."""
            def pdf(self, x):
                """The density at some point."""
        norm = norm_gen(name="norm")
        class Random:
            """Makes all those random numbers."""
            def shuffle(self, x):
                """Shuffle the list in place."""
        _inst = Random()
        shuffle = _inst.shuffle
        ''',
    "_docs.py": '''
        from numpy._core.function_base import add_newdoc
        what = "condition"
        doc = "Where the {what} is true{unknown};"
        add_newdoc("sap._compiled", "where", doc.format(what=what, **elsewhere) + """

            More about it here.
            """)
        add_newdoc("sap.linalg", "qr", ("mode", """How the matrix is factored."""))
        add_newdoc("sap.linalg", "qr", [("a", """The first of two factors."""), ("_b", "Hidden from all of you.")])
        add_newdoc_for_scalar_type("int8", ["byte"], "A very small integer type.")
        add_newdoc(unknown(), "x", "A text without a place.")
        ''',
    "_tensor_docs.py": '''
        def add_docstr_all(method, docstr):
            add_docstr(getattr(Tensor, method), docstr)
        add_docstr_all("abs", r"""
        abs() -> Tensor

        See :func:`sap.abs` for this.
        """)
        ''',
    "special.py": '''
        from ._c import _add_docstr
        entr = _add_docstr(_special.special_entr, r"""The entropy of all elements.""")
        _add_docstr(sap.abs, """The absolute value of it.""")
        _add_docstr(sap._C.hidden, """Nobody should see this text.""")
        def f(): pass
        f.__doc__ = "Attached to f after all."
        __doc__ = """Special functions, said late."""
        def __getattr__(name):
            """Nobody should see this text."""
        def brief():
            """Too short."""
        ''',
    "broken.py": "def (:",
    "tests/test_it.py": '"""Tests are not documentation of it."""',
    "test_other.py": '"""Tests are not documentation of it."""',
    "not-a-module.py": '"""This file cannot be imported anyway."""',
}


@pytest.fixture
def sap(tmp_path, monkeypatch):
    """The package `sap` on the import path."""
    for name, code in FILES.items():
        path = tmp_path / "sap" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code).lstrip("\n"))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "sap"


def records_of(package):
    ledger = Ledger()
    return {record.title: record for record in package_records(package, ledger)}, ledger


def test_public_names_and_texts(sap):
    records, _ = records_of("sap")
    assert {title: record.text.split("\n")[0] for title, record in records.items()} == {
        "sap": "The top of it all, in a few words.",
        "sap.solve": "Solve a linear system.",
        "sap.Solver": "Solves many systems at once.",
        "sap.Solver.run": "Run it now or never.",
        "sap.Solver.rank": "The rank of the system.",
        "sap.Solver.Options": "Options of the solver here.",
        "sap.Renamed": "The base that goes by another name.",
        "sap.gone": "What is used where the fast one is missing.",
        "sap.linalg": "Linear algebra lives in here.",
        "sap.linalg.eigh": "Eigenvalues of a symmetric matrix.",
        "sap.linalg.det": "The determinant of a matrix.",
        "sap.linalg.inv": "The inverse of a matrix.",
        "sap.linalg.pinv": "The pseudo-inverse of a matrix.",
        "sap.quick": "Found through one star.",
        "sap.slow": "Found under an if.",
        "sap.quicker": "Found through two stars.",
        "sap.norm": "A normal distribution of numbers.",
        "sap.norm.pdf": "The density at some point.",
        "sap.shuffle": "Shuffle the list in place.",
        "sap.where": "Where the condition is true;",
        "sap.linalg.qr.mode": "How the matrix is factored.",
        "sap.linalg.qr.a": "The first of two factors.",
        "sap.int8": "A very small integer type.",
        "sap.Tensor.abs": "abs() -> Tensor",
        "sap.special": "Special functions, said late.",
        "sap.special.entr": "The entropy of all elements.",
        "sap.abs": "The absolute value of it.",
        "sap.special.f": "Attached to f after all.",
        "sap.special.brief": "Too short.",
    }
    assert records["sap.where"].text == "Where the condition is true;\n\nMore about it here."


def test_what_is_left_out_is_counted(sap):
    _, ledger = records_of("sap")
    counts = ledger.counts()
    assert counts["python_files_not_parsed"] == 1
    # _core and its not_offered; _stats.Random; linalg.secret; _faster.quickest
    assert counts["docstrings_not_public"] == 5
    assert counts["docstrings_read"] == 29 + 5
    assert counts["python_files_read"] == 10
    assert counts["python_files_not_public"] == 2  # broken and linalg._extra


def test_see_also_names_become_full_names(sap):
    records, _ = records_of("sap")
    assert records["sap.solve"].own == {"see_also": ["sap.linalg.eigh", "sap.norm", "unknown.thing"]}
    assert records["sap.Tensor.abs"].own == {"see_also": []}


def test_source_and_line_say_where_the_text_is_written(sap):
    records, _ = records_of("sap")
    for record in records.values():
        name = record.source.removeprefix("python:sap").removeprefix(".").replace(".", "/")
        path = sap / f"{name}.py" if (sap / f"{name}.py").exists() else sap / name / "__init__.py"
        line = path.read_text().split("\n")[record.line - 1]
        assert record.text.split("\n")[0][:12] in line or record.title == "sap.where"


def test_nothing_is_imported_or_run(sap):
    records_of("sap")
    assert not [name for name in sys.modules if name == "sap" or name.startswith("sap.")]


def test_a_part_of_a_package_is_read_alone(sap):
    records, _ = records_of("sap.linalg")
    assert set(records) >= {"sap.linalg", "sap.linalg.eigh"}
    assert not [title for title in records if not title.startswith("sap.linalg")]


@pytest.mark.parametrize("name", ["textwrap", "json", "heapq", "string", "fnmatch", "colorsys", "argparse", "random"])
def test_modules_of_the_standard_library_say_what_inspect_says(name):
    module = importlib.import_module(name)
    records, _ = records_of(name)
    assert records[name].text == inspect.cleandoc(module.__doc__).rstrip()
    checked = 0
    for title, record in records.items():
        thing = module
        for part in title.split(".")[1:]:
            thing = getattr(thing, part, None)
        if thing is not None and inspect.getmodule(thing) is module and title != name:
            assert record.text == inspect.cleandoc(thing.__doc__).rstrip(), title
            checked += 1
    public = [f for n, f in vars(module).items() if inspect.isfunction(f) and not n.startswith("_") and f.__doc__]
    assert checked >= len([f for f in public if f.__module__ == name])


def test_modules_known_by_another_name(monkeypatch):
    records, _ = records_of("posixpath")
    assert "os.path.join" in records
    assert "posixpath.join" not in records


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("See Also\n--------\na.b : text, with c\nd, e\n", ["a.b", "d", "e"]),
        ("See Also\n--------\na :\n    b : deeper is description\n\nNotes\n-----\nc : no\n", ["a"]),
        ("See Also\n--------\n:func:`x.y`, `z`, ~q, w()\n", ["x.y", "z", "q", "w"]),
        ("See Also\n--------\nsome words without a name\n", []),
        ("See Also\nnot underlined : no\n", []),
        ("Notes\n-----\nc : no\n\nSee Also\n========\na : text\n", ["a"]),
        ("nothing at all", []),
        ("", []),
        ("See Also", []),
    ],
)
def test_names(text, names):
    assert see_also_names(text) == names
    indented = textwrap.indent(text, "    ")
    assert see_also_names(indented) == names
