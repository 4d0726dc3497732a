"""`ingest --add` and `--remove`: records come and go, and the others stay; chains of changes against a plain model of them."""

import json
import random
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import wordpipe
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ConfigError, InputError
from wordpipe.stages.corpus import ingest as ingesting

Record = tuple[str, int]
"""What a record says: its text and its year."""


def write(name: str, records: dict[str, Record]) -> None:
    """A table of records on disk."""
    lines = [f"{own_id}\t{text}\t{year}\n" for own_id, (text, year) in records.items()]
    Path(name).write_text("id\ttext\tyear\n" + "".join(lines))


def records_of(corpus: str = "c") -> dict[str, Record]:
    """The records of a corpus, by their ids."""
    found: dict[str, Record] = {}
    with Artifact(corpus) as artifact:
        for batch in read_batches(artifact, "corpus"):
            for row in batch.to_pylist():
                text, _ = found.get(row["record_id"], ("", 0))
                found[row["record_id"]] = (text + row["text"], int(row["year"]))
    return found


def texts_of(corpus: str = "c") -> list[str]:
    with Artifact(corpus) as artifact:
        return [row["text"] for batch in read_batches(artifact, "corpus") for row in batch.to_pylist()]


def changes(made) -> tuple[int, ...]:
    """How many records were added, replaced, unchanged and removed."""
    return tuple(made.counts[f"records_{name}"] for name in ("added", "replaced", "unchanged", "removed"))


ONE = {"a": ("Bees dance.", 1990), "b": ("Tides rise. Boats wait.", 2001), "c": ("Bread bakes.", 2010)}
TWO = {"b": ("Tides fall.", 2002), "c": ("Bread bakes.", 2010), "d": ("Snow falls.", 1985)}


@pytest.fixture
def corpus(here) -> Path:
    """A corpus of one table, and a second table beside it."""
    write("one.tsv", ONE)
    write("two.tsv", TWO)
    wordpipe.ingest("one.tsv", output="c", valid=0)
    return here


# ---- what is added


def test_an_added_record_replaces_that_of_its_id_and_the_others_stay(corpus):
    Path("one.tsv").unlink()  # an addition reads no other source
    made = wordpipe.ingest("two.tsv", output="c", add=True)
    assert changes(made) == (1, 1, 1, 0)
    assert records_of() == ONE | TWO
    assert wordpipe.verify("c")["ok"]


def test_the_same_addition_again_changes_nothing(corpus):
    digest = wordpipe.ingest("two.tsv", output="c", add=True).digest
    again = wordpipe.ingest("two.tsv", output="c", add=True)
    assert changes(again) == (0, 0, 3, 0)
    assert again.digest == digest


def test_additions_give_the_bytes_of_one_reading_where_nothing_is_replaced(corpus):
    others = {"x": ("New words.", 1), "y": ("More of them. And a second sentence.", 2)}
    write("0.tsv", others)
    added = wordpipe.ingest("0.tsv", output="c", add=True)
    assert changes(added) == (2, 0, 0, 0)
    fresh = wordpipe.ingest(["0.tsv", "one.tsv"], output="fresh", valid=0)
    assert (added.digest, added.recipe) == (fresh.digest, fresh.recipe)


def test_a_table_that_is_added_each_day_keeps_the_records_of_earlier_days(here):
    for day in range(3):
        write("today.tsv", {"same": (f"Of day {day}.", day), f"d{day}": (f"Only of day {day}.", day)})
        wordpipe.ingest("today.tsv", output="c", add=True)
    assert records_of() == {"same": ("Of day 2.", 2)} | {f"d{day}": (f"Only of day {day}.", day) for day in range(3)}


def test_records_of_a_program_and_of_a_pipe_are_added(here, cli):
    wordpipe.ingest([{"id": "a", "text": "Bees."}], output="c", add=True)
    wordpipe.ingest([{"id": "b", "text": "Boats."}], output="c", add=True)
    for text in ("First of a pipe.", "Second of a pipe."):
        assert cli("ingest", "-", "-o", "c", "--add", piped=text).code == 0
    assert texts_of() == ["First of a pipe.", "Second of a pipe.", "Bees.", "Boats."]


def test_a_text_that_is_added_again_takes_the_place_of_the_old_one(here):
    Path("wall.txt").write_text("Old text.")
    Path("tree.txt").write_text("A tree.")
    wordpipe.ingest(["wall.txt", "tree.txt"], output="c", valid=0)
    Path("wall.txt").write_text("New text.")
    made = wordpipe.ingest(["wall.txt", "tree.txt"], output="c", add=True)
    assert changes(made) == (1, 0, 1, 1)
    assert texts_of() == ["A tree.", "New text."]


def test_a_text_that_another_source_has_is_one_document(here):
    Path("b.txt").write_text("The same.")
    wordpipe.ingest("b.txt", output="c", valid=0)
    for name in ("a.txt", "c.txt"):
        Path(name).write_text("The same.")
        assert changes(wordpipe.ingest(name, output="c", add=True)) == (0, 0, 1, 0)
    assert texts_of() == ["The same."]


def test_columns_take_the_types_of_added_values(here):
    for name, row in (
        ("a", {"id": 1, "text": "One.", "n": 3}),
        ("b", {"id": 2, "text": "Two.", "n": "many", "m": [1]}),
    ):
        Path(f"{name}.jsonl").write_text(json.dumps(row) + "\n")
        wordpipe.ingest(f"{name}.jsonl", output="c", add=True)
    fresh = wordpipe.ingest(["a.jsonl", "b.jsonl"], output="fresh")
    with Artifact("c") as artifact:
        assert artifact.digest == fresh.digest


def test_where_no_document_is_held_out_an_addition_changes_that(here):
    texts = [{"id": n, "text": f"Text {n}."} for n in range(12)]
    split = {"valid": 0.5, "test": 0.4999}
    wordpipe.ingest(texts[:1], output="c", **split)
    for n in range(1, 12):
        added = wordpipe.ingest(texts[n : n + 1], output="c", add=True, name=f"part{n:02}")
    with Artifact("c") as artifact:
        splits = [row["split"] for batch in read_batches(artifact, "corpus") for row in batch.to_pylist()]
    fresh = wordpipe.ingest(texts, output="fresh", **split)
    assert {name: n for name, n in fresh.counts.items() if "documents" in name} == {
        name: n for name, n in added.counts.items() if "documents" in name
    }
    with Artifact("fresh") as artifact:
        assert splits == [row["split"] for batch in read_batches(artifact, "corpus") for row in batch.to_pylist()]


def test_a_table_without_ids_is_not_added_twice(here):
    Path("t.tsv").write_text("text\nOne.\nTwo.\n")
    wordpipe.ingest("t.tsv", output="c", valid=0)
    assert changes(wordpipe.ingest("t.tsv", output="c", add=True)) == (0, 0, 2, 0)
    Path("t.tsv").write_text("text\nOne.\nThree.\n")
    with pytest.raises(ConfigError, match="no ids"):
        wordpipe.ingest("t.tsv", output="c", add=True)
    assert texts_of() == ["One.", "Two."]


def test_the_settings_are_those_of_the_corpus(here):
    Path("t.tsv").write_text("name\tabout\nfoo\tA parser.\n")
    Path("u.tsv").write_text("name\tabout\nbar\tA lexer.\n")
    fields = {"text_field": "about", "id_field": "name"}
    wordpipe.ingest("t.tsv", output="c", valid=0, **fields)
    assert changes(wordpipe.ingest("u.tsv", output="c", add=True)) == (1, 0, 0, 0)
    assert changes(wordpipe.ingest("u.tsv", output="c", add=True, **fields)) == (0, 0, 1, 0)
    with pytest.raises(ConfigError, match="another value of text_field"):
        wordpipe.ingest("u.tsv", output="c", add=True, text_field="name")


# ---- what is removed


def test_records_leave_by_their_ids_and_stay_out(corpus, cli):
    Path("gone.txt").write_text("a\nnowhere\n\n")
    said = cli("ingest", "-o", "c", "--remove", "--ids", "gone.txt")
    assert said.code == 0
    assert "1 id is not in the corpus: nowhere" in said.err
    assert "1 record removed" in said.err
    assert "next: wordpipe index c -o ./words-index --update" in said.err
    assert records_of().keys() == {"b", "c"}
    write("one.tsv", ONE | {"a": ("Other words.", 1), "e": ("New.", 3)})
    said = cli("ingest", "one.tsv", "-o", "c", "--update", "--valid", "0")
    assert "1 document stays out of the corpus, because of an earlier --remove" in said.err
    assert records_of().keys() == {"b", "c", "e"}
    wordpipe.ingest("one.tsv", output="c", add=True)
    assert records_of()["a"] == ("Other words.", 1)


def test_records_leave_by_a_condition(corpus):
    made = wordpipe.ingest(output="c", remove=True, where="year > '2000' and text like 'Boats%'")
    assert changes(made) == (0, 0, 0, 1)
    assert records_of().keys() == {"a", "c"}
    with pytest.warns(wordpipe.WordpipeWarning, match="nothing was removed: the condition is true of no record"):
        assert changes(wordpipe.ingest(output="c", remove=True, where="id = 'b'")) == (0, 0, 0, 0)
    with pytest.raises(ConfigError, match="does not fit the columns"):
        wordpipe.ingest(output="c", remove=True, where="yaer > '2000'")


def test_who_removes_the_same_records_again_is_told_that_they_are_gone(corpus, cli):
    Path("gone.txt").write_text("a\nb\n")
    assert cli("ingest", "-o", "c", "--remove", "--ids", "gone.txt").code == 0
    said = cli("ingest", "-o", "c", "--remove", "--ids", "gone.txt")
    assert said.code == 0
    assert "2 ids are not in the corpus: a, b" in said.err
    assert "nothing was removed: no id is there" in said.err
    assert records_of().keys() == {"c"}


def test_a_text_without_an_id_stays_out_unless_it_changes(here):
    for name in "ab":
        Path(f"{name}.txt").write_text(f"Text of {name}.")
    wordpipe.ingest(["a.txt", "b.txt"], output="c", valid=0)
    wordpipe.ingest(output="c", remove=True, where="source = 'a.txt'")
    wordpipe.ingest(["a.txt", "b.txt"], output="c", valid=0, update=True)
    assert texts_of() == ["Text of b."]
    Path("a.txt").write_text("Another text.")
    wordpipe.ingest(["a.txt", "b.txt"], output="c", valid=0, update=True)
    assert texts_of() == ["Another text.", "Text of b."]


def test_removals_outlive_a_change_of_settings(corpus):
    wordpipe.ingest(output="c", remove=True, ids=["a"])
    wordpipe.ingest("one.tsv", output="c", valid=0.1, update=True)
    assert records_of().keys() == {"b", "c"}


def test_a_corpus_that_is_made_anew_says_what_it_forgets(corpus):
    wordpipe.ingest(output="c", remove=True, ids=["a"])
    with pytest.warns(wordpipe.WordpipeWarning, match="1 removals are forgotten"):
        wordpipe.ingest("one.tsv", output="c", valid=0)
    assert records_of() == ONE
    wordpipe.ingest("two.tsv", output="c", add=True)
    with pytest.warns(wordpipe.WordpipeWarning, match="additions are forgotten"):
        wordpipe.ingest("one.tsv", output="c", valid=0)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"where": "year > '1'"}, InputError, "all records would be removed"),
        ({"ids": []}, InputError, "there are no ids"),
        ({"ids": ["x", "y"]}, InputError, "no record has one of these ids; got x, y"),
        ({}, ConfigError, "remove needs where or ids"),
        ({"where": "true", "ids": ["a"]}, ConfigError, "and not both"),
        ({"ids": ["a"], "update": True}, ConfigError, "give only one"),
        ({"ids": ["a"], "output": "nothing"}, wordpipe.ArtifactError, "nothing"),
    ],
)
def test_removals_that_cannot_be(corpus, given, error, said):
    before = Path("c/manifest.json").read_bytes()
    with pytest.raises(error, match=said):
        wordpipe.ingest(**{"output": "c", "remove": True, **given})
    assert Path("c/manifest.json").read_bytes() == before


def test_what_says_nothing_is_refused(corpus):
    with pytest.raises(ConfigError, match="remove takes no sources"):
        wordpipe.ingest("two.tsv", output="c", remove=True, ids=["a"])
    with pytest.raises(ConfigError, match="where says which records are removed"):
        wordpipe.ingest("two.tsv", output="c", where="year > 1")


# ---- updates of what was added


def test_an_update_keeps_to_what_was_added_last(corpus):
    wordpipe.ingest("two.tsv", output="c", add=True)
    write("one.tsv", ONE | {"b": ("Changed in the older table.", 3), "e": ("New.", 4)})
    wordpipe.ingest(["one.tsv", "two.tsv"], output="c", valid=0, update=True)
    assert records_of() == ONE | {"e": ("New.", 4)} | TWO
    write("two.tsv", {"d": TWO["d"]})
    wordpipe.ingest(["one.tsv", "two.tsv"], output="c", valid=0, update=True)
    assert records_of()["b"] == ("Changed in the older table.", 3)


def test_an_update_that_would_lose_added_records_is_refused(corpus):
    wordpipe.ingest("two.tsv", output="c", add=True)
    write("two.tsv", {"z": ("Of another day.", 1)})
    wordpipe.ingest("two.tsv", output="c", add=True)
    for gone in (False, True):
        if gone:
            Path("two.tsv").unlink()
        sources = ["one.tsv"] if gone else ["one.tsv", "two.tsv"]
        with pytest.raises(ConfigError, match="added with --add") as caught:
            wordpipe.ingest(sources, output="c", valid=0, update=True)
        assert caught.value.got == "two.tsv"
    assert records_of().keys() == {*"abcdz"}
    wordpipe.ingest("one.tsv", output="c", valid=0, update=True, drop_missing=True)
    assert records_of() == ONE


def test_added_words_are_found_at_once(corpus, built):
    wordpipe.embed(built / "words", "c", output="s", unit="document")
    wordpipe.index("s", output="i")
    wordpipe.index("c", output="w")
    write("new.tsv", {"n": ("Xylomorph frobnitz.", 2026)})
    wordpipe.ingest("new.tsv", output="c", add=True)
    wordpipe.embed(built / "words", "c", output="s", unit="document", update=True)
    for source, index in (("s", "i"), ("c", "w")):
        wordpipe.index(source, output=index, update=True)
        for asked, options in (("xylomorph", {}), ("frobnitz", {"mode": "lexical"}), ("", {"where": "id = 'n'"})):
            assert [hit["id"] for hit in wordpipe.query(index, asked, **options)] == ["n"]
    wordpipe.ingest(output="c", remove=True, ids=["n"])
    wordpipe.index("c", output="w", update=True)
    assert wordpipe.query("w", "xylomorph", mode="lexical") == []


# ---- chains of changes, killed and repeated

_WORDS = [f"word{n}" for n in range(40)]
_IDS = [f"r{n}" for n in range(60)]
_SETTINGS = ("--valid", "0.1", "--metadata", "year:int")


class Model:
    """A plain model of a corpus that records come to and go from: dicts, and nothing remembered but what the docs say.

    Args:
        rng: chooses.
        do: runs a command.

    Attributes:
        disk: name of a table → what it has now.
        added: name of a source → the number of its addition.
        records: what the corpus is to have.
    """

    def __init__(self, rng: random.Random, do: Callable[..., None]) -> None:
        self.rng, self.do = rng, do
        self.disk: dict[str, dict[str, Record]] = {}
        self.added: dict[str, int] = {}
        self.records: dict[str, Record] = {}
        self.removed: set[str] = set()

    def begin(self) -> None:
        """The first corpus, of two tables."""
        for number, name in enumerate(("a.tsv", "b.tsv")):
            self.write(name, self.made(_IDS[10 * number : 10 * number + 10]))
            self.added[name] = 0
        self.do("ingest", *self.added, "-o", "c", *_SETTINGS)
        self.records = self.overlaid()

    def made(self, ids: Iterable[str]) -> dict[str, Record]:
        """New records of these ids."""

        def text() -> str:
            return " ".join(self.rng.choices(_WORDS, k=self.rng.randint(3, 9)))

        return {own_id: (f"{text()}. {text()}.", self.rng.randint(1950, 2020)) for own_id in ids}

    def write(self, name: str, records: dict[str, Record]) -> None:
        self.disk[name] = records
        write(name, records)

    def overlaid(self) -> dict[str, Record]:
        """What the tables say, those added later over the others, without what was removed."""
        found: dict[str, Record] = {}
        for name in sorted(self.added, key=self.added.__getitem__):
            found |= self.disk[name]
        return {own_id: record for own_id, record in found.items() if own_id not in self.removed}

    def step(self) -> None:
        """One change by chance."""
        self.rng.choice([self.add, self.add, self.add, self.remove, self.remove_where, self.update, self.update])()

    def add(self) -> None:
        """Add a new table, or one that has changed."""
        name = f"{self.rng.choice('abcdefgh')}.tsv"
        kept = {own_id: one for own_id, one in self.disk.get(name, {}).items() if self.rng.random() < 0.7}
        self.write(name, kept | self.made(self.rng.sample(_IDS, self.rng.randint(1, 8))))
        self.do("ingest", name, "-o", "c", "--add")
        self.added[name] = 1 + max(self.added.values())
        self.records |= self.disk[name]
        self.removed -= self.disk[name].keys()

    def remove(self) -> None:
        """Remove some records by their ids."""
        gone = {*self.rng.sample(_IDS, 5)}
        if gone < self.records.keys() | gone:
            Path("ids.txt").write_text("\n".join(sorted(gone)))
            self.do("ingest", "-o", "c", "--remove", "--ids", "ids.txt")
            self.take_out(gone)

    def remove_where(self) -> None:
        """Remove the records of some years."""
        year = self.rng.randint(1945, 1965)
        gone = {own_id for own_id, (_, own_year) in self.records.items() if own_year < year}
        if gone < self.records.keys():
            self.do("ingest", "-o", "c", "--remove", "--where", f"year < {year}")
            self.take_out(gone)

    def take_out(self, ids: set[str]) -> None:
        self.removed |= ids & self.records.keys()
        self.records = {own_id: record for own_id, record in self.records.items() if own_id not in ids}

    def update(self) -> None:
        """Change some of the tables, and read them all again."""
        for name in self.added:
            if self.rng.random() < 0.4:
                same = [other for other in self.added if other != name and self.added[other] == self.added[name]]
                free = sorted({*_IDS} - {own_id for other in same for own_id in self.disk[other]})
                kept = {own_id: one for own_id, one in self.disk[name].items() if self.rng.random() < 0.7}
                self.write(name, kept | self.made(self.rng.sample(free, 3)))
        if self.overlaid():
            self.do("ingest", *self.added, "-o", "c", "--update", "--drop-missing", *_SETTINGS)
            self.records = self.overlaid()


def assert_as_fresh(model: Model) -> None:
    """The index that went through all changes answers as a fresh one of the records of the model, with the same scores."""
    write("all.tsv", model.records)
    wordpipe.ingest("all.tsv", output="fresh", valid=0.1, metadata=("year:int",))
    wordpipe.index("fresh", output="fresh-index", unit="document", language="english")
    questions = [" ".join(model.rng.choices(_WORDS, k=model.rng.randint(1, 3))) for _ in range(50)]
    with wordpipe.open("i") as one, wordpipe.open("fresh-index") as other:
        assert len(one) == len(other) == len(model.records)
        for question in questions:
            found, expected = (
                sorted(
                    (hit["id"], hit["text"], hit["metadata"]["year"], hit["score"])
                    for hit in index.query(question, k=100)
                )
                for index in (one, other)
            )
            assert found == expected


def assert_index_as_made_anew() -> None:
    """An updated index has the rows and the counts of a fresh one, to the byte."""
    wordpipe.index("c", output="j", unit="document", language="english")
    with Artifact("i") as one, Artifact("j") as other:
        assert [*map(one.read, one.names("index-"))] == [*map(other.read, other.names("index-"))]
        for name in ("postings", "texts", "letters", "lengths", "text_terms"):
            assert one.read(f"lexical/{name}.npy") == other.read(f"lexical/{name}.npy")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 32))])
def test_a_chain_of_changes_that_are_killed_and_repeated_is_a_fresh_build(seed, here, nursery):
    """Each command dies at a point of its publication, or after some time, and is run again: old or new, never a mixture."""
    rng = random.Random(seed)
    killed = 0

    def do(*command: str) -> None:
        nonlocal killed
        before = digest_of(command)
        if rng.random() < 0.6:
            child = nursery.command(*command, WORDPIPE_FAILPOINT=f"*:kill:{rng.randint(1, 12)}")
            assert child.wait() in (0, -signal.SIGKILL), child.err.read_text()
        else:
            child = nursery.command(*command)
            time.sleep(rng.random() * 0.4)
            child.signal(signal.SIGKILL)  # unless it has ended
        killed += child.wait() != 0
        if before is not None:  # the old one is there, or the new one, and whole
            assert wordpipe.verify(command[command.index("-o") + 1])["ok"]
        done = nursery.run(*command)
        assert done.returncode == 0, done.stderr

    model = Model(rng, do)
    model.begin()
    do("index", "c", "-o", "i", "--unit", "document", "--language", "english")
    for _ in range(6):
        model.step()
        assert records_of() == model.records
        do("index", "c", "-o", "i", "--update", "--unit", "document", "--language", "english")
    assert killed
    assert_index_as_made_anew()
    assert_as_fresh(model)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_a_chain_of_changes_of_tables_in_pieces(seed, here, cli, monkeypatch):
    """Pieces of a large table are copied and replaced as whole ones are."""
    monkeypatch.setattr(ingesting, "PART_BYTES", 150)

    def do(*command: str) -> None:
        done = cli(*command)
        assert done.code == 0, done.err

    model = Model(random.Random(seed), do)
    model.begin()
    for _ in range(6):
        model.step()
        assert records_of() == model.records


def digest_of(command: tuple[str, ...]) -> str | None:
    """The digest of the artifact that a command is to replace; None: there is none."""
    path = Path(command[command.index("-o") + 1])
    return json.loads((path / "manifest.json").read_text())["digest"] if path.exists() else None
