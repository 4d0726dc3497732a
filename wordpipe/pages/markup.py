"""The making of a page: its parts put together, the policy in its head, text that is only text."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from wordpipe.wording import safe_text

_LONGEST = 400  # characters of a name or a value; who wrote more knows them


def shown(text: object, most: int = _LONGEST) -> str:
    r"""Return a text as HTML markup: escaped, controls and marks of direction as escapes that can be seen.

    >>> shown("<b>" + chr(0x202E))
    '&lt;b&gt;\\u202e'
    """
    whole = safe_text(str(text)).replace("\n", " ").replace("\t", " ")
    half = most // 2
    return escape(whole if len(whole) <= most else f"{whole[:half]} … {whole[-half:]}")


def page_of(folder: str, fills: Mapping[str, str], scripts: Sequence[str] = (), *, asks: bool = False) -> bytes:
    """The page of a folder's `page.html`, UTF-8; a policy in its head lets exactly its own style and script through, by hash.

    Args:
        folder: of `wordpipe.pages`, with page.html, page.css and the scripts.
        fills: name of a place, {{name}} → HTML that is put there; `policy`, `style` and `script` are added.
        scripts: file names without .js, in their order; none: no script can run.
        asks: the script may ask the server that the page comes from.
    """
    style, script, policy = _parts_of(folder, scripts, asks=asks)
    given = {**fills, "policy": policy, "style": style, "script": script}
    # one pass, so that what is filled in is not looked at again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: given[match[1]], part(folder, "page.html")).encode()


def menu(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return the menu of the server that shows a page of a map.

    Args:
        entries: view, label and address of each; the view `map` is the page itself.
    """
    links = [
        f'<a href="{shown(to)}">{label}</a>' if view != "map" else f'<a aria-current="page">{label}</a>'
        for view, label, to in entries
    ]
    name = '<a href="../" class="name">wordpipe</a>'
    return f'<nav aria-label="Views">{name}{"".join(links)}</nav>' if entries else ""


def policy_of(folder: str, scripts: Sequence[str], *, asks: bool) -> str:
    """Return the policy in the head of a page; see `page_of`."""
    return _parts_of(folder, scripts, asks=asks)[2]


def _parts_of(folder: str, scripts: Sequence[str], *, asks: bool) -> tuple[str, str, str]:
    """Return style, script and policy of a page."""
    style = part(folder, "page.css")
    script = '"use strict";\n' + "".join(part(folder, f"{name}.js") for name in scripts)
    allowed = f"; script-src {_hash(script)}" if scripts else ""
    allowed += "; connect-src 'self'" if asks else ""
    return style, script, f"default-src 'none'; img-src data:; style-src {_hash(style)}{allowed}"


def json_for_script(value: object) -> str:
    r"""Return JSON that may stand in a script element of a page's markup: no `<`, `>` or `&`.

    >>> json_for_script(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def part(folder: str, name: str) -> str:
    """Read a file of a page's folder: HTML, CSS or JavaScript."""
    return files("wordpipe.pages").joinpath(folder, name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the name of a script or a style in a content security policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
