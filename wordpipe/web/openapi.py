"""The OpenAPI document (3.1) of the server, at `/openapi.json`: every path, its parameters, bodies and answers."""

from typing import Any

from wordpipe import __version__
from wordpipe.web.endpoints.models import MAX_CANDIDATES, MAX_PROMPTS, MAX_STOPS, MAX_TOKENS
from wordpipe.web.endpoints.search import FACET_VALUES, MAX_ROOM
from wordpipe.web.settings import ServeSettings

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_ANY: Schema = {}


def document(settings: ServeSettings) -> Schema:
    """The document of a server with these limits; with a token, where one is needed."""
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "wordpipe", "version": __version__, "description": "Search, vectors and models over HTTP."},
        "paths": {path: {method: _operation(method, path, *rest)} for path, method, *rest in _paths(settings)},
        "components": {"schemas": _SCHEMAS},
    }
    if settings.token_file is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(needed: Schema, others: Schema | None = None, *, closed: bool = True) -> Schema:
    """An object with these fields, those of `others` not always; no others where it is closed."""
    found = {"type": "object", "properties": {**needed, **(others or {})}, "required": [*needed]}
    return found | {"additionalProperties": False} if closed else found


_MAP: Schema = {"type": "object"}
_WORDS_NEAR: Schema = {"type": "object", "additionalProperties": _list(_TEXT)}
_HIT = _object(
    {"rank": {"type": "integer", "minimum": 1}, "score": _NUMBER, "row": {"type": "integer", "minimum": 0}},
    {
        "id": _ANY, "doc_id": _TEXT, "sentence_id": _WHOLE, "title": _maybe(_TEXT), "text": _TEXT, "word": _TEXT,
        "count": _WHOLE, "source": _TEXT, "line": _WHOLE, "anchor": _maybe(_TEXT), "split": _TEXT,
        "metadata": _MAP, "explain": _MAP,
    },
    closed=False,
)  # fmt: skip
_PIECES = _list({"type": "array", "prefixItems": [_TEXT, _FLAG], "minItems": 2, "maxItems": 2})
_PASSAGE = _object({"pieces": _PIECES, "before": _FLAG, "after": _FLAG, "has_vector": _FLAG}, {"title": _PIECES})
_RESULT = _object(
    {
        "query": _TEXT, "index": _TEXT, "digest": _TEXT, "k": _WHOLE, "seconds": _NUMBER,
        "mode": _maybe({"enum": ["dense", "lexical", "hybrid"]}), "hits": _list(_ref("Hit")), "unknown": _WORDS_NEAR,
        "guessed": _list(_TEXT), "by_words": _list(_TEXT),
    },
    {
        "nothing": _maybe(_object({"message": _TEXT, "hint": _maybe(_TEXT)})), "passages": _list(_ref("Passage")),
        "row": _WHOLE,
    },
)  # fmt: skip
_COLUMN = _object(
    {
        "name": _TEXT, "type": _TEXT, "values": _list(_object({"value": _ANY, "count": _WHOLE})), "distinct": _maybe(_WHOLE),
        "missing": _maybe(_WHOLE), "filter": _FLAG,
    },
    {"least": _ANY, "largest": _ANY},
)  # fmt: skip
_STATE = {
    "name": _TEXT, "kind": _TEXT, "digest": _TEXT, "since": _NUMBER, "swaps": _WHOLE, "error": _maybe(_TEXT),
    "without_vector": _WHOLE,
}  # fmt: skip
_ARTIFACT = {
    **_STATE, "path": _TEXT, "can": _list(_TEXT), "command": _TEXT, "rows": _maybe(_WHOLE), "dim": _maybe(_WHOLE),
    "metrics": _MAP, "counts": _MAP, "warnings": _list(_TEXT),
}  # fmt: skip
_MODEL = _object(
    {
        "id": _TEXT,
        "object": {"const": "model"},
        "created": _WHOLE,
        "owned_by": _TEXT,
        "kind": _TEXT,
        "can": _list(_TEXT),
        "digest": _TEXT,
    }
)
_USAGE = _object({"prompt_tokens": _WHOLE, "total_tokens": _WHOLE}, {"completion_tokens": _WHOLE})
_SCHEMAS: Schema = {
    "Hit": _HIT,
    "Passage": _PASSAGE,
    "Result": _RESULT,
    "Error": _object(
        {"error": _object(
            {"message": _TEXT, "type": _TEXT, "code": _maybe(_TEXT)},
            {name: _maybe(_TEXT) for name in ("what", "where", "got", "expected", "hint")},
        )}
    ),
    "TeiError": _object({"error": _TEXT, "error_type": _TEXT}),
    "Health": _object(
        {"status": {"enum": ["ok", "stale", "stopping"]}},
        {"version": _TEXT, "seconds": _NUMBER, "artifacts": _list(_object(_STATE))},
    ),
    "Artifact": _object(_ARTIFACT, {"manifest": _MAP}),
    "About": _object({"version": _TEXT, "artifacts": _list(_ref("Artifact")), "limits": _MAP}),
    "Facets": _object({
        "index": _TEXT, "digest": _TEXT, "where": _maybe(_TEXT), "rows": _WHOLE, "total": _WHOLE,
        "among": {"enum": ["rows", "matches"]}, "columns": _list(_COLUMN),
    }),
    "Neighbours": _object({
        "word": _TEXT, "words": _TEXT, "digest": _TEXT,
        "neighbours": _list(_object({"word": _TEXT, "score": _NUMBER}, closed=False)),
    }),
    "Filled": _object({
        "model": _TEXT, "digest": _TEXT, "mask": _TEXT, "text": _TEXT, "filled": _TEXT, "masks": _list(_list(_MAP)),
        "cut": _WHOLE, "fillings": _list(_MAP),
    }),
    "Predicted": _object({"model": _TEXT, "digest": _TEXT, "text": _ANY, "cut": _WHOLE}, closed=False),
    "Attention": _object({
        "model": _TEXT, "digest": _TEXT, "text": _TEXT, "kind": _TEXT, "kinds": _list(_TEXT), "layer": _WHOLE,
        "layers": _WHOLE, "head": _maybe(_WHOLE), "heads": _WHOLE, "queries": _list(_TEXT), "keys": _list(_TEXT),
        "weights": _list(_list(_NUMBER)), "notes": _list(_TEXT),
    }),
    "WordMap": _object({
        "words": _TEXT, "digest": _TEXT, "layout": {"enum": ["umap", "pca"]}, "neighbours_kept": _NUMBER,
        "install": _maybe(_TEXT), "groups": _list(_list(_TEXT)),
        "points": _list(_object({"word": _TEXT, "count": _WHOLE, "x": _NUMBER, "y": _NUMBER, "group": _WHOLE})),
    }),
    "Examined": _object({
        "artifact": _TEXT, "digest": _TEXT, "kind": _TEXT, "sample": _WHOLE, "metrics": _MAP, "command": _TEXT,
        "findings": _list(_object({
            "name": _TEXT, "state": {"enum": ["sick", "weak", "unknown", "healthy"]}, "says": _TEXT, "mend": _TEXT,
        })),
    }),
    "Model": _MODEL,
    "Models": _object({"object": {"const": "list"}, "data": _list(_ref("Model"))}),
    "Embeddings": _object({
        "object": {"const": "list"}, "model": _TEXT, "usage": _USAGE,
        "data": _list(_object({
            "object": {"const": "embedding"}, "index": _WHOLE, "embedding": {"anyOf": [_TEXT, _list(_NUMBER)]},
        })),
    }),
    "Vectors": _list(_list(_NUMBER)),
    "Info": _object({
        "model_id": _TEXT, "model_sha": _TEXT, "model_dtype": _TEXT, "model_type": _MAP, "max_concurrent_requests": _WHOLE,
        "max_input_length": _WHOLE, "max_batch_tokens": _WHOLE, "max_client_batch_size": _WHOLE, "auto_truncate": _FLAG,
        "tokenization_workers": _WHOLE, "version": _TEXT, "dim": _WHOLE,
    }),
    "Found": _object({
        "object": {"const": "vector_store.search_results.page"}, "search_query": _list(_TEXT), "has_more": _FLAG,
        "next_page": _maybe(_TEXT),
        "data": _list(_object({
            "file_id": _TEXT, "filename": _TEXT, "score": _NUMBER, "attributes": _MAP,
            "content": _list(_object({"type": {"const": "text"}, "text": _TEXT})),
        })),
    }),
    "Completion": _object({
        "id": _TEXT, "object": {"const": "text_completion"}, "created": _WHOLE, "model": _TEXT, "usage": _USAGE,
        "choices": _list(_object({
            "text": _TEXT, "index": _WHOLE, "logprobs": {"type": "null"}, "finish_reason": {"enum": ["stop", "length"]},
        })),
    }),
}  # fmt: skip


def _paths(settings: ServeSettings) -> list[tuple[Any, ...]]:
    """Path, method, summary, schema of the answer, parameters (name, schema, required) and schema of the body."""
    k = ("k", {"type": "integer", "minimum": 1, "maximum": settings.max_k, "default": 10})
    index, where, least = ("index", _TEXT), ("where", _list(_TEXT)), ("min_score", _NUMBER)
    form = ("format", {"enum": ["lines", "json"], "default": "lines"})
    chosen = ("f", {**_TEXT, "description": 'chosen values of columns: [["lang", "de"], ["lang", "en"]]'})
    said = {"type": "string", "minLength": 1, "maxLength": settings.max_chars, "pattern": r"\S"}
    texts = {"anyOf": [said, {"type": "array", "items": said, "minItems": 1, "maxItems": settings.max_texts}]}
    prompt = {"type": "string", "maxLength": settings.max_chars}
    stop = {"type": "string", "minLength": 1}
    dimensions = {"type": "integer", "minimum": 1}
    completion = _object({"prompt": _one_or_more(prompt, MAX_PROMPTS)}, {
        "model": _TEXT, "max_tokens": _between(1, MAX_TOKENS), "temperature": {"type": "number", "minimum": 0},
        "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "n": _between(1, MAX_PROMPTS), "seed": _WHOLE,
        "stop": {"anyOf": [stop, {"type": "array", "items": stop, "maxItems": MAX_STOPS}]},
        "stream": _FLAG, "stream_options": _object({}, {"include_usage": _FLAG}, closed=False),
    }, closed=False)  # fmt: skip
    search = _object({"query": _one_or_more(said, None)}, {
        "max_num_results": _between(1, settings.max_k), "filters": _MAP, "ranking_options": _MAP, "rewrite_query": _FLAG,
    }, closed=False)  # fmt: skip
    options = [
        ("mode", {"enum": ["auto", "dense", "lexical", "hybrid"], "default": "auto"}),
        ("weight", {"type": "number", "minimum": 0, "maximum": 1}), ("feedback", _between(0, 1_000)),
        ("per_document", _FLAG), ("explain", _FLAG), ("passage", _between(0, MAX_ROOM)),
    ]  # fmt: skip
    return [
        ("/search", "get", "The hits of a query.", "Result",
         [("q", said, True), k, index, where, chosen, least, form, *options]),
        ("/similar", "get", "The rows nearest to a row.", "Result",
         [("row", {"type": "integer", "minimum": 0}), ("id", _TEXT), k, index, where, chosen, least, form]),
        ("/neighbours", "get", "The words nearest to a word.", "Neighbours", [("word", said, True), k, ("words", _TEXT)]),
        ("/facets", "get", "The fields of the rows, with counts of values.", "Facets",
         [("q", _TEXT), index, where, chosen, ("values", _between(1, FACET_VALUES))]),
        ("/fill", "get", "Candidates for masked positions.", "Filled",
         [("text", said, True), ("top_k", _between(1, MAX_CANDIDATES)), ("model", _TEXT)]),
        ("/predict", "get", "What a model says of a text.", "Predicted",
         [("text", said, True), ("second", _TEXT), ("model", _TEXT)]),
        ("/attention", "get", "Which tokens of a text attend to which.", "Attention",
         [("text", said, True), ("second", _TEXT), ("model", _TEXT), ("kind", {"enum": ["encoder", "decoder", "cross"]}),
          ("layer", {"type": "integer", "minimum": 1}), ("head", {"type": "integer", "minimum": 1})]),
        ("/map", "get", "The commonest words on a plane.", "WordMap",
         [("words", _TEXT), ("layout", {"enum": ["auto", "umap", "pca"], "default": "auto"})]),
        ("/doctor", "get", "What is not healthy of an artifact, and what mends it.", "Examined", [("artifact", _TEXT)]),
        ("/about", "get", "What is served.", "About", [("artifact", _TEXT)]),
        ("/health", "get", "Whether the server answers.", "Health", []),
        ("/metrics", "get", "Counts for Prometheus.", None, []),
        ("/openapi.json", "get", "This document.", None, []),
        ("/v1/models", "get", "The artifacts, as OpenAI lists models.", "Models", []),
        ("/v1/models/{name}", "get", "One of them.", "Model", [("name", _TEXT, True)]),
        ("/v1/embeddings", "post", "Vectors of texts.", "Embeddings", [],
         _object({"input": texts}, {
             "model": _TEXT, "dimensions": dimensions, "encoding_format": {"enum": ["float", "base64"]}, "user": _TEXT,
         }, closed=False)),
        ("/v1/vector_stores/{index}/search", "post", "The hits of a query.", "Found", [("index", _TEXT, True)], search),
        ("/v1/completions", "post", "Texts that go on with others.", "Completion", [], completion),
        ("/embed", "post", "Vectors of texts.", "Vectors", [("model", _TEXT)],
         _object({"inputs": texts}, {"normalize": _FLAG, "truncate": _FLAG, "dimensions": dimensions}, closed=False)),
        ("/info", "get", "The encoder.", "Info", [("model", _TEXT)]),
    ]  # fmt: skip


def _between(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _one_or_more(text: Schema, most: int | None) -> Schema:
    several = {"type": "array", "items": text, "minItems": 1} | ({} if most is None else {"maxItems": most})
    return {"anyOf": [text, several]}


def _operation(
    method: str, path: str, summary: str, answer: str | None, params: list[tuple[Any, ...]], body: Schema | None = None
) -> Schema:
    json_type = "application/json"
    content: Schema = {json_type: {"schema": _ref(answer)}} if answer else {}
    if path in ("/search", "/similar"):
        content["application/x-ndjson"] = {"schema": _TEXT}
    if path == "/v1/completions":
        content["text/event-stream"] = {"schema": _TEXT}
    if path == "/metrics":
        content = {"text/plain": {"schema": _TEXT}}
    elif path == "/openapi.json":
        content = {json_type: {"schema": _MAP}}
    elif path == "/about":
        content = {json_type: {"schema": {"anyOf": [_ref("About"), _ref("Artifact")]}}}
    error = {"content": {json_type: {"schema": _ref("TeiError" if path == "/embed" else "Error")}}}
    found: Schema = {
        "summary": summary,
        "operationId": f"{method}_{path.strip('/').replace('/', '_').replace('{', '').replace('}', '').replace('.', '_')}",
        "parameters": [
            {
                "name": name,
                "in": "path" if f"{{{name}}}" in path else "query",
                "required": bool(needed),
                "schema": schema,
            }
            for name, schema, *needed in params
        ],
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "4XX": {"description": "It cannot be asked so; the message says why.", **error},
            "503": {"description": "Not now; Retry-After says when to come again.", **error},
        },
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {json_type: {"schema": body}}}
    return found
