from typing import Any

import pyarrow as pa
import pytest

from tests.sentences.tiny import encoder
from wordpipe.artifacts.schemas import CORPUS
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.units import Unit, read_units

SENTENCES = [("a", "w1 w2. "), ("a", "w3 w4 w5. "), ("a", "w6."), ("b", "w7 ")]


def units(**values: Any) -> list[Unit]:
    schema = CORPUS.append(pa.field("lang", pa.string()))
    rows = [
        {"doc_id": d, "sentence_id": i, "title": f"T{d}", "text": t, "split": "train", "source": "f", "line": i + 1}
        | {"lang": "en"}
        for i, (d, t) in enumerate(SENTENCES)
    ]
    batches = pa.Table.from_pylist(rows, schema=schema).to_batches(max_chunksize=2)  # document a spans two batches
    return list(read_units(batches, EmbedSettings(**values), encoder(**values)))


def test_sentences_stand_alone() -> None:
    found = units(unit="sentence")
    assert [unit.embedded for unit in found] == ["w1 w2.", "w3 w4 w5.", "w6.", "w7"]
    assert [unit.line for unit in found] == [1, 2, 3, 4]
    assert found[0].metadata == {"lang": "en"}


def test_documents_are_their_sentences_after_the_title() -> None:
    found = units(unit="document")
    assert [unit.embedded for unit in found] == ["Ta\nw1 w2. w3 w4 w5. w6.", "Tb\nw7"]
    assert [unit.text for unit in found] == ["w1 w2. w3 w4 w5. w6.", "w7"]
    assert [unit.rows for unit in found] == [3, 1]
    assert units(unit="document", with_title=False)[1].embedded == "w7"


@pytest.mark.parametrize(
    ("overlap", "texts"),
    [(0, ["w1 w2. w3 w4 w5.", "w6.", "w7"]), (4, ["w1 w2. w3 w4 w5.", "w3 w4 w5. w6.", "w7"])],
)
def test_windows_are_whole_sentences_that_fit(overlap: int, texts: list[str]) -> None:
    found = units(unit="window", window=8, overlap=overlap, with_title=False)
    assert [unit.embedded for unit in found] == texts
    assert sum(unit.rows for unit in found) == len(SENTENCES)  # overlapping rows are counted once
    assert [unit.line for unit in found] == [1, 3 if overlap == 0 else 2, 4]
