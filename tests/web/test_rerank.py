"""Documents of a request in the order of their likeness to a query: requests as clients of Jina, Cohere and TEI send them."""

import numpy as np
import pytest

import wordpipe

DOCUMENTS = ["Rust eats iron.", "Bees find their way home.", "Salt draws water out of bread.", "qxqxq"]
BODIES = [
    # the client of Jina, LangChain's JinaRerank, Cohere's ClientV2 and LangChain's CohereRerank
    ("/v1/rerank", {"model": "records", "query": "salt water", "documents": DOCUMENTS, "top_n": 2}),
    (
        "/v1/rerank",
        {"query": "salt water", "documents": [{"text": one} for one in DOCUMENTS], "return_documents": False},
    ),
    (
        "/v2/rerank",
        {"model": "records", "query": "salt water", "documents": DOCUMENTS, "top_n": 3, "max_tokens_per_doc": 4096},
    ),
    ("/v2/rerank", {"model": "records", "query": "salt water", "documents": DOCUMENTS}),
]


@pytest.fixture(scope="module")
def cosines(records):
    with wordpipe.open(records, "index") as index:
        vectors = index.encode(["salt water", *DOCUMENTS])
    return vectors[1:] @ vectors[0]


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_documents_are_ranked_by_the_cosines_of_the_encoder(client, cosines, path, body):
    found = client.post(path, json=body, headers={"Authorization": "Bearer none", "X-Client-Name": "notes"}).json()
    results = found["results"]
    assert [one["index"] for one in results] == np.argsort(-cosines, kind="stable").tolist()[: body.get("top_n")]
    assert [one["relevance_score"] for one in results] == pytest.approx(
        [cosines[one["index"]] for one in results], abs=1e-6
    )
    assert found["meta"] == {"scored_by": "vectors"}
    assert found["model"] == "records"
    with_text = body.get("return_documents", True)
    assert [one.get("document") for one in results] == [
        {"text": DOCUMENTS[one["index"]]} if with_text else None for one in results
    ]
    assert next((one["relevance_score"] for one in results if one["index"] == 3), 0) == 0  # no known word, no vector


def test_texts_are_ranked_as_by_text_embeddings_inference(client, cosines):
    body = {"query": "salt water", "texts": DOCUMENTS, "raw_scores": False, "return_text": True, "truncate": True}
    found = client.post("/rerank", json=body).json()
    assert [one["index"] for one in found] == np.argsort(-cosines, kind="stable").tolist()
    assert [one["text"] for one in found] == [DOCUMENTS[one["index"]] for one in found]
    assert [set(one) for one in client.post("/rerank", json={"query": "salt", "texts": DOCUMENTS}).json()] == [
        {"index", "score"}
    ] * 4
    error = client.post("/rerank", json={"query": "salt", "texts": []}).json()
    assert error == {"error": "texts: there is no text; send texts that are not empty", "error_type": "Validation"}


def test_without_an_encoder_the_words_of_the_index_rank(serving, records, tmp_path):
    texts = ["Salt and water.", "Water of the sea.", "Water, water.", "The moon."]
    wordpipe.ingest([{"text": one} for one in texts], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "words", unit="document", language="english")
    alone = serving(tmp_path / "words")
    found = alone.post("/v1/rerank", json={"query": "salt water", "documents": texts}).json()
    assert found["meta"] == {"scored_by": "words"}
    hits = wordpipe.query(tmp_path / "words", "salt water", 9, mode="lexical")
    ranked = [(one["index"], one["relevance_score"]) for one in found["results"] if one["relevance_score"]]
    assert ranked == [(hit["row"], pytest.approx(hit["score"], rel=1e-5)) for hit in hits]
    assert (found["results"][-1]["index"], found["results"][-1]["relevance_score"]) == (3, 0)
    both = serving(tmp_path / "words", f"records={records}")  # the first encoder, though the index stands before it
    assert both.post("/v1/rerank", json={"query": "salt", "documents": texts}).json()["model"] == "records"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"documents": DOCUMENTS}, 400, "query is missing"),
        ({"query": " ", "documents": DOCUMENTS}, 400, "the query is empty"),
        ({"query": "salt"}, 400, "documents is missing"),
        ({"query": "salt", "documents": []}, 400, "there is no text"),
        ({"query": "salt", "documents": ["a", " "]}, 400, "a text is empty"),
        ({"query": "salt", "documents": [3]}, 400, "not a list of texts"),
        ({"query": "salt", "documents": [{"image": "x"}]}, 400, "not a list of texts"),
        ({"query": "salt", "documents": "salt"}, 400, "not a list of texts"),
        ({"query": "salt", "documents": ["a"] * 257}, 413, "at most 256"),
        ({"query": "salt", "documents": ["a" * 100_001]}, 400, "out of bounds"),
        ({"query": "salt", "documents": DOCUMENTS, "top_n": 0}, 400, "top_n"),
        ({"query": "qxqxq", "documents": DOCUMENTS}, 422, "the query has no vector"),
        ({"query": "salt", "documents": DOCUMENTS, "model": "colours"}, 400, "does not support rerank"),
        ({"query": "salt", "documents": DOCUMENTS, "model": "nope"}, 404, "choose one of"),
    ],
)
def test_what_cannot_be_ranked_is_refused(client, body, status, said):
    reply = client.post("/v1/rerank", json=body)
    assert reply.status_code == status
    assert said in reply.json()["error"]["message"]


def test_artifacts_that_can_be_searched_are_listed_as_vector_stores(client):
    found = client.get("/v1/vector_stores", params={"order": "asc"}).json()
    assert [one["id"] for one in found["data"]] == ["records", "index", "words"]
    assert found["data"][0]["file_counts"]["completed"] == 40
    assert (found["first_id"], found["last_id"], found["has_more"]) == ("records", "words", False)
    page = client.get("/v1/vector_stores", params={"order": "asc", "limit": 1, "after": "records"}).json()
    assert ([one["id"] for one in page["data"]], page["has_more"]) == (["index"], True)
    before = client.get("/v1/vector_stores", params={"order": "asc", "before": "index"}).json()
    assert [one["id"] for one in before["data"]] == ["records"]
    assert client.get("/v1/vector_stores", params={"after": "nope"}).status_code == 400
