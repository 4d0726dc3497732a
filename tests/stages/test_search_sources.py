"""`search`: files, folders and streams, searched by words at once; what is kept in the cache, and when it is made anew."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import wordpipe
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError
from wordpipe.runtime import quiet
from wordpipe.stages import RunOptions, cached_searches, clear_searches, open_sources
from wordpipe.storage import cache_folder


@pytest.fixture(autouse=True)
def notes(tmp_path, monkeypatch):
    """A folder of notes, in which the test works, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "bees.txt").write_text("Bees dance to show the way to flowers.\n")
    (folder / "sea.md").write_text("# The sea\n\nThe Moon pulls the water: twice a day the tide comes in.\n")
    (folder / "goods.csv").write_text("name,summary,price\nkettle,Boils water for tea,30\nlamp,A warm light,20\n")
    monkeypatch.chdir(tmp_path)
    return folder


def found(question, sources="notes", **options):
    """Return where the answers to a question stand."""
    return [f"{hit['source']}:{hit['line']}" for hit in wordpipe.search_texts(question, sources, **options)]


def made_after(notes):
    """Return the digests of the indexes in the cache."""
    return {
        one.path.name: json.loads((one.path / "index/manifest.json").read_text())["digest"] for one in cached_searches()
    }


def test_files_of_several_kinds_are_searched_at_once():
    assert found("dance of bees") == ["notes/bees.txt:1"]
    assert found("tides") == ["notes/sea.md:3"]
    assert found('"boils water"') == ["notes/goods.csv:2"]
    assert found("water -moon") == ["notes/goods.csv:2"]
    assert found("price:20") == ["notes/goods.csv:3"]
    assert [hit["title"] for hit in wordpipe.search_texts("kettle", "notes")] == ["kettle"]
    assert len(cached_searches()) == 1


def test_nothing_is_read_again_while_the_files_are_the_same(notes, monkeypatch):
    assert found("tides") == ["notes/sea.md:3"]
    monkeypatch.setattr("wordpipe.stages.corpus.ingest.ingest", None)
    monkeypatch.setattr("wordpipe.stages.search.index.index", None)
    (notes / "sea.md").touch()
    assert found("water moon", k=1) == ["notes/sea.md:3"]


def test_an_answer_follows_the_files(notes):
    assert found("quasar") == []
    (notes / "sky.txt").write_text("A quasar is far away.\n")
    assert found("quasar") == ["notes/sky.txt:1"]
    (notes / "sky.txt").write_text("A star has none.\n")
    assert (found("quasar"), found("star")) == ([], ["notes/sky.txt:1"])
    (notes / "sky.txt").unlink()
    assert found("star") == []
    assert len(cached_searches()) == 1


def test_an_updated_index_is_the_one_that_is_made_anew(notes):
    found("tides")
    (notes / "bees.txt").write_text("Bees sleep at night.\n")
    found("tides")
    updated = made_after(notes)
    clear_searches()
    found("tides")
    assert made_after(notes) == updated


def test_one_answer_of_each_document_says_what_a_document_is(notes, cli):
    (notes / "bees.txt").write_text("Bees dance.\n\nBees sleep.\n")
    said = "with --documents file, each file of text is one"
    by_paragraph = cli("search", "bees", "notes", "--per-document", "--count")
    assert (by_paragraph.out.strip(), said in by_paragraph.err) == ("2", True)
    by_file = cli("search", "bees", "notes", "--per-document", "--count", "--documents", "file")
    assert (by_file.out.strip(), said in by_file.err) == ("1", False)
    assert said not in cli("search", "bees", "notes", "--per-document", "--count", "-q").err
    assert said not in cli("search", "bees", "notes", "--count").err


def test_what_is_left_out_is_listed_and_named_where_nothing_is_found_and_notes_are_said_once(notes, cli):
    (notes / "x.css").write_text("key = 1\n")
    (notes / "twice.csv").write_text("id,about\n1,a kettle\n2,a kettle\n")
    (notes / "same.csv").write_text("name,about\nx,a lamp\nx,a lamp\n")
    kept = "1 record is kept although an earlier record has the same text, because the ids differ"
    dropped = "warning: duplicate records with fields were dropped: 1"
    first = cli("search", "kettle", "notes").err
    assert kept in first
    assert dropped in first
    nothing = cli("search", "quasar", "notes")
    assert "1 file passed over, which wordpipe search --cache lists" in nothing.err
    assert cli("search", "quasar", "notes", "-q").err == ""
    (notes / "bees.txt").write_text("Bees sleep at night.\n")
    again = cli("search", "kettle", "notes").err
    assert "updated: 1 of 5 files" in again
    assert kept not in again
    cli("search", "kettle", "notes", "--documents", "line")
    listed = cli("search", "--cache").out
    assert dropped in listed
    assert "notes --documents line  (in " in listed
    beside = cli("search", "quasar", "notes", "notes/x.css", "notes/bees.txt")
    assert "passed over" not in beside.err


def test_an_answer_says_where_else_its_text_stands(notes, cli):
    text = "Honey flows when the lime trees bloom.\n"
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt"):
        (notes / name).write_text(f"Of {name}.\n\n{text}")
    (notes / "f.csv").write_text(f'text,price\n"{text.strip()}",3\n')
    hits = wordpipe.search_texts("honey lime", "notes")
    assert [(hit["source"], hit.get("also_in")) for hit in hits] == [
        ("notes/a.txt", {"count": 4, "places": [f"notes/{one}:3" for one in ("b.txt", "c.txt", "d.txt", "e.txt")]}),
        ("notes/f.csv", None),  # which says more
    ]
    shown = cli("search", "honey lime", "notes", "--format", "plain").out
    assert "\n        also in notes/b.txt:3, notes/c.txt:3, notes/d.txt:3 and 1 more" in shown
    # an index of words, and one with vectors, know it too; and what is gone is not named
    (notes / "b.txt").unlink()
    wordpipe.ingest("notes", output="corpus", documents="section")
    made = wordpipe.index("corpus", output="index")
    assert wordpipe.query(made, "honey lime", k=1)[0]["also_in"]["places"][0] == "notes/c.txt:3"
    assert "also_in" not in wordpipe.query(made, "dance of bees", k=1)[0]


@pytest.mark.parametrize("broken", ["corpus/manifest.json", "index/manifest.json", "about.json"])
def test_a_damaged_entry_is_made_anew(notes, broken):
    assert found("tides") == ["notes/sea.md:3"]
    path = cached_searches()[0].path / broken
    path.write_bytes(path.read_bytes()[:10])
    assert found("tides") == ["notes/sea.md:3"]
    assert len(cached_searches()) == 1


def test_an_index_that_is_damaged_inside_is_made_anew(notes):
    assert found("tides") == ["notes/sea.md:3"]
    table = next(cached_searches()[0].path.glob("index/index-*.parquet"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    assert found("tides") == ["notes/sea.md:3"]
    assert len(cached_searches()) == 1


def test_a_stream_is_kept_by_its_bytes(monkeypatch):
    def ask(text):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return found("disk", "-")

    log = "Nov 1 all is well\nNov 2 the disk is full\n"
    assert ask(log) == ["standard-input:1"]
    assert ask(log) == ["standard-input:1"]
    assert len(cached_searches()) == 1
    assert ask(log.replace("disk", "door")) == []
    assert len(cached_searches()) == 2
    assert not list((cache_folder() / "search").glob(".*.stream"))


def test_an_index_is_asked_as_it_is(notes, tmp_path):
    wordpipe.ingest("notes", output="run/corpus", valid=0)
    wordpipe.index("run/corpus", output="run/index")
    assert found("tides", "run/index") == found("tides", "run") == ["notes/sea.md:3"]
    assert not (cache_folder() / "search").exists()
    with pytest.raises(ConfigError, match="an artifact cannot be searched together with other sources"):
        found("tides", ["notes", "run/index"])
    with pytest.raises(ArtifactError):
        found("tides", "run/corpus")
    with pytest.raises(ConfigError, match="standard input cannot be searched together with files"):
        found("tides", ["-", "notes"])
    with pytest.raises(InputError):
        found("tides", "nowhere")


def test_settings_of_reading_have_an_index_of_their_own(notes):
    with open_sources("notes/goods.csv", text_field="name", run=RunOptions(report=quiet)) as opened:
        assert [hit["text"] for hit in opened.query("kettle")] == ["kettle"]
    assert found("kettle", "notes/goods.csv") == ["notes/goods.csv:2"]
    assert len(cached_searches()) == 2


def test_a_record_that_cannot_be_read_stops_no_search(notes):
    (notes / "log.jsonl").write_text('{"message": "The disk is full."}\n{"message": \n')
    with pytest.warns(wordpipe.WordpipeWarning, match=r"notes/log\.jsonl, line 2"):
        assert found("disk") == ["notes/log.jsonl:1"]


def test_numbers_in_cells_are_numbers(notes):
    (notes / "goods.csv").write_text(
        "name,summary,order\na,red kettle,1\nb,blue kettle,10\nc,old kettle,3\nd,new kettle,\n"
    )
    assert sorted(found("order:1..3", "notes/goods.csv")) == ["notes/goods.csv:2", "notes/goods.csv:4"]
    assert sorted(found("order:>1", "notes/goods.csv")) == ["notes/goods.csv:3", "notes/goods.csv:4"]
    assert found("kettle", "notes/goods.csv", sort="order") == [f"notes/goods.csv:{line}" for line in (2, 4, 3, 5)]
    assert found("kettle", "notes/goods.csv", sort="order:desc") == [f"notes/goods.csv:{line}" for line in (3, 4, 2, 5)]


def test_a_log_in_a_folder_is_read(notes):
    (notes / "app.log").write_text("the quota of the volume is used up\n")
    assert found("quota") == ["notes/app.log:1"]


def test_a_cache_that_cannot_be_written_is_named(notes, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached_searches() == []
    with pytest.raises(StorageError, match="the cache cannot be written") as raised:
        found("tides")
    assert raised.value.hint == "set XDG_CACHE_HOME to a folder that you can write to"


def test_a_question_without_quotes_is_answered_with_the_command(cli):
    done = cli("search", "salt", "water", "notes")
    assert done.code == 3
    assert "use quotes: wordpipe search 'salt water' notes" in done.err
    done = cli("search", " ", "notes")
    assert (done.code, "the question is empty" in done.err) == (2, True)


def test_the_cache_belongs_to_its_owner_and_is_bounded(notes, monkeypatch):
    found("tides")
    home = cache_folder() / "search"
    assert home.stat().st_mode & 0o077 == 0
    old = cached_searches()[0]
    os.utime(old.path / "about.json", (1, 1))
    left = home / ".0123.stream"
    left.mkdir()
    os.utime(left, (1, 1))
    monkeypatch.setattr("wordpipe.stages.search.search_sources._MOST_BYTES", old.bytes + 1)
    found("bees", "notes/bees.txt")
    assert [one.sources for one in cached_searches()] == [("notes/bees.txt",)]
    assert not left.exists()
    found("tides")  # what was asked a moment ago stays, however large
    assert len(cached_searches()) == 2
    assert clear_searches()[0] == 2
    assert cached_searches() == []


def test_searches_of_the_same_files_wait_for_each_other(notes):
    program = "import sys, wordpipe; print(len(wordpipe.search_texts('tides', 'notes')))"
    with ThreadPoolExecutor(3) as pool:
        runs = list(
            pool.map(
                lambda _: subprocess.run([sys.executable, "-c", program], capture_output=True, text=True), range(3)
            )
        )
    assert [(run.returncode, run.stdout) for run in runs] == [(0, "1\n")] * 3, runs
    assert len(cached_searches()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone a process is copied")
@pytest.mark.parametrize("has_fields", [False, True], ids=["texts", "fields"])
def test_words_that_a_copy_of_the_process_counts_make_the_same_index(has_fields, notes):
    """Of texts alone: rows with fields that are searched are counted when all have been read."""
    program = """
import os
import wordpipe
from wordpipe import runtime
from wordpipe.engines import CopiedProcess
from wordpipe.stages.search import index_rows
runtime._ANSWERING.set()
os.sched_getaffinity = lambda pid: {0, 1}
index_rows._LEAST_COUNTED = 0
result = CopiedProcess.result
CopiedProcess.result = lambda self: print("counted") or result(self)
wordpipe.search_texts("tides", "notes")
"""
    if not has_fields:
        (notes / "goods.csv").unlink()
    more = "Tides of the sea, der Gezeiten 3.5 m. A sea-bed isn't naïve; 潮の満ち引き。\n\n" * 40
    (notes / "long.txt").write_text(more + "One. Two! " * 600)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "" if has_fields else "counted\n"), run.stderr
    copied = made_after(notes)
    clear_searches()
    found("tides")
    assert made_after(notes) == copied


def test_the_command_answers_lists_and_clears(cli):
    done = cli("search", "tides", "notes", "--json")
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == ["notes/sea.md"]
    assert "read: 0.0 MB in 4 texts" in done.err
    assert cli("search", "tides", "notes").err == ""
    assert cli("search", "water", "notes", "--count").out == "2\n"
    assert cli("search", "nothing-like-it", "notes").code == 1
    log = "all is well\nthe disk is full\n"
    assert "standard-input:2" in cli("search", "disk", "--documents", "line", piped=log).out
    listed = cli("search", "--cache")
    assert "4 texts" in listed.out
    assert " notes  (in " in listed.out
    assert [json.loads(line)["texts"] for line in cli("search", "--cache", "--json").out.splitlines()] == [2, 4]
    assert cli("search", "--clear").err.startswith("indexes removed from the cache: 2, ")
    assert cli("search").code == cli("search", "x", "--clear").code == 2


def test_nothing_heavy_is_imported(notes):
    program = """
import os, sys
from wordpipe.cli import main
os._exit = sys.exit  # else nothing is printed after `main`
try:
    main()
finally:
    print(*(name for name, module in sys.modules.items() if module is not None))
"""
    heavy = {
        "torch",
        "gensim",
        "faiss",
        "scipy",
        "duckdb",
        "pandas",
        "numba",
        "matplotlib",
        "asyncio",
        "multiprocessing",
    }
    for _ in ("cold", "warm"):
        run = subprocess.run(
            [sys.executable, "-c", program, "search", "tides", "notes"], capture_output=True, text=True, check=False
        )
        assert "notes/sea.md#the-sea:3" in run.stdout, run.stderr
        modules = set(run.stdout.splitlines()[-1].split())
        assert {"sys", "wordpipe.cli", "numpy", "pyarrow"} <= modules
        assert modules.isdisjoint(heavy)
    assert modules.isdisjoint({"rich", "tokenizers", "wordpipe.stages.corpus.ingest", "wordpipe.stages.search.index"})
