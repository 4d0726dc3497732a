"""Counts of `search` over the files that people have are those of a plain reading of the same files."""

import csv
import json
import random

import pytest

import wordpipe

CITIES = ["Berlin", "Oslo", "Lisbon", ""]


@pytest.fixture(scope="module")
def goods(tmp_path_factory):
    """A table with empty cells, whose prices are numbers, or amounts of money."""
    rng, root = random.Random(11), tmp_path_factory.mktemp("goods")
    rows = [
        {
            "name": f"lamp {n}", "description": f"A lamp of the {n}th kind that stands in a corner of the room.",
            "price": rng.choice(["", f"{rng.uniform(1, 20):.2f}", f"{rng.randrange(20)}.50"]),
            "cost": rng.choice(["", f"${rng.uniform(1, 2000):,.2f}"]), "city": rng.choice(CITIES),
        }
        for n in range(120)
    ]  # fmt: skip
    with (root / "goods.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0]])
        table.writeheader()
        table.writerows(rows)
    return root / "goods.csv", rows


def count(question, path, cli, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    result = cli("search", question, path, "--count", "--json")
    return json.loads(result.out)["count"]


def number(text):
    return float(text.replace(",", "").lstrip("$")) if text else None


@pytest.mark.parametrize(
    ("question", "holds"),
    [
        ("price<10", lambda row: row["price"] and number(row["price"]) < 10),
        ("price:..10", lambda row: row["price"] and number(row["price"]) <= 10),
        ("price>=10", lambda row: row["price"] and number(row["price"]) >= 10),
        ("price:7.5", lambda row: row["price"] and number(row["price"]) == 7.5),
        ("price:7.50", lambda row: row["price"] and number(row["price"]) == 7.5),
        ("cost<1000", lambda row: row["cost"] and number(row["cost"]) < 1000),
        ("cost:1000..2000", lambda row: row["cost"] and 1000 <= number(row["cost"]) <= 2000),
        ("city:..c", lambda row: row["city"] == "Berlin"),
        ("lamp -price<10", lambda row: not row["price"] or number(row["price"]) >= 10),
    ],
)
def test_an_empty_cell_is_neither_small_nor_large(question, holds, goods, cli, tmp_path_factory, monkeypatch):
    path, rows = goods
    expected = sum(bool(holds(row)) for row in rows)
    assert 0 < expected < len(rows)
    assert count(question, path, cli, tmp_path_factory.getbasetemp() / "counts", monkeypatch) == expected


def test_each_line_of_a_log_counts(cli, tmp_path, monkeypatch):
    rng = random.Random(3)
    lines = [rng.choice(["disk full", "disk ok", "all is well", "the fan is loud"]) for _ in range(60)]
    (tmp_path / "server.log").write_text("".join(f"{line}\n" for line in lines))
    n = sum("disk" in line for line in lines)
    assert count("disk", tmp_path / "server.log", cli, tmp_path / "cache", monkeypatch) == n
    (tmp_path / "server.log").write_text("".join(f"{line}\n" for line in [*lines, "disk full"]))
    assert count("disk", tmp_path / "server.log", cli, tmp_path / "cache", monkeypatch) == n + 1


def test_ids_are_found_by_their_beginning(tmp_path):
    rows = [{"id": f"OPS-{n}", "text": f"ticket number {n}"} for n in (4700, 4711, 4800)]
    wordpipe.ingest(rows, output=tmp_path / "corpus")
    with wordpipe.open(wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")) as index:
        assert {hit["id"] for hit in index.query("id:ops-47*")} == {"OPS-4700", "OPS-4711"}
        assert [hit["id"] for hit in index.query("id:OPS-4711")] == ["OPS-4711"]


def test_a_field_that_became_the_title_is_named_where_it_cannot_be_sorted_by(goods, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "the field name is the column title" in cli("search", "lamp", goods[0], "--sort", "name").err
    assert cli("search", "lamp", goods[0], "--sort", "title", "-k", "1").code == 0


def test_beside_a_count_it_is_said_how_the_question_was_read(goods, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "no field is called 'colour'" in cli("search", "colour:red lamp", goods[0], "--count").err
    assert "searched for corner instead of cornar" in cli("search", "cornar", goods[0], "--count").err
    assert "cornar" not in cli("search", "cornar", goods[0], "--count", "-q").err


LOANS = [
    ("B1", "Die Wälder", "Frau Huber", "2020"),
    ("B1", "Die Wälder", "Herr Maier", "2021"),
    ("B1", "Die Wälder", "Herr Maier", "2021"),
    ("B2", "Der Fluss", "Herr Maier", "2022"),
]


@pytest.mark.parametrize(
    ("question", "number"),
    [("borrower:Maier", 2), ("year>=2021", 2), ("titel:Wälder", 2), ("titel:Maier", 0), ("wälder", 2), ("preis<20", 1)],
)
def test_records_of_one_id_and_text_are_told_apart_by_their_other_fields(
    question, number, cli, tmp_path, tmp_path_factory, monkeypatch
):
    rows = [",".join(row) for row in (("id", "titel", "borrower", "year"), *LOANS)]
    (tmp_path / "loans.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "prices.csv").write_text("id,titel,preis\nB1,Der Mond,12.5\nB2,Der Fluss,30\n")
    path = tmp_path if question.startswith("preis") else tmp_path / "loans.csv"
    assert count(question, path, cli, tmp_path_factory.mktemp("cache"), monkeypatch) == number
    shown = cli("search", "fluss", tmp_path / "loans.csv").out
    assert shown.count("Der Fluss") == 1  # a title that is the text stands there once


def test_a_project_of_titles_has_their_field_as_the_title(cli, tmp_path, monkeypatch):
    rows = "".join(f"{n},A book about lamp {n} and its shadow,Art,{1900 + n}\n" for n in range(30))
    (tmp_path / "books.csv").write_text("id,title,subject,year\n" + rows)
    monkeypatch.chdir(tmp_path)
    assert cli("init", "--from", "books.csv").code == 0
    config = (tmp_path / "wordpipe.toml").read_text()
    assert 'title_field = "title"' in config
    assert 'text_field = "title"' in config


SETTINGS = {
    "my.cnf": "# The server\n[mysqld]\nport = 3306\n\nmax_connections = 151\n# tmpdir\n",
    "site.conf": "user www-data;\n\n\nhttp {\n  server {\n    listen 80;\n    proxy_pass backend;\n  }\n}\n",
    "login.defs": "\n".join(
        [*(f"# UMASK is said in line {n} here." for n in range(1, 9)), "UMASK\t022", "LIMIT\t8", ""]
    ),
    "apt/main.sources": "Types: deb\nURIs: mirror\n",
    "web.service": "[Unit]\nDescription=The web server\n",
    "hosts.csv": "text,city,since\nThe host of the town hall,Oslo,2019\n",  # whose fields the others lack
}


@pytest.mark.parametrize(
    ("question", "place"),
    [("max_connections", "my.cnf:5"), ("proxy_pass", "site.conf:7"), ("UMASK 022", "login.defs:9"),
     ("mirror", "apt/main.sources:2"), ("description", "web.service:2")],
)  # fmt: skip
def test_settings_of_programs_are_found_in_a_folder_in_their_line(question, place, cli, tmp_path, monkeypatch):
    for name, text in SETTINGS.items():
        (tmp_path / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "etc" / name).write_text(text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = cli("search", question, tmp_path / "etc", "-k", "1", "--format", "plain")
    assert (found.code, found.out.splitlines()[0].rpartition("\t")[2].endswith(f"etc/{place}")) == (0, True)


def test_the_include_that_is_offered_names_all_kinds_of_text_and_adds_files(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "some").mkdir()
    kinds = [f"q{n}" for n in range(9)]
    for kind in kinds:
        (tmp_path / "some" / f"a.{kind}").write_text(f"A tide in {kind}.\n")
    offered = f"--include '{','.join(f'*.{kind}' for kind in kinds)}'"
    assert offered in cli("search", "tide", tmp_path / "some").err
    (tmp_path / "some" / "b.md").write_text("A tide in b.\n")
    assert offered in cli("search", "tide", tmp_path / "some").err
    added = cli("search", "tide", tmp_path / "some", "--include", "*.q3", "--count")
    assert (added.out.strip(), "1 other file was read, too" in added.err) == ("2", True)


def test_equal_sections_are_no_loss_and_plain_pages_are_in_no_other_encoding(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "some").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "some" / name).write_text(
            f"# Of {name}\n\nOwn text of {name}.\n\n# Licence\n\nAnyone may copy this.\n"
        )
    (tmp_path / "some" / "p.html").write_text('<meta charset="iso-8859-1"><p>A plain page.')
    (tmp_path / "some" / "q.html").write_bytes('<meta charset="iso-8859-1"><p>A café.'.encode("cp1252"))
    said = cli("search", "copy", tmp_path / "some").err
    assert '(1 more is equal to one of these: its answer says "also in")' in said
    assert "duplicate" not in said
    assert "than UTF-8: 1 as cp1252" in said
