import numpy as np
import pytest
from click.testing import CliRunner

from tests.support.made_vectors import made_sentences, made_words
from wordpipe.cli.app import app
from wordpipe.errors import ConfigError
from wordpipe.stages.convert import export as stage

ROWS = 5_000  # more than a batch
VECTORS = np.random.default_rng(1).standard_normal((ROWS, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    said = [f"row {row}\twith a tab\nand a line" for row in range(ROWS)]
    tags = [["a", "b"]] * ROWS
    path = tmp_path_factory.mktemp("made") / "sentences"
    return made_sentences(path, VECTORS, said, year=[2000 + row % 9 for row in range(ROWS)], tags=tags)


def test_npy_is_mapped_as_it_is(sentences, tmp_path):
    for _ in range(2):  # the second time over the first
        written = stage.export(sentences, "npy", tmp_path / "v.npy")
    assert written == {
        "path": str(tmp_path / "v.npy"), "vectors": ROWS, "dim": 6, "bytes": (tmp_path / "v.npy").stat().st_size,
    }  # fmt: skip
    found_ND = np.load(tmp_path / "v.npy", mmap_mode="r", allow_pickle=False)
    np.testing.assert_array_equal(found_ND, VECTORS)


def test_npy_of_words(tmp_path):
    words = made_words(tmp_path / "words", VECTORS[:40], [*range(40, 0, -1)])
    assert stage.export(words, "npy", tmp_path / "w.npy")["vectors"] == 40
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy", allow_pickle=False), VECTORS[:40])


def test_the_projector_gets_a_line_per_row(sentences, tmp_path):
    stage.export(sentences, "projector", tmp_path / "out")
    np.testing.assert_array_equal(
        np.loadtxt(tmp_path / "out" / "vectors.tsv", dtype=np.float32, delimiter="\t"), VECTORS
    )
    head, *lines = (tmp_path / "out" / "metadata.tsv").read_text().split("\n")
    assert head.split("\t") == ["id", "doc_id", "title", "text", "source", "line", "year", "tags"]
    assert len(lines) == ROWS + 1
    assert lines[-1] == ""
    assert lines[7].split("\t") == [
        "7",
        "d2",
        "",
        "row 7 with a tab and a line",
        "notes.txt",
        "8",
        "2007",
        "['a', 'b']",
    ]


@pytest.mark.parametrize("form", ["word2vec-text", "word2vec-binary"])
def test_word2vec_has_the_rows_number_for_a_word(form, sentences, tmp_path):
    gensim = pytest.importorskip("gensim.models")
    stage.export(sentences, form, tmp_path / "v")
    found = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "v"), binary=form.endswith("binary"))
    assert found.index_to_key == [str(row) for row in range(ROWS)]
    np.testing.assert_array_equal(found.vectors, VECTORS)


def test_the_screen_says_how_many(sentences, tmp_path):
    done = CliRunner().invoke(app, ["export", str(sentences), "--to", "npy", "-o", str(tmp_path / "v.npy")])
    assert done.exit_code == 0
    assert "5,000 vectors of 6 numbers" in done.stderr


def test_what_cannot_be_is_refused(sentences, tmp_path):
    with pytest.raises(ConfigError, match="is a file"):
        stage.export(sentences, "npy", tmp_path)
    with pytest.raises(ConfigError, match="not a format of sentences"):
        stage.export(sentences, "glove", tmp_path / "x")
    assert not (tmp_path / "x").exists()
