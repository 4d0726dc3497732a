"""How Sphinx builds this book: `make docs`. Nothing is fetched, neither when it is built nor when it is read."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import wordpipe

project = "wordpipe"
author = "the wordpipe authors"
copyright = "the wordpipe authors, MIT licence"  # noqa: A001  (Sphinx's name)
release = wordpipe.__version__

extensions = ["myst_parser", "wordpipe_docs"]
myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
smartquotes = False  # they make one dash of the two of an option

html_theme = "furo"
# paper, ink and type as on the page of `serve`
_TYPE = {
    "font-stack": 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif',
    "font-stack--monospace": 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace',
    "font-stack--headings": '"Iowan Old Style", "Palatino Linotype", Palatino, "EB Garamond", Georgia, serif',
}


def _colours(paper: str, ink: str, soft: str, line: str, raised: str, mark: str) -> dict[str, str]:
    backgrounds = dict.fromkeys(
        ("background-secondary", "sidebar-background", "code-background", "inline-code-background"), raised
    )
    found = {
        "background-primary": paper,
        "foreground-primary": ink,
        "code-foreground": ink,
        "foreground-secondary": soft,
    }
    found |= {"foreground-muted": soft, "background-border": line, "brand-primary": mark, "brand-content": mark}
    found |= {"brand-visited": mark, **backgrounds}
    return {f"color-{name}": value for name, value in found.items()}


html_theme_options = {
    "light_css_variables": _TYPE | _colours("#fffff8", "#1c1b19", "#625f59", "#dcd9cd", "#f6f4ea", "#0b4fa8"),
    "dark_css_variables": _colours("#15161a", "#ecebe6", "#a3a19a", "#33343a", "#1e1f25", "#8ec1ff"),
}
html_title = "wordpipe"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static", *(f"{path}/fonts" for path in find_spec("ziamath").submodule_search_locations)]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
pygments_style = "xcode"
pygments_dark_style = "monokai"
