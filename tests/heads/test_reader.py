"""Windows hold every answer; the best answers are those of a slow twin that lists all; places are exact on any text."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from tests.heads.test_training import words_tokenizer
from tests.support.models import small_config
from wordpipe.errors import ConfigError
from wordpipe.heads import Passage, PassageEncoder, Reader, Reading, answered, best_candidates, whole_in_one
from wordpipe.model import HeadConfig, headed_class, new_model, save_headed, start_headed

TEXTS = st.text(st.sampled_from("ab é\u0301\U0001f600語\u00a0.\n"), max_size=80)


def letters():
    """A token a character, and the template of pairs of BERT."""
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} | {chr(97 + n): 4 + n for n in range(26)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    split = pre_tokenizers.Split(Regex(r"\S"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


@given(TEXTS, TEXTS, st.integers(8, 40), st.integers(1, 30), st.integers(1, 12))
def test_windows_are_those_of_tokenizers_and_hold_every_answer_that_fits(question, passage, max_len, stride, max_query):
    reading = Reading(max_query=max_query, stride=stride)
    (found,) = PassageEncoder(letters(), max_len, reading).encode([(passage, question)])
    n_question = min(len(letters().encode(question, add_special_tokens=False).ids), max_query, (max_len - 3) // 2)
    room = max_len - 3 - n_question
    step = min(stride, room // 2)
    theirs = letters()
    theirs.enable_truncation(max_len, stride=room - step, strategy="only_second")
    asked = "".join(question.split())[:n_question]
    one = theirs.encode(asked, passage)
    assert [window.encoded.ids.tolist() for window in found.windows] == [
        one.ids,
        *(more.ids for more in one.overflowing),
    ]
    for window in found.windows:
        assert len(window.encoded.ids) <= max_len
        assert window.encoded.second == n_question + 2
    n = len(found.offsets)
    answers = [(first, last) for first in range(n) for last in range(first, min(n, first + room - step + 1))]
    assert whole_in_one([found] * len(answers), answers).all()
    for first, last in answers:
        for window, (start, end) in zip(found.windows, found.targets((first, last)), strict=True):
            if (start, end) != (0, 0):
                whole = letters().encode(passage, add_special_tokens=False).ids[first : last + 1]
                assert window.encoded.ids[start : end + 1].tolist() == whole


@given(TEXTS, st.integers(0, 80), st.integers(0, 80))
def test_a_stretch_of_the_text_is_the_tokens_that_have_characters_of_it(passage, a, b):
    (found,) = PassageEncoder(letters(), 512, Reading()).encode([(passage, "q")])
    start, end = min(a, b, len(passage)), min(max(a, b), len(passage))
    inside = [place for place, (one, stop) in enumerate(found.offsets) if one < end and stop > start]
    assert found.tokens_of(start, end) == ((inside[0], inside[-1]) if inside else None)
    if inside:
        first, last = found.characters_of(inside[0], inside[-1])
        assert passage[first:last] == passage[start:end].strip()


@pytest.mark.parametrize(
    "passage", ["we saw  Rio de Janeiro twice", "e\u0301te\u0301 \U0001f600 Rio\u00a0x", "日本 語"]
)
def test_tokens_that_begin_with_white_space_do_not_move_an_answer(passage):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s*\S+"), behavior="isolated")  # as byte-level BPE cuts
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A $B", special_tokens=[("[CLS]", 1)]
    )
    (found,) = PassageEncoder(tokenizer, 64, Reading()).encode([(passage, "q")])
    for place, word in enumerate(passage.split()):
        start, end = found.characters_of(place, place)
        assert passage[start:end] in (word, word.split("\u00a0")[0])
    assert all(window.encoded.second == len(window.encoded.ids) for window in found.windows)


def twin(passage, scores, reading):
    """The score of every answer, listed one by one."""
    found, none = {}, []
    for window, rows in zip(passage.windows, scores, strict=True):
        none.append(float(rows[0, 0]) + float(rows[0, 1]))
        for first in range(window.n_tokens):
            for last in range(first, min(window.n_tokens, first + reading.max_answer)):
                key = window.first + first, window.first + last
                score = float(rows[window.place + first, 0]) + float(rows[window.place + last, 1])
                found[key] = max(found.get(key, -np.inf), score)
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ranked[: reading.n_best], min(none)


@given(
    st.integers(0, 60), st.integers(10, 30), st.integers(1, 8), st.integers(1, 25), st.booleans(), st.integers(0, 99)
)
def test_the_best_answers_are_those_of_a_twin_that_lists_all(n, max_len, max_answer, n_best, is_rough, seed):
    random, reading = np.random.default_rng(seed), Reading(max_answer=max_answer, n_best=n_best, stride=5)
    (passage,) = PassageEncoder(letters(), max_len, reading).encode([("a" * n, "bc")])
    scores = [random.normal(0, 3, (len(window.encoded.ids), 2)).astype(np.float32) for window in passage.windows]
    scores = [np.round(rows) if is_rough else rows for rows in scores]  # many equal ones
    found = best_candidates(passage, scores, reading)
    wanted, none = twin(passage, scores, reading)
    assert [tuple(tokens) for tokens in found.tokens] == [tokens for tokens, _ in wanted]
    assert found.scores == pytest.approx([score for _, score in wanted])
    assert found.none == pytest.approx(none)
    said = answered(passage, found, reading, 1.5, None)
    total = np.exp(np.array([none, *(score for _, score in wanted)]) / 1.5)
    assert said.no_answer == pytest.approx(total[0] / total.sum())
    if n:
        assert said.probability == pytest.approx(total[1] / total.sum())
        assert passage.text[said.start : said.end] == said.answer != ""
    else:
        assert (said.answer, said.start, said.end) == ("", -1, -1)
    never = answered(passage, found, reading, 1.5, 0.0)
    assert (never.answer, never.start, never.probability) == ("", -1, never.no_answer)


@pytest.mark.landing
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_answers_equal_those_of_transformers_and_all_spans(tmp_path, style):
    """A folder of theirs, asked window by window: scores of their model, all answers listed."""

    import transformers

    model = start_headed(new_model(small_config("encoder", style), 3), HeadConfig("span"), 3).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(40)
    save_headed(model, lambda name, data: (tmp_path / name).write_bytes(data))
    name = headed_class(model.language_config, "span")
    theirs = getattr(transformers, name).from_pretrained(tmp_path).eval()
    reading = Reading(max_answer=4, stride=6)
    reader = Reader(model, letters(), max_len=24, temperature=2.0, reading=reading)
    random, encoder = np.random.default_rng(1), PassageEncoder(letters(), 24, reading)
    pairs = [
        ("".join(random.choice([*"abcdefg "], n)), "".join(random.choice([*"abc"], 4))) for n in (0, 3, 17, 60, 61)
    ]
    for pair, said in zip(pairs, reader.predict(iter(pairs)), strict=True):
        (passage,) = encoder.encode([pair])
        scores = []
        for window in passage.windows:
            ids = torch.from_numpy(window.encoded.ids).long()[None]
            kinds = {} if style == "modern" else {
                "token_type_ids": (torch.arange(ids.shape[1]) >= window.encoded.second).long()[None]
            }  # fmt: skip
            with torch.inference_mode():
                out = theirs(input_ids=ids, **kinds)
            scores.append(torch.stack([out.start_logits[0], out.end_logits[0]], 1).numpy())
        ranked, none = twin(passage, scores, reading)
        total = np.exp(
            np.array([none, *(score for _, score in ranked)]) / 2 - max(none, *(s for _, s in ranked), none) / 2
        )
        assert said.no_answer == pytest.approx(total[0] / total.sum(), abs=1e-4)
        if ranked:
            assert (said.start, said.end) == passage.characters_of(*ranked[0][0])
            assert said.probability == pytest.approx(total[1] / total.sum(), abs=1e-4)
            assert said.score == pytest.approx(ranked[0][1] - none, abs=1e-3)


def test_a_long_question_is_cut_and_counted_once():
    (found,) = PassageEncoder(letters(), 40, Reading(max_query=5)).encode([("a" * 90, "b" * 12)])
    assert [window.encoded.cut for window in found.windows] == [7] + [0] * (len(found.windows) - 1)
    assert len(found.windows) > 2


def test_tokenizers_and_models_that_do_not_serve_are_refused():
    tokenizer = letters()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    with pytest.raises(ConfigError, match="no special token before"):
        PassageEncoder(tokenizer, 64, Reading())
    with pytest.raises(ConfigError, match="seq_len is too small"):
        PassageEncoder(letters(), 4, Reading())


def test_equal_passages_are_read_alike_beside_others():
    encoder = PassageEncoder(words_tokenizer(), 64, Reading())
    one, other, again = encoder.encode([("the sea", "who"), ("a hill", "who"), ("the sea", "what is it")])
    assert isinstance(one, Passage)
    assert one.offsets.tolist() == again.offsets.tolist()
    assert one.windows[0].encoded.ids.tolist() != again.windows[0].encoded.ids.tolist()
    assert other.text == "a hill"
