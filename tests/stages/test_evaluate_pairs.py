"""The pairs of `evaluate seq2seq`: every form in which they come says the same; what is wrong is named by file and line."""

import bz2
import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordpipe
from tests.support.model_artifacts import small_corpus
from wordpipe import RunOptions, evaluate_seq2seq
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages.evaluate import pairs_and_labels as stage
from wordpipe.stages.evaluate.settings import Seq2SeqEvaluationSettings

PAIRS = [
    ("Ein Hund rennt. Er ist müde.", "A dog runs. It is tired."),
    ('Das "Meer", weit', "the sea, wide"),
    ("", "left out"),
    ("Brot", "bread"),
    ("Mond", " "),
]
KEPT = [PAIRS[0], PAIRS[1], PAIRS[3]]


def read(data, **settings):
    run = RunOptions(report=lambda _: None)
    return stage.read_pairs(data, Seq2SeqEvaluationSettings.make(settings), run)


def rows_of(found):
    return list(zip(found.sources, [one[0] for one in found.references], strict=True))


def as_tsv(folder, pairs=PAIRS):
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return folder / "pairs.tsv"


def as_text(folder):
    return as_tsv(folder).rename(folder / "pairs.txt")


def as_packed(folder):
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress(as_tsv(folder).read_bytes().replace(b"\n", b"\r\n")))
    return folder / "pairs.tsv.gz"


def as_headed(folder):
    return as_tsv(folder, [("text", "text_b"), *PAIRS])


def as_jsonl(folder):
    rows = [{"n": 1, "text": source, "text_b": target} for source, target in PAIRS]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "pairs.jsonl"


def as_csv(folder):
    with (folder / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "text_b"), *PAIRS])
    return folder / "pairs.csv"


def as_parquet(folder):
    table = pa.table({"text": [source for source, _ in PAIRS], "text_b": [target for _, target in PAIRS]})
    pq.write_table(table, folder / "pairs.parquet")
    return folder / "pairs.parquet"


def as_parallel(folder):
    (folder / "a.de").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (folder / "a.en.bz2").write_bytes(bz2.compress("\n".join(target for _, target in PAIRS).encode()))
    return [folder / "a.de", folder / "a.en.bz2"]


def as_rows(folder):
    del folder
    return ({"text": source, "text_b": target} for source, target in PAIRS)


FORMS = [as_tsv, as_text, as_packed, as_headed, as_jsonl, as_csv, as_parquet, as_parallel, as_rows]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form, tmp_path):
    found = read(form(tmp_path))
    assert rows_of(found) == KEPT
    assert found.counts == {"pairs": 3, "references": 3, "sources_empty": 1, "targets_empty": 1}
    assert found.prefixes == ["", "", ""]
    assert found.split is None


def test_files_of_records_follow_each_other(tmp_path):
    assert rows_of(read([as_tsv(tmp_path), as_jsonl(tmp_path)])) == [*KEPT, *KEPT]


def test_columns_beyond_the_second_are_references(tmp_path):
    (tmp_path / "a.tsv").write_text("ein\tone\ta\nzwei\ttwo\ndrei\t\tthree\n")
    found = read(tmp_path / "a.tsv")
    assert found.references == [["one", "a"], ["two"], ["three"]]
    assert found.counts["references"] == 4
    for name, text in (("de", "ein\nzwei\n"), ("en1", "one\ntwo\n"), ("en2", "a\n\n")):
        (tmp_path / name).write_text(text)
    assert read([tmp_path / name for name in ("de", "en1", "en2")]).references == [["one", "a"], ["two"]]
    rows = [{"de": "ein", "en": "one", "en2": "a"}, {"de": "zwei", "en": "two"}]
    assert read(rows, text_field="de", text_b=("en", "en2")).references == [["one", "a"], ["two"]]


def test_fields_are_named(tmp_path):
    rows = [("n", "de", "en", "task"), ("1", "ein", "one", "say: "), ("2", "zwei", "two", "")]
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "a.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    for name in ("a.tsv", "a.csv"):
        found = read(tmp_path / name, text_field="de", text_b=("en",), prefix_field="task")
        assert rows_of(found) == [("ein", "one"), ("zwei", "two")]
        assert found.prefixes == ["say: ", ""]


def test_records_without_a_second_text_are_left_out(tmp_path):
    rows = [{"text": "ein", "text_b": "one"}, {"text": "zwei"}, {"text_b": "three"}, {"text": "vier", "text_b": None}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for data in (tmp_path / "a.jsonl", rows):
        found = read(data)
        assert rows_of(found) == [("ein", "one")]
        assert found.counts == {"pairs": 1, "references": 1, "sources_empty": 1, "targets_empty": 2}


@given(
    st.lists(
        st.tuples(
            *[st.text(st.characters(exclude_characters="\t\n\r\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]))] * 2
        ),
        min_size=1,
    ),
)
def test_lines_and_columns_say_the_same(tmp_path_factory, pairs):
    """Whatever stands in them: a line ends at a newline and at nothing else that Python takes for a line's end."""
    folder = tmp_path_factory.mktemp("any")
    kept = [(source.strip(), target.strip()) for source, target in pairs if source.strip() and target.strip()]
    for side, name in enumerate(("de", "en")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8", newline="")
    parallel = [folder / "de", folder / "en"]
    if not kept:
        with pytest.raises(InputError, match="there is no pair"):
            read(parallel)
        return
    found = read(parallel)
    if not pairs[0][0].startswith("\ufeff") and not pairs[0][1].startswith("\ufeff"):  # which marks the file
        assert rows_of(found) == kept
    assert len(found) == len(kept)


# ---- a corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, _own_cache):
    folder = tmp_path_factory.mktemp("corpus")
    rows = [{"de": f"Satz {n}. Noch einer.", "en": f"sentence {n}", "task": f"t{n % 2}: "} for n in range(40)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    wordpipe.ingest(folder / "pairs.jsonl", output=folder / "corpus", text_field="de", text_b="en", valid=0.3, test=0.2)
    return folder / "corpus"


def test_of_a_corpus_what_is_held_out(corpus):
    rows = {f"Satz {n}. Noch einer.": f"sentence {n}" for n in range(40)}
    parts = {split: read(corpus, split=split) for split in ("train", "valid", "test", "all")}
    assert rows_of(read(corpus)) == rows_of(parts["valid"])
    assert read(corpus).split == "valid"
    assert parts["all"].split is None
    assert len(parts["all"]) == 40 == sum(len(parts[split]) for split in ("train", "valid", "test"))
    assert all(rows[source] == target for source, target in rows_of(parts["all"]))
    run = RunOptions(report=lambda _: None)
    trained = stage.read_training_pairs(corpus, Seq2SeqEvaluationSettings(), run)
    assert rows_of(trained) == rows_of(parts["train"])
    found = read(corpus, prefix_field="task", split="all")
    assert found.prefixes == [f"t{int(source.split()[1][:-1]) % 2}: " for source in found.sources]


def test_a_corpus_without_pairs(corpus, handbook, tmp_path):
    small_corpus(tmp_path / "plain", handbook)
    with pytest.raises(ArtifactError, match=r"no column 'text_b'") as caught:
        read(tmp_path / "plain")
    assert "--text-b" in caught.value.hint
    with pytest.raises(ArtifactError, match="no column 'kind'"):
        read(corpus, prefix_field="kind")


# ---- what is wrong


def test_unequal_numbers_of_lines(tmp_path):
    (tmp_path / "de").write_text("ein\nzwei\ndrei\n")
    (tmp_path / "en").write_text("one\ntwo\n")
    with pytest.raises(InputError, match=r"de:3: this line has no matching line.*3 lines in .*de and 2 in .*en"):
        read([tmp_path / "de", tmp_path / "en"])
    with pytest.raises(InputError, match=r"de:3"):
        read([tmp_path / "en", tmp_path / "de"])


@pytest.mark.parametrize(
    ("name", "content", "settings", "word"),
    [
        ("a.tsv", b"ein\tone\nzwei\n", {}, r"a\.tsv:2: this line has the wrong form"),
        ("a.txt", b"ein\n", {}, r"a\.txt:1"),
        ("a.tsv", b"", {}, "there is no pair"),
        ("a.tsv", b"\n\n", {}, "there is no pair"),
        ("a.jsonl", b"", {}, "there is no pair"),
        ("a.tsv", b"ein\t\n\tone\n", {}, "1 pairs without a source and 1 pairs without a target"),
        ("a.tsv", b"ein\tone\nzw\xff\ttwo\n", {}, r"a\.tsv:2: not UTF-8"),
        ("a.tsv", b"de\ten\nein\tone\n", {"text_field": "fr"}, "the text field 'fr' does not exist"),
        ("a.tsv", b"text\ten\nein\tone\n", {"text_b": ("fr",)}, "the field 'fr' for the second text does not exist"),
        (
            "a.csv",
            b"text,en\nein,one\n",
            {},
            r"a\.csv.*: the field 'text_b' for the second text does not exist.*text, en",
        ),
        ("a.csv", b"text,text_b\nein,one\n", {"prefix_field": "task"}, "there is no field 'task' for the prefix"),
        ("a.jsonl", b'{"text": "a", "text_b": "b"}\n{"text": 3, "text_b": "b"}\n', {}, "line 2.*not a string"),
        ("a.jsonl", b'{"text": "a", "text_b": "b"}\n{', {}, "line 2"),
        ("a.parquet", b"PAR1 no", {}, "not a valid Parquet file"),
        ("a.tsv.gz", b"\x1f\x8b no", {}, r"a\.tsv\.gz"),
    ],
)
def test_bad_files(name, content, settings, word, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"(?s){word}"):
        read(tmp_path / name, **settings)


def test_other_bad_input(corpus, tmp_path):
    as_parallel(tmp_path)
    with pytest.raises(InputError, match="the file does not exist"):
        read(tmp_path / "nothing.tsv")
    with pytest.raises(InputError, match="a tab in the first line of each"):
        read([as_text(tmp_path), tmp_path / "pairs.txt"])
    with pytest.raises(InputError, match="--text-field"):
        read([tmp_path / "a.de", tmp_path / "a.en.bz2"], text_field="de")
    with pytest.raises(ConfigError, match="--split can be used with a corpus artifact only"):
        read(as_tsv(tmp_path), split="valid")
    with pytest.raises(ArtifactError, match="this is an artifact"):
        read([corpus, as_tsv(tmp_path)])
    with pytest.raises(InputError, match="there is no source of text"):
        evaluate_seq2seq([], [])


# ---- systems that need no training


def test_the_first_sentence():
    assert stage.first_sentence("Dr. Smith came. He left.") == "Dr. Smith came."
    assert stage.first_sentence("no end") == "no end"
