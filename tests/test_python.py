"""The package as Python sees it: documentation that runs, a stub for type checkers, keywords, progress, open artifacts."""

import ast
import doctest
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import types
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import wordpipe
from tests.support.commands import commands
from tests.support.stub import stub, write
from wordpipe.artifacts import KINDS
from wordpipe.cli import output
from wordpipe.errors import ArtifactError, ConfigError, InputError, UnknownWordError
from wordpipe.runtime import Progress, quiet
from wordpipe.stages import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = [name for name in wordpipe.__all__ if inspect.isfunction(getattr(wordpipe, name))]
TITLE = "the moon pulls the water of the sea"


# --- names and documentation


def test_functions_are_named_as_their_commands_are():
    # words of Python's own, and a room; what speaks on standard input is no function
    others = {"import": "import_words", "help": None, "search": "search_texts", "mcp": None}
    names = {others.get(name, name.replace(" ", "_")) for name in commands()} - {None}
    assert names - set(FUNCTIONS) == set()


@pytest.fixture
def folder(built, handbook, tmp_path, monkeypatch) -> Path:
    """A project: what the examples of the documentation find where they run."""
    shutil.copytree(built, tmp_path / "run")
    (tmp_path / "notes").mkdir()
    shutil.copy(handbook, tmp_path / "notes" / "handbook.txt")
    stages = {"corpus": ("ingest", "notes"), "tokens": ("tokenize", "corpus")}
    body = [f'[stage.{name}]\ncommand = "{command}"\ninputs = ["{it}"]' for name, (command, it) in stages.items()]
    (tmp_path / "wordpipe.toml").write_text("\n".join(['workdir = "made"', *body]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.landing
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_every_function_runs(name, folder):
    function = getattr(wordpipe, name)
    found = doctest.DocTestParser().get_doctest(
        function.__doc__, {"wordpipe": wordpipe, "Path": Path}, name, inspect.getfile(function), 0
    )
    assert found.examples, f"{name} has no example"
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(found, out=said.write)
    assert runner.failures == 0, said.getvalue()
    wordpipe.progress()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_keyword_is_named_in_signature_and_documentation(name):
    function = getattr(wordpipe, name)
    parameters = inspect.signature(function).parameters.values()
    assert not [one for one in parameters if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    for one in parameters:
        assert one.annotation is not one.empty, one
        assert re.search(rf"^ {{4}}{one.name}: ", inspect.getdoc(function), re.MULTILINE), one.name
    assert function.__name__ == name or name == "open_model"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_stage_takes_every_setting_of_its_command(command):
    settings = command.load_settings()
    parameters = inspect.signature(command.load()).parameters
    for name, field in settings.model_fields.items():
        assert parameters[name].default == field.default
        said = re.sub("--([a-z-]+)", lambda found: found[1].replace("-", "_"), field.description or "")
        assert said in command.load().__doc__
    assert getattr(wordpipe, settings.__name__) is settings


def test_help_shows_the_settings():
    text = subprocess.run(
        [sys.executable, "-c", "import wordpipe; help(wordpipe.tokenize)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PAGER": "cat", "PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert "vocab_size: int = 16000" in text
    assert "number of tokens in the vocabulary, including special tokens (at least 300). Default: 16000." in text


# --- types


@pytest.fixture(scope="module")
def written() -> dict[str, ast.FunctionDef]:
    """The functions of the stub, the last of overloads."""
    return {node.name: node for node in ast.parse(stub()).body if isinstance(node, ast.FunctionDef)}


def test_the_stub_has_every_function(written):
    assert set(written) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stub_says_what_a_function_takes(name, written):
    """It is read from texts, without importing the libraries of a function; here that is compared with the function."""
    own, parameters = written[name].args, inspect.signature(getattr(wordpipe, name)).parameters.values()
    assert [one.arg for one in own.args] == [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert [one.arg for one in own.kwonlyargs] == [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    defaults = [*[None] * (len(own.args) - len(own.defaults)), *own.defaults, *own.kw_defaults]
    given = [inspect.Parameter.empty if one is None else ast.literal_eval(one) for one in defaults]
    assert given == [one.default for one in parameters]


def test_making_the_stub_imports_no_library():
    code = "import sys; from tests.support.stub import stub; stub(); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not {"pydantic", "click", "numpy", "pyarrow", "torch"} & set(ast.literal_eval(out))


@pytest.mark.landing
def test_a_wheel_has_the_stub_and_the_mark_of_types(tmp_path):
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("wordpipe/__init__.pyi").decode() == stub()
        assert "wordpipe/py.typed" in archive.namelist()


_MYPY = """
[mypy]
strict = true
[mypy-wordpipe,wordpipe.stages]
implicit_reexport = true
[mypy-wordpipe.*]
follow_imports = silent
[mypy-torch.*,numba.*,scipy.*,faiss.*,transformers.*,rich.*,gensim.*,pyarrow.*,tokenizers.*,safetensors.*]
follow_imports = skip
ignore_missing_imports = true
"""

_RIGHT = """
from pathlib import Path

import wordpipe

made = wordpipe.ingest(Path("notes"), output="run/corpus", documents="block", metadata=["year:int"], run=None)
tokens = wordpipe.tokenize(made, output="run/tokens", vocab_size=8000, counts=None)
wordpipe.train_word2vec(tokens, output="run/words", init=made, run=wordpipe.RunOptions(fresh=True))
hits = wordpipe.query("run/index", "bees", 5, where="year > 2000", mode="dense")
score: float = hits[0]["score"]
with wordpipe.open("run/words", "words") as words:
    near: list[tuple[str, float]] = words.neighbours("bee") if "bee" in words else []
    total = words["bee"] + words["wasp"]
with wordpipe.open("run/index") as index:
    width: int = index.encode(word for word in ["a", "b"]).shape[1]
    index.query("bees", k=3, explain=True)
settings = wordpipe.IngestSettings(documents="line")
fresh: bool = wordpipe.status()[0].fresh
try:
    paths: list[str] = [made.path for made in wordpipe.run(last="tokens")]
except wordpipe.ConfigError as error:
    hint: str | None = error.hint
"""

_WRONG = """
import wordpipe
wordpipe.tokenize("run/corpus", output="run/tokens", vocabsize=8000)  # call-arg
wordpipe.tokenize("run/corpus", output="run/tokens", vocab_size="many")  # arg-type
wordpipe.tokenize("run/corpus", output="run/tokens", algorithm="bbpe")  # arg-type
wordpipe.tokenize("run/corpus")  # call-arg
wordpipe.train_mlm("run/tokens", output="run/model", vocab_size=100)  # call-arg
wordpipe.ingest("notes", output="run/corpus", metadata="year:int")  # arg-type
wordpipe.query("run/index", "bees", wheer="year > 2000")  # call-arg
wordpipe.query("run/index", "bees", mode="sparse")  # arg-type
wordpipe.open("run/index").query("bees", wheer="year > 2000")  # call-arg
wordpipe.open("run/words", "words").encode(3)  # arg-type
wordpipe.open("run/words", "wrods")  # call-overload
wordpipe.map_words  # attr-defined
wordpipe.ingest("notes", output="run/corpus").path = 3  # assignment
"""


@pytest.mark.oracle
def test_a_type_checker_knows_right_from_wrong(tmp_path):
    write()
    (tmp_path / "mypy.ini").write_text(_MYPY)
    for name, text in (("right", _RIGHT), ("wrong", _WRONG)):
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "right.py", "wrong.py"], cwd=tmp_path,
        capture_output=True, text=True, check=False, env=os.environ | {"MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = {
        (name, int(line), kind)
        for name, line, kind in re.findall(r"(?m)^(\w+)\.py:(\d+): error:.*\[(.+)\]$", done.stdout)
    }
    lines = enumerate(_WRONG.splitlines(), start=1)
    expected = {("wrong", number, line.split("# ")[1]) for number, line in lines if "# " in line}
    assert found == expected, done.stdout


def test_the_keywords_of_a_query_are_its_options():
    from typing import get_type_hints

    keywords = inspect.signature(wordpipe.OpenArtifact.query).parameters
    options = wordpipe.QueryOptions.model_fields
    assert {name: keywords[name].default for name in options} == {name: one.default for name, one in options.items()}
    written = [one for one in wordpipe.OpenArtifact.query.__annotations__.values() if "QueryKeywords" in str(one)]
    assert get_type_hints(written[0].__args__[0]) == {name: one.annotation for name, one in options.items()}


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: wordpipe.tokenize("x", output="y", vocabsize=1), "vocab_size"),
        (lambda: wordpipe.query("x", "text", wheer="1"), "where"),
        (lambda: wordpipe.fill("x", "text", topk=1), "top_k"),
        (lambda: wordpipe.evaluate_sts("x", "y", poling="mean"), "pooling"),
    ],
)
def test_a_wrong_keyword_names_those_that_are_near(call, hint):
    with pytest.raises(ConfigError, match="unknown") as caught:
        call()
    assert f"did you mean {hint}" in (caught.value.hint or "")


def test_a_value_that_fits_no_part_of_a_union_is_said_once():
    with pytest.raises(ConfigError) as caught:
        wordpipe.cluster("x", output="y", k="four")
    what = "k = 'four' should be a valid integer, unable to parse string as an integer, or 'auto'"
    assert caught.value.message == what


def test_a_mode_that_there_is_not(built):
    with pytest.raises(ConfigError, match="mode = 'sparse' should be 'auto', 'dense'"):
        wordpipe.query(built / "index", "sea", mode="sparse")


# --- what a stage gives


def test_what_was_made_is_the_input_of_the_next(handbook, tmp_path):
    corpus = wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="block")
    tokens = wordpipe.tokenize(corpus, output=tmp_path / "tokens", vocab_size=400)
    again = wordpipe.tokenize(
        corpus, output=tmp_path / "again", vocab_size=300, counts=tokens
    )  # a setting is a path, too
    assert Path(tokens) == tmp_path / "tokens"
    assert str(tokens) == str(tmp_path / "tokens")
    assert repr(again).startswith(f"tokens → {again.path}  in {again.seconds:.1f} s\n  ")
    assert f"{again.counts['sentences']:,} sentences" in repr(again)
    assert all(isinstance(value, str | int | float | dict | list) for value in again.to_json().values())


def test_what_was_made_shows_itself_in_a_few_lines():
    made = wordpipe.Made(
        "tokens", "run/tokens", "r", "d", 1.23, 10**6, {"sentences": 9_000, "none": 0}, {}, {"loss": 1.5}, ["oh"]
    )
    assert repr(made) == "tokens → run/tokens  in 1.2 s\n  9,000 sentences\n  loss 1.5\n  warning: oh"
    assert str(made) == "run/tokens"


# --- errors and warnings


def test_an_error_shows_its_hint_in_a_traceback_and_the_command_line_shows_it_once(tmp_path, cli):
    error = ConfigError("wrong", where="a.toml", got=3, expected="4", hint="try\nthis")
    assert str(error) == "a.toml: wrong; got 3; expected 4\n  hint: try\\nthis"
    assert error.message == "a.toml: wrong; got 3; expected 4"
    assert str(ConfigError("wrong")) == "wrong"
    code = f"import wordpipe; wordpipe.open({str(tmp_path / 'none')!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    hint = "check the path, or run the stage that makes this artifact"
    what = f"{tmp_path / 'none'}: the artifact does not exist\n  hint: {hint}\n"
    assert done.stderr.endswith(f"wordpipe.errors.ArtifactError: {what}")
    for given, expected in (
        ([], f"wordpipe: error: {what}"),
        (["--json"], '"what": "the artifact does not exist", "where"'),
    ):
        said = cli("show", tmp_path / "none", *given)
        assert expected in said.err, said
        assert said.err.count("check the path") == 1


def test_warnings_come_by_warnings_at_the_line_that_called(handbook, tmp_path):
    with pytest.warns(wordpipe.WordpipeWarning) as caught:
        made = wordpipe.ingest(handbook, output=tmp_path / "a", valid=0.01)  # one document: none is held out
    assert [str(one.message) for one in caught] == made.warnings != []
    assert {one.filename for one in caught} == {__file__}
    first = test_warnings_come_by_warnings_at_the_line_that_called.__code__.co_firstlineno
    assert {one.lineno - first for one in caught} == {2}
    wordpipe.progress(False)
    with pytest.warns(wordpipe.WordpipeWarning):  # progress is off, and warnings are no progress
        wordpipe.ingest(handbook, output=tmp_path / "b", valid=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = wordpipe.RunOptions(report=quiet)
        assert wordpipe.ingest(handbook, output=tmp_path / "c", valid=0.01, run=silent).warnings == made.warnings
        with pytest.raises(wordpipe.WordpipeWarning):
            wordpipe.ingest(handbook, output=tmp_path / "d", valid=0.01)
    assert not (tmp_path / "d").exists()


def test_texts_that_are_left_out_are_warned_of(built, tmp_path):
    records = [{"text": "the sea"}, {"text": ""}, {"text": "the sea"}, {"text": "bread"}]
    lost = "1 document dropped duplicate, 1 document dropped empty"
    with pytest.warns(wordpipe.WordpipeWarning, match=f"{tmp_path / 'c'}: {lost}"):
        made = wordpipe.ingest(records, output=tmp_path / "c")
    assert made.counts["documents_kept"] == 2
    with pytest.warns(wordpipe.WordpipeWarning, match=f"{tmp_path / 's'}: {lost}"):
        wordpipe.embed(built / "words", records, output=tmp_path / "s")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wordpipe.ingest([{"text": "the sea"}, {"text": "bread"}], output=tmp_path / "d")


def test_of_processes_that_train_together_the_first_alone_warns(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wordpipe.ingest([{"text": ""}, {"text": "bread"}], output=tmp_path / "c")


def test_a_warning_in_a_notebook_is_on_a_line_of_its_own(monkeypatch, capsys):
    drawer = _drawn(monkeypatch, kernel=True)
    with warnings.catch_warnings(), drawer:
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_: sys.stderr.write(f"<{message}>"))
        drawer(Progress("reading", 1, 10, "MB"))
        drawer.warn("warning: a\x1b[31m", sys._getframe())
    said = capsys.readouterr().err
    assert re.search(r"reading · 1/10 MB\r +\r<a\\x1b\[31m>", said)


@pytest.mark.parametrize(
    ("sources", "kind", "what"),
    [
        (iter(()), InputError, "no items.*\n  hint: a generator can be read only once"),
        ([], InputError, "no items; expected names of sources"),
        ([("a", 1)], ConfigError, "got list.*\n  hint: give a list of dicts; this list has an item of type tuple"),
        (pd.Series(["a"]), InputError, "a single column without a name is not a table; got Series\n.*to_frame"),
        (pl.Series(["a"]), InputError, "a single column without a name is not a table; got Series\n.*to_frame"),
        (pl.DataFrame({"text": ["a"]}).lazy(), ConfigError, "got LazyFrame.*\n.*collect"),
    ],
)
def test_what_is_no_table_of_texts_says_what_would_be(sources, kind, what, tmp_path):
    with pytest.raises(kind, match=what):
        wordpipe.ingest(sources, output=tmp_path / "c")


@pytest.mark.parametrize(
    ("text", "k", "what"),
    [(["sea", "bread"], 3, "query takes one text; got list"), (5, 3, "one text"), ("sea", 0, "at least 1; got 0"),
     ("sea", "3", "got '3'")],
)  # fmt: skip
def test_a_query_is_one_text_and_k_a_number(built, text, k, what):
    with wordpipe.open(built / "index") as index:
        for call in (index.query, lambda *given: wordpipe.query(built / "index", *given)):
            with pytest.raises(ConfigError, match=what):
                call(text, k)
        assert len(index.query("sea", np.int64(2))) == 2


def test_a_closed_artifact_says_so(built):
    with wordpipe.open(built / "index") as index:
        pass
    for call in (lambda: index.query("sea"), lambda: index.encode(["sea"]), index.batches):
        with pytest.raises(ArtifactError, match="the artifact is already closed"):
            call()


# --- open artifacts


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_opened_says_what_it_is_and_gives_its_rows(built, kind):
    with wordpipe.open(built / kind) as opened:
        assert opened.kind == kind
        assert opened.path == built / kind
        assert repr(opened).startswith(f"<open {kind} {str(built / kind)!r}: ")
        rows = opened.batches()
        assert isinstance(rows, pa.RecordBatchReader)
        table = rows.read_all()
        assert table.num_rows > 0
        name = table.schema.names[-1]
        assert opened.batches([name]).read_all() == table.select([name])
        with pytest.raises(ConfigError, match="no column with this name"):
            opened.batches(["colour"])
        with pytest.raises(ConfigError, match="no table with this name"):
            opened.batches(table="colours")
        if kind != "model":
            assert len(opened) == table.num_rows
    assert repr(opened).startswith(f"<closed {kind} ")


def test_another_table_of_an_artifact(built):
    with wordpipe.open(built / "tokens") as tokens:
        assert tokens.batches(table="words").schema.names == ["word", "count"]
    with wordpipe.open(built / "words") as words:
        assert words.batches(["word"], table="words").read_all()["word"].to_pylist() == list(words)


def test_another_kind_is_refused(built):
    for kind in ("index", ("index", "sentences")):
        with pytest.raises(ArtifactError, match="wrong kind"):
            wordpipe.open(built / "words", kind)
    with pytest.raises(ArtifactError, match="expected index or words"):  # before its bytes are read
        wordpipe.query(built / "tokens", "sea")


@pytest.mark.parametrize("kind", ["corpus", "tokens"])
def test_what_has_no_encoder_and_cannot_be_asked_says_so(built, kind):
    with wordpipe.open(built / kind) as opened:
        for call in (lambda: opened.encode(["a"]), lambda: opened.dim):
            with pytest.raises(ArtifactError, match="no text encoder"):
                call()
        with pytest.raises(ArtifactError, match="cannot be searched"):
            opened.query("sea")


def test_sentences_say_what_they_lack(built):
    with wordpipe.open(built / "sentences") as opened, pytest.raises(ArtifactError) as caught:
        opened.query("sea")
    assert "wordpipe index" in caught.value.hint


@pytest.mark.parametrize("kind", ["words", "model"])
def test_encoding_gives_what_embedding_gives(built, kind, tmp_path):
    """Without a transform, which is fitted on the texts embedded; and with it, of what was embedded."""
    settings = {"store": "float32"} | ({} if kind == "words" else {"device": "cpu", "threads": 1})
    wordpipe.embed(built / kind, built / "corpus", output=tmp_path / "s", unit="document", transform="none", **settings)
    with wordpipe.open(tmp_path / "s") as sentences, wordpipe.open(built / kind) as encoder:
        rows = sentences.batches(["title", "text", "vector"]).read_all().to_pydict()
        texts = [f"{title}\n{text}" if title else text for title, text in zip(rows["title"], rows["text"], strict=True)]
        vectors = encoder.encode(texts)
        assert vectors.dtype == np.float32
        assert vectors.shape == (165, encoder.dim)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        assert np.abs(vectors - np.array(rows["vector"])).max() <= 1e-5
        assert np.abs(sentences.encode(iter(texts)) - vectors).max() <= 1e-5


def test_an_index_encodes_as_its_rows_were(built):
    with wordpipe.open(built / "index") as index:
        rows = index.batches(["title", "text", "vector"]).read_all().slice(0, 20).to_pydict()
        texts = [f"{title}\n{text}" for title, text in zip(rows["title"], rows["text"], strict=True)]
        assert np.abs(index.encode(texts) - np.array(rows["vector"])).max() <= 1 / 127  # stored as int8
        assert index.dim == 32


def test_more_texts_than_are_encoded_at_once(built, monkeypatch):
    from wordpipe.stages.search import opened_words_and_tables

    texts = [TITLE, "bread", "the oven is warm", "bees", "a kettle"]
    with wordpipe.open(built / "words") as words:
        whole = words.encode(texts)
        monkeypatch.setattr(opened_words_and_tables, "_AT_ONCE", 2)
        assert (words.encode(text for text in texts) == whole).all()
        wordpipe.progress(True)
        reported: list[Progress] = []
        monkeypatch.setattr(output.ProgressDrawer, "__call__", lambda _, progress: reported.append(progress))
        words.encode(texts)
        assert [(one.phase, one.done, one.total) for one in reported] == [("encoding", done, 5) for done in (2, 4, 5)]
        words.encode(texts[:2])  # no more than one batch: nothing to wait for
        assert len(reported) == 3


def test_texts_without_a_vector_are_zero_and_said(built):
    with wordpipe.open(built / "words") as words:
        with pytest.warns(UserWarning, match="2 of 3 texts have no token") as warned:
            vectors = words.encode(["", TITLE, "qqqqq"])
        assert warned[0].filename == __file__
        assert vectors.any(axis=1).tolist() == [False, True, False]
        assert words.encode([]).shape == (0, 24)


@pytest.mark.parametrize(
    ("texts", "what"), [("one text", "not one string"), (["a", 3], r"texts\[1\]: not a text; got int")]
)
def test_what_is_no_list_of_texts(built, texts, what):
    with wordpipe.open(built / "words") as words, pytest.raises(ConfigError, match=what):
        words.encode(texts)


def test_words_are_looked_up(built):
    with wordpipe.open(built / "words", "words") as words:
        table = dict(zip(*words.batches(["word", "vector"]).read_all().to_pydict().values(), strict=True))
        assert len(words) == len(table)
        assert list(words) == list(table)
        assert (words["water"] == np.array(table["water"], np.float32)).all()
        assert (words["Water"] == words["water"]).all()  # in its lower-case form
        assert "water" in words
        assert "qqqqq" not in words
        assert 3 not in words
        vector = words["water"]
        vector[:] = 0  # a copy
        assert words["water"].any()


def test_neighbours_are_those_of_plain_arithmetic(built):
    with wordpipe.open(built / "words", "words") as words:
        names, vectors = list(words), np.array([words[word] for word in words])
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        scores = unit @ unit[names.index("water")]
        order = [row for row in np.argsort(-scores) if names[row] != "water"][:5]
        found = words.neighbours("water", 5)
        assert [word for word, _ in found] == [names[row] for row in order]
        assert np.allclose([score for _, score in found], scores[order], atol=1e-6)
        assert [hit["word"] for hit in words.query("water", k=5)] == [word for word, _ in found]


def test_an_unknown_word_is_a_key_error_with_words_like_it(built):
    with wordpipe.open(built / "words", "words") as words:
        for call in (lambda: words["watr"], lambda: words.neighbours("watr")):
            with pytest.raises(KeyError) as caught:
                call()
            assert isinstance(caught.value, UnknownWordError | InputError)
            assert str(caught.value).startswith("the word 'watr' has no vector\n  hint: ")
            assert "water" in caught.value.hint


def test_imported_words_encode_texts(built, tmp_path):
    wordpipe.export(built / "words", "glove", tmp_path / "glove.txt")
    made = wordpipe.import_words(tmp_path / "glove.txt", output=tmp_path / "words")
    with wordpipe.open(made) as words:
        assert words.encode([TITLE, "the sea"]).shape == (2, 24)


def test_an_index_over_words_is_asked_and_encodes_nothing(built, tmp_path):
    made = wordpipe.index(built / "words", output=tmp_path / "index", type="flat")
    with wordpipe.open(made) as index:
        assert "flat" in repr(index)
        assert len(index.query("water", k=3)) == 3
        assert index.dim == 24
        with pytest.raises(ArtifactError, match="no text encoder; got index"):
            index.encode(["the sea"])


def test_words_with_n_grams_know_words_that_they_have_not_read(built, tmp_path):
    made = wordpipe.train_word2vec(
        built / "tokens", output=tmp_path / "w", dim=8, epochs=1, threads=1, min_n=3, max_n=4, backend="native"
    )
    with wordpipe.open(made, "words") as words:
        assert "waterly" not in list(words)
        assert "waterly" in words
        assert words["waterly"].shape == (8,)
        assert len(words.neighbours("waterly", 3)) == 3


# --- Parquet, with nothing of ours


def _files(built: Path, kind: str) -> str:
    return str(built / kind / ("steps.parquet" if kind == "model" else f"{kind}-*.parquet"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_artifact_is_read_by_others(built, kind):
    """pyarrow, pandas, DuckDB and polars read the same rows, all of them by the same pattern of names."""
    import duckdb
    import pandas as pd
    import polars as pl

    with wordpipe.open(built / kind) as opened:
        expected = opened.batches().read_all()
    pattern = _files(built, kind)
    paths = sorted(str(path) for path in Path(pattern).parent.glob(Path(pattern).name))
    by_arrow = ds.dataset(paths).to_table()
    if kind in ("words", "sentences", "index"):  # whose vectors are bytes, which we read as lists
        assert by_arrow["vector"].type == pa.binary(4 + expected["vector"].type.list_size)
        by_arrow, expected = (one.drop_columns("vector") for one in (by_arrow, expected))
    assert by_arrow.replace_schema_metadata(None) == expected
    name = expected.schema.names[0]
    values = expected[name].to_pylist()
    assert pd.concat(map(pd.read_parquet, paths))[name].tolist() == values
    assert pl.read_parquet(pattern)[name].to_list() == values
    assert [value for (value,) in duckdb.sql(f"select {name} from '{pattern}'").fetchall()] == values


def test_others_take_the_stream(built):
    import duckdb
    import polars as pl

    with wordpipe.open(built / "corpus") as corpus:
        assert len(corpus.batches(["text"]).read_pandas()) == len(corpus)
        assert len(pl.DataFrame(corpus.batches(["text"]))) == len(corpus)
        rows = corpus.batches(["text"])
        assert duckdb.sql("select count(*) from rows").fetchall() == [(len(corpus),)]
        assert rows is not None


# --- progress


def _drawn(monkeypatch, *, terminal: bool = False, kernel: bool = False) -> output.ProgressDrawer:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    shell = types.SimpleNamespace(kernel=object()) if kernel else types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return output.default_drawer()


@pytest.fixture(autouse=True)
def _progress_as_at_the_beginning():
    yield
    wordpipe.progress()


def _makes(drawer: output.ProgressDrawer, capsys) -> str:
    with drawer as report:
        report(Progress("reading", 1, 10, "MB"))
        report(Progress("note", note="warning: look"))
        report(Progress("writing", 1, 10, "MB"))
    return capsys.readouterr().err


def test_calls_are_silent_where_nobody_looks(monkeypatch, capsys):
    assert _makes(_drawn(monkeypatch), capsys) == ""


def test_progress_is_drawn_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    assert "warning: look" in _makes(_drawn(monkeypatch, terminal=True), capsys)


def test_progress_in_a_notebook_is_one_line_written_over(monkeypatch, capsys):
    said = _makes(_drawn(monkeypatch, kernel=True), capsys)
    assert "\rreading · 1/10 MB" in said
    assert "warning: look\n" in said
    assert "\x1b" not in said
    assert said.rpartition("\n")[2].split("\r")[-2].strip() == ""  # nothing is left of it
    assert said.count("\n") == 1


def test_ipython_on_a_terminal_is_a_terminal(monkeypatch):
    assert type(_drawn(monkeypatch, terminal=True)) is output.ProgressDrawer


@pytest.mark.parametrize(("choice", "where"), [(False, {"terminal": True}), (False, {"kernel": True})])
def test_progress_is_switched_off(monkeypatch, capsys, choice, where):
    wordpipe.progress(choice)
    assert _makes(_drawn(monkeypatch, **where), capsys) == ""


def test_of_processes_that_train_together_the_first_alone_draws(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RANK", "1")
    assert _makes(_drawn(monkeypatch, terminal=True), capsys) == ""
    monkeypatch.setenv("RANK", "0")
    assert _makes(_drawn(monkeypatch, terminal=True), capsys) != ""


def test_progress_is_switched_on_where_there_is_no_terminal(monkeypatch, capsys):
    wordpipe.progress(True)
    assert "warning: look" in _makes(_drawn(monkeypatch), capsys)


def test_a_stage_draws_its_notes_where_progress_is_drawn(tmp_path, capsys):
    records = [{"id": 1, "text": "the sea"}]
    said = []
    for show in (True, False):
        wordpipe.progress(show)
        wordpipe.ingest(records, output=tmp_path / "c")
        said.append(capsys.readouterr().err)
    assert said == ["the field 'id' is used as the id of the records (see --id-field)\n", ""]


# --- pipelines


def test_a_pipeline_is_begun_looked_at_and_run(handbook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [path.name for path, _ in wordpipe.init().files] == ["wordpipe.toml", "Makefile"]
    assert not any(is_new for _, is_new in wordpipe.init().files)
    shutil.copy(handbook, tmp_path / "texts" / "handbook.txt")
    states = {state.name: state.fresh for state in wordpipe.status()}
    assert states
    assert not any(states.values())
    first = next(iter(states))
    made = wordpipe.run(last=first)
    assert [Path(one).name for one in made] == [first]
    assert wordpipe.run(last=first) == []
    assert {state.name for state in wordpipe.status() if state.fresh} == {first}
    assert len(wordpipe.run(last=first, run=wordpipe.RunOptions(fresh=True))) == 1
