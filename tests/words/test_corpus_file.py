from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import InputError
from wordpipe.words import corpus_file
from wordpipe.words.corpus_file import CorpusFiles, part_words, write_corpus_files
from wordpipe.words.lines import Lines

JOB = 7  # instead of 9,999


def lines_of(lines: list[list[int]]) -> Lines:
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    return Lines(np.array([w for line in lines for w in line], dtype=np.int32), lengths, len(lines))


def read(text: CorpusFiles) -> list[list[list[str]]]:
    """Lines of words per part."""
    return [[line.split(" ") for line in part.path.read_text().splitlines()] for part in text.parts]


def jobs_of(lines: list[list[str]]) -> list[list[str]]:
    """What gensim's reader puts into one job: lines until they are more than JOB + 1 words."""
    jobs: list[list[str]] = [[]]
    for line in lines:
        if len(jobs[-1]) > JOB + 1:
            jobs.append([])
        jobs[-1] += line
    return jobs


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=JOB), min_size=1, max_size=30),
    part=st.integers(1, 40),
    slices=st.integers(1, 30),
    calls=st.integers(1, 4),
)
def test_every_word_is_in_a_job_that_gensim_trains_in_full(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[int]], part: int, slices: int, calls: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_file, "MAX_LINE", JOB)
        patch.setattr(corpus_file, "_JOB_READS", JOB + 2)
        patch.setattr(corpus_file, "_SLICE", slices)
        pieces = [lines_of(lines[i::calls]) for i in range(calls) if lines[i::calls]]
        text = write_corpus_files(pieces, tmp_path_factory.mktemp("text"), vocab_size=12, words_per_part=part)
    written = [line for one in read(text) for line in one if line[0] != "-"]
    assert written == [[str(w) for w in line] for i in range(calls) for line in lines[i::calls]]
    for one, about in zip(read(text), text.parts, strict=True):
        jobs = jobs_of(one)
        assert all(len(job) == JOB + 2 for job in jobs)
        assert sum(word != "-" for job in jobs for word in job) == about.words
        assert sum(word == "-" for job in jobs for word in job) == about.marks
    assert text.words == sum(map(len, lines))
    assert all(about.words >= part for about in text.parts[:-1])
    assert (text.lines, text.texts, text.cuts) == (len(lines), len(lines), 0)


@pytest.mark.parametrize("sizes", [[30_000], [8_000, 8_000, 8_000], [9_998, 2, 9_999, 1, 10_000], [20] * 2_000])
def test_gensim_trains_all_words_of_long_texts(tmp_path: Path, sizes: list[int]) -> None:
    models = pytest.importorskip("gensim.models")

    from wordpipe.words.lines import LineCutter

    rng = np.random.default_rng(sizes[0])
    cutter = LineCutter()
    rows = rng.integers(50, size=sum(sizes), dtype=np.int32)
    text = write_corpus_files(
        [cutter.feed(rows, np.cumsum([0, *sizes[:-1]])), cutter.finish()], tmp_path, vocab_size=50
    )
    (part,) = text.parts
    model = models.Word2Vec(vector_size=4, min_count=1, sample=0, workers=1)
    model.build_vocab_from_freq({str(row): 1000 for row in range(50)})
    trained, seen = model.train(corpus_file=str(part.path), total_words=part.words + part.marks, epochs=1)
    assert trained == part.words == sum(sizes)
    assert seen == part.words + part.marks
    assert text.cuts == sum(-(-size // 9_999) - 1 for size in sizes)


def test_parts_keep_all_threads_busy() -> None:
    assert part_words(100_000_000, 2) == 1_000_000
    assert part_words(1_600_000, 2) == 100_000
    assert part_words(500, 8) == 9_999


def test_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no words"):
        write_corpus_files([], tmp_path, vocab_size=3)
