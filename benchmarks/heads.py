"""Heads: labels, tags and answers against transformers from the same folder; and what pre-training brings.

    python benchmarks/heads.py --data DIR --work FOLDER             writes benchmarks/results/heads.json, part by part
    python benchmarks/heads.py --data DIR --work FOLDER --parts heads --sets trec        some parts, some sets

DIR holds wiki/, labelled/ and sts/. What is in FOLDER already is not done again, so a run may be stopped at any time. Parts:

    pretrain    a tokenizer, word vectors and a masked model from the first --mb of Wikipedia, for as many steps as fit into
                --minutes; --model MODEL takes another artifact of train mlm, and --words its word vectors
    heads       SST (binary), SICK's entailment (pairs), TREC (coarse), WNUT-17 (names), XQuAD (answers): `train classifier |
                tagger | reader` from that model and the same by transformers, three seeds each; scores of every measured text
                compared in pairs
    speed       the same trainings for one epoch, ours and theirs in turn, --rounds times; for a quiet machine. The other parts
                may run side by side, each with some of --sets, an --out and --threads 1 of its own: what is kept in FOLDER is
                found by the next run over all sets. With a GPU: --parts heads --device cuda --jobs 6
    gain        SST, TREC and WNUT-17 with 100, 1,000 and all labels: TF-IDF and logistic regression (of names: a gazetteer),
                word vectors, a transformer with its first weights, and the pre-trained one; three draws each
    adapt       a BERT that transformers has written, with a tokenizer of its own, taught SST, TREC and WNUT-17 with and
                without `train mlm` on the texts of that set before

Nothing is chosen on the measured texts (peers/head_data.py says which they are): all settings are the commands' defaults.
Exit code 0: no head is significantly worse than that of transformers by more than half a point, each is at least twice as
fast, and the pre-trained model is ahead where it should be.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from peers.head_data import COMMANDS, FIELDS, MEASURES, SETS, is_out, read_records, some_of, write_records, write_set
from peers.measure import versions
from peers.model_bench import ModelBench
from tokens import first_lines, machine

from wordpipe.heads import calibration_error, chunks_of
from wordpipe.heads.settings import ClassifierSettings, HeadSettings, ReaderSettings, TaggerSettings
from wordpipe.metrics import answer_f1, exact_match, paired_difference, paired_score_difference

Found = dict[str, Any]

RESULTS = Path(__file__).parent.absolute() / "results"
LABELS = (100, 1000, 0)  # 0: all
GAIN = ("sst", "trec", "wnut")
SYSTEMS = {
    "bags": "TF-IDF and logistic regression; gazetteer", "words": "word vectors", "fresh": "transformer, first weights",
    "pretrained": "transformer after train mlm",
}  # fmt: skip
SETTINGS: dict[str, type[HeadSettings]] = {
    "classifier": ClassifierSettings, "tagger": TaggerSettings, "reader": ReaderSettings,
}  # fmt: skip
DROPOUTS = {
    "modernbert": ["embedding_dropout", "attention_dropout", "mlp_dropout", "classifier_dropout"],
    "bert": ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"],
}  # fmt: skip
PROBE_STEPS = 40
ALLOWED, FASTER = 0.005, 2.0


@dataclass
class HeadBench(ModelBench):
    """One run.

    Attributes:
        given: the command line.
    """

    given: argparse.Namespace = field(default_factory=argparse.Namespace)

    @property
    def model(self) -> Path:
        """The pre-trained model."""
        found: Path = self.given.model or self.work / "model"
        return found

    @property
    def words(self) -> Path:
        """The word vectors that it began with."""
        found: Path = self.given.words or self.work / "words"
        return found

    def once(self, name: str, work: str, **task: Any) -> Found:
        """A task in a process of its own, unless this folder has what it found."""
        kept = self.work / "done" / f"{name}.json"
        if kept.exists():
            found: Found = json.loads(kept.read_text())
            return found
        begun = time.monotonic()
        found = self.child(name, work, threads=self.threads, **task)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
        return found

    def make(self, name: str, *words: object) -> Path:
        """An artifact of ours, unless it is there."""
        out = self.work / name
        if not (out / "manifest.json").exists():
            self.wordpipe(name, *words, "-o", out)
        return out

    def corpus(self, name: str, key: str) -> Path:
        """The corpus of a file of records."""
        return self.make(f"corpus-{key}", "ingest", self.work / f"{key}.jsonl", "--valid", 0, *FIELDS[name])

    def settings(self, name: str, key: str, seed: int, *, words: bool = False) -> Found:
        """The defaults of a set's command, for both sides; of a transformer with the epochs and the rate that follow."""
        given = {
            "seed": seed,
            "threads": self.threads,
            "device": self.given.device,
            "dtype": self.dtype,
            **self.shorter,
        }
        chosen = SETTINGS[COMMANDS[name]].make(given)
        if not words:
            records = read_records(self.work / f"{key}.jsonl")
            chosen = chosen.of_transformer(sum(not is_out(name, one, chosen.held_out) for one in records))
        return chosen.model_dump(include={*given} | _SHARED)

    @property
    def dtype(self) -> str:
        """float32 on a GPU, as transformers has it here; else the command's default."""
        return "auto" if self.given.device == "cpu" else "float32"

    @property
    def shorter(self) -> Found:
        """What --tiny makes of a training."""
        return {"epochs": 1} if self.given.tiny else {}

    def ours(self, name: str, key: str, init: Path, seed: int, label: str, **more: Any) -> Found:
        """One training of ours on the records of a key."""
        settings = self.settings(name, key, seed, words=init == self.words) | {"init": str(init)} | more
        return self.once(
            f"{label}-{seed}", "train_ours", command=COMMANDS[name], corpus=str(self.corpus(name, key)), settings=settings,
            out=str(self.work / "heads" / f"{label}-{seed}"), test=str(self.work / f"{name}-test.jsonl"),
        )  # fmt: skip

    def theirs(self, name: str, key: str, seed: int, label: str, **more: Any) -> Found:
        """The same training by transformers."""
        kind = json.loads((self.model / "config.json").read_text())["model_type"]
        settings = self.settings(name, key, seed) | more
        return self.once(
            f"{label}-{seed}", "train_theirs", set=name, command=COMMANDS[name], settings=settings,
            model=str(self.model), train=str(self.work / f"{key}.jsonl"), test=str(self.work / f"{name}-test.jsonl"),
            max_len=self.given.max_len, dropouts=DROPOUTS[kind],
        )  # fmt: skip

    def write(self, name: str) -> dict[str, int]:
        """The records of a set; with --tiny some of them."""
        counts = write_set(name, self.data, self.work)
        if self.given.tiny:
            for part in counts:
                path = self.work / f"{name}-{part}.jsonl"
                write_records(some_of(read_records(path), 60, 0), path)
        return counts


_SHARED = {
    "epochs", "lr", "batch_size", "held_out", "layer_decay", "warmup", "weight_decay", "dropout", "evaluations", "seed",
}  # fmt: skip


def pretrain(bench: HeadBench) -> Found:
    """Tokenizer, word vectors and a masked model."""
    text = bench.work / "wiki.txt"
    if not text.exists():
        first_lines(bench.data / "wiki" / "train.txt", text, round(bench.given.mb * 1e6))
    corpus = bench.make("corpus", "ingest", text, "--documents", "block", "--first-line-title")
    tokens = bench.make("tokens", "tokenize", corpus, "--vocab-size", 300 if bench.given.tiny else 16_000)
    words = bench.make("words", "train", "word2vec", tokens, "--dim", 256, "--unit", "token")
    same = ["train", "mlm", tokens, "--preset", "mini", "--init-embeddings", words, "--threads", bench.threads]
    if not (bench.model / "manifest.json").exists():
        probe = bench.wordpipe("probe", *same, "--steps", PROBE_STEPS, "-o", bench.work / "probe")
        steps = max(PROBE_STEPS, round(bench.given.minutes * 60 * probe["rates"]["tokens_per_s"] / (32 * 128)))
        bench.wordpipe("model", *same, "--steps", steps, "-o", bench.model)
    manifest = json.loads((bench.model / "manifest.json").read_text())
    chosen = ("steps", "tokens_seen", "parameters", "valid_loss", "loss", "tokens_train")
    figures = manifest["counts"] | manifest["metrics"]
    return {"mb": bench.given.mb, "seconds": manifest["seconds"], "figures": {k: figures[k] for k in chosen if k in figures},
            "settings": {k: manifest["settings"][k] for k in ("preset", "steps") if k in manifest["settings"]}}  # fmt: skip


def heads(bench: HeadBench) -> Found:
    """All sets by both sides."""
    found: Found = {}
    for name in bench.given.sets:
        counts, key = bench.write(name), f"{name}-train"
        bench.corpus(name, key)
        seeds = range(1, bench.given.seeds + 1)
        with ThreadPoolExecutor(bench.given.jobs) as pool:
            waiting = {
                "ours": [pool.submit(bench.ours, name, key, bench.model, seed, f"{name}-ours") for seed in seeds],
                "theirs": [pool.submit(bench.theirs, name, key, seed, f"{name}-theirs") for seed in seeds],
            }
            runs = {side: [one.result() for one in some] for side, some in waiting.items()}
        test = read_records(bench.work / f"{name}-test.jsonl")
        found[name] = {"texts": counts, "measure": MEASURES[name]} | compared(name, runs, test)
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr)
    return found


def compared(name: str, runs: dict[str, list[Found]], test: list[Found]) -> Found:
    """Scores of both sides, and how far apart they are."""
    parts = {side: [statistics_of(name, one["said"], test) for one in some] for side, some in runs.items()}
    found: Found = {}
    for side, some in runs.items():
        scores = [score_of(name, one) for one in parts[side]]
        found[side] = {
            "scores": [round(one, 4) for one in scores], "mean": round(statistics.fmean(scores), 4),
            "peak_memory_bytes": max(one["peak_memory_bytes"] for one in some),
        }  # fmt: skip
        if name == "xquad":
            exact = [exact_match(one["said"], answers_of(test), normalised=True).mean() for one in some]
            found[side]["exact_match"] = round(float(np.mean(exact)), 4)
    one, other = (np.sum(parts[side], axis=0) for side in ("ours", "theirs"))
    if name == "wnut":
        apart = paired_score_difference(one, other, span_f1)
    else:
        apart = paired_difference(one[:, 0] / len(runs["ours"]), other[:, 0] / len(runs["theirs"]))
    assert apart is not None
    found["difference"] = {"mean": round(apart.mean, 4), "interval": [round(bound, 4) for bound in apart.interval]}
    if sure := [one["sure"] for one in runs["ours"] if one.get("sure")]:
        right = [statistics_of(name, one["said"], test)[:, 0] for one in runs["ours"]]
        found["ours"]["calibration_error"] = round(
            float(np.mean([calibration_error(np.array(a), b > 0) for a, b in zip(sure, right, strict=True)])), 4
        )
    return found


def speed(bench: HeadBench) -> Found:
    """Seconds of an epoch by both sides, held-out texts included."""
    found: Found = {}
    for name in bench.given.sets:
        bench.write(name)
        key, runs = f"{name}-train", dict[str, list[Found]](ours=[], theirs=[])
        for turn in range(1, bench.given.rounds + 1):
            runs["ours"].append(bench.ours(name, key, bench.model, turn, f"{name}-speed-ours", epochs=1))
            runs["theirs"].append(bench.theirs(name, key, turn, f"{name}-speed-theirs", epochs=1))
        found[name] = {
            side: {kind: [round(one[kind], 2) for one in some] for kind in ("seconds", "predicting")}
            for side, some in runs.items()
        }
        for kind, says in (("seconds", "times_as_fast"), ("predicting", "predicting_times_as_fast")):
            middle = {side: statistics.median(one[kind] for one in some) for side, some in runs.items()}
            found[name][says] = round(middle["theirs"] / middle["ours"], 2)
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr)
    return found


def statistics_of(name: str, said: Sequence[Any], test: list[Found]) -> np.ndarray:
    """What each text adds to the score, (N, 1): right or its F1; of spans (N, 3): right, given, there."""
    if name == "wnut":
        rows = []
        for tags, record in zip(said, test, strict=True):
            one, other = {*chunks_of(tags)}, {*chunks_of(record["tags"])}
            rows.append([len(one & other), len(one), len(other)])
        return np.array(rows, np.float64)
    if name == "xquad":
        return np.asarray(answer_f1(said, answers_of(test)), np.float64)[:, None]
    return np.array([[label == one["label"]] for label, one in zip(said, test, strict=True)], np.float64)


def answers_of(test: list[Found]) -> list[list[str]]:
    """The accepted answers of each question."""
    return [[one["text"][span["start"] : span["end"]] for span in one["spans"]] for one in test]


def score_of(name: str, rows: np.ndarray) -> float:
    """The score of a whole set."""
    return float(span_f1(rows.sum(0, keepdims=True))[0]) if name == "wnut" else float(rows.mean())


def span_f1(sums_B3: np.ndarray) -> np.ndarray:
    """F1 of spans, (B,)."""
    found: np.ndarray = 2 * sums_B3[:, 0] / np.maximum(1, sums_B3[:, 1] + sums_B3[:, 2])
    return found


def gain(bench: HeadBench) -> Found:
    """Systems by number of labels."""
    found: Found = {}
    for name in [one for one in GAIN if one in bench.given.sets]:
        bench.write(name)
        train, test = (read_records(bench.work / f"{name}-{part}.jsonl") for part in ("train", "test"))
        for number in LABELS:
            rows: dict[str, list[float]] = {system: [] for system in SYSTEMS}
            seconds: dict[str, list[float]] = {system: [] for system in SYSTEMS}
            for seed in range(1, bench.given.seeds + 1):
                key = f"{name}-train"
                if number:
                    key = f"{name}-{number}-{seed}"
                    write_records(some_of(train, number, seed), bench.work / f"{key}.jsonl")
                for system in SYSTEMS:
                    said = system_of(bench, name, key, seed, system, number)
                    rows[system].append(score_of(name, statistics_of(name, said["said"], test)))
                    seconds[system].append(said["seconds"])
            found[cell := f"{name}-{number or 'all'}"] = {
                system: {"scores": [round(one, 4) for one in scores], "mean": round(statistics.fmean(scores), 4),
                         "seconds": round(statistics.median(seconds[system]), 2)}
                for system, scores in rows.items()
            }  # fmt: skip
            print(f"{cell}: {found[cell]}", file=sys.stderr)
    return found


def system_of(bench: HeadBench, name: str, key: str, seed: int, system: str, number: int) -> Found:
    """What one system says."""
    if system == "bags":
        files = {part: str(bench.work / f"{one}.jsonl") for part, one in (("train", key), ("test", f"{name}-test"))}
        return bench.once(f"{key}-bags-{seed}", "gazetteer" if name == "wnut" else "bags", **files)
    if system == "words":
        return bench.ours(name, key, bench.words, seed, f"{key}-words")
    if system == "pretrained":
        label = f"{key}-pretrained" if number else f"{name}-ours"  # those of the part heads
        return bench.ours(name, key, bench.model, seed, label)
    start = bench.work / f"fresh-{seed}"
    if not (start / "model.safetensors").exists():
        bench.child(f"fresh-{seed}", "fresh_start", model=str(bench.model), out=str(start), seed=seed)
    return bench.ours(name, key, start, seed, f"{key}-fresh")


def adapt(bench: HeadBench) -> Found:
    """A BERT of transformers, with and without the middle step."""
    vocabulary = bench.make(
        "bert-tokens", "tokenize", bench.work / "corpus", "--algorithm", "wordpiece",
        "--vocab-size", 300 if bench.given.tiny else 16_000,
    )  # fmt: skip
    begun = bench.make(
        "bert-model", "train", "mlm", vocabulary, "--preset", "mini", "--style", "classic", "--set", "ffn_dim=576",
        "--init-embeddings", bench.make("bert-words", "train", "word2vec", vocabulary, "--dim", 256, "--unit", "token"),
        "--steps", PROBE_STEPS if bench.given.tiny else bench.given.bert_steps, "--threads", bench.threads,
    )  # fmt: skip
    public = bench.work / "bert-public"
    if not (public / "config.json").exists():
        bench.child("bert-public", "written_by_transformers", model=str(begun), out=str(public))
    found: Found = {}
    for name in [one for one in GAIN if one in bench.given.sets]:
        bench.write(name)
        key, plain = f"{name}-train", bench.work / f"{name}-texts.txt"
        texts = [one["text"] for one in read_records(bench.work / f"{key}.jsonl")]
        plain.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        corpus = bench.make(f"{name}-texts", "ingest", plain, "--documents", "line")
        read = bench.make(f"{name}-bert-tokens", "tokenize", corpus, "--tokenizer", public)
        adapted = bench.make(
            f"{name}-adapted", "train", "mlm", read, "--init", public, "--epochs", 1 if bench.given.tiny else 10,
            "--lr", bench.given.adapt_lr, "--threads", bench.threads,
        )  # fmt: skip
        test, rows = read_records(bench.work / f"{name}-test.jsonl"), dict[str, list[np.ndarray]]()
        bench.corpus(name, key)
        seeds, starts = range(1, bench.given.seeds + 1), {"as it was": public, "adapted": adapted}
        with ThreadPoolExecutor(bench.given.jobs) as pool:
            waiting = {
                says: [
                    pool.submit(bench.ours, name, key, start, seed, f"{name}-bert-{says.split()[0]}") for seed in seeds
                ]
                for says, start in starts.items()
            }
        for says, futures in waiting.items():
            some = [one.result() for one in futures]
            rows[says] = [statistics_of(name, one["said"], test) for one in some]
        one, other = (np.sum(rows[says], axis=0) for says in ("adapted", "as it was"))
        apart = paired_score_difference(one, other, span_f1) if name == "wnut" else None
        apart = apart or paired_difference(one[:, 0] / bench.given.seeds, other[:, 0] / bench.given.seeds)
        assert apart is not None
        found[name] = {says: [round(score_of(name, one), 4) for one in some] for says, some in rows.items()} | {
            "difference": {"mean": round(apart.mean, 4), "interval": [round(bound, 4) for bound in apart.interval]}
        }
        print(f"{name}: {found[name]}", file=sys.stderr)
    return {"sets": found, "steps": bench.given.bert_steps}


PARTS: dict[str, Callable[[HeadBench], Found]] = {
    "pretrain": pretrain, "heads": heads, "speed": speed, "gain": gain, "adapt": adapt,
}  # fmt: skip


def rows(parts: dict[str, Found]) -> Iterator[str]:
    """The tables in Markdown."""
    if part := parts.get("heads"):
        yield "| set | measure | ours | transformers | difference, 95 % |"
        yield "|---|---|---:|---:|---:|"
        for name in [one for one in SETS if one in part]:
            one = part[name]
            low, high = (100 * bound for bound in one["difference"]["interval"])
            yield (
                f"| {name} | {one['measure']} | {100 * one['ours']['mean']:.1f} | {100 * one['theirs']['mean']:.1f} | "
                f"{100 * one['difference']['mean']:+.1f} ({low:+.1f} to {high:+.1f}) |"
            )
    if part := parts.get("speed"):
        yield "| set | seconds of an epoch, ours | transformers | times as fast | predicting, times as fast |"
        yield "|---|---:|---:|---:|---:|"
        for name in [one for one in SETS if one in part]:
            seconds = (f"{statistics.median(part[name][side]['seconds']):.1f}" for side in ("ours", "theirs"))
            both = (str(part[name][one]) for one in ("times_as_fast", "predicting_times_as_fast"))
            yield f"| {name} | {' | '.join((*seconds, *both))} |"
    if part := parts.get("gain"):
        yield f"| set, labels | {' | '.join(SYSTEMS.values())} |"
        yield f"|---|{'---:|' * len(SYSTEMS)}"
        for name in [f"{one}-{number or 'all'}" for one in GAIN for number in LABELS]:
            if name in part:
                means = (f"{100 * part[name][one]['mean']:.1f}" for one in SYSTEMS)
                yield f"| {name} | {' | '.join(means)} |"
    if part := parts.get("adapt"):
        yield "| set | BERT as it was | adapted | difference, 95 % |"
        yield "|---|---:|---:|---:|"
        for name, one in part["sets"].items():
            low, high = (100 * bound for bound in one["difference"]["interval"])
            means = (f"{100 * statistics.fmean(one[says]):.1f}" for says in ("as it was", "adapted"))
            yield f"| {name} | {' | '.join(means)} | {100 * one['difference']['mean']:+.1f} ({low:+.1f} to {high:+.1f}) |"


def faults(parts: dict[str, Found]) -> Iterator[str]:
    """What is not as it should be."""
    for name, one in parts.get("heads", {}).items():
        if name not in SETS:
            continue
        if one["difference"]["interval"][1] < 0 and one["difference"]["mean"] < -ALLOWED:
            yield f"{name}: {100 * one['difference']['mean']:+.1f} points against transformers"
    for name, one in parts.get("speed", {}).items():
        if name in SETS and one["times_as_fast"] < FASTER:
            yield f"{name}: {one['times_as_fast']} times as fast, less than {FASTER:g}"
    for name, one in parts.get("gain", {}).items():
        if isinstance(one, dict) and "fresh" in one and one["pretrained"]["mean"] <= one["fresh"]["mean"]:
            yield f"{name}: pre-training brings nothing"
    for name in ("sst-all", "trec-all"):
        one = parts.get("gain", {}).get(name)
        if one and one["pretrained"]["mean"] <= one["bags"]["mean"]:
            yield f"{name}: not ahead of TF-IDF"


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is made while it runs; it is kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "heads.json", help="JSON file to write, part by part")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them (default all)")
    parser.add_argument("--sets", default=",".join(SETS), help="some of them (default all)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of the part speed (default 3)")
    parser.add_argument("--mb", type=float, default=100, help="of Wikipedia to learn from first (default 100)")
    parser.add_argument("--minutes", type=float, default=120, help="of training the masked model (default 120)")
    parser.add_argument("--bert-steps", type=int, default=1500, help="of the BERT that is adapted (default 1500)")
    parser.add_argument("--adapt-lr", type=float, default=5e-4, help="learning rate of the middle step (default 5e-4)")
    parser.add_argument(
        "--max-len", type=int, default=128, help="tokens of a text that transformers reads (default 128)"
    )
    parser.add_argument("--model", type=Path, help="a model of train mlm, instead of one of the part pretrain")
    parser.add_argument("--words", type=Path, help="its word vectors")
    parser.add_argument("--threads", type=int, default=2, help="of all sides (default 2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of all sides, in float32 on cuda")
    parser.add_argument(
        "--jobs", type=int, default=1, help="trainings at once in the parts heads and adapt (default 1)"
    )
    parser.add_argument("--tiny", action="store_true", help="few texts and short trainings, to see that it works")
    parser.add_argument(
        "--limit", type=float, default=14_400, metavar="SECONDS", help="kill a process that takes longer"
    )
    arguments = parser.parse_args(given)
    for name, known in (("parts", PARTS), ("sets", SETS)):
        setattr(arguments, name, getattr(arguments, name).split(","))
        if unknown := {*getattr(arguments, name)} - {*known}:
            parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(known)})")
    return arguments


def device_of(arguments: argparse.Namespace) -> str:
    """What computed: cpu, or the GPU's name."""
    if arguments.device == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name()


def main(given: list[str] | None = None) -> int:
    """Measure, print the tables, write the JSON."""
    arguments = arguments_of(given)
    bench = HeadBench(
        arguments.data.absolute(), arguments.work.absolute(), arguments.threads, arguments.limit, given=arguments
    )
    bench.work.mkdir(parents=True, exist_ok=True)
    result: Found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"parts": {}}
    for name in arguments.parts:
        where = {"machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
                 "device": device_of(arguments), "threads": arguments.threads,
                 "libraries": versions(["wordpipe", "torch", "transformers", "tokenizers", "scikit-learn"])}  # fmt: skip
        result["parts"][name] = result["parts"].get(name, {}) | PARTS[name](bench) | where
        text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
        arguments.out.write_text(text.replace(f"{bench.work}/", "").replace(f"{bench.data}/", "DIR/"))
    found = {name: result["parts"][name] for name in arguments.parts}
    wrong = [] if arguments.tiny else list(faults(found))
    for row in [*rows(found), *wrong]:
        print(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
