"""Texts that have no vector: in every kind of index, found by words, ids and conditions, and by no vector."""

import json

import numpy as np
import pytest

import wordpipe
from tests.support.made_vectors import made_sentences, made_words
from tests.support.ranking import assert_best
from wordpipe import RunOptions
from wordpipe.artifacts import ROWS_WITHOUT_VECTOR, Artifact, rows_without_vector
from wordpipe.errors import ArtifactError, InputError
from wordpipe.search.settings import QueryOptions

DIM, WORDS = 8, 60
SETTINGS = {"device": "cpu", "transform": "none", "threads": 1}


def encoder(folder):
    """Words w0 … w59; all others are unknown."""
    vectors_ND = np.random.default_rng(5).standard_normal((WORDS, DIM)).astype(np.float32)
    return made_words(folder / "words", vectors_ND, [5] * WORDS)


def records(n, seed=1, first=0):
    """Each of four known words, with an id."""
    rng = np.random.default_rng(seed)
    return [
        {"id": f"r{first + row}", "title": f"title {row}", "text": " ".join(f"w{w}" for w in rng.integers(0, WORDS, 4))}
        for row in range(n)
    ]


def strange(n):
    """Texts of words that are nowhere else, with a common one: zzz."""
    return [{"id": f"neo{row}", "title": None, "text": f"xylomorph{row} zzz"} for row in range(n)]


def mixed(some, others):
    """The others among them, the first and the last."""
    found = list(some)
    for at, one in zip(np.linspace(0, len(some), len(others)).astype(int)[::-1].tolist(), others, strict=True):
        found.insert(at, one)
    return found


def embedded(folder, rows, **settings):
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    wordpipe.ingest(folder / "c.jsonl", output=folder / "c", deduplicate=False, valid=0.0)
    return wordpipe.embed(
        folder / "words", folder / "c", output=folder / "s", **{"unit": "document", **SETTINGS, **settings}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Sentences and a flat index of 150 texts, seven of them without a vector."""
    folder = tmp_path_factory.mktemp("novec")
    encoder(folder)
    rows = mixed(records(143), strange(7))
    embedded(folder, rows)
    wordpipe.index(folder / "s", output=folder / "i", threads=1)
    return folder, rows


def is_strange(hit):
    return hit["id"].startswith("neo")


# ---- what is made


def test_they_are_rows_with_zeros_and_are_counted_and_listed(made):
    folder, rows = made
    with Artifact(folder / "s") as sentences, Artifact(folder / "i") as index:
        without = [row for row, one in enumerate(rows) if one["id"].startswith("neo")]
        assert rows_without_vector(sentences).tolist() == rows_without_vector(index).tolist() == without
        assert sentences.manifest.counts["sentences"] == 150
        assert sentences.manifest.counts["without_vector"] == index.manifest.counts["without_vector"] == 7
        assert index.manifest.counts["vectors"] == 143
    with wordpipe.open(folder / "i") as index:
        table = index.batches(["row", "record_id", "vector"]).read_all().to_pylist()
        assert [one["record_id"] for one in table] == [one["id"] for one in rows]
        assert [one["row"] for one in table] == [*range(150)]
        assert [row for row, one in enumerate(table) if not any(one["vector"])] == without
        assert len(index) == 150


def test_embed_and_index_say_how_many_there_are(tmp_path):
    encoder(tmp_path)
    said = []
    run = RunOptions(report=lambda progress: said.append(progress.note or ""))
    made = embedded(tmp_path, mixed(records(60), strange(3)), run=run)
    assert [note for note in said if note.startswith("3 of 63 documents (4.8%) have no vector")]
    assert not made.warnings
    wordpipe.index(tmp_path / "s", output=tmp_path / "i", run=run)
    assert "3 of 63 texts have no vector, so a search finds these texts only by words, id or condition" in said


def test_where_all_have_one_nothing_is_listed(tmp_path):
    encoder(tmp_path)
    embedded(tmp_path, records(12))
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    with Artifact(tmp_path / "s") as sentences, Artifact(tmp_path / "i") as index:
        assert ROWS_WITHOUT_VECTOR not in sentences.names() + index.names()
        assert "without_vector" not in index.manifest.counts


# ---- what finds them


@pytest.mark.parametrize(
    "options", [{}, {"mode": "hybrid"}, {"mode": "lexical"}, {"weight": 0.5}, {"per_document": True}]
)
@pytest.mark.parametrize("query", ["xylomorph3", "w1 w2 xylomorph3"])
def test_words_find_them(made, query, options):
    hits = wordpipe.query(made[0] / "i", query, k=150, **options)
    assert "neo3" in [hit["id"] for hit in hits]
    assert all(np.isfinite(hit["score"]) for hit in hits)
    explained = wordpipe.query(made[0] / "i", query, k=150, explain=True, **options)
    (one,) = [hit["explain"] for hit in explained if hit["id"] == "neo3"]
    assert "dense" not in one
    assert one["lexical"]["score"] > 0


def test_a_fused_score_is_that_of_the_words_alone(made):
    """What vectors did not find has nothing of their share."""
    for weight in (0.2, 0.8):
        hits = wordpipe.query(made[0] / "i", "w1 w2 xylomorph3", k=150, weight=weight, explain=True, feedback=0)
        (one,) = [hit for hit in hits if hit["id"] == "neo3"]
        assert one["score"] == pytest.approx(one["explain"]["lexical"]["share"], abs=1e-6)
        assert one["score"] == pytest.approx(1 - weight, abs=1e-6)


def test_conditions_and_ids_find_them(made):
    (hit,) = wordpipe.query(made[0] / "i", "zzz", where="id = 'neo3'")
    assert hit["id"] == "neo3"
    with wordpipe.open(made[0] / "i", "index") as index:
        row = index.row_of("neo3")
        assert index.fulfilling(QueryOptions(where="id = 'neo3'"), 5)[1] == 1
        with pytest.raises(InputError, match="no vector"):
            index.similar(row)


def test_no_vector_finds_them(made):
    with wordpipe.open(made[0] / "i", "index") as index:
        for query in ("w1", "w5 w9", "w1 zzz"):
            hits = index.query(query, k=150, mode="dense")
            assert len(hits) == 143
            assert not any(map(is_strange, hits))
        near = index.similar(index.row_of("r5"), k=150)
        assert len(near) == 142
        assert not any(map(is_strange, near))
        assert index.query("w1", mode="dense", where="id like 'neo%'") == []
        assert len(index.query("w1", k=9, mode="dense", where="id like 'neo%' or id in ('r1', 'r2')")) == 2
        asked = QueryOptions(mode="dense", where="id like 'neo%'")
        assert "7 of 150 rows, and none of these rows has a vector" in str(index.nothing_found(asked, "w1"))


def test_they_are_nobodys_duplicates(made):
    for artifact in ("s", "i"):
        found = wordpipe.duplicates(made[0] / artifact, threshold=-1.0, n=1)
        assert (found["rows"], found["largest"]) == (150, 143)
        assert not any(map(is_strange, found["shown"][0]))
        twins = wordpipe.duplicates(made[0] / artifact, threshold=0.9999)
        assert not any(is_strange(row) for group in twins["shown"] for row in group)


def test_clusters_leave_them_in_a_group_of_their_own(made, tmp_path, cli):
    result = wordpipe.cluster(made[0] / "s", output=tmp_path / "k", k=3)
    assert result.counts == {"texts": 150, "clusters": 3, "without_vector": 7}
    with wordpipe.open(tmp_path / "k", "clusters") as clusters:
        groups = [list(clusters.members(number)) for number in range(-1, 3)]
        assert {one["id"] for one in groups[0]} == {f"neo{row}" for row in range(7)}
        assert {one["similarity"] for one in groups[0]} == {None}
        assert not any(is_strange(one) for group in groups[1:] for one in group)
        assert [len(group) for group in groups[1:]] == clusters.batches(["size"]).read_all()["size"].to_pylist()
        assert not any("zzz" in label for label in clusters.labels)
    shown = cli("show", tmp_path / "k", "--cluster", "-1")
    assert len(shown.out.splitlines()) == 7
    with pytest.raises(InputError, match="larger than the number of texts with a vector"):
        wordpipe.cluster(made[0] / "s", output=tmp_path / "k", k=144)


@pytest.mark.parametrize("artifact", ["s", "i"])
def test_the_doctor_counts_them_apart(made, artifact):
    found = wordpipe.doctor(made[0] / artifact)
    assert (found["counts"]["without_vector"], found["counts"]["zero"], found["counts"]["sampled"]) == (7, 0, 143)
    assert all(np.isfinite(value) for value in found["metrics"].values())


def test_an_export_has_a_row_for_each(made, tmp_path):
    found = wordpipe.export(made[0] / "s", "npy", tmp_path / "v.npy")
    assert (found["vectors"], found["without_vector"]) == (150, 7)
    assert (~np.load(tmp_path / "v.npy").any(axis=1)).sum() == 7


# ---- updates


def test_a_daily_update_with_a_new_word(made, tmp_path):
    """As docs/tasks/updating.md has it; then the text is given known words, and another one goes."""
    encoder(tmp_path)
    rows = records(80)
    embedded(tmp_path, rows)
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    assert wordpipe.query(tmp_path / "i", "xylomorph0", mode="lexical") == []

    later = mixed(rows, strange(2))
    assert embedded(tmp_path, later, update=True).counts["without_vector"] == 2
    made_ = wordpipe.index(tmp_path / "s", output=tmp_path / "i", update=True)
    assert [made_.counts[name] for name in ("vectors", "kept", "added", "removed", "without_vector")] == [
        80,
        80,
        2,
        0,
        2,
    ]
    assert wordpipe.query(tmp_path / "i", "xylomorph0")[0]["id"] == "neo0"

    again = embedded(tmp_path, later, update=True)
    assert (again.counts["texts_embedded"], again.counts["without_vector"]) == (0, 2)

    changed = [{**row, "text": "w3 w4"} if row["id"] == "neo0" else row for row in later if row["id"] != "neo1"]
    assert embedded(tmp_path, changed, update=True).counts["without_vector"] == 0
    made_ = wordpipe.index(tmp_path / "s", output=tmp_path / "i", update=True)
    assert [made_.counts[name] for name in ("vectors", "kept", "added", "removed")] == [81, 80, 1, 2]
    assert [hit["id"] for hit in wordpipe.query(tmp_path / "i", "zzz", mode="lexical")] == []
    assert "neo0" in [hit["id"] for hit in wordpipe.query(tmp_path / "i", "w3 w4", k=3)]


def test_a_transform_is_fitted_without_them_and_they_stay_zero(tmp_path):
    encoder(tmp_path)
    alone = records(120)
    embedded(tmp_path, alone, transform="whiten", dims=4, store="float32")
    plain = np.stack(wordpipe.open(tmp_path / "s").batches(["vector"]).read_all()["vector"].to_pylist())
    embedded(tmp_path, mixed(alone, strange(5)), transform="whiten", dims=4, store="float32")
    vectors = np.stack(wordpipe.open(tmp_path / "s").batches(["vector"]).read_all()["vector"].to_pylist())
    assert np.isfinite(vectors).all()
    there = vectors.any(axis=1)
    assert (~there).sum() == 5
    np.testing.assert_allclose(vectors[there], plain, atol=1e-4)


# ---- kinds of index


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_an_index_of_each_kind_is_as_without_them(tmp_path, kind):
    """The vectors are the same, so the faiss file is, to the byte; rows are those of the table."""
    encoder(tmp_path)
    some, others = records(1_100), strange(40)
    embedded(tmp_path, some)
    plain = wordpipe.index(tmp_path / "s", output=tmp_path / "plain", type=kind, threads=1)
    embedded(tmp_path, mixed(some, others))
    made = wordpipe.index(tmp_path / "s", output=tmp_path / "i", type=kind, threads=1)
    assert made.metrics["recall_at_10"] == plain.metrics["recall_at_10"]
    with Artifact(tmp_path / "plain") as one, Artifact(tmp_path / "i") as other:
        assert one.read("index.faiss") == other.read("index.faiss")
    options = {"k": 300, "mode": "dense"}
    with wordpipe.open(tmp_path / "plain") as one, wordpipe.open(tmp_path / "i", "index") as other:
        for query in ("w1", "w2 w3", "w4 zzz"):
            for where in (None, "title like '%7%'", "id = 'r8' or id = 'neo5'"):
                expected, found = (index.query(query, where=where, **options) for index in (one, other))
                assert [(hit["id"], hit["score"]) for hit in found] == [(hit["id"], hit["score"]) for hit in expected]
                assert len({hit["row"] for hit in found}) == len(found)
        assert other.query("xylomorph7 w1")[0]["id"] == "neo7"
        rows = np.arange(0, len(other), 7)
        table = np.stack(other.batches(["vector"]).read_all()["vector"].to_pylist())
        np.testing.assert_allclose(other.vector_index(None).vectors(rows), table[rows], atol=1e-6)


def test_lists_are_changed_in_place(tmp_path):
    """A row without a vector that comes, goes or gets one, in an index of codes: answers are those of the table."""
    encoder(tmp_path)
    some = records(1_200)
    embedded(tmp_path, mixed(some, strange(20)))
    wordpipe.index(tmp_path / "s", output=tmp_path / "i", type="ivf-pq", threads=1, nprobe=30, refine=128)
    others = [one if row % 4 else {**one, "text": f"w{row} w{row + 1}"} for row, one in enumerate(strange(40)[7:])]
    embedded(tmp_path, mixed(some[11:], others), update=True)
    made = wordpipe.index(
        tmp_path / "s", output=tmp_path / "i", type="ivf-pq", threads=1, nprobe=30, refine=128, update=True
    )
    assert made.counts["kept"] > 1_190
    assert wordpipe.open(tmp_path / "i").artifact.fact("changed_since_built", int) > 0
    with wordpipe.open(tmp_path / "i", "index") as index:
        rows = index.batches(["record_id", "vector"]).read_all().to_pylist()
        table = {row["record_id"]: np.array(row["vector"]) for row in rows}
        for query in ("w1", "w8 w9", "w20"):
            hits = index.query(query, k=20, mode="dense")
            (query_D,) = index.encode([query])
            assert len(hits) == 20
            for hit in hits:
                assert hit["score"] == pytest.approx(table[hit["id"]] @ query_D, abs=1e-5)
                assert table[hit["id"]].any()


# ---- errors


def test_an_index_of_texts_of_which_none_has_a_vector_is_refused(tmp_path):
    encoder(tmp_path)
    with pytest.raises(InputError, match="no text of the corpus has a vector") as caught:
        embedded(tmp_path, strange(3))
    assert "train the encoder on similar texts" in str(caught.value)


def test_zeros_that_nobody_listed_are_no_vectors(tmp_path):
    """What comes from elsewhere is damaged and not without a vector."""
    vectors_ND = np.eye(6, dtype=np.float32)
    vectors_ND[3] = 0
    with pytest.raises(wordpipe.WordpipeError, match="zero or not finite"):
        wordpipe.index(made_sentences(tmp_path / "s", vectors_ND, ["a text"] * 6), output=tmp_path / "i")


@pytest.mark.parametrize("rows", [[3, 2], [0, 6], [-1, 2], [[1], [2]], [1.0, 2.0], [2, 2]])
def test_a_list_of_other_rows_is_refused(tmp_path, rows):
    encoder(tmp_path)
    embedded(tmp_path, mixed(records(4), strange(2)))
    np.save(tmp_path / "s" / ROWS_WITHOUT_VECTOR, np.array(rows), allow_pickle=False)
    with Artifact(tmp_path / "s", verify=False) as sentences, pytest.raises(ArtifactError, match="list of row numbers"):
        rows_without_vector(sentences)


def test_an_index_is_asked_row_by_row_after_a_slow_twin():
    """`VectorIndex` with rows left out, against a product of matrices."""
    import faiss

    from wordpipe.search import VectorIndex

    rng = np.random.default_rng()
    for _ in range(30):
        n, k = int(rng.integers(2, 40)), int(rng.integers(1, 50))
        vectors_ND = rng.standard_normal((n, 5)).astype(np.float32)
        vectors_ND /= np.linalg.norm(vectors_ND, axis=1, keepdims=True)
        has = rng.random(n) < 0.6
        has[0] = True
        vectors_ND[~has] = 0
        allowed = None if rng.random() < 0.4 else rng.random(n) < 0.5
        faiss_index = faiss.IndexFlatIP(5)
        faiss_index.add(vectors_ND[has])
        index = VectorIndex(faiss_index, allowed, np.flatnonzero(has))
        query_D = rng.standard_normal(5).astype(np.float32)
        (hits,) = index.search(query_D[None], k)
        may = has if allowed is None else has & allowed
        scores = vectors_ND @ (query_D / np.linalg.norm(query_D))
        # five products of numbers below 1, rounded once here and once in faiss
        assert_best(hits.rows.tolist(), np.where(may, scores, -np.inf), min(k, int(may.sum())), 5 * 2**-23)
        np.testing.assert_allclose(index.vectors(np.arange(n)), vectors_ND, atol=1e-6)
