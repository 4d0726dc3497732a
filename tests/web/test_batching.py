"""A thread that computes for an artifact, and work that takes seconds: all are answered, and no error is kept for ever."""

import asyncio
import threading

import pytest

from wordpipe.errors import InputError
from wordpipe.web import ServedArtifacts, batching, replies
from wordpipe.web import served_artifacts as of_served

Batcher, Refused = batching.Batcher, replies.Refused


def doubled(items):
    return [2 * item for item in items]


def test_whoever_waits_or_comes_later_is_answered_when_the_thread_ends():
    at_work, go_on, ended = threading.Event(), threading.Event(), []

    def slow(items):
        at_work.set()
        assert go_on.wait(30)
        return doubled(items)

    async def ask():
        batcher = Batcher("one")
        first = asyncio.create_task(batcher.run(slow, 1, key="a", ended=lambda: ended.append(1)))
        await asyncio.to_thread(at_work.wait, 30)
        others = [
            asyncio.create_task(batcher.run(doubled, number, key=number, ended=lambda: ended.append(2)))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        batcher.stop()
        late = [asyncio.create_task(batcher.run(doubled, 3, key="b", ended=lambda: ended.append(3))) for _ in range(5)]
        refused = await asyncio.wait_for(asyncio.gather(*others, *late, return_exceptions=True), 30)
        go_on.set()
        return await asyncio.wait_for(first, 30), refused

    found, refused = asyncio.run(ask())
    assert found == 2
    assert [(type(one), one.status, one.message) for one in refused] == [(Refused, 503, "the server is stopping")] * 25
    assert sorted(ended) == [1] + [2] * 20 + [3] * 5


def test_work_ends_though_its_loop_has(monkeypatch):
    go_on, ended = threading.Event(), threading.Event()
    batcher = Batcher("one")

    async def leave():
        asyncio.create_task(batcher.run(lambda items: [go_on.wait(30)], 1, key="a", ended=ended.set))  # noqa: RUF006
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    go_on.set()
    assert ended.wait(30)
    batcher.stop(30)


def test_without_a_thread_it_says_so(monkeypatch):
    def none(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        with pytest.raises(Refused, match="the server cannot start another thread now"):
            asyncio.run(Batcher("one").run(doubled, 1, key="a"))
    assert asyncio.run(Batcher("one").run(doubled, 1, key="a")) == 2


def test_an_error_of_slow_work_is_kept_for_whoever_waited_and_then_tried_again(built, monkeypatch):
    served = ServedArtifacts.open([built / "words"])
    (one,) = served.by_name.values()
    calls = []

    def make():
        calls.append(1)
        if len(calls) in (1, 2):
            raise InputError("too long", hint="wordpipe map")
        return {"made": len(calls)}

    async def ask():
        for _ in range(3):
            with pytest.raises(InputError, match="too long") as caught:
                await served.made_once(one.current, "map", make, 30)
            assert caught.value.hint == "wordpipe map"
        assert len(calls) == 1
        monkeypatch.setattr(of_served, "_KEPT_S", -1.0)
        with pytest.raises(InputError, match="too long"):
            await served.made_once(one.current, "doctor", make, 30)
        assert await served.made_once(one.current, "doctor", make, 30) == {"made": 3}
        assert await served.made_once(one.current, "doctor", make, 30) == {"made": 3}

    asyncio.run(ask())
    served.close()
