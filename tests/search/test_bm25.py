"""BM25 and stems: the oracles are the formula, text by text, and bm25s."""

import math
import re
import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.search import FIELD_SHARE, Analyser, LexicalIndex, relevance_model, values_of_fields
from wordpipe.search.settings import LexicalSettings

WORDS = ["bee", "bees", "dance", "dancing", "hive", "the", "of", "honey", "tax", "taxes", "2024", "x1"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=30)
query = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join)
ENGLISH = LexicalSettings(language="english")
TAGS = pa.list_(pa.string())


def lucene(
    corpus: list[str], asked: str, k1: float = 1.2, b: float = 0.75, fields: list[str] | None = None
) -> list[float]:
    """The slow twin: every text by itself, from the formula; a word of its fields alone counts as FIELD_SHARE says."""
    stem = Stemmer.Stemmer("english").stemWord
    stop = {"the", "of"}

    def stems(text: str) -> list[str]:
        return [stem(word) for word in re.findall(r"\w\w+", text.lower()) if word not in stop]

    documents, beside = [stems(text) for text in corpus], [stems(text) for text in fields or [""] * len(corpus)]
    mean = sum(map(len, documents)) / len(documents) or 1
    scores = []
    for words, others in zip(documents, beside, strict=True):
        score = 0.0
        for term in stems(asked):
            n = sum(term in both for both in map(list.__add__, documents, beside))
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            tf = Counter(words)[term]
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean)) if tf else 0
            score += idf * FIELD_SHARE / (FIELD_SHARE + k1) if not tf and term in others else 0
        scores.append(score)
    return scores


@given(corpus=texts, asked=query, k=st.integers(1, 8))
def test_scores_are_those_of_the_formula_and_the_best_come_first(corpus, asked, k):
    index = LexicalIndex.build(iter(corpus), ENGLISH)
    expected = np.array(lucene(corpus, asked))
    np.testing.assert_allclose(index.scores(asked), expected, rtol=1e-5, atol=1e-6)
    (hits,) = index.search([asked], k)
    scores = index.scores(asked)
    assert hits.rows.tolist() == [row for row in np.lexsort((np.arange(len(corpus)), -scores)) if scores[row] > 0][:k]
    np.testing.assert_array_equal(hits.scores, scores[hits.rows])
    for row in range(len(corpus)):
        assert sum(share["score"] for share in index.explain(index.read(asked), row)) == pytest.approx(
            expected[row], abs=1e-4
        )


@settings(deadline=None)
@given(corpus=texts, asked=query, begun=st.sets(st.sampled_from(["da", "ho", "tax", "q"])), seed=st.integers(0, 99))
def test_the_share_of_a_query_that_a_text_contains_is_that_of_its_words_one_by_one(corpus, asked, begun, seed):
    index = LexicalIndex.build(iter(corpus), ENGLISH)
    words = [{stem} for word in asked.split() for stem in index.analyser(word) if index.weight_of(stem)]
    words += [{index.written(number) for number in index.begun(prefix)} for prefix in begun if index.begun(prefix)]
    weights = [min(map(index.weight_of, one)) for one in words]
    rows = np.random.default_rng(seed).permutation(len(corpus))
    expected = []
    for row in rows.tolist():
        stems, share = {*index.analyser(corpus[row])}, np.float32(0)
        for one, weight in zip(words, weights, strict=True):
            share += np.float32(weight if one & stems else 0)
        expected.append(share / np.float32(sum(weights)) if words else 1)
    compiled = LexicalIndex.load(dict(index.files()))
    compiled.compile()
    for one in (index, compiled):
        np.testing.assert_allclose(one.shares_of_words(asked, rows, [*begun]), expected, rtol=1e-6)


@settings(deadline=None)
@given(corpus=texts, fields=texts, asked=query, k=st.integers(1, 8))
def test_words_of_fields_count_as_the_formula_says_in_both_kinds_of_loops(corpus, fields, asked, k):
    fields = (fields * len(corpus))[: len(corpus)]
    columns = [pa.array(corpus, pa.large_string()), values_of_fields({"tags": pa.array(map(str.split, fields), TAGS)})]
    rows = pa.StructArray.from_arrays(columns, ["text", "fields"])
    index = LexicalIndex.build([rows[:3], rows[3:]], ENGLISH)
    expected = np.array(lucene(corpus, asked, fields=fields))
    np.testing.assert_allclose(index.scores(asked), expected, rtol=1e-5, atol=1e-6)
    assert index.postings.lengths.tolist() == LexicalIndex.build(corpus, ENGLISH).postings.lengths.tolist()
    compiled = LexicalIndex.load(dict(index.files()))
    compiled.compile()
    terms = index.read(asked)
    for one in (index, compiled):
        (hits,) = one.search([asked], k)
        order = np.lexsort((np.arange(len(corpus)), -index.scores(asked)))
        assert hits.rows.tolist() == [row for row in order if expected[row] > 0][:k]
        np.testing.assert_allclose(one.score_rows(terms, np.arange(len(corpus))), expected, rtol=1e-5, atol=1e-6)
        found = one.texts(hits.rows)
        wanted = 2 * terms.length if found.counts.any() else terms.length
        assert one.expanded(terms, found).length == pytest.approx(wanted)


@settings(deadline=None)
@given(
    seed=st.integers(0, 999), k=st.integers(1, 300), share=st.sampled_from([None, 0.5, 0.01]), k1=st.sampled_from([0.0, 1.2])
)  # fmt: skip
def test_the_best_are_those_of_all_scores_where_common_words_are_looked_up(seed, k, share, k1):
    """The slow twin adds up all postings; the bits are the same, compiled or not, and so is the order of equal scores."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.3, (2_000, 6)), 400)  # the commonest stands in most texts
    corpus = [" ".join(f"w{word}" for word in row[: 1 + row[0] % 6]) for row in words.tolist()]
    index = LexicalIndex.build(corpus, LexicalSettings(language="none", k1=k1))
    allowed = None if share is None else rng.random(len(corpus)) < share
    asked = [" ".join(rng.choice(" ".join(corpus[:50]).split(), size)) for size in (1, 2, 3, 5, 5, 30)]
    rows, terms = rng.permutation(len(corpus))[:k], [index.read(text) for text in asked]
    plain, of_rows = index.search(asked, k, allowed), [index.score_rows(one, rows) for one in terms]
    index.compile()
    np.testing.assert_array_equal([index.score_rows(one, rows) for one in terms], of_rows)
    for text, hits, compiled in zip(asked, plain, index.search(asked, k, allowed), strict=True):
        scores = index.scores(text)
        found = np.flatnonzero(scores if allowed is None else scores * allowed)
        expected = found[np.lexsort((found, -scores[found]))][:k]
        for one in (hits, compiled):
            np.testing.assert_array_equal(one.rows, expected)
            np.testing.assert_array_equal(one.scores, scores[expected])


@given(
    corpus=texts,
    asked=query,
    other=query,
    k1=st.floats(0.1, 3),
    b=st.floats(0, 1),
)
def test_a_text_that_is_not_in_the_index_scores_as_the_formula_has_it(corpus, asked, other, k1, b):
    """Terms that no text of the index has count for nothing; idf and the mean length are those of the index."""
    index = LexicalIndex.build(corpus, LexicalSettings(language="english", k1=k1, b=b))
    lengths, counts = [len(index.analyser(text)) for text in corpus], Counter(index.analyser(other))
    mean = sum(lengths) / len(lengths) or 1
    expected = 0.0
    for term in index.analyser(asked):
        n = sum(term in index.analyser(text) for text in corpus)
        damping = k1 * (1 - b + b * counts.total() / mean)
        idf = math.log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
        expected += idf * counts[term] / (counts[term] + damping) if n and counts[term] else 0
    read = index.read(asked)
    assert index.score_texts(read, index.read_text(other))[0] == pytest.approx(expected, rel=1e-5, abs=1e-9)
    own = index.scores(asked)
    assert [index.score_texts(read, index.read_text(text))[0] for text in corpus] == pytest.approx(
        own.tolist(), rel=1e-5, abs=1e-6
    )
    rows = np.random.default_rng(0).permutation(len(corpus))
    np.testing.assert_allclose(index.score_rows(read, rows), own[rows], rtol=1e-5, atol=1e-6)


@given(corpus=texts, asked=query, seed=st.integers(0, 99))
def test_a_query_gets_the_weightiest_terms_of_what_it_found(corpus, asked, seed):
    """The slow twin: term by term and text by text; added terms weigh as much as the query's own together."""
    index = LexicalIndex.build(corpus, ENGLISH)
    found = np.random.default_rng(seed).permutation(len(corpus))[:4].tolist()
    gains: Counter[str] = Counter()
    for rank, row in enumerate(found, start=1):
        for stem in {*index.analyser(corpus[row])}:
            gains[stem] += lucene(corpus, stem)[row] / rank
    own = Counter(stem for stem in index.analyser(asked) if index.knows(stem))
    total = sum(gains.values())
    expected = own if not own or not total else {
        stem: own[stem] + own.total() * gains[stem] / total for stem in {*own, *gains}
    }  # fmt: skip
    terms = index.expanded(index.read(asked), index.texts(np.array(found)))
    named = {index.terms[number].decode(): weight for number, weight in zip(terms.numbers, terms.weights, strict=True)}
    assert named == pytest.approx(dict(expected), rel=1e-4)
    shares = index.explain(terms, found[0], index.read(asked))
    assert sum(share["score"] for share in shares) == pytest.approx(
        index.score_rows(terms, np.array(found[:1]))[0], abs=1e-4
    )
    own_score = index.scores(asked)[found[0]]
    assert sum(share["score"] - share["answers"] for share in shares) == pytest.approx(own_score, abs=1e-4)


def test_few_terms_are_added_and_those_that_weigh_most():
    rng = np.random.default_rng(4)
    corpus = [" ".join(f"word{number}" for number in rng.integers(0, 400, 100)) for _ in range(30)]
    index = LexicalIndex.build(corpus, LexicalSettings(language="none"))
    asked = index.read("word1 word2")
    many, few = (index.expanded(asked, index.texts(np.arange(n))) for n in (10, 0))
    assert few is asked
    assert 50 <= len(many.numbers) <= 52
    assert many.length == pytest.approx(2 * asked.length)


@settings(max_examples=30)
@given(corpus=texts, asked=query)
def test_a_relevance_model_is_that_of_the_papers(corpus, asked):
    """RM3 by hand: P(w|d) = tf / |d|, weighted by the scores, the ten likeliest, half and half with the query."""
    index = LexicalIndex.build(corpus, ENGLISH)
    (hits,) = index.search([asked], 10)
    own = Counter(stem for stem in index.analyser(asked) if index.knows(stem))
    likely: Counter[str] = Counter()
    for row, score in zip(hits.rows.tolist(), hits.scores.tolist(), strict=True):
        stems = index.analyser(corpus[row])
        for stem, times in Counter(stems).items():
            likely[stem] += score * times / len(stems)
    terms = relevance_model(index, index.read(asked), hits)
    if not likely:
        assert terms.numbers.tolist() == index.read(asked).numbers.tolist()
        return
    expected = {stem: own[stem] / own.total() / 2 + likely[stem] / sum(likely.values()) / 2 for stem in {*own, *likely}}
    named = {index.terms[number].decode(): weight for number, weight in zip(terms.numbers, terms.weights, strict=True)}
    assert named == pytest.approx(expected, rel=1e-4)


def test_what_texts_consist_of_must_belong_to_the_index():
    index = LexicalIndex.build(["bees dance", "honey of the hive bees bees", "", "taxes"], ENGLISH)
    damaged = LexicalIndex.load({**files_of(index), "text_terms.npy": files_of(index)["lengths.npy"]})
    with pytest.raises(ArtifactError, match="do not match each other"):
        damaged.by_text  # noqa: B018


def test_a_thousand_texts_score_as_bm25s_scores_them(handbook):
    import bm25s

    corpus = handbook.read_text().split("\n")
    tokenized = bm25s.tokenize(corpus, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
    peer = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    peer.index(tokenized, show_progress=False)
    index = LexicalIndex.build(corpus, LexicalSettings())
    assert index.settings.language == "english"
    for asked in ("how do bees find their way home", "water and salt", "the cost of a new roof roof"):
        stems = [stem for stem in index.analyser(asked) if stem in peer.vocab_dict]
        expected = peer.get_scores(stems)
        np.testing.assert_allclose(index.scores(asked), expected, rtol=1e-5, atol=1e-5)
        alone = [
            index.score_texts(index.read(asked), index.read_text(text))[0] for text in corpus
        ]  # as if they were not in it
        np.testing.assert_allclose(alone, expected, rtol=1e-5, atol=1e-5)
        assert max(alone) > 1


@given(corpus=texts, asked=query, seed=st.integers(0, 99))
def test_only_allowed_texts_are_found(corpus, asked, seed):
    index = LexicalIndex.build(corpus, ENGLISH)
    allowed = np.random.default_rng(seed).random(len(corpus)) < 0.5
    (all_hits,), (hits,) = index.search([asked], len(corpus)), index.search([asked], 3, allowed)
    assert hits.rows.tolist() == [row for row in all_hits.rows.tolist() if allowed[row]][:3]


@given(corpus=texts, more=texts, seed=st.integers(0, 99))
def test_an_updated_index_has_the_bytes_of_a_new_one(corpus, more, seed):
    rng = np.random.default_rng(seed)
    kept = np.flatnonzero(rng.random(len(corpus)) < 0.7)
    old_rows = rng.permutation(np.concatenate([kept, np.full(len(more), -1)]))
    new = iter(more)
    everything = [corpus[row] if row >= 0 else next(new) for row in old_rows]
    gone = [text for row, text in enumerate(corpus) if row not in kept]
    updated = LexicalIndex.build(corpus, ENGLISH).updated(old_rows, more, gone)
    assert files_of(updated) == files_of(LexicalIndex.build(everything, ENGLISH))


@given(corpus=texts, asked=texts, seed=st.integers(0, 99))
def test_some_texts_of_an_index_have_the_terms_and_scores_of_an_index_of_them_alone(corpus, asked, seed):
    chosen = np.random.default_rng(seed).random(len(corpus)) < 0.6
    some = LexicalIndex.build(corpus, ENGLISH).of_some(chosen)
    alone = LexicalIndex.build([text for text, is_chosen in zip(corpus, chosen, strict=True) if is_chosen], ENGLISH)
    words = {f"{name}.npy" for name in ("word_letters", "word_sizes", "word_terms", "word_counts")}
    assert {name: data for name, data in files_of(some).items() if name not in words} == {
        name: data for name, data in files_of(alone).items() if name not in words
    }
    for question in asked:
        assert some.scores(question).tolist() == alone.scores(question).tolist()


def files_of(index: LexicalIndex) -> dict[str, bytes]:
    return dict(index.files())


def test_what_is_saved_answers_the_same_and_damage_is_named():
    index = LexicalIndex.build(["bees dance", "honey of the hive", "", "taxes"], ENGLISH)
    files = files_of(index)
    again = LexicalIndex.load(files)
    assert again.settings == index.settings
    np.testing.assert_array_equal(again.scores("dancing bee tax"), index.scores("dancing bee tax"))
    with pytest.raises(ArtifactError, match="do not match each other"):
        LexicalIndex.load({**files, "postings.npy": files["letters.npy"]})
    with pytest.raises(ArtifactError, match="the lexical index cannot be read"):
        LexicalIndex.load({**files, "postings.npy": b"no array"})


@pytest.mark.parametrize("corpus", [[], ["", " "], ["the of"]])
def test_nothing_to_find(corpus):
    index = LexicalIndex.build(corpus, ENGLISH)
    again = LexicalIndex.load(files_of(index))
    assert [len(hits) for hits in again.search(["bees", "", "the"], 5)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("language", "text", "stems"),
    [
        ("english", "The bees' Dancing is e-mail2", ["bee", "danc", "e", "email2", "mail2"]),
        ("german", "Die Bienen tanzten", ["bien", "tanzt"]),
        ("none", "Dancing NAÏVE Ünited", ["dancing", "naïve", "naive", "ünited", "united"]),
        ("english", "蜂は踊る bees", ["蜂は", "蜂", "は踊", "踊る", "踊", "bee"]),
        ("none", "蜂 हिन्दी ﬁne", ["蜂", "हिन्दी", "हिंदी", "fine"]),
        ("none", "İstanbul", ["i̇stanbul", "istanbul"]),
    ],
)
def test_stems(language, text, stems):
    analyser = Analyser(language)
    assert analyser(text) == stems


def test_every_language_of_the_settings_can_be_stemmed_and_others_are_refused():
    from typing import get_args

    from wordpipe.search.settings import Language

    for language in set(get_args(Language)) - {"auto"}:
        Analyser(language)
    with pytest.raises(ConfigError, match="klingon"):
        Analyser("klingon")


def test_words_of_no_text_are_told_with_what_one_slip_makes_of_them():
    texts = ["The pump makes a grinding noise.", "Noises of bearings", "A nose", "蜂は花から花へ飛ぶ", "каталог"]
    index = LexicalIndex.build(texts, LexicalSettings(language="english"))
    assert index.strangers("grinding nosie") == {"nosie": ["noise", "nose"]}
    assert index.strangers("grindin the Pumps") == {"grindin": ["grinding"]}
    assert index.strangers("zzzzzz of qq") == {"zzzzzz": [], "qq": []}
    assert index.strangers("花と蜂") == {}
    assert "катлог" in index.strangers("катлог")
    assert index.strangers("pump") == {}
    many = index.strangers(" ".join(f"nois{letter}q" for letter in "abcdefg"))
    assert len(many) == 7


@pytest.mark.parametrize("language", ["english", "none"])
def test_two_words_are_told_where_texts_write_them_as_one(language):
    texts = ["a database of rivers"] * 3 + ["two databases"] * 2 + ["the data of a base camp"] * 6
    texts += ["one boundarylayer", *["a boundary and a layer"] * 9, "two-dimensional", "two dimensional maps"]
    index = LexicalIndex.build(texts, LexicalSettings(language=language))
    assert [*index.as_one_word(["data", "base"])] == [("data", "base", "database", 5)]
    assert [*index.as_one_word(["a", "Data", "bases", "of"])] == [("Data", "bases", "database", 5)]
    for others in (
        ["boundary", "layer"],
        ["two", "dimensional"],
        ["base", "data"],
        ["data", "of", "base"],
        ["data"],
        [],
    ):
        assert [*index.as_one_word(others)] == []


def test_no_slip_is_missed():
    """Against the distance to every word, transpositions of neighbours being one."""
    words = ["bearing", "impeller", "gasket", "valve"]
    index = LexicalIndex.build(words, LexicalSettings(language="none"))
    for asked, meant in [("baering", "bearing"), ("impeler", "impeller"), ("gaskett", "gasket"), ("vslve", "valve")]:
        assert index.strangers(asked) == {asked: [meant]}
    assert index.strangers("aebring") == {"aebring": []}


@settings(deadline=None)
@given(
    words=st.lists(st.text("abdéñ漢", min_size=2, max_size=12), min_size=1, max_size=40),
    asked=st.lists(st.text("abdéñ漢", min_size=4, max_size=12), min_size=1, max_size=5),
    language=st.sampled_from(["english", "none", "spanish"]),
)
def test_many_terms_are_found_as_one_is(words, asked, language):
    index = LexicalIndex.build(words, LexicalSettings(language=language))
    wanted = [*asked, *words, "", *(word[:9] for word in words), *(term.decode() for term in index.terms)]
    assert index.terms.find_all(wanted).tolist() == [index.terms.find(one) for one in wanted]
    assert index.terms.find_all([]).tolist() == []
    for word in asked:
        told = index.strangers(word)
        assert told == index.strangers(word)
        assert all(index.knows(near) for some in told.values() for near in some)


@settings(deadline=None)
@given(seed=st.integers(0, 9_999), n=st.integers(1, 400), k=st.integers(1, 420))
def test_the_border_of_the_best_is_the_same_in_both_kinds_of_loops(seed, n, k):
    scores = np.random.default_rng(seed).integers(0, 40, n).astype(np.float32) / np.float32(7)
    kept = scores.copy()
    expected = np.sort(scores)[::-1][k - 1] if k <= n else 0.0
    index = LexicalIndex.build(["sea"], ENGLISH)
    assert index.loops.border_of(scores, k) == expected
    index.compile()
    assert index.loops.border_of(scores, k) == expected
    np.testing.assert_array_equal(scores, kept)


def test_compiled_loops_are_loaded_while_queries_are_answered_and_only_for_many_texts(monkeypatch):
    corpus = [f"salt water {word} sea" for word in ("of", "blue", "cold", "deep") * 30]
    for least, is_compiled in ((121, False), (120, True)):
        monkeypatch.setattr("wordpipe.search.vectors.knn.COMPILED_FROM", least)
        index = LexicalIndex.build(corpus, ENGLISH)
        before = index.search(["cold sea"], 50)[0]
        index.compile_meanwhile()
        assert "kernels" not in index.loops.__name__  # not before it is asked
        (first,) = index.search(["cold sea"], 50)
        for thread in threading.enumerate():
            if thread.name == "compile":
                thread.join(60)
        assert ("kernels" in index.loops.__name__) == is_compiled
        for hits in (first, index.search(["cold sea"], 50)[0]):
            np.testing.assert_array_equal(hits.rows, before.rows)
            np.testing.assert_array_equal(hits.scores, before.scores)
