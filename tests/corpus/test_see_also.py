"""Names in the "See Also" of docstrings."""

import textwrap

import pytest

from wordpipe.corpus import see_also_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("See Also\n--------\na.b : text, with c\nd, e\n", ["a.b", "d", "e"]),
        ("See Also\n--------\na :\n    b : deeper is description\n\nNotes\n-----\nc : no\n", ["a"]),
        ("See Also\n--------\n:func:`x.y`, `z`, ~q, w()\n", ["x.y", "z", "q", "w"]),
        ("See Also\n--------\nsome words without a name\n", []),
        ("See Also\nnot underlined : no\n", []),
        (
            ".. seealso:: :func:`t.add` or :meth:`~t.Tensor.add_`\n   :class:`Deep`\n:func:`no`",
            ["t.add", "t.Tensor.add_", "Deep"],
        ),
        (".. seealso::\n\n    :func:`a` text\n\n    :func:`b`\n\nArgs:\n    :func:`c`", ["a", "b"]),
        ("nothing at all", []),
        ("", []),
        ("See Also", []),
    ],
)
def test_names(text, names):
    assert see_also_names(text) == names
    indented = textwrap.indent(text, "    ")
    assert see_also_names(indented) == names
