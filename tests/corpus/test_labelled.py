"""CoNLL, SQuAD and lines that begin with labels: what was written comes back, and spans point at the same characters."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordpipe
from wordpipe.corpus import (
    READERS,
    Decoder,
    Fields,
    Ingest,
    Ledger,
    Opened,
    Source,
    expand,
    from_memory,
    function_of,
    looks_like,
)
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ConfigError, InputError

TEXT = st.text(st.characters(exclude_characters="\ufeff\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]), max_size=40)
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters="\ufeff"), min_size=1, max_size=6
)
NOT_DOCSTART = WORDS.filter(lambda word: word.split() == [word] and not word.startswith(("-DOCSTART-", "__label__")))


def read(form, data, block=1 << 20, **settings):
    """The records of some bytes, and the ledger."""
    ledger, data = Ledger(), data if isinstance(data, bytes) else data.encode()
    settings, decoder = IngestSettings(**settings), Decoder("f", "replace", ledger)
    blocks = (data[start : start + block] for start in range(0, len(data), block))
    opened = Opened(Source("f", "file"), settings, ledger, decoder, Fields(settings, decoder), blocks)
    return [*function_of(READERS[form].read)(opened)], ledger


def ingested(tmp_path, name, text, **settings):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    reader = Ingest(expand([str(tmp_path / name)], read_as=settings.get("format", "auto")), IngestSettings(**settings))
    return pa.Table.from_batches([reader.converted(batch) for batch in reader.batches()]).to_pylist(), reader


@given(
    st.lists(st.lists(st.tuples(NOT_DOCSTART, NOT_DOCSTART), min_size=1, max_size=6), min_size=1, max_size=5),
    st.sampled_from(["\t", " ", "   ", "\tX\t", " X X "]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_columns_come_back(sentences, sep, end):
    text = "".join("".join(f"{token}{sep}{tag}{end}" for token, tag in one) + end for one in sentences)
    records, _ = read("conll", text)
    assert [(r.text.split(" "), r.own["tags"]) for r in records] == [
        ([token for token, _ in one], [tag for _, tag in one]) for one in sentences
    ]
    lines = [1 + sum(len(one) + 1 for one in sentences[:n]) for n in range(len(sentences))]
    assert [record.line for record in records] == lines


def test_docstart_lines_are_dropped_and_counted():
    records, ledger = read("conll", "-DOCSTART- -X- O\n\nEU NNP B-ORG\n\t\nNo DT O\n-DOCSTART- -X- O\nEnd NN O")
    assert [(r.text, r.own["tags"]) for r in records] == [("EU", ["B-ORG"]), ("No", ["O"]), ("End", ["O"])]
    assert ledger.counts()["docstart_lines_dropped"] == 2
    assert "column 3" in next(iter(ledger.notes))


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a\tO\nb\tX\tO\n", "more or fewer columns than the first", 2),
        ("a\tO\nb\n", "more or fewer columns than the first", 2),
        ("a\tO\n\nb c\tO\n", "contains white space", 3),
        ("a\tO\nb\u00a0c\tO\n", "contains white space", 2),
        ("a\tO\n\tO\n", "a token is empty", 2),
        ("a\tO\nb\t\n", "no tag", 2),
        ("a\n", "a token but no tag", 1),
    ],
)
def test_malformed_columns_are_named_or_counted(text, message, line):
    with pytest.raises(InputError, match=message) as caught:
        read("conll", text)
    assert caught.value.where == f"f, line {line}"
    if line == 1:
        return
    records, ledger = read("conll", text + "\nlast\tO\n", bad_records="skip")
    assert records[-1].text == "last"
    assert ledger.counts()["records_skipped_columns"] == 1
    assert [record.text for record in records] == (["a", "last"] if line == 3 else ["last"])


def test_a_sentence_that_does_not_end_is_refused():
    with pytest.raises(InputError, match="too long") as caught:
        read("conll", "a\tO\n" * 2000, max_document_bytes=1024)
    assert "blank line" in caught.value.hint


def test_tags_stay_one_a_word_in_the_corpus(tmp_path):
    rows, reader = ingested(tmp_path, "a.bio", "Dr. O\nNo B-X\nis O\n. O\nYes O\n! O\n\nne O\n", valid=0.0)
    texts = {}
    for row in rows:
        texts.setdefault(row["doc_id"], ["", row["tags"]])[0] += row["text"]
    assert [(text.split(), tags) for text, tags in texts.values()] == [
        (["Dr.", "No", "is", ".", "Yes", "!"], ["O", "B-X", "O", "O", "O", "O"]), (["ne"], ["O"]),
    ]  # fmt: skip
    assert "tags: O 6, B-X 1" in reader.notes


@pytest.mark.parametrize(
    ("text", "labels", "texts"),
    [
        ("red\tan apple\tor two\nblue\tthe  sky\n", ["red", "blue"], ["an apple\tor two", "the  sky"]),
        ("DESC:manner How\tdid it?\nNUM:x 3 of them\n", ["DESC:manner", "NUM:x"], ["How\tdid it?", "3 of them"]),
        ("__label__a one\n\n__label__b two __label\n", ["a", "b"], ["one", "two __label"]),
        ("__label__a __label__b one\n__label__b two\n", [["a", "b"], "b"], ["one", "two"]),
        ("__label__a __label__a one\n", ["a"], ["one"]),
    ],
)
def test_lines_that_begin_with_labels(text, labels, texts):
    records, ledger = read("label-first", text)
    assert [record.own["label"] for record in records] == labels
    assert [record.text for record in records] == texts
    assert len(ledger.notes) == 1


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("__label__a one\n" * 12 + "two\n", "no label", 13),
        ("__label__a one\n__label__ two\n", "label is empty", 2),
        ("__label__a one __label__b two\n", "inside the text", 1),
        ("a\tb\n\tc\n", "label is empty", 2),
        ("a\tb\n" * 10 + "c\n", "no label", 11),
    ],
)
def test_lines_without_labels_are_named_or_counted(text, message, line):
    with pytest.raises(InputError, match=message) as caught:
        read("label-first", text)
    assert caught.value.where == f"f, line {line}"
    assert read("label-first", text, bad_records="skip")[1].counts()["records_skipped_label"] == 1


def test_one_label_is_a_list_where_others_have_several(tmp_path):
    rows, reader = ingested(
        tmp_path, "a.txt", "__label__a one\n__label__a __label__b two\n__label__c three\n", valid=0.0
    )
    assert [row["label"] for row in rows] == [["a"], ["a", "b"], ["c"]]
    assert "labels: a 2, b 1, c 1" in reader.notes
    rows, _ = ingested(tmp_path, "b.txt", "__label__a one\n__label__c three\n", valid=0.0)
    assert [row["label"] for row in rows] == ["a", "c"]


def test_labels_of_several_sources_and_of_an_update(tmp_path):
    """A source with several labels comes and goes: the others' labels are what a new reading gives."""
    for name, text in (("a", "__label__x one\n"), ("b", "__label__x __label__y two\n"), ("c", "__label__z three\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    found = {}
    for step, names in enumerate(["ac", "abc", "ac", "abc"]):
        sources = [str(tmp_path / f"{name}.txt") for name in names]
        made = wordpipe.ingest(sources, output=tmp_path / "kept", valid=0.0, update=True, drop_missing=True)
        new = wordpipe.ingest(sources, output=tmp_path / f"new-{step}", valid=0.0)
        assert made.digest == new.digest
        assert {k: v for k, v in made.counts.items() if k.startswith("labels.")} == {
            k: v for k, v in new.counts.items() if k.startswith("labels.")
        }
        found[names] = made.digest
    assert len(found) == 2


def squad(*passages, **more):
    """SQuAD's JSON of passages, each with its questions: (question, answers)."""
    paragraphs = [
        {"context": passage, "qas": [
            {"id": f"{number}-{place}", "question": question,
             "answers": [{"text": passage[start:end], "answer_start": start} for start, end in answers]}
            for place, (question, answers) in enumerate(questions)]}
        for number, (passage, questions) in enumerate(passages)
    ]  # fmt: skip
    return {"version": "1.1", "data": [{"title": "A title", "paragraphs": paragraphs}], **more}


@st.composite
def passages(draw):
    """A passage with white space around it, line ends of all kinds, and answers in it."""
    text = (
        draw(st.sampled_from(["", " ", "\r\n ", "\u2003"])) + "x" + draw(TEXT) + draw(st.sampled_from(["", "\n"])) + "z"
    )
    text += draw(TEXT) + draw(st.sampled_from(["", " \n"]))
    first, last = text.index("x"), text.rindex("z")
    spans = draw(st.lists(st.tuples(st.integers(first, last), st.integers(first, last)), max_size=3))
    return text, [(min(a, b), max(a, b) + 1) for a, b in spans]


@given(st.lists(passages(), min_size=1, max_size=4), st.booleans(), st.sampled_from([None, 2]), st.integers(1, 50))
def test_answers_point_at_the_same_characters(tmp_path_factory, some, ascii_only, indent, block):
    given = squad(*((text, [("Who?", spans)]) for text, spans in some))
    data = json.dumps(given, ensure_ascii=ascii_only, indent=indent).encode()
    (records, _), tidy = read("squad", data, block=block), Decoder("f", "replace", Ledger()).string
    assert len(records) == len(some)
    for record, (text, spans) in zip(records, some, strict=True):
        assert record.is_pair
        assert record.text == tidy(text)
        assert (record.own["text_b"], record.title) == ("Who?", "A title")
        for span, (start, end) in zip(record.own["spans"], spans, strict=True):
            # a span that ends between the two characters of one line end goes on to the end of it
            wanted = {
                tidy(text[start:end]),
                tidy(text[start:end]).removeprefix("\n"),
                tidy(text[start:end]).removesuffix("\n"),
            }
            assert record.text[span["start"] : span["end"]] in wanted
    folder = tmp_path_factory.mktemp("squad")
    rows, _ = ingested(folder, "a.json", data, valid=0.0)
    assert [row["line"] for row in rows] == [*range(1, 1 + len(some))]
    for row, record in zip(rows, records, strict=True):
        assert row["text"] == record.text.strip()
        moved = len(record.text) - len(record.text.lstrip())
        assert [(s["start"] + moved, s["end"] + moved) for s in row["spans"]] == [
            (s["start"], s["end"]) for s in record.own["spans"]
        ]  # fmt: skip


def test_questions_without_answers_and_without_known_ones(tmp_path):
    given = squad(("The sea is deep.", [("How?", [(11, 15), (4, 7)]), ("Why?", []), ("When?", []), ("Who?", [(0, 3)])]))
    questions = given["data"][0]["paragraphs"][0]["qas"]
    questions[1]["is_impossible"] = True
    del questions[2]["answers"]
    questions[3]["is_impossible"] = True
    rows, reader = ingested(tmp_path, "a.json", json.dumps(given), valid=0.0)
    assert [row["spans"] and [(s["start"], s["end"]) for s in row["spans"]] for row in rows] == [
        [(11, 15), (4, 7)], [], None, [],
    ]  # fmt: skip
    assert [row["record_id"] for row in rows] == ["0-0", "0-1", "0-2", "0-3"]
    assert len({row["doc_id"] for row in rows}) == 4
    assert {row["label"] for row in rows if "label" in row} == set()
    assert reader.counts["pairs"] == 4


def test_a_passage_has_all_its_questions_in_one_split(tmp_path):
    some = [(f"Passage {n} is here.", [(f"Question {k}?", [(0, 7)]) for k in range(4)]) for n in range(40)]
    rows, _ = ingested(tmp_path, "a.json", json.dumps(squad(*some)), valid=0.4)
    assert {row["split"] for row in rows} == {"train", "valid"}
    assert len({(row["text"], row["split"]) for row in rows}) == 40


def damaged(change):
    given = squad(("The sea is deep.", [("How?", [(11, 15)]), ("Who?", [(0, 3)])]))
    change(given, given["data"][0]["paragraphs"][0], given["data"][0]["paragraphs"][0]["qas"][0])
    return json.dumps(given)


@pytest.mark.parametrize(
    ("change", "message", "where"),
    [
        (lambda g, p, q: q["answers"][0].update(answer_start=12), "not at the given position", "question 0-0"),
        (lambda g, p, q: q["answers"][0].update(answer_start=-5), "not at the given position", "question 0-0"),
        (lambda g, p, q: q["answers"][0].update(answer_start="11"), "not at the given position", "question 0-0"),
        (lambda g, p, q: q["answers"][0].update(text=""), "not at the given position", "question 0-0"),
        (lambda g, p, q: q.update(answers=["deep"]), "not at the given position", "question 0-0"),
        (lambda g, p, q: q.update(question=None), "question has no text", "question 0-0"),
        (lambda g, p, q: p["qas"].insert(0, "x"), "question has no text", "question 1"),
        (lambda g, p, q: p.update(context=3), "no passage", "article 1"),
        (lambda g, p, q: g["data"].insert(0, {"question": "x"}), "no paragraphs", "article 1"),
    ],
)
def test_damaged_questions_are_named_or_counted(change, message, where):
    with pytest.raises(InputError, match=message) as caught:
        read("squad", damaged(change))
    assert caught.value.where == f"f, {where}"
    records, ledger = read("squad", damaged(change), bad_records="skip")
    assert sum(number for name, number in ledger.counts().items() if name.startswith("records_skipped_")) == 1
    assert len(records) <= 2


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[{"text": "a"}]', "a list", "jq -c '.[]'"),
        ('{"text": "a"}', "an object with text", "jq -c '.'"),
        ('{"text": "a"}\n{"text": "b"}\n', "JSON Lines", "--format jsonl"),
        ("", "nothing", "jq"),
        ("prose", "'p'", "jq"),
        ('{"data": [{"paragraphs": []}', "the end of the file", ""),
        ('{"data": [{"paragraphs": [}', "not JSON", ""),
        ('{"data": []} x', "more text after", ""),
        ('{"data": ' + "[" * 100_000, "cannot be read", ""),
    ],
)
def test_other_json_is_refused_with_what_to_do(tmp_path, text, message, hint):
    with pytest.raises(InputError) as caught:
        ingested(tmp_path, "a.json", text)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_one_article_is_held_at_a_time_and_its_size_is_bounded():
    given = squad(*((f"{n} " + "word " * 50, [("Who?", [(0, 1)])]) for n in range(30)))
    text = json.dumps(given | {"data": given["data"] * 40})
    size = len(json.dumps(given["data"][0]))
    assert len(text) > 30 * size
    assert len(read("squad", text, max_document_bytes=size, id_field="none")[0]) == 1200
    with pytest.raises(InputError, match="too long") as caught:
        read("squad", json.dumps(squad(("word " * 500_000, []))), max_document_bytes=25_000)
    assert "--max-document-bytes" in caught.value.hint


def test_what_a_source_without_a_name_looks_like():
    usual = IngestSettings()
    assert looks_like(json.dumps(squad(("A b.", [("Who?", [(0, 1)])]))).encode(), usual) == "squad"
    assert looks_like(json.dumps(squad(("A b.", [])), indent=1).encode(), usual) == "squad"
    assert looks_like(b"__label__x a\n__label__y b\n", usual) == "label-first"
    assert looks_like(b"__label__x a\nb\n", usual) == "txt"
    assert looks_like(b'{"text": "paragraphs"}\n', usual) == "jsonl"


def test_text_that_is_asked_for_is_text(tmp_path):
    rows, _ = ingested(tmp_path, "a.txt", "__label__x a\n__label__y b\n", format="txt", valid=0.0)
    assert "label" not in rows[0]
    assert "__label__x" in "".join(row["text"] for row in rows)


@pytest.mark.parametrize("form", ["conll", "squad", "label-first"])
def test_formats_that_say_what_is_what_take_no_names(form):
    with pytest.raises(ConfigError, match=re.escape(f"the format {form} already defines the fields")):
        IngestSettings.make({"format": form, "label_field": "x"})


def test_spans_of_white_space_around_a_text_are_counted(tmp_path):
    rows = [{"text": "  a b ", "spans": [[0, 2, None], [2, 3, None]]}, {"text": "c", "spans": []}]
    reader = Ingest(from_memory(rows), IngestSettings(spans_field="spans", valid=0.0))
    (batch,) = reader.batches()
    assert [row["spans"] for row in batch.to_pylist()] == [[{"start": 0, "end": 1, "label": None}], []]
    assert reader.counts["spans_dropped_blank"] == 1
    assert any("memory:1" in text for text in reader.warnings)
