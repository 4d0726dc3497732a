"""Records in, records out: ids, fields and their types from a file or from memory to the answers of an index."""

import json
import random
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import wordpipe
from wordpipe.artifacts import CORPUS, Artifact, column_of, read_batches, read_schema, row_shower
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search.settings import QueryOptions

WORDS = tuple("tide moon bread yeast bee honey bridge river snow ice salt sea wind sail clock gear".split())  # noqa: SIM905


def made_records(seed: int, size: int = 60) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [
        {
            "id": f"rec-{number}",
            "text": " ".join(rng.choices(WORDS, k=8)) + f" {number}.",
            "year": rng.randrange(1800, 2020),
            "tags": rng.sample(["x", "y", "z"], rng.randrange(4)),
            "score": rng.choice([1, 0.5]),
            "source": rng.choice(["web", "book"]),
            "label": "a",
            "meta": {"n": number},
        }
        for number in range(size)
    ]


def write_jsonl(path, records) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def rows_of(path) -> list[dict[str, object]]:
    with Artifact(path) as artifact:
        return [row for batch in read_batches(artifact, artifact.kind) for row in batch.to_pylist()]


def corpus_of(sources, output="corpus", **settings):
    return wordpipe.ingest(sources, output=output, **{"valid": 0.0, **settings})


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """An index over records, made from a file."""
    folder = tmp_path_factory.mktemp("records")
    write_jsonl(folder / "in.jsonl", made_records(1))
    wordpipe.ingest(folder / "in.jsonl", output=folder / "corpus")
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=300)
    wordpipe.train_word2vec(folder / "tokens", output=folder / "words", dim=8, epochs=1, min_count=1)
    wordpipe.embed(folder / "words", folder / "corpus", output=folder / "sentences")
    wordpipe.index(folder / "sentences", output=folder / "index")
    return folder / "index"


def test_a_hit_has_the_users_id_and_fields(index):
    records = {record["id"]: record for record in made_records(1)}
    with wordpipe.open(index) as opened:
        hits = opened.query("tide moon", 5)
    assert len(hits) == 5
    for hit in hits:
        record = records[hit["id"]]
        assert hit["text"] == record["text"]
        expected = {name: value for name, value in record.items() if name not in ("id", "text")}
        assert hit["metadata"] == expected
        assert (hit["source"], hit["line"]) == ("in.jsonl", hit["row"] + 1)
        assert list(hit)[:4] == ["rank", "score", "row", "id"]


@pytest.mark.parametrize(
    ("condition", "by_hand"),
    [
        ("year > 1900 and list_contains(tags, 'x')", lambda r, n: r["year"] > 1900 and "x" in r["tags"]),
        ("id = 'rec-7'", lambda r, n: n == 7),
        ("source = 'web' and _source like '%.jsonl'", lambda r, n: r["source"] == "web"),
        ("row < 9 and label = 'a'", lambda r, n: n < 9),
        ("score = 0.5", lambda r, n: r["score"] == 0.5),
        ("meta->>'n' = '7' or TRY_CAST(meta->>'n' AS BIGINT) > 50", lambda r, n: n == 7 or n > 50),
        ("not 'x' in tags", lambda r, n: "x" not in r["tags"]),
        ("TRY_CAST(meta AS BIGINT) is null and year::varchar like '19%'", lambda r, n: 1900 <= r["year"] < 2000),
    ],
)
def test_conditions_use_the_users_names(index, condition, by_hand):
    wanted = {f"rec-{n}" for n, record in enumerate(made_records(1)) if by_hand(record, n)}
    with wordpipe.open(index) as opened:
        assert {hit["id"] for hit in opened.query("tide moon", 100, where=condition, mode="dense")} == wanted


def test_a_condition_that_is_true_of_no_row_tells_the_values_of_its_columns(index):
    with wordpipe.open(index) as opened:
        error = opened.nothing_found(QueryOptions(where="label = 'A' and year > 1"))
        assert (
            error.hint == f"values of label: {', '.join(sorted({r['label'] for r in made_records(1) if r['label']}))}"
        )
        assert (
            "to see the columns and their values, use" in opened.nothing_found(QueryOptions(where="year > 9999")).hint
        )
        assert (
            "to see the columns" in opened.nothing_found(QueryOptions(where="text = 'x'")).hint
        )  # of many values none


@pytest.mark.parametrize(
    ("condition", "got", "hint"),
    [
        ("yeer > 1900", "no column yeer", "did you mean year?"),
        ("lang > 5", "no column lang", "wordpipe ingest … --metadata lang:int"),
        ("lang = 'de'", "no column lang", "--metadata lang"),
        (
            "source = 'web' and label > 5",
            "Cannot compare",
            "label is text, so use TRY_CAST(label AS DOUBLE); columns: row, ",
        ),
        ("label::int > 5", "Could not convert", "use TRY_CAST(label AS BIGINT)"),
        ("label = 'a' and year = 'new'", "Could not convert", "columns: row"),
        (
            "meta > 5",
            "Cannot compare",
            "meta contains objects, so write a field of an object as meta->>'FIELD'; columns: row, ",
        ),
        ("meta.n = '5'", "Cannot extract", "write a field of an object as meta->>'n'"),
        ("rows.meta['n'] = '5'", "", "write a field of an object as meta->>'n'"),
        ("meta.\"a b\".c = '5'", "Cannot extract", "write a field of an object as meta->>'$.\"a b\".c'"),
        ("meta->>'n' > 5", "Cannot compare", "meta->>'n' is text, so use TRY_CAST(meta->>'n' AS DOUBLE)"),
        ("label->>'n' = 'x'", "Malformed JSON", "use case when label like '{%' then label->>'n' end"),
        ("tags = 'x'", "can't be cast", "tags is a list, so write 'x' in tags; columns:"),
        ("year > 1 and tags in ('x', 'y')", "can't be cast", "tags is a list, so write 'x' in tags"),
        ("tags like '%x%'", "No function", "tags is a list, so write 'x' in tags; columns: row, "),
        ("metadata.year = 1900", "no column metadata.year", "did you mean year?"),
        ("case when year > 1 then " * 500 + "true" + " end" * 500, "", ""),
    ],
)
def test_what_does_not_fit_the_columns_says_what_would(index, condition, got, hint):
    with wordpipe.open(index) as opened, pytest.raises(ConfigError) as caught:
        opened.query("tide", where=condition)
    assert got in str(caught.value.got)
    assert hint in (caught.value.hint or "")
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("condition", ["label = 'a' and year = 'new'", "year = 'new' and list_contains(tags, 'x')"])
def test_no_hint_where_none_is_known(index, condition):
    """Neither of the lists nor the texts that are asked for rightly beside what is wrong."""
    with wordpipe.open(index) as opened, pytest.raises(ConfigError) as caught:
        opened.query("tide", where=condition)
    assert (caught.value.hint or "").startswith("columns: ")


def test_objects_are_objects_again_where_all_values_are(here):
    """Not where some are texts that look like one; and whatever others wrote into the file."""
    records = [{"text": f"Tide {n}.", "one": {"n": n}, "some": {"n": n}, "list": [{"n": n}]} for n in range(3)]
    records[1]["some"] = '{"n": 1}'
    records[2] |= {"list": [], "one": {"x": float("inf"), "y": None}}
    write_jsonl(here / "a.jsonl", records)
    corpus_of("a.jsonl")
    rows = [row["metadata"] for row in wordpipe.show("corpus", rows=3)["rows"]]
    assert [row["one"] for row in rows] == [{"n": 0}, {"n": 1}, {"x": None, "y": None}]
    assert [row["list"] for row in rows] == [[{"n": 0}], [{"n": 1}], []]
    assert [row["some"] for row in rows] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert rows_of("corpus")[0]["one"] == '{"n": 0}'
    columns = wordpipe.show("corpus")["columns"]
    assert (columns["one"], columns["list"], columns["some"], columns["line"]) == ("JSON", "JSON", "string", "int64")
    forged = pa.schema([*CORPUS, column_of("one", pa.string(), (), as_json=True)])
    assert row_shower(forged)({"one": "{", "text": "A"})["metadata"] == {"one": "{"}
    assert row_shower(forged)({"one": "[" * 50_000 + "]" * 50_000})["metadata"]["one"].startswith("[[")


def test_what_was_ingested_before_objects_were_marked_is_marked_by_an_update(here, monkeypatch):
    write_jsonl(here / "a.jsonl", [{"text": "Tide.", "one": {"n": 1}}])
    with monkeypatch.context() as before:
        before.setattr("wordpipe.corpus.columns._JSON", set())
        corpus_of("a.jsonl")
    assert wordpipe.show("corpus", rows=1)["rows"][0]["metadata"] == {"one": '{"n": 1}'}
    assert corpus_of("a.jsonl", update=True).counts["sources_copied"] == 1
    assert wordpipe.show("corpus", rows=1)["rows"][0]["metadata"] == {"one": {"n": 1}}


def test_a_hit_is_json_whatever_the_fields_hold(index, cli, tmp_path):
    """NaN is not JSON, and dates, times and decimals have no JSON of their own."""
    columns = {
        "text": ["tide moon bread yeast"] * 3, "nan": [float("nan")] * 3, "nans": [[1.0, float("inf")]] * 3,
        "when": pa.array([1_234_567_891] * 3, pa.timestamp("ns")), "price": pa.array([Decimal("1.50")] * 3),
        "took": pa.array([5] * 3, pa.duration("ns")), "raw": [b"\xff"] * 3, "day": [date(2020, 1, 2)] * 3,
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    wordpipe.ingest(tmp_path / "a.parquet", output=tmp_path / "corpus", deduplicate=False)
    wordpipe.embed(index.parent / "words", tmp_path / "corpus", output=tmp_path / "sentences", transform="none")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    asked = cli("query", tmp_path / "index", "tide", "--json", "--where", "day > DATE '2019-01-01' and price = 1.5")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    hit = json.loads(asked.out.splitlines()[0], parse_constant=refuse)
    assert hit["metadata"] == {
        "nan": None, "nans": [1.0, None], "when": "1970-01-01 00:00:01.234567891", "price": "1.50",
        "took": "0 days 00:00:00.000000005", "raw": "b'\\xff'", "day": "2020-01-02",
    }  # fmt: skip


def test_rows_are_shown_and_grouped_by_the_users_names(index, cli):
    (row,) = json.loads(cli("show", index, "--rows", 1, "--json").out)["rows"]
    assert (row["row"], row["id"], row["metadata"]["source"]) == (0, "rec-0", made_records(1)[0]["source"])
    found = wordpipe.duplicates(index, threshold=-1.0, n=1)
    assert found["shown"][0][0]["row"] == 0
    assert found["shown"][0][0]["metadata"]["label"] == "a"
    corpus = index.parent / "corpus"
    judged = wordpipe.evaluate_tokenizer(index.parent / "tokens", corpus, by="source")
    assert set(judged["tokenizers"][0]["groups"]) == {"web", "book"}
    wordpipe.export(index.parent / "sentences", "projector", index.parent / "projector")
    head = (index.parent / "projector" / "metadata.tsv").read_text().split("\n")[0].split("\t")
    assert {"row", "id", "source", "_source", "tags"} <= {*head}


@pytest.mark.parametrize(
    ("ids", "kind", "stored"),
    [
        ([3, 1, 2], pa.int64(), [3, 1, 2]),
        ([3, "b", 2], pa.string(), ["3", "b", "2"]),
        ([2**70, 1], pa.string(), [str(2**70), "1"]),
        ([0.5, 2.0], pa.string(), ["0.5", "2"]),
        ([None, 7], pa.int64(), [None, 7]),
    ],
)
def test_ids_are_integers_where_all_are(here, ids, kind, stored):
    write_jsonl(here / "a.jsonl", [{"text": f"T{n}.", "key": key} for n, key in enumerate(ids)])
    made = corpus_of("a.jsonl", id_field="key")
    with Artifact("corpus") as corpus:
        assert read_schema(corpus, "corpus").field("record_id").type == kind
    assert [row["record_id"] for row in rows_of("corpus")] == stored
    assert made.counts.get("records_without_id", 0) == ids.count(None)
    assert any("have no id; the first one is at a.jsonl:1" in text for text in made.warnings) == (None in ids)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([{"id": 1}, {}], [1, None]),
        ([{}, {"_id": "b"}], [None, "b"]),
        ([{"_id": {"$oid": "x"}}], None),
        ([{"id": True}], None),
    ],
)
def test_an_id_is_found_by_itself_and_said(here, cli, records, found):
    write_jsonl(here / "a.jsonl", [{"text": f"T{n}.", **record} for n, record in enumerate(records)])
    result = cli("ingest", "a.jsonl", "-o", "corpus")
    assert result.code == 0
    assert ("is used as the id of the records" in result.err) == (found is not None)
    rows = rows_of("corpus")
    assert [row.get("record_id") for row in rows] == (found or [None])
    assert ("record_id" in rows[0]) == (found is not None)
    corpus_of("a.jsonl", output="none", id_field="none")
    assert "record_id" not in rows_of("none")[0]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "memory"])
def test_an_id_field_that_is_not_there_is_an_error_at_the_first_record(here, form):
    records = [{"text": f"T{n}.", "ticket_id": n, "year": 2000} for n in range(300)]
    table, source = pa.Table.from_pylist(records), f"a.{form}"
    if form == "parquet":
        pq.write_table(table, source)
    elif form == "csv":
        write_csv(table, source)
    else:
        write_jsonl(here / "a.jsonl", [*records, {"text": "The last.", "ticket": 1}])
    given = records if form == "memory" else source
    with pytest.raises(InputError, match="the id field 'ticket' does not exist; got text, ticket_id, year") as caught:
        corpus_of(given, id_field="ticket")
    assert (
        caught.value.hint
        == "did you mean ticket_id? Use --id-field to give the name of the field that contains the ids"
    )
    assert not (here / "corpus").exists()
    with pytest.raises(InputError) as caught:
        corpus_of(given, id_field="zzz")
    assert caught.value.hint == "use --id-field to give the name of the field that contains the ids"
    assert corpus_of(given, id_field="ticket_id").counts["documents_kept"] >= 300


def test_only_the_first_records_of_all_must_have_the_id_field(here):
    write_jsonl(here / "a.jsonl", [{"text": "One.", "key": None}, {"text": "Two.", "key": "x"}])
    write_jsonl(here / "b.jsonl", [{"text": "Three."}])
    (here / "c.txt").write_text("Four.")
    made = corpus_of(["c.txt", "a.jsonl", "b.jsonl"], id_field="key")
    assert made.counts["records_without_id"] == 2
    write_jsonl(here / "0.jsonl", [{"text": "None."}])
    with pytest.raises(InputError, match=r"0\.jsonl: the id field 'key' does not exist"):
        corpus_of(["0.jsonl", "a.jsonl"], id_field="key")


def test_what_becomes_of_values_of_another_type_is_said(here):
    write_jsonl(here / "a.jsonl", [{"text": "One.", "year": 1}, {"text": "Two.", "year": "MM"}])
    (told,) = corpus_of("a.jsonl", metadata=("year:int",)).warnings
    assert told.startswith(
        "some values of year are not of type int and are left empty; the first is 'MM' in a.jsonl, line 2; "
    )
    (told,) = corpus_of("a.jsonl", metadata=("year",)).warnings
    assert told.endswith("so all of them are kept as text; the first value with a different type is in a.jsonl, line 2")
    assert [row["year"] for row in rows_of("corpus")] == ["1", "MM"]


def test_two_records_of_one_id_are_an_error_that_names_both(here):
    write_jsonl(here / "a.jsonl", [{"text": "One.", "id": 1}, {"text": "Two.", "id": 2}])
    write_jsonl(
        here / "b.jsonl", [{"text": "Three.", "id": 3}, {"text": "Four.", "id": "2"}, {"text": "One.", "id": 1}]
    )
    with pytest.raises(InputError) as caught:
        corpus_of(["a.jsonl", "b.jsonl"])
    assert caught.value.message == "b.jsonl, line 2: two records have the same id; got '2', as in a.jsonl, line 2"
    assert "use --id-field to choose another field" in caught.value.hint
    made = corpus_of(["a.jsonl", "b.jsonl"], bad_records="skip")
    assert made.counts["records_skipped_duplicate_id"] == 1
    assert made.counts["documents_dropped_duplicate"] == 1  # the same record once more is no error
    assert [row["text"] for row in rows_of("corpus")] == ["One.", "Two.", "Three."]


def test_the_parts_of_a_long_record_share_its_id(here):
    write_jsonl(here / "a.jsonl", [{"text": "word " * 1000, "id": 1}, {"text": "Other.", "id": 2}])
    corpus_of("a.jsonl", max_document_bytes=1024)
    assert {row["record_id"] for row in rows_of("corpus")} == {1, 2}


def test_columns_of_ours_are_filled_where_a_field_is_named(here):
    records = [
        {
            "text": "  A bee\r\nflies.", "second": "B", "kind": 3, "topics": ["x", 1],
            "ents": [{"start": 4, "end": 7, "label": "I"}],
        },
        {"text": "Two.", "second": 7, "kind": 4, "topics": "y", "ents": [[0, 3, None]]},
    ]  # fmt: skip
    write_jsonl(here / "a.jsonl", records)
    corpus_of("a.jsonl", text_b="second", label_field="kind", tags_field="topics", spans_field="ents")
    first, last = rows_of("corpus")
    assert (first["text_b"], first["label"], first["tags"]) == ("B", 3, ["x", "1"])
    assert first["spans"] == [{"start": 2, "end": 5, "label": "I"}]  # "bee", of the text without its white space
    assert (last["text_b"], last["tags"], last["spans"]) == ("7", ["y"], [{"start": 0, "end": 3, "label": None}])
    assert not {"second", "kind", "topics", "ents"} & {*first}


@pytest.mark.parametrize(
    "spans", [[{"start": 0, "end": 9}], [{"start": -1, "end": 2}], [[1, 2]], "x", [{"start": 1.0, "end": 2}]]
)
def test_spans_beyond_the_text_are_refused(here, spans):
    write_jsonl(here / "a.jsonl", [{"text": "Fine."}, {"text": "Four.", "ents": spans}])
    with pytest.raises(
        InputError, match=r"a\.jsonl, line 2: a value of the field 'ents' is not a valid span of the text"
    ):
        corpus_of("a.jsonl", spans_field="ents")
    assert corpus_of("a.jsonl", spans_field="ents", bad_records="skip").counts["records_skipped_spans"] == 1


def test_bad_records_are_left_out_counted_and_named(here):
    lines = [
        '{"text": "Good."}',
        "{bad",
        "[1]",
        '{"text": 5}',
        '{"text": "Also good.", "id": 1}',
        '{"text": "Not.", "id": 1}',
    ]
    (here / "a.jsonl").write_text("\n".join(lines))
    (here / "b.csv").write_text('text,n\nFrom CSV.,1\na,b,c\n"x"y,2\nLast.,3\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: the line is not valid JSON") as caught:
        corpus_of(["a.jsonl", "b.csv"])
    assert "--bad-records skip" in caught.value.hint
    made = corpus_of(["a.jsonl", "b.csv"], bad_records="skip", id_field="id")
    assert [row["text"] for row in rows_of("corpus")] == ["Good.", "Also good.", "From CSV.", "Last."]
    skipped = {name: n for name, n in made.counts.items() if name.startswith("records_skipped")}
    reasons = ("bad_quotes", "duplicate_id", "not_json", "not_object", "text", "too_many_cells")
    assert skipped == {f"records_skipped_{reason}": 1 for reason in reasons}
    (told,) = (text for text in made.warnings if text.startswith("number of skipped records: 6; "))
    assert told.count("a.jsonl, line") >= 4
    assert "and 1 more" in told
    assert made.counts["documents_read"] == made.counts["documents_kept"] + made.counts.get(
        "documents_dropped_no_text", 0
    )


CHANGES = ("sources_copied", "sources_read_again", "sources_added", "sources_deleted")


@pytest.mark.parametrize("seed", range(6))
def test_an_update_has_the_rows_and_columns_of_a_fresh_corpus(here, seed):
    """Types grow and shrink again, fields and ids come and go."""
    rng = random.Random(seed)
    (here / "in").mkdir()
    values = [1, 2.5, 3.0, "old", True, None, [1], ["a", 2], [0.5], {"k": 1}, 2**60 + 1, 2**70]

    def write(name: str) -> None:
        few = rng.sample(values, 2)
        records = [
            {"text": rng.choice(["Same.", f"T {rng.random()}."]), **{k: rng.choice(few) for k in rng.sample("abc", 2)}}
            for _ in range(3)
        ]
        if rng.random() < 0.5:
            records = [
                record | {"id": rng.randrange(10**9) if rng.random() < 0.8 else str(rng.random())} for record in records
            ]
        write_jsonl(here / "in" / name, records)

    for number in range(5):
        write(f"{number}.jsonl")
    corpus_of("in")
    copied = 0
    for _ in range(3):
        write(f"{rng.randrange(6)}.jsonl")
        if rng.random() < 0.4:
            sorted((here / "in").iterdir())[rng.randrange(3)].unlink()
        made = corpus_of("in", update=True)
        fresh = corpus_of("in", output="fresh")
        warnings = [one for one in made.warnings if "from the corpus (no longer found)" not in one]
        assert (made.recipe, warnings) == (fresh.recipe, fresh.warnings)
        with Artifact("corpus") as one, Artifact("fresh") as other:
            assert read_schema(one, "corpus").equals(read_schema(other, "corpus"), check_metadata=True)
        assert rows_of("corpus") == rows_of("fresh")
        assert made.digest == fresh.digest
        assert {name: n for name, n in made.counts.items() if name not in CHANGES} == fresh.counts
        copied += made.counts["sources_copied"]
        shutil.rmtree("fresh")
    assert copied > 0


def test_a_copied_id_counts_among_the_ids(here):
    (here / "in").mkdir()
    write_jsonl(here / "in" / "b.jsonl", [{"text": "One.", "id": 1}])
    corpus_of("in", bad_records="fail")
    write_jsonl(here / "in" / "c.jsonl", [{"text": "Two.", "id": 1}])
    with pytest.raises(InputError, match=r"in/c\.jsonl, line 1: two records.*in/b\.jsonl, line 1"):
        corpus_of("in", update=True, bad_records="fail")


FORMS = ["dicts", "generator", "table", "reader", "batch", "pandas", "polars"]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_program_has_in_memory_is_read(here, form):
    records = [
        {"text": f"Text {n}.", "id": n, "year": 1900 + n, "part": n / 2, "word": "w", "seen": n == 1}
        for n in range(700)
    ]
    table = pa.Table.from_pylist(records)
    given = {
        "dicts": lambda: records,
        "generator": lambda: (dict(record) for record in records),
        "table": lambda: table,
        "reader": lambda: table.to_reader(100),
        "batch": lambda: table.combine_chunks().to_batches()[0],
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(records),
        "polars": lambda: pytest.importorskip("polars").DataFrame(records),
    }[form]()
    made = corpus_of(given, output=form)
    rows = rows_of(form)
    assert [row["record_id"] for row in rows] == [*range(700)]
    assert (rows[5]["source"], rows[5]["line"], rows[5]["year"], rows[5]["part"]) == ("memory", 6, 1905, 2.5)
    assert (rows[1]["seen"], rows[0]["seen"], rows[0]["word"]) == (True, False, "w")
    again = corpus_of(records, output="again")
    assert (made.digest, made.recipe) == (again.digest, again.recipe)


def test_values_of_programs_become_what_records_have(here):
    record = {
        "text": "A\0b.", "n": np.int64(3), "v": np.array([1.5, 2.5]), "when": date(2020, 1, 2), "price": Decimal("1.5"),
        "pair": (1, 2), "path": here, "nan": float("nan"), 5: "number as a name",
    }  # fmt: skip
    corpus_of([record], name="my rows")
    (row,) = rows_of("corpus")
    assert (row["n"], row["v"], row["when"], row["price"], row["pair"]) == (
        3,
        [1.5, 2.5],
        date(2020, 1, 2),
        Decimal("1.5"),
        [1, 2],
    )
    assert (row["path"], row["5"], row["source"], row["text"]) == (
        str(here),
        "number as a name",
        "my rows",
        "A\ufffdb.",
    )
    assert row["nan"] is None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"text": "One."}, ConfigError, "put the dict into a list"),
        ([1, 2], ConfigError, "dicts such as"),
        (5, ConfigError, "this value is not a source of text"),
        ([{"text": "A."}, "B."], InputError, "memory, line 2: an item is not a mapping"),
        ([{"body": 1}], InputError, "the text field 'text' does not exist; got body"),
    ],
)
def test_what_is_neither_is_refused(here, given, error, message):
    with pytest.raises(error) as caught:
        corpus_of(given)
    assert message in f"{caught.value.message} {caught.value.hint}"


def test_stages_take_rows_where_they_take_a_corpus(here):
    made = wordpipe.tokenize([{"text": "Bees dance in the hive. " * 20}], output="tokens", vocab_size=300)
    assert made.counts["ingest_documents_kept"] == 1


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ('{"text": "A.", "year": 3}\n{"text": "B."}\n', "standard input: JSON Lines", "year"),
        ("text,year\nA.,3\nB.,4\n", "standard input: CSV", "year"),
        ("year\ttext\n3\tA.\n4\tB.\n", "standard input: TSV", "year"),
        ("The text, he said, was here.\nAnd so, it was, indeed, fine.\n", "", None),
    ],
)
def test_standard_input_is_looked_at(here, cli, text, said, column):
    assert said in cli("ingest", "-", "-o", "corpus", piped=text).err
    assert column is None or column in rows_of("corpus")[0]
    forced = cli("ingest", "-", "-o", "corpus", "--format", "txt", piped=text)
    assert forced.code == 0
    assert ("looks like JSON Lines" in forced.err) == ("JSON" in said)
    assert "year" not in rows_of("corpus")[0]


def test_a_field_that_is_not_there_is_said_even_with_q(here, cli):
    write_jsonl(here / "a.jsonl", [{"text": "One.", "headline": "H", "year": 1}])
    wrong = ("--title-field", "headlin", "--metadata", "yeer,zzz", "--label-field", "labl")
    told = cli("ingest", "a.jsonl", "-o", "corpus", "-q", *wrong).err
    assert "no record has the field 'headlin' (--title-field); did you mean headline?" in told
    assert "no record has the field 'yeer' (--metadata), so the column is empty; did you mean year?" in told
    assert "'zzz' (--metadata), so the column is empty; the fields are text, headline, year" in told
    assert "'labl' (--label-field" in told
    assert cli("ingest", "a.jsonl", "-o", "corpus", "-q").err == ""


def test_commas_part_the_fields_that_are_wanted(here, cli):
    write_jsonl(here / "a.jsonl", [{"text": "One.", "a": "1", "b": 2, "c": 3}])
    assert cli("ingest", "a.jsonl", "-o", "corpus", "--metadata", "a:int,b").code == 0
    (row,) = rows_of("corpus")
    assert (row["a"], row["b"], "c" in row) == (1, 2, False)
    assert cli("ingest", "a.jsonl", "-o", "corpus", "--no-metadata").code == 0
    assert "a" not in rows_of("corpus")[0]


def test_a_folder_that_lost_its_manifest_is_no_text(here, index):
    shutil.copytree(index.parent / "corpus", here / "kept" / "corpus")
    (here / "kept" / "corpus" / "manifest.json").unlink()
    (here / "kept" / "a.txt").write_text("Text.")
    with pytest.raises(ArtifactError, match="contains tables of wordpipe, but no manifest"):
        corpus_of("kept/corpus")
    corpus_of("kept", output="out")
    assert [row["text"] for row in rows_of("out")] == ["Text."]
    assert pq.read_table("kept/corpus/corpus-00000.parquet").num_rows == 60
    made = corpus_of("kept/corpus/corpus-*.parquet", output="out")  # its files may be named
    assert made.counts["documents_kept"] == 60


@pytest.mark.parametrize("kind", ["fifo", "zero", "huge"])
def test_what_is_called_a_manifest_is_not_waited_for(here, kind):
    import os

    (here / "in" / "sub").mkdir(parents=True)
    (here / "in" / "sub" / "a.txt").write_text("Text.")
    manifest = here / "in" / "sub" / "manifest.json"
    if kind == "fifo":
        os.mkfifo(manifest)
    elif kind == "zero":
        manifest.symlink_to("/dev/zero")
    else:
        with manifest.open("wb") as file:
            file.truncate(1 << 40)
    corpus_of("in")
    assert [row["text"] for row in rows_of("corpus")] == ["Text."]


def test_a_condition_on_a_field_that_became_the_title_or_the_id_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"code": f"R{n}", "name": f"Soup {n}", "method": "Boil it in salt water."} for n in range(30)]
    wordpipe.ingest(rows, output="c", valid=0, text_field="method", title_field="name", id_field="code")
    wordpipe.tokenize("c", output="t", vocab_size=300)
    wordpipe.train_word2vec("t", output="w", dim=8, min_count=1, epochs=1, subsample=0)
    wordpipe.embed("w", "c", output="s", unit="document")
    wordpipe.index("s", output="i")
    for name, became in (("name", "title"), ("code", "id"), ("method", "text")):
        with pytest.raises(ConfigError) as raised:
            wordpipe.query("i", "salt", where=f"{name} like '%1'")
        assert (
            raised.value.hint
            == f"in this index, the field {name} is the column {became}: write {became} in the condition"
        )
    assert [hit["id"] for hit in wordpipe.query("i", "salt", where="title = 'Soup 7' and id = 'R7'")] == ["R7"]
    Path("c").rename("elsewhere")
    with pytest.raises(ConfigError) as raised:
        wordpipe.query("i", "salt", where="name like '%1'")
    assert raised.value.hint.startswith("to make a field of the records a column")


def test_records_that_say_the_same_are_other_records_where_they_have_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": number, "text": "The printer makes a noise.", "year": 2018 + number} for number in range(3)]
    rows += [rows[1], {"id": 9, "text": "The screen is dark today."}]
    made = wordpipe.ingest(rows, output="c", valid=0)
    assert (made.counts["documents_kept"], made.counts["documents_dropped_duplicate"]) == (4, 1)
    with pytest.raises(InputError, match="two records have the same id"):
        wordpipe.ingest([*rows, {"id": 1, "text": "Other words."}], output="d")
    wordpipe.tokenize("c", output="t", vocab_size=300)
    wordpipe.train_word2vec("t", output="w", dim=8, min_count=1, epochs=1, subsample=0)
    wordpipe.embed("w", "c", output="s", unit="document")
    wordpipe.index("s", output="i")
    for options in ({}, {"per_document": True}):
        hits = wordpipe.query("i", "printer noise", k=3, mode="lexical", **options)
        assert {hit["id"] for hit in hits} == {0, 1, 2}
    assert [hit["id"] for hit in wordpipe.query("i", "printer noise", where="year = 2020")] == [2]
