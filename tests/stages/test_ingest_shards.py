"""Shards of `ingest` that are made once more: what sifting leaves is what another reading would give."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import wordpipe
from tests.support.golden import golden_files
from wordpipe.artifacts import ResumeCache
from wordpipe.corpus import Ingest, expand, in_pieces, source_parts
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError
from wordpipe.stages import RunOptions
from wordpipe.stages.corpus import ingest, ingest_shards


def contents(cache, names):
    """Figures of shards, and the bytes of their rows."""
    figures = {name: cache.figures(name) for name in names}
    files = [file for one in figures.values() for _, some in one["stretches"] for file in some]
    return figures, {file: (cache.path / file).read_bytes() for file in files}


def shards_of(sources, settings, size, folder):
    """The work of reading sources in parts of a size, and the cache of what is made."""
    parts = tuple(map(tuple, source_parts(sources, size)))
    cache = ResumeCache(folder / "cache", "recipe")
    return ingest_shards.IngestShards(parts, Path.cwd(), settings, cache.path, cache.recipe), cache


@pytest.mark.parametrize("documents", ["line", "block"])
@pytest.mark.parametrize("first_line_title", [False, True])
def test_rows_are_sifted_to_what_another_reading_gives(tmp_path, monkeypatch, documents, first_line_title):
    draw = random.Random()
    blocks = [f"Bees {draw.randrange(40)}.\nThey dance é. So it is.\n\n\n" for _ in range(300)]
    (tmp_path / "bees.txt").write_text("".join(blocks))
    (tmp_path / "more.txt").write_text("".join(draw.choices(blocks, k=30)) + "A new one.")
    settings = IngestSettings(
        documents=documents, valid=0.2, first_line_title=first_line_title and documents == "block"
    )
    sources = in_pieces(expand([str(tmp_path / name) for name in ("bees.txt", "more.txt")]), settings, 1500)
    work, cache = shards_of(sources, settings, 1500, tmp_path)
    names = {number: work.name_of(number) for number in range(len(work.parts))}
    for number in names:
        work.make(number, cache, lambda _: None)
    again = replace(work, known=ingest._known_before(cache, names))
    assert len(again.known) == len(work.parts) - 1 > 3
    made_again = [again.name_of(number) for number in again.known]

    with monkeypatch.context() as patch:
        patch.setattr(ingest_shards, "Ingest", None)  # nothing is read
        for number in again.known:
            again.make(number, cache, lambda _: None)
    sifted = contents(cache, made_again)
    monkeypatch.setattr(ingest_shards, "_is_plain", lambda _: False)
    for number in again.known:
        again.make(number, cache, lambda _: None)
    assert sifted == contents(cache, made_again)
    assert sum(one["rows"] for figures in sifted[0].values() for one in figures["sources"]) < 100


@pytest.mark.parametrize(
    ("name", "text"),
    [("fields.jsonl", '{"text": "bees"}\n'), ("long.txt", "a" * 5000 + "\n")],
)
def test_what_rows_do_not_say_is_read_again(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    sources = expand([str(tmp_path / name)])
    settings = IngestSettings(documents="line" if name.endswith("txt") else "auto", max_sentence_chars=1000)
    cache = ResumeCache(tmp_path / "cache", "recipe")
    ingest_shards.IngestShards((tuple(sources),), Path.cwd(), settings, cache.path, cache.recipe).make(
        0, cache, lambda _: None
    )
    assert not ingest_shards._is_plain(cache.figures("shard-00000"))


def test_of_several_broken_lines_the_first_is_named_whichever_shard_fails_first(tmp_path):
    rows = [f"A line {number}.\t{number}" for number in range(400)]
    for broken in (150, 290, 390):  # beyond the first hundred, which every piece looks at
        rows[broken] += "\tmore"
    (tmp_path / "in.tsv").write_text("\n".join(["text\tn", *rows]))
    settings = IngestSettings()
    sources = in_pieces(expand([str(tmp_path / "in.tsv")]), settings, 500)
    work, cache = shards_of(sources, settings, 500, tmp_path)
    with pytest.raises(InputError, match="line 392: the row has more cells"):
        work.make(len(work.parts) - 1, cache, lambda _: None)
    with pytest.raises(InputError, match="line 152: the row has more cells"):
        ingest._raise_first(work, cache)


def test_texts_that_came_before_under_other_ids_are_counted_as_in_one_reading(tmp_path):
    draw = random.Random()
    for file in range(4):
        rows = [{"id": f"{file}-{n}", "text": f"Text {draw.randrange(30)}."} for n in range(20)]
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings, sources = IngestSettings(), expand([str(tmp_path)])
    work, cache = shards_of(sources, settings, 1, tmp_path)
    names = {number: work.name_of(number) for number in range(len(work.parts))}
    for number in names:
        work.make(number, cache, lambda _: None)
    again = replace(work, known=ingest._known_before(cache, names))
    for number in again.known:
        again.make(number, cache, lambda _: None)
    given = [cache.figures(again.name_of(number))["sources"][0]["ledger"] for number in names]
    alone = Ingest(sources, settings)
    assert len([*alone.batches()]) > 0
    found = sum(json.loads(ledger)["counts"].get("documents_repeated", 0) for ledger in given)
    assert found == alone.counts["documents_repeated"] == 80 - len({*texts_of(tmp_path)})
    assert any("kept although an earlier record has the same text" in note for note in alone.notes)


def texts_of(folder):
    return [json.loads(line)["text"] for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_office_documents_give_the_same_bytes_with_any_number_of_workers(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for number, path in enumerate(2 * golden_files("office")):
        shutil.copy(path, tmp_path / "in" / f"{number}{path.suffix}")
    monkeypatch.setattr(ingest, "PART_BYTES", 100_000)
    made = {}
    for workers in (1, 2, 3):
        output = tmp_path / f"of-{workers}"
        wordpipe.ingest(tmp_path / "in", output=output, deduplicate=False, run=RunOptions(workers=workers))
        made[workers] = {part.name: part.read_bytes() for part in output.glob("*.parquet")}
    assert made[1] == made[2] == made[3]
