"""Baselines of heads: linear models equal scikit-learn's, gazetteers a slow twin, sentences what BM25 says."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.heads import Gazetteer, TfidfModel, best_sentence, chunks_of, commonest

WORDS = [f"{one}{other}" for one in ("ba", "ke", "mi", "so") for other in ("la", "ne", "ti", "do", "ru")]


def texts_of(n, seed, labels):
    """Texts in which a word of the label's comes more often than others."""
    draw = random.Random(seed)
    wanted = [draw.choice(labels) for _ in range(n)]
    own = {label: WORDS[number * 3 : number * 3 + 3] for number, label in enumerate(labels)}
    return [
        " ".join(draw.choice(WORDS + own[label] * 4) for _ in range(draw.randint(1, 12))) for label in wanted
    ], wanted


def theirs(texts, others):
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return vectoriser.fit_transform(texts), vectoriser.transform(others), vectoriser


@pytest.mark.landing
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]])
def test_logistic_regression_is_that_of_scikit_learn(labels):
    from sklearn.linear_model import LogisticRegression

    (texts, wanted), (others, _) = texts_of(150, 1, labels), texts_of(80, 2, labels)
    ours = TfidfModel.fit([(text,) for text in texts], wanted, "single")
    known, unknown, vectoriser = theirs(texts, others)
    model = LogisticRegression(C=10, max_iter=5000, tol=1e-8).fit(known, wanted)
    scores = model.decision_function(unknown).reshape(len(others), -1)
    found = ours.scores([(text,) for text in others])
    if scores.shape[1] > 1:  # a softmax does not know what all outputs have in common
        scores, found = (one - one.mean(1, keepdims=True) for one in (scores, found))
    assert np.abs(found - scores).max() < 5e-3
    assert ours.predict([(text,) for text in others]) == model.predict(unknown).tolist()
    columns = [ours.tfidf.column_of[term] for term in vectoriser.get_feature_names_out()]
    assert np.abs(ours.weights[columns].T - model.coef_).max() < 1e-2


@pytest.mark.landing
def test_several_labels_are_a_regression_each():
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    texts, wanted = texts_of(120, 3, ["a", "b", "c"])
    sets = [{label} | ({"c"} if number % 3 else set()) for number, label in enumerate(wanted)]
    ours = TfidfModel.fit([(text,) for text in texts], sets, "several")
    known, unknown, _ = theirs(texts, texts[:40])
    matrix = np.array([[name in some for name in "abc"] for some in sets], int)
    model = OneVsRestClassifier(LogisticRegression(C=10, max_iter=5000, tol=1e-8)).fit(known, matrix)
    found = ours.predict([(text,) for text in texts[:40]])
    assert found == [tuple(np.array(list("abc"))[row == 1].tolist()) for row in model.predict(unknown)]


@pytest.mark.landing
def test_scores_are_those_of_a_ridge():
    from sklearn.linear_model import Ridge

    texts, wanted = texts_of(120, 4, ["1.5", "2.5", "9.0"])
    numbers = [float(one) for one in wanted]
    ours = TfidfModel.fit([(text,) for text in texts], numbers, "score").predict([(text,) for text in texts[:30]])
    known, unknown, _ = theirs(texts, texts[:30])
    assert ours == pytest.approx(Ridge(alpha=1.0, tol=1e-10).fit(known, numbers).predict(unknown).tolist(), abs=1e-3)


def test_pairs_know_which_text_a_word_is_of_and_what_both_have():
    rows = [(("red fox", "red hen"), "same"), (("red fox", "blue hen"), "other"), (("blue cat", "blue dog"), "same"),
            (("blue cat", "red dog"), "other")] * 5  # fmt: skip
    model = TfidfModel.fit([texts for texts, _ in rows], [label for _, label in rows], "single")
    assert model.predict([("red", "red"), ("blue", "red")]) == ["same", "other"]


def test_few_weights_are_those_of_the_commonest_terms(monkeypatch):
    monkeypatch.setattr("wordpipe.heads.baselines._MOST_WEIGHTS", 12)
    texts, wanted = texts_of(60, 5, ["a", "b", "c"])
    model = TfidfModel.fit([(text,) for text in texts], wanted, "single")
    assert model.weights.shape == (4, 3)
    assert {*model.predict([("bala",), ("nothing of these",)])} <= {"a", "b", "c"}


def slow_gazetteer(train, words):
    """Every span at every place, the longest one first."""
    seen = {}
    for own, tags in train:
        for _, first, end in chunks_of(tags):
            seen.setdefault(tuple(own[first:end]), []).append(tuple(tags[first:end]))
    found, at = [], 0
    while at < len(words):
        fits = [span for span in seen if tuple(words[at : at + len(span)]) == span]
        if not fits:
            found.append(commonest(tag for _, tags in train for tag in tags))
            at += 1
            continue
        span = max(fits, key=len)
        counts = {tags: seen[span].count(tags) for tags in seen[span]}
        found += min(counts, key=lambda tags: (-counts[tags], tags))
        at += len(span)
    return tuple(found)


tagged = st.lists(
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])), min_size=1, max_size=6),
    min_size=1, max_size=6,
)  # fmt: skip


@given(tagged, st.lists(st.sampled_from("xyzw"), max_size=8))
def test_a_gazetteer_is_its_slow_twin(rows, words):
    train = [([word for word, _ in row], [tag for _, tag in row]) for row in rows]
    ours = Gazetteer.fit([own for own, _ in train], [tags for _, tags in train]).predict(words)
    assert len(ours) == len(words)
    assert ours == slow_gazetteer(train, words)


def test_a_gazetteer_of_parts_of_speech_gives_each_word_its_commonest():
    model = Gazetteer.fit(
        [["the", "run"], ["I", "run"], ["we", "run"]], [["DET", "NOUN"], ["PRON", "VERB"], ["PRON", "VERB"]]
    )
    assert model.predict(["the", "run", "ends"]) == ("DET", "VERB", "PRON")


def test_the_best_sentence_has_the_words_of_the_question():
    passage = "The mill is old. Bees nest in the wall of the mill. The river is cold."
    assert best_sentence(passage, "Where do bees nest?") == "Bees nest in the wall of the mill."
    assert best_sentence(passage, "Xyzzy?") == "The mill is old."
    assert best_sentence("One sentence only", "which?") == "One sentence only"
    assert best_sentence("", "which?") == ""


def test_equally_frequent_ones_are_taken_by_name():
    assert commonest([("b",), ("a",)]) == ("a",)
