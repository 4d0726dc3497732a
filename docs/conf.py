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
html_title = "wordpipe"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static", *(f"{path}/fonts" for path in find_spec("ziamath").submodule_search_locations)]
html_css_files = ["book.css"]
pygments_style = "friendly"
pygments_dark_style = "monokai"
