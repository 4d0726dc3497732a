"""The map of texts: groups and their names, colours by fields, the still picture, and a page on which texts are only data."""

import json
import zlib
from base64 import b64decode
from datetime import date

import numpy as np
import pytest

from tests.support.map_page import Page
from wordpipe.pages import COLOURS, field_colouring, text_map_data, text_map_page, text_map_policy

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eturned",
    "שלום עולם",
    "a\x00\x1b[2J",
]


def a_map(n=60, title="A map", names=None, fields=(), layout="pca"):
    """Texts in two far bundles: of the sea, and of iron."""
    random = np.random.default_rng(3)
    vectors = random.normal(size=(n, 8)).astype(np.float32) * 0.1 + np.where(np.arange(n) % 2, 1, -1)[:, None].astype(
        np.float32
    )
    said = [("the iron rusts" if row % 2 else "the sea rises") for row in range(n)]
    names, stands = names or [f"note {row}" for row in range(n)], [f"notes.txt:{row}" for row in range(n)]
    settings = {"title": title, "layout": layout, "n_groups": 2}
    return text_map_data(names, stands, said, np.arange(n) * 3, vectors, fields, **settings)


def test_groups_are_named_by_the_words_that_others_have_not():
    shown = a_map()
    (groups,) = shown.colourings
    assert sorted(groups.labels.values()) == ["iron, rusts", "rises, sea"]
    for row in (0, 1):
        assert ("sea" if row == 0 else "iron") in groups.labels[int(groups.colours[row])]
        assert (groups.colours[row::2] == groups.colours[row]).all()


def test_a_name_has_no_two_words_of_which_one_holds_the_other_and_none_of_an_address():
    said = [
        f"librust crate rust https://docs.rs/x look www.rust.org {row % 3}" if row % 2 else "a sea of salt"
        for row in range(60)
    ]
    vectors = (
        np.where(np.arange(60) % 2, 1, -1)[:, None] * np.ones((60, 8))
        + np.random.default_rng(3).normal(size=(60, 8)) / 10
    )
    shown = text_map_data(
        said, [""] * 60, [""] * 60, np.arange(60), vectors.astype(np.float32), [], title="t", layout="pca", n_groups=2
    )
    assert sorted(shown.colourings[0].labels.values()) == ["crate, rust, look", "salt, sea"]


def test_small_words_of_the_language_name_no_group():
    said = [
        "his iron was in the fire that he had made" if row % 2 else "the sea of the north is at rest"
        for row in range(60)
    ]
    vectors = np.where(np.arange(60) % 2, 1, -1)[:, None] + np.random.default_rng(3).normal(size=(60, 8)) / 10
    settings = {"title": "t", "layout": "pca", "n_groups": 2}
    shown = text_map_data(said, [""] * 60, [""] * 60, np.arange(60), vectors.astype(np.float32), [], **settings)
    assert sorted(shown.colourings[0].labels.values()) == ["fire, iron, made", "north, rest, sea"]


def test_all_texts_go_to_groups_that_were_found_by_some(monkeypatch):
    whole = a_map(200)
    monkeypatch.setattr("wordpipe.pages.text_map._GROUPED", 21)
    some = a_map(200)
    said = [
        [one.labels[colour] for colour in one.colours.tolist()] for one in (whole.colourings[0], some.colourings[0])
    ]
    assert said[0] == said[1]


def test_the_share_kept_is_all_on_a_plane():
    points = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    angles = np.linspace(0.1, 1.4, 40)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    shown = text_map_data(
        ["t"] * 40, [""] * 40, [""] * 40, np.arange(40), points, [], title="t", layout="pca", n_groups=1
    )
    assert shown.neighbours_kept > 0.85  # an arc is bent, and ends have neighbours on one side alone


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([True, False, True, None], {0: "True", 1: "False", 11: "no value"}),
        ([1, 2, 2, 1], {0: "1", 1: "2"}),
        (["a"] * 9, None),  # one value
        ([f"id {row}" for row in range(40)], None),  # all different
        ([*range(80)], {part: f"from {10 * part}" for part in range(8)}),
        ([date(2024, 1, 1 + row % 30) for row in range(240)], None.__class__),
        ([f"v{row % 20}" for row in range(200)], None.__class__),
    ],
)
def test_fields_that_tell_texts_apart_give_colours(values, labels):
    found = field_colouring("field", values)
    if not isinstance(labels, type):
        assert (found and found.labels) == labels
    if found:
        assert set(found.colours.tolist()) == set(found.labels)
        assert len(found.labels) <= COLOURS
        for row, value in enumerate(values):
            said = found.labels[int(found.colours[row])]
            if said.startswith("from "):
                assert str(value) >= said.removeprefix("from ") or not isinstance(value, date)
            else:
                assert said in (str(value), "other values", "no value")


def test_the_page_has_the_map_and_texts_are_data():
    names = [HOSTILE[row % len(HOSTILE)] for row in range(60)]
    colours = field_colouring("<b>kind", [HOSTILE[row % 2] for row in range(60)])
    shown = a_map(names=names, title=HOSTILE[0], fields=[colours])
    for index in (None, 'no"tes'):
        page = text_map_page(shown, index)
        assert page == text_map_page(shown, index)
        parsed = Page(page)
        tags = [tag for tag, _ in parsed.elements]
        assert tags.count("script") == 2
        assert tags.count("img") == 1  # the still picture
        assert not [key for _, given in parsed.elements for key in given if key.startswith("on") or key == "style"]
        assert "\u202e" not in page.decode()
        data = parsed.data
        assert (data["places"] == shown.places).all()
        assert (data["groups"] == shown.colourings[0].colours).all()
        assert data["words"][0] == names[0]
        texts = data["texts"]
        assert (np.frombuffer(b64decode(texts["rows"]), "<u4") == shown.rows).all()
        assert [one["name"] for one in texts["colourings"]] == ["groups", "<b>kind"]
        assert (texts["index"], texts["beginnings"] is None) == (index, index is not None)
        policy = next(given["content"] for tag, given in parsed.elements if given.get("http-equiv"))
        assert ("connect-src 'self'" in policy) == (index is not None)
        assert "unsafe" not in policy
        links = [given["href"] for tag, given in parsed.elements if tag == "a"]
        assert links == [] if index is None else all(link.startswith("../") for link in links)
    assert policy == text_map_policy()
    assert texts["beginnings"] is None
    assert Page(text_map_page(shown)).data["texts"]["beginnings"][3] == "notes.txt:3\nthe iron rusts"


def test_the_still_picture_has_a_dot_for_each_text():
    shown = a_map()
    source = next(given["src"] for tag, given in Page(text_map_page(shown)).elements if tag == "img")
    data = b64decode(source.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + size : at + 12 + size], "big")
        chunks[kind], at = body, at + 12 + size
    wide, tall = (int.from_bytes(chunks[b"IHDR"][first : first + 4], "big") for first in (0, 4))
    pixels = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(tall, wide + 1)
    assert (pixels[:, 0] == 0).all()
    inks = set(np.unique(pixels[:, 1:]).tolist()) - {0}
    assert inks == {int(colour) + 1 for colour in shown.colourings[0].labels}
    assert len(chunks[b"PLTE"]) == 3 * (COLOURS + 1)
    assert (pixels > 0).sum() > 60


def test_a_legend_and_the_data_are_json():
    assert json.loads(json.dumps(Page(text_map_page(a_map())).data["texts"]["colourings"][0]["names"]))
