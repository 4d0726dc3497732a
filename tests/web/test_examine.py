"""`/attention`, `/map`, `/doctor`: the numbers of the commands, made once of a generation, and never waited for long."""

import threading
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

import wordpipe
from tests.support.map_page import Page
from wordpipe.errors import DamageError
from wordpipe.runtime import Progress
from wordpipe.web import endpoint
from wordpipe.web import page as PAGE
from wordpipe.web.endpoints import examine
from wordpipe.web.page import search_view

TEXT = "Salt draws water out of bread."


@pytest.mark.parametrize(("model", "kind"), [("model", "encoder"), ("clm", "decoder")])
def test_attention_is_that_of_the_command(client, built, heads, model, kind):
    path = built / "model" if model == "model" else heads / "clm"
    (stack,), side = (found := wordpipe.attention(path, TEXT))["stacks"], found["tokens"]["text"]
    layers, n_heads = len(stack["weights"]), len(stack["weights"][0])
    for layer in range(layers):
        for head in range(n_heads):
            given = {"text": TEXT, "model": model, "layer": layer + 1, "head": head + 1}
            reply = client.get("/attention", params=given).json()
            assert reply["weights"] == stack["weights"][layer][head]
    reply = client.get("/attention", params={"text": TEXT, "model": model}).json()
    assert (reply["kind"], reply["layer"], reply["head"]) == (kind, layers, None)
    assert (reply["layers"], reply["heads"]) == (layers, n_heads)
    assert reply["queries"] == reply["keys"] == side["shown"]
    assert np.array(reply["weights"]) == pytest.approx(np.mean(stack["weights"][-1], axis=0), abs=2e-6)


def test_attention_leaves_the_model_as_it_was(client):
    before = client.get("/fill", params={"text": "The [MASK] sea"}).json()
    client.get("/attention", params={"text": TEXT, "model": "model"})
    assert client.get("/fill", params={"text": "The [MASK] sea"}).json() == before


@pytest.mark.parametrize(
    "given", [{"layer": 99}, {"head": 99}, {"layer": 0}, {"kind": "cross"}, {"model": "words"}, {"text": " "},
              {"text": "salt " * 5_000, "model": "clm"}],
)  # fmt: skip
def test_attention_says_what_cannot_be(client, given):
    reply = client.get("/attention", params={"text": TEXT, "model": "model", **given})
    if len(given.get("text", "")) > 9_999 and reply.status_code == 200:
        assert "left out" in reply.json()["notes"][0]
    else:
        assert reply.status_code == 400
        assert reply.json()["error"]["what"]


def test_static_models_and_others_are_not_asked(client):
    can = {one["name"]: one["can"] for one in client.get("/about").json()["artifacts"]}
    assert {name for name, some in can.items() if "attend" in some} == {"model", "clm"}
    assert {name for name, some in can.items() if "map" in some} == {"words"}
    assert {name for name, some in can.items() if "examine" not in some} == {"colours"}


def test_the_map_of_texts_is_a_page_that_asks_this_server_alone(client, monkeypatch):
    made = []
    monkeypatch.setattr(examine, "map_of_texts", lambda *args, _of=examine.map_of_texts: made.append(1) or _of(*args))
    replies = [client.get("/map/records", params={"layout": "pca", "q": q}) for q in ("", "salt")]
    assert [one.status_code for one in replies] == [200, 200]
    assert made == [1]
    assert replies[0].headers["Content-Type"] == "text/html; charset=utf-8"
    assert replies[0].headers["Content-Encoding"] == "gzip"
    policy = replies[0].headers["Content-Security-Policy"]
    found = Page(replies[0].content)
    (own,) = [given["content"] for _, given in found.elements if given.get("http-equiv")]
    assert policy.startswith(own)
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (found.data["texts"]["index"], len(found.data["words"])) == ("records", 40)
    plain = client.get("/map/records", params={"layout": "pca"}, headers={"Accept-Encoding": "identity"})
    assert plain.content == replies[0].content
    assert client.get("/map/nope").status_code == 404
    refused = client.get("/map/model").json()["error"]
    assert "does not support similar or map" in refused["what"]
    assert refused["hint"] == "choose one of: records, index, words"


def test_the_map_of_words_is_the_page_of_the_command_made_once(client, built, monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(
        examine, "map_of", lambda *args, _of=examine.map_of, **more: made.append(1) or _of(*args, **more)
    )
    ways = ({}, {"a": "moon", "b": "sea", "c": "water", "d": "<b>"})
    replies = [client.get("/map/words", params={"layout": "pca", **way}) for way in ways]
    assert [one.status_code for one in replies] == [200, 200]
    assert replies[0].content == replies[1].content
    assert len(made) <= 1
    wordpipe.map(built / "words", tmp_path / "map.html", layout="pca")
    served, alone = Page(replies[0].content), Page((tmp_path / "map.html").read_bytes())
    for name in ("words", "places", "neighbours", "groups", "counts"):
        assert np.array_equal(served.data[name], alone.data[name]), name
    assert (served.data["served"], alone.data.get("served")) == ("words", None)
    (own,) = [given["content"] for _, given in served.elements if given.get("http-equiv")]
    policy = replies[0].headers["Content-Security-Policy"]
    assert policy.startswith(own)
    assert "connect-src" not in policy
    assert "unsafe" not in policy
    assert client.get("/map/words", params={"layout": "no"}).status_code == 400
    assert client.get("/map/words", params={"nope": 1}).json()["error"]["what"] == "unknown parameter"


def test_a_map_of_a_damaged_index_is_not_asked_for_again(serving, records, monkeypatch):
    def made(*_):
        raise DamageError("the stored vectors are not those of the index")

    monkeypatch.setattr(examine, "map_of_texts", made)
    refused = serving(records, page=PAGE).get("/map/index", headers={"Accept": "text/html"})
    assert (refused.status_code, "Refresh" in refused.headers) == (503, False)
    assert "not those of the index" in refused.text
    assert "is being made" not in refused.text


def test_the_page_says_why_there_is_no_map_and_asks_again_while_it_is_made(serving, records, monkeypatch):
    client = serving(records, page=PAGE)
    assert 'href="./map/index"' in client.get("/").text
    refused = client.get("/map/nope")
    assert (refused.status_code, refused.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Refresh" not in refused.headers
    begun = threading.Event()
    monkeypatch.setattr(examine, "_UNTIL_SAID_S", 0.5)  # where a browser asks

    def made(*given):
        given[-1].report(Progress("titles", 20, 40, "texts"))
        return begun.wait(20) and 1 / 0

    monkeypatch.setattr(examine, "map_of_texts", made)
    waiting = client.get("/map/index", params={"q": "salt"}, headers={"Accept": "text/html"})
    begun.set()
    assert (waiting.status_code, waiting.headers.get("Refresh")) == (503, "1"), waiting.text
    assert "is being made" in waiting.text
    assert "worked on the map for 1 s; step: titles, 20 of 40 texts" in waiting.text
    assert 'href="../map/index?q=salt"' in waiting.text  # without a browser that refreshes
    for page in (refused, waiting):
        assert 'href="../?tab=about' in page.text  # its menu


def test_a_map_is_made_once(client, monkeypatch):
    made = []
    monkeypatch.setattr(
        examine, "map_of", lambda *args, _of=examine.map_of, **more: made.append(1) or _of(*args, **more)
    )
    replies = [client.get("/map", params={"layout": "pca"}).json() for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    assert len(made) <= 1
    points, groups = replies[0]["points"], replies[0]["groups"]
    assert 3 <= len(points) <= 400
    assert all(0 <= one[axis] <= 1 for one in points for axis in "xy")
    assert {one["group"] for one in points} == set(range(len(groups)))
    words = {one["word"] for one in points}
    assert all({*some} <= words for some in groups)


def test_doctor_finds_what_the_command_finds(client, built):
    reply = client.get("/doctor", params={"artifact": "words"}).json()
    found = wordpipe.doctor(built / "words", sample=reply["sample"])
    assert reply["metrics"] == found["metrics"]
    assert reply["meanings"] == found["meanings"]
    ill = {one["name"] for one in found["verdicts"]["none"] if one["state"] != "healthy"}
    assert {one["name"] for one in reply["findings"]} == ill
    assert all(one["says"] and one["mend"] for one in reply["findings"])
    finds = client.get("/doctor", params={"artifact": "index"}).json()
    assert {one["state"] for one in finds["findings"]} <= {"sick", "weak", "unknown"}


def test_what_takes_long_is_not_waited_for_and_goes_on(serving, built, monkeypatch):
    goes_on, begun = threading.Event(), []

    def slow(artifact, **_):
        begun.append(artifact.digest)
        assert goes_on.wait(30)
        return {"kind": "words", "metrics": {}, "meanings": {}, "findings": []}

    monkeypatch.setattr(examine, "doctor_of", slow)
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.05)
    client = serving(built / "words")
    for _ in range(2):
        reply = client.get("/doctor")
        assert reply.status_code == 503
        assert reply.headers["Retry-After"]
    assert client.get("/neighbours", params={"word": "water"}).status_code == 200  # waits for nobody
    goes_on.set()
    for _ in range(500):
        if (reply := client.get("/doctor")).status_code == 200:
            break
    assert reply.json()["findings"] == []
    assert len(begun) == 1


def test_what_takes_too_long_ends_with_the_command_to_run(serving, built, monkeypatch):
    monkeypatch.setattr(examine, "_LONGEST", -1.0)
    client = serving(built / "words")
    for path in ("/doctor", "/map?layout=pca"):
        error = client.get(path).json()["error"]
        assert "the maximum for a server" in error["what"]
        assert error["hint"].startswith("wordpipe ")


def test_a_server_that_ends_ends_what_takes_long(built, monkeypatch):
    begun, reports = threading.Event(), []

    def endless(artifact, *, sample, run):
        while True:
            begun.set()
            run.report(None)
            reports.append(1)

    monkeypatch.setattr(examine, "doctor_of", endless)
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.05)
    with wordpipe.serve(built / "words", port=0) as server:
        with pytest.raises(HTTPError):
            urlopen(server.url + "/doctor", timeout=20)
        assert begun.wait(10)
    n = len(reports)
    time.sleep(0.05)
    assert len(reports) == n


@pytest.mark.parametrize(
    ("texts", "groups"),
    [
        (["a b c d", "A, b; c d!", "x"], [[0, 1], [2]]),
        (["a b", "b a", "a b"], [[0, 2], [1]]),
        (["", "!", "a"], [[0, 1], [2]]),
        (["it is note 1 of the sea and more", "it is note 2 of the sea and more"], [[0], [1]]),
        ([], []),
    ],
)
def test_near_duplicates_are_folded(texts, groups):
    assert search_view.folded([(text, text) for text in texts]) == groups


def test_answers_with_nearly_the_same_passage_are_folded():
    passage = "the sea rises twice a day and falls"
    texts = [
        (f"one text begins so. {passage}", passage),
        ("of another", "of another"),
        (f"{passage}, and goes on for long", passage),
    ]
    assert search_view.folded(texts) == [[0, 2], [1]]
