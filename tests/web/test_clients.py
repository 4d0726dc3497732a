"""Programs that people have, unmodified, against a server on a port: what they get is what the commands give."""

import base64
import json
import subprocess
import time
from shutil import which

import numpy as np
import pytest

import wordpipe
from wordpipe.stages import Writing

pytestmark = pytest.mark.landing


@pytest.fixture(scope="module")
def server(built, records, heads):
    artifacts = [
        f"records={records}",
        built / "words",
        built / "sentences",
        built / "model",
        heads / "clm",
        built / "index",
    ]
    with wordpipe.serve(artifacts, port=0) as server:
        yield server


@pytest.fixture(scope="module")
def openai():
    return pytest.importorskip("openai", reason="the client of OpenAI is not installed: pip install openai")


@pytest.fixture(scope="module")
def asker(server, openai):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


TEXTS = ["salt water", "the tide rises", "bees fly home. They dance."]


@pytest.mark.parametrize("model", ["records", "words", "sentences", "model"])
def test_the_client_of_openai_gets_the_vectors_of_encode(asker, built, records, model):
    with wordpipe.open(records if model == "records" else built / model) as opened:
        expected, n_tokens = opened.encode(TEXTS), int(opened.encoder.lengths(TEXTS).sum())
    found = asker.embeddings.create(model=model, input=TEXTS)  # asks for base64 by itself
    assert found.model == model
    np.testing.assert_allclose([one.embedding for one in found.data], expected, atol=1e-6)
    as_floats = asker.embeddings.create(model=model, input=TEXTS[0], encoding_format="float")
    np.testing.assert_allclose(as_floats.data[0].embedding, expected[0], atol=1e-6)
    assert found.usage.prompt_tokens == n_tokens


def test_vectors_are_those_that_embed_writes(asker, built, tmp_path):
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS[:2]))
    settings = {"unit": "document", "transform": "none", "store": "float32"}
    wordpipe.embed(built / "words", tmp_path / "texts.txt", output=tmp_path / "made", **settings)
    with wordpipe.open(tmp_path / "made", "sentences") as made:
        (batch,) = made.batches(["text", "vector"])
        texts, vectors = batch.column(0).to_pylist(), batch.column(1).to_pylist()
    found = asker.embeddings.create(model="words", input=texts)
    np.testing.assert_allclose([one.embedding for one in found.data], vectors, atol=1e-6)


def test_fewer_dimensions_are_the_first_at_length_one(asker):
    whole, short = (asker.embeddings.create(model="words", input="salt", **more) for more in ({}, {"dimensions": 5}))
    first = np.array(whole.data[0].embedding[:5])
    np.testing.assert_allclose(short.data[0].embedding, first / np.linalg.norm(first), atol=1e-6)


def test_token_ids_are_answered_with_what_to_set(asker, openai):
    for ids in ([1, 2, 3], [[1, 2], [3]]):
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            asker.embeddings.create(model="words", input=ids)


def test_models_are_listed(asker, openai):
    assert [one.id for one in asker.models.list()] == ["records", "words", "sentences", "model", "clm", "index"]
    assert asker.models.retrieve("clm").owned_by == "wordpipe"
    with pytest.raises(openai.NotFoundError, match="choose one of"):
        asker.models.retrieve("gpt-5")
    with pytest.raises(openai.NotFoundError, match="choose one of"):
        asker.embeddings.create(model="text-embedding-3-small", input="a")


FILTERS = [
    (None, None),
    ({"type": "eq", "key": "lang", "value": "it's"}, "lang = 'it''s'"),
    ({"type": "eq", "key": "lang", "value": 'a "b" c'}, "lang = 'a \"b\" c'"),
    ({"type": "ne", "key": "lang", "value": "de"}, "lang != 'de'"),
    ({"type": "gt", "key": "year", "value": 2010}, "year > 2010"),
    ({"type": "gte", "key": "share", "value": 2.5}, "share >= 2.5"),
    ({"type": "lt", "key": "year", "value": 1995}, "year < 1995"),
    ({"type": "lte", "key": "year", "value": 1995}, "year <= 1995"),
    ({"type": "in", "key": "lang", "value": ["de", "en"]}, "lang in ('de', 'en')"),
    ({"type": "nin", "key": "year", "value": [1990, 1991]}, "year not in (1990, 1991)"),
    ({"type": "eq", "key": "done", "value": True}, "done"),
    ({"type": "eq", "key": "tags", "value": "salt"}, "'salt' in tags"),
    ({"type": "nin", "key": "tags", "value": ["sea", "salt"]}, "not ('sea' in tags or 'salt' in tags) or tags is null"),
    (
        {
            "type": "and",
            "filters": [
                {"type": "or", "filters": [{"type": "eq", "key": "lang", "value": lang} for lang in ("de", "en")]},
                {"type": "gt", "key": "year", "value": 2000},
            ],
        },
        "(lang = 'de' or lang = 'en') and year > 2000",
    ),
]


@pytest.mark.parametrize(("filters", "where"), FILTERS, ids=[str(where) for _, where in FILTERS])
def test_vector_stores_find_what_the_command_finds(asker, records, filters, where):
    more = {} if filters is None else {"filters": filters}
    found = asker.vector_stores.search("records", query="salt water", max_num_results=40, **more)
    expected = wordpipe.query(records, "salt water", k=40, where=where)
    assert expected
    assert [(one.file_id, one.score, one.content[0].text) for one in found.data] == [
        (hit["id"], hit["score"], hit["text"]) for hit in expected
    ]
    assert [one.attributes["year"] for one in found.data] == [hit["metadata"]["year"] for hit in expected]
    assert found.data[0].filename == expected[0]["source"]


@pytest.mark.parametrize(
    "filters",
    [
        {"type": "eq", "key": "lang", "value": "de' or 'a' = 'a"},
        {"type": "eq", "key": "lang", "value": "'; drop table rows; --"},
        {"type": "in", "key": "lang", "value": ["x') or true or ('", "\\'"]},
    ],
)
def test_a_text_in_a_filter_stays_a_text(asker, filters):
    assert asker.vector_stores.search("records", query="salt", filters=filters).data == []


@pytest.mark.parametrize(
    "filters",
    [
        [], "year > 3", {}, {"type": "like", "key": "lang", "value": "d%"},
        {"type": "eq", "key": 'lang" = lang or "lang', "value": 1}, {"type": "eq", "key": "nope", "value": 1},
        {"type": "eq", "key": "lang"}, {"type": "eq", "key": "lang", "value": {"a": 1}},
        {"type": "eq", "key": "lang", "value": "a\0b"}, {"type": "eq", "key": "year", "value": 10**60},
        {"type": "eq", "key": "year", "value": "many"}, {"type": "in", "key": "lang", "value": []},
        {"type": "and", "filters": []},
        {"type": "in", "key": "lang", "value": "de"}, {"type": "gt", "key": "tags", "value": "a"},
        {"type": "or", "filters": [{"type": "eq", "key": "year", "value": 1}] * 300}, {"type": 3, "key": "year", "value": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_filter_is_refused(asker, filters, openai):
    with pytest.raises(openai.BadRequestError):
        asker.vector_stores.search("records", query="salt", filters=filters)


def test_a_least_score_and_several_texts(asker, records, openai):
    found = asker.vector_stores.search("records", query=["salt", "water"], ranking_options={"score_threshold": 0.6})
    assert [one.score for one in found.data] == [
        hit["score"] for hit in wordpipe.query(records, "salt water", min_score=0.6)
    ]
    with pytest.raises(openai.NotFoundError, match="choose one of: records, words, index"):
        asker.vector_stores.search("vs_123", query="salt")


def test_completions_are_those_of_generate(asker, heads, openai):
    found = asker.completions.create(model="clm", prompt="The sea", max_tokens=6, temperature=0, n=2, seed=3)
    expected = wordpipe.generate(heads / "clm", "The sea", max_tokens=6, temperature=0, samples=2, seed=3)
    assert [choice.text for choice in found.choices] == [one.text for one in expected]
    assert found.usage.completion_tokens == sum(one.tokens for one in expected)
    assert {choice.finish_reason for choice in found.choices} <= {"stop", "length"}
    several = asker.completions.create(model="clm", prompt=["a", "b"], max_tokens=2)
    assert [choice.index for choice in several.choices] == [0, 1]
    for wrong in (
        {"prompt": [1, 2]},
        {"prompt": "a", "max_tokens": 10**7},
        {"prompt": "a", "suffix": "b"},
        {"prompt": "a", "n": 0},
    ):
        with pytest.raises(openai.BadRequestError):
            asker.completions.create(model="clm", **wrong)


def streamed(chunks):
    """The texts of a stream by choice, why each ended, and its usage, if any."""
    texts, ends, usage = {}, {}, None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert choice.index not in ends
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    return texts, ends, usage


@pytest.mark.parametrize(
    "more", [{}, {"temperature": 0, "stop": ["e", "a", "\n"]}, {"n": 3}, {"prompt": ["The sea", "Bees"], "n": 2}]
)
def test_a_stream_is_in_sum_what_comes_at_once(asker, more):
    asked = {"model": "clm", "prompt": "The sea", "max_tokens": 12, "seed": 3, **more}
    whole = asker.completions.create(**asked)
    chunks = [*asker.completions.create(**asked, stream=True, stream_options={"include_usage": True})]
    texts, ends, usage = streamed(chunks)
    assert texts == {one.index: one.text for one in whole.choices}
    assert ends == {one.index: one.finish_reason for one in whole.choices}
    assert usage == whole.usage
    assert not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1
    if not more:
        assert len(chunks) > 5  # as it is written
    assert streamed(asker.completions.create(**asked, stream=True)) == (texts, ends, None)


def test_a_stream_that_cannot_be_is_refused_before_it_begins(asker, openai):
    for wrong in ({"prompt": [1, 2]}, {"max_tokens": 10**7}, {"stream_options": {"include_usage": 3}}):
        with pytest.raises(openai.BadRequestError):
            asker.completions.create(**{"model": "clm", "prompt": "a", "stream": True, **wrong})
    with pytest.raises(openai.BadRequestError, match="stream_options needs stream"):
        asker.completions.create(model="clm", prompt="a", stream_options={"include_usage": True})


def test_a_client_that_leaves_ends_the_writing(asker, monkeypatch):
    written, step = [], Writing._step
    monkeypatch.setattr(Writing, "_step", lambda self, steps: written.append(1) or step(self, steps))
    stream = asker.completions.create(model="clm", prompt="The sea", max_tokens=4_000, stream=True)
    next(iter(stream))
    stream.close()
    before = -1
    while before != len(written):
        before = len(written)
        time.sleep(0.5)
    assert before < 3_000
    assert asker.completions.create(model="clm", prompt="The sea", max_tokens=1).choices


def test_curl_gets_events(server):
    if which("curl") is None:
        pytest.skip("curl is not installed")
    body = json.dumps({"prompt": "The sea", "max_tokens": 3, "stream": True, "seed": 1})
    url, header = server.url + "/v1/completions", "Content-Type: application/json"
    command = ["curl", "-sSNi", "--max-time", "20", url, "-H", header, "-d", body]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    head, _, events = found.stdout.replace("\r\n", "\n").partition("\n\n")
    assert "content-type: text/event-stream" in head.lower()
    *parts, done, rest = events.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    objects = [json.loads(part.removeprefix("data: ")) for part in parts]
    assert {one["object"] for one in objects} == {"text_completion"}
    assert objects[-1]["choices"][0]["finish_reason"] == "length"


def test_a_stream_that_takes_too_long_says_so(serving, heads):
    client = serving(heads / "clm", timeout=1)
    body = {"prompt": "The sea", "max_tokens": 4_000, "n": 8, "stream": True}
    events = client.post("/v1/completions", json=body).text.split("\n\n")
    assert "not ready in time" in json.loads(events[-2].removeprefix("data: "))["error"]["message"]
    assert "[DONE]" not in events[-2:]


def test_curl_gets_the_lines_of_the_command(server, cli, records):
    if which("curl") is None:
        pytest.skip("curl is not installed")
    url = server.url + "/search?q=salt+water&k=3&index=records"
    found = subprocess.run(["curl", "-sS", "--max-time", "20", url], capture_output=True, text=True, check=True)
    assert found.stdout == cli("query", records, "salt water", "-k", 3, "--json").out
    body = json.dumps({"input": "salt", "encoding_format": "base64", "model": "words"})
    posted = subprocess.run(
        ["curl", "-sS", "--max-time", "20", server.url + "/v1/embeddings", "-H", "Content-Type: application/json", "-d", body],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    vector = np.frombuffer(base64.b64decode(json.loads(posted.stdout)["data"][0]["embedding"]), "<f4")
    assert np.linalg.norm(vector) == pytest.approx(1)


def test_text_embeddings_inference(client, built):
    with wordpipe.open(built / "words") as opened:
        expected = opened.encode(TEXTS)
    for given, rows in ((TEXTS, expected), (TEXTS[0], expected[:1])):
        found = client.post("/embed?model=words", json={"inputs": given, "normalize": True, "truncate": True})
        np.testing.assert_allclose(found.json(), rows, atol=1e-6)
    about = client.get("/info", params={"model": "words"}).json()
    assert (about["model_id"], about["dim"], about["max_client_batch_size"]) == ("words", 24, 256)
    for body, status, kind in (
        ({"inputs": ["a"] * 300}, 413, "Validation"), ({"inputs": ""}, 422, "Validation"),
        ({"inputs": [[1]]}, 422, "Validation"), ({"inputs": "a", "normalize": False}, 422, "Validation"),
        ({}, 422, "Validation"),
    ):  # fmt: skip
        reply = client.post("/embed", json=body)
        assert (reply.status_code, reply.json()["error_type"]) == (status, kind), body
    assert client.post("/embed?model=clm2", json={"inputs": "a"}).status_code == 424


def test_the_client_of_langchain(server, records):
    module = pytest.importorskip("langchain_openai", reason="not installed: pip install langchain-openai")
    made = module.OpenAIEmbeddings(
        base_url=server.url + "/v1", api_key="none", model="records", check_embedding_ctx_length=False
    )
    with wordpipe.open(records) as opened:
        np.testing.assert_allclose(made.embed_documents(TEXTS), opened.encode(TEXTS), atol=1e-6)


def test_the_client_of_llama_index(server, records):
    where = "llama_index.embeddings.text_embeddings_inference"
    module = pytest.importorskip(
        where, reason="not installed: pip install llama-index-embeddings-text-embeddings-inference"
    )
    made = module.TextEmbeddingsInference(base_url=server.url, model_name="records")
    with wordpipe.open(records) as opened:
        expected = opened.encode(TEXTS)
    np.testing.assert_allclose([made.get_query_embedding(text) for text in TEXTS], expected, atol=1e-6)


def test_completions_of_langchain(server):
    module = pytest.importorskip("langchain_openai", reason="not installed: pip install langchain-openai")
    made = module.OpenAI(
        base_url=server.url + "/v1", api_key="none", model="clm", max_tokens=8, temperature=0.7, seed=3, max_retries=0
    )
    expected = made.invoke("The sea")
    parts = [*made.stream("The sea")]
    assert expected
    assert "".join(parts) == expected


def test_completions_of_llama_index(server):
    where = "llama_index.llms.openai_like"
    module = pytest.importorskip(where, reason="not installed: pip install llama-index-llms-openai-like")
    made = module.OpenAILike(
        api_base=server.url + "/v1", api_key="none", model="clm", is_chat_model=False, max_tokens=8, max_retries=0,
        additional_kwargs={"seed": 3},
    )  # fmt: skip
    expected = made.complete("The sea").text
    parts = [*made.stream_complete("The sea")]
    assert expected
    assert parts[-1].text == "".join(part.delta for part in parts) == expected


def test_embeddings_of_llama_index_as_of_openai(server, records):
    where = "llama_index.embeddings.openai_like"
    module = pytest.importorskip(where, reason="not installed: pip install llama-index-embeddings-openai-like")
    made = module.OpenAILikeEmbedding(api_base=server.url + "/v1", api_key="none", model_name="records", max_retries=0)
    with wordpipe.open(records) as opened:
        np.testing.assert_allclose(made.get_text_embedding_batch(TEXTS), opened.encode(TEXTS), atol=1e-6)


@pytest.fixture
def chat(server):
    module = pytest.importorskip("langchain_openai", reason="not installed: pip install langchain-openai")
    return module.ChatOpenAI(
        base_url=server.url + "/v1", api_key="none", model="clm", max_tokens=8, temperature=0.7, seed=3, max_retries=0
    )


def test_a_chat_is_the_completion_of_its_texts(asker, openai):
    asked = {"model": "clm", "max_tokens": 8, "seed": 3, "n": 2}
    expected = asker.completions.create(prompt="The sea\nThe moon", **asked)
    parts = [{"type": "text", "text": "The sea"}, {"type": "text", "text": "The moon"}]
    whole = [{"role": "user", "content": parts}]
    for messages in (whole, [{"role": "system", "content": "The sea"}, {"role": "user", "content": "The moon"}]):
        found = asker.chat.completions.create(messages=messages, **asked)
        assert [(one.index, one.message.content, one.finish_reason) for one in found.choices] == [
            (one.index, one.text, one.finish_reason) for one in expected.choices
        ]
        assert found.usage == expected.usage
    told = {"stream": True, "stream_options": {"include_usage": True}}
    texts, begun = {}, []
    for chunk in asker.chat.completions.create(messages=whole, **asked, **told):
        for one in chunk.choices:
            texts[one.index] = texts.get(one.index, "") + (one.delta.content or "")
            begun += [one.index] if one.delta.role else []
    assert texts == {one.index: one.text for one in expected.choices}
    assert (sorted(begun), chunk.usage) == ([0, 1], expected.usage)
    newer = asker.chat.completions.create(model="clm", messages=whole, max_completion_tokens=2, seed=3)
    assert newer.usage.completion_tokens <= 2
    for wrong in (
        {"messages": []}, {"messages": ["a"]}, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": whole, "tools": [{"type": "function", "function": {"name": "look"}}]},
        {"messages": whole * 101},
    ):  # fmt: skip
        with pytest.raises(openai.BadRequestError):
            asker.chat.completions.create(model="clm", **wrong)


def test_a_chat_of_langchain(chat, asker):
    expected = asker.completions.create(model="clm", prompt="The sea", max_tokens=8, temperature=0.7, seed=3).choices[0]
    assert expected.text
    assert chat.invoke("The sea").content == expected.text
    assert "".join(one.content for one in chat.stream("The sea")) == expected.text


def test_a_chat_of_llama_index(server, asker):
    where = "llama_index.llms.openai_like"
    module = pytest.importorskip(where, reason="not installed: pip install llama-index-llms-openai-like")
    kinds = pytest.importorskip("llama_index.core.llms")
    made = module.OpenAILike(
        api_base=server.url + "/v1", api_key="none", model="clm", is_chat_model=True, max_tokens=8, max_retries=0,
        temperature=0.7, additional_kwargs={"seed": 3},
    )  # fmt: skip
    expected = asker.completions.create(model="clm", prompt="The sea", max_tokens=8, temperature=0.7, seed=3).choices[0]
    asked = [kinds.ChatMessage(role="user", content="The sea")]
    assert made.chat(asked).message.content == expected.text
    assert [*made.stream_chat(asked)][-1].message.content == expected.text


def test_a_vector_store_is_found_by_its_name(asker, openai):
    stores = {one.id: one for one in asker.vector_stores.list()}
    assert asker.vector_stores.retrieve("records") == stores["records"]
    with pytest.raises(openai.NotFoundError, match="choose one of"):
        asker.vector_stores.retrieve("vs_123")


DOCUMENTS = ["Rust eats iron.", "Bees find their way home.", "Salt draws water out of bread."]


def by_cohere(version):
    """Asks the client of Cohere: address → numbers and scores of the best two documents."""

    def ask(url):
        module = pytest.importorskip("cohere", reason="not installed: pip install cohere")
        with getattr(module, version)("none", base_url=url) as made:
            found = made.rerank(model="records", query="salt water", documents=DOCUMENTS, top_n=2).results
        return [(one.index, one.relevance_score) for one in found]

    return ask


def by_cohere_of_langchain(url):
    module = pytest.importorskip("langchain_cohere", reason="not installed: pip install langchain-cohere")
    made = module.CohereRerank(base_url=url, cohere_api_key="none", model="records", top_n=2)
    with made.client:
        return [(one["index"], one["relevance_score"]) for one in made.rerank(DOCUMENTS, "salt water")]


def by_jina_of_langchain(url):
    where = "langchain_community.document_compressors.jina_rerank"
    module = pytest.importorskip(where, reason="not installed: pip install langchain-community")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "JINA_API_URL", f"{url}/v1/rerank")  # the client has no option for it
        made = module.JinaRerank(jina_api_key="none", model="records")
        with made.session:
            found = made.rerank(DOCUMENTS, "salt water", top_n=2)
    return [(one["index"], one["relevance_score"]) for one in found]


def by_llama_index(url):
    where = "llama_index.postprocessor.tei_rerank"
    module = pytest.importorskip(where, reason="not installed: pip install llama-index-postprocessor-tei-rerank")
    schema = pytest.importorskip("llama_index.core.schema")
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=text)) for text in DOCUMENTS]
    made = module.TextEmbeddingInference(base_url=url, model_name="records", top_n=2)
    found = made.postprocess_nodes(nodes, schema.QueryBundle("salt water"))
    return [(DOCUMENTS.index(one.node.text), one.score) for one in found]


@pytest.mark.parametrize(
    "ask",
    [by_cohere("Client"), by_cohere("ClientV2"), by_cohere_of_langchain, by_jina_of_langchain, by_llama_index],
    ids=["cohere 1", "cohere 2", "langchain cohere", "langchain jina", "llama-index"],
)
def test_clients_of_rerankers(server, records, ask):
    with wordpipe.open(records) as index:
        vectors = index.encode(["salt water", *DOCUMENTS])
    cosines = vectors[1:] @ vectors[0]
    best = np.argsort(-cosines, kind="stable")[:2].tolist()
    assert ask(server.url) == [(number, pytest.approx(cosines[number], abs=1e-6)) for number in best]


def test_a_retriever_of_langchain(server):
    module = pytest.importorskip("langchain_openai", reason="not installed: pip install langchain-openai")
    stores = pytest.importorskip("langchain_core.vectorstores")
    made = module.OpenAIEmbeddings(
        base_url=server.url + "/v1", api_key="none", model="records", check_embedding_ctx_length=False
    )
    retriever = stores.InMemoryVectorStore.from_texts(DOCUMENTS, made).as_retriever(search_kwargs={"k": 1})
    assert [one.page_content for one in retriever.invoke("salt water")] == [DOCUMENTS[2]]
