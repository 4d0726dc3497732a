"""`wordpipe evaluate words`: tables and JSON."""

import json

import pytest

from tests.support.results import rows_of
from wordpipe.metrics import written


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    (folder / "near.txt").write_text("sea water 9\nThe mud 3\nsea XYZZY 1\nof sand 1\nwater mud 2\n")
    (folder / "far.csv").write_text("one,two,score\nsea,the,1\nwater,sand,4\nthe,of,9\n")
    (folder / "asked.txt").write_text(": family\nsea water the of\nsea water the xyzzy\n: gram1\nthe of sea water\n")
    (folder / "notes.md").write_text("notes\n")
    return folder


def test_a_table_and_its_json_say_the_same(cli, built, sets):
    args = ["evaluate", "words", built / "words", built / "words", "--data", sets, "--sections"]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    asked, far, near = found["words"][0]["sets"]
    assert found["metrics"] == found["words"][1]["metrics"]
    assert (near["pairs"], far["pairs"], asked["asked"]) == (5, 3, 3)
    rows = rows_of(table.out)
    assert rows["words"] == [f"{found['words'][0]['distinct']:,}"] * 2
    assert rows["near"] == [written(near["spearman"], "{:.3f}")] * 2
    assert rows["asked"] == [f"{asked['accuracy']:.1%}" if asked["accuracy"] else "0"] * 2
    assert rows["questions known"] == [f"{asked['seen']} of 3"] * 2
    assert rows["gram1"][0].endswith(f" of {asked['sections'][1]['seen']}")
    assert rows["mean spearman"] == [written(found["metrics"]["spearman"], "{:.3f}")] * 2
    assert "mean accuracy" not in rows
    assert (
        "3CosAdd among the 30,000 most frequent words. Pairs and questions with unknown words are left out."
        in table.out
    )
    assert "\x1b" not in table.out
    assert "1 word of near unknown: XYZZY" in table.err
    assert "files skipped: 1 .md" in table.err
    assert "different" not in table.err


def test_the_norms_are_said_whatever_they_are(cli, built, sets):
    wishes = ["--restrict-vocab", 0, "--analogy", "cosmul", "--unknown", "zero", "--sections"]
    result = cli("evaluate", "words", built / "words", "--data", sets / "asked.txt", "-q", *wishes)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Analogies: 3CosMul among all words. Pairs with unknown words count as")
    rows = rows_of(result.out)
    assert rows["family"][0].endswith(" of 2")
    assert "Similarity" not in result.out
    cut = cli("evaluate", "words", built / "words", "--data", sets / "asked.txt", "--restrict-vocab", 2)
    assert rows_of(cut.out)["candidate words"] == ["2"]
    assert rows_of(cut.out)["questions known"] == ["0 of 3"]
    assert rows_of(cut.out)["asked"] == ["–"]
    assert "outside the 2 most frequent words" in cut.err


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("--data", "nowhere"), 3, "nowhere"),
        ((), 2, "--data"),
        (("--data", "nowhere", "--analogy", "cosine"), 2, "cosmul"),
        (("--data", "nowhere", "--restrict-vocab", "-1"), 2, "-1"),
    ],
)
def test_wrong_wishes(cli, built, args, code, word):
    result = cli("evaluate", "words", built / "words", *args)
    assert (result.code, result.out) == (code, "")
    assert word in result.err
