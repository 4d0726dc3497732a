"""Encoding a corpus: its units against a slow twin, which texts are encoded against a dict, chunks and stored vectors."""

import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_encoder import encoder
from wordpipe.artifacts import CORPUS
from wordpipe.encoders import (
    StoredVectors,
    UnitBatch,
    UnitCutter,
    WordLengths,
    chunks_of,
    encode_corpus,
    no_keys,
    pack_sentences,
    plan_vectors,
    text_keys,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.search.settings import IndexSettings
from wordpipe.tokens import WordSplitter

# ---- units


SCHEMA = CORPUS.append(pa.field("lang", pa.string()))
SENTENCES = [("a", "w1 w2. "), ("a", "w3 w4 w5. "), ("a", "w6."), ("b", "w7 ")]


def corpus(sentences: list[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    """Rows of document, text and title."""
    rows: list[dict[str, Any]] = []
    for line, (document, text, title) in enumerate(sentences, 1):
        number = rows[-1]["sentence_id"] + 1 if rows and rows[-1]["doc_id"] == document else 0
        rows.append(
            {"doc_id": document, "sentence_id": number, "title": title, "text": text, "split": "train", "source": "f"}
            | {"line": line, "lang": f"l{line}"}
        )
    return rows


def cut(rows: list[dict[str, Any]], sizes: list[int]) -> list[pa.RecordBatch]:
    """The rows in batches of these sizes, the rest in one."""
    table, batches = pa.Table.from_pylist(rows, schema=SCHEMA), []
    for size in [*sizes, len(rows)]:
        batches += table.slice(0, size).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]
        table = table.slice(size)
    return batches


def listed(batches: list[UnitBatch]) -> list[tuple[Any, ...]]:
    """What is known of each unit."""
    names = ("doc_id", "source", "line", "lang")
    return [
        values
        for units in batches
        for values in zip(
            units.text.to_pylist(),
            units.embedded.to_pylist(),
            *(units.column(name).to_pylist() for name in names),
            strict=True,
        )
    ]


def trimmed(text: str) -> str:
    """A text without white space around it, the slow way; the first line keeps its indent where a later one has one."""
    while text.split("\n", 1)[0].strip() == "" and "\n" in text:
        text = text.split("\n", 1)[1]
    first, *others = text.rstrip().split("\n")
    is_shaped = first[:1] in (" ", "\t") and first.lstrip(" \t")[:1].strip()
    return text.rstrip() if is_shaped and any(re.match(r"[ \t]+[^\s\x0b]", one) for one in others) else text.strip()


def twin(rows: list[dict[str, Any]], settings: EmbedSettings, reader: Any) -> list[tuple[Any, ...]]:
    """The same, row by row."""
    documents: list[list[dict[str, Any]]] = []
    for row in rows:
        if row["sentence_id"] == 0:
            documents.append([])
        documents[-1].append(row)
    found = []
    for document in documents:
        if settings.unit == "sentence":
            spans = [(n, n + 1) for n in range(len(document))]
        elif settings.unit == "document":
            spans = [(0, len(document))]
        else:
            texts = [row["text"] for row in document]
            ends = np.array([re.search(r"\n[ \t]*\n\s*\Z", text) is not None for text in texts])
            spans = pack_sentences(reader.lengths(texts), reader.window, reader.overlap, ends)
        for first, stop in spans:
            row, text = document[first], trimmed("".join(row["text"] for row in document[first:stop]))
            titled = settings.with_title and settings.unit != "sentence" and row["title"]
            embedded = f"{row['title']}\n{text}" if titled else text
            about = tuple(row[name] for name in ("doc_id", "source", "line", "lang"))
            found.append((text, embedded, *about))
    return found


TEXTS = st.sampled_from(
    ["w1 w2. ", "", " \u2028w3\u3000", "w4 " * 9, "ü日本\n", "w5", "w6 w7\n \n", "  w8\n", "\tw9 w1\n  w2"]
)
ROWS = st.lists(st.tuples(st.sampled_from("aaab"), TEXTS, st.sampled_from([None, "", "T", "Zwei Ä"])), max_size=25)


@given(
    ROWS,
    st.lists(st.integers(0, 6), max_size=5),
    st.sampled_from(["sentence", "document", "window"]),
    st.booleans(),
    st.booleans(),
)
def test_units_are_those_of_the_twin_however_the_rows_come(rows, sizes, unit, with_title, by_words) -> None:
    made = corpus(rows)
    settings = EmbedSettings(unit=unit, with_title=with_title, window=8, overlap=3)
    reader = WordLengths(settings) if by_words else encoder(unit=unit, window=8, overlap=3)
    cutter = UnitCutter(settings, reader)
    expected = twin(made, settings, reader)
    assert listed(list(cutter.read(cut(made, sizes)))) == expected
    assert listed(list(cutter.read(cut(made, sizes[::-1])))) == expected  # windows as they were found the first time


def units(**values: Any) -> list[tuple[Any, ...]]:
    rows = corpus([(document, text, f"T{document}") for document, text in SENTENCES])
    return listed(list(UnitCutter(EmbedSettings(**values), encoder(**values)).read(cut(rows, [2]))))


def test_sentences_stand_alone() -> None:
    assert [unit[1] for unit in units(unit="sentence")] == ["w1 w2.", "w3 w4 w5.", "w6.", "w7"]


def test_documents_are_their_sentences_after_the_title() -> None:
    found = units(unit="document")
    assert [unit[1] for unit in found] == ["Ta\nw1 w2. w3 w4 w5. w6.", "Tb\nw7"]
    assert [unit[0] for unit in found] == ["w1 w2. w3 w4 w5. w6.", "w7"]
    assert units(unit="document", with_title=False)[1][1] == "w7"


def test_code_keeps_the_indent_of_its_first_line() -> None:
    texts = ["\n    if w1:\n        w2\n", "    w3 w4\nw5\n", "  w6\n", "w7\n    w8", "\tw1\n\tw2\n\n"]
    found = UnitCutter(EmbedSettings(), encoder()).read(cut(corpus([("a", text, None) for text in texts]), []))
    assert [unit[0] for unit in listed(list(found))] == [
        "    if w1:\n        w2", "w3 w4\nw5", "w6", "w7\n    w8", "\tw1\n\tw2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overlap", "texts"),
    [(0, ["w1 w2. w3 w4 w5.", "w6.", "w7"]), (4, ["w1 w2. w3 w4 w5.", "w3 w4 w5. w6.", "w7"])],
)
def test_windows_are_whole_sentences_that_fit(overlap: int, texts: list[str]) -> None:
    found = units(unit="window", window=8, overlap=overlap, with_title=False)
    assert [unit[1] for unit in found] == texts


def test_the_same_text_twice_in_a_row_is_two_documents() -> None:
    rows = [row | {"sentence_id": number % 2} for number, row in enumerate(corpus([("a", "w1 ", None)] * 4))]
    cutter = UnitCutter(EmbedSettings(unit="document"), encoder())
    for size in range(4):
        assert [unit[0] for unit in listed(list(cutter.read(cut(rows, [size]))))] == ["w1 w1", "w1 w1"]


def test_white_space_is_what_python_says_it_is() -> None:
    spaces = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())
    rng = random.Random(0)
    texts = ["".join(rng.choices(spaces + "\u200b\u180e\ufeffx", k=6)) for _ in range(500)]
    found = UnitCutter(EmbedSettings(), encoder()).read(cut(corpus([("a", text, None) for text in texts]), []))
    assert [unit[0] for unit in listed(list(found))] == [text.strip() for text in texts]


# ---- which texts are encoded


SHORT_TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", "日本", "a" * 1000, "c"]), max_size=30)


KNOWN_KEYS = {  # by the authors' own code, of the secret 00 01 … 0f and the texts of bytes 00 01 … of these lengths
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    63: "5150d1772f50834a503e069a973fbd7c",
}


@pytest.mark.parametrize("compiled", [False, True])
def test_keys_are_those_of_siphash(compiled) -> None:
    secret = np.frombuffer(bytes(range(16)), np.uint64)
    texts = [bytes(range(length)).decode("ascii") for length in KNOWN_KEYS]
    keys = text_keys(pa.array(["before", *texts, "after"]).slice(1, len(texts)), compiled=compiled, secret=secret)
    assert [row.tobytes().hex() for row in keys] == [*KNOWN_KEYS.values()]
    assert text_keys(pa.array([], pa.string()), compiled=compiled).shape == no_keys().shape == (0, 2)
    assert text_keys(pa.array(["", ""]), compiled=compiled).shape == (2, 2)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=20))
def test_many_texts_have_the_keys_of_few(texts) -> None:
    few, many = (text_keys(pa.array(texts, pa.string()), compiled=compiled) for compiled in (False, True))
    assert few.tolist() == many.tolist()
    assert len({tuple(key) for key in few.tolist()}) == len(set(texts))


def test_texts_that_share_half_of_a_key_are_kept_apart() -> None:
    keys = np.array([[7, 1], [3, 3], [7, 2], [7, 1], [7, 2], [3, 3]], np.uint64)
    plan = plan_vectors(keys[:1], keys[1:])
    assert plan.previous.tolist() == [-1, -1, 0, -1, -1]
    assert plan.new.tolist() == [0, 1, -1, 1, 0]
    assert (plan.to_encode, plan.repeated, plan.reused, plan.gone) == (2, 2, 1, 0)


@given(SHORT_TEXTS, SHORT_TEXTS)
def test_each_text_is_encoded_once_and_none_that_is_known(previous, texts) -> None:
    plan = plan_vectors(*(text_keys(pa.array(some, pa.string())) for some in (previous, texts)))
    known = {text: row for row, text in reversed(list(enumerate(previous)))}
    encoded: dict[str, int] = {}
    for number, text in enumerate(texts):
        first = text not in known and text not in encoded
        if first:
            encoded[text] = len(encoded)
        assert plan.encode[number] == first
        assert plan.previous[number] == known.get(text, -1)
        assert plan.new[number] == (-1 if text in known else encoded[text])
    assert plan.to_encode == len(encoded)
    assert plan.reused == sum(text in known for text in texts)
    assert plan.to_encode + plan.reused + plan.repeated == len(texts)
    assert plan.gone == sum(text not in texts for text in previous)


def test_keys_that_share_a_half_are_two_texts() -> None:
    keys = np.array([[1, 2], [1, 3], [2, 2], [1, 2]], np.uint64)
    assert plan_vectors(keys[:1], keys[1:]).new.tolist() == [0, 1, -1]


# ---- chunks and stored vectors


def test_chunks_hold_few_long_texts_or_many_short_ones(monkeypatch):
    monkeypatch.setattr(encode_corpus, "_CHUNK", 4)
    monkeypatch.setattr(encode_corpus, "_CHUNK_BYTES", 10)
    rng = random.Random(2)
    for _ in range(300):
        texts = ["x" * rng.choice([0, 1, 3, 9, 30]) for _ in range(rng.randint(0, 20))]
        cuts = sorted(rng.choices(range(len(texts) + 1), k=3))
        arrays = [pa.array(texts[a:b], pa.string()) for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
        chunks = list(chunks_of(arrays))
        assert [text for chunk in chunks for text in chunk] == texts
        assert all(len(chunk) == 1 or (len(chunk) <= 4 and sum(map(len, chunk)) <= 10) for chunk in chunks)


def test_stored_vectors_are_taken_in_any_order(tmp_path):
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(50, 3)).astype(np.float32)
    paths = [tmp_path / f"{n}" for n in range(4)]
    for path, part in zip(paths, np.split(whole, [7, 7, 30]), strict=True):
        path.write_bytes(part.tobytes())
    stored = StoredVectors(paths, [7, 0, 23, 20], 3)
    for _ in range(30):
        numbers = rng.integers(0, 50, rng.integers(0, 60))
        assert np.array_equal(stored.take(numbers), whole[numbers])
    assert np.array_equal(np.concatenate(list(stored.blocks())), whole)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The sea-bed isn't at 3.5 km.", 6),
        ("蜜蜂采集花粉。", 3),
        ("彼女は古い講堂で弾く、NASA", 6),
        ("ผึ้งเก็บเกสรดอกไม้ และทำน้ำผึ้ง", 7),
        ("고양이는 지붕 위에서 잔다.", 4),
        ("मधुमक्खियाँ शहद बनाती हैं", 4),
    ],
)
def test_windows_count_words_by_spaces_and_by_characters_where_there_are_none(text: str, words: int) -> None:
    assert WordLengths(IndexSettings()).lengths([text]).tolist() == [words]


def pieces_of(run: str) -> list[str]:
    """Two characters of Chinese and Japanese, five of Thai."""
    size = 2 if run[0] in "漢字カ" else 5
    return [run[at : at + size] for at in range(0, len(run), size)]


@given(st.lists(st.text("ab1.,'’-‐_éกท漢字カ́ \n\u3000\u00a0\u00ad\u200c\u200bکا", max_size=12), max_size=5))
def test_words_counted_by_pieces_are_those_of_the_text(texts: list[str]) -> None:
    expected = [len(WordSplitter(pieces_of)(text)) for text in texts]
    assert WordLengths(IndexSettings()).lengths(texts + texts).tolist() == expected + expected
