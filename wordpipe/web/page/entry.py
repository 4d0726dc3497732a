"""The entry of the page: HTML that says all without a script, and the files that make it quick to use.

`home` draws a view for the parameters of the URL; scripts in `files/` then answer as one types, with the same parameters in
the URL, so that every view can be linked to. Nothing in the page is a script, a handler or a style: the policy of the server
lets none run. All text that comes from a corpus is escaped here, and is text alone (`textContent`) there.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from wordpipe.web.page.parts import tag
from wordpipe.web.page.search_view import search_view
from wordpipe.web.page.views import about_view, frame, model_view, words_view

Ask = Callable[[str, Mapping[str, str]], Awaitable[tuple[int, Any]]]
"""One of the server's GET endpoints: path and parameters → status and decoded JSON."""

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_VIEWS = {"search": search_view, "words": words_view, "model": model_view, "about": about_view}
_NEEDS = {
    "search": {"search"},
    "words": {"neighbours"},
    "model": {"fill", "complete", "predict", "attend"},
    "about": set[str](),
}


async def home(params: Mapping[str, str], ask: Ask) -> str:
    """The HTML of `/`.

    Args:
        params: of the URL: `tab` (search, words, model, about), and what the view of that tab takes; unknown ones say nothing.
        ask: gives the JSON of the endpoints.
    """
    status, about = await ask("/about", {})
    if status != 200:
        return frame("about", [], tag("p", "The server cannot say what it serves.", role="alert"))
    able = [tab for tab, needed in _NEEDS.items() if not needed or needed & _abilities(about)]
    wanted = params.get("tab", able[0])
    tab = wanted if wanted in able else able[0]
    view = await _VIEWS[tab](params, ask, about)
    return frame(tab, able, view, version=about["version"], index=params.get("index"))


def static(name: str) -> tuple[bytes, str] | None:
    """The content and the media type of `/static/NAME`; None where there is no such file."""
    return _files().get(name)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    folder = files("wordpipe.web.page").joinpath("files")
    found = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    return {
        name: (data, _TYPES[ending]) for name, data in found.items() if (ending := "." + name.rsplit(".")[-1]) in _TYPES
    }


def _abilities(about: Mapping[str, Any]) -> set[str]:
    """What the artifacts can; an index over texts is searched, words are looked at in a tab of their own."""
    found = {ability for one in about["artifacts"] for ability in one["can"]}
    searched = any("similar" in one["can"] for one in about["artifacts"])
    return found if searched else found - {"search"}
