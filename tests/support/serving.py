"""Artifacts that are served, and a client that asks the application without a socket."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wordpipe

if TYPE_CHECKING:
    from starlette.testclient import TestClient

LANGUAGES = ("de", "en", "it's", 'a "b" c')


@pytest.fixture(scope="session")
def records(built, tmp_path_factory, _own_cache) -> Path:
    """An index over records with ids and fields, as people have them; encoded by the words of the chain."""
    root = tmp_path_factory.mktemp("records")
    texts = [
        "The tide rises with the moon.",
        "Salt draws water out of bread.",
        "Bees find their way home.",
        "Rust eats iron.",
    ]
    rows = [
        {
            "id": f"r-{number}", "title": f"Title {number}", "text": f"{texts[number % 4]} It is note {number}.",
            "lang": LANGUAGES[number % 4], "year": 1990 + number, "share": number / 7, "tags": ["sea", "salt"][: number % 3],
            "done": number % 2 == 0,
        }
        for number in range(40)
    ]  # fmt: skip
    wordpipe.ingest(rows, output=root / "corpus", metadata=["lang", "year", "share", "tags", "done"])
    wordpipe.embed(built / "words", root / "corpus", output=root / "sentences", unit="document")
    wordpipe.index(root / "sentences", output=root / "index")
    return root / "index"


@pytest.fixture(scope="session")
def heads(built, tmp_path_factory, _own_cache) -> Path:
    """A decoder and a classifier."""
    root = tmp_path_factory.mktemp("heads")
    wordpipe.train_clm(
        built / "tokens", output=root / "clm", preset="tiny", steps=2, seq_len=64, threads=1, device="cpu"
    )
    rows = [{"text": f"{i} is {word}", "label": word} for i in range(30) for word in ("red", "blue")]
    wordpipe.ingest(rows, output=root / "labelled", label_field="label")
    wordpipe.train_classifier(root / "labelled", output=root / "colours", init=built / "words", epochs=1)
    return root


Ask = Callable[..., "TestClient"]


@pytest.fixture(scope="module")
def serving() -> Iterator[Ask]:
    """Makes a client of an application over some artifacts, with settings."""
    from starlette.testclient import TestClient

    from wordpipe.web import Application, Metrics, ServedArtifacts
    from wordpipe.web.settings import ServeSettings

    opened: list[tuple[TestClient, ServedArtifacts]] = []

    def make(
        *artifacts: str | os.PathLike[str], token: bytes | None = None, page: Any = None, log: Any = None, **settings: Any
    ) -> "TestClient":  # fmt: skip
        metrics = Metrics()
        served = ServedArtifacts.open(artifacts, on_batch=metrics.add_batch)
        chosen = ServeSettings.make(settings)
        app = Application(served, chosen, metrics, token=token, page=page, log=log)
        client = TestClient(app, base_url="http://127.0.0.1:8000")
        client.__enter__()
        opened.append((client, served))
        return client

    yield make
    for client, served in opened:
        client.__exit__(None, None, None)
        served.close()


@pytest.fixture(scope="module")
def client(serving: Ask, built: Path, records: Path, heads: Path) -> "TestClient":
    """A client of all kinds of artifacts."""
    return serving(
        f"records={records}", built / "index", built / "words", built / "sentences", built / "model", heads / "clm",
        heads / "colours",
    )  # fmt: skip
