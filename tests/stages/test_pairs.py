"""Pairs of texts from files to tokens: one row each in every format, what is left out, what of them other stages read."""

import gzip
import json
import random
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import wordpipe
from tests.conftest import TINY
from tests.support.small_shards import SMALL
from wordpipe.artifacts import TOKENS_16, Artifact, read_batches, read_schema, tables, tokens_schema
from wordpipe.errors import ConfigError, InputError
from wordpipe.pipeline import Pipeline
from wordpipe.stages.corpus import tokenize_shards

WORDS = "der hund die katze ein mann läuft schläft über straße und sieht den see".split()  # noqa: SIM905
PAIRS = [
    ("Ein Hund läuft. Er bellt.", "A dog runs. It barks."),
    ("Eine Katze schläft.", "A cat sleeps."),
    ("Ein Mann, 3 Hunde.", 'A man, "three" dogs.'),
]
ALL = {"valid": 0.0}


def made_pairs(number, seed=0):
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) + f" {n}." for n in range(number)]
    return [(text, " ".join(word[::-1].upper() for word in text.split())) for text in texts]


def rows_of(path):
    with Artifact(path) as artifact:
        return [row for batch in read_batches(artifact, artifact.kind) for row in batch.to_pylist()]


def pairs_of(path):
    return [(row["text"], row["text_b"]) for row in rows_of(path)]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs in several row groups, some of them held out."""
    root = tmp_path_factory.mktemp("pairs")
    for side, name in enumerate(("a.de", "a.en")):
        write_lines(root / name, [pair[side] for pair in made_pairs(400)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
        wordpipe.ingest([root / "a.de", root / "a.en"], parallel=True, valid=0.1, output=root / "corpus")
    return root / "corpus"


@pytest.fixture(scope="module")
def tokens(corpus):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)
        wordpipe.tokenize(corpus, output=corpus.parent / "tokens", vocab_size=400)
    return corpus.parent / "tokens"


def test_every_format_gives_the_same_rows(here):
    records = [{"de": one, "en": other} for one, other in PAIRS]
    (here / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_lines(here / "a.tsv", ["de\ten", *("\t".join(pair) for pair in PAIRS)])
    write_lines(here / "b.tsv", ["\t".join(pair) for pair in PAIRS])
    quoted = [f'"{one}","{other.replace(chr(34), chr(34) * 2)}"' for one, other in PAIRS]
    write_lines(here / "a.csv", ["de,en", *quoted])
    write_lines(here / "b.csv", quoted)
    pq.write_table(pa.Table.from_pylist(records), here / "a.parquet")
    write_lines(here / "p.de", [one for one, _ in PAIRS])
    (here / "p.en.gz").write_bytes(gzip.compress("".join(f"{other}\n" for _, other in PAIRS).encode()))
    named, numbered = {"text_field": "de", "text_b": "en"}, {"text_field": "1", "text_b": "2"}
    made = {
        "a.jsonl": named, "a.tsv": named, "b.tsv": numbered, "a.csv": named, "b.csv": {"text_b": "2"}, "a.parquet": named,
    }  # fmt: skip
    expected = None
    for name, settings in made.items():
        wordpipe.ingest(name, output=name[::-1], **settings, **ALL)
        rows = rows_of(name[::-1])
        assert [(row["text"], row["text_b"]) for row in rows] == PAIRS, name
        assert {row["sentence_id"] for row in rows} == {0}
        expected = expected or [row["doc_id"] for row in rows]
        assert [row["doc_id"] for row in rows] == expected
    wordpipe.ingest(["p.de", "p.en.gz"], parallel=True, output="files", **ALL)
    assert pairs_of("files") == PAIRS
    assert [(row["source"], row["line"]) for row in rows_of("files")] == [("p.de", 1), ("p.de", 2), ("p.de", 3)]
    assert [row["doc_id"] for row in rows_of("files")] == expected
    for memory in (records, pa.Table.from_pylist(records)):
        wordpipe.ingest(memory, output="memory", **named, **ALL)
        assert pairs_of("memory") == PAIRS
    wordpipe.ingest([{"text": one, "text_b": other} for one, other in PAIRS], output="own", text_b="text_b", **ALL)
    assert pairs_of("own") == PAIRS


def test_columns_by_number(here, cli):
    write_lines(here / "a.tsv", ["x\tHund\tdog", "y\tKatze\tcat"])
    found = cli("ingest", "a.tsv", "--text-field", "2", "--text-b", "3", "--label-field", "1", "-o", "a")
    assert "a.tsv: there is no header; text is column 2, text_b is column 3, label is column 1" in found.err
    assert [(row["text"], row["text_b"], row["label"]) for row in rows_of("a")] == [
        ("Hund", "dog", "x"), ("Katze", "cat", "y"),
    ]  # fmt: skip
    found = cli("ingest", "-", "--text-field", "3", "--text-b", "2", "-o", "b", piped=(here / "a.tsv").read_text())
    assert "-: there is no header; text is column 3, text_b is column 2" in found.err
    assert pairs_of("b") == [("dog", "Hund"), ("cat", "Katze")]
    write_lines(here / "t.tsv", ["title\tTitel", "text\tText"])  # words, not the names of columns
    wordpipe.ingest("t.tsv", output="t", text_field="1", text_b="2", **ALL)
    assert pairs_of("t") == [("title", "Titel"), ("text", "Text")]
    write_lines(here / "h.tsv", ["text\ten", "Hund\tdog"])
    assert "line 1 is a header" in cli("ingest", "h.tsv", "--text-b", "2", "-o", "c").err
    assert pairs_of("c") == [("Hund", "dog")]
    with pytest.raises(InputError, match=r"a\.tsv: no column 4; got 3 columns in line 1"):
        wordpipe.ingest("a.tsv", output="d", text_b="4")
    with pytest.raises(InputError, match="if the file has no header, give column numbers") as caught:
        wordpipe.ingest("a.tsv", output="d", text_b="en")
    assert "--text-field 1, and for pairs also --text-b 2" in str(caught.value)
    with pytest.raises(InputError, match=r"h\.tsv: the field 'em' for the second text does not exist") as caught:
        wordpipe.ingest("h.tsv", output="d", text_b="em")
    assert caught.value.hint == "did you mean --text-b en?"


def test_columns_without_a_header_are_told_of_as_such(here):
    """A first row is no list of names where it is a pair, and a whole text is not shown."""
    write_lines(here / "a.tsv", ["Der Mann findet das Haus heute.\t" + "The man finds the house today. " * 9])
    with pytest.raises(InputError, match=r"the text field 'text' does not exist; got Der Mann .* in line 1") as caught:
        wordpipe.ingest("a.tsv", output="a")
    assert "give column numbers, for example --text-field 1, and for pairs also --text-b 2" in str(caught.value.hint)
    assert len(str(caught.value)) < 350
    (here / "a.jsonl").write_text('{"body": "Der Mann"}\n')
    with pytest.raises(InputError, match="got body") as caught:
        wordpipe.ingest("a.jsonl", output="a", text_b="en")
    assert caught.value.hint == "use --text-field to give the name of the field that contains the text"


def test_empty_sides_are_left_out_counted_and_said(here):
    write_lines(here / "a.de", ["Hund", "", "Katze", "   ", "Maus"])
    write_lines(here / "a.en", ["dog", "empty", " ", "", "mouse"])
    with pytest.warns(wordpipe.WordpipeWarning, match="1 document dropped because the first text is empty, 1"):
        made = wordpipe.ingest(["a.de", "a.en"], parallel=True, output="a", **ALL)
    assert pairs_of("a") == [("Hund", "dog"), ("Maus", "mouse")]
    dropped = {name: number for name, number in made.counts.items() if name.startswith("documents_dropped")}
    assert dropped == {
        "documents_dropped_empty": 1, "documents_dropped_empty_source": 1, "documents_dropped_empty_target": 1,
    }  # fmt: skip
    assert made.counts["documents_read"] == made.counts["documents_kept"] + 3
    assert "pairs with an empty first text were skipped; see a.de:2" in made.warnings
    assert "pairs without a second text were skipped; see a.de:3" in made.warnings


def test_records_and_texts_without_a_second_text_are_left_out(here):
    (here / "a.jsonl").write_text('{"text": "One.", "b": "1"}\n{"text": "Two."}\n{"text": "T", "b": null}\n')
    (here / "b.txt").write_text("A text.\n")
    with pytest.warns(wordpipe.WordpipeWarning, match="without a second text"):
        made = wordpipe.ingest(["a.jsonl", "b.txt"], output="a", text_b="b", **ALL)
    assert made.counts["documents_dropped_empty_target"] == 3
    with pytest.raises(InputError, match="no source contains any text") as caught:
        wordpipe.ingest("b.txt", output="b", text_b="b")
    assert "--format tsv" in caught.value.hint
    assert "--parallel" in caught.value.hint


def test_one_file_is_not_parallel_texts(here, cli):
    write_lines(here / "a.de", ["Hund", "Katze"])
    found = cli("ingest", "--parallel", "a.de", "-o", "a")
    assert "got 1 source;" in found.err
    assert "hint: wordpipe ingest --parallel FIRST SECOND -o CORPUS" in found.err


def test_how_many_pairs_is_said(here, cli):
    write_lines(here / "a.de", ["Hund", "Katze", ""])
    write_lines(here / "a.en", ["dog", "cat", "mouse"])
    found = cli("ingest", "--parallel", "a.de", "a.en", "-o", "a")
    assert "  2 pairs · " in found.err
    assert "sentences" not in found.err
    write_lines(here / "a.txt", ["Hund", "Katze"])
    assert "pair" not in cli("ingest", "a.txt", "-o", "b").err


def test_a_pair_is_known_by_both_texts_and_held_out_by_the_first(here):
    pairs = [("Ja.", "Yes."), ("Ja.", "Yeah."), ("Ja.", "Yes."), ("Nein.", "Yes.")]
    pairs += [(text, str(number)) for text, _ in made_pairs(60) for number in (1, 2)]
    with pytest.warns(wordpipe.WordpipeWarning, match="dropped duplicate"):
        made = wordpipe.ingest([{"text": a, "b": b} for a, b in pairs], output="a", text_b="b", valid=0.3)
    assert made.counts["documents_dropped_duplicate"] == 1
    rows = rows_of("a")
    assert [(row["text"], row["text_b"]) for row in rows] == [pair for n, pair in enumerate(pairs) if n != 2]
    assert len({row["doc_id"] for row in rows}) == len(rows)
    sides = {(row["text"], row["split"]) for row in rows}
    assert len(sides) == len({row["text"] for row in rows})
    assert {side for _, side in sides} == {"train", "valid"}


def test_a_pair_that_is_too_long_is_left_out_and_not_split(here):
    records = [{"text": "word " * 400, "b": "x"}, {"text": "x", "b": "word " * 400}, {"text": "ok", "b": "ok"}]
    with pytest.warns(wordpipe.WordpipeWarning, match="a text of more than 1,024 bytes"):
        made = wordpipe.ingest(records, output="a", text_b="b", max_document_bytes=1024, **ALL)
    assert pairs_of("a") == [("ok", "ok")]
    assert made.counts["documents_dropped_long"] == 2


def test_a_text_stays_whole_however_long_its_sentences(here):
    text = "Eins zwei drei. " * 40
    wordpipe.ingest([{"text": text, "b": "x"}], output="a", text_b="b", max_sentence_chars=20, **ALL)
    assert pairs_of("a") == [(text.strip(), "x")]


def test_the_order_of_two_files_is_part_of_the_recipe(here):
    write_lines(here / "a", ["x", "y"])
    write_lines(here / "b", ["1", "2"])
    one, other = (wordpipe.ingest(names, parallel=True, output="o", **ALL) for names in (["a", "b"], ["b", "a"]))
    assert one.recipe != other.recipe
    assert pairs_of("o") == [("1", "x"), ("2", "y")]
    with pytest.raises(ConfigError, match="two text files"):
        wordpipe.ingest([{"text": "x"}], parallel=True, output="o")


def test_an_update_sees_that_the_second_file_changed(here):
    write_lines(here / "a", ["x", "y"])
    for targets, copied in ((["1", "2"], 0), (["1", "2"], 1), (["1", "3"], 0)):
        write_lines(here / "b", targets)
        made = wordpipe.ingest(["a", "b"], parallel=True, output="o", update=True, **ALL)
        assert made.counts.get("sources_copied", 0) == copied
        assert pairs_of("o") == [("x", "1"), ("y", targets[1])]
        fresh = wordpipe.ingest(["a", "b"], parallel=True, output="fresh", **ALL)
        assert (fresh.digest, fresh.counts["documents_kept"]) == (made.digest, made.counts["documents_kept"])


def test_a_pipeline_of_two_files_is_fresh_until_one_of_them_changes(here):
    for name, side in (("z.de", 0), ("a.en", 1)):  # not in the order of their names
        write_lines(here / name, [pair[side] for pair in PAIRS])
    (here / "p.toml").write_text(
        '[stage.corpus]\ncommand = "ingest"\ninputs = ["z.de", "a.en"]\nparallel = true\nvalid = 0.0\n'
    )
    list(Pipeline(here / "p.toml").run(wordpipe.RunOptions()))
    (state,) = Pipeline(here / "p.toml").states()
    assert pairs_of(state.stage.output) == PAIRS
    assert state.reasons == ()
    write_lines(here / "a.en", ["1", "2", "3"])
    assert Pipeline(here / "p.toml").states()[0].reasons != ()


def test_both_texts_are_encoded_by_one_tokenizer_that_knows_both(corpus, tokens):
    tokenizer = Tokenizer.from_file(str(tokens / "tokenizer.json"))
    texts, rows = rows_of(corpus), rows_of(tokens)
    assert len(list(tokens.glob("tokens-*.parquet"))) > 3
    for text, row in zip(texts, rows, strict=True):
        assert row["ids"] == tokenizer.encode(text["text"], add_special_tokens=False).ids
        assert row["ids_b"] == tokenizer.encode(text["text_b"], add_special_tokens=False).ids
        assert row["split"] == text["split"]
    with Artifact(tokens) as artifact:
        assert read_schema(artifact, "tokens").equals(tokens_schema(pa.uint16(), pairs=True))
        counts = artifact.manifest.counts
    assert counts["tokens"] == sum(len(row["ids"]) for row in rows)
    assert counts["tokens_b"] == sum(len(row["ids_b"]) for row in rows)
    learned = {*tokenizer.get_vocab()}
    assert {"Ġhund", "DNUH"} <= learned, "words of both sides have tokens of their own"
    words = [row["word"] for row in pq.read_table(tokens / "words.parquet").to_pylist()]
    assert "hund" in words
    assert "dnuh" not in words, "words are those of the first text"


def test_a_given_tokenizer_encodes_both(corpus, tokens, tmp_path):
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", tokenizer=tokens)
    assert rows_of(made) == rows_of(tokens)


def test_a_sample_and_little_memory_give_both_sides(corpus, tokens, tmp_path):
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", vocab_size=400, sample=0.5)
    assert 0 < made.counts["sentences_trained_on"] < made.counts["sentences"]
    assert made.counts["tokens_b"] > 0
    made = wordpipe.tokenize(corpus, output=tmp_path / "u", vocab_size=400, memory="70MB")
    assert rows_of(made) == rows_of(tokens)


@pytest.mark.landing
def test_killed_runs_of_pairs_continue_to_the_same_bytes(corpus, tokens, nursery, tmp_path):
    output = tmp_path / "tokens"
    call = ("tests.support.small_shards:tokenize", str(corpus), str(output), json.dumps({"vocab_size": 400}))
    for nth in (3, 4, 9):
        process = nursery.start(*call, WORDPIPE_FAILPOINT=f"resume_cache.file_finished:kill:{nth}")
        assert process.wait() == -signal.SIGKILL
        assert not output.exists()
    assert nursery.start(*call).wait() == 0
    assert wordpipe.verify(output)["digest"] == wordpipe.verify(tokens)["digest"]
    assert not (tmp_path / ".tokens.partial").exists()


def test_a_plain_corpus_has_no_second_ids(built):
    with Artifact(built / "tokens") as artifact:
        assert read_schema(artifact, "tokens").names == TOKENS_16.names
        assert "tokens_b" not in artifact.manifest.counts


def test_show_has_both_sides(corpus, tokens, cli):
    (row,) = wordpipe.show(corpus, rows=1)["rows"]
    assert (row["text"], row["text_b"]) == made_pairs(1)[0]
    found = wordpipe.show(tokens, rows=1)
    assert found["columns"]["ids_b"] == "list of uint16"
    assert found["rows"][0]["ids_b"]
    assert '"ids_b": "[' in cli("show", str(tokens), "--rows", "1").out
    assert '"text_b": "' in cli("show", str(corpus), "--rows", "1").out


def test_stages_that_read_one_text_say_so_once_and_go_on(corpus, tokens, tmp_path):
    said = []
    run = wordpipe.RunOptions(report=lambda progress: said.append(progress.note) if progress.note else None)
    calls = [
        lambda: wordpipe.train_mlm(tokens, output=tmp_path / "model", run=run, **TINY | {"steps": 1}),
        lambda: wordpipe.train_word2vec(tokens, output=tmp_path / "words", dim=8, epochs=1, min_count=1, run=run),
        lambda: wordpipe.train_static(tokens, output=tmp_path / "static", words=tmp_path / "words", steps=1, run=run),
        lambda: wordpipe.embed(tmp_path / "words", corpus, output=tmp_path / "sentences", run=run),
    ]
    for call in calls:
        said.clear()
        call()
        assert sum("only the first text of each pair is used" in note for note in said) == 1
    assert pairs_of(tmp_path / "sentences") == pairs_of(corpus)
