"""No word of a page is lost or glued to another: headings, instructions, unknown elements; encodings that a page names."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus.test_markup import shown
from wordpipe.corpus import Ledger
from wordpipe.corpus.readers import html_pages, sections
from wordpipe.errors import InputError

WORD = re.compile(r"w\d+q")
BLOCKS = [
    "div",
    "p",
    "li",
    "ul",
    "ol",
    "section",
    "blockquote",
    "dd",
    "dt",
    "article",
    "figcaption",
    "pre",
    "hr",
    "main",
]
HEADINGS = ["h1", "h2", "h3", "h6"]
INLINE = ["b", "a", "span", "x-card", "em", "my-widget", "code", "mark", "math", "font"]
TABLES = ["table", "tr", "td", "caption", "th", "tbody"]
UNSEEN = [
    "<!-- c -->",
    "<?pi?>",
    "<?dbhtml filename='x'?>",
    "<!ELEMENT b>",
    "<![if !IE]>",
    "<?php echo 1; ?>",
    "</>",
    "</nope>",
]


class Outlined(sections.Outline):
    """An outline that also remembers the titles below which there is nothing."""

    def __init__(self):
        super().__init__(Ledger())
        self.said = []

    def heading(self, level, title, anchor, line):
        self.said.append(title)
        super().heading(level, title, anchor, line)


class Twin(HTMLParser):
    """All text of a page in the order of the source, parted where a block begins."""

    def __init__(self):
        super().__init__()
        self.text = ""

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        self.text += " " * (tag in (*BLOCKS, *HEADINGS, "br"))


def words_of(page):
    told = Outlined()
    html_pages.read_html(page, 1, told)
    told.finish()
    return [word for part in (*told.said, *(one.text for one in told.take())) for word in part.split()]


def drawn(tags):
    """Pages of such tags, opened and closed at random, around numbered words."""
    tag = st.sampled_from(tags)
    piece = (
        tag.map("<{}>".format) | tag.map("</{}>".format) | st.sampled_from([*UNSEEN, "W", "W ", " W", "W\n", "<br>"])
    )
    return st.lists(piece, max_size=40).map(
        lambda pieces: "".join(one.replace("W", f"w{at}q") for at, one in enumerate(pieces))
    )


def require_all(page, *, whole):
    """Every word of a page is found once; with `whole`, none is glued to what a block parts from it."""
    twin = Twin()
    twin.feed(page)
    twin.close()
    found = words_of(page)
    assert sorted(WORD.findall(" ".join(found))) == sorted(WORD.findall(twin.text))
    assert not whole or all(word in twin.text for word in found if WORD.search(word))


@given(drawn([*BLOCKS, *HEADINGS, *INLINE]))
def test_every_word_of_a_page_is_there_once_and_none_is_glued_to_another(page):
    require_all(page, whole=True)


@given(drawn([*TABLES, *HEADINGS, *BLOCKS, *INLINE]))
def test_no_word_is_lost_in_tables_that_a_browser_mends(page):
    require_all(page, whole=False)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<h3>Prices<p>Cake is dear.<p>Pie is not.", [("Prices", "Cake is dear.\n\nPie is not.")]),
        ("<h1>Desk<div>Ask there.</div></h1>later", [("Desk", "Ask there.\n\nlater")]),
        ("<h2><div>Desk</div><div>Ask there.</div></h2>", [("Desk", "Ask there.")]),
        ("<h2>Two<br>lines</h2>x", [("Two lines", "x")]),
        ("<h2>List<ul><li>a<li>b</ul></h2>", [("List", "- a\n- b")]),
        ("<h2>Table<table><tr><td>1<td>2</table></h2>", [("Table", "1 | 2")]),
        ("<h2>Code<pre>a\n b</pre></h2>", [("Code", "a\n b")]),
        ("<a href=x><h2>Linked<p>text</a>", [("Linked", "text")]),
        ("<h1>A<span>b<h2>C</h2></span></h1>d", [("Ab › C", "d")]),
        ("<h2><img alt=Sign></h2>x", [("Sign", "x")]),
        ("<title>Site<p>text", [("Site", "text")]),
        ("<h2>" + "long " * 300 + "</h2>", [(("long " * 200).strip(), ("long " * 100).strip())]),
    ],
)  # fmt: skip
def test_a_title_ends_at_the_first_block_in_it(page, expected):
    assert shown(page, "html") == expected


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('a<?php if ($n > 2) { echo "<p>no"; } ?>b', "ab"),
        ("a<?= $n > 2 ?>b", "ab"),
        ("a<?dbhtml x='1'>b<p>c ?> d", "ab\n\nc ?> d"),
        ("a<?open b", "a"),
        ("a<?target a->b?>c", "ac"),
        ("a <![CDATA[b < c]]> d", "a b < c d"),
        ("<pre>a<?php x ?>b<br>c<div>d</div>e</pre>", "ab\nc\nd\ne"),
        ("pr<!-- -->ice <!---->1<!-- x -->5", "price 15"),
        ("a<nav>menu</nav>b", "a\n\nb"),
        ("a<svg><text>x</text></svg>b", "a b"),
        ("<section role=search>x</section><ul role=navigation><li>y</ul>a", "a"),
        ("<template><p>x</template>a<math><mi>b</mi></math>", "ab"),
    ],
)
@pytest.mark.parametrize("form", ["html", "md"])
def test_what_nobody_sees_is_passed_over(form, page, text):
    page = page if form == "html" else f"<div>{page}</div>"
    assert [found for _, found in shown(page, form)] == [text]


def test_raw_html_within_a_line_of_markdown_parts_no_word_and_loses_none():
    assert shown("a<?php x ?>b <!-- c -->d <x-y>e</x-y> <![CDATA[f]]>g<p>h\n", "md") == [(None, "ab d e fg h")]


def decoded(page, bad_bytes="replace", ledger=None):
    return b"".join(html_pages.to_utf8(iter([page]), name="p", bad_bytes=bad_bytes, ledger=ledger or Ledger())).decode()


@pytest.mark.parametrize("name", ["windows-1250", "ISO-8859-2", "x-cp1250"])
def test_an_xml_declaration_names_the_encoding_of_a_page(name):
    ledger = Ledger()
    page = f"<?xml version='1.0' encoding='{name}'?><html><p>žluťoučký</html>".encode(
        "cp1250" if "125" in name else name
    )
    assert "žluťoučký" in decoded(page, ledger=ledger)
    assert sum(ledger.named("files_decoded_from").values()) == 1


def test_a_mark_comes_before_a_meta_element_and_that_before_a_declaration():
    declared = b'<?xml version="1.0" encoding="koi8-r"?>'
    assert "é" in decoded(declared + b"<!-- <meta charset=koi8-r> --><meta charset=latin1>\xe9")
    assert "é" in decoded(b"\xef\xbb\xbf" + declared + "é".encode())
    assert "é" in decoded(declared.replace(b"koi8-r", b"utf-16") + "é".encode())


def test_an_encoding_that_nobody_knows_is_said():
    ledger = Ledger()
    assert "é" in decoded("<meta charset=klingon>é".encode(), ledger=ledger)
    assert "klingon" in ledger.warned["encoding"]
    decoded("<meta charset=UTF-8>é".encode(), ledger=(fine := Ledger()))
    assert not fine.warned


def test_bytes_that_a_declared_encoding_does_not_have_are_counted_and_placed():
    page = b"<meta charset=shift_jis>\n<p>a\x81\xffb"
    for policy, count in (("replace", "bytes_replaced"), ("skip", "bytes_skipped")):
        ledger = Ledger()
        assert ("\ufffd" in decoded(page, policy, ledger)) == (policy == "replace")
        assert ledger[count] == 1
        assert "p, line 2" in ledger.warned["bad_bytes"]
    with pytest.raises(InputError, match="cp932"):
        decoded(page, "fail")
