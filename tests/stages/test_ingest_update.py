"""`ingest --update`: the same bytes as if everything had been read, without reading what has not changed."""

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe.corpus import ingest as reading
from wordpipe.errors import ConfigError
from wordpipe.stages.corpus import ingest as stage

TEXTS = [
    "Tides rise. Boats wait.",
    "Bees dance.\n\nHoney flows.",
    "Bridges hold.",
    "Bread bakes. It smells.",
    "Snow falls.",
]
CHANGES = ("sources_copied", "sources_read_again", "sources_added", "sources_deleted")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with five sources in two formats."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "in" / f"{number}.txt").write_text(text)
    rows = [
        {"text": "From JSON. Two.", "title": "J", "year": 1999},
        {"text": "Bees dance.\n\nHoney flows."},
        {"text": ""},
    ]
    (tmp_path / "in" / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def reads(monkeypatch):
    """The sources that are read from now on."""
    names: list[str] = []
    read = reading.read_records

    def noting(source, *args, **options):
        names.append(source.name)
        return read(source, *args, **options)

    monkeypatch.setattr(reading, "read_records", noting)
    return names


def both(**settings):
    """An update, and a fresh corpus of the same sources beside it: the same bytes and the same counts."""
    # parts read by processes are tested with the engines
    alone = wordpipe.RunOptions(workers=1, keeps_settings=False)
    settings = {"valid": 0.2, "metadata": ("year:int",), "run": alone} | settings
    made = wordpipe.ingest("in", output="corpus", update=True, **settings)
    fresh = wordpipe.ingest("in", output="fresh", **settings)
    shutil.rmtree("fresh")
    assert (made.recipe, made.digest) == (fresh.recipe, fresh.digest)
    assert {name: count for name, count in made.counts.items() if name not in CHANGES} == fresh.counts
    assert [text for text in made.warnings if "from the corpus" not in text] == fresh.warnings
    assert wordpipe.verify("corpus")["ok"]
    return made


def changes(made):
    return tuple(made.counts[name] for name in CHANGES)


def test_without_a_corpus_everything_is_read(here, reads):
    made = both()
    assert "sources_copied" not in made.counts
    assert changes(both()) == (6, 0, 0, 0)


def test_added_changed_and_deleted_sources(here, reads):
    both()
    (here / "in" / "2.txt").write_text("Bridges fall.")
    (here / "in" / "1a.txt").write_text("A new one.")
    (here / "in" / "4.txt").unlink()
    reads.clear()
    made = wordpipe.ingest("in", output="corpus", update=True, valid=0.2, metadata=("year:int",))
    assert reads == ["in/1a.txt", "in/2.txt"]  # the double that the last had dropped is still there
    assert changes(made) == (4, 1, 1, 1)
    assert changes(both()) == (6, 0, 0, 0)


def test_a_double_is_kept_once_its_first_is_gone(here):
    both()
    (here / "in" / "1.txt").unlink()
    assert both().counts["documents_dropped_empty"] == 1


def test_a_kept_document_is_dropped_once_it_stands_in_an_earlier_source(here):
    both()
    (here / "in" / "00.txt").write_text("Bread bakes. It smells.")
    made = both()
    assert made.counts["documents_dropped_duplicate"] == 2
    assert changes(made)[1] == 1


def test_records_that_differ_in_a_field_are_kept_by_an_update_too(here):
    rows = [{"text": "Same.", "year": year} for year in (1, 2, 2)]
    for name, some in (("y.jsonl", rows[:1]), ("z.jsonl", rows)):
        (here / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in some))
    made = both()
    assert made.counts["documents_dropped_duplicate"] == 3  # one of them of plain text
    assert changes(both()) == (8, 0, 0, 0)
    (here / "in" / "y.jsonl").write_text('{"text": "Same.", "year": 3}\n')
    assert both().counts["documents_dropped_duplicate"] == 2
    (here / "in" / "0.txt").write_text("Same.")
    assert both().counts["documents_dropped_duplicate"] == 2  # plain text is no record, and no record is plain text


def test_where_doubles_stand_is_kept_and_they_are_read_again_only_if_their_text_is_gone(here, reads):
    (here / "in" / "5.txt").write_text("Snow falls.")
    (here / "in" / "y.jsonl").write_text('{"id": "a", "text": "Salt."}\n{"id": "a", "text": "Salt."}\n' * 2)
    wordpipe.ingest("in", output="corpus", valid=0.2, metadata=("year:int",))
    found = pq.read_table("corpus/doubles.parquet").to_pylist()
    places = [(one["record_id"], one["source"], one["line"]) for one in found]
    assert places == [(None, "in/5.txt", 1), (None, "in/x.jsonl", 2), ("a", "in/y.jsonl", 2)]
    # a change before them leaves them as they are
    (here / "in" / "0.txt").write_text("Tides fall.")
    reads.clear()
    both()
    assert reads[:1] == ["in/0.txt"]
    assert reads[2] == "in/1.txt"  # which the fresh corpus reads
    # a text that is gone comes back
    (here / "in" / "4.txt").write_text("Ice melts.")
    reads.clear()
    both()
    assert reads[:2] == ["in/4.txt", "in/5.txt"]
    assert reads[2] == "in/0.txt"


def test_doubles_that_are_wanted_are_copied(here):
    both(deduplicate=False)
    assert changes(both(deduplicate=False)) == (6, 0, 0, 0)


def test_other_settings_read_everything(here, reads, cli):
    both()
    reads.clear()
    result = cli("ingest", "in", "-o", "corpus", "--update", "--valid", "0.5", "--metadata", "year:int")
    assert result.code == 0
    assert "valid was 0.2 and is now 0.5, so all sources are read" in result.err
    assert len(reads) == 6


def test_a_corpus_that_says_not_what_came_from_where_is_read_anew(here, cli):
    (here / "in" / "x.jsonl").unlink()
    assert cli("ingest", "in", "-o", "corpus").code == 0
    about = json.loads((here / "corpus" / "manifest.json").read_text())
    assert [entry["log"] for entry in about["outputs"] if entry["path"] == "sources.parquet"] == [True]
    assert cli("ingest", "in", "-o", "elsewhere", "--update").err.count("nothing to update") == 1


def test_fresh_reads_everything(here, reads, cli):
    both()
    reads.clear()
    result = cli(
        "ingest", "in", "-o", "corpus", "--update", "--fresh", "--valid", "0.2", "--metadata", "year:int", "--json"
    )
    assert result.code == 0, result.err
    assert len(reads) == 6
    assert "sources_copied" not in json.loads(result.out)["counts"]


@pytest.mark.parametrize("flags", [[], ["--fresh"]])
def test_a_damaged_corpus_is_made_anew(here, reads, cli, flags):
    both()
    reads.clear()
    (here / "corpus" / "corpus-00000.parquet").write_bytes(b"damaged")
    result = cli("ingest", "in", "-o", "corpus", "--update", "--valid", "0.2", "--metadata", "year:int", *flags)
    assert result.code == 0, result.err
    assert ("cannot be used (wrong size), so all sources are read" in result.err) == (not flags)
    assert len(reads) == 6
    assert wordpipe.verify("corpus")["ok"]


def test_standard_input_is_always_read(here, cli):
    for text, expected in (("One. Two.", None), ("Three.", (6, 1, 0, 0))):
        done = cli("ingest", "-", "in", "-o", "corpus", "--update", "--json", piped=text)
        counts = json.loads(done.out)["counts"]
        found = tuple(map(counts.get, CHANGES))
        assert found == (expected or (None,) * 4)


@pytest.mark.parametrize("seed", range(4))
def test_any_change_gives_the_bytes_of_a_fresh_corpus(here, seed):
    rng = random.Random(seed)
    both(documents="line")
    for _ in range(2):
        for path in sorted((here / "in").glob("*.txt")):
            match rng.randrange(5):
                case 0:
                    path.unlink()
                case 1:
                    path.write_text("\n".join(rng.choices([*TEXTS, "", "New."], k=3)))
                case 2:
                    (here / "in" / f"{rng.random()}.txt").write_text(rng.choice(TEXTS))
        made = both(documents="line")
        assert made.counts["sources"] == sum(changes(made)[:3])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_pieces_of_a_large_file_are_copied_unless_it_has_changed(here, monkeypatch, reads, seed):
    monkeypatch.setattr(stage, "PART_BYTES", 300)
    rng = random.Random(seed)
    large = [rng.choice([*TEXTS[2:], f"{number} more."]) for number in range(80)]
    for name in ("2b.txt", "3b.txt"):
        (here / "in" / name).write_text("\n".join(large))
    both(documents="line")
    assert changes(both(documents="line")) == (8, 0, 0, 0)
    reads.clear()
    (here / "in" / "3b.txt").write_text("\n".join([*large[:-1], "The last."]))
    wordpipe.ingest("in", output="corpus", update=True, valid=0.2, metadata=("year:int",), documents="line")
    assert (
        {"in/3b.txt"} <= {*reads} <= {"in/3b.txt", "in/4.txt", "in/x.jsonl"}
    )  # those behind it may have a double in it
    assert len(reads) > 2
    (here / "in" / rng.choice(["1.txt", "2b.txt"])).write_text("\n".join(large[20:]))  # doubles come from elsewhere
    made = both(documents="line")
    assert made.counts["sources"] == 8 == sum(changes(made)[:3])


def test_a_killed_update_leaves_the_old_corpus(here, nursery):
    both()
    (here / "in" / "2.txt").write_text("Bridges fall.")
    before = (here / "corpus" / "manifest.json").read_bytes()
    command = ["ingest", "in", "-o", "corpus", "--update", "--valid", "0.2", "--metadata", "year:int"]
    killed = nursery.run(*command, WORDPIPE_FAILPOINT="publish.before_exchange:kill")
    assert killed.returncode == -9
    assert (here / "corpus" / "manifest.json").read_bytes() == before
    assert wordpipe.verify("corpus")["ok"]
    assert changes(both()) == (5, 1, 0, 0)


@pytest.fixture
def days(tmp_path, monkeypatch):
    """A corpus of two tables and a folder, one of the tables outside of the working folder."""
    for name in ("work/notes", "else"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("mon.tsv", "tue.tsv", "../else/sun.tsv"):
        Path(name).write_text(f"id\ttext\n{name}\tA row of {name}.\n")
    Path("notes/a.txt").write_text("A note.")
    Path("notes/b.txt").write_text("Another note.")
    wordpipe.ingest(["mon.tsv", tmp_path / "else/sun.tsv", "notes"], output="corpus", valid=0)
    return tmp_path


@pytest.mark.parametrize(
    ("sources", "lost"),
    [
        (["tue.tsv"], "mon.tsv, notes/a.txt, notes/b.txt"),
        (["notes"], "mon.tsv"),
        (["mon.tsv", "notes/b.*", "../else"], "notes/a.txt"),
        (["mon.tsv", "notes", "../else/sat.tsv"], "sun.tsv"),
        ([{"id": "x", "text": "Rows of a program."}], "mon.tsv, notes/a.txt, notes/b.txt"),
    ],
)
def test_an_update_that_would_lose_a_living_source_is_refused_and_names_it(days, sources, lost):
    Path("../else/sat.tsv").write_text("id\ttext\nsat\tA row of Saturday.\n")
    before = Path("corpus/manifest.json").read_bytes()
    with pytest.raises(ConfigError, match=r"still exists?, but the update does not name") as caught:
        wordpipe.ingest(sources, output="corpus", valid=0, update=True)
    assert {*lost.split(", ")} <= {*str(caught.value.got).split(", ")}
    assert "--drop-missing" in caught.value.hint
    with pytest.raises(ConfigError):  # nor where settings changed, so that all is read
        wordpipe.ingest(sources, output="corpus", valid=0.1, update=True)
    assert Path("corpus/manifest.json").read_bytes() == before
    with pytest.warns(wordpipe.WordpipeWarning, match=f"no longer named.*{lost.split(', ')[0]}"):
        wordpipe.ingest(sources, output="corpus", valid=0, update=True, drop_missing=True)


def test_sources_that_are_gone_leave_the_corpus_with_a_warning(days):
    Path("notes/a.txt").unlink()
    Path("mon.tsv").rename("monday.tsv")
    with pytest.warns(
        wordpipe.WordpipeWarning, match=r"dropped 2 sources from the corpus \(no longer found\): mon.tsv, notes/a.txt"
    ):
        made = wordpipe.ingest(["monday.tsv", "notes", "../else/sun.tsv"], output="corpus", valid=0, update=True)
    counts = [made.counts[name] for name in ("documents_kept", "sources_deleted")]
    assert counts == [3, 3]  # one has another name now


def test_a_living_source_is_known_from_another_folder_too(days, monkeypatch):
    monkeypatch.chdir(days)
    Path("new.txt").write_text("Something new.")
    with pytest.raises(ConfigError, match="still exist") as caught:
        wordpipe.ingest("new.txt", output="work/corpus", valid=0, update=True)
    assert caught.value.got == "mon.tsv, notes/a.txt, notes/b.txt"


def test_what_a_program_gives_is_one_source_and_less_of_it_is_said(here):
    """Of an update it takes the place of what it gave before."""
    texts = [{"text": f"Text number {n}."} for n in range(6)]
    wordpipe.ingest(texts, output="c")
    assert not wordpipe.ingest([*texts, {"text": "One more."}], output="c", update=True).warnings
    made = wordpipe.ingest([{"text": "Of today."}], output="c", update=True)
    assert [warning.partition(";")[0] for warning in made.warnings] == ["memory gave 1 rows now and 7 rows before"]


def test_an_update_keeps_the_settings_of_the_artifact_from_python_and_the_shell(here, cli):
    wordpipe.ingest("in", output="corpus", documents="line", valid=0.2, metadata=("year:int",))
    wordpipe.index("corpus", output="index", unit="window", window=20)
    (here / "in" / "3.txt").write_text("Bread burns. It smells.")
    said = []
    run = wordpipe.RunOptions(report=lambda one: said.append(one.note))
    made = wordpipe.ingest("in", output="corpus", update=True, valid=0.1, run=run)
    fresh = wordpipe.ingest("in", output="fresh", documents="line", valid=0.1, metadata=("year:int",))
    assert made.digest == fresh.digest
    assert "settings as before: --documents line, --metadata year:int" in said
    wordpipe.index("corpus", output="index", update=True)
    settings = json.loads((here / "index/manifest.json").read_text())["settings"]
    assert (settings["unit"], settings["window"]) == ("window", 20)
    result = cli("ingest", "in", "-o", "corpus", "--update")
    assert "settings as before: --documents line, --metadata year:int, --valid 0.1" in result.err
    # a pipeline's file has all settings
    (here / "p.toml").write_text('[stage.corpus]\ncommand = "ingest"\ninputs = ["in"]\nupdate = true\n')
    assert cli("run", "p.toml").code == 0
    wordpipe.ingest("in", output="run/corpus", documents="line", valid=0.2)
    (here / "in" / "2.txt").write_text("Bridges fall.")
    assert cli("run", "p.toml").code == 0
    assert json.loads((here / "run/corpus/manifest.json").read_text())["settings"]["documents"] == "auto"


def test_a_pipeline_may_update(here, cli):
    (here / "p.toml").write_text('[stage.corpus]\ncommand = "ingest"\ninputs = ["in"]\nupdate = true\n')
    assert cli("run", "p.toml").code == 0
    (here / "in" / "3.txt").write_text("Bread burns.")
    result = cli("run", "p.toml")
    assert result.code == 0
    assert "5 sources copied" in result.err
    assert wordpipe.ingest("in", output="fresh").recipe in (here / "run" / "corpus" / "manifest.json").read_text()
    shutil.rmtree("fresh")
    assert "fresh" in cli("status", "p.toml").out


def test_a_book_that_is_one_document_is_warned_of(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("\n\n".join(f"This is sentence {number}." for number in range(600)))
    assert any(
        text.startswith("all 600 sentences are one document") for text in ingested(book, tmp_path / "c").warnings
    )
    assert not any("one document" in text for text in ingested(book, tmp_path / "c", documents="block").warnings)
    book.write_text("Only this. And that.")
    assert not any("one document" in text for text in ingested(book, tmp_path / "c").warnings)


def ingested(book: Path, output: Path, **settings: str):
    return wordpipe.ingest(book, output=output, **settings)


def test_anchors_reach_the_answers_and_are_copied_by_an_update(built, here):
    for name, heading in (("a.md", "Tides"), ("b.md", "Bees")):
        (here / "in" / name).write_text(
            f"# {heading}\n\nThe water rises and the bees dance.\n\n## {heading} now\n\nMore {heading}.\n"
        )
    wordpipe.ingest("in", output="corpus", update=True)
    (here / "in" / "b.md").write_text("# Bees\n\nAll of them dance in the water.\n")
    made = wordpipe.ingest("in", output="corpus", update=True)
    assert made.counts["sources_copied"] == 7
    assert made.digest == wordpipe.ingest("in", output="anew").digest
    wordpipe.embed(built / "words", "corpus", output="sentences", unit="document")
    wordpipe.index("sentences", output="index")
    with wordpipe.open("index") as index:
        hits = index.query("the bees dance in the water", k=20)
    found = {hit["source"]: hit.get("anchor") for hit in hits if hit["title"] in ("Tides", "Bees")}
    assert found == {"in/a.md": "tides", "in/b.md": "bees"}


def test_a_corpus_of_markdown_from_before_is_read_anew(here):
    (here / "in" / "a.md").write_text("# Tides\n\nWater rises.\n")
    wordpipe.ingest("in", output="corpus", documents="block")
    notes = []
    run = wordpipe.RunOptions(report=lambda progress: notes.append(progress.note) if progress.note else None)
    made = wordpipe.ingest("in", output="corpus", update=True, documents="auto", run=run)
    assert "sources_copied" not in made.counts
    assert any("all sources are read" in note for note in notes)


@pytest.mark.parametrize(
    "kind",
    [pa.time64("us"), pa.duration("s"), pa.list_(pa.timestamp("s")), pa.timestamp("us", "UTC"), pa.binary()],
    ids=str,
)
def test_a_field_that_is_of_one_type_again(tmp_path, monkeypatch, reads, kind):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    numbers = [10, 3_600_000_001]
    if pa.types.is_list(kind):
        values = pa.array([[number] for number in numbers], pa.list_(pa.int64())).cast(kind)
    elif pa.types.is_binary(kind):
        values = pa.array([b"\x00\xff", b"a"], kind)
    else:
        values = pa.array(numbers, pa.int64()).cast(kind)
    pq.write_table(pa.table({"text": ["Tides rise.", "Boats wait."], "at": values}), "in/a.parquet")
    Path("in/b.jsonl").write_text('{"text": "Bees dance.", "at": "noon"}\n')
    wordpipe.ingest("in", output="corpus", update=True)
    assert pq.read_schema("corpus/corpus-00000.parquet").field("at").type == pa.string()
    Path("in/b.jsonl").write_text('{"text": "Bees dance."}\n')
    reads.clear()
    updated, fresh = wordpipe.ingest("in", output="corpus", update=True), wordpipe.ingest("in", output="fresh")
    assert updated.digest == fresh.digest
    assert pq.read_table("corpus/corpus-00000.parquet")["at"].to_pylist()[:2] == values.to_pylist()
    is_copied = pa.types.is_timestamp(kind) or pa.types.is_binary(kind)  # of the others no text can be read back
    assert reads[: len(reads) - 2] == (["in/b.jsonl"] if is_copied else ["in/a.parquet", "in/b.jsonl"])


@pytest.mark.parametrize("texts", [["One."], ["One.", "Two."], ["One.", "Two.", "Three."], ["Same.", "Same."]])
def test_all_documents_are_never_held_out(tmp_path, monkeypatch, texts):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for number, text in enumerate(texts):
        Path(f"in/{number}.txt").write_text(text)
    few = {"valid": 0.5, "test": 0.4999}
    made = wordpipe.ingest("in", output="out", **few)
    with wordpipe.open("out") as corpus:
        splits = corpus.batches().read_all()["split"].to_pylist()
    assert made.counts["documents_train"] == splits.count("train") == len({*texts})
    assert not {"documents_valid", "documents_test"} & made.counts.keys()
    Path("in/more.txt").write_text("A last one.")
    for settings in (few, {"valid": 0.5, "test": 0.0}):  # what was to be held out is, where something is left
        updated = wordpipe.ingest("in", output="out", update=True, **settings)
        assert updated.digest == wordpipe.ingest("in", output="fresh", **settings).digest
