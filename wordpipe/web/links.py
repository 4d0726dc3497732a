"""The address of a row in another place, made of a template such as `https://notes.example.org/{id}` (`serve --link`).

Braces hold the name of a field. Its value is percent-encoded, with `/` as `%2F`; `{+NAME}` keeps the `/` of a path. The scheme
is written in the template, so no value can choose it. A row without a value of each field has no link.

Source: RFC 6570, simple expansion `{var}`; of reserved expansion, `{+var}`, only `/` is kept.
"""

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from wordpipe.errors import ConfigError
from wordpipe.stages import OpenTextIndex
from wordpipe.web.served_artifacts import ServedArtifacts
from wordpipe.web.settings import LINK_FIELD, ServeSettings


def text_url(row: Mapping[str, Any], index: str, asked: str = "", root: str = "./", **more: Any) -> str:
    """Return the address of the page of a row: by the id of its record, which stays when the index is made again, and its row.

    >>> text_url({"id": "a/b", "row": 3}, "notes", "salt")
    './text/a%2Fb?row=3&index=notes&q=salt'
    """
    own = str(row.get("id") or "")
    name = (
        "" if own in (".", "..") else quote(own.encode("utf-8", "replace"), safe="")
    )  # browsers take dots for folders
    given = {"row": str(row["row"]), "index": index, "q": asked, **more}
    kept = {key: value for key, value in given.items() if value not in (None, "", [], False)}
    return f"{root}text/{name}?{urlencode(kept, errors='replace')}"


def page_address(seen: str, scheme: str, host: str) -> str:
    """Return the address from which those of texts go on: as the client sees the page, if its host is the one that was asked.

    A proxy may speak HTTPS, and have the server below a path.

    >>> page_address("https://x.org/notes/?q=1", "http", "x.org"), page_address("https://y.org/", "http", "x.org")
    ('https://x.org/notes/', 'http://x.org/')
    """
    try:
        parts = urlsplit(seen)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower():
        return f"{parts.scheme}://{host}{quote(parts.path.rpartition('/')[0], safe='/%')}/"
    return f"{scheme}://{host}/"


def add_links(rows: Iterable[MutableMapping[str, Any]], template: str) -> None:
    """Add `link` to each row that has a value of each field of a template; an empty template adds nothing."""
    for row in rows if template else ():
        if (link := _link_of(row, template)) is not None:
            row["link"] = link


def _link_of(row: Mapping[str, Any], template: str) -> str | None:
    """Return the link to a row, which has the fields of a record in `metadata`; None if a field has no value.

    >>> row = {"id": "a/b", "metadata": {"file": "one two/x.md"}}
    >>> _link_of(row, "https://notes.example.org/{+file}?id={id}")
    'https://notes.example.org/one%20two/x.md?id=a%2Fb'
    """
    known = {**row, **(row.get("metadata") or {})}
    values = {name: _text(known.get(name)) for _, name in LINK_FIELD.findall(template)}
    if not all(values.values()):
        return None

    def encoded(found: re.Match[str]) -> str:
        return quote(values[found[2]].encode("utf-8", "replace"), safe="/" if found[1] else "")

    return LINK_FIELD.sub(encoded, template)


def _text(value: Any) -> str:
    """Return a field's value as a text for a link; empty for no value, lists and objects."""
    if value is None or isinstance(value, list | tuple | dict):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_fields(artifacts: ServedArtifacts, settings: ServeSettings) -> None:
    """Check that an index has each field that `link` and `show` name. Raises ConfigError: no index has the field."""
    opened = [one.current.opened for one in artifacts.by_name.values()]
    known = {name: None for one in opened if isinstance(one, OpenTextIndex) for name in one.columns.schema.names}
    wanted = {"link": [name for _, name in LINK_FIELD.findall(settings.link)], "show": settings.show}
    for option, names in wanted.items():
        for name in names:
            if name not in known:
                raise ConfigError(
                    "no index has a field of this name", where=f"--{option}", got=name,
                    expected=f"one of {', '.join(known)}" if known else "an index over texts",
                )  # fmt: skip
