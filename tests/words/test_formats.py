from pathlib import Path

import numpy as np
import pytest

from wordpipe.errors import InputError
from wordpipe.words.formats import word2vec_binary, word2vec_text
from wordpipe.words.table import WordVectors

ODD = ["the", "isn't", "sea-bed", "3.5", "Ġthe", "漢字", "😀", "a\u00a0b", "é", "ﷺ", "##ing", "\u200b"]


@pytest.mark.parametrize("binary", [True, False])
def test_gensim_reads_back_the_same_words_and_numbers(tmp_path: Path, binary: bool) -> None:
    models = pytest.importorskip("gensim.models")

    rng = np.random.default_rng(11)
    words = ODD + [f"w{i}" for i in range(5_000)]
    vectors_VD = (rng.standard_normal((len(words), 7)) * 10.0 ** rng.integers(-30, 30, (len(words), 1))).astype(
        np.float32
    )
    vectors_VD[3] = [0, -0.0, 1, -1, 1e-45, 3.4e38, 0.1]
    table = WordVectors(words, np.arange(len(words))[::-1], vectors_VD)
    path = tmp_path / "vectors"
    path.write_bytes(b"".join((word2vec_binary if binary else word2vec_text)(table)))
    read = models.KeyedVectors.load_word2vec_format(str(path), binary=binary)
    assert read.index_to_key == words
    np.testing.assert_array_equal(read.vectors, vectors_VD)


@pytest.mark.parametrize("word", ["new york", "", "line\nbreak", "tab\tbed"])
@pytest.mark.parametrize("write", [word2vec_binary, word2vec_text])
def test_a_word_that_the_format_cannot_hold_is_named(word: str, write: object) -> None:
    table = WordVectors(["fine", word], np.ones(2, np.int64), np.ones((2, 3), np.float32))
    with pytest.raises(InputError, match="row 1"):
        next(write(table))  # type: ignore[operator]
