"""`wordpipe generate` and `wordpipe fill`: text, lines, JSON, prompts from files, and readers that go away."""

import io
import json
import signal
import subprocess
import sys

import pytest

from tests.support.model_artifacts import artifact_of, model_files, tokenizer_file
from wordpipe import fill, generate
from wordpipe.cli import infer
from wordpipe.cli.output import safe_text

QUICK = ("--device", "cpu", "--threads", 1)


@pytest.fixture(scope="module")
def models(handbook, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    data = tokenizer_file(handbook, root / "tokens")
    return {name: artifact_of(model_files(data, name), root / name) for name in ("decoder", "encoder")}


def made(models, prompt, **settings):
    return generate(models["decoder"], prompt, **{"device": "cpu", "threads": 1, "max_tokens": 15, **settings})


@pytest.fixture
def asked(cli, models):
    """Run `generate` with fifteen tokens."""
    return lambda *args: cli("generate", models["decoder"], *args, "--max-tokens", 15, *QUICK)


def typed(monkeypatch, text, terminal=False):
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="latin-1")
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stdin", stream)


def test_the_text_follows_its_prompt(asked, models):
    found = asked("The", "bees")
    assert found.code == 0
    assert found.out == safe_text(f"The bees{made(models, 'The bees')[0].text}\n")
    assert found.err == ""


def test_json_has_a_line_for_each_sample(asked, models):
    found = asked("Honey", "--samples", 3, "--seed", 4, "--temperature", 1.5, "--top-k", 50, "--json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert lines == [vars(one) for one in made(models, "Honey", samples=3, seed=4, temperature=1.5, top_k=50)]
    assert lines[0].keys() == {"prompt", "text", "tokens", "logprob", "stopped", "cut", "slid"}


def test_samples_are_numbered_for_people(asked, models):
    found = asked("Honey", "--samples", 2)
    first, second = (f"Honey{one.text}" for one in made(models, "Honey", samples=2))
    assert found.out == safe_text(f"# 1\n{first}\n\n# 2\n{second}\n")


def test_every_line_of_a_file_is_a_prompt(asked, models, tmp_path):
    (tmp_path / "prompts").write_text("The bees\n\n Honey \n")
    found = asked("--prompts", tmp_path / "prompts", "--json")
    assert [json.loads(line)["prompt"] for line in found.out.splitlines()] == ["The bees", "", " Honey "]
    assert next(json.loads(line)["text"] for line in found.out.splitlines()) == made(models, "The bees")[0].text
    plain = asked("--prompts", tmp_path / "prompts").out
    assert plain.startswith(safe_text(f"The bees{made(models, 'The bees')[0].text}\n\n Honey "))


def test_prompts_come_from_standard_input_whatever_their_bytes(asked, monkeypatch):
    typed(monkeypatch, "Bienen über \udcff alles\r\n".encode("utf-8", "surrogateescape"))
    found = asked("--json")
    assert json.loads(found.out)["prompt"] == "Bienen über \ufffd alles"


def test_a_terminal_is_asked_for_prompts(asked, monkeypatch):
    typed(monkeypatch, b"", terminal=True)
    lines = iter(["The bees", ""])

    def answer(prompt):
        assert prompt == ""  # it is said where it does not stand among the answers
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    found = asked("--json")
    assert found.out.count('"prompt": "The bees"') == 1
    assert found.err.startswith("prompt> ")


def test_an_empty_prompt_is_a_prompt_and_none_is_an_error(asked, monkeypatch, models):
    assert asked("").out == safe_text(f"{made(models, '')[0].text}\n")
    typed(monkeypatch, b"\n \n")
    found = asked()
    assert found.code == 3
    assert "the prompts contain no text" in found.err


def test_what_the_model_did_not_read_is_said(asked):
    found = asked("honey " * 50, "--no-verify")
    assert found.code == 0
    assert "tokens, but the model reads at most 48 tokens: the first" in found.err
    assert "the model kept only the last 24 tokens and continued (once)" in found.err
    assert asked("honey " * 50, "-q").err == ""
    assert "15 tokens in" in asked("honey", "-v").err


def test_control_characters_of_a_prompt_are_shown_as_escapes(asked):
    assert asked("a\x1b[31m").out.startswith("a\\x1b[31m")


def test_wrong_use_is_refused(asked, cli, models, tmp_path):
    assert asked("a", "--prompts", tmp_path / "prompts").code == 2
    assert asked("--prompts", tmp_path / "prompts").code == 3
    assert asked("a", "--top-p", 2).code == 2
    refused = cli("generate", models["encoder"], "a")
    assert refused.code == 4
    assert f"wordpipe fill {models['encoder']}" in refused.err
    refused = cli("fill", models["decoder"], "a [MASK]")
    assert refused.code == 4
    assert f"wordpipe generate {models['decoder']}" in refused.err
    assert cli("generate", tmp_path / "nowhere", "a").code == 4


@pytest.mark.landing
def test_the_text_comes_while_it_is_made_and_a_reader_may_go_away(models):
    """The first characters arrive long before a million tokens could be drawn; then the pipe is cut."""
    command = [
        sys.executable,
        "-m",
        "wordpipe",
        "generate",
        str(models["decoder"]),
        "The bees",
        "--max-tokens",
        "1000000",
    ]
    options = ["--stop", "this never comes", "--temperature", "0", *map(str, QUICK)]
    running = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.read(12).startswith(b"The bees")
    running.stdout.close()
    assert running.wait(timeout=60) == -signal.SIGPIPE
    assert running.stderr.read() == b""
    running.stderr.close()


def test_a_line_for_each_candidate(cli, models):
    found = cli("fill", models["encoder"], "Honey [MASK]", "sweet [MASK].", "--top-k", 2, *QUICK)
    want = fill(models["encoder"], "Honey [MASK] sweet [MASK].", top_k=2, device="cpu", threads=1)
    lines = [line.split("\t") for line in found.out.splitlines()]
    assert [(line[0], line[1]) for line in lines] == [
        (str(one.mask), f"{one.probability:.4f}") for mask in want.masks for one in mask
    ]
    assert found.err == ""


def test_a_single_mask_has_no_number(cli, models):
    found = cli("fill", models["encoder"], "Honey [MASK]", "--top-k", 2, *QUICK)
    want = fill(models["encoder"], "Honey [MASK]", top_k=2, device="cpu", threads=1)
    cells = [line.split("\t") for line in found.out.splitlines()]
    assert [len(row) for row in cells] == [3, 3]
    assert [row[0] for row in cells] == [f"{one.probability:.4f}" for one in want.masks[0]]


def test_candidates_as_json(cli, models):
    found = cli("fill", models["encoder"], "Honey [MASK]", "--top-k", 3, "--json", *QUICK)
    want = fill(models["encoder"], "Honey [MASK]", top_k=3, device="cpu", threads=1)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert lines == [{"text": "Honey [MASK]", **vars(one)} for one in want.masks[0]]
    assert lines[0].keys() == {"text", "mask", "rank", "token", "probability", "filled"}
    assert lines[0]["filled"] == want.filled


def test_candidates_for_people(cli, models, monkeypatch):
    monkeypatch.setattr(infer.sys.stdout, "isatty", lambda: True)
    found = cli("fill", models["encoder"], "[MASK] is [MASK]", "--top-k", 2, *QUICK)
    want = fill(models["encoder"], "[MASK] is [MASK]", top_k=2, device="cpu", threads=1)
    lines = found.out.splitlines()
    assert len(lines) == 7
    assert safe_text(want.filled) in lines[0]
    assert [lines[1], lines[4]] == ["[MASK] 1", "[MASK] 2"]
    assert lines[2].split()[0] == f"{want.masks[0][0].probability:.2%}"


def test_lines_without_a_mask_end_no_batch(cli, models, monkeypatch):
    typed(monkeypatch, b"no mask\nHoney [MASK]\n")
    found = cli("fill", models["encoder"], "--json", "--top-k", 1, *QUICK)
    assert found.code == 0
    first, second = map(json.loads, found.out.splitlines())
    assert (first, second["text"]) == ({"text": "no mask"}, "Honey [MASK]")
    assert "skipped: the text has no mask to fill" in found.err
    typed(monkeypatch, b"no mask\n")
    found = cli("fill", models["encoder"], *QUICK)
    assert found.code == 3
    assert "nothing was filled" in found.err
    alone = cli("fill", models["encoder"], "no mask", *QUICK)
    assert alone.code == 3
    assert "hint: write [MASK]" in alone.err


def test_tokens_that_were_cut_are_counted(cli, models):
    found = cli("fill", models["encoder"], "honey " * 60 + "[MASK]", *QUICK)
    assert found.code == 0
    assert "longer than the 48 positions of the model" in found.err
    assert cli("fill", models["encoder"], "honey " * 60 + "[MASK]", "-q", *QUICK).err == ""
