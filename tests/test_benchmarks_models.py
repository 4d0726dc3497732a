"""The benchmarks of models: all get the same sequences and masks, the evaluation is fair, the figures are what they say."""

import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from tests.conftest import BENCHMARKS

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "<s>": 5, "</s>": 6}
BERT = {
    "n_tokens": 40, "dim": 16, "n_layers": 1, "n_heads": 2, "ffn_dim": 24, "seq_len": 12, "special": SPECIAL, "seed": 3,
}  # fmt: skip


def benchmark(name):
    return import_module(name)


def masked_batch(rows=6, length=12, n_tokens=40, seed=0):
    text = benchmark("peers.model_text")
    ids_BT = torch.randint(7, n_tokens, (rows, length), generator=torch.Generator().manual_seed(seed))
    ids_BT[:, 0], ids_BT[:, -1], ids_BT[0, 3:9] = 2, 3, 3
    return ids_BT, text.hide(ids_BT, text.ordinary(n_tokens, SPECIAL), SPECIAL["[MASK]"], seed)


def test_sequences_are_those_of_our_own_training():
    blocks = import_module("wordpipe.training.token_stream")
    ids = np.random.default_rng(1).integers(7, 90, 1000).astype("<u2")
    ours = blocks.masked_blocks(ids, seq_len=16, cls_id=2, sep_id=3)
    order = np.concatenate([blocks.block_order(step, batch_size=8, n_blocks=len(ours), seed=1) for step in range(11)])
    rows = benchmark("peers.model_text").sequences(ids, order, 16, SPECIAL)
    assert len(ours) == -(-1000 // 14)
    assert rows.tolist() == torch.as_tensor(ours.rows(order).ids_BT).tolist()


def test_masks_are_bert_s():
    ids_BT, batch = masked_batch(rows=4000, length=42, n_tokens=500)
    labels, weights, positions = batch["labels"], batch["weights"], batch["positions"]
    assert labels.shape == (4000, 6)  # 15 % of 40
    assert torch.equal(ids_BT.gather(1, positions), labels)
    assert bool((labels[weights == 1] >= 7).all())
    shown = batch["inputs"].gather(1, positions)[weights == 1]
    is_mask, is_same = shown == SPECIAL["[MASK]"], shown == labels[weights == 1]
    assert abs(float(is_mask.float().mean()) - 0.8) < 0.01
    assert abs(float(is_same.float().mean()) - 0.1) < 0.01
    assert bool((shown[~is_mask] >= 7).all())
    elsewhere = torch.ones_like(ids_BT, dtype=torch.bool).scatter(1, positions, False)
    assert torch.equal(batch["inputs"][elsewhere], ids_BT[elsewhere])
    again = masked_batch(rows=4000, length=42, n_tokens=500)[1]
    assert all(torch.equal(again[name], batch[name]) for name in batch)


def test_a_sequence_with_too_few_ordinary_tokens_has_fewer_targets():
    text = benchmark("peers.model_text")
    ids_BT = torch.full((2, 22), 3)
    ids_BT[1, 5:15] = 9
    batch = text.hide(ids_BT, text.ordinary(40, SPECIAL), SPECIAL["[MASK]"], 0)
    assert batch["weights"].sum(1).tolist() == [0.0, 3.0]
    assert torch.equal(batch["inputs"][0], ids_BT[0])


def test_the_peer_s_loss_is_that_of_transformers():
    bert = benchmark("peers.model_bert")
    model = bert.new_bert(BERT).eval()
    _, batch = masked_batch()
    labels_BT = torch.full_like(batch["inputs"], -100)
    labels_BT.scatter_(1, batch["positions"], batch["labels"].masked_fill(batch["weights"] == 0, -100))
    with torch.no_grad():
        ours = bert.losses_of(model, batch).sum() / batch["weights"].sum()
        theirs = model(input_ids=batch["inputs"], labels=labels_BT).loss
    assert abs(float(ours) / float(theirs) - 1) < 1e-6


def test_the_peer_s_rate_rises_and_falls_to_zero():
    rates = [benchmark("peers.model_bert").rate(step, 100, 0.1) for step in range(100)]
    assert rates[:2] == [0.1, 0.2]
    assert (max(rates), rates.index(1.0)) == (1.0, 9)
    assert rates[-1] == pytest.approx(1 / 90)


def test_the_peer_learns(tmp_path):
    bert = benchmark("peers.model_bert")
    rows = np.tile(np.r_[2, np.arange(7, 17), 3].astype("<u2"), (8 * 60, 1))
    np.save(tmp_path / "rows.npy", rows)
    _, batch = masked_batch()
    np.savez(tmp_path / "held_out.npz", **{name: value.numpy() for name, value in batch.items()})
    paths = {"rows": tmp_path / "rows.npy", "held_out": tmp_path / "held_out.npz", "kept": tmp_path / "kept.npy"}
    task = {"batch_size": 8, "steps": 60, "threads": 1, "lr": 1e-2, "warmup": 0.1, "dtype": "float32"}
    found = bert.train_bert(BERT | task | {name: str(path) for name, path in paths.items()})
    assert found["train_loss"] < 2.0 < np.log(33)  # the text is ten tokens in order
    assert found["loss"] > found["train_loss"]


def test_the_evaluation_scores_by_target_and_by_sequence(tmp_path):
    score = benchmark("peers.model_score").score
    _, batch = masked_batch(rows=100)
    np.savez(tmp_path / "held_out.npz", **{name: value.numpy() for name, value in batch.items()})
    task = {"held_out": str(tmp_path / "held_out.npz"), "kept": str(tmp_path / "kept.npy")}
    found = score(lambda part: part["weights"].sum(1) * part["labels"].float().mean(1), torch.nn.Linear(1, 1), task)
    each_N, count_N = batch["labels"].double().mean(1), batch["weights"].double().sum(1)
    assert found["loss"] == pytest.approx(float((each_N * count_N).sum() / count_N.sum()), rel=1e-6)
    assert np.load(tmp_path / "kept.npy") == pytest.approx(each_N.numpy(), rel=1e-6)


def test_our_folder_is_evaluated_like_the_peer(tmp_path):
    """One BERT, as transformers trained it and as our folder loads it, has one held-out loss."""
    bert, scoring = benchmark("peers.model_bert"), benchmark("peers.model_score")
    model = bert.new_bert(BERT)
    model.save_pretrained(tmp_path)
    _, batch = masked_batch()
    np.savez(tmp_path / "held_out.npz", **{name: value.numpy() for name, value in batch.items()})
    task = {"held_out": str(tmp_path / "held_out.npz"), "model": str(tmp_path), "threads": 1}
    theirs = scoring.score(lambda part: bert.losses_of(model, part), model, task | {"kept": str(tmp_path / "a.npy")})
    ours = scoring.evaluate(task | {"kept": str(tmp_path / "b.npy")})
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    assert np.load(tmp_path / "b.npy") == pytest.approx(np.load(tmp_path / "a.npy"), rel=1e-4)
    assert ours["parameters"] == sum(weight.numel() for weight in model.parameters())


def test_a_raw_start_is_the_vectors_as_they_are(tmp_path):
    starts = benchmark("peers.model_starts")
    model, words = tmp_path / "model", tmp_path / "words"
    model.mkdir()
    words.mkdir()
    fresh = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    save_file({starts.TABLE: fresh, "other": torch.ones(2)}, model / "model.safetensors")
    Tokenizer(models.WordLevel({word: row for row, word in enumerate("abcde")}, "a")).save(
        str(model / "tokenizer.json")
    )
    (model / "manifest.json").write_text("{}")
    rows = [{"word": "d", "vector": [7.0, 8.0, 9.0]}, {"word": "absent", "vector": [1.0, 1.0, 1.0]}]
    schema = pa.schema({"word": pa.string(), "vector": pa.list_(pa.float32(), 3)})
    pq.write_table(pa.Table.from_pylist(rows, schema), words / "words-00000.parquet")
    found = starts.raw_start({"model": str(model), "words": str(words), "out": str(tmp_path / "raw")})
    table = load_file(tmp_path / "raw" / "model.safetensors")[starts.TABLE]
    assert table[3].tolist() == [7.0, 8.0, 9.0]
    assert torch.equal(table[[0, 1, 2, 4]], fresh[[0, 1, 2, 4]])
    assert found["replaced"] == 1
    assert not (tmp_path / "raw" / "manifest.json").exists()


def recipe_cells(folder, losses):
    """Cells with these losses in every held-out sequence, on average."""
    cells = []
    for name, loss in losses.items():
        spread = np.array([-0.1, 0.1]) if name == "default" else np.zeros(2)
        np.save(folder / f"{name}.npy", loss + spread)
        side = "transformers" if name.startswith("bert") else "wordpipe"
        cells.append({"cell": name, "says": name, "side": side, "loss": loss, "kept": f"{name}.npy",
                      "parameters": 1000, "tokens_per_s": 5.0})  # fmt: skip
    return cells


def test_recipes_stand_against_the_best_peer_and_our_default(tmp_path):
    figures, script = benchmark("peers.model_figures"), benchmark("model_recipes")
    lines = figures.recipes(recipe_cells(tmp_path, {"bert-1e-3": 5.0, "bert-2e-3": 4.5, "default": 4.0}), tmp_path)
    by_name = {line["cell"]: line for line in lines}
    assert by_name["default"]["better_than_bert"] == {"nats": 0.5, "error": 0.1}
    assert by_name["bert-1e-3"]["better_than_default"] == {"nats": -1.0, "error": 0.1}
    assert list(script.faults(lines, [])) == []
    rows = list(figures.recipe_rows(lines, 7.0))
    assert rows[-2] == "| default | 4.000 | +0.000 ± 0.000 | +0.500 ± 0.100 | 0.00M | 5 |"
    unequal = [line | ({"parameters": 1030} if line["cell"] == "bert-2e-3" else {}) for line in lines]
    assert "not of equal size" in next(script.faults(unequal, []))
    close = figures.recipes(recipe_cells(tmp_path, {"bert-1e-3": 4.1, "default": 4.0}), tmp_path)
    assert "by 0.100 nat, less than 0.2" in next(script.faults(close, []))
    assert list(script.faults(lines[2:], [{"cell": "adamw", "why": "killed"}])) == ["adamw: killed"]


def speed_lines():
    line = benchmark("peers.model_figures").speed_line

    def of(side, says, rate, losses, memory):
        runs = [{"token_seconds": [9.0, 1 / (rate * way), 1 / (rate * way)], "losses": losses, "parameters": 7,
                 "peak_memory_bytes": memory * 1e6} for way in (0.5, 1, 3)]  # fmt: skip
        return {"kind": "mlm", "dtype": "float32", "side": side, "says": says} | line(runs, [4.0, 2.0])

    return [
        of("adamw", "wordpipe, AdamW", 300, [4.0, 2.0], 50),
        of("muon", "wordpipe, Muon", 150, [4.0, 1.0], 50),
        of("sparse", "ModernBERT, sparse", 200, [4.0, 2.01], 100),
        of("dense", "ModernBERT, its default", 100, [4.1, 2.0], 100),
    ]


def test_speeds_stand_against_the_fastest_way_and_losses_against_the_recording():
    figures, script = benchmark("peers.model_figures"), benchmark("model")
    lines = speed_lines()
    assert (lines[0]["tokens_per_s"], lines[0]["tokens_per_s_least"], lines[0]["tokens_per_s_most"]) == (300, 150, 900)
    ratios = list(figures.speed_ratios(lines))
    assert ratios == [
        {"kind": "mlm", "dtype": "float32", "against": "ModernBERT, sparse", "times_as_fast": 1.5,
         "times_as_fast_with_muon": 0.75, "share_of_memory": 0.5}
    ]  # fmt: skip
    (fault,) = script.faults(lines, ratios)
    assert "its default: its losses are not those of the recording: 2.50% at the first step" in fault
    slow = [ratios[0] | {"times_as_fast": 1.2}]
    assert list(script.faults(lines[:3], slow)) == [
        "mlm float32: 1.20 times as fast as ModernBERT, sparse, less than 1.25"
    ]
    assert any(
        "| 200 (100–600) | 100 MB | 0.500% | 1.50 × | 0.75 × |" in row for row in figures.speed_rows(lines, ratios)
    )


@pytest.mark.parametrize(("kind", "sparse"), [("mlm", True), ("mlm", False), ("clm", False)])
def test_transformers_repeats_a_recorded_training_of_ours(tmp_path, kind, sparse):
    """From the same weights, on the same batches, with the same rates: the same losses, step by step."""
    ours, theirs, script = (benchmark(name) for name in ("peers.model_ours", "peers.model_transformers", "model"))
    bench = script.Speeds(tmp_path, tmp_path, 1, 60.0, warm=1, steps=3, small=script.TINY)
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(7, 90, 400).astype("<u2"))
    task = {
        "kind": kind,
        "ids": tmp_path / "ids.npy",
        "n_tokens": 90,
        "special": SPECIAL,
        "record": tmp_path / "record",
    }
    recorded = ours.ours(task | {"settings": bench.settings(kind, "adamw", "float32"), "folder": tmp_path / "state"})
    wanted = {"weight_decay": 0.05, "clip": 1.0, "betas": [0.9, 0.98], "rates": recorded["rates"], "dtype": "float32"}
    wanted |= {
        "attention": "sdpa",
        "config": {"sparse_prediction": True} if sparse else {},
        "compile": False,
        "threads": 1,
    }
    found = theirs.transformers(task | wanted)
    assert len(recorded["losses"]) == len(found["losses"]) == 4
    assert found["losses"] == pytest.approx(recorded["losses"], rel=1e-4)
    assert found["losses"][0] != pytest.approx(found["losses"][-1], rel=1e-3)
    assert found["parameters"] == recorded["parameters"]


def data_folder(tmp_path):
    """A text of made-up words in a hundred documents, and a held-out one."""
    random = np.random.default_rng(3)
    known = [f"{a}{b}{c}" for a in "bdgklmprst" for b in "aeiou" for c in "nrs"]
    (tmp_path / "wiki").mkdir()
    for name, count in (("train", 100), ("valid", 20)):
        texts = ["\n".join(" ".join(random.choice(known, 30)) for _ in range(4)) for _ in range(count)]
        (tmp_path / "wiki" / f"{name}.txt").write_text("\n\n".join(texts) + "\n")
    return (tmp_path / "wiki" / "train.txt").stat().st_size / 1e6


def run_script(name, tmp_path, *options):
    size = data_folder(tmp_path)
    command = [sys.executable, BENCHMARKS / name, "--data", tmp_path, "--out", tmp_path / "out.json", "--mb", size]
    command += ["--vocab-size", 320, "--threads", 1, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert (tmp_path / "out.json").exists(), done.stdout + done.stderr
    assert str(tmp_path) not in (tmp_path / "out.json").read_text()
    return json.loads((tmp_path / "out.json").read_text()), done


@pytest.mark.slow
def test_speeds_are_measured_from_end_to_end(tmp_path):
    options = ["--tiny", "--steps", 2, "--warm", 1, "--repeat", 1, "--scratch", tmp_path]
    found, done = run_script("model.py", tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(line["kind"], line["dtype"], line["side"]) for line in found["lines"]] == [
        (kind, dtype, side)
        for kind, sides in (("mlm", ("adamw", "muon", "sparse", "sparse-eager", "dense")),
                            ("clm", ("adamw", "muon", "llama", "llama-eager")))
        for dtype in ("float32", "bfloat16")
        for side in sides
    ]  # fmt: skip
    assert all(line["tokens_per_s"] > 0 and line["peak_memory_mb"] > 50 for line in found["lines"])
    assert [(row["kind"], row["dtype"]) for row in found["ratios"]] == [
        (kind, dtype) for kind in ("mlm", "clm") for dtype in ("float32", "bfloat16")
    ]


@pytest.mark.slow
def test_recipes_are_tried_from_end_to_end_and_not_twice(tmp_path):
    options = ["--tokens", 9000, "--work", tmp_path / "work", "--dtype", "float32"]
    found, done = run_script(
        "model_recipes.py", tmp_path, *options, "--only", "bert-1e-3,default,words,words-raw,learned"
    )
    assert found["failed"] == [], done.stderr
    assert [line["cell"] for line in found["lines"]] == ["bert-1e-3", "default", "learned", "words", "words-raw"]
    assert found["tokens"] == 2 * 128 * 32
    assert all(3 < line["loss"] < 8 and line["tokens_per_s"] > 0 for line in found["lines"])
    assert all("equal size" not in one for one in found["wrong"])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "cells").iterdir()}
    (tmp_path / "wiki").rename(tmp_path / "gone")
    (tmp_path / "out.json").unlink()
    again = [sys.executable, BENCHMARKS / "model_recipes.py", "--data", tmp_path, "--out", tmp_path / "out.json"]
    again += ["--mb", found["mb"], "--vocab-size", 320, "--threads", 1, *options, "--only", "default,learned"]
    subprocess.run(list(map(str, again)), capture_output=True, text=True, check=False)
    lines = json.loads((tmp_path / "out.json").read_text())["lines"]
    assert [line["loss"] for line in lines] == [
        line["loss"] for line in found["lines"] if line["cell"] in ("default", "learned")
    ]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "cells").iterdir()} == before


def test_a_cell_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        benchmark("model_recipes").arguments_of(["--data", ".", "--only", "default,nobody"])
    assert "no cell is called nobody" in capsys.readouterr().err


def test_cells_are_called_by_name_or_by_a_beginning():
    script = benchmark("model_recipes")
    assert script.arguments_of(["--data", ".", "--only", "words,bert-1e-3"]).cells == ["bert-1e-3", "words"]
    peers = [name for name, cell in script.CELLS.items() if cell.side == "transformers"]
    assert script.arguments_of(["--data", ".", "--only", "bert"]).cells == peers
    assert script.arguments_of(["--data", "."]).cells == list(script.CELLS)


def test_every_option_of_a_cell_is_one_of_the_command():
    settings = import_module("wordpipe.training.settings").MaskedSettings
    for name, cell in benchmark("model_recipes").CELLS.items():
        if cell.side == "wordpipe":
            given = {key: value for key, value in cell.options.items() if key not in ("init", "init_embeddings")}
            assert settings.make(given), name
            assert cell.options.keys() <= settings.model_fields.keys(), name
