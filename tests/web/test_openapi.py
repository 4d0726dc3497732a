"""The OpenAPI document: every route is in it, and what the server answers is what it says."""

import json

import pytest
from jsonschema import Draft202012Validator

REQUESTS = [
    ("get", "/search", {"q": "salt", "format": "json", "passage": 60, "explain": 1}, None),
    ("get", "/search", {"q": "saltt wxyz", "format": "json", "where": "year > 3000"}, None),
    ("get", "/search", {"q": "water + salt", "format": "json", "index": "words"}, None),
    ("get", "/search", {}, None),
    ("get", "/similar", {"row": 3, "format": "json"}, None),
    ("get", "/neighbours", {"word": "water"}, None),
    ("get", "/neighbours", {"word": "watre"}, None),
    ("get", "/facets", {"where": "year < 2000"}, None),
    ("get", "/facets", {"index": "index"}, None),
    ("get", "/fill", {"text": "a [MASK]"}, None),
    ("get", "/predict", {"text": "7 is red"}, None),
    ("get", "/attention", {"text": "salt and water", "model": "model", "layer": 1, "head": 1}, None),
    ("get", "/attention", {"text": "salt", "layer": 999}, None),
    ("get", "/map", {"layout": "pca"}, None),
    ("get", "/doctor", {"artifact": "words"}, None),
    ("get", "/doctor", {"artifact": "colours"}, None),
    ("get", "/about", {}, None),
    ("get", "/about", {"artifact": "words"}, None),
    ("get", "/health", {}, None),
    ("get", "/v1/models", {}, None),
    ("get", "/v1/models/clm", {}, None),
    ("get", "/v1/models/none", {}, None),
    ("post", "/v1/embeddings", {}, {"input": ["a b", "salt"], "model": "words"}),
    ("post", "/v1/embeddings", {}, {"input": "salt", "encoding_format": "base64"}),
    ("post", "/v1/embeddings", {}, {"input": [1]}),
    ("post", "/v1/vector_stores/records/search", {}, {"query": "salt"}),
    ("post", "/v1/vector_stores/words/search", {}, {"query": "salt"}),
    ("post", "/v1/vector_stores/none/search", {}, {"query": "salt"}),
    ("post", "/v1/completions", {}, {"prompt": "The", "max_tokens": 2}),
    ("post", "/embed", {}, {"inputs": ["salt"]}),
    ("post", "/embed", {}, {"inputs": [7]}),
    ("get", "/info", {}, None),
]


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


def operation_of(document, method, path):
    at = {"/v1/vector_stores": "/v1/vector_stores/{index}/search", "/v1/models/": "/v1/models/{name}"}
    named = next((whole for start, whole in at.items() if path.startswith(start)), path)
    return document["paths"][named][method]


@pytest.mark.parametrize(("method", "path", "params", "body"), REQUESTS, ids=lambda value: str(value)[:40])
def test_what_is_answered_is_what_the_document_says(client, document, method, path, params, body):
    operation = operation_of(document, method, path)
    reply = client.request(method, path, params=params, json=body)
    said = operation["responses"]["200" if reply.status_code == 200 else "4XX"]
    schema = said["content"]["application/json"]["schema"]
    assert reply.headers["Content-Type"] == "application/json"
    Draft202012Validator({**schema, "components": document["components"]}).validate(reply.json())
    assert set(params) <= {one["name"] for one in operation["parameters"]}
    if body is not None and reply.status_code == 200:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": document["components"]}).validate(body)


def test_every_route_is_in_it_with_its_parameters(client, document):
    app = client.app
    assert {route.path for route in app.routes} == set(document["paths"])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
            if method == "get" and path not in ("/health", "/v1/models", "/v1/models/{name}"):
                error = client.get(path, params={"nope": 1}).json()["error"]
                if error["what"] == "unknown parameter":
                    assert set(filter(None, error["expected"].split(", "))) == names, path


def test_schemas_are_schemas(document):
    assert document["openapi"].startswith("3.1")
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    names = [operation["operationId"] for one in document["paths"].values() for operation in one.values()]
    assert len(set(names)) == len(names)
    assert "#/components/schemas/Result" in json.dumps(document)
