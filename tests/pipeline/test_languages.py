"""The project that `init` writes, run whole over texts of scripts that need care: with and without spaces between words."""

import re

import pytest

import wordpipe
from tests.support.languages import LANGUAGES
from wordpipe.pipeline import CONFIG, init_project, run_pipeline

LATER = [pytest.param(name, marks=pytest.mark.landing) for name in ("korean", "hindi", "arabic")]


@pytest.mark.parametrize("name", ["chinese", "japanese", "thai", *LATER])
def test_the_default_project_answers_in_every_script(tmp_path, name):
    language = LANGUAGES[name]
    texts = [text for _, text in language.texts.values()]
    (tmp_path / "notes.txt").write_text("\n\n".join(texts))
    init_project(tmp_path / "project", source=tmp_path / "notes.txt")
    config = tmp_path / "project" / CONFIG
    plain = config.read_text()
    config.write_text(re.sub(r"vocab_size = 8000", "vocab_size = 1000", plain).replace("goal =", "steps = 20\ngoal ="))
    made = run_pipeline(config)
    assert len(made) == 6
    asked = next(one for one in language.questions if one.kind == "code")
    (right,) = asked.first.split()
    for mode in ("lexical", "hybrid"):
        (best, *_) = wordpipe.query(tmp_path / "project" / "run", asked.asked, mode=mode, k=1)
        assert best["text"] == language.texts[right][1]
