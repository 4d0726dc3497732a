"""The counting of terms and words: the oracle reads text by text and run by run, without pieces, blocks or short ways."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.search import Analyser, LexicalIndex
from wordpipe.search.lexical import analysis, counting
from wordpipe.search.settings import LexicalSettings

ALPHABET = "aBsxIİßéêё́łøﬁ09_ .,-'’‐/&+#(\"“…\n\r\t\x1e\x00\u00ad\u200b\u00a0\u3000\ud800漢字カｶﾞไทย서울가هَना"
WORDS = [
    "running", "Runs", "the", "isn't", "dog's", "l’eau", "PDFs", "llms", "C++", "(.NET", "=.5", "node.js", "3.11.2", "1,500",
    "e-mail", "well-known-man", "exam-\nple", "exam-\r\n  ple", "Bei‐\nspiel", "R&D", "I/O", "U.S.", "x", "7", "snake_case",
    "“word”", "Straße", "ΟΔΟΣ", "café", "cafe", "ёлка", "東京都", "서울에서", "ไทย", "کتاب‌ها", "I", "IRMAK", "ﬁle", "CO₂",
    "...", "'tis",
]  # fmt: skip
text = (
    st.text(ALPHABET, max_size=30) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=20)
)


def counted_slowly(texts, language, stems):
    """Terms with their counts by text, words with their term and count, and the lengths: from the forms of every run."""
    analyser, terms, words, lengths = Analyser(language, stems=stems), Counter(), Counter(), []
    for number, one in enumerate(texts):
        length = 0
        for run in analyser.runs(one):
            for form in analyser.of_run(run):
                terms[form.term, number] += 1
                length += form.is_long
                if form.is_long and not analysis.is_unspaced(run):
                    word = analyser.exact(run[form.start : form.end])
                    words[word if form.is_main else analysis.without_marks(word), form.term] += 1
        lengths.append(length)
    return dict(terms), dict(words), lengths


def counted(texts, language, stems):
    """The same of an index; of texts, or of arrays of texts."""
    index = LexicalIndex.build(iter(texts), LexicalSettings(language=language), stems=stems)
    names = [term.decode() for term in index.terms]
    assert [name.encode() for name in names] == sorted(name.encode() for name in names)
    terms_P, rows_P, counts_P = index.postings.all()
    places = zip(terms_P.tolist(), rows_P.tolist(), strict=True)
    terms = {(names[term], row): n for (term, row), n in zip(places, counts_P.tolist(), strict=True)}
    words = {(word.decode(), names[term]): n for word, term, n in index.words.rows()}
    assert len(terms) == len(rows_P)
    assert len(words) == len(index.words)
    return terms, words, index.postings.lengths.tolist()


@settings(deadline=None)
@given(
    texts=st.lists(text, max_size=6), language=st.sampled_from(["none", "english", "turkish", "french"]), stems=st.booleans()
)  # fmt: skip
def test_what_is_counted_by_pieces_is_what_stands_in_every_run(texts, language, stems):
    expected = counted_slowly(texts, language, stems)
    written = [one.encode("utf-8", "replace").decode() for one in texts]
    arrays = [pa.array(written[:2], pa.string()), pa.array([], pa.string()), pa.array(written[2:], pa.string())]
    for given_texts in (texts, arrays):
        assert counted(given_texts, language, stems) == expected
        with pytest.MonkeyPatch.context() as patch:  # blocks of a few texts, of which nothing is remembered
            patch.setattr(counting, "_BLOCK", 20)
            patch.setattr(counting, "_REMEMBERED", 150)
            assert counted(given_texts, language, stems) == expected


def test_a_text_has_the_same_terms_wherever_it_stands():
    alone = LexicalIndex.build(["x =.5"], LexicalSettings(language="none")).terms
    beside = LexicalIndex.build(["x =.5", "(.NET é"], LexicalSettings(language="none")).terms
    assert {*alone} == {b"x", b"5", b".5"} <= {*beside}


@settings(deadline=None)
@given(st.lists(text, max_size=5), st.lists(text, max_size=3), st.data())
def test_an_update_is_what_counting_all_texts_anew_gives(old, new, data):
    kept = data.draw(st.lists(st.sampled_from(range(len(old))), unique=True)) if old else []
    rows = data.draw(st.permutations([*kept, *[-1] * len(new)]))
    following = iter(new)
    wanted = [old[row] if row >= 0 else next(following) for row in rows]
    gone = [one for number, one in enumerate(old) if number not in kept]
    language = LexicalSettings(language="english")
    updated = LexicalIndex.build(old, language).updated(np.array(rows, np.int64), new, gone)
    assert [*updated.files()] == [*LexicalIndex.build(wanted, language).files()]
