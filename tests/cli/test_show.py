"""`wordpipe show`: a text cut into tokens, in colours and as JSON."""

import json
import re

import pytest
from rich.cells import cell_len

import wordpipe
from tests.support.terminal import in_terminal
from wordpipe.cli.show import print_segmentation

FOUND = {
    "text": "The 東 [MASK]", "pieces": ["The", " 東", "\x1b\n", "[MASK]", "\u202e"], "ids": [12345, 7, 8, 4, 5],
    "special": [False, False, False, True, False], "unknown": [False, True, False, False, False],
}  # fmt: skip


def test_a_segmentation_reads_without_colour(screen, capsys):
    screen(80)
    print_segmentation(FOUND)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The  │␣東│\\x1b⏎│[MASK]│\\u202e"
    assert lines[1] == "12345│7? │8    │4*    │5"
    assert "5 tokens" in lines[3]
    assert "1 unknown (?) · 1 special (*)" in lines[3]


def test_a_segmentation_has_alternating_colours(screen, capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen(80, force_terminal=True, color_system="standard")
    print_segmentation({**FOUND, "unknown": [False] * 5, "special": [False] * 5})
    first = capsys.readouterr().out.splitlines()[0]
    styles = re.findall(r"\x1b\[([0-9;]+)m[^\x1b│]+\x1b\[0m", first)
    assert len(styles) == 5
    assert styles[0] == styles[2] == styles[4] != styles[1] == styles[3]


@pytest.mark.parametrize("width", [12, 30])
def test_a_segmentation_is_as_wide_as_the_terminal(screen, capsys, width):
    screen(width)
    many = {name: values * 9 for name, values in FOUND.items() if name != "text"}
    print_segmentation({**many, "text": FOUND["text"]})
    lines = capsys.readouterr().out.splitlines()[:-1]
    assert max(map(cell_len, lines)) <= width
    ids = [number for line in lines[1::3] for number in re.findall(r"\d+", line)]
    assert ids == [str(number) for number in many["ids"]]


def test_show_text(cli, built):
    shown = cli("show", built / "tokens", "--text", "The mud\x1b")
    assert shown.code == 0
    assert "␣" in shown.out
    assert "\x1b" not in shown.out
    found = json.loads(cli("show", built / "model", "--text", "The mud", "--json").out)
    assert "".join(found["pieces"]) == found["text"] == "The mud"
    assert len(found["ids"]) == len(found["offsets"]) == len(found["tokens"])
    assert cli("show", built / "corpus", "--text", "x").code == 4
    assert cli("show", built / "tokens", "--text", "x", "--rows", 1).code == 2


def test_the_columns_are_listed_with_their_types_also_of_a_damaged_table_not(cli, chain):
    shown = cli("show", chain / "corpus")
    lines = shown.out.splitlines()
    assert [line.partition(")")[0] for line in lines[7:11]] == [
        "  doc_id (string", "  sentence_id (int32", "  title (string", "  text (string",
    ]  # fmt: skip
    assert lines[8] == "  sentence_id (int32)      0"
    table = next((chain / "corpus").glob("corpus-*.parquet"))
    table.write_bytes(b"x" * table.stat().st_size)
    damaged = cli("show", chain / "corpus")
    assert damaged.code == 0
    assert "columns, each" not in damaged.out
    assert cli("show", chain / "corpus", "--rows", 1).code == 4


@pytest.mark.parametrize("width", [50, 80])
def test_what_an_artifact_is_has_room_on_a_terminal_and_no_hashes(built, width):
    shown = in_terminal("show", built / "sentences", "--rows", 2, columns=width, NO_COLOR="1").text
    assert max(map(cell_len, shown.splitlines()[1:-2])) <= width  # the path of the artifact, and the command below
    assert not re.search(r"[0-9a-f]{32}|\[\S*\d\.\d", shown)
    with wordpipe.open(built / "sentences") as opened:
        assert f"  vector (list of float)   [{opened.dim} numbers]" in shown.splitlines()
        assert shown.count(f'"[{opened.dim} numbers]"') == 2
    assert "lineage" not in shown
    assert "--json" in shown.splitlines()[-1]


def test_of_a_model_without_windows_no_layers_between_them_are_shown(cli, built):
    shown = cli("show", built / "model")
    assert "\n  n_layers " in shown.out
    assert "global_every" not in shown.out


def test_verify_looks_into_a_folder_of_artifacts(chain, cli, tmp_path):
    (chain / "notes").mkdir()
    (chain / "notes.txt").write_text("no artifact")
    done = cli("verify", chain)
    assert done.code == 0, done.err
    found = [line.split()[1] for line in done.out.splitlines()]
    assert found == sorted(str(one.parent) for one in chain.glob("*/manifest.json"))
    part = next((chain / "words").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-1])
    done = cli("verify", chain, chain / "corpus", "--json")
    assert done.code == 4
    assert [json.loads(line)["ok"] for line in done.out.splitlines()] == [
        one != str(chain / "words") for one in [*found, ""]
    ]
    assert cli("verify", chain / "notes").code == 4  # nothing is in it
    assert cli("verify", tmp_path / "none").code == 4
