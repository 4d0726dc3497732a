"""The layouts in which scored pairs come."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import InputError
from wordpipe.stages import read_scored_pairs

ROWS = [("A man, a dog.", "A dog runs.", "3.5"), ('He said "no".', "She said yes.", "0"), ("Sea", "See the sea", "5.0")]
TABS = "\t".join


def csv_file() -> str:
    return '"A man, a dog.",A dog runs.,3.5\n"He said ""no"".",She said yes.,0\n\nSea,See the sea,5.0\n'


LAYOUTS = {
    "csv": csv_file(),
    "csv with a header": "sentence1,sentence2,score\n" + csv_file(),
    "csv with a header of its own names": "eins,zwei,wert\n" + csv_file(),
    "windows": csv_file().replace("\n", "\r\n"),
    "score first": "".join(TABS([score, one, two]) + "\n" for one, two, score in ROWS),
    "stsb": "".join(
        TABS(["main-captions", "MSRvid", "2012test", f"{n:04}", score, one, two]) + "\n"
        for n, (one, two, score) in enumerate(ROWS)
    ),
    "stsb with sources": "".join(
        TABS(["news", "headlines", "2013", str(n), score, one, two, *(["source"] * n)]) + "\n"
        for n, (one, two, score) in enumerate(ROWS)
    ),
    "glue": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    + "".join(TABS([str(n), "g", "f", "2012", "7", "none", "none", *row]) + "\n" for n, row in enumerate(ROWS)),
    "sick": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    + "".join(TABS([str(n), *row, "NEUTRAL"]) + "\n" for n, row in enumerate(ROWS)),
    "sick without a header": "".join(TABS([str(n), *row, "NEUTRAL"]) + "\n" for n, row in enumerate(ROWS)),
    "json lines": "".join(
        json.dumps({"split": "test", "sentence1": one, "sentence2": two, "score": float(score)}) + "\n"
        for one, two, score in ROWS
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs(layout):
    for start in ("", "\ufeff"):
        found = read_scored_pairs((start + LAYOUTS[layout]).encode(), layout)
        assert [*zip(found.first, found.second, strict=True)] == [row[:2] for row in ROWS]
        assert found.scores.tolist() == [3.5, 0, 5]
        assert (len(found), found.unscored) == (3, 0)


def test_scores_in_a_file_of_their_own():
    pairs = "".join(TABS(row[:2]) + "\n" for row in ROWS)
    found = read_scored_pairs(pairs.encode(), "STS.input.x.txt", b"3.5\n\n5\n")
    assert found.first == ["A man, a dog.", "Sea"]
    assert found.scores.tolist() == [3.5, 5]
    assert found.unscored == 1
    assert read_scored_pairs(pairs.encode(), "x", b"3.5\n").unscored == 2
    with pytest.raises(InputError, match="more scores"):
        read_scored_pairs(pairs.encode(), "x", b"1\n2\n3\n4\n")


SENTENCES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=3).map(lambda text: "a " + text)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES, st.floats(0, 5)), min_size=1, max_size=9)


@given(PAIRS)
def test_nothing_is_lost_or_changed(rows):
    lines = "".join(f"{score:.4f}\t{one}\t{two}\n" for one, two, score in rows)
    found = read_scored_pairs(lines.encode(), "")
    assert [*zip(found.first, found.second, strict=True)] == [row[:2] for row in rows]
    np.testing.assert_allclose(found.scores, [row[2] for row in rows], atol=1e-4)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "no pair"),
        (b"\n \n", "no pair"),
        (b"one sentence\nand another\n", "no two columns"),
        (b"a b,c d\ne f,g h\n", "no column of scores"),
        (b"1.5,a b,c d,2.5\n3.5,e f,g h,1.5\n", "two columns could"),
        ("".join(f"a b,c d,{n}\n" for n in range(20)).encode() + b"e f,g h,x\n", r"file:21.*'x'"),
        (b"sentence1\tsentence2\tscore\na\tb\n", "file:2.*3 columns"),
        (b"sentence1\tsentence2\tscore\na\t\t1\n", "file:2.*two sentences"),
        (b"sentence1\tsentence2\tscore\na\tb\t\n", "no pair with a score"),
        (b"sentence1,sentence2,score\na,b,nan\n", "file:2.*score"),
        (b'{"sentence1": "a", "score": 1}\n', "file:1.*sentence2"),
        (b'{"sentence1": "a", "sentence2": "b", "score": 1}\n{"\n', "file:2"),
        (b'"a b" c,d,1\n', "file:1"),
        (b"a,b,1\n\xff,b,2\n", "file:2"),
    ],
)
def test_what_does_not_belong_is_named(data, match):
    with pytest.raises(InputError, match=match):
        read_scored_pairs(data, "file")
