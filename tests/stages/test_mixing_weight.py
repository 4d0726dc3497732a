"""What weighs words and vectors where documents are large."""

import wordpipe
from wordpipe.artifacts.reader import Artifact


def test_the_rows_of_a_book_do_not_look_for_each_other(built, handbook, tmp_path):
    wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="file")
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", threads=1)
    made = wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    assert made.counts["vectors"] > 100
    with Artifact(tmp_path / "index") as artifact:
        assert artifact.manifest.facts["lexical"]["measured"]["by"] == "cuts"
