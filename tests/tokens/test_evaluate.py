"""The measures of a tokenizer, against a slow twin that walks through every text by itself."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from wordpipe.tokens import (
    OTHERS,
    TokenizerEvaluation,
    WordFertility,
    WordSplitter,
    evaluate,
    is_byte_level,
    unknown_token,
    vocabulary_of,
)

TEXT = ["the sea-bed is muddy and the mud isn't deep", "3.5 km of mud, mud, mud", "Straße und Boot", "東京 the"] * 3
SPECIAL = ["[PAD]", "[UNK]"]
OFF = {"special_tokens": SPECIAL, "show_progress": False}


def byte_level() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, **OFF))
    return made


def lower_byte_level() -> Tokenizer:
    made = byte_level()
    made.normalizer = normalizers.Lowercase()
    return made


def wordpiece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=80, **OFF))
    return made


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=60, unk_token="[UNK]", **OFF))
    return made


MADE = {make.__name__: make() for make in (byte_level, lower_byte_level, wordpiece, unigram)}
texts = st.lists(
    st.text(st.sampled_from("the mud sea-bed isn't É ß 東京タ ก 3.5,\n\t  \x00😀e\u0301"), max_size=25),
    min_size=1,
    max_size=6,
)
kinds = pytest.mark.parametrize("kind", MADE)


def naive(tokenizer: Tokenizer, rows: list[str]) -> dict[str, int]:
    """Row by row, word by word, with what the library says."""
    found: Counter[str] = Counter()
    used = set()
    words = WordSplitter(lambda run: ["", run], keep_case=True)  # marks a run without spaces by an empty word
    unknown = tokenizer.token_to_id("[UNK]") if not is_byte_level(tokenizer) else None

    def same(one: str, other: str) -> bool:
        normal = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
        return one == other or other == normal(one) or normal(other) == normal(one)

    for text in rows:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        used |= set(ids)
        found["texts"] += 1
        found["bytes"] += len(text.encode())
        found["characters"] += len(text)
        found["tokens"] += len(ids)
        found["unknown_tokens"] += ids.count(unknown)
        text, back = text.rstrip(), back.rstrip()
        found["round_trip_failures"] += not same(text, back)
        found["text_failures"] += not same(text, back) and not same("".join(text.split()), "".join(back.split()))
        at = 0
        split = words(text)
        for place, word in enumerate(split):
            if word == "":
                found["unspaced_runs"] += 1
                continue
            at = text.index(word, at)
            if place and split[place - 1] == "":
                at += len(word)
                continue
            lead = int(at > 0 and text[at - 1] == " ")
            offsets = tokenizer.encode(" " * lead + word, add_special_tokens=False).offsets
            pieces = max(1, sum(end > lead for _, end in offsets))
            at += len(word)
            found["words"] += 1
            found["word_tokens"] += pieces
            found["split_words"] += pieces > 1
    special = {tokenizer.token_to_id(token) for token in SPECIAL}
    found["vocabulary_used"] = len(used - special)
    return dict(found)


@kinds
@given(texts)
def test_every_count_is_that_of_the_slow_twin(kind, rows):
    evaluation = TokenizerEvaluation(MADE[kind])
    evaluation.add(pa.array(rows))
    expected = naive(MADE[kind], rows)
    assert evaluation.total.counts == {name: expected.get(name, 0) for name in evaluation.total.counts}


@kinds
@given(rows=texts, more=texts)
@settings(max_examples=8)
def test_groups_add_up_to_the_total_however_the_rows_are_cut(kind, rows, more):
    rows = rows + more
    groups = [None if len(row) % 3 == 0 else "ab"[len(row) % 2] for row in rows]
    whole, parts = TokenizerEvaluation(MADE[kind]), TokenizerEvaluation(MADE[kind])
    whole.add(pa.array(rows))
    for cut in (slice(0, 2), slice(2, None)):
        parts.add(pa.array(rows[cut], pa.string()), pa.array(groups[cut], pa.string()))
    assert parts.total == whole.total
    assert set(parts.groups) == {"(none)" if group is None else group for group in groups}
    for name, figures in parts.groups.items():
        alone = TokenizerEvaluation(MADE[kind])
        alone.add(pa.array([row for row, group in zip(rows, groups, strict=True) if (group or "(none)") == name]))
        assert figures == alone.total


def test_the_measures_are_what_they_are_called():
    evaluation = TokenizerEvaluation(MADE["byte_level"])
    evaluation.add(pa.array(["mud mud", "qqq"]))
    of, metrics = evaluation.total.counts, evaluation.total.metrics
    assert (of["words"], of["bytes"], of["split_words"]) == (3, 10, 1 + (of["word_tokens"] > 5))
    assert metrics["bytes_per_token"] == pytest.approx(10 / of["tokens"], abs=1e-6)
    assert metrics["tokens_per_word"] == pytest.approx(of["word_tokens"] / 3, abs=1e-6)
    assert metrics["vocabulary_used"] == pytest.approx(of["vocabulary_used"] / 298, abs=1e-6)
    assert len(evaluation.never_used()) == 298 - of["vocabulary_used"]
    assert "q" not in evaluation.never_used()
    assert not {"[PAD]", "[UNK]"} & set(evaluation.never_used())


def test_nothing_is_measured_of_nothing():
    evaluation = TokenizerEvaluation(MADE["unigram"])
    evaluation.add(pa.array([], pa.string()))
    assert evaluation.total.counts["texts"] == 0
    assert set(evaluation.total.metrics.values()) == {None, 0.0}  # nothing of the vocabulary is used


def test_what_does_not_come_back_is_counted_and_shown():
    evaluation = TokenizerEvaluation(MADE["wordpiece"])
    evaluation.add(
        pa.array(["the mud", "the  mud", "the 😀"] + ["mud ."] * 9), pa.array(["fine", "spaces", "lost"] + ["dots"] * 9)
    )
    failed = {name: figures.counts["round_trip_failures"] for name, figures in evaluation.groups.items()}
    lost = {name: figures.counts["text_failures"] for name, figures in evaluation.groups.items()}
    assert failed == {"fine": 0, "spaces": 1, "lost": 1, "dots": 9}
    assert lost == {"fine": 0, "spaces": 0, "lost": 1, "dots": 0}
    assert len(evaluation.failures) == 5
    assert evaluation.failures[0] == {
        "text": "the  mud",
        "decoded": "the mud",
        "group": "spaces",
        "was": "' '",
        "became": "''",
    }


def test_the_end_of_a_line_is_no_difference():
    evaluation = TokenizerEvaluation(MADE["wordpiece"])
    evaluation.add(pa.array(["the mud\n", "the mud\r\n", "the  mud\n"]))
    counts = evaluation.total.counts
    assert (counts["round_trip_failures"], counts["text_failures"]) == (1, 0)
    (failure,) = evaluation.failures
    assert (failure["was"], failure["became"]) == (repr(" "), repr(""))


def test_the_prefix_space_of_a_sentencepiece_tokenizer_is_no_failure():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL + pieces, show_progress=False)
    )
    evaluation = TokenizerEvaluation(tokenizer)
    evaluation.add(pa.array(["the mud", " mud  and 😀 ", ""]))
    assert evaluation.total.counts["round_trip_failures"] == 0
    assert evaluation.total.counts["unknown_tokens"] == 0


def test_too_many_groups_are_added_up(monkeypatch):
    monkeypatch.setattr(evaluate, "_MAX_GROUPS", 3)
    evaluation = TokenizerEvaluation(MADE["byte_level"])
    for start in (0, 4):
        names = [f"g{number}" for number in range(start, start + 4)]
        evaluation.add(pa.array(["mud"] * 4), pa.array(names))
    assert set(evaluation.groups) == {"g0", "g1", "g2", OTHERS}
    assert evaluation.groups[OTHERS].counts["texts"] == evaluation.merged_groups == 5
    assert evaluation.total.counts["texts"] == 8


def test_a_sliced_array_is_read_where_it_is():
    rows = pa.array(["東京 xyz", "the mud", "sea-bed isn't", "😀"])
    whole, part = TokenizerEvaluation(MADE["byte_level"]), TokenizerEvaluation(MADE["byte_level"])
    whole.add(pa.array(rows.to_pylist()[1:3]))
    part.add(rows.slice(1, 2))
    assert part.total == whole.total


def test_a_word_is_encoded_with_the_space_before_it_in_its_row():
    letters = [*"Ġmud", "Ġm", "Ġmu", "Ġmud"]
    vocabulary = {token: number for number, token in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "m"), ("Ġm", "u"), ("Ġmu", "d")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words, tokens, split, unspaced = WordFertility(tokenizer).count(pa.array(["mud mud ", "mud", " mud", ""]))
    assert words.tolist() == [2, 1, 1, 0]
    assert tokens.tolist() == [3 + 1, 3, 1, 0]
    assert split.tolist() == [1, 1, 0, 0]
    assert not unspaced.any()


def test_words_are_remembered_within_bounds(monkeypatch):
    rows = pa.array([" ".join(f"w{number}" for number in range(5000)), "the mud the mud"])
    free = [column.tolist() for column in WordFertility(MADE["byte_level"]).count(rows)]
    monkeypatch.setattr("wordpipe.tokens.evaluate._CACHE_BYTES", 1)
    tight = [column.tolist() for column in WordFertility(MADE["byte_level"]).count(rows)]
    assert tight == free
    assert free[0] == [5000, 4]


@pytest.mark.parametrize(("kind", "unknown"), [("byte_level", None), ("wordpiece", "[UNK]"), ("unigram", "[UNK]")])
def test_the_vocabulary_knows_its_special_and_unknown_tokens(kind, unknown):
    tokenizer = MADE[kind]
    found = vocabulary_of(tokenizer)
    assert unknown_token(tokenizer) == (None if unknown is None else tokenizer.token_to_id(unknown))
    assert is_byte_level(tokenizer) == (kind == "byte_level")
    assert [found.tokens[n] for n in np.flatnonzero(found.special)] == SPECIAL
    assert int(found.ordinary.sum()) == tokenizer.get_vocab_size() - len(SPECIAL)
