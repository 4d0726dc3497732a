"""Questions to begin with, of texts that have no titles."""

import wordpipe
from wordpipe.stages import open_artifact, queries_to_begin_with


def test_pairs_of_words_have_no_small_word(tmp_path):
    texts = [f"The letters have been of the civil war in the year {number}." for number in range(9)]
    texts += [f"There may have been {number} ships of the civil war." for number in ["seven", "eight", "nine"]]
    (tmp_path / "t.txt").write_text("\n".join(texts))
    wordpipe.ingest(tmp_path / "t.txt", output=tmp_path / "corpus", documents="line")
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with open_artifact(tmp_path / "index", "index") as opened:
        found = queries_to_begin_with(opened)
    assert found[0] == "civil war"
    assert not {"have", "been"}.intersection(" ".join(found).split())
