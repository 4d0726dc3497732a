"""Pairs and the text they are cut from: pure functions of (seed, step), of the kinds asked for, never across documents."""

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.pair_texts import Document, id_lists, made_text, random_documents, token_batches
from wordpipe.errors import ArtifactError, InputError
from wordpipe.training.contrastive import (
    FilePairs,
    PairBatch,
    Pairs,
    PairText,
    Ragged,
    held_out_pairs,
    read_pair_file,
    rows_of,
    write_pair_text,
    write_ragged,
)
from wordpipe.training.contrastive.settings import KINDS, ContrastiveSettings, StaticSettings


@pytest.mark.parametrize("rows_per_batch", [1, 7, 1000])
def test_documents_come_back_whatever_the_batches(tmp_path: Path, rows_per_batch: int) -> None:
    documents = random_documents()
    text = write_pair_text(token_batches(documents, rows_per_batch), tmp_path, vocab_size=50)
    rows = np.split(text.rows.ids, text.rows.offsets[1:-1])
    for number, (_, split, sentences) in enumerate(documents):
        mine = rows[text.documents[number] : text.documents[number + 1]]
        assert [row.tolist() for row in mine] == sentences
        assert text.splits[number] == ["train", "valid"].index(split)
    train = [word for _, split, sentences in documents if split == "train" for ids in sentences for word in ids]
    assert (text.counts == np.bincount(train, minlength=50)).all()
    assert text.ledger == {"rows": len(rows), "ids_left_out": 0, "rows_without_ids": 0}


def test_rare_ids_are_left_out_and_counted(tmp_path: Path) -> None:
    documents = [("a", "train", [[1, 60, 2], [70]]), ("b", "train", [[70], [3]]), ("c", "train", [[90]])]
    text = write_pair_text(token_batches(documents), tmp_path, vocab_size=50)
    assert [row.tolist() for row in np.split(text.rows.ids, text.rows.offsets[1:-1])] == [[1, 2], [3]]
    assert text.documents.tolist() == [0, 1, 2, 2]
    assert text.ledger == {"rows": 2, "ids_left_out": 4, "rows_without_ids": 3}
    assert rows_of(text.documents, np.array([False, True, True])).tolist() == [1]


def test_the_same_text_twice_is_two_documents(tmp_path: Path) -> None:
    text = made_text(tmp_path, [("a", "train", [[1], [2]]), ("a", "train", [[1], [2]])])
    assert text.documents.tolist() == [0, 2, 4]


def test_titles_follow_their_documents(tmp_path: Path) -> None:
    documents = random_documents(10)
    text = made_text(tmp_path, documents, titles=True)
    assert text.titles is not None
    assert np.diff(text.titles.offsets).tolist() == [0, 2] * 5


def test_titles_of_other_documents_are_refused(tmp_path: Path) -> None:
    documents = random_documents(4)
    for n in (1, 3, 5):
        with pytest.raises(ArtifactError, match="number of documents"):
            write_pair_text(token_batches(documents), tmp_path, vocab_size=50, titles=id_lists([[1]] * n))


def test_no_known_word_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sentence has a word of the vocabulary"):
        made_text(tmp_path, [("a", "train", [[60], []])])


DOCUMENTS = random_documents()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> PairText:
    return made_text(tmp_path_factory.mktemp("text"), DOCUMENTS, titles=True)


def settings(**values: Any) -> ContrastiveSettings:
    return ContrastiveSettings.make({"batch_size": 16, "deletion_rate": 0.3, **values})


def lists(side: Ragged) -> list[list[int]]:
    return [row.tolist() for row in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def is_subsequence(short: list[int], long: list[int]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def sources(documents: list[Document], number: int) -> tuple[list[list[int]], list[int]]:
    sentences = documents[number][2]
    return sentences, [word for ids in sentences for word in ids]


def equal(one: PairBatch, other: PairBatch) -> bool:
    return (
        lists(one.first) == lists(other.first)
        and lists(one.second) == lists(other.second)
        and (one.document == other.document).all()
        and (one.kind == other.kind).all()
    )


def test_a_batch_depends_on_seed_and_step_alone(text: PairText) -> None:
    mixed = settings(pair_neighbour=1, pair_crop=1, pair_deletion=1, pair_title=1)
    pairs = Pairs(text, mixed)
    forth = [pairs.batch(step) for step in range(8)]
    back = [Pairs(text, mixed).batch(step) for step in reversed(range(8))]
    assert all(equal(one, other) for one, other in zip(forth, reversed(back), strict=True))
    assert not equal(forth[0], Pairs(text, settings(pair_neighbour=1, seed=2)).batch(0))


def test_each_pass_begins_a_pair_at_every_sentence(text: PairText) -> None:
    pairs = Pairs(text, settings(pair_dropout=1, batch_size=2), batch_size=5)
    sentences = [tuple(ids) for _, split, some in DOCUMENTS if split == "train" for ids in some]
    assert pairs.n_pairs == len(sentences)
    seen = [tuple(ids) for step in range(-(-3 * pairs.n_pairs // 5)) for ids in lists(pairs.batch(step).first)]
    for number in range(3):
        assert Counter(seen[number * len(sentences) : (number + 1) * len(sentences)]) == Counter(sentences)
    assert seen[: len(sentences)] != seen[len(sentences) : 2 * len(sentences)]


def test_every_kind_is_what_it_says(text: PairText) -> None:
    pairs = Pairs(text, settings(pair_dropout=1, pair_neighbour=1, pair_crop=1, pair_title=1, pair_deletion=1))
    kinds: Counter[str] = Counter()
    for step in range(40):
        batch = pairs.batch(step)
        for first, second, document, kind in zip(
            lists(batch.first), lists(batch.second), batch.document, batch.kind, strict=True
        ):
            sentences, flat = sources(DOCUMENTS, int(document))
            kinds[KINDS[kind]] += 1
            assert first
            assert second
            if KINDS[kind] == "dropout":
                assert first == second
                assert first in sentences
            elif KINDS[kind] == "neighbour":
                assert any((first, second) in ((a, b), (b, a)) for a, b in pairwise(sentences))
            elif KINDS[kind] == "deletion":
                assert any(is_subsequence(first, ids) and is_subsequence(second, ids) for ids in sentences)
            elif KINDS[kind] == "crop":
                assert is_subsequence(first, flat)
                assert is_subsequence(second, flat)
            else:
                assert first == [1, 2]
                assert document % 2 == 1
                assert is_subsequence(second, flat)
            assert DOCUMENTS[int(document)][1] == "train"
    assert min(kinds[kind] for kind in KINDS if kind != "pairs") > 20


def test_the_share_of_words_left_out_is_the_rate(tmp_path: Path) -> None:
    text = made_text(tmp_path, [("a", "train", [[*range(50)] for _ in range(60)])])
    for rate in (0.0, 0.2, 0.6):
        batch = Pairs(text, settings(pair_deletion=1, deletion_rate=rate, false_negatives="keep"), batch_size=60).batch(
            0
        )
        kept = batch.first.lengths.sum() / (60 * 50)
        assert kept == pytest.approx(1 - rate, abs=0.04)
        assert (rate == 0) == (lists(batch.first) == lists(batch.second))


def test_a_word_always_stays(tmp_path: Path) -> None:
    text = made_text(tmp_path, [("a", "train", [[7], [8]])])
    batch = Pairs(text, settings(pair_deletion=1, deletion_rate=0.9, false_negatives="keep"), batch_size=64).batch(0)
    assert (batch.first.lengths == 1).all()
    assert (batch.second.lengths == 1).all()


def test_what_documents_cannot_give_is_replaced_and_told(tmp_path: Path) -> None:
    text = made_text(tmp_path, [(f"d{i}", "train", [[i, i + 1]]) for i in range(20)])
    for asked, word in (
        ("pair_neighbour", "only one sentence"),
        ("pair_crop", "fewer than"),
        ("pair_title", "no title"),
    ):
        pairs = Pairs(text, settings(**{asked: 1}))
        assert set(pairs.batch(0).kind) == {KINDS.index("deletion")}
        assert any(word in note for note in pairs.notes)
    assert pairs.counts["documents_of_one_sentence"] == pairs.counts["documents_without_known_title"] == 20


def test_titles_that_nobody_asks_for_are_not_counted_as_missing(tmp_path: Path) -> None:
    text = made_text(tmp_path, [(f"d{i}", "train", [[i, i + 1], [i]]) for i in range(20)])
    assert "documents_without_known_title" not in Pairs(text, settings(pair_neighbour=1)).counts


def test_long_texts_are_cut_and_counted(tmp_path: Path) -> None:
    text = made_text(tmp_path, [("a", "train", [[*range(40)], [1, 2]])])
    pairs = Pairs(text, settings(pair_dropout=1, max_words=8, false_negatives="keep"))
    assert pairs.counts["sentences_cut"] == 1
    assert pairs.batch(0).first.lengths.max() == 8
    assert Pairs(text, settings(pair_crop=1, max_words=8, false_negatives="keep")).batch(0).second.lengths.max() <= 4


def test_pairs_of_a_file_are_mixed_in(tmp_path: Path, text: PairText) -> None:
    given = [[10, 11], [12], [13], [14, 60], [15], [60]]  # the last pair has no known word on one side
    texts = write_ragged(id_lists(given), tmp_path / "pairs", vocab_size=50)
    pairs = Pairs(text, settings(pair_dropout=1, pair_file=0.5, pairs="x.jsonl"), given=FilePairs.of(texts))
    assert (pairs.counts["file_pairs"], pairs.counts["file_pairs_left_out"]) == (2, 1)
    batch = pairs.batch(0)
    from_file = batch.kind == KINDS.index("pairs")
    assert 2 < from_file.sum() < 14
    for place in np.flatnonzero(from_file):
        assert (lists(batch.first)[place], lists(batch.second)[place]) in [([10, 11], [12]), ([13], [14])]
    assert (batch.document[from_file] >= len(DOCUMENTS)).all()


def test_a_file_without_usable_pairs_is_an_error(tmp_path: Path) -> None:
    texts = write_ragged(id_lists([[60], [1]]), tmp_path / "pairs", vocab_size=50)
    with pytest.raises(InputError, match="every pair in the file"):
        FilePairs.of(texts)


def test_a_split_without_sentences_is_an_error(text: PairText) -> None:
    with pytest.raises(InputError, match="no sentence"):
        Pairs(text, settings(), split="test")


def test_one_document_has_no_negatives(tmp_path: Path) -> None:
    alone = made_text(tmp_path, [("a", "train", [[n, n + 1] for n in range(30)]), ("b", "valid", [[1, 2]])])
    with pytest.raises(InputError, match="one document") as refused:
        Pairs(alone, settings())
    assert "--false-negatives keep" in str(refused.value.hint)
    assert not Pairs(alone, settings(false_negatives="keep")).notes


def test_a_text_that_is_nearly_one_document_is_warned_of(tmp_path: Path) -> None:
    nearly = made_text(tmp_path, [("a", "train", [[n, n + 1] for n in range(9)]), ("b", "train", [[3, 4]])])
    (note,) = Pairs(nearly, settings(pair_deletion=1)).notes
    assert "82% of the negative examples" in note  # 0.9² + 0.1²


def test_hashes_tell_texts_apart() -> None:
    side = Ragged(np.array([1, 2, 2, 1, 1, 2, 1], np.int32), np.array([2, 2, 2, 1]))
    hashes = side.hashes()
    assert hashes[0] == hashes[2]
    assert len(set(hashes.tolist())) == 3


def test_neighbours_of_several_held_out_documents(tmp_path: Path) -> None:
    sentences = [[1, 2], [3, 4], [5, 6]]
    for held_out, there in ((1, False), (3, False), (4, True)):
        documents = [(f"d{i}", "valid" if i < held_out else "train", sentences) for i in range(10)]
        found = held_out_pairs(StaticSettings(), made_text(tmp_path / str(held_out), documents))
        assert (found is not None) == there
    assert found is not None
    assert len(set(found.batch(0).document.tolist())) == 4


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.parquet", "large.parquet"])
def test_the_first_two_columns_of_text_are_the_pairs(name: str, tmp_path: Path) -> None:
    pairs = [("how bees find their way", "Bees find their way by the sun."), ("a kettle", "water"), ("", "nothing")]
    if name.endswith("parquet"):
        first, second = zip(*pairs, strict=True)
        kind = pa.large_string() if name.startswith("large") else pa.string()
        pq.write_table(
            pa.table({"n": [1, 2, 3], "q": pa.array(first, kind), "a": pa.array(second, kind)}), tmp_path / name
        )
    else:
        lines = [json.dumps({"n": 1, "question": one, "answer": other}) for one, other in pairs]
        (tmp_path / name).write_text("\n".join(lines))
    texts = [text for some in read_pair_file(tmp_path / name) for text in some]
    assert texts == [text for pair in pairs for text in pair]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": "one text"}', "two texts"),
        (b"no json", "the line is not valid JSON"),
        (b'["a", "b"]\n{"', "the line is not valid JSON"),
        ('["a", "b"]\n["caf\u00e9", "b"]'.encode("latin-1"), "the line is not valid JSON"),
        (gzip.compress(b'["a", "b"]', mtime=0), "the line is not valid JSON"),
    ],
)
def test_a_bad_file_of_pairs_is_told_by_its_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        list(read_pair_file(tmp_path / "pairs.jsonl"))
    assert "pairs.jsonl" in str(error.value.where)
    assert "two texts" in message or "uncompressed UTF-8" in str(error.value.hint)
