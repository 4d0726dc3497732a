"""The lines that commands read as input: arguments, files, standard input or a prompt, in bounded memory."""

import io
import json
import os
import re
import select
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from wordpipe.cli.output import escaped, say
from wordpipe.storage import url_of
from wordpipe.wording import is_unicode

if TYPE_CHECKING:
    from wordpipe.errors import ArtifactError

_LONGEST = 1 << 20  # characters of a line
_ENDLESS = 64 << 20  # characters after which a line is taken for one without an end
_ALIKE = 0.75  # of a word and the name of an index, so that it may be meant as one
_LOOKED_AT = 100  # artifacts in ./run, for the index that nobody named
_SAID = 1_000  # characters of a path in an error
_SHOWN = 60  # of a question in a hint
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # as `surrogateescape` reads it


def given_lines(words: tuple[str, ...], path: Path | None, *, what: str, option: str, quiet: bool) -> Iterator[str]:
    """Yield the input lines of a command: all words as one line, otherwise the lines of a file or of standard input.

    Blank lines of a file or a pipe come too, and an empty one for a line that is too long: answers stay in step with lines.

    Args:
        words: arguments; where there are any, even an empty one, they are all.
        path: of a file.
        what: a line is called ("prompt").
        option: which names the file ("--prompts").
        quiet: do not say that bytes were replaced.

    Raises:
        ConfigError: words and a file.
        InputError: no such file, or no line at all.
    """
    from wordpipe.errors import ConfigError, InputError

    if words and path is not None:
        raise ConfigError(f"give either {what.upper()} or {option}, not both")
    if words:
        yield _as_unicode(" ".join(words), what)
        return
    line = None
    for line in _prompted(what) if is_prompt(words, path) else _read_lines(path, quiet=quiet):
        yield line.rstrip("\r\n")
    if line is None:
        raise InputError(f"no {what} was given", hint=f"give {what.upper()}, {option} FILE, or lines on standard input")


def _as_unicode(text: str, what: str) -> str:
    """Return the text of arguments as an input line; invalid UTF-8 is replaced, with a message."""
    if not is_unicode(text):
        say(f"invalid UTF-8 in the {what} was replaced by U+FFFD")
    return text.encode(errors="surrogateescape").decode(errors="replace")


def is_prompt(words: tuple[str, ...], path: Path | None) -> bool:
    """True if the input lines are going to be typed."""
    return not words and path is None and sys.stdin is not None and sys.stdin.isatty()


def _prompted(what: str) -> Iterator[str]:
    """Yield the input lines that are typed at a prompt of `query`, `fill` and the like."""
    while True:
        try:
            if not sys.stdout.isatty():  # there the answers go
                click.echo(f"{what}> ", nl=False, err=True)
            line = input(f"{what}> " if sys.stdout.isatty() else "")
        except EOFError:
            say("")
            return
        if line.strip():
            yield _BAD_BYTE.sub("\ufffd", line)


def _read_lines(path: Path | None, *, quiet: bool) -> Iterator[str]:
    """Yield the input lines of a file or of standard input."""
    from wordpipe.errors import InputError

    if path is None and sys.stdin is None:
        return
    if path is None and hasattr(sys.stdin, "reconfigure"):
        # the mark of a file's begin is no part of a query, and a carriage return within a line ends none;
        # what has been read from is read on as it was
        with suppress(io.UnsupportedOperation):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": "\n"}
    try:
        file: TextIO
        with path.open(**how) if path else nullcontext(sys.stdin) as file:
            yield from bounded_lines(file, str(path or "standard input"), quiet=quiet)
    except (FileNotFoundError, IsADirectoryError) as error:
        what = "the file does not exist" if isinstance(error, FileNotFoundError) else "this is a folder, not a file"
        raise InputError(what, where=path) from None


def bounded_lines(file: TextIO, where: str, *, quiet: bool = False) -> Iterator[str]:
    """Yield the lines of a file in bounded memory: one of more than a million characters is named, and comes as an empty one.

    Invalid UTF-8, which the file must give as `surrogateescape` does, becomes U+FFFD; after the last line a message says in
    how many lines, unless `quiet`.

    Raises:
        InputError: a line that does not end, as /dev/zero has it; UTF-16 or UTF-32.
    """
    from wordpipe.errors import InputError

    number = n_mended = first_mended = 0
    while line := file.readline(_LONGEST):
        # bytes that are no text
        number += 1
        if number == 1:
            _refuse_wide(line, where)
        if not line.isascii() and _BAD_BYTE.search(line):
            line = line.encode(errors="surrogateescape").decode(errors="replace")
            n_mended, first_mended = n_mended + 1, first_mended or number
        if line.endswith("\n") or len(line) < _LONGEST:
            yield line
            continue
        # a line that is too long is read to its end, piece by piece
        taken = len(line)
        while (more := file.readline(_LONGEST)) and not more.endswith("\n"):
            taken += len(more)
            if taken > _ENDLESS:
                got, expected = f"more than {_ENDLESS:,} characters", "lines of text"
                raise InputError(
                    "no end of this line was found", where=f"{where}, line {number}", got=got, expected=expected
                )
        if taken + len(more.rstrip("\n")) > _LONGEST:
            say(f"skipped line {number} of {escaped(where)}, because it has more than {_LONGEST:,} characters")
            yield "\n"
        else:
            yield line + more  # which is a line end
    if n_mended and not quiet:
        lines = f"line {first_mended}" if n_mended == 1 else f"{n_mended:,} lines (the first is line {first_mended})"
        say(f"invalid UTF-8 was replaced by U+FFFD in {lines} of {escaped(where)}")


def _refuse_wide(line: str, where: str) -> None:
    """Refuse the first input line of a file in UTF-16 or UTF-32, which would come as unreadable text."""
    if "\0" not in line and not _BAD_BYTE.match(line):
        return
    from wordpipe.corpus import not_text
    from wordpipe.errors import InputError

    data = line.removesuffix("\n").encode(errors="surrogateescape")
    for head in (data, data.rstrip(b"\0")):  # the zeros may be halves of the end of the line
        if (found := not_text(head, where, is_plain=False, as_it_is=True)) is not None:
            raise InputError(
                "not UTF-8 text",
                where=where,
                got=found.kind,
                hint=f"convert the text with: iconv -f {found.kind} -t UTF-8",
            )


def together(lines: Iterable[str], words: tuple[str, ...], path: Path | None, size: int) -> Iterator[list[str]]:
    """Yield lines of `given_lines` in lists: as many as have come, at most `size`; a typed line comes alone."""
    has_more = stdin_has_more if path is None and not words else lambda: True
    return batches(lines, 1 if is_prompt(words, path) else size, has_more)


def print_unanswered(*, as_json: bool, **about: str) -> None:
    """Print the output line of an input line without an answer: an empty line, or an object with the input alone."""
    click.echo(json.dumps(about, ensure_ascii=False) if as_json else "")


def batches(lines: Iterable[str], size: int, has_more: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield lists of at most `size` input lines, of long lines fewer; none waits for a line that has not come yet.

    `has_more` is called after every line: whether the next can be had without waiting for it.
    """
    some: list[str] = []
    taken = 0
    for line in lines:
        some.append(line)
        taken += len(line)
        if len(some) == size or taken > _LONGEST or not has_more():
            yield some
            some, taken = [], 0
    if some:
        yield some


def stdin_has_more() -> bool:
    """True if the next input line of stdin can be read without waiting: a file; a pipe that has something, or has ended.

    Lines that were read ahead of the one in hand are not seen; they are answered one by one then, and nobody waits.
    """
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):
        return True
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    return bool(select.select([number], [], [], 0)[0])


def refuse_words_of_question(question: str, source: tuple[str, ...]) -> None:
    """Refuse sources that do not exist before one that does: they are most likely words of a question without quotes."""
    from wordpipe.errors import InputError

    there = [
        name == "-" or name.startswith("python:") or url_of(name) is not None or os.path.lexists(name)
        for name in source
    ]
    words = there.index(True) if True in there else 0
    if words and not any(map(has_magic, source[:words])):
        plain = " ".join("-" + one[1:] if one.startswith("−") else one for one in (question, *source[:words]))
        meant = shlex.join(["wordpipe", "search", plain, *source[words:]])
        what = "the file or folder does not exist"
        raise InputError(
            what, where=source[0].replace("−", "-", 1), hint=f"if it is a word of the question, use quotes: {meant}"
        )


def no_artifact(path: Path, text: tuple[str, ...]) -> "ArtifactError":
    """Return the error for a path where nothing is, which may be the question; its hint names the only index in ./run."""
    from wordpipe.artifacts import MANIFEST, Artifact
    from wordpipe.errors import ArtifactError, shortened
    from wordpipe.stages import index_in

    # the index that may be meant
    found: list[Path] = []
    for manifest in islice(Path("run").glob(f"*/{MANIFEST}"), _LOOKED_AT):
        with suppress(ArtifactError), Artifact(manifest.parent, ["index"], verify=False) as artifact:
            found.append(artifact.path)
    meant = [one for one in found if text and one.name == str(path)]
    with suppress(ArtifactError):
        meant = meant or [one for one in [index_in(Path("run"))] if one in found]
    index = shlex.quote(str(meant[0])) if len(meant) == 1 else None
    is_words = re.search("word|vec", path.name.lower()) and "index" not in path.name.lower()
    maker, what = ("train word2vec", "word vectors") if is_words else ("index", "an index")
    made = "" if found else f"; to make {what}: wordpipe {maker}"
    # the path is an index that is missing, or a word of the question
    is_path = (len(path.parts) > 1 and " " not in str(path)) or (
        text and str(path) in ("index", *(one.name for one in found))
    )
    words = text if is_path else (str(path), *text)
    asked = shlex.quote(shortened(" ".join(words), _SHOWN)) if words else '"your question"'
    hint = f"wordpipe query {index or 'INDEX'} {asked}{made}"
    # the hint
    if is_path and not found and Path("wordpipe.toml").is_file():
        hint = "to make the artifacts of wordpipe.toml: wordpipe run"
    elif is_path and text and not index:
        hint = f"to make {what}: wordpipe {maker}; to make all artifacts of a pipeline: wordpipe run"
    elif not (is_path and text):
        hint = f"write the index before the question: {hint}"
    return ArtifactError("the artifact does not exist", where=shortened(str(path), _SAID), hint=hint)


def refuse_missing(indexes: Sequence[Path], text: tuple[str, ...]) -> None:
    """Refuse a first word that is the path of no index, though more follow; say it of one that may be meant as a path.

    A word with a slash (TCP/IP) is a path only if its folder is there.

    Raises:
        ArtifactError: the path does not exist.
    """
    from wordpipe.errors import ArtifactError

    if len(text) < 2 or " " in text[0] or os.path.lexists(text[0]):
        return
    path = Path(text[0])
    if text[0].startswith(("/", "./", "../")) or (len(path.parts) > 1 and path.parent.is_dir()):
        asked = shlex.quote(" ".join(text[1:]))
        hint = f"if it is a word of the question, use quotes: {shlex.quote(' '.join(text))}; to leave it out: {asked}"
        raise ArtifactError("the artifact does not exist", where=path, hint=hint)
    if len(path.parts) > 1 or get_close_matches(str(path), [str(one) for one in indexes], 1, _ALIKE):
        say(f"{escaped(str(path))} is no index: it is searched for as a word of the question")


def usual_source() -> str:
    """Return the source that is searched where none is named: standard input if it is a pipe or a file, else this folder."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return "."
    return "-" if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode) else "."
