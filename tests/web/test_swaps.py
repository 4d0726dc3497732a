"""A server gives a generation back as soon as its last request has ended: descriptors, memory, disk; without the collector."""

import os
import shutil
import threading
import weakref

import httpx2
import pytest

import wordpipe
from tests.support.leaks import open_files, resident_mb
from tests.support.waiting import wait_until
from wordpipe.artifacts import publish as publication

GETS = (
    "/search?q=salt+water&format=json&explain=1&passage=100", "/search?q=salt&where=row+%3E+3", "/search?q=salt&mode=lexical",
    "/search?q=salt&where=nothing+%3E+3", "/search?q=salt&per_document=1&format=json", "/search?q=zzqqx&format=json",
    "/similar?row=1", "/similar?row=999999", "/similar?id=nobody", "/facets", "/facets?where=row+%3E+3", "/about",
    "/about?artifact=it", "/info", "/neighbours?word=water", "/neighbours?word=zzqqx", "/fill?text=the+%5BMASK%5D",
    "/fill?text=none", "/predict?text=red", "/predict?text=red&second=blue", "/attention?text=the+sea",
    "/attention?text=the+sea&layer=99", "/health", "/metrics", "/v1/models", "/v1/models/it", "/",
)  # fmt: skip
POSTS = (
    ("/v1/embeddings", {"input": ["the sea", "salt"]}), ("/v1/embeddings", {"input": "zzqqx"}),
    ("/v1/embeddings", {"input": "sea", "dimensions": 9999}), ("/embed", {"inputs": "the sea"}),
    ("/v1/vector_stores/it/search", {"query": "salt"}),
    ("/v1/vector_stores/it/search", {"query": "salt", "filters": {"type": 1}}),
    ("/v1/completions", {"prompt": "The", "max_tokens": 3}),
    ("/v1/completions", {"prompt": "The", "max_tokens": 3, "stream": True}),
)  # fmt: skip


def ask_all(client):
    """Whatever can be asked of it, well and badly."""
    for path in GETS:
        assert client.get(path).status_code < 500, path
    for path, body in POSTS:
        assert client.post(path, json=body).status_code < 500, path


def publish(made, target):
    """Put an artifact in the place of another in one step, as a stage does."""
    fresh = target.with_name("fresh")
    shutil.copytree(made, fresh)
    assert publication.exchange(fresh, target)
    shutil.rmtree(fresh)


def wait_until_gone(parts):
    wait_until(lambda: all(part() is None for part in parts.values()))


@pytest.fixture
def quick_looks(monkeypatch):
    from wordpipe.web import served_artifacts

    monkeypatch.setattr(served_artifacts, "_POLL_S", 0.02)


@pytest.fixture
def served_kinds(request, built):
    """Gives the path of an artifact that can be served."""
    return lambda kind: (request.getfixturevalue("heads") if kind in ("clm", "colours") else built) / kind


def parts_of(generation):
    """What a generation has opened and made, by name."""
    held = {"generation": generation, **vars(generation), **vars(generation.opened)}
    return {
        name: weakref.ref(part) for name, part in held.items()
        if type(part).__module__.partition(".")[0] in ("wordpipe", "faiss", "torch")
    }  # fmt: skip


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("words", "sentences", "model", "clm", "colours")]


@pytest.mark.landing
@pytest.mark.parametrize("kind", ["index", *SLOW])
def test_a_replaced_generation_is_given_back_at_once(served_kinds, tmp_path, quick_looks, collector_off, kind):
    """Whatever it was asked, well or badly."""
    made = served_kinds(kind)
    shutil.copytree(made, tmp_path / "it")
    with (
        wordpipe.serve(tmp_path / "it", port=0, max_connections=20) as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        (one,) = server.artifacts.by_name.values()
        files = []
        for _ in range(3):
            ask_all(client)
            replaced = parts_of(one.current)
            publish(made, tmp_path / "it")
            wait_until_gone(replaced)
            files.append(open_files())
        assert files[1:] == files[:-1]
    assert len({"generation", "opened", "artifact"} & {*replaced}) == 3
    assert [name for name in open_files() if name.startswith(os.fspath(tmp_path))] == []


@pytest.mark.landing
def test_twenty_swaps_cost_nothing(records, tmp_path, quick_looks, collector_off):
    """They cost 24 MB and three descriptors each, of an index of 18 MB."""
    shutil.copytree(records, tmp_path / "it")
    with (
        wordpipe.serve(tmp_path / "it", port=0, max_connections=20) as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        (one,) = server.artifacts.by_name.values()
        files, memory = [], []
        for _ in range(24):
            for path in GETS[:3]:
                assert client.get(path).status_code == 200
            replaced = parts_of(one.current)
            publish(records, tmp_path / "it")
            wait_until_gone(replaced)
            files.append(open_files())
            memory.append(resident_mb())
    assert files[-1] == files[3]
    assert memory[-1] - memory[3] < 10


@pytest.mark.landing
def test_a_generation_that_still_answers_is_given_back_when_it_has(
    built,
    tmp_path,
    quick_looks,
    collector_off,
    monkeypatch,
):
    shutil.copytree(built / "words", tmp_path / "it")
    at_work, go_on, query_all = threading.Event(), threading.Event(), wordpipe.OpenWords.query_all
    with (
        wordpipe.serve(tmp_path / "it", port=0) as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        (one,) = server.artifacts.by_name.values()

        def slow(*given):
            at_work.set()
            assert go_on.wait(60)
            return query_all(*given)

        monkeypatch.setattr(wordpipe.OpenWords, "query_all", slow)
        replies = []
        asking = threading.Thread(target=lambda: replies.append(client.get("/search?q=water")))
        asking.start()
        assert at_work.wait(60)
        monkeypatch.setattr(wordpipe.OpenWords, "query_all", query_all)
        replaced = parts_of(one.current)
        publish(built / "words", tmp_path / "it")
        wait_until(lambda: one.current is not replaced["generation"]())
        assert not replaced["artifact"]().is_closed
        go_on.set()
        asking.join()
        assert replies[0].status_code == 200
        wait_until_gone(replaced)
