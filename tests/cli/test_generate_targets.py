"""`wordpipe generate` of an encoder-decoder: a line for each line, JSON, what was cut, readers and writers that stop."""

import json
import signal
import subprocess
import sys

import pytest

from tests.support.model_artifacts import artifact_of, pair_files, tokenizer_file
from wordpipe import open_model
from wordpipe.cli.output import escaped, safe_text
from wordpipe.model.settings import GenerateSettings
from wordpipe.stages import TargetWriter

QUICK = ("--device", "cpu", "--threads", 1)
LINES = ["The bees of the valley", "", "Honey is sweet.", " \t", "Water and salt are in the sea."]


@pytest.fixture(scope="module")
def model(handbook, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return artifact_of(pair_files(tokenizer_file(handbook, root / "tokens"), "bart"), root / "model")


@pytest.fixture
def asked(cli, model):
    """Run `generate` with eight tokens."""
    return lambda *args, **how: cli("generate", model, "--max-tokens", 8, *QUICK, *args, **how)


def made(model, sources, **settings):
    values = {"device": "cpu", "threads": 1, "max_tokens": 8} | settings
    return TargetWriter(open_model(model), GenerateSettings.make(values)).write(sources)


def on_a_line(text):
    return safe_text(" ".join(text.splitlines()))


def test_the_words_are_one_source(asked, model):
    found = asked("Honey", "is", "sweet.")
    (written,) = made(model, ["Honey is sweet."])
    assert (found.code, found.out) == (0, on_a_line(written.text) + "\n")
    assert written.text


def test_every_line_has_a_line(asked, model, tmp_path):
    """Also an empty one; of a file and of a pipe."""
    (tmp_path / "german").write_text("".join(f"{line}\n" for line in LINES))
    want = "".join(f"{on_a_line(one.text)}\n" for one in made(model, LINES))
    found = asked("--prompts", tmp_path / "german")
    assert (found.code, found.out) == (0, want)
    assert found.out.count("\n") == 5
    assert found.out.splitlines()[1] == found.out.splitlines()[3] == ""
    assert "2 of 5 sources were empty, so the targets are empty too\n" in found.err
    assert asked("--prompts", tmp_path / "german", "-q").err == ""
    assert asked(piped="".join(f"{line}\n" for line in LINES)).out == want


def test_line_ends_in_a_target_part_no_lines(asked, model, monkeypatch):
    from wordpipe.stages import Target, Written

    written = [Written("a", [Target("x\ny\r\x1b[1m\tz", -1.0, -2.0, 2, finished=True)], 0)]
    monkeypatch.setattr(TargetWriter, "write", lambda self, _: written)
    assert asked("a").out == "x y \\x1b[1m\tz\n"
    assert asked("a", "--n-best", 2).out == "1\t1\t-1.0000\tx\\ny\\r\\x1b[1m\\tz\n"


def test_the_n_best_have_numbers_ranks_and_scores(asked, model, tmp_path):
    (tmp_path / "german").write_text("".join(f"{line}\n" for line in LINES))
    found = asked("--prompts", tmp_path / "german", "--beams", 3, "--n-best", 2)
    want = [
        f"{number}\t{rank}\t{target.score:.4f}\t{escaped(target.text)}"
        for number, one in enumerate(made(model, LINES, beams=3, n_best=2), start=1)
        for rank, target in enumerate(one.targets, start=1)
    ]
    assert found.out.split("\n")[:-1] == want
    assert len(want) == 3 * 2 + 2
    sampled = asked("Honey", "--samples", 3, "--temperature", 1.5)
    assert [line.split("\t")[:2] for line in sampled.out.splitlines()] == [["1", "1"], ["1", "2"], ["1", "3"]]


def test_help_says_what_the_lines_of_several_targets_are(cli):
    for flag in ("--help", "--help-all"):
        assert "source number, rank, score and text" in " ".join(cli("generate", flag).out.split())


def test_json_has_an_object_for_each_target(asked, model, tmp_path):
    (tmp_path / "german").write_text("".join(f"{line}\n" for line in LINES))
    found = asked("--prompts", tmp_path / "german", "--json", "--n-best", 2, "--length-penalty", 0.6)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert lines == [
        {"source": one.source, **vars(target), "rank": rank, "cut": 0}
        for one in made(model, LINES, n_best=2, length_penalty=0.6)
        for rank, target in enumerate(one.targets, start=1)
    ]
    assert lines[0].keys() == {"source", "text", "score", "logprob", "tokens", "finished", "rank", "cut"}
    assert lines[2]["source"] == lines[2]["text"] == ""


def test_the_prefix_is_put_before_every_line(asked, model):
    assert (
        asked("is sweet.", "--prefix", "Honey ").out
        == on_a_line(made(model, ["is sweet."], prefix="Honey ")[0].text) + "\n"
    )


def test_what_was_cut_and_what_did_not_end_is_said(asked, tmp_path):
    assert "the source was longer than the model's 48 positions: " in asked("honey " * 60).err
    (tmp_path / "german").write_text("honey " * 60 + "\nHoney\n")
    found = asked("--prompts", tmp_path / "german")
    assert "1 of 2 sources were longer than the model's 48 positions: " in found.err
    assert "tokens at the end were not read" in found.err
    found = asked("Honey", "--temperature", 50, "--samples", 40, "--max-tokens", 2)
    assert "targets were cut off at the maximum number of tokens: raise --max-tokens" in found.err
    assert asked("Honey", "--temperature", 50, "--samples", 40, "-q").err == ""
    assert "the model has 48 positions, so no target can have more tokens" in asked("Honey", "--max-tokens", 99).err
    assert "1 sentence in " in asked("Honey", "-v").err
    assert "sentences/s" in asked("Honey", "-v").err


def test_a_line_that_is_too_long_leaves_its_place(asked, model, tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.cli.input_lines._LONGEST", 30)
    (tmp_path / "german").write_text(f"Honey\n{'honey ' * 9}\nWater\n")
    found = asked("--prompts", tmp_path / "german")
    first, second, third = found.out.split("\n")[:-1]
    assert (first, second, third) == tuple(on_a_line(one.text) for one in made(model, ["Honey", "", "Water"]))
    assert "skipped line 2 of " in found.err


def test_bytes_that_are_no_utf_8_are_replaced_and_said(asked, tmp_path):
    (tmp_path / "latin").write_bytes(b"Honey\nSea\xe9 [MASK]\n")
    said = f"invalid UTF-8 was replaced by U+FFFD in line 2 of {tmp_path / 'latin'}\n"
    found = asked("--prompts", tmp_path / "latin", "--json")
    assert said in found.err
    assert json.loads(found.out.splitlines()[1])["source"] == "Sea\ufffd [MASK]"
    assert "UTF-8" not in asked("--prompts", tmp_path / "latin", "-q").err


def test_nothing_to_do_is_an_error(asked):
    for found in (asked(""), asked(piped=""), asked(piped="\n\n")):
        assert found.code == 3
    assert asked(piped="\n \n").out == "\n\n"


def test_wrong_use_is_refused_by_name(asked, cli, model, tmp_path):
    for options, name in (
        (("--beams", 3, "--temperature", 0.7), "temperature = 0.7"),
        (("--beams", 2, "--n-best", 3), "n_best = 3"),
        (("--samples", 2), "samples = 2"),
        (("--stop", "a"), "stop = "),
        (("--length-penalty-by", "mean"), "hf"),
    ):
        found = asked("Honey", *options)
        assert (found.code, found.out) == (2, "")
        assert name in found.err
    assert asked("a", "--prompts", tmp_path / "x").code == 2
    assert asked("--prompts", tmp_path / "x").code == 3
    assert cli("generate", tmp_path, "a").code == 4


def test_a_terminal_is_answered_line_by_line(asked, model, monkeypatch):
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    lines = iter(["Honey", "", "Water"])

    def answer(_):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    found = asked("--json")
    assert [json.loads(line)["source"] for line in found.out.splitlines()] == ["Honey", "Water"]


@pytest.fixture
def started(model):
    """`generate` as a process of its own."""
    running = []

    def start(*options):
        command = [
            sys.executable,
            "-m",
            "wordpipe",
            "generate",
            model,
            *options,
            "--max-tokens",
            3,
            "--beams",
            1,
            *QUICK,
        ]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(list(map(str, command)), stdin=pipe, stdout=pipe, stderr=pipe))
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.communicate()


@pytest.mark.landing
def test_a_line_is_answered_when_it_comes(started, model):
    """Before the next one is written: a shell may keep the command running."""
    process = started()
    for text in ("Honey is sweet.", "Water"):
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        want = on_a_line(made(model, [text], max_tokens=3, beams=1)[0].text) + "\n"
        assert process.stdout.readline().decode() == want
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"")
    assert b"Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_may_be_stopped(started, tmp_path, number):
    """What was answered stands there in whole lines; the exit is that of the signal."""
    (tmp_path / "german").write_text("Honey is sweet.\n" * 300_000)
    process = started("--prompts", tmp_path / "german")
    first = process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert process.returncode == -number
    assert b"Traceback" not in err
    lines = (first + out).split(b"\n")
    assert lines[-1] == b""
    assert 0 < len(set(lines)) <= 2
    assert len(lines) < 300_000


@pytest.mark.slow
def test_a_reader_may_go_away(started, tmp_path):
    (tmp_path / "german").write_text("Honey is sweet.\n" * 300_000)
    process = started("--prompts", tmp_path / "german")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=100) == -signal.SIGPIPE
    assert process.stderr.read() == b""


def test_a_denoiser_fills(cli, handbook, tmp_path, monkeypatch):
    from tests.support.model_artifacts import folder_of
    from wordpipe import fill

    path = folder_of(pair_files(tokenizer_file(handbook, tmp_path / "tokens"), "bart"), tmp_path / "bart")
    want = fill(path, "Honey is [MASK].", top_k=2, device="cpu", threads=1)
    asked = ("fill", path, "Honey is [MASK].", "--top-k", 2, *QUICK)
    lines = [line.split("\t") for line in cli(*asked).out.splitlines()]
    assert [line[0] for line in lines] == [f"{one.score:.4f}" for one in want.fillings]
    assert all(len(line) == 2 for line in lines)
    found = [json.loads(line) for line in cli(*asked, "--json").out.splitlines()]
    assert found == [{"text": "Honey is [MASK].", **vars(one)} for one in want.fillings]
    assert found[0].keys() == {"text", "rank", "filled", "spans", "score", "logprob"}
    (tmp_path / "latin").write_bytes(b"Sea\xe9 [MASK]\n")
    found = cli("fill", path, "--texts", tmp_path / "latin", *QUICK)
    assert f"invalid UTF-8 was replaced by U+FFFD in line 1 of {tmp_path / 'latin'}\n" in found.err
    monkeypatch.setattr("wordpipe.cli.infer.sys.stdout.isatty", lambda: True)
    shown = cli(*asked).out.splitlines()
    assert f"{want.fillings[0].score:.4f}" in shown[1]
