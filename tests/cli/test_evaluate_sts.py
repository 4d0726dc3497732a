"""`wordpipe evaluate sts`: tables and JSON."""

import json

import pytest

from tests.support.results import rows_of


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sts")
    (folder / "dev.csv").write_text(
        "the sea is wide,the sea is wide,5\nthe sea was calm,the wide sea,3\nsand,a wide sea,0\nthe mud,xyzzy \x1b[31m,1\n"
    )
    (folder / "year").mkdir()
    for name in "ab":
        (folder / "year" / f"{name}.tsv").write_text(
            "5\tthe sea\tthe sea\n1\tthe land\tof sand\n2\tmud\twater and mud\n\tx\ty\n"
        )
    return folder


def test_a_table_and_its_json_say_the_same(cli, built, sets):
    args = [
        "evaluate",
        "sts",
        built / "words",
        "--data",
        sets / "dev.csv",
        "--data",
        sets / "year",
        "--draws",
        50,
    ]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    assert [one["system"] for one in found["systems"]] == ["dense", "words_mean", "tfidf", "lsi", "overlap"]
    rows = rows_of(table.out)
    assert rows["dev (4 pairs)"] == [
        "–" if (value := one["metrics"]["spearman/dev"]) is None else f"{100 * value:.2f}" for one in found["systems"]
    ]
    assert set(rows) > {"year (6 pairs)", "mean of the sets", "95 %"}
    assert "Spearman" in table.out
    assert not set(table.out + table.err) & {"\x1b", "\x07"}
    assert "3 unknown words in dev: calm, xyzzy, 31m\n" in table.err
    assert "left out: 2 pairs without a score" in table.err
    bare = cli(*args, "-q", "--no-floors")
    assert bare.err == ""
    assert len(rows_of(bare.out)["dev (4 pairs)"]) == 1


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ((), 2, "--data"),
        (("--data", "nowhere"), 3, "nowhere"),
        (("--data", "nowhere", "--draws", "-1"), 2, "-1"),
        (("--data", "nowhere", "--pooling", "median"), 2, "median"),
        (("--data", "nowhere", "--dims", "3"), 2, "whiten"),
    ],
)
def test_wrong_wishes(cli, args, code, word):
    result = cli("evaluate", "sts", *args)
    assert (result.code, result.out) == (code, "")
    assert word in result.err
