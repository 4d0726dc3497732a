"""The house keeps its rules: imports run down the floors, no data becomes code, files are whole ideas in the field's words."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.house import (
    FACES,
    FAMILIES,
    FILES,
    PACKAGE,
    ROOT,
    all_nodes,
    behind_faces,
    circles,
    imported_names,
    loaded_modules,
    n_lines,
    running_statements,
    shown,
    single_importers,
    strong_components,
    tree_of,
)

FLOORS = {
    "errors": -1,  # known to all
    "lazy": 0, "wording": 0, "elsewhere": 0,
    "storage": 1, "compiled": 1,
    "settings": 2, "runtime": 2, "pace": 2, "sparse": 2, "artifacts": 2, "metrics": 2,
    "engines": 3,
    "corpus": 3, "tokens": 3, "words": 3, "model": 3, "search": 3,
    "encoders": 4,
    "training": 5,
    "pages": 5,
    "heads": 6,
    "stages": 7,
    "pipeline": 8, "web": 8,
    "cli": 9,
    "__main__": 10,
    "__init__": 10,  # the public functions, loaded on first use
}  # fmt: skip
CORES = {room for room, floor in FLOORS.items() if floor in (3, 4, 5, 6)}
HEAVY = ("numpy", "pyarrow", "torch", "faiss", "gensim", "tokenizers", "numba", "scipy", "safetensors", "rich")


WHOLE_ARTIFACTS = tuple(
    f"wordpipe.artifacts.{name}" for name in ("reader", "tables", "manifest", "publish", "writer.ArtifactWriter")
)
TERMINAL_CALLS = {"print", "input", "sys.exit", "exit", "quit", "os._exit", "breakpoint"}


KERNELS = {"kernels", "variants"}  # known to their room alone, and to its tests


def room_of(path: Path) -> str:
    """The room that a file of the package is in: the first part of its path below it."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def is_module(module: str, name: str) -> bool:
    """Whether a name of a module of ours is a file in its folder."""
    return ROOT.joinpath(*module.split("."), f"{name}.py").is_file()


def from_imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of every `from module import name`, but for modules that are imported whole."""
    for node in running_statements(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if not is_module(node.module, alias.name):
                    yield node.lineno, node.module, alias.name


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and full name of every import that runs."""
    return tuple(imported_names(running_statements(tree_of(path)), path.relative_to(ROOT).parent.parts))


def our_imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, room and full name of every import of our own modules; through a face, what is behind it."""
    for line, name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "wordpipe" and parts[1:] not in (
            ["__version__"],
            ["TERMINAL"],
        ):  # facts that all may know
            yield line, parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__", behind_faces(name)


def test_every_room_has_a_floor():
    rooms = {room_of(path) for path in FILES}
    assert rooms <= set(FLOORS), sorted(rooms - set(FLOORS))
    assert {"errors", "artifacts", "stages", "cli"} <= rooms


def test_imports_run_down_the_floors():
    wrong = [
        f"{shown(path)}:{line} {room_of(path)} (floor {FLOORS[room_of(path)]}) imports {name} (floor {FLOORS[other]})"
        for path in FILES
        for line, other, name in our_imports(path)
        if other != room_of(path) and FLOORS[other] >= FLOORS[room_of(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_cores_open_and_publish_no_artifacts():
    """They take and give batches, arrays and iterators; they may know how tables look and how a file is written safely."""
    wrong = [
        f"{shown(path)}:{line} {name}"
        for path in FILES
        for line, _, name in our_imports(path)
        if room_of(path) in CORES and name.startswith(WHOLE_ARTIFACTS)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_knows_the_terminal():
    wrong = []
    for path in FILES:
        if room_of(path) in ("cli", "__main__"):
            continue
        names = {name.split(".")[0] for _, name in imports_of(path)}
        calls = {ast.unparse(node.func) for node in all_nodes(tree_of(path)) if isinstance(node, ast.Call)}
        wrong += [f"{shown(path)}: {name}" for name in sorted((names & {"click", "rich"}) | (calls & TERMINAL_CALLS))]
    assert not wrong, "\n".join(wrong)


BANNED_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "copyreg"}
BANNED_CALLS = {"eval", "exec", "__import__", "compile", "builtins.eval", "builtins.exec", "os.system", "os.popen"}
LOADERS = {"torch.load", "torch.save", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "pa.deserialize"}
ARRAY_CALLS = {"load", "save", "savez", "savez_compressed"}


def what_runs_data(tree: ast.Module) -> list[str]:
    """Everything that could turn data into code: `line: call`."""
    names = dict(_names(tree))
    found = [
        f"{line}: import {name}"
        for line, name in imported_names(all_nodes(tree))
        if set(name.split(".")[:1]) & BANNED_MODULES
    ]
    uses_gensim = any(name.split(".")[0] == "gensim" for name in names.values())
    for node in all_nodes(tree):
        if isinstance(node, ast.Call):
            called = _full_name(node.func, names)
            own_format = uses_gensim and isinstance(node.func, ast.Attribute) and node.func.attr in ("load", "save")
            if own_format or called in BANNED_CALLS | LOADERS or _takes_objects(called, node):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def _names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What each imported name stands for: `np` is `numpy`, `load` may be `torch.load`."""
    for node in all_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    first, _, rest = ast.unparse(node).partition(".")
    first = names.get(first, first)
    return f"{first}.{rest}" if rest else first


def _takes_objects(called: str, node: ast.Call) -> bool:
    """numpy pickles objects unless it is told not to, in so many words."""
    allowed = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "allow_pickle"]
    if called.startswith("numpy.") and called.split(".")[-1] in ARRAY_CALLS:
        return allowed != ["False"]
    return allowed not in ([], ["False"])


def test_data_never_becomes_code():
    wrong = [f"{shown(path)}:{found}" for path in FILES for found in what_runs_data(tree_of(path))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import joblib", "def f():\n    import dill", "import shelve as s",
        "eval('1')", "exec(x)", "__import__(x)", "import torch\ntorch.load(f)", "from torch import load\nload(f)",
        "import torch as t\nt.load(f, weights_only=True)", "import torch\ntorch.save(x, f)",
        "import numpy as np\nnp.load(f)", "import numpy as np\nnp.load(f, allow_pickle=True)",
        "import numpy as np\nnp.load(f, allow_pickle=flag)", "from numpy import load\nload(f)",
        "import numpy\nnumpy.save(f, x)", "something.read(f, allow_pickle=True)", "import yaml\nyaml.load(f)",
        "from gensim.models import Word2Vec\nWord2Vec.load(f)", "from gensim.models import KeyedVectors as K\nvectors.save(f)",
        "def f():\n    from gensim.models import Word2Vec\n    model = Word2Vec()\n    model.save(p)",
        "import os\nos.system(x)",
    ],
)  # fmt: skip
def test_the_search_for_it_finds_it(code):
    assert what_runs_data(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.loads(x)", "import tomllib\ntomllib.load(f)", "cache.save()", "import re\nre.compile(x)",
        "import numpy as np\nnp.load(f, allow_pickle=False)", "from safetensors.torch import load\nload(data)",
        "import yaml\nyaml.safe_load(f)", "model.eval()", "from gensim.models import K\nv.save_word2vec_format(f)",
        "evaluate(x)", "import ast\nast.literal_eval(x)",
    ],
)  # fmt: skip
def test_the_search_for_it_finds_nothing_else(code):
    assert what_runs_data(ast.parse(code)) == []


def test_the_search_for_imports():
    """Imports in functions count, imports for types do not, and relative ones mean what they mean."""
    code = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import wordpipe.cli.a
else:
    import wordpipe.cli.b
def f():
    from wordpipe.cli import c
    try:
        from ..cli.d import e
    except ImportError:
        from . import g
"""
    found = [name for _, name in imported_names(running_statements(ast.parse(code)), ("wordpipe", "words"))]
    assert sorted(found) == [
        "typing.TYPE_CHECKING", "wordpipe.cli.b", "wordpipe.cli.c", "wordpipe.cli.d.e", "wordpipe.words.g",
    ]  # fmt: skip


def test_every_file_says_what_it_is():
    assert [shown(path) for path in FILES if not ast.get_docstring(tree_of(path))] == []


def test_a_docstring_of_a_file_begins_with_its_subject():
    """ "The learning-rate schedules.", and not how, what, where, whether or which of something."""
    starts = {shown(path): (ast.get_docstring(tree_of(path)) or "").split(maxsplit=1)[0] for path in FILES}
    wrong = [f"{name}: {word} …" for name, word in starts.items() if word in _QUESTION_WORDS]
    assert not wrong, "\n".join(wrong)


def test_a_method_is_described_by_its_class_or_by_the_one_that_asks_for_it():
    """A protocol or a base class says what a method does; its other classes repeat nothing."""
    methods = [
        (f"{shown(path)}:{method.lineno} {node.name}.{method.name}", method)
        for path in FILES
        for node in all_nodes(tree_of(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_")
    ]
    described = {method.name for _, method in methods if ast.get_docstring(method)}
    assert [where for where, method in methods if method.name not in described | _OF_OTHERS] == []


_OF_OTHERS = {"writable", "tell", "add_states", "run_directive", "unknown_directive"}  # asked for by io and docutils


_QUESTION_WORDS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"}

SMALL_FILES: dict[str, str] = {}
"""File of fewer than 60 lines → why it is one of its own."""


LARGE_FILES = {
    "wordpipe/artifacts/reader.py": "an artifact that is opened: its manifest, its files, their hashes, its place in a chain",
    "wordpipe/artifacts/remote.py": "artifacts and objects at URLs: copies in the cache, and publication in one step",
    "wordpipe/corpus/readers/html_pages.py": "an HTML page: what of it is content; headings, lists, tables, code, words",
    "wordpipe/corpus/readers/package.py": "docstrings of an installed package, read from its source: modules, names, texts",
    "wordpipe/corpus/binary/pdf_layout.py": "the layout of a page: from lines with places to paragraphs in reading order",
    "wordpipe/corpus/sources.py": "what words of the user name: files, folders, patterns, streams, packages",
    "wordpipe/model/attention.py": "attention with several heads: views, memory, packed texts, and the look at a source",
    "wordpipe/cli/infer.py": "what trained models say and write, asked and shown: generate, fill, predict",
    "wordpipe/stages/estimate.py": "what making an artifact takes: sizes, a rule for each command, speeds that are remembered",
    "wordpipe/pipeline/run.py": "a pipeline: which of its stages are stale and why, and their making",
    "wordpipe/runtime.py": "the machine that a run is on: signals, threads, device, memory, folder; reports of progress",
    "wordpipe/search/filters.py": "a condition on rows: what it may say, what is wrong with it, what would be right",
    "wordpipe/stages/evaluate/pairs_and_labels.py": "texts evaluated on, with what is right: pairs, labelled texts",
    "wordpipe/stages/evaluate/doctor.py": "a space of vectors: how healthy it is, what it finds, what would mend it",
    "wordpipe/stages/evaluate/predictions.py": "what models and baselines say of labelled texts, its figures and their tables",
    "wordpipe/stages/evaluate/seq2seq.py": "texts that a model writes: their loss, measures and baselines, and a file of them",
    "wordpipe/tokens/kernels/unigram_train.py": "a unigram model, trained: the first pieces, their fitting and pruning",
    "wordpipe/stages/train/head_tasks.py": "the tasks of heads: labels, targets, figures and calibration of each",
    "wordpipe/training/contrastive/settings.py": "the settings of both trainings of text encoders, put together from parts",
    "wordpipe/training/token_stream.py": "documents as one stream of ids, where words begin in it, and its blocks in an order",
    "wordpipe/training/settings.py": "the settings of all trainings of language models, put together from parts",
    "wordpipe/stages/registry.py": "the table of all commands",
    "wordpipe/stages/infer/generate.py": "texts that a model writes: a prompt continued, target texts of source texts",
    "wordpipe/words/formats.py": "word vectors in the formats of other programs, read and written",
}
"""File of more than 500 lines → its one idea, which parts of it would not tell."""


def test_files_are_whole_ideas():
    """60 to 500 lines, most of them 100 to 400; faces and families are as long as what they list."""
    wrong = []
    for path in FILES:
        small_is_fine = path.name in ("__init__.py", "__main__.py", "settings.py") or shown(path) in SMALL_FILES
        if (n_lines(path) > 500 and shown(path) not in LARGE_FILES) or (
            n_lines(path) < 60 and not small_is_fine and path.parent.name not in FAMILIES
        ):
            wrong.append(f"{shown(path)}: {n_lines(path)} lines")
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_needed():
    assert [name for name in SMALL_FILES if not (ROOT / name).is_file() or n_lines(ROOT / name) >= 60] == []


def test_a_folder_can_be_seen_at_once():
    counts = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert {shown(folder): count for folder, count in counts.items() if count > 16} == {}


def test_no_file_imports_itself_through_others():
    assert [" ↔ ".join(map(shown, circle)) for circle in circles()] == []


def test_circles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"a", "g"}, "g": {"f"}}
    found = strong_components({node: frozenset(others) for node, others in edges.items()})
    assert sorted(found) == [["a", "b", "c"], ["f", "g"]]


def test_few_files_have_one_importer():
    """What a single other file uses is usually a part of it: at most one file in eight."""
    counted, _ = single_importers()
    assert len(counted) <= len(FILES) // 8, "\n".join(f"{shown(path)} by {shown(by)}" for path, by in counted.items())


def test_no_file_has_a_name_that_says_nothing():
    names = {part.removesuffix(".py") for path in FILES for part in path.relative_to(PACKAGE).parts}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "manager", "core", "base"}


NOT_OF_THE_FIELD = {
    "shelf": "resume cache", "draft": "artifact writer", "carried": "bundled", "told": "progress, report",
    "judge": "evaluate", "judged": "evaluated", "judges": "evaluates", "judging": "evaluation",
    "probe": "held-out loss", "catalog": "registry", "catalogue": "registry", "making": "job",
}  # fmt: skip
"""Word that no name has as a part → the word of the field."""

ALLOWED_NAMES = {
    "string_table.py: _probe",  # a hash table is probed
}  # fmt: skip


def names_given(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every function, class, argument, variable and attribute that a file defines."""
    for node in all_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def not_of_the_field(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, name and better word of every name with a word that is none of the field's."""
    for line, name in names_given(tree):
        for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
            if part.lower() in NOT_OF_THE_FIELD:
                yield line, name, NOT_OF_THE_FIELD[part.lower()]


def test_names_are_words_of_the_field():
    wrong = [
        f"{shown(path)}:{line} {name}: {better}"
        for path in FILES
        for line, name, better in not_of_the_field(tree_of(path))
        if f"{path.name}: {name}" not in ALLOWED_NAMES
    ]
    assert not wrong, "\n".join(wrong)


def test_words_are_found_in_names_alone():
    code = """
def judge_words(told, *, drafts): "the catalogue of what was told"
class ShelfOf: pass
x.made_draft = job.draft
import probes as my_probe
adjudged = "making" + judgement
"""
    found = [name for _, name, _ in not_of_the_field(ast.parse(code))]
    assert sorted(found) == ["ShelfOf", "judge_words", "made_draft", "my_probe", "told"]


@cache
def top_level_names(tree: ast.Module) -> set[str]:
    """What a module defines or imports."""
    names = {
        node.name for node in all_nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    names |= {
        alias.asname or alias.name
        for node in all_nodes(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return names | {
        node.id for node in all_nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def test_a_face_only_says_what_is_behind_it():
    """A docstring and the imports that it hands on, so that a settings module imports light."""
    wrong = []
    for folder in FACES:
        tree = tree_of(folder / "__init__.py")
        kinds = [
            type(node).__name__ for node in tree.body[1:] if not (folder == PACKAGE and isinstance(node, ast.Assign))
        ]
        usual = ["ImportFrom", "If"] if folder == PACKAGE else ["ImportFrom", "ImportFrom", "If"]
        wrong += [shown(folder)] * (kinds not in ([], usual) and folder.name != "cli")
    assert not wrong, wrong


def test_what_a_face_offers_is_there_and_is_no_module_of_the_same_name():
    """`from wordpipe.corpus import decode` must not mean now a function and, once a module is loaded, the module."""
    for folder, offered in FACES.items():
        modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not modules & set(offered), folder
        for name, (module, original) in offered.items():
            path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
            source = path if path.is_file() else path.with_suffix("") / "__init__.py"
            names = top_level_names(tree_of(source))
            assert original in names or "__getattr__" in names, (  # which makes them of a table
                f"{shown(folder)} offers {name}, which {module} has not"
            )


def test_rooms_are_entered_by_their_faces():
    """Outside a room only its face, its settings and, in tests, its kernels are imported.

    A test may import a module whole, to replace something in it; the tests of the command line, which nobody imports, may
    open its modules.
    """
    wrong = []
    others = [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]
    inside = re.compile(
        r"^\s*from wordpipe\.\w+\.", re.MULTILINE
    )  # without such a line there is nothing to parse a file for
    for path in [*FILES, *(path for path in others if inside.search(path.read_text(encoding="utf-8")))]:
        ours = path.is_relative_to(PACKAGE)
        for line, module, name in from_imports(path):
            parts = module.split(".")
            if parts[0] != "wordpipe" or len(parts) < 3 or parts[-1] == "settings":
                continue
            if parts[1] == room_of(path) if ours else parts[1] == "cli" or set(parts) & KERNELS:
                continue
            if PACKAGE.joinpath(*parts[1:]) not in FACES or set(parts) & KERNELS:
                wrong.append(f"{shown(path)}:{line} from {module} import {name}")
    assert not wrong, "\n".join(wrong)


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running this."""
    report = f"\nimport sys, json\njson.dump([name for name in {HEAVY!r} if name in sys.modules], sys.stdout)"
    done = subprocess.run(
        [sys.executable, "-c", code + report], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stdout))


def test_the_package_and_all_settings_import_light():
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in FILES
        if path.name == "settings.py" or (path.parent == PACKAGE and path.name == "runtime.py")
    ]
    assert len(modules) > 3
    assert loaded_by("import wordpipe\n" + "\n".join(f"import {module}" for module in modules)) == set()


def test_a_page_of_help_loads_no_stage():
    loaded = loaded_modules("train --help")
    assert "wordpipe.stages.registry" in loaded
    assert [name for name in loaded if name.startswith(("wordpipe.stages.", "wordpipe.training"))] == [
        "wordpipe.stages.registry"
    ]


def test_heavy_imports_would_be_seen():
    assert loaded_by("import numpy") == {"numpy"}
