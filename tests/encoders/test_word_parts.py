"""The parts of a text's vector, of word vectors."""

import numpy as np
import pytest

from tests.encoders.test_word_encoder import encoder, table, with_ngrams
from wordpipe.encoders import Moments, WordEncoder, word_spans
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import InputError
from wordpipe.tokens import WordSplitter
from wordpipe.words import WordVectors


@pytest.mark.parametrize("kind", ["none", "centre", "remove-components", "whiten"])
@pytest.mark.parametrize("pooling", ["sif", "mean"])
def test_the_parts_add_up_to_the_vector(kind, pooling):
    one = encoder(3, pooling=pooling)
    rng = np.random.default_rng(5)
    some = [" ".join(f"w{i}" for i in rng.integers(22, size=9)) for _ in range(40)]
    moments = Moments(one.dim)
    moments.add(one.encode(some).vectors)
    one = one.with_transform(moments.fit(kind, 2))
    for text in some:
        parts = one.parts(text)
        np.testing.assert_allclose(parts.vectors.sum(axis=0), one.encode([text]).vectors[0], atol=1e-5)
        assert [text[start:stop] for start, stop in parts.spans] == [w for w in text.split() if w not in ("w20", "w21")]


def test_guessed_words_are_parts_too():
    one = with_ngrams()
    (vector,) = one.encode(["aba baba bab"]).vectors
    np.testing.assert_allclose(one.parts("aba baba bab").vectors.sum(axis=0), vector, atol=1e-5)


@pytest.mark.parametrize("text", ["", "w21 and others"])
def test_a_text_without_a_vector_has_no_parts(text):
    with pytest.raises(InputError, match="no vector"):
        encoder().parts(text)


def test_phrases_are_one_part():
    words = WordVectors(["new", "york", "new_york"], np.array([3, 2, 1]), table().vectors[:3])
    one = WordEncoder(words, WordSplitter(), EmbedSettings(pooling="mean"))
    assert one.parts("In New  York, new!").spans == [(3, 12), (14, 17)]


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("The Sea, the sea", ["the", "sea", "the", "sea"], ["The", "Sea", "the", "sea"]),
        ("İstanbul is Big", ["i̇stanbul", "is", "big"], ["", "is", "Big"]),
        ("one two", ["Ġone", "Ġtwo"], ["one", "two"]),
        ("snake_case here", ["snake", "case", "here"], ["snake", "case", "here"]),
        ("nothing", ["else"], [""]),
    ],
)
def test_words_are_found_where_they_stand(text, words, found):
    assert [text[start:stop] for start, stop in word_spans(text, words)] == found
