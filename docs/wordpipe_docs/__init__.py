"""The Sphinx extension of this book: generated parts, and equations without scripts.

A line `<!-- generate: NAME ARGUMENTS -->` of a page is replaced by what `generated(NAME, ARGUMENTS)` gives: the reference from
the settings classes and the commands themselves, tables from the files under benchmarks/results. So neither can be stale.
What stands between that line and `<!-- generated -->` is what it gave when it was written last, for readers of the Markdown
itself: `written` brings it up to date, and a test keeps it so.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from wordpipe_docs import figures
from wordpipe_docs.head_figures import HEAD_FIGURES
from wordpipe_docs.pair_figures import PAIR_FIGURES
from wordpipe_docs.reference import REFERENCE
from wordpipe_docs.relative_figures import RELATIVE_FIGURES
from wordpipe_docs.scale_figures import SCALE_FIGURES

MARK = re.compile(
    r"^(?P<mark><!-- generate: (?P<name>[\w-]+)(?: (?P<args>.+?))? -->)$"
    r"(?P<written>\n(?:(?!<!-- generate: ).*\n)*?<!-- generated -->$)?",
    re.MULTILINE,
)
DATA = re.compile(r"^<!-- data: (?P<name>.+?) -->$", re.MULTILINE)
FIGURES = {**figures.FIGURES, **PAIR_FIGURES, **HEAD_FIGURES, **SCALE_FIGURES, **RELATIVE_FIGURES}


def generated(name: str, args: str = "") -> str:
    """The Markdown of a generated part.

    Raises:
        KeyError: there is no such part.
    """
    return FIGURES[name]() if name in FIGURES else REFERENCE[name](*args.split(", ") if args else ())


def filled_in(page: str) -> str:
    """The Markdown of a page with its generated parts; what data a block needs is told to readers, too."""
    told = DATA.sub(r"*For this you bring* `\g<name>`:\n", page)
    return MARK.sub(lambda found: generated(found["name"], found["args"] or ""), told)


def written(page: str) -> str:
    """The Markdown of a page whose generated parts, where they stand in it, are up to date."""

    def put(found: re.Match[str]) -> str:
        if not found["written"]:
            return found[0]
        return f"{found['mark']}\n{generated(found['name'], found['args'] or '').strip()}\n<!-- generated -->"

    return MARK.sub(put, page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _fill_in)
    app.connect("html-page-context", _open_to_all, priority=900)  # after the theme
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _fill_in(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = filled_in(source[0])


def _open_to_all(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Mend what stops readers of screens: headings without a level in the list of pages, headers of tables without a text."""
    levelled = 'role="heading" aria-level="2"'
    context["furo_navigation_tree"] = context["furo_navigation_tree"].replace('role="heading"', levelled)
    context["body"] = context.get("body", "").replace('<th class="head"><p></p></th>', "<td></td>")


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def _mathml(latex: str, display: str) -> str:
    """MathML, which browsers draw by themselves: no script and no picture."""
    from latex2mathml.converter import convert

    return str(convert(latex.strip(), display=display))
