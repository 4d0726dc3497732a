"""Several indexes in one question: what they find, and with which scores, is what one index over all texts finds."""

import csv
import io
import json

import pytest

import wordpipe
from wordpipe.errors import ArtifactError, ConfigError

QUERIES = [
    "salt water of the sea", "how do bees find their way", "bread", '"the sea" -moon', "bread OR kettle", "watre salt",
    "year:1905..1930 sea", "the", "zzyzx qxqxq",
]  # fmt: skip
OPTIONS = [
    {"mode": "lexical"}, {"mode": "lexical", "feedback": 5}, {"mode": "dense"}, {"mode": "hybrid", "weight": 0.4}, {},
    {"mode": "lexical", "where": "year > 1910 and lang = 'en'"}, {"sort": "year:desc"}, {"mode": "lexical", "offset": 3},
    {"mode": "lexical", "newer_better": "year", "half_life": "10y", "boost": "year"}, {"exact": True, "mode": "lexical"},
    {"mode": "lexical", "prefix": True}, {"mode": "hybrid", "per_document": True, "weight": 0.5},
]  # fmt: skip


@pytest.fixture(scope="module")
def made(built, handbook, tmp_path_factory):
    """The handbook in one index, and in two parts; with the vectors of one encoder, and by words alone."""
    root = tmp_path_factory.mktemp("several")
    blocks = [block.split("\n", 1) for block in handbook.read_text().split("\n\n") if "\n" in block]
    rows = [
        {"id": f"n{n}", "title": title, "text": text, "year": 1900 + n, "lang": ["en", "de"][n % 2]}
        for n, (title, text) in enumerate(blocks)
    ]
    for name, some in (("whole", rows), ("first", rows[:47]), ("second", rows[47:])):
        wordpipe.ingest(some, output=root / f"{name}-corpus", valid=0)
        wordpipe.index(root / f"{name}-corpus", output=root / f"{name}-words", unit="document", language="english")
        wordpipe.embed(built / "words", root / f"{name}-corpus", output=root / f"{name}-s", unit="document")
        wordpipe.index(root / f"{name}-s", output=root / name, language="english")
    return root


def shown(hits):
    return [(hit["id"], pytest.approx(hit["score"], rel=1e-5, abs=1e-5)) for hit in hits]


@pytest.mark.parametrize("options", OPTIONS)
def test_two_halves_are_ranked_as_the_whole(made, options):
    words = "" if options.get("mode") in ("dense", "hybrid") else "-words"
    with (
        wordpipe.open([made / f"first{words}", made / f"second{words}"], "index") as several,
        wordpipe.open(made / f"whole{words}", "index") as whole,
    ):
        assert len(several) == len(whole)
        for query in QUERIES:
            found, expected = several.query(query, 25, **options), whole.query(query, 25, **options)
            assert shown(found) == [(hit["id"], hit["score"]) for hit in expected], query
            assert [hit["rank"] for hit in found] == [hit["rank"] for hit in expected]
            assert [hit.get("related") for hit in found] == [hit.get("related") for hit in expected]
            if "offset" not in options and "sort" not in options:
                assert several.count(query, **options) == whole.count(query, **options)


def test_a_document_of_several_indexes_is_one_answer(made):
    with (
        wordpipe.open([made / "first", made / "whole-words", made / "second-words"], "index") as several,
        wordpipe.open(made / "whole-words", "index") as whole,
    ):
        for query in QUERIES:
            for options in ({"mode": "lexical"}, {"mode": "lexical", "sort": "year:desc"}, {"where": "year > 1930"}):
                ids = [hit["id"] for hit in several.query(query, k=200, **options)]
                assert len(ids) == len({*ids})
                assert {*ids} == {hit["id"] for hit in whole.query(query, k=200, **options | {"mode": "lexical"})}
                assert several.count(query, **options) == whole.count(query, **options)
        assert [hit["index"] for hit in several.query("", k=1, where="id = 'n3'")] == [str(made / "first")]
        assert several.query("zzyzx qxqxq", mode="lexical") == []


def test_a_hit_names_its_index_and_its_row_there(made):
    paths = [made / "first-words", made / "second-words"]
    hits = wordpipe.query(paths, "salt water of the sea", 20)
    assert {hit["index"] for hit in hits} == {str(path) for path in paths}
    for path in paths:
        with wordpipe.open(path, "index") as opened:
            texts = opened.batches(["text"]).read_all().column(0).to_pylist()
        assert all(texts[hit["row"]] == hit["text"] for hit in hits if hit["index"] == str(path))
    explained = wordpipe.query(paths, "salt water of the sea", 5, explain=True)
    for hit in explained:
        assert sum(term["score"] for term in hit["explain"]["lexical"]["terms"]) == pytest.approx(hit["score"])


def test_the_command_takes_indexes_before_the_query(made, cli):
    paths = [made / "first-words", made / "second-words"]
    whole = cli("query", made / "whole-words", "salt", "water", "-k", 30)
    several = cli("query", *paths, "salt", "water", "-k", 30)
    assert several.err == f"indexes: {paths[0]}, {paths[1]}\n"
    cells = [[line.split("\t")[at] for at in (0, 1, -1)] for line in several.out.splitlines()]
    assert cells == [[line.split("\t")[at] for at in (0, 1, -1)] for line in whole.out.splitlines()]
    assert cli("query", *paths, "bread", "--count").out == cli("query", made / "whole-words", "bread", "--count").out
    listed = cli("query", *paths, "--where", "year >= 1945", "-k", 4, "--json", piped="")
    assert [json.loads(line)["id"] for line in listed.out.splitlines() if "rank" in line] == [
        "n45",
        "n46",
        "n47",
        "n48",
    ]
    table = list(csv.DictReader(io.StringIO(cli("query", *paths, "salt water", "--format", "csv").out)))
    assert {row["index"] for row in table} == {str(path) for path in paths}
    asked = cli("query", *paths, "zzyzx")
    assert asked.code == 1


def test_fields_of_one_index_are_missing_in_the_other(made, tmp_path):
    rows = [{"id": "x1", "text": "The salt of the earth", "year": "1890s", "colour": "white"}]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "other", unit="document", language="english")
    paths = [made / "first-words", tmp_path / "other"]
    hits = wordpipe.query(paths, "salt", 50, where="colour = 'white'")
    assert [(hit["id"], hit["metadata"]["colour"]) for hit in hits] == [("x1", "white")]
    assert len(wordpipe.query(paths, "salt", 50, where="year like '1%'")) == len(wordpipe.query(paths, "salt", 50))
    assert wordpipe.query(paths, "salt", 50, sort="colour")[0]["id"] == "x1"


def test_what_has_no_common_scale_is_mixed_by_rank(made, tmp_path, cli):
    for name, settings, why in (
        ("german", {"language": "german"}, "different languages"),
        ("whole", {"language": "english", "k1": 2.0}, "with different settings"),
    ):
        wordpipe.index(made / "first-corpus", output=tmp_path / name, unit="document", **settings)
        paths = [made / "second-words", tmp_path / name]
        found = wordpipe.query(paths, "salt water", 9, where="year > 1901")
        own = [wordpipe.query(path, "salt water", 9, where="year > 1901") for path in paths]
        for path, hits in zip(paths, own, strict=True):
            ranked = [hit["id"] for hit in found if hit["index"] == str(path)]
            fulfilling_first = sorted(hits, key=lambda hit: not hit["related"])
            assert ranked == [hit["id"] for hit in fulfilling_first][: len(ranked)]
            assert ranked
        assert [hit["score"] for hit in found] == [1 / rank for rank in range(1, 10)]
        with wordpipe.open(paths, "index") as several:
            assert several.count("salt water") == sum(
                map(len, [wordpipe.query(path, "salt water", 99) for path in paths])
            )
            assert several.count("", where="year > 1901") == len(several.query("", 999, where="year > 1901"))
        said = cli("query", *paths, "salt water")
        assert why in said.err
        assert cli("query", *paths, "the").code == (1 if name == "whole" else 0)  # small words of a language alone


def test_what_cannot_be_asked_together_is_refused(built, made, tmp_path):
    mixed = [made / "first-words", made / "second"]
    with pytest.raises(ConfigError, match="only by words"):
        wordpipe.query(mixed, "salt", mode="hybrid")
    assert wordpipe.query(mixed, "salt")
    with pytest.raises(ArtifactError, match="wrong kind"):
        wordpipe.open([made / "first-words", built / "corpus"], "index")
    wordpipe.index(built / "words", output=tmp_path / "vocabulary")
    with pytest.raises(ConfigError, match="only indexes over texts"):
        wordpipe.open([made / "first-words", tmp_path / "vocabulary"], "index")
    with (
        wordpipe.open([made / "first", made / "second"], "index") as opened,
        pytest.raises(ConfigError, match="one index"),
    ):
        opened.similar(3)
    (one,) = [wordpipe.query([made / "first-words"], "salt", 3)]
    assert one == wordpipe.query(made / "first-words", "salt", 3)


def test_what_was_opened_together_is_given_back(made):
    paths = [made / "first", made / "second"]
    with wordpipe.open(paths, "index") as several:
        several.query("salt water", 5, mode="hybrid", where="year > 1900", explain=True)
        parts = several.parts
        assert repr(several).startswith("<open index")
    assert repr(several).startswith("<closed index")
    assert all(part.artifact.is_closed for part in parts)
    several.close()
    with pytest.raises(ArtifactError), wordpipe.open([made / "first", made / "nothing"], "index"):
        pass
