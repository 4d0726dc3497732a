"""Markdown, HTML and reStructuredText as sections: titles, texts, anchors and lines; nothing in them breaks or hangs."""

import random
import time
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import read as golden_read
from wordpipe.corpus import Ingest, Ledger, expand, section_records
from wordpipe.corpus.readers import html_pages, markdown, rst
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

MARKUPS = {module.MARKUP.name: module.MARKUP for module in (markdown, html_pages, rst)}
FORMATS = tuple(MARKUPS)
SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))]


def records(text, form, ledger=None, *, documents="section", max_bytes=1 << 24):
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1)]
    numbered = [(number, f"{line}\n") for number, line in lines]
    ledger = Ledger() if ledger is None else ledger
    return list(
        section_records(
            numbered, MARKUPS[form], source="x", documents=documents, max_bytes=max_bytes, ledger=ledger
        )
    )  # fmt: skip


def shown(text, form, **options):
    """Titles and texts."""
    return [(record.title, record.text) for record in records(text, form, **options)]


def line_of(record, part):
    return list(record.lines_from(0, record.line, [record.text[: record.text.index(part)]]))[-1]


# One document in three markups. Words are letters alone, so that no markup has a meaning for them.

WORDS = ["queue", "limit", "rises", "over", "night", "harbour", "Zürich", "schön", "while", "stones"]


def drawn_document(rng):
    """Level, title and blocks of each section; a block is a paragraph (its lines), a list (its items) or code (its lines)."""
    sections, level = [], 1
    for number in range(rng.randint(1, 7)):
        level = 1 if number == 0 else min(rng.randint(2, level + 1), 4)
        blocks = []
        for _ in range(rng.randint(0, 4)):
            lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(rng.randint(1, 3))]
            blocks.append((rng.choice(["paragraph", "list", "code"]), lines))
        # two lists one after the other are one in Markdown
        blocks = [b for at, b in enumerate(blocks) if at == 0 or blocks[at - 1][0] == "paragraph"]
        sections.append((level, f"{rng.choice(WORDS)} {number}", blocks))
    return sections


def as_md(level, title, blocks):
    lines = ["#" * level + " " + title, ""]
    for kind, body in blocks:
        lines += {"paragraph": body, "list": [f"* {x}" for x in body], "code": ["```", *body, "```"]}[kind] + [""]
    return lines


def as_html(level, title, blocks):
    lines = [f'<h{level} id="s">{escape(title)}</h{level}>']
    for kind, body in blocks:
        wrapped = {"paragraph": ["<p>", *body, "</p>"], "list": ["<ul>", *(f"<li>{x}</li>" for x in body), "</ul>"]}
        lines += wrapped.get(kind) or [f"<pre>{body[0]}", *body[1:], "</pre>"]
    return lines


def as_rst(level, title, blocks):
    lines = [title, "=-~^"[level - 1] * len(title), ""]
    for kind, body in blocks:
        said = {"paragraph": body, "list": [f"* {x}" for x in body], "code": ["::", "", *(f"   {x}" for x in body)]}
        lines += [*said[kind], ""]
    return lines


WRITERS = {"md": as_md, "html": as_html, "rst": as_rst}


def expected_of(sections):
    """The slow twin: title and text of each section that has any."""
    found, path = [], []
    for level, title, blocks in sections:
        path = [*(one for one in path if one[0] < level), (level, title)]
        text = ""
        for kind, body in blocks:
            gap = "\n" if kind == "list" else "\n\n"
            block = (
                " ".join(body) if kind == "paragraph" else "\n".join(f"- {x}" if kind == "list" else x for x in body)
            )
            text += (gap if text else "") + block
        if text:
            found.append((" › ".join(name for _, name in path), text))
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_one_document_in_three_markups_gives_the_same_titles_and_texts(form, seed):
    sections = drawn_document(random.Random(seed))
    text = "\n".join(line for section in sections for line in WRITERS[form](*section))
    assert shown(text, form) == expected_of(sections)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_word_is_on_the_line_that_it_is_said_to_be_on(form, seed):
    numbers = iter(range(10_000))
    sections = [
        (level, title, [(kind, [f"word{next(numbers)} {line}" for line in body]) for kind, body in blocks])
        for level, title, blocks in drawn_document(random.Random(seed))
    ]
    lines = [line for section in sections for line in WRITERS[form](*section)]
    found = records("\n".join(lines), form)
    for _, _, blocks in sections:
        for word in (line.split()[0] for _, body in blocks for line in body):
            where = next(
                at for at, line in enumerate(lines, start=1) if word in line.replace("<", " ").replace(">", " ").split()
            )
            (record,) = (one for one in found if word in one.text.split())
            place = record.text.split().index(word)
            # up to and with the word: the text behind it is in its line
            assert line_of_word(record, word) == where, (place, word)


def line_of_word(record, word):
    at = next(
        at
        for at in range(len(record.text))
        if record.text.startswith(word, at) and not record.text[at + len(word) :][:1].isdigit()
    )
    return list(record.lines_from(0, record.line, [record.text[:at]]))[-1]


# Markdown


def test_markdown_loses_its_marks_and_keeps_its_words():
    text = """---
title: "The *handbook*"
tags: [a]
---
# Queues

A [link](http://x.y "t") and *emphasis*, **strong**, `code`, ~~gone~~ <!-- secret -->and ![a picture](p.png).
<!-- a
comment -->

| Name | Means |
|------|-------|
| `n`  | how many |

1. one
2. two

   more of two
> [!NOTE]
> Read this.
"""
    ((title, body),) = shown(text, "md")
    assert title == "The *handbook* › Queues"
    assert body == (
        "A link and emphasis, strong, code, gone and a picture.\n\nName | Means\n\nName: n; Means: how many\n"
        "1. one\n2. two\n\nmore of two\n\nNote: Read this."
    )
    (record,) = records(text, "md")
    assert [line_of(record, part) for part in ("A link", "Name", "Name: n", "1.", "more", "Read")] == [
        7,
        11,
        13,
        15,
        18,
        20,
    ]


def test_a_footnote_follows_the_block_that_refers_to_it_and_keeps_its_line():
    body = "# A\n\nwet[^1] and [^b] but [^none]\n\n- item[^B]\n\n# B\n\n"
    text = f"{body}[^x]: free\n[^b]: one *more*[^1]\n\n    two\n[^1]: first[^b]\n"
    found = records(text, "md")
    assert [(one.title, one.text) for one in found] == [
        ("A", "wet[1] and [b] but [^none]\n\n[1] first[b]\n\n[b] one more[1]\n\ntwo\n- item[B]"),
        ("B", "[x] free"),
    ]
    assert [line_of(found[0], part) for part in ("wet", "[1] first", "[b] one", "two", "item")] == [3, 13, 10, 12, 5]
    # in a circle, and of a note that came before
    assert shown("[^a]: x[^b]\n[^b]: y[^a]\n[^a]: z\n", "md") == [(None, "[a] z\n\n[a] x[b]\n\n[b] y[a]")]


def test_a_row_that_begins_with_an_empty_cell_is_a_line_of_its_own():
    assert shown("words\n\n| | b |\n|---|---|\n| y | |\n| | x |\n", "md") == [(None, "words\n\nb\n\ny\n\nb: x")]
    table = "<table><tr><td></td><td>x</td></tr><tr><td>y<td><td>z</table>"
    assert shown(f"words{table}", "html") == [(None, "words\n\nx\n\ny | z")]


def test_only_two_tildes_strike_through():
    assert shown("version 1.0~rc1~2 is ~small~ and ~~gone~~ ~~~not~~~\n", "md") == [
        (None, "version 1.0~rc1~2 is ~small~ and gone ~~~not~~~")
    ]


FORMULAS = [
    (r"so $\sin\!x_1 * b *$ and *c*", r"so $\sin\!x_1 * b *$ and c"),
    (r"$~a~\,b$ &amp; \(x_1\,\) ~c~", r"$~a~\,b$ & \(x_1\,\) ~c~"),
    ("$$\n\\int_0^1 f\\!(x)\\\\, *a*\n$$", "$$ \\int_0^1 f\\!(x)\\\\, *a* $$"),
    ("> so \\[ a = b\\,\n> c \\] end", "so \\[ a = b\\, c \\] end"),
    (r"costs $5\! and $10\!, or \$1\! and $2\!", r"costs $5! and $10!, or $1! and $2!"),
    (r"`$HOME` and \*`$PATH`\*", r"$HOME and *$PATH*"),
    (r"\[draft\] and \(x\)", r"[draft] and (x)"),
    ("- x $y\\!\n- z$ \\!", "- x $y!\n- z$ !"),
]


@pytest.mark.parametrize(("written", "text"), FORMULAS)
def test_a_formula_in_markdown_stays_as_it_is_written(written, text):
    assert shown(written, "md") == [(None, text)]
    mixed = f"# {FORMULAS[0][0]}\n\n{written}\n\n```\n{written}\n```\n"
    assert shown(mixed, "md") == [(FORMULAS[0][1], f"{text}\n\n{written}")]


def test_items_of_a_list_without_blank_lines_hold_paragraphs_and_code():
    text = "- one *a*\n  ```\n  code\n  ```\n  two\n  - inner\n- > said\n\nend\n"
    (record,) = records(text, "md")
    assert record.text == "- one a\n\ncode\n\ntwo\n  - inner\n- said\n\nend"
    assert [line_of(record, part) for part in ("one", "code", "two", "inner", "said", "end")] == [1, 3, 5, 6, 7, 9]


def test_a_paragraph_as_long_as_a_book_loses_its_marks():
    ((_, body),) = shown("[a][a] *b* " * 50_000 + "\n\n[a]: x\n", "md")
    assert body == "a b " * 49_999 + "a b"


def test_anchors_of_markdown_are_those_of_github():
    text = "# What's *new* in `2.0`?\na\n## Über uns\nb\n## Über uns\nc\n## Über uns-1\nd\n## x_y & z {#own}\ne\n## 日本\nf"
    anchors = [record.own.get("anchor") for record in records(text, "md")]
    assert anchors == ["whats-new-in-20", "über-uns", "über-uns-1", "über-uns-1-1", "own", "日本"]


def test_html_inside_markdown_is_read_as_html():
    text = (
        '<h1 align="center">Tool</h1>\n<p align="center">It <b>works</b>.</p>\n\n<details><summary>More</summary>\n\n'
        "Hidden *words*\n\n</details>\n"
    )
    assert shown(text, "md") == [("Tool", "It works.\n\nMore\n\nHidden words")]


def test_text_without_a_heading_has_no_title_and_a_heading_without_text_is_counted():
    ledger = Ledger()
    assert shown("before\n\n# A\n## B\n## C\nc\n", "md", ledger=ledger) == [(None, "before"), ("A › C", "c")]
    assert ledger["headings_without_text"] == 2


# HTML


def test_html_leaves_out_what_is_no_content_and_counts_it():
    text = """<html><head><title>Queues — Handbook</title><style>p{}</style><script>x = "<h1>no</h1>"</script></head><body>
<nav><a href=/>Home</a></nav><div role="navigation">Next</div><header><h1>Queues<a href="#q">¶</a></h1></header>
<p>One&nbsp;&amp; two<br>three <!-- no -->four</p><template><p>no</p></template>
<aside><a href=x>other</a> <a href=y>pages</a></aside><aside>A remark that is prose, with <a href=z>one</a> link.</aside>
<table><tr><th>A<th>B<tr><td>1<td><p>2</table>
<section id="sub"><h2>Sub</h2><dl><dt>term<dd>meaning</dl><ol start=3><li>x<li><p>y</ol><footer>kept</footer></section>
<pre>
  a
    b
</pre>
<footer>Copyright</footer></body></html>"""
    ledger = Ledger()
    found = records(text, "html", ledger)
    assert [(one.title, one.own.get("anchor")) for one in found] == [
        ("Handbook › Queues", None),
        ("Handbook › Queues › Sub", "sub"),
    ]
    assert found[0].text == ("One & two\nthree four\n\nA remark that is prose, with one link.\n\nA | B\n\nA: 1; B: 2")
    assert found[1].text == "term\n\nmeaning\n3. x\n4. y\n\nkept\n\n  a\n    b"
    assert ledger["html_navigation_left_out"] == 4  # nav, role, the aside of links, the footer
    assert [line_of(found[0], part) for part in ("One", "A remark", "A: 1")] == [3, 4, 5]
    assert [line_of(found[1], part) for part in ("term", "  a", "    b")] == [6, 8, 9]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ('<h2 id="a">T</h2>', "a"), ('<h2><a name="b"></a>T</h2>', "b"), ('<div id="c"><h2>T</h2></div>', "c"),
        ('<a id="d"></a><h2>T</h2>', "d"), ('<div id="e">words</div><h2>T</h2>', None), ("<h2>T</h2>", None),
        (f'<h2 id="{"x" * 600}">T</h2>', None),
    ],
)  # fmt: skip
def test_the_anchor_of_an_html_heading(heading, anchor):
    assert records(f"{heading}<p>text</p>", "html")[-1].own.get("anchor") == anchor


def test_a_heading_without_id_has_that_of_its_section_once_and_no_button_is_in_it():
    page = """<section id="one"><span>Source</span><h2>First<button id="copy">Copy</button></h2><p>a<h3>Second</h3>
<p>b</section>
<article><h2>Third</h2><p>c</article>"""
    found = [(one.title, one.own.get("anchor")) for one in records(page, "html")]
    assert found == [(None, None), ("First", "one"), ("First › Second", None), ("Third", None)]


def test_a_field_at_the_head_of_rst_is_the_title_of_the_document():
    assert shown(":title: The guide\n:author: X\n\nBefore.\n\nA\n-\n\ntext\n", "rst") == [
        ("The guide", "author: X\n\nBefore."), ("The guide › A", "text"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["iso-8859-1", "windows-1251", "shift_jis", "koi8-r"])
def test_a_page_is_decoded_by_the_encoding_that_it_names(name):
    words = {"iso-8859-1": "Café – naïve", "windows-1251": "Привет", "shift_jis": "日本語", "koi8-r": "Привет"}[name]
    page = f'<meta http-equiv=x content="text/html; charset={name}"><p>{words}'.encode(
        "cp1252" if "8859" in name else name
    )
    ledger = Ledger()
    blocks = (page[at : at + 7] for at in range(0, len(page), 7))
    text = b"".join(html_pages.to_utf8(blocks, name="x", bad_bytes="replace", ledger=ledger)).decode()
    assert words in text
    assert sum(ledger.named("files_decoded_from").values()) == 1


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "nonsense", "hex", "rot13", "utf-16", "idna\x00", "unicode_escape "])
def test_other_names_leave_the_bytes_as_they_are_or_decode_them(name):
    page = b"<meta charset=" + name.encode() + b"><p>caf\xc3\xa9"
    assert b"caf" in b"".join(html_pages.to_utf8(iter([page]), name="x", bad_bytes="replace", ledger=Ledger()))


def test_bytes_that_the_encoding_does_not_have_follow_the_policy():
    page = b"<meta charset=shift_jis><p>a\x81\xffb"
    ledger = Ledger()
    assert "\ufffd".encode() in b"".join(html_pages.to_utf8(iter([page]), name="x", bad_bytes="replace", ledger=ledger))
    assert ledger["bytes_replaced"] == 1
    with pytest.raises(InputError, match="cp932"):
        list(html_pages.to_utf8(iter([page]), name="x", bad_bytes="fail", ledger=Ledger()))


# reStructuredText


def test_rst_keeps_the_text_of_roles_and_directives_that_docutils_does_not_know():
    text = """
Guide
=====

.. toctree::
   :maxdepth: 2

   a

See :func:`~numpy.linalg.eigh`, :ref:`the list <list>` and |rel|; `x <http://y>`_.

.. |rel| replace:: 3.4

.. py:function:: f(*args)
   :noindex:

   Does *it*.

.. note:: Mind
   this.

.. versionadded:: 3.2
   A thing.

.. code-block:: python
   :linenos:

   x = 1

.. include:: /etc/passwd
.. raw:: html

   <b>no</b>
"""
    ledger = Ledger()
    ((title, body),) = shown(text, "rst", ledger=ledger)
    assert title == "Guide"
    assert body == (
        "See eigh, the list and 3.4; x.\n\nf(*args)\n\nDoes it.\n\nNote: Mind this.\n\nNew in version 3.2: A thing.\n\nx = 1"
    )
    assert ledger["rst_directives_left_out"] == 3
    (record,) = records(text, "rst")
    assert [line_of(record, part) for part in ("See", "f(", "Does", "Note", "x = 1")] == [10, 14, 17, 19, 28]


def test_rst_reads_no_file_and_says_nothing(capfd, tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "docutils.conf").write_text("[general]\nfile_insertion_enabled: yes\nraw_enabled: yes\n")
    monkeypatch.chdir(tmp_path)
    text = ".. include:: secret.txt\n.. csv-table::\n   :file: secret.txt\n.. literalinclude:: secret.txt\n.. bad\nT\n-\n:x:`y"
    assert "SECRET" not in str(shown(text, "rst"))
    assert capfd.readouterr() == ("", "")


def test_a_document_in_rst_makes_the_next_one_no_slower():
    for number in range(3):
        assert shown(f"See http://x.y/a_b or <a@b.c>, {number}.\n", "rst") == [
            (None, f"See http://x.y/a_b or <a@b.c>, {number}.")
        ]
    _, words = rst._machine()
    assert words.implicit_dispatch == []  # to which docutils adds at each document, and searches for all that is there


def test_reading_rst_leaves_docutils_as_it_was():
    from docutils.core import publish_string

    shown(".. role:: own\n\n:own:`x` :func:`y`\n\n* a\n\n  * b\n\n.. autofunction:: z\n", "rst")
    made = publish_string(
        ":own:`x`\n\n* a\n\n  .. autofunction:: z\n", writer="pseudoxml",
        settings_overrides={"report_level": 5, "halt_level": 5, "_disable_config": True},
    ).decode()  # fmt: skip
    assert ":own:`x`" in made  # no role of that name is known to docutils
    assert "z" not in made  # nor such a directive


# all of them


@pytest.mark.parametrize("form", FORMATS)
def test_the_whole_file_is_one_document_whose_headings_are_text(form):
    text = "\n".join(line for section in [(1, "Top", [("paragraph", ["a", "b"])]), (2, "Sub", [("list", ["c"])])]
                     for line in WRITERS[form](*section))  # fmt: skip
    (record,) = records(text, form, documents="file")
    assert (record.title, record.text) == ("Top", "a b\n\nSub\n\n- c")
    assert line_of_word(record, "c") == next(
        at for at, line in enumerate(text.split("\n"), start=1) if "c" in line and "pre" not in line
    )


@pytest.mark.parametrize("form", FORMATS)
def test_blocks_and_lines_have_the_title_of_their_section(form):
    text = "\n".join(WRITERS[form](1, "Top", [("paragraph", ["a", "b"]), ("paragraph", ["c"]), ("list", ["d", "e"])]))
    assert shown(text, form, documents="block") == [("Top", "a b"), ("Top", "c\n- d\n- e")]
    lines = records(text, form, documents="line")
    assert [one.text for one in lines] == ["a b", "c", "- d", "- e"]
    assert [one.line for one in lines] == [line_of_word(records(text, form)[0], word) for word in "acde"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_long_source_is_read_in_parts_and_loses_nothing(form):
    sections = [(2 if at else 1, f"title {at}", [("paragraph", [f"words{at} of it"])]) for at in range(400)]
    text = "\n".join(line for section in sections for line in WRITERS[form](*section))
    ledger = Ledger()
    found = records(text, form, ledger, max_bytes=2048)
    assert ledger["files_parsed_in_parts"] == 1
    words = [word for one in found for word in one.text.split() if word.startswith("words")]
    assert words == [f"words{at}" for at in range(400)]
    for one in found:
        word = next(word for word in one.text.split() if word.startswith("words"))
        assert f"{word} of it" in text.split("\n")[line_of_word(one, word) - 1]
    if form != "rst":  # whose levels begin anew
        assert [one.title for one in found][1:] == [f"title 0 › title {at}" for at in range(1, 400)]


N = 20_000
HOSTILE = {
    "md": [
        "[" * N,
        "[a][" * N,
        "![" * N,
        "*a " * N,
        "**a" * N,
        "> " * N,
        "- " * 2000,
        "`" * N,
        "<" * N,
        "<!--" * N,
        "#\n" * N,
        "# a\n" * N,
        "|a" * 500 + "\n" + "|-" * 500 + "\n" + "|b\n" * 500,
        "[a]: <\n" * N,
        "```\n" * N,
        "---\n" * N,
        "&#x0;" * N,
        "\0" * N,
    ],
    "html": [
        "<div>" * 100_000,
        "<b><div></b>" * N,
        "<span><div></span>" * N,
        "<div><table><td></div>" * N,
        "<a " * N,
        '<a x="' * N,
        "<!--" * N,
        "<script>" * N,
        '<!DOCTYPE a [<!ENTITY b "&c;&c;"><!ENTITY c "&b;&b;">]>' + "&b;" * N,
        "<h1>" * N,
        "<h2>x</h2>" * N,
        "<blockquote>" * N,
        "<table>" * N,
        "<template>" * N,
        "<svg>" * N,
        "<aside><a>x</a>" * 2000,
        "</p>" * N,
        "<li>" * N,
        "\0<\0" * N,
    ],
    "rst": [
        "`" * N,
        "*a " * (N // 4),  # docutils looks for the end of each as far as the line goes
        "|" * N,
        "[" * N,
        "\n\n".join(" " * at + "a" for at in range(500)),
        "- " * 500,
        "a\n=\n\n" * 2000,
        ".. _a: b\n" * 2000,
        ".. |a| replace:: |a|\n" * 500 + "|a|",
        "+-+\n" * N,
        ".. note::\n   " * 500,
        "x" * 200_000,
        "\0" * N,
        ".. a:: b\n" * 1000,
        ".. image::\n.. table:: x\n.. unicode:: 0xFFFFFFFFF\n.. csv-table::\n   :url: http://x\n",
        ".. role:: a(b)\n.. default-role:: c\n.. date::\n.. class::\n.. list-table::\n\n   * - a\n     - b\n   * - c\n",
        ":a:`" * N,
    ],
}


@pytest.mark.parametrize(
    ("form", "number"),
    [
        pytest.param(form, at, marks=() if at % 4 == 0 else pytest.mark.slow)
        for form, texts in HOSTILE.items()
        for at in range(len(texts))
    ],
)
def test_nothing_breaks_or_hangs_a_parser(form, number):
    begun = time.process_time()
    records(HOSTILE[form][number], form)
    assert time.process_time() - begun < 30  # none takes over 2 s; a square of the length would take minutes


PIECES = st.sampled_from(
    [
        "# a",
        "a",
        "\n",
        "\n\n",
        "  ",
        "* ",
        "- ",
        "> ",
        "```",
        "`",
        "[",
        "](",
        "<p>",
        "</p>",
        "<h2 id=x>",
        "</h2>",
        "<div>",
        "</div>",
        "<pre>",
        "<!--",
        "-->",
        "<table>",
        "<td>",
        "<ul>",
        "<li>",
        "</ul>",
        "====",
        "----",
        ".. ",
        "note::",
        "x:: ",
        ":a:",
        "|",
        "+--+",
        "_",
        "__",
        "`_",
        "::",
        "&amp;",
        "é",
        "\u2028",
        "\x0b",
        "1. ",
        "   ",
        "\t",
        "---\n",
        "title: x",
        '"',
        "'",
        "<script>",
        "</script>",
        "<title>",
        "\\",
        "{#z}",
        "[^1]",
        "\ud7ff",
    ]
)


@pytest.mark.parametrize("form", FORMATS)
@given(pieces=st.lists(PIECES, max_size=60), documents=st.sampled_from(["section", "file", "block", "line"]))
def test_any_text_is_read(form, pieces, documents):
    text = "".join(pieces)
    last = text.count("\n") + 1
    for record in records(text, form, documents=documents, max_bytes=1 << 20):
        assert record.text.strip()
        assert all(1 <= line <= last for _, line in record.places)
        assert [at for at, _ in record.places] == sorted(at for at, _ in record.places)
        assert all(0 <= at <= len(record.text) for at, _ in record.places)


def ingested(tmp_path, monkeypatch, **settings):
    monkeypatch.chdir(tmp_path)
    ingest = Ingest(expand(["."]), IngestSettings(valid=0, **settings))
    rows = [row for batch in ingest.batches() for row in batch.to_pylist()]
    return ingest, rows


def test_sections_become_documents_with_an_anchor_and_plain_text_has_none(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("# T\n\nOne here.\nTwo there.\n\n## S\n\nThree.\n")
    (tmp_path / "b.html").write_bytes(b"<meta charset=latin1><h1 id=c>Caf\xe9</h1><p>\nFour\xe9.")
    (tmp_path / "c.rst").write_text("R\n=\n\nFive.\n")
    (tmp_path / "d.txt").write_text("# no heading\n")
    ingest, rows = ingested(tmp_path, monkeypatch)
    found = [(row["title"], row["text"].strip(), row["source"], row["line"], row["anchor"]) for row in rows]
    assert found == [
        ("T", "One here.", "a.md", 3, "t"), ("T", "Two there.", "a.md", 4, "t"), ("T › S", "Three.", "a.md", 8, "s"),
        ("Café", "Fouré.", "b.html", 2, "c"), ("R", "Five.", "c.rst", 4, "r"), (None, "# no heading", "d.txt", 1, None),
    ]  # fmt: skip
    assert ingest.counts["sections_read"] == 4


def test_plain_text_alone_has_no_column_for_anchors_and_blocks_of_markdown_are_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("# T\n\n*One*.\n")
    ingest, rows = ingested(tmp_path, monkeypatch, documents="block")
    assert "anchor" not in ingest.schema.names
    assert [row["text"] for row in rows] == ["# T", "*One*."]


def test_a_section_that_is_too_long_is_split_and_its_lines_go_on(tmp_path, monkeypatch):
    lines = [f"word{at} stands here and is long enough." for at in range(200)]
    (tmp_path / "a.md").write_text("# T\n\n" + "\n".join(lines) + "\n")
    _, rows = ingested(tmp_path, monkeypatch, max_document_bytes=1024)
    assert len({row["doc_id"] for row in rows}) > 5
    for row in rows:
        if row["text"].startswith("word"):
            assert row["line"] == 3 + int(row["text"].split()[0][4:])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.md", "| Lamp | Miles |\n|---|---|\n| Oil | 14 |\n| Gas | |\n\nThe end: a | b.\n"),
        ("t.html", "<table><tr><th>Lamp</th><th>Miles</th></tr><tr><td>Oil</td><td>14</td></tr><tr><td>Gas</td><td></td></tr>"
         "</table><p>The end: a | b.</p>"),
        ("t.rst", "====  =====\nLamp  Miles\n====  =====\nOil   14\nGas   \\\n====  =====\n\nThe end: a | b.\n"),
    ],
)  # fmt: skip
def test_cells_stand_behind_the_names_that_a_header_gives(name, data, tmp_path):
    (tmp_path / name).write_text(data)
    (found,), _ = golden_read(tmp_path / name)
    assert found.text == "Lamp | Miles\n\nLamp: Oil; Miles: 14\n\nLamp: Gas\n\nThe end: a | b."


@pytest.mark.parametrize(
    "row",
    [
        '<tr><th>Lamp</th><th colspan="2">Miles</th></tr>',
        "<tr><th>Lamp</th><td>Miles</td></tr>",
        '<tr><th rowspan="2">Lamp</th><th>Miles</th></tr><tr><th>in fog</th></tr>',
    ],
)
def test_a_header_that_does_not_name_each_column_names_none(row, tmp_path):
    (tmp_path / "t.html").write_text(f"<p>Lamps</p><table>{row}<tr><td>Oil</td><td>14</td></tr></table>")
    (found,), _ = golden_read(tmp_path / "t.html")
    assert found.text.endswith("Oil | 14")
