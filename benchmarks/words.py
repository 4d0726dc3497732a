"""Word vectors against the other libraries: the same words in the same run, every training in a process of its own.

    python benchmarks/words.py --data DIR                           writes benchmarks/results/words.json
    python benchmarks/words.py --data DIR --quick --out FILE        a few MB only, to see that it works
    python benchmarks/words.py --data DIR --only speed,losses --peers gensim-file

DIR holds wiki/train.txt and, for the quality, words/EN-WS-353-ALL.txt, EN-SIMLEX-999.txt and questions-words.txt. The text
is ingested (blank lines part documents) and tokenized once; wordpipe trains on the tokens, the others on a text file of the
same kept words, a document per line. All have 100 dimensions, a window of 5, 5 noise words, subsampling at 1e-3, and the same
learning rate at the start and at the end (fastText's always ends at 0); skip-gram and CBOW. What is measured:

    speed      the largest of --sizes, one epoch (5 with --full), all libraries
    scaling    the smaller sizes; and one thread, on the last but the largest; wordpipe and gensim's corpus_file
    losses     hierarchical softmax and softmax beside negative sampling, with a small vocabulary
    quality    WS-353, SimLex-999, analogies among the 30,000 commonest words, and the loss on held-out text: mean and standard
               deviation over --seeds seeds, 5 epochs on --slice-mb MB; wordpipe and --quality-peers
    long-line  one line of 30,000 words, the last of which occurs nowhere else: is its vector trained?

Words/s are words of the text without the rare ones and before subsampling, times epochs, per second of training. Building the
vocabulary, start-up and scoring held-out text are not counted; loading our compiled code is. Of gensim those words count that
it says it read: its corpus_file path cuts at 10,000 words and reads some parts of the file twice and others never, so what it
trained stands beside, as a share of what it had to. "Whole command" is a process from its start to its end, with the vectors
written; peak memory is the largest resident set of that process, and "beside the matrices" is without the input and output
vectors. fastText gets an environment of its own below --venvs where it is not installed. A library that cannot be had is
reported as skipped, a run that fails as failed: on few different words and fewer than ten threads, as in `losses`, fastText
0.9.3 stops with "Encountered NaN". Exit code 0: all of ours ran, and the last word of the long line is trained.
"""

import argparse
import importlib.metadata
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peers.figures import HERE
from peers.word_bench import GENSIM, LIBRARIES, SUBSAMPLE, Line, WordBench, prepare_peers
from peers.word_figures import SHARES, quality_table, ratios, scaling, spreads, summary, table
from tokens import first_lines, machine, without_paths

RESULTS = Path(__file__).parent.absolute() / "results"
PARTS = ("speed", "scaling", "losses", "quality", "long-line")
SAME = {"dim": 100, "window": 5, "negatives": 5, "subsample": SUBSAMPLE, "min_lr": 1e-4}
LR = {"skipgram": 0.025, "cbow": 0.05}
SETS = {"ws353": "EN-WS-353-ALL.txt", "simlex": "EN-SIMLEX-999.txt", "analogies": "questions-words.txt"}
MEASURES = [*SETS, "held_out_loss"]
ALL_LOSSES = ("ns", "hs", "softmax")
LOSSES = {HERE: ALL_LOSSES, GENSIM: ("ns", "hs"), "gensim-iterable": ("ns", "hs"), "fasttext": ALL_LOSSES}
PADDED = 8  # our rows are padded to a multiple of this
SMALL_VOCABULARY = 60  # least count, per MB, of the words in it
LONG_LINE, LAST_WORD = 30_000, "zzyzx"

Case = dict[str, Any]


def case_of(mb: float, architecture: str, threads: int, epochs: int, min_count: int, loss: str = "ns") -> Case:
    """A training that all libraries are given."""
    return {
        "mb": mb, "architecture": architecture, "loss": loss, "threads": threads, "epochs": epochs, "min_count": min_count,
    }  # fmt: skip


def train_once(bench: WordBench, name: str, case: Case, seed: int, **more: Any) -> Line:
    """One training in a fresh process; its vectors are at `vectors` until the next."""
    vectors = bench.work / "vectors"
    shutil.rmtree(vectors, ignore_errors=True)
    text = more.pop("prepared", None) or bench.text(case["mb"], case["min_count"])
    settings = SAME | {name: case[name] for name in ("architecture", "loss", "epochs", "threads")}
    settings |= {"lr": LR[case["architecture"]], "seed": seed}
    if name != HERE:
        return bench.child(name, name, text=text["text"], keep=str(vectors), **settings, **more)
    options = [
        f"--{key.replace('_', '-')}={value}" for key, value in (settings | {"min_count": case["min_count"]}).items()
    ]
    command = ["train", "word2vec", text["tokens"], "-o", vectors, "--backend", "native", *options]
    seconds, peak = bench.wordpipe(*command)
    found = bench.child(HERE, "trained", words=str(vectors))
    return {"seconds": found["seconds"], "process_seconds": seconds, "process_peak_memory_bytes": peak}


def measure(bench: WordBench, part: str, case: Case, names: list[str], repeats: int) -> list[Line]:
    """One table: every library that can, in turn, there and back again."""
    text = bench.text(case["mb"], case["min_count"])
    dim = -(-SAME["dim"] // PADDED) * PADDED
    case = case | {"part": part, "words": text["words"], "distinct": text["distinct"]}
    runs: dict[str, list[Line]] = defaultdict(list)
    able = [name for name in names if case["loss"] in LOSSES[name]]
    for turn in range(repeats):
        for name in able if turn % 2 == 0 else reversed(able):
            if (run := attempt(bench, name, case, train_once, 1 + turn)) is not None:
                runs[name].append(run)
    matrices = 2 * 4 * text["distinct"] * dim
    return [summary(case | {"matrices_bytes": matrices}, name, runs[name]) for name in able if runs[name]]


def attempt(bench: WordBench, name: str, case: Case, work: Callable[..., Line], *of: Any) -> Line | None:
    """What the work gives; if it fails, that is said and kept."""
    try:
        return work(bench, name, case, *of)
    except RuntimeError as error:
        why = without_paths(str(error), bench)
        what = f"{case['part']} {case['architecture']} {case['loss']} {case['mb']:g} MB"
        print(f"failed {name} {what}: {why}", file=sys.stderr)
        bench.failed.append({"peer": name, "what": what, "why": why})
        return None


def cases(arguments: argparse.Namespace) -> list[tuple[str, Case, bool]]:
    """What is timed: part, case, and whether all libraries are."""
    *smaller, largest = sorted(arguments.sizes)
    threads, least = arguments.threads, arguments.min_count
    found = []
    for way in arguments.architectures:
        epochs = 5 if arguments.full else epochs_for(largest)
        found.append(("speed", case_of(largest, way, threads, epochs, least), True))
        found += [("scaling", case_of(mb, way, threads, epochs_for(mb), least), False) for mb in smaller]
        if smaller and threads > 1:
            found.append(("scaling", case_of(smaller[-1], way, 1, epochs_for(smaller[-1]), least), False))
        small = max(least, round(SMALL_VOCABULARY * min(arguments.sizes)))
        of_losses = [case_of(min(arguments.sizes), way, threads, 5, small, loss) for loss in ALL_LOSSES]
        found += [("losses", case, True) for case in of_losses]
    return [one for one in found if one[0] in arguments.only]


def epochs_for(mb: float) -> int:
    """So many epochs that a small text takes long enough to be timed."""
    return max(1, min(10, round(10 / mb)))


def quality(bench: WordBench, arguments: argparse.Namespace, names: list[str]) -> list[Line]:
    """Every seed of every library, evaluated."""
    sets = {name: str(arguments.data / "words" / file) for name, file in SETS.items()}
    same = [
        case_of(arguments.slice_mb, way, arguments.threads, 5, arguments.min_count) for way in arguments.architectures
    ]
    runs = [
        attempt(bench, name, case | {"part": "quality"}, evaluated, seed, sets)
        for case in same
        for seed in range(1, arguments.seeds + 1)
        for name in names
    ]
    return [run for run in runs if run is not None]


def evaluated(bench: WordBench, name: str, case: Case, seed: int, sets: dict[str, str]) -> Line:
    """One training and its evaluation, which is ours, whoever trained."""
    run = train_once(bench, name, case, seed)
    settings = SAME | {key: case[key] for key in ("architecture", "min_count")}
    task = {"tokens": bench.text(case["mb"], case["min_count"])["tokens"], "min_count": case["min_count"], "sets": sets}
    found = bench.child(HERE, "evaluate", **task, settings=settings, engine=name, vectors=str(bench.work / "vectors"))
    figures = {key: value for key, value in found.items() if not key.startswith("process_")}
    shares = {key: run[key] for key in ("seconds", *SHARES) if key in run}
    return {"engine": name, "architecture": case["architecture"], "mb": case["mb"], "seed": seed, **figures, **shares}


def long_line(bench: WordBench, names: list[str]) -> list[Line]:
    """Which libraries train the last word of a very long line."""
    draw = random.Random(1)
    others = [f"{a}{b}{c}" for a in "bdgklmnprt" for b in "aeiou" for c in "bdgklmnprt"]
    text = bench.work / "long-line.txt"
    text.write_text(" ".join([*(draw.choice(others) for _ in range(LONG_LINE - 1)), LAST_WORD]) + "\n")
    bench.tokenize(text, "long-line", "--documents", "line", "--valid", "0")
    prepared = {"tokens": str(bench.tokens("long-line")), "text": str(text)}
    case = case_of(0, "skipgram", 1, 1, 1) | {"part": "long-line"}
    able = [name for name in names if name != "fasttext"]  # its first vectors cannot be seen
    found = [attempt(bench, name, case, long_line_once, prepared) for name in able]
    return [one for one in found if one is not None]


def long_line_once(bench: WordBench, name: str, case: Case, prepared: dict[str, str]) -> Line:
    """Whether the last word's vector changed, and how much of the line was trained, if the library says so."""
    asked = {} if name == HERE else {"last_word": LAST_WORD}
    run = train_once(bench, name, case, 1, prepared=prepared, **asked)
    if name == HERE:
        run = bench.child(HERE, "long_line", words=str(bench.work / "vectors"), last_word=LAST_WORD, seed=1)
    return {"engine": name, **{key: run[key] for key in ("last_word_changed", "share_trained") if key in run}}


def huge(bench: WordBench, distinct: int, threads: int) -> Line:
    """Our core alone, on so many different words."""
    settings = SAME | {"epochs": 1, "threads": threads, "lr": LR["skipgram"], "min_count": 1}
    task = {"distinct": distinct, "more_words": distinct, "text": str(bench.work / "huge.rows"), "seed": 1}
    found = bench.child(HERE, "huge", settings=settings, **task)
    beside = found["process_peak_memory_bytes"] - found["matrices_bytes"]
    return found | {"memory_beside_matrices_mb": round(beside / 1e6, 1)}


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt and words/")
    parser.add_argument("--out", type=Path, default=RESULTS / "words.json", help="JSON file to write")
    parser.add_argument("--quick", action="store_true", help="3 MB and 2 seeds")
    parser.add_argument("--full", action="store_true", help="5 epochs for the speed on the whole text")
    parser.add_argument("--sizes", help="MB of text (default 1,10,100)")
    parser.add_argument("--slice-mb", type=float, help="MB that the quality is measured on (default 30)")
    parser.add_argument("--seeds", type=int, help="trainings per library for the quality (default 3)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument(
        "--peers",
        default=",".join(name for name in LIBRARIES if name != HERE),
        help="whom to compare with; nobody: --peers=",
    )
    parser.add_argument("--quality-peers", default=GENSIM, help=f"whose quality is measured too (default {GENSIM})")
    parser.add_argument("--architectures", default=",".join(LR), help=f"some of {','.join(LR)}")
    parser.add_argument("--repeat", type=int, default=1, help="how often each speed is measured (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="for all libraries (default 2)")
    parser.add_argument("--min-count", type=int, default=5, help="rarer words are left out, for all (default 5)")
    parser.add_argument(
        "--huge", type=int, nargs="?", const=5_000_000, metavar="WORDS", help="a vocabulary of so many (5 million)"
    )
    parser.add_argument("--limit", type=float, default=1800, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument(
        "--venvs", type=Path, default=Path(tempfile.gettempdir()) / "wordpipe-peers", help="environments"
    )
    parser.add_argument("--scratch", type=Path, help="folder for texts, artifacts and results while it runs")
    arguments = parser.parse_args(given)
    sizes, slice_mb, seeds = ("1,3", 3.0, 2) if arguments.quick else ("1,10,100", 30.0, 3)
    arguments.sizes = [float(size) for size in (arguments.sizes or sizes).split(",")]
    arguments.slice_mb, arguments.seeds = arguments.slice_mb or slice_mb, arguments.seeds or seeds
    for option in ("only", "peers", "quality_peers", "architectures"):
        setattr(arguments, option, [one for one in getattr(arguments, option).split(",") if one])
    for names, known in (
        (arguments.only, PARTS),
        ([*arguments.peers, *arguments.quality_peers], [*LIBRARIES]),
        (arguments.architectures, [*LR]),
    ):
        if unknown := set(names) - set(known):
            parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(known)})")
    return arguments


def timed(bench: WordBench, part: str, work: Callable[..., Any], *of: Any) -> Any:
    """Do a part, and keep how long it took."""
    begun = time.monotonic()
    found = work(bench, *of)
    bench.took[part] = round(bench.took.get(part, 0) + time.monotonic() - begun, 1)
    return found


def everything(bench: WordBench, arguments: argparse.Namespace) -> Line:
    """All that was asked for."""
    names = prepare_peers(bench, [HERE, *(name for name in arguments.peers if name != HERE)])
    few = [name for name in names if name in (HERE, GENSIM)]
    evaluated_names = [name for name in names if name in (HERE, *arguments.quality_peers)]
    timed(bench, "preparing", long_line, [HERE])  # lets numba compile once, which only a first run waits for
    bench.failed.clear()
    lines: list[Line] = []
    for part, case, all_of_them in cases(arguments):
        timed(bench, "preparing", WordBench.text, case["mb"], case["min_count"])
        lines += timed(bench, part, measure, part, case, names if all_of_them else few, arguments.repeat)
    found: Line = {"lines": lines, "ratios": [*ratios(lines)], "scaling": [*scaling(lines)]}
    if "quality" in arguments.only:
        timed(bench, "preparing", WordBench.text, arguments.slice_mb, arguments.min_count)
        found["quality_runs"] = timed(bench, "quality", quality, arguments, evaluated_names)
        found["quality"] = spreads(found["quality_runs"], MEASURES)
    if "long-line" in arguments.only:
        found["long_line"] = timed(bench, "long-line", long_line, names)
    if arguments.huge:
        found["huge"] = timed(bench, "huge", huge, arguments.huge, arguments.threads)
    return found


def faults(bench: WordBench, found: Line) -> list[str]:
    """What of ours is not as it should be."""
    wrong = [f"{one['what']}: {one['why']}" for one in bench.failed if one["peer"] == HERE]
    if any(one["engine"] == HERE and not one["last_word_changed"] for one in found.get("long_line", [])):
        wrong.append(f"the last word of a line of {LONG_LINE:,} was not trained")
    return wrong


def rows_of(found: Line, bench: WordBench) -> Iterator[str]:
    """What is printed."""
    yield from table(found["lines"], bench.versions)
    yield from (json.dumps(row) for row in found["scaling"])
    if "quality" in found:
        yield from quality_table(found["quality"], MEASURES, bench.versions)
    for one in found.get("long_line", []):
        share = f", which trained {one['share_trained']:.1%} of the line" if "share_trained" in one else ""
        changed = "" if one["last_word_changed"] else "not "
        yield f"the last of {LONG_LINE:,} words in a line: {changed}trained by {bench.versions[one['engine']]}{share}"
    if "huge" in found:
        yield json.dumps(found["huge"])
    yield f"seconds: {json.dumps(bench.took)}"


def main(given: list[str] | None = None) -> int:
    """Measure, print the tables, write the JSON."""
    arguments = arguments_of(given)
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="words-bench-") as folder:
        bench = WordBench(Path(folder).absolute(), arguments.venvs.absolute(), arguments.threads, 0, arguments.limit)
        for mb in {*arguments.sizes, *([arguments.slice_mb] if "quality" in arguments.only else [])}:
            bench.texts[mb] = bench.work / f"text-{mb:g}.txt"
            first_lines(arguments.data / "wiki" / "train.txt", bench.texts[mb], round(mb * 1e6))
        found = everything(bench, arguments)
        wrong = faults(bench, found)
    for row in [*rows_of(found, bench), *wrong]:
        print(row)
    arguments.out.write_text(json.dumps(result(bench, found, wrong), indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


def result(bench: WordBench, found: Line, wrong: list[str]) -> Line:
    """What is written."""
    texts = [{"mb": mb, **facts_of(text)} for (mb, _), text in bench.prepared.items()]
    return {
        "ok": not wrong,
        "wrong": wrong,
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "settings": SAME | {"lr": LR},
        "versions": bench.versions,
        "libraries": {name: importlib.metadata.version(name) for name in ("wordpipe", "numba", "numpy", "pyarrow")},
        "texts": texts,
        **found,
        "seconds": bench.took,
        "skipped": bench.skipped,
        "failed": bench.failed,
    }


def facts_of(text: Line) -> Line:
    """What is known of a text, without where it lay and what finding out took."""
    return {
        key: value for key, value in text.items() if key not in ("tokens", "text") and not key.startswith("process_")
    }


if __name__ == "__main__":
    sys.exit(main())
