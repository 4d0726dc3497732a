"""A table of words is not trained on a script without spaces, in whose text it would not find them again."""

import pytest

import wordpipe
from wordpipe.errors import ConfigError


def test_words_of_a_script_without_spaces_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text(
        "\n\n".join(f"蜂は花の蜜を集めて巣に帰る。{n}番目の蜂も踊る。" for n in range(60))
    )
    wordpipe.tokenize(tmp_path / "notes.txt", output=tmp_path / "tokens", vocab_size=300)
    with pytest.raises(ConfigError, match="without spaces") as caught:
        wordpipe.train_contrastive(tmp_path / "tokens", output=tmp_path / "model", steps=1, threads=1)
    assert "--unit token" in caught.value.hint
    assert not (tmp_path / "model").exists()
