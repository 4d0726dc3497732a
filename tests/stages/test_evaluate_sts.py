"""`evaluate sts`: encoders and baselines on scored pairs, and the layouts in which such pairs come."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import wordpipe
from tests.support.made_vectors import made_words
from wordpipe import RunOptions, evaluate_sts
from wordpipe.artifacts import Artifact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages import bundled_encoder, open_encoder, read_scored_pairs

# ---- systems


@pytest.fixture(scope="module")
def sentences(built):
    """Sentences of the corpus."""
    with Artifact(built / "sentences") as artifact, artifact.open("sentences-00000.parquet") as file:
        import pyarrow.parquet as pq

        return pq.read_table(file, columns=["text"])["text"].to_pylist()


@pytest.fixture(scope="module")
def sets(sentences, tmp_path_factory):
    """A csv file, and a folder of a tsv file, a packed one of JSON, and a file that is none."""
    folder = tmp_path_factory.mktemp("sts")
    rng = np.random.default_rng(1)
    texts = [" ".join(text.split()[:12]).replace('"', "") for text in sentences]

    def pairs(n: int) -> list[tuple[str, str, float]]:
        return [(*rng.choice(texts, 2).tolist(), float(rng.integers(0, 6))) for _ in range(n)]

    (folder / "dev.csv").write_text("".join(f'"{a}","{b}",{score}\n' for a, b, score in pairs(60)))
    (folder / "year").mkdir()
    (folder / "year" / "a.tsv").write_text("".join(f"{score}\t{a}\t{b}\n" for a, b, score in pairs(30)))
    rows = [json.dumps({"sentence1": a, "sentence2": b, "score": score}) for a, b, score in pairs(20)]
    (folder / "year" / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    (folder / "year" / "README.md").write_text("about\n")
    return folder


def pairs_of(path):
    import csv

    with path.open() as file:
        rows = [(one, two, float(score)) for one, two, score in csv.reader(file)]
    return [row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows])


def evaluated(*args, **wishes):
    return evaluate_sts(*args, **{"draws": 50, "device": "cpu", "threads": 1, **wishes})


def test_an_encoder_is_evaluated_by_the_cosines_of_its_vectors(built, sets):
    one, two, scores = pairs_of(sets / "dev.csv")
    found = evaluated([built / "model", built / "words", built / "sentences"], sets / "dev.csv", floors=False)
    for path, system in zip(("model", "words", "sentences"), found["systems"], strict=True):
        with Artifact(built / path) as artifact:
            settings = EmbedSettings(device="cpu", threads=1)
            encoder = bundled_encoder(artifact) if path == "sentences" else open_encoder(artifact, settings)
            first, second = encoder.encode(one).vectors, encoder.encode(two).vectors
        cosines = (first.astype(np.float64) * second).sum(axis=1).round(6)
        assert system["metrics"]["spearman"] == pytest.approx(stats.spearmanr(cosines, scores).statistic, abs=1e-5)
        assert system["metrics"]["pearson"] == pytest.approx(stats.pearsonr(cosines, scores).statistic, abs=1e-5)
        (only,) = system["sets"]
        assert only["pairs"] == 60
        assert only["spearman_interval"][0] <= only["spearman"] <= only["spearman_interval"][1]
    assert found["metrics"]["spearman/dev"] == found["metrics"]["dense"]["spearman"] == found["metrics"]["spearman"]
    raw, _, carried = (system["metrics"]["spearman"] for system in found["systems"])
    assert raw != carried  # what the sentences' transform changes


def test_a_folder_is_one_set_and_the_mean_is_over_the_sets(built, sets):
    heard = []
    found = evaluated(built / "words", [sets / "dev.csv", sets / "year"], run=RunOptions(report=heard.append))
    assert [one["system"] for one in found["systems"]] == ["dense", "words_mean", "tfidf", "lsi", "overlap"]
    assert [(one["name"], one["pairs"]) for one in found["sets"]] == [("dev", 60), ("year", 50)]
    assert found["skipped"] == {".md": 1}
    for system in found["systems"]:
        dev, year = system["sets"]
        assert (dev["pairs"], year["pairs"]) == (60, 50)
        assert system["metrics"]["spearman"] == pytest.approx((dev["spearman"] + year["spearman"]) / 2, abs=2e-6)
        assert system["metrics"]["pearson/year"] == year["pearson"]
        assert found["metrics"][system["system"]] == system["metrics"]
    alone = evaluated([], sets / "year", draws=0)
    assert [one["metrics"]["spearman/year"] for one in alone["systems"]] == [
        one["metrics"]["spearman/year"] for one in found["systems"][2:]
    ]
    assert alone["systems"][0]["sets"][0]["spearman_interval"] is None
    assert json.loads(json.dumps(found)) == found
    assert any("baselines" in one.phase for one in heard)


def test_the_same_sentence_twice_is_the_most_alike_for_every_baseline(tmp_path):
    (tmp_path / "x.csv").write_text(
        "the sea is wide,the sea is wide,5\nthe sea is wide,the sea was calm,3\nsand,a wide sea,0\n"
    )
    found = evaluated([], tmp_path / "x.csv", draws=0)
    assert found["metrics"]["tfidf"]["spearman"] == found["metrics"]["overlap"]["spearman"] == 1


def test_a_transform_is_fitted_on_the_sentences_of_the_set(built, sets):
    plain, centred = (
        evaluated(built / "model", sets / "dev.csv", floors=False, transform=transform)["metrics"]["spearman"]
        for transform in ("none", "centre")
    )
    assert plain != centred


def test_what_a_system_knows_nothing_of_is_counted(built, tmp_path):
    (tmp_path / "x.csv").write_text("xyzzy plugh,the sea,1\nthe sea,the land,2\nthe sand,the sea,3\n")
    dense = evaluated(built / "words", tmp_path / "x.csv", draws=0)["systems"][0]["sets"][0]
    assert dense["sentences_without_vector"] == 1
    assert dense["unknown_words"]["first"][:2] == ["xyzzy", "plugh"]


def test_what_cannot_be_evaluated(built, sets, tmp_path):
    wordpipe.index(built / "words", output=tmp_path / "index")
    (tmp_path / "empty").mkdir()
    cases = [
        ([], tmp_path / "nowhere", {}, InputError, "nowhere"),
        ([], tmp_path / "empty", {}, InputError, "no file of scored pairs"),
        ([], [], {}, InputError, "no set"),
        ([], built / "corpus", {}, ArtifactError, "artifact"),
        (built / "tokens", sets, {}, ArtifactError, "wrong kind"),
        (tmp_path / "index", sets, {}, ArtifactError, "over words"),
        ([], sets, {"floors": False}, ConfigError, "nothing to evaluate"),
        ([], sets, {"draws": -1}, ConfigError, "-1"),
        ([], sets, {"language": "klingon"}, ConfigError, "klingon"),
        ([], sets, {"poling": "mean"}, ConfigError, "poling"),
    ]
    for encoders, data, wishes, error, match in cases:
        with pytest.raises(error, match=match) as raised:
            evaluated(encoders, data, **wishes)
        assert raised.value.exit_code in (2, 3, 4)


def test_what_is_wrong_is_said_before_anything_is_evaluated(tmp_path, monkeypatch):
    data = tmp_path / "dev.csv"
    data.write_text("the sea,the sea,5\nthe mud,a boat,1\n")
    words = made_words(tmp_path / "words", np.eye(8, dtype=np.float32), [5] * 8)
    monkeypatch.setattr("wordpipe.stages.evaluate.sts.encoder_scores", lambda *_: pytest.fail("it was evaluated"))
    with pytest.raises(ArtifactError, match="nowhere"):
        evaluated([words, tmp_path / "nowhere"], data)
    with pytest.raises(ArtifactError, match="nowhere"):
        evaluated([words], data, words=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="klingon"):
        evaluated([words], data, language="klingon")


def test_an_empty_file_is_answered_with_a_line_of_a_full_one(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError, match="no pair") as refused:
        evaluated([], tmp_path / "empty.csv")
    line = (refused.value.hint or "").partition(": ")[2]
    (tmp_path / "full.csv").write_text(f"{line}\n{line}\n")
    assert evaluated([], tmp_path / "full.csv")["sets"][0]["pairs"] == 2


# ---- layouts


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
        (b"one sentence\nand another\n", "no two columns of sentences"),
        (b"a b,c d\ne f,g h\n", "no column of scores"),
        (b"1.5,a b,c d,2.5\n3.5,e f,g h,1.5\n", "two columns could"),
        ("".join(f"a b,c d,{n}\n" for n in range(20)).encode() + b"e f,g h,x\n", r"file:21.*'x'"),
        (b"sentence1\tsentence2\tscore\na\tb\n", "file:2.*3 columns"),
        (b"sentence1\tsentence2\tscore\na\t\t1\n", "file:2.*two sentences"),
        (b"sentence1\tsentence2\tscore\na\tb\t\n", "no pair has a score"),
        (b"sentence1,sentence2,score\na,b,nan\n", "no pair has a score"),
        (b'{"sentence1": "a", "score": 1}\n', "file:1.*sentence2"),
        (b'{"sentence1": "a", "sentence2": "b", "score": 1}\n{"\n', "file:2"),
        (b'"a b" c,d,1\n', "file:1"),
        (b"a,b,1\n\xff,b,2\n", "file:2"),
    ],
)
def test_what_does_not_belong_is_named(data, match):
    with pytest.raises(InputError, match=match):
        read_scored_pairs(data, "file")


@pytest.mark.parametrize("odd", ["NaN", "inf", "-Infinity", "n/a", "?"])
def test_what_is_no_score_is_left_out_and_counted(odd):
    lines = [f"the sea,the wide sea,{number % 5}" for number in range(29)]
    found = read_scored_pairs("\n".join([*lines, f"mud,sand,{odd}"]).encode(), "x.csv")
    assert (len(found), found.unscored) == (29, 1)
    with pytest.raises(InputError, match=r"x\.csv:30"):
        read_scored_pairs("\n".join([*lines, "mud,sand,good"]).encode(), "x.csv")
