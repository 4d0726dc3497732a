"""Collections in the layout of BEIR, and baselines; the oracles are scikit-learn and a whole singular value decomposition."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from tests.support.sparse_matrices import as_scipy, from_scipy
from wordpipe.errors import InputError
from wordpipe.search import LatentSpace, Tfidf, read_collection

CORPUS = [
    {"_id": "d1", "title": "Sea", "text": "the water"},
    {"_id": "d2", "text": "sand"},
    {"_id": "d3", "title": "", "text": ""},
]
QUERIES = [{"_id": "q2", "text": "beach"}, {"_id": "q1", "text": "salt"}, {"_id": "q9", "text": "nobody judged this"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td7\t1\nq2\td2\t0\nq5\td2\t1\n"


def lines(records) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def collection(corpus=None, queries=None, qrels=QRELS):
    files = (corpus or lines(CORPUS), queries or lines(QUERIES), qrels.encode())
    return read_collection(*zip(files, ("corpus", "queries", "qrels"), strict=True))


def test_what_is_in_it():
    found = collection()
    assert (found.documents, found.passages) == (["d1", "d2", "d3"], ["Sea the water", "sand", ""])
    assert (found.queries, found.questions) == (["q2", "q1", "q5"], ["beach", "salt", ""])
    assert found.grades == {"q1": {"d1": 2, "d7": 1}, "q2": {"d2": 0}, "q5": {"d2": 1}}
    assert found.counts == {
        "documents": 3,
        "documents_empty": 1,
        "queries": 3,
        "queries_unjudged": 1,
        "queries_without_relevant": 1,
        "queries_unknown": 1,
        "judgements": 4,
        "judged_documents_unknown": 1,
    }


@pytest.mark.parametrize(
    "qrels",
    [
        QRELS.partition("\n")[2],
        QRELS.replace("\t", " "),
        QRELS.partition("\n")[2].replace("\td", "\t0\td"),
        QRELS.replace("\n", "\r\n"),
        "\ufeff" + QRELS,
        QRELS + "q1\td1\t2\n\n",
    ],
)
def test_every_layout_of_judgements_says_the_same(qrels):
    assert collection(qrels=qrels).grades == collection().grades


def test_ids_may_be_numbers():
    found = collection(corpus=lines([{"_id": 1, "text": "a"}]), qrels="q1\t1\t1\n")
    assert found.documents == ["1"]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"corpus": b"\n"}, "corpus: the file is empty"),
        ({"corpus": lines(CORPUS) + b"{"}, "corpus:4"),
        ({"corpus": lines([*CORPUS, CORPUS[0]])}, "corpus:4.*twice.*d1"),
        ({"corpus": b'["_id"]\n'}, "corpus:1.*object"),
        ({"corpus": b'{"_id": "a"}\n'}, "corpus:1.*text"),
        ({"corpus": b'{"_id": "a", "text": ["b"]}\n'}, "corpus:1.*a string in title"),
        ({"queries": b"\xff\n"}, "queries:1.*UTF-8"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "no judgement"),
        ({"qrels": QRELS + "q1\td1\tx\n"}, "qrels:6.*whole number"),
        ({"qrels": QRELS + "q1\td1\t1.5\n"}, "qrels:6.*whole number"),
        ({"qrels": QRELS + "q1\td1\n"}, "qrels:6.*grade"),
        ({"qrels": QRELS + "q1\td1\t1\n"}, "qrels:6.*two different grades"),
        ({"qrels": "x\td1\t1\n"}, "no query of the judgements"),
        ({"qrels": "q1\tx\t1\n"}, "no document of the judgements"),
    ],
)
def test_what_does_not_belong_is_named(wrong, match):
    with pytest.raises(InputError, match=match):
        collection(**wrong)


def texts(n: int, seed: int, words: int = 40) -> list[str]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    return [
        " ".join(f"w{i}" for i in rng.choice(words, size, p=weights / weights.sum())) for size in rng.integers(0, 30, n)
    ]


@pytest.mark.landing
def test_it_is_that_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    known, asked = texts(60, 1), [*texts(20, 2, words=80), "", "unheard of"]
    other = text.TfidfVectorizer(sublinear_tf=True, analyzer=str.split).fit(known)
    ours = Tfidf.fit(known, str.split)
    columns = [ours.column_of[term] for term in other.get_feature_names_out()]
    assert sorted(columns) == list(range(len(ours.idf)))
    for some in (known, asked):
        np.testing.assert_allclose(
            as_scipy(ours.vectors(some)).toarray()[:, columns], other.transform(some).toarray(), atol=1e-6
        )


def test_rows_have_length_one_and_what_is_unknown_is_empty():
    tfidf = Tfidf.fit(texts(40, 3), str.split)
    lengths = np.sqrt((as_scipy(tfidf.vectors([*texts(9, 4), "", "unheard"])).toarray() ** 2).sum(axis=1))
    assert set(lengths[-2:]) == {0}
    assert lengths[:-2][lengths[:-2] > 0] == pytest.approx(1)
    assert Tfidf.fit(["", ""], str.split).vectors(["a", ""]).shape == (2, 0)
    assert tfidf.vectors([]).shape[0] == 0


def test_directions_are_the_leading_singular_vectors():
    matrix = Tfidf.fit(texts(50, 5), str.split).vectors(texts(50, 5))
    space = LatentSpace.fit(matrix, 10)
    _, values, exact = np.linalg.svd(as_scipy(matrix).toarray().astype(np.float64), full_matrices=False)
    assert values[9] - values[10] > 1e-3
    np.testing.assert_allclose(np.abs(exact[:10] @ space.directions), np.eye(10), atol=1e-4)
    again = LatentSpace.fit(matrix, 10)
    assert np.array_equal(space.directions, again.directions)
    projected = as_scipy(matrix) @ exact[:10].T
    cosines = projected @ projected.T / np.linalg.norm(projected, axis=1).clip(1e-9)[:, None]
    cosines /= np.linalg.norm(projected, axis=1).clip(1e-9)
    found = space.vectors(matrix)
    np.testing.assert_allclose(found @ found.T, cosines, atol=1e-4)


@pytest.mark.parametrize("shape", [(1100, 1900), (1900, 1100)])
def test_directions_of_a_large_matrix_are_nearly_those_of_arpack(shape):
    rng = np.random.default_rng()
    topics = rng.choice(12, shape[0], p=np.linspace(20, 9, 12) / np.linspace(20, 9, 12).sum())
    of_topic = topics[:, None] == np.arange(shape[1]) % 14
    there = rng.random(shape) < np.where(of_topic, 0.3, 0.003)
    matrix = csr_array((there * rng.uniform(0.5, 1, shape)).astype(np.float32))
    space = LatentSpace.fit(from_scipy(matrix), 30)
    _, values, exact = svds(matrix.astype(np.float64), k=30, return_singular_vectors="vh")
    np.testing.assert_allclose(space.directions.T @ space.directions, np.eye(30), atol=1e-4)
    assert np.linalg.norm(matrix @ space.directions) ** 2 > 0.99 * (values**2).sum()
    apart = values > 1.5 * values[0]  # what stands out of the noise is the same
    assert np.linalg.norm(exact[apart] @ space.directions, axis=1).min() > 0.999
    assert np.array_equal(space.directions, LatentSpace.fit(from_scipy(matrix), 30).directions)


@pytest.mark.parametrize("turned", [False, True])
def test_texts_with_few_directions_have_no_others(turned):
    rng = np.random.default_rng(4)
    few = np.zeros((5, 1100), np.float32)
    few[np.arange(5)[:, None], rng.permutation(1100)[:50].reshape(5, 10)] = 1
    matrix = csr_array(few[rng.integers(0, 5, 1300)])
    matrix = csr_array(matrix.T) if turned else matrix
    space = LatentSpace.fit(from_scipy(matrix), 20)
    assert np.isfinite(space.directions).all()
    lengths = np.linalg.norm(matrix @ space.directions, axis=0)
    assert (lengths > 1e-3).sum() == 5
    np.testing.assert_allclose((matrix @ space.directions) @ space.directions.T, matrix.toarray(), atol=1e-3)


def test_a_small_matrix_has_few_directions():
    for words, dim in (("a b c", 2), ("a", 0), ("", 0)):
        matrix = Tfidf.fit([words, "a", ""], str.split).vectors([words, "a", ""])
        space = LatentSpace.fit(matrix, 300)
        assert space.directions.shape == (matrix.shape[1], dim)
        assert space.vectors(matrix).shape == (3, dim)
        assert np.isfinite(space.vectors(matrix)).all()
