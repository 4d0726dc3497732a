"""README and the book in docs are held to what the code does: blocks run, lists are whole, figures come from results."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest

import wordpipe
from tests.support.browsing import cut_off, look_at, needs_browser, pages, violations  # noqa: F401  (fixtures)
from tests.support.commands import commands
from tests.support.pages import RUN, Block, blocks, differs, refreshed, run_page
from tests.support.pictures import MOST_BYTES, PICTURES, make_pipeline, taken
from wordpipe import errors
from wordpipe.artifacts import (
    CORPUS,
    STEPS,
    TOKENS_16,
    VOCABULARY,
    clusters_schema,
    members_schema,
    sentences_schema,
    words_schema,
)
from wordpipe.pipeline import Pipeline

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SHOWN = DOCS / "static" / "pictures"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]}
QUICK = ("README.md",)
"""Pages whose blocks the default tests run."""

OPTIONAL = {"onnx": "onnxscript", "openai": "openai", "pandas": "pandas", "polars": "polars"}
"""What blocks may need, by the name that pages call it by, and the library that it is."""

HAS_BLOCKS = [name for name, path in PAGES.items() if any(one.language in RUN for one in blocks(path.read_text()))]


def not_there() -> frozenset[str]:
    """The needs that are not there."""
    from importlib.util import find_spec

    return frozenset(need for need, module in OPTIONAL.items() if find_spec(module) is None)


@pytest.fixture(scope="module")
def book():
    """What makes the generated parts of the book."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        import wordpipe_docs

        yield wordpipe_docs


def every_block() -> list[tuple[str, Block]]:
    return [(name, block) for name, path in PAGES.items() for block in blocks(path.read_text(encoding="utf-8"))]


# ---------------------------------------------------------------------------------------------------------------- blocks


@pytest.mark.landing
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in HAS_BLOCKS if name in QUICK])
def test_the_blocks_of_a_page_do_what_they_say(name, tmp_path):
    _run(name, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in HAS_BLOCKS if name not in QUICK])
def test_the_blocks_of_a_long_page_do_what_they_say(name, tmp_path):
    _run(name, tmp_path)


def _run(name, tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    assert run_page(PAGES[name], folder, not_there()) == []


def test_what_blocks_need_has_a_name_that_the_tests_know():
    named = {need for _, block in every_block() for need in re.split(r",\s*", block.marks.get("needs", "")) if need}
    assert named == {*OPTIONAL}


def test_every_block_has_a_language_and_commands_are_in_blocks_that_are_run():
    for name, block in every_block():
        assert block.language, f"{name}, line {block.line}"
        if block.language not in RUN and "file" not in block.marks and "output" not in block.marks:
            assert not re.search(r"^(\$ )?wordpipe \w", block.text, re.MULTILINE), f"{name}, line {block.line}"


def _lines() -> list[str]:
    found = set()
    for _, block in every_block():
        if block.language not in ("console", "sh") or set(block.marks.get("needs", "").split(", ")) & not_there():
            continue
        for line in block.shell.replace("\\\n", " ").splitlines():
            words = re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", line)
            piped = [place for place, word in enumerate(words, start=1) if word in ("|", "coproc")]
            command = words[piped[-1] if piped else 0 :]
            if command[:1] == ["wordpipe"] and len(command) > 1:
                ends = [place for place, word in enumerate(command) if re.match(r"2?>|&&|;", word)]
                found.add(" ".join(command[: ends[0] if ends else None]))
    return sorted(found)


@pytest.mark.parametrize("line", _lines())
def test_every_command_of_the_docs_parses(line):
    args = shlex.split(line, comments=True)[1:]
    known = commands()
    name = next(n for n in (" ".join(args[:2]), args[0]) if n in known)
    known[name].make_context(name, args[len(name.split()) :])


@pytest.mark.parametrize(
    ("shown", "printed", "missed"),
    [
        (["1.0000  Tides  a.txt:3"], "0.93  Tides   a.txt:154\n", None),
        (["1.0000  Tides  a.txt:3"], "0.93  Seasons  a.txt:154\n", "1.0000  Tides  a.txt:3"),
        (["words → run/words  in 0.4 s"], "a line before\nwords → run/words  in 1m02s\n", None),
        (["a", "b"], "b\na\n", "b"),
        (["a", "…", "b"], "a\nc\nd\nb\n", None),
        (["loss … valid 3.1k"], "loss 2 █▂▁ valid 17\n", None),
        (["loss … valid"], "loss 2\n", "loss … valid"),
        (["?"], "anything\n", "?"),
    ],
)
def test_printed_lines_are_compared_loosely_and_no_looser(shown, printed, missed):
    assert differs(shown, printed) == missed


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ("```sh\ntrue\n```", ""),
        ("```sh\nfalse\ntrue\n```", "exit code 1, not 0"),
        ("<!-- exit: 3 -->\n```sh\nexit 3\n```", ""),
        ("<!-- exit: 3 -->\n```console\n$ echo a\na\n$ exit 4\n```", "exit code 4, not 3"),
        ("```console\n$ echo one two\none 2\n```", "not printed: one 2"),
        ("```console\n$ test -t 1 && echo a \\\n  terminal\na terminal\n```", ""),
        ("```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n<!-- output -->\n```text\n2\n```", ""),
        ("```python\nnothing_of_this_name\n```", "NameError"),
        ("```python\nprint('a')\n```\n<!-- output -->\n```text\nb\n```", "not printed: b"),
        ("<!-- file: a/b.txt -->\n```text\nhallo\n```\n```sh\ngrep -q hallo a/b.txt\n```", ""),
        ("<!-- data: nothing.txt -->\n```sh\nfalse\n```", ""),
        ("<!-- needs: records -->\n```sh\nfalse\n```", ""),
        ("<!-- needs: something else -->\n```sh\nfalse\n```", "exit code 1"),
    ],
)
def test_a_wrong_block_is_found(tmp_path, block, wrong):
    page, folder = tmp_path / "page.md", tmp_path / "folder"
    page.write_text(block)
    folder.mkdir()
    found = run_page(page, folder, frozenset({"records"}))
    assert bool(found) == bool(wrong)
    assert wrong in "".join(found)


@pytest.mark.parametrize("page", ["<!-- nonsense -->\n", "```sh\nnever closed\n"])
def test_a_page_that_cannot_be_read_is_refused(page):
    with pytest.raises(ValueError, match=r"no such mark|not closed"):
        blocks(page)


# -------------------------------------------------------------------------------------------------------------- the README


def test_the_readme_fits_a_screen_and_a_half():
    assert len([line for line in README.splitlines() if not line.startswith("<!--")]) <= 150
    assert len(README.encode()) <= 9_000
    assert max(len(line) for line in README.splitlines()) <= 130


def test_the_figures_of_the_readme_are_those_of_the_results(book):
    assert README.count("<!-- generate: ") == 1
    for path in [ROOT / "README.md", *PAGES.values()]:  # which are read as they are, too
        page = path.read_text(encoding="utf-8")
        assert refreshed(page) == page, f"python -m tests.support.pages --generated {path.relative_to(ROOT)}"
        for found in book.MARK.finditer(page):
            assert found["written"] or found["name"] in ("commands", "readme"), (
                f"{path.name}: {found['name']} has no end mark"
            )
            assert not found["written"] or found["written"].strip() != "<!-- generated -->"
            assert book.filled_in(found[0]) == book.generated(found["name"], found["args"] or "")  # and never twice


def test_the_links_of_the_readme_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / link).exists(), link


# ------------------------------------------------------------------------------------------------------------ the reference


def test_every_command_and_option_is_in_the_reference_once(book):
    whole = "".join(book.filled_in(path.read_text(encoding="utf-8")) for path in DOCS.glob("reference/*.md"))
    headings = Counter(re.findall(r"^## `wordpipe ([^`]+)`$", whole, re.MULTILINE))
    anchors = Counter(re.findall(r"\{#(option-[^}]+)\}", whole))
    expected = []
    for name, command in commands().items():
        settings = wordpipe.stages.COMMANDS[name].load_settings() if name in wordpipe.stages.COMMANDS else None
        params = {param.name for param in command.params if isinstance(param, click.Option)}
        expected += [f"option-{name} {param}" for param in params | set(settings.model_fields if settings else ())]
    assert headings == Counter(dict.fromkeys(commands(), 1))
    assert anchors == Counter(re.sub(r"[ _]+", "-", one) for one in expected)


def test_an_option_says_its_key_bounds_and_default(book):
    page = book.generated("commands", "Make artifacts")
    line = next(line for line in page.splitlines() if "#option-tokenize-vocab-size}" in line)
    for fact in ("`--vocab-size`", "TOML `vocab_size`", "≥ 300", "≤ 4,000,000", "default `16000`"):
        assert fact in line
    rate = next(
        line for line in book.generated("commands", "train").splitlines() if "#option-train-mlm-mask-share}" in line
    )
    assert "`--set mask_share=…`" in rate


def test_arguments_of_commands_are_named_without_what_click_puts_around_them(book):
    whole = "".join(book.filled_in(path.read_text(encoding="utf-8")) for path in DOCS.glob("reference/*.md"))
    terms = re.findall(r"^`(.+)`\n: ", whole, re.MULTILINE)
    assert {"INDEX|WORDS", "QUERY...", "SENTENCES", "ARTIFACTS..."} <= {*terms}
    assert not [term for term in terms if re.search(r"[\[\] ]", term)]
    assert "UNSET" not in whole
    assert "[`-k` `--k`]{#option-cluster-k}" in whole


def test_every_command_is_told_of_beyond_the_reference():
    told = "\n".join(path.read_text(encoding="utf-8") for name, path in PAGES.items() if "/reference/" not in name)
    for name in commands():
        assert re.search(rf"(wordpipe|`) ?{name}\b", told), name


def test_every_exit_code_is_in_the_reference(book):
    page = book.generated("exit-codes")
    families = errors.WordpipeError.__subclasses__()
    assert len(families) == 9
    for family in families:
        assert f"| {family.exit_code} | `{family.__name__}`" in page


def test_every_column_is_in_the_reference(book):
    page = book.generated("artifacts")
    for schema in (
        *(CORPUS, TOKENS_16, VOCABULARY, words_schema(2), STEPS, sentences_schema(2)),
        *(clusters_schema(2), members_schema([])),
    ):
        for name in schema.names:
            assert f"| `{name}` |" in page, name


def test_what_is_found_is_in_the_reference(built):
    page = (DOCS / "reference" / "answers.md").read_text(encoding="utf-8")
    with wordpipe.open(built / "index") as index:
        hit = index.query("bread", k=1, explain=True)[0]
    for name in hit:
        assert f"`{name}`" in page, name


def test_every_file_of_the_project_that_the_book_names_is_there():
    there = {path.name for folder in ("wordpipe", "benchmarks", "tests") for path in (ROOT / folder).glob("**/*.py")}
    named = set()
    for name, path in PAGES.items():
        page = path.read_text(encoding="utf-8")
        for found in re.findall(r"`((?:wordpipe|benchmarks|configs|data)/[\w/.-]+\.\w+)`", page):
            assert (ROOT / found).is_file(), f"{name}: {found}"
            named.add(found)
        # beside a path, another file of its folder stands without it
        if "/concepts/" in name:
            assert {*re.findall(r"`(\w+\.py)`", page)} <= there, name
    assert "wordpipe/model/attention.py" in named


def test_every_figure_names_its_file_and_every_part_is_used(book):
    used = {found for path in PAGES.values() for found in re.findall(r"<!-- generate: ([\w-]+)", path.read_text())}
    assert used == {*book.FIGURES, *book.REFERENCE}
    for name, figure in book.FIGURES.items():
        text = figure()
        assert "|" in text or "benchmarks/results/" in text, name
    page = book.filled_in((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    for section in page.split("\n## ")[1:]:
        assert "`benchmarks/results/" in section, section.splitlines()[0]


def test_every_picture_is_small_and_shown_with_what_is_on_it():
    there = {path.name for path in SHOWN.glob("*")}
    assert there == {f"{one.name}.webp" for one in PICTURES}
    assert all((SHOWN / name).stat().st_size <= MOST_BYTES for name in there)
    shown = set()
    for name, path in PAGES.items():
        for alt, target in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).resolve().parent == SHOWN, f"{name}: {target}"
            assert len(alt) > 40, f"{name}: {alt}"
            shown.add(Path(target).name)
    assert shown == there


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """The folder of the pipeline that the pictures show."""
    folder = tmp_path_factory.mktemp("pictured")
    make_pipeline(folder)
    return folder


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_that_is_a_file_has_a_barrier_or_cuts_a_text(pictured, look_at, scheme):  # noqa: F811
    seen, found = look_at("file://", color_scheme=scheme), {}
    for name in ("report", "attention", "map"):
        page = seen.go(str(pictured / f"{name}.html"))
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for width in (1400, 900, 420):
            page.set_viewport_size({"width": width, "height": 900})
            found |= {(name, width): wrong} if (wrong := violations(page) + cut_off(page)) else {}
    assert found == {}
    assert seen.errors == []


@needs_browser
@pytest.mark.slow
def test_the_pictures_can_be_taken_anew(pictured, look_at):  # noqa: F811
    image = pytest.importorskip("PIL.Image")
    taken_now = dict(taken(pictured, look_at("").context.browser))
    assert [*taken_now] == [one.name for one in PICTURES]
    for name, picture in taken_now.items():
        assert len(picture) <= MOST_BYTES, name
        with image.open(io.BytesIO(picture)) as now, image.open(SHOWN / f"{name}.webp") as before:
            assert now.size == before.size, name


@pytest.fixture(scope="module")
def built_book(tmp_path_factory):
    """The folder of the book as HTML, and what its making said."""
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    folder = tmp_path_factory.mktemp("book")
    out = folder / "html"
    line = [sys.executable, "-m", "sphinx", "-W", "-n", "-E", "-q", "-d", str(folder / "trees"), str(DOCS), str(out)]
    done = subprocess.run(
        line, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return out, done


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_the_book_has_a_barrier_or_cuts_a_text(built_book, look_at, scheme):  # noqa: F811
    out, _ = built_book
    seen, found = look_at("file://", color_scheme=scheme), {}
    for number, path in enumerate(sorted(out.glob("**/*.html"))):
        page = seen.go(str(path))
        for width in (1400, 900, 420):
            page.set_viewport_size({"width": width, "height": 900})
            # the rules take seconds: each page at one width for each scheme, at another one in the other scheme
            ruled = width == (1400, 900, 420)[(number + (scheme == "dark")) % 3]
            wrong = cut_off(page) + (violations(page) if ruled else [])
            found |= {(path.name, width): wrong} if wrong else {}
    assert found == {}
    assert seen.errors == []


@pytest.mark.slow
def test_the_book_is_built_without_a_warning_and_asks_nothing_of_the_network(built_book):
    out, done = built_book
    assert done.returncode == 0, done.stderr
    made = [*out.glob("**/*.html")]
    assert len(made) > len(PAGES) - 1
    loads = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src=["']https?:|<link[^>]+href=["']https?:|url\(["']?https?:|@import"""
    )
    for page in [*made, *out.glob("_static/**/*.css")]:
        assert not loads.search(page.read_text(encoding="utf-8")), page
    assert "<math " in (out / "concepts" / "attention.html").read_text(encoding="utf-8")
    assert "wordpipe search" in re.sub("<.*?>", "", (out / "readme.html").read_text(encoding="utf-8"))
    assert 'role="heading"><' not in (out / "tour.html").read_text(encoding="utf-8")  # each has a level


# ------------------------------------------------------------------------------------------------------ the package around


def test_every_public_function_is_there():
    for name in wordpipe.__all__:
        assert getattr(wordpipe, name) is not None
    assert set(wordpipe.__all__) <= set(dir(wordpipe))
    with pytest.raises(AttributeError, match="nothing"):
        wordpipe.nothing  # noqa: B018


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.name)
def test_every_config_reads(path):
    assert Pipeline(path).stages


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in text or f"## {wordpipe.__version__}" in text


def test_the_map_of_the_house_names_files_where_they_are():
    """In a room's paragraph a file of a folder below it stands after the name of that folder, as do those behind it."""
    told, wrong = (ROOT / "CONTRIBUTING.md").read_text(), []
    rooms = told[told.index("### The rooms") : told.index("## Where do I add")]
    for room, text in re.findall(r"^\*\*`([\w/]+)/`\*\*(.+?)\n\n", rooms, re.S | re.M):
        folder, entered = ROOT / "wordpipe" / room, {"."}
        for name in re.findall(r"`([\w/]+(?:/|\.py|\.js))`", text):
            if name.endswith("/"):
                entered.add(name.strip("/"))
            elif not (ROOT / "wordpipe" / name).is_file():
                places = {one.parent.relative_to(folder).as_posix() for one in folder.rglob(name)}
                wrong += [] if places & entered else [(room, name, *places)]
    assert wrong == []
