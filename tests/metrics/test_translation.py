"""Measures of generated text: the oracle of ROUGE is rouge_score, sums are those of sacrebleu; golden values by hand."""

import math
import re
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import ConfigError
from wordpipe.metrics import (
    answer_f1,
    bleu_score,
    bleu_statistics,
    chrf_score,
    chrf_statistics,
    exact_match,
    mean_interval,
    normalise_answer,
    paired_difference,
    paired_score_difference,
    rouge_l,
    score_interval,
    scores,
    signatures,
)
from wordpipe.metrics import statistics as bootstrap

WORDS = st.sampled_from([
    "the", "cat", "The", "a", "sat.", "mat,", "1,000.5", "3-4", "-", "--", "it's", "(hi)", "((", "“x”", "naïve", "дом",
    "日本語", "e\u0301", "İx", ".5", "x.y,z", "&quot;", "&amp;lt;", "<skipped>", "well-\n", "a\u2028b", "\u00a0", "😀",
    "[sic]!?", "",
])  # fmt: skip
SHORT = st.lists(WORDS, max_size=6)
TEXT = st.one_of(SHORT, SHORT, st.lists(WORDS, min_size=50, max_size=60)).map(" ".join)
SEGMENT = st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3))
SEGMENTS = st.lists(SEGMENT, min_size=1, max_size=5)
SWITCH = st.booleans()


def columns(segments):
    return [hypothesis for hypothesis, _ in segments], [references for _, references in segments]


def streams(references):
    """As sacrebleu takes them: the first of each segment, the second of each …, None where there is no such."""
    widest = max(map(len, references))
    return [[texts[place] if place < len(texts) else None for texts in references] for place in range(widest)]


class TestBleu:
    @given(SEGMENTS, st.sampled_from(["13a", "none"]), SWITCH)
    def test_the_score_of_the_sums_is_that_of_sacrebleu(self, segments, tokenizer, lowercase):
        hypotheses, references = columns(segments)
        expected = sacrebleu.BLEU(tokenize=tokenizer, lowercase=lowercase).corpus_score(hypotheses, streams(references))
        sums = bleu_statistics(hypotheses, references, tokenizer=tokenizer, lowercase=lowercase).sum(axis=0)
        assert bleu_score(sums) == pytest.approx(expected.score, abs=1e-9)
        assert sums.tolist() == [expected.sys_len, expected.ref_len, *expected.counts, *expected.totals]

    def test_counted_by_hand(self):
        """Words 5 of 6 (one "the" is clipped), pairs 3 of 5, threes 2 of 4, fours 1 of 3."""
        (found,) = bleu_statistics(["the cat sat on a mat"], ["the cat sat on the mat"])
        assert found.tolist() == [6, 6, 5, 3, 2, 1, 6, 5, 4, 3]
        assert bleu_score(found) == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
        short = bleu_statistics(["a b c d"], [["a b c d e f", "a b", "a b c d e f g"]])[0]
        assert (bleu_score(short), short[1]) == (100, 2)  # as near as 6, and shorter
        assert bleu_score(bleu_statistics(["a b c d"], ["a b c d e f"])[0]) == pytest.approx(100 * math.exp(-0.5))

    def test_what_scores_nothing(self):
        pairs = [("a b c", "a b c"), ("", "a b c d"), ("a b c d", ""), ("", "")]
        assert [bleu_score(bleu_statistics([one], [other])[0]) for one, other in pairs] == [0] * 4
        assert bleu_score(bleu_statistics([], []).sum(axis=0)) == 0


class TestChrf:
    @given(SEGMENTS)
    def test_the_score_of_the_sums_is_that_of_sacrebleu(self, segments):
        hypotheses, references = columns(segments)
        oracle, rows = sacrebleu.CHRF(), chrf_statistics(hypotheses, references)
        expected = oracle.corpus_score(hypotheses, streams(references)).score
        assert chrf_score(rows.sum(axis=0)) == pytest.approx(expected, abs=1e-9)
        each = [oracle.sentence_score(*segment).score for segment in segments]
        assert chrf_score(rows) == pytest.approx(each, abs=1e-9)

    def test_counted_by_hand(self):
        """Of "abc": 2 of 3 letters, 1 of 2 pairs, 0 of 1 threes; of "abde": of 4, 3, 2; fours are not in both."""
        precision, recall = (2 / 3 + 1 / 2 + 0) / 3, (2 / 4 + 1 / 3 + 0) / 3
        rows = chrf_statistics(["a bc"], ["ab de"])
        assert rows.tolist() == [[3, 4, 2, 2, 3, 1, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]]
        assert chrf_score(rows[0]) == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))
        # orders that the reference is too short for do not count; the best reference does
        assert chrf_statistics(["abc"], [["q", "ab"]])[0, :9].tolist() == [3, 2, 2, 2, 1, 1, 0, 0, 0]


def test_signatures_are_those_of_sacrebleu():
    version = sacrebleu.__version__
    assert signatures(["a", ["b", "c"]]) == {
        "bleu": f"nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "bleu_lc": f"nrefs:var|case:lc|eff:no|tok:none|smooth:exp|version:{version}",
        "chrf": f"nrefs:var|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }
    assert signatures([["a", "b"]])["chrf"].startswith("nrefs:2|")


@pytest.mark.parametrize("count", [bleu_statistics, chrf_statistics])
def test_without_sacrebleu_what_to_install_is_said(count, monkeypatch):
    monkeypatch.setattr(scores, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="sacrebleu") as caught:
        count(["a"], ["a"])
    assert caught.value.hint == 'pip install "sacrebleu>=2.6"'


def slow_lcs(one, other):
    """By definition, (Wagner and Fischer 1974)."""
    table = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1, j + 1] = table[i, j] + 1 if left == right else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


class TestRougeL:
    @pytest.mark.landing
    @given(SEGMENTS)
    def test_ascii_is_that_of_rouge_score(self, segments):
        rouge_scorer = pytest.importorskip(
            "rouge_score.rouge_scorer", reason="rouge_score, the oracle, is not installed"
        )
        oracle = rouge_scorer.RougeScorer(["rougeL"])
        expected = [oracle.score_multi(others, hypothesis)["rougeL"].fmeasure for hypothesis, others in segments]
        assert rouge_l(*columns(segments), tokenizer="ascii") == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("kinds", [1, 2, 5, 40])
    def test_long_texts_are_those_of_the_definition(self, kinds):
        rng = np.random.default_rng()
        one, other = (rng.integers(0, kinds, rng.integers(1, 200)).astype(str).tolist() for _ in range(2))
        expected = 2 * slow_lcs(one, other) / (len(one) + len(other))
        assert rouge_l([" ".join(one)], [" ".join(other)]) == pytest.approx([expected])

    def test_counted_by_hand(self):
        """Lin's examples: "police the gunman" and "the gunman police" share three and two words in order of four and four."""
        reference = "police killed the gunman"
        assert rouge_l(["Police kill the gunman!", "the gunman kill police"], [reference] * 2).tolist() == [0.75, 0.5]

    def test_the_best_reference_counts(self):
        assert rouge_l(["a b"], [["c", "a b", "a"]]).tolist() == [1]

    def test_every_script_has_words(self):
        """The combining vowel signs of Hindi belong to their words."""
        texts, others = ["кот сидит дома", "naïve idea", "हिन्दी में"], ["кот спит дома", "na\u00efve ideas", "हिन्दी"]
        assert rouge_l(texts, others) == pytest.approx([2 / 3, 1 / 2, 2 / 3])
        assert rouge_l(texts, others, tokenizer="ascii") == pytest.approx([0, 2 / 3, 0])

    def test_without_a_word_it_is_nothing(self):
        assert rouge_l(["", "a", "", "..."], ["a", "", "", "..."]).tolist() == [0, 0, 0, 0]
        assert rouge_l([], []).shape == (0,)


def squad_normalised(text):
    """The order of SQuAD's own script: lower case, punctuation, articles, white space."""
    text = "".join(
        character for character in text.lower() if character not in set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    )
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


class TestAnswers:
    @given(TEXT, TEXT)
    def test_f1_is_that_of_squads_script(self, answer, reference):
        one, other = squad_normalised(answer).split(), squad_normalised(reference).split()
        assert normalise_answer(answer).split() == one
        common = sum((Counter(one) & Counter(other)).values())
        if not one or not other:
            expected = float(one == other)
        elif not common:
            expected = 0.0
        else:
            precision, recall = common / len(one), common / len(other)
            expected = 2 * precision * recall / (precision + recall)
        assert answer_f1([answer], [reference]) == pytest.approx([expected])

    def test_counted_by_hand(self):
        answers = ["The Eiffel Tower, in Paris", "tower tower", "", "the", "42"]
        references = [["eiffel tower", "Paris"], "the tower", ["", "x"], "an", "43"]
        assert answer_f1(answers, references) == pytest.approx([2 * 2 / (4 + 2), 2 / 3, 1, 1, 0])
        assert exact_match(answers, references).tolist() == [0, 0, 1, 0, 0]
        assert exact_match(answers, references, normalised=True).tolist() == [0, 0, 1, 1, 0]
        assert exact_match(["The U.S.A."], ["USA"], normalised=True).tolist() == [1]
        assert exact_match(["an another"], ["a another"], normalised=True).tolist() == [1]

    def test_the_best_of_several_references_counts(self):
        assert exact_match(["b"], [["a", "b"]]).tolist() == [1]
        assert answer_f1(["x y"], [["z", "x", "x y z"]]) == pytest.approx([0.8])


@pytest.mark.parametrize("measure", [bleu_statistics, chrf_statistics, rouge_l, exact_match, answer_f1])
def test_references_that_are_not_one_for_each_are_refused(measure):
    with pytest.raises(ValueError, match="2 hypotheses, but 1 references"):
        measure(["a", "b"], [["a", "b"]])
    with pytest.raises(ValueError, match="hypothesis 1 has no reference"):
        measure(["a", "b"], ["a", ()])


@pytest.fixture(scope="module")
def systems():
    """Three that repeat their references but for some words, the first for fewer; and the references."""
    rng = np.random.default_rng(3)
    references = [rng.integers(0, 50, 15).astype(str).tolist() for _ in range(150)]
    noisy = [
        [" ".join(word if rng.random() > rate else "x" for word in words) for words in references]
        for rate in (0.05, 0.15, 0.15)
    ]
    return noisy, [" ".join(words) for words in references]


class TestIntervals:
    @pytest.mark.parametrize(("statistics", "score"), [(bleu_statistics, bleu_score), (chrf_statistics, chrf_score)])
    def test_a_draw_is_the_score_of_the_segments_it_took(self, systems, statistics, score):
        (good, *_), references = systems
        rows = statistics(good, references)
        counts = np.concatenate(list(bootstrap._counts(len(rows), 15, seed=9)))
        expected = [
            float(score(statistics(np.repeat(good, taken).tolist(), np.repeat(references, taken).tolist()).sum(axis=0)))
            for taken in counts
        ]
        assert score_interval(rows, score, draws=15, seed=9) == pytest.approx(
            tuple(np.percentile(expected, [2.5, 97.5]))
        )

    def test_a_better_system_is_told_from_chance(self, systems):
        (good, bad, as_bad), references = systems
        good, bad, as_bad = (bleu_statistics(each, references) for each in (good, bad, as_bad))
        better = paired_score_difference(good, bad, bleu_score)
        assert better.mean == pytest.approx(float(bleu_score(good.sum(axis=0)) - bleu_score(bad.sum(axis=0))))
        assert better.interval[0] > 0
        assert better.p == 1e-3
        assert paired_score_difference(bad, good, bleu_score).mean == pytest.approx(-better.mean)
        assert paired_score_difference(bad, as_bad, bleu_score).p > 0.05

    def test_of_a_mean_it_is_the_interval_of_means(self, systems):
        (good, bad, _), references = systems
        one, other = rouge_l(good, references), rouge_l(bad, references)

        def mean(sums):
            return sums[:, 0] / len(references)

        assert score_interval(one[:, None], mean, draws=500) == pytest.approx(mean_interval(one, draws=500))
        apart = paired_score_difference(one[:, None], other[:, None], mean, draws=500)
        expected = paired_difference(one, other, draws=500)
        assert (apart.mean, *apart.interval, apart.p) == pytest.approx((expected.mean, *expected.interval, expected.p))

    def test_what_has_none(self):
        one = bleu_statistics(["a b c d"], ["a b c d"])
        assert score_interval(one, bleu_score) is None
        assert paired_score_difference(one, one, bleu_score) is None
        both = np.concatenate([one, one])
        same = paired_score_difference(both, both, bleu_score)
        assert (same.mean, same.interval, same.p) == (0, (0, 0), 1)
