"""Front matter: the fields at the head of a Markdown file, in YAML between `---` or in TOML between `+++`.

A block is front matter only where it reads as such: fields (`key: value`), what goes on below them (indented lines, items of
lists), comments. A file that begins with a rule and prose loses nothing: it is text. Values are data alone: no tag makes an
object, an alias is not followed, and depth and size are bounded. A value that is no YAML is the text that stands there.
"""

import re
import tomllib
from typing import Any

import yaml

from wordpipe.corpus.documents import Ledger

_MOST = 1 << 16  # characters of a block
_DEEPEST = 20
_YAML = re.compile(r"\A---[ \t]*\n(?P<block>(?:(?!(?:---|\.\.\.)[ \t]*(?:\n|\Z)).*\n)*)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(?P<block>(?:(?!\+\+\+[ \t]*(?:\n|\Z)).*\n)*)\+\+\+[ \t]*(?:\n|\Z)")
_KEY = re.compile(
    r"(?P<key>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|[^\W\d][\w.@/-]{0,60}(?: [\w.@/-]{1,40}){0,2})[ \t]*:(?=[ \t]|\n|\Z)"
)
_GOES_ON = re.compile(r"[ \t]|-(?:[ \t]|\n)|[\]}]|\n")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9]\d{0,20})?\.\d{1,30}|[1-9]\d{0,20}(?=[eE]))(?:[eE][-+]?\d{1,3})?")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


def read_front_matter(text: str, ledger: Ledger) -> tuple[dict[str, Any], int]:
    """The fields at the head of a text, by name, and where the text itself begins; no fields and 0 where it has none.

    Comments, and fields that come again, are counted.
    """
    head = text[:_MOST]
    if (found := _TOML.match(head)) is not None:
        try:
            return _plain(tomllib.loads(found["block"])), found.end()
        except (ValueError, RecursionError):
            return {}, 0
    found = _YAML.match(head)
    if found is None or (chunks := _chunks(found["block"])) is None:
        return {}, 0
    fields: dict[str, Any] = {}
    for key, lines in chunks:
        if key in fields:
            ledger.add_named("front_matter_repeated", key)
            ledger.warn("front_matter", f"a field of front matter comes twice, and only the first is carried: {key}")
        else:
            fields[key] = _value(lines)
    ledger.add("front_matter_comments", found["block"].count("\n#") + found["block"].startswith("#"))
    return fields, found.end()


def _chunks(block: str) -> list[tuple[str, str]] | None:
    """Each field's name and the text of its value; None where a line is neither a field nor goes on with one."""
    chunks: list[tuple[str, list[str]]] = []
    if block.startswith("\n"):  # a rule with a blank line below it
        return None
    for line in block.splitlines(keepends=True):
        if (found := _KEY.match(line)) is not None:
            key = found["key"]
            chunks.append((key[1:-1] if key[0] in "\"'" else key, [line[found.end() :]]))
        elif line.startswith("#"):
            continue
        elif not chunks or not _GOES_ON.match(line):
            return None
        else:
            chunks[-1][1].append(line)
    return None if block and not chunks else [(key, "".join(lines)) for key, lines in chunks]


def _value(text: str) -> Any:
    """What the text of a value is in YAML; the text itself where it is none."""
    try:
        return _of_events(f"value:{text if text[:1].isspace() or not text else f' {text}'}")
    except (yaml.YAMLError, ValueError, RecursionError):
        return " ".join(text.split()) or None


def _of_events(text: str) -> Any:
    """The value of the one field of a text in YAML, built without recursion. Raises ValueError: an alias, or too deep."""
    stack: list[list[Any]] = [[]]
    kinds = ["document"]
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("an alias")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].append(_scalar(event))
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            kinds.append("list" if isinstance(event, yaml.SequenceStartEvent) else "dict")
            stack.append([])
            if len(stack) > _DEEPEST:
                raise ValueError("too deep")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            items = stack.pop()
            names = (one if isinstance(one, str) else str(one) for one in items[::2])
            made = items if kinds.pop() == "list" else dict(zip(names, items[1::2], strict=True))
            stack[-1].append(made)
    return stack[0][0]["value"]


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = str(event.value)
    if event.style is not None:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _plain(value: Any) -> Any:
    """A value of TOML as JSON has values: times as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, bool, int, float)) else value.isoformat()
