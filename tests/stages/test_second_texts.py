"""`train clm` on pairs: the second texts are learned, the first ones read; `generate` goes on from a whole first text."""

import json
import re

import pytest

import wordpipe
from tests.conftest import TINY
from tests.support.results import manifest
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model.settings import GenerateSettings
from wordpipe.stages import Writing

SMALL = TINY | {"threads": 1, "dtype": "float32", "batch_size": 16, "device": "cpu", "seq_len": 32}
GREEDY = {"temperature": 0, "device": "cpu", "threads": 1}
NUMBERS = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four", "acht": "eight"}


def pairs():
    """Three words each, and the same in the other language, last first."""
    words = [*NUMBERS]
    for i in range(125):
        three = [words[i % 5], words[i // 5 % 5], words[i // 25]]
        yield {"text": " ".join(three), "text_b": " ".join(NUMBERS[word] for word in reversed(three))}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    wordpipe.ingest(pairs(), output=folder / "corpus", text_b="text_b", valid=0.1)
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=300)
    return folder / "tokens"


def trained(tokens, output, run=None, **settings):
    return wordpipe.train_clm(tokens, output=output, run=run, **SMALL | {"steps": 3} | settings)


@pytest.fixture(scope="module")
def learned(tokens, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    trained(tokens, folder / "model", steps=200, lr=1e-2, dim=64, n_heads=4, ffn_dim=128, n_layers=2)
    return folder / "model"


def settings_of(**settings):
    return GenerateSettings.make(GREEDY | settings)


@pytest.mark.slow
def test_it_goes_on_from_a_first_text_with_the_second(learned):
    found = [wordpipe.generate(learned, one["text"], temperature=0, max_tokens=20)[0] for one in pairs()]
    right = sum(made.text == one["text_b"] for made, one in zip(found, pairs(), strict=True))
    assert right > 110, found[:3]
    assert {made.stopped for made in found[:20]} == {"eos"}


@pytest.mark.landing
def test_transformers_frames_a_prompt_so_and_goes_on_likewise(learned):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(learned)
    model = AutoModelForCausalLM.from_pretrained(learned)
    given = tokenizer("zwei vier acht", return_tensors="pt")
    ids = given.input_ids[0].tolist()
    assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    made = model.generate(**given, max_new_tokens=20, do_sample=False)[0, len(ids) :]
    ours = wordpipe.generate(learned, "zwei vier acht", temperature=0, max_tokens=20)[0].text
    assert tokenizer.decode(made, skip_special_tokens=True) == ours


def test_what_was_done_is_said(tokens, tmp_path):
    said = []
    made = trained(tokens, tmp_path / "model", run=RunOptions(report=lambda one: said.append(one.note or "")))
    assert any("the model reads the first text and learns to write the second text" in note for note in said)
    assert not any("only the first text of each pair" in note for note in said)
    about = manifest(tmp_path / "model")
    assert about["facts"]["answers"] is True
    with Artifact(tokens) as artifact:
        rows = [row for batch in read_batches(artifact, "tokens") for row in batch.to_pylist()]
    for split in ("train", "valid"):
        own = [row for row in rows if row["split"] == split]
        assert made.counts[f"pairs_{split}"] == len(own) > 5
        assert made.counts[f"tokens_{split}"] == sum(len(row["ids"]) + len(row["ids_b"]) + 3 for row in own)
    assert made.metrics["valid_loss"] > 0
    assert wordpipe.open_model(tmp_path / "model").answers


def test_pairs_that_are_too_long_together_are_left_out_counted_and_said(tokens, tmp_path):
    said, texts = [], [" ".join([str(i), *[*NUMBERS][: 1 + i % 5]]) for i in range(50)]
    wordpipe.ingest([{"text": one, "b": one} for one in texts], output=tmp_path / "corpus", text_b="b", valid=0.2)
    made = wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "tokens", tokenizer=tokens)
    rows = [row for batch in read_batches(Artifact(made), "tokens") for row in batch.to_pylist()]
    long = sum(len(row["ids"]) + len(row["ids_b"]) + 2 > 14 for row in rows)
    run = RunOptions(report=lambda one: said.append(one.note or ""))
    made = trained(tmp_path / "tokens", tmp_path / "model", seq_len=14, run=run)
    assert (
        made.counts["pairs_left_out_long"] == long == 50 - made.counts["pairs_train"] - made.counts["pairs_valid"] > 0
    )
    assert any(
        f"left out: {long}. In these pairs, the two texts together are longer than 14 positions" in note
        for note in said
    )
    with pytest.raises(InputError, match="no pair of texts for the training"):
        trained(made_of_long(tmp_path), tmp_path / "none", seq_len=8)


def made_of_long(folder):
    wordpipe.ingest([{"text": "eins " * 20, "b": "one"}], output=folder / "one", text_b="b", valid=0.0)
    return wordpipe.tokenize(folder / "one", output=folder / "one-tokens", vocab_size=300)


def test_a_run_that_broke_off_goes_on_to_the_same_bytes_and_is_extended(tokens, tmp_path):
    want = trained(tokens, tmp_path / "whole", steps=6).digest

    def stop(progress):
        if progress.phase == "training" and progress.done == 4:
            raise KeyboardInterrupt

    values = {"steps": 6, "checkpoint_steps": 1}
    with pytest.raises(KeyboardInterrupt):
        trained(tokens, tmp_path / "model", run=RunOptions(report=stop), **values)
    assert trained(tokens, tmp_path / "model", **values).digest == want
    longer = trained(tokens, tmp_path / "longer", extend=tmp_path / "model", steps=8)
    assert longer.counts["steps"] == 8


def test_it_starts_from_a_model_of_plain_text(built, tmp_path):
    """As one fine-tunes: the tokenizer of the plain text, and its model."""
    wordpipe.train_clm(built / "tokens", output=tmp_path / "plain", **SMALL | {"steps": 2})
    assert not wordpipe.open_model(tmp_path / "plain").answers
    wordpipe.ingest(pairs(), output=tmp_path / "corpus", text_b="text_b")
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "tokens", tokenizer=built / "tokens")
    values = {name: SMALL[name] for name in ("threads", "dtype", "batch_size", "device")}
    made = wordpipe.train_clm(
        tmp_path / "tokens", output=tmp_path / "tuned", init=tmp_path / "plain", steps=2, **values
    )
    assert made.counts["pairs_train"] > 100
    assert wordpipe.open_model(tmp_path / "tuned").answers


def test_a_first_text_that_is_too_long_is_cut_at_its_end(learned):
    """Its marks and its beginning stay; an eighth of the positions, or what may be written, stays free for the answer."""
    opened = wordpipe.open_model(learned)
    ids = opened.encode("drei zwei acht " + "eins " * 60)
    for max_tokens, free in ((20, 4), (2, 2)):
        kept = 32 - len(opened.before) - len(opened.after) - free + 1
        writing = Writing(opened, opened.tokenizer.decode(ids), settings_of(max_tokens=max_tokens))
        (made,) = writing.results()
        assert (made.cut, made.slid) == (len(ids) - kept, 0)
        assert made.tokens == max_tokens if max_tokens == 2 else made.tokens <= 4
        (same,) = wordpipe.generate(opened, opened.tokenizer.decode(ids[:kept]), max_tokens=max_tokens, **GREEDY)
        assert (same.text, same.logprob, same.cut) == (made.text, made.logprob, 0)
        assert writing.notes[0] == (
            "the source was too long, because source and answer together can have at most 32 tokens: "
            f"{len(ids) - kept} tokens at the end were not read"
        )


def test_an_answer_ends_where_the_positions_are_full(learned):
    """What was read of the first text would be lost, were the window to go on."""
    opened = wordpipe.open_model(learned)
    n_read = len(opened.before) + len(opened.encode("zwei vier acht")) + len(opened.after)
    writing = Writing(opened, "zwei vier acht", settings_of(min_tokens=60, max_tokens=60, samples=2))
    for made in writing.results():
        assert (made.tokens, made.stopped, made.slid, made.cut) == (32 - n_read + 1, "length", 0, 0)
    assert writing.notes == ["the answer was cut off, because source and answer together can have at most 32 tokens"]
    short = Writing(opened, "zwei vier acht", settings_of(min_tokens=32 - n_read + 1, max_tokens=32 - n_read + 1))
    assert (short.results()[0].tokens, short.notes) == (32 - n_read + 1, [])


LINES = ["zwei vier acht", "", "eins eins drei", "acht " * 60]


@pytest.fixture
def asked(learned, cli, tmp_path):
    (tmp_path / "german").write_text("".join(f"{line}\n" for line in LINES))
    options = ("--temperature", 0, "--max-tokens", 20, "--device", "cpu", "--threads", 1)
    return lambda *args: cli("generate", learned, *options, *(args or ("--prompts", tmp_path / "german")))


def test_in_a_pipe_every_line_has_a_line(asked, learned, tmp_path):
    found = asked()
    opened = wordpipe.open_model(learned)
    want = [wordpipe.generate(opened, line, max_tokens=20, **GREEDY) if line else None for line in LINES]
    assert found.out == "".join(f"{one[0].text if one else ''}\n" for one in want)
    assert "1 of 4 sources were too long, because source and answer together can have at most 32 tokens: " in found.err
    assert "1 of 4 sources were empty, so the answers are empty too\n" in found.err
    assert asked("--prompts", tmp_path / "german", "-q").err == ""
    assert re.search(r"\d tokens? in ", asked("zwei", "-v").err)  # how many differs between kinds of CPU
    several = asked("--prompts", tmp_path / "german", "--samples", 2).out.splitlines()
    assert [line.split("\t")[:2] for line in several] == [
        [n, rank] for n in "1234" for rank in "12" if n + rank != "22"
    ]
    assert several[0] == f"1\t1\t{want[0][0].logprob:.4f}\t{want[0][0].text}"
    lines = [json.loads(line) for line in asked("--prompts", tmp_path / "german", "--json").out.splitlines()]
    assert [line["prompt"] for line in lines] == LINES  # an empty one has its line, too
    assert (asked("").code, asked("zwei vier acht").out) == (3, f"{want[0][0].text}\n")


def test_the_terminal_parts_the_two_texts(asked, learned, monkeypatch):
    monkeypatch.setattr("wordpipe.cli.infer.sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    want = wordpipe.generate(learned, "zwei vier acht", max_tokens=20, **GREEDY)[0].text
    assert asked("zwei vier acht").out == f"zwei vier acht\n{want}\n"


def test_a_vocabulary_of_their_own_is_refused(tokens, tmp_path):
    wordpipe.tokenize(tokens.parent / "corpus", output=tmp_path / "two", vocab_size=300, vocabulary="separate")
    with pytest.raises(ArtifactError, match="a separate vocabulary for the second texts") as caught:
        trained(tmp_path / "two", tmp_path / "x")
    assert "--vocabulary joint" in caught.value.hint


def test_a_plain_text_is_not_what_it_expects(learned, tokens):
    found = wordpipe.evaluate_model(learned, tokens.parent / "corpus", split="valid")
    assert any("trained to write the second text of a pair" in warning for warning in found["models"][0]["warnings"])
