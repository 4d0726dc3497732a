"""Tokenizers evaluated on a corpus or on sources, by group; and one text cut."""

import json
import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

import wordpipe
from wordpipe import evaluate_tokenizer
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages import segment
from wordpipe.tokens import TokenizerEvaluation

RECORDS = [
    {"text": "The sea-bed is muddy.", "lang": "en", "year": 1999},
    {"text": "Das Boot ist klein.", "lang": "de", "year": None},
    {"text": "The mud isn't deep here.", "lang": "en", "year": 2001},
]


@pytest.fixture
def evaluated(monkeypatch, tmp_path):
    """`evaluate_tokenizer`, which leaves nothing in the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    yield evaluate_tokenizer
    assert not list((tmp_path / "scratch").iterdir())


@pytest.fixture
def records(tmp_path):
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return tmp_path / "records.jsonl"


@pytest.fixture(scope="module")
def wordpiece(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wordpiece") / "tokens"
    wordpipe.tokenize(built / "corpus", output=folder, algorithm="wordpiece", vocab_size=700)
    return folder


def test_a_corpus_is_evaluated_as_its_rows_are(evaluated, built):
    found = evaluated(built / "tokens", built / "corpus")
    with Artifact(built / "tokens") as tokens, Artifact(built / "corpus") as corpus:
        tokenizer = Tokenizer.from_str(tokens.read("tokenizer.json").decode())
        ids = sum(len(batch.column("ids").values) for batch in read_batches(tokens, "tokens"))
        texts = [text for batch in read_batches(corpus, "corpus") for text in batch.column("text").to_pylist()]
    evaluation = TokenizerEvaluation(tokenizer)
    evaluation.add(pa.array(texts))
    assert found["metrics"] == evaluation.total.metrics
    (only,) = found["tokenizers"]
    assert (only["made"], only["vocab_size"], only["counts"]) == ("as it is", 1000, evaluation.total.counts)
    assert only["counts"]["tokens"] == ids
    assert only["counts"]["round_trip_failures"] == 0
    assert only["never_used"]["count"] + only["counts"]["vocabulary_used"] == 1000 - 7


def test_splits_add_up(evaluated, built):
    parts = [evaluated(built / "tokens", built / "corpus", split=name) for name in ("train", "valid")]
    counts = Counter()
    for part in parts:
        counts.update(part["tokenizers"][0]["counts"])
    whole = evaluated(built / "tokens", built / "corpus")["tokenizers"][0]["counts"]
    used = counts.pop("vocabulary_used")
    assert used >= whole.pop("vocabulary_used")
    assert dict(counts) == whole


def test_sources_are_evaluated_and_leave_nothing(evaluated, built, records, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    found = evaluated([built / "tokens", built / "tokens" / "tokenizer.json"], records, by="source")
    assert sorted(tmp_path.rglob("*")) == before
    one, other = found["tokenizers"]
    assert one["metrics"] == other["metrics"]
    assert one["counts"]["texts"] == 3
    assert list(one["groups"].values()) == [{"metrics": one["metrics"], "counts": one["counts"]}]


@pytest.mark.parametrize(("column", "names"), [("lang", {"en", "de"}), ("year", {"1999", "2001", "(none)"})])
def test_groups_are_the_values_of_a_column(evaluated, built, records, tmp_path, column, names):
    wordpipe.ingest(records, output=tmp_path / "corpus", metadata=["lang", "year"])
    (only,) = evaluated(built / "tokens", tmp_path / "corpus", by=column)["tokenizers"]
    assert set(only["groups"]) == names
    assert sum(group["counts"]["words"] for group in only["groups"].values()) == only["counts"]["words"]


def test_another_size_is_trained_from_the_counts(evaluated, built, tmp_path):
    """What stands in the place of the sizes that could be asked for here."""
    for name, counts in (("anew", {}), ("from counts", {"counts": built / "tokens"})):
        wordpipe.tokenize(built / "corpus", output=tmp_path / name, vocab_size=500, **counts)
    anew, from_counts = evaluated([tmp_path / "anew", tmp_path / "from counts"], built / "corpus")["tokenizers"]
    assert anew["vocab_size"] == 500
    assert anew["metrics"] == from_counts["metrics"]


def test_what_cannot_be_evaluated(evaluated, built, records):
    tokens, corpus = built / "tokens", built / "corpus"
    with pytest.raises(ConfigError, match=r"lang.*doc_id.*source"):
        evaluated(tokens, corpus, by="lang")
    with pytest.raises(InputError, match="test"):
        evaluated(tokens, corpus, split="test")
    with pytest.raises(ArtifactError, match="wrong kind"):
        evaluated(corpus, corpus)
    with pytest.raises(ArtifactError, match="wrong kind"):
        evaluated(tokens, tokens)
    with pytest.raises(InputError, match="nowhere"):
        evaluated("nowhere", corpus)


TEXT = "The sea-bed isn't muddy: 東京 😀\x1b[MASK]\n"


def test_a_text_is_cut_as_the_tokenizer_cuts_it(built, wordpiece):
    for folder in (built / "tokens", built / "model", wordpiece):
        found = segment(folder, TEXT)
        encoding = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT, add_special_tokens=False)
        assert (found["ids"], found["tokens"]) == (encoding.ids, encoding.tokens)
        assert found["offsets"] == [list(pair) for pair in encoding.offsets]
        assert found["special"][found["tokens"].index("[MASK]")]
        assert sum(found["special"]) == 1


def test_the_pieces_of_a_byte_level_tokenizer_are_the_text(built):
    found = segment(built / "tokens", TEXT)
    data = b"".join(
        bytes.fromhex(piece.replace("<", "").replace(">", "")) if piece.startswith("<") else piece.encode()
        for piece in found["pieces"]
    )
    assert data.decode() == TEXT
    assert not any(found["unknown"])


def test_what_is_unknown_is_shown_as_it_stands(wordpiece):
    found = segment(wordpiece, "the 東 mud")
    assert [piece for piece, unknown in zip(found["pieces"], found["unknown"], strict=True) if unknown] == ["東"]
    assert not any(found["special"])


def test_an_artifact_without_tokenizer(built):
    for name, what in (("corpus", "a corpus"), ("index", "an index")):
        with pytest.raises(ArtifactError, match=f": {what} artifact has no tokenizer"):
            segment(built / name, "text")


def test_many_groups_are_cut_and_said_so(built):
    from wordpipe.metrics import System
    from wordpipe.stages.evaluate import tokenizer

    metrics = dict.fromkeys(wordpipe.evaluate_tokenizer(built / "tokens", built / "corpus")["metrics"], 0.5)
    groups = {f"file-{number}": {"metrics": metrics, "counts": {"bytes": 5}} for number in range(33)}
    table = tokenizer._groups(System("run/tokens", [], {"groups": groups}), "source")
    assert [label for label, _ in table.rows] == [*(f"file-{number}" for number in range(20)), "… 13 more"]
    assert {len(cells) for _, cells in table.rows} == {len(table.heads)}
