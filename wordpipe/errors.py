"""Every error that wordpipe raises on purpose, on one page.

An error says what happened, where, what was found, what was expected and what to do next. Families follow the user's
next step, and each owns the exit code that the command line returns:

    WordpipeError
    ├── NothingFound      1   a query has no answer: ask for something else
    ├── ConfigError       2   a setting, flag or config file is wrong: change it
    ├── InputError        3   the text is missing, empty or of the wrong kind: give other input
    ├── ArtifactError     4   an artifact is missing, corrupt or does not match the others: make it again
    ├── StorageError      5   the disk refused: free some space, change permissions
    ├── BudgetError       6   more memory than allowed: raise the budget or lower a setting
    ├── LockedError       7   another run writes the same output: wait
    ├── PeerError         8   another process of the same work failed: its own message says why
    └── DivergedError     9   the loss is not a finite number: lower the learning rate

A query without an answer is no error of anybody: as with grep, 1 says that nothing was found, and what is larger says that
something is wrong. A bug of ours, which shows as a traceback, has exit code 70.
"""

import re
from pathlib import Path

BUG = 70  # EX_SOFTWARE of sysexits.h
_MAX_LINE = 60  # characters of a wrong line that are shown
_MAX_PART = 200  # characters of a place or a value; a longer one is cut in the middle
_MAX_WHAT = 600
_MAX_JSON = 4_096  # characters of a part for a program: a whole path
_BEFORE_URL = re.compile(r"^(?:.*/)?s3:/+(?=[^/])", re.S)
_URL_IN_TEXT = re.compile(r"(?<![\w/.])(?:[^\s'\"]*/)?s3:/+(?=[^/\s])")
# a name that holds control characters forges no second message and drives no terminal
_ONE_LINE = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0))}


EXTRAS = {"torch": "train", "gensim": "train"}
"""Library that only some commands need → the extra of wordpipe that installs the library."""


class WordpipeError(Exception):
    """Base of all errors that are shown to the user as one message, without a traceback.

    Args:
        what: what happened, one sentence without a full stop.
        where: the file, folder, line or setting concerned.
        got: the value found.
        expected: what would have been right.
        hint: the next step, best a command to run; None: the usual one of the class, if there is one.
    """

    exit_code = BUG
    usual_hint: str | None = None

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        got: object = None,
        expected: object = None,
        hint: str | None = None,
    ) -> None:
        self.what = shown_urls(what)
        self.where = None if where is None else _BEFORE_URL.sub("s3://", str(where))
        self.got = shown_urls(got) if isinstance(got, str) else got
        self.expected = expected
        hint = self.usual_hint if hint is None else hint
        self.hint = shown_urls(hint) if hint else None
        super().__init__(self.message)

    def __str__(self) -> str:
        """Return the message, and the hint on a line of its own: what a traceback and `print` show."""
        return self.message + (f"\n  hint: {self.hint.translate(_ONE_LINE)}" if self.hint else "")

    @property
    def message(self) -> str:
        """Return the message without the hint, on one line; long values are shown without their middle."""
        what = shortened(self.what, _MAX_WHAT)
        parts = [what if self.where is None else f"{shortened(self.where, _MAX_PART)}: {what}"]
        if self.got is not None:
            parts.append(f"got {shortened(str(self.got), _MAX_PART)}")
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        return "; ".join(parts).translate(_ONE_LINE)

    @property
    def kind(self) -> str:
        """Return the family in a word ("config", "input")."""
        return type(self).__name__.removesuffix("Error").lower()

    def to_json(self) -> dict[str, dict[str, str | int | None]]:
        """Return the error for programs: {"error": {"code", "kind", "what", "where", "got", "expected", "hint"}}."""
        parts = {name: getattr(self, name) for name in ("what", "where", "got", "expected", "hint")}
        texts = {name: None if part is None else shortened(str(part), _MAX_JSON) for name, part in parts.items()}
        return {"error": {"code": self.exit_code, "kind": self.kind, **texts}}


class NothingFound(WordpipeError):  # noqa: N818  (no error: an answer that is empty)
    """Nothing was found: no query has an answer."""

    exit_code = 1

    @property
    def kind(self) -> str:
        """Return the family in a word, "nothing"."""
        return "nothing"


class ConfigError(WordpipeError):
    """A setting, an argument or a config file is wrong."""

    exit_code = 2


class UsageError(ConfigError):
    """The command line cannot be parsed."""


def missing_library(error: ImportError) -> ConfigError | None:
    """Return the error of a library that is not installed, with the command that installs it; None: it is a bug of ours."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRAS or not isinstance(error, ModuleNotFoundError):
        return None
    hint = f"pip install 'wordpipe[{EXTRAS[library]}]'"
    return ConfigError(f"this needs {library}, which is not installed", hint=hint)


class InputError(WordpipeError):
    """The input text is missing, empty, binary or malformed."""

    exit_code = 3


class UnknownWordError(InputError, KeyError):
    """A word that has no vector."""


class ArtifactError(WordpipeError):
    """An artifact is missing, incomplete, corrupt, of another kind, or does not match the others."""

    exit_code = 4


class DamageError(ArtifactError):
    """A file of an artifact is damaged, missing or not from wordpipe: only making the artifact again helps."""

    usual_hint = "make the artifact again"

    @property
    def kind(self) -> str:
        """Return the word of its family, "artifact"."""
        return "artifact"


class StorageError(WordpipeError):
    """Reading or writing failed: disk full, no permission, too many open files."""

    exit_code = 5


class BudgetError(WordpipeError):
    """The work needs more memory than it was given."""

    exit_code = 6


class LockedError(WordpipeError):
    """Another process is writing the same output."""

    exit_code = 7


class PeerError(WordpipeError):
    """Another process of the same work failed."""

    exit_code = 8


class DivergedError(WordpipeError):
    """Training or embedding produced numbers that are not finite."""

    exit_code = 9


class WordpipeWarning(UserWarning):
    """A warning of a call from Python: something was left out, changed, or will not work as meant."""


def shown_urls(text: str) -> str:
    """Return a text with URLs of objects in the place of the paths that `wordpipe.storage` makes of URLs.

    >>> shown_urls("no such artifact: s3:/bucket/run")
    'no such artifact: s3://bucket/run'
    """
    return _URL_IN_TEXT.sub("s3://", text) if "s3:" in text else text


def shortened(text: str, room: int) -> str:
    """Return the text in at most `room` characters: of a longer one its beginning and its end.

    >>> shortened("a/very/long/name.txt", 9)
    'a/ve….txt'
    """
    half = (room - 1) // 2
    return text if len(text) <= room else f"{text[:half]}…{text[len(text) - (room - 1 - half) :]}"


def wrong_line(where: str, line: str, expected: str) -> InputError:
    """Return the error for a line of a wrong form; `where` names the file and the line number."""
    shown = line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"
    return InputError("this line has the wrong form", where=where, got=repr(shown), expected=expected)
