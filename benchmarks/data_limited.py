"""What a transformer of one's own brings when a GPU reads the text many times: the recipe for little text, with its controls.

    python benchmarks/data_limited.py --data DIR --work FOLDER            DIR with wiki/train.txt, sts/ and retrieval/
    python benchmarks/data_limited.py --data DIR --work FOLDER --device cpu --mb 1 --minutes 0.2 --tiny

Writes benchmarks/results/data_limited.json. Made for one GPU of the H100's class, in 13 minutes: every part is one command of
wordpipe in FOLDER; one that is finished is not made again, and one that was stopped goes on, so that a second call ends what a
first one began.

    model     masked training of 6 layers of 384 on a vocabulary of 16,000 for --minutes: weight decay 1, dropout 0.1, masks
              falling from 40 to 20 %, documents in a new order in every pass (Kim et al. 2025: text that is read many times)
              and the mean of the weights of the last tenth
    plain     its control, asked for with --beside plain: the same minutes with the defaults of `train mlm`
    bag       asked for with --beside bag: `model`, which also learns to say from the mean of its hidden states which tokens a
              sequence has (Liu et al. 2023, RetroMAE-2), with the weight 0.3
    context   300 steps of contrast from `model` (`plain-context` from `plain`, `bag-context` from `bag`), batches of
              1,024, rate 1e-4
    static    the table of `train static`, which the transformer must beat; made on the CPU at the same time

What is judged: the static encoder; the transformer; both side by side, unit([static ; g · context]); on the collections also
hybrid search with each, with vectors drawn by chance in place of the context, and with the first 50 answers ordered anew by
MaxSim over the hidden states of the tokens (Khattab and Zaharia 2020). g and the weight of MaxSim are chosen by leaving one
set or collection out; beside them stands the g that the titles and passages of the documents would choose, without judgements,
and what it finds. On each collection the static encoder is trained on its documents, as in benchmarks/retrieval.py; the
transformer has read Wikipedia alone.

Exit code 0: side by side is at least 1 point of Spearman x 100 above the static encoder on SICK, by leaving one set out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.maxsim import maxsim, ordered_anew
from peers.measure import versions
from retrieval import adapted
from sentences import judged_sets
from sides import Bench, Side, by_agreement, left_out
from tokens import first_lines, machine

from wordpipe.artifacts import Artifact
from wordpipe.encoders import TextEncoder
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import spearman, unit_rows
from wordpipe.search import (
    LexicalIndex,
    Retriever,
    VectorTable,
    chance_vectors,
    draw_queries,
    measure,
)
from wordpipe.stages import open_encoder

RESULTS = Path(__file__).parent.absolute() / "results"
SETS = ("stsb-en-dev.csv", "stsb-en-train.csv", "sts12", "SICK_train.txt", "SICK_trial.txt")
COLLECTIONS = ("cacm", "cisi", "cranfield", "npl")
SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)  # g
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8)  # of MaxSim
AGAIN = 50  # answers that MaxSim orders
ABOVE = 1.0
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One command of wordpipe, and whether it goes on beside the next ones."""

    command: str
    beside: bool = False


def parts_of(args: argparse.Namespace) -> dict[str, Part]:
    """Every artifact and its command, in order."""
    shape = "--dim 64 --n-layers 2 --set n_heads=2" if args.tiny else "--dim 384 --n-layers 6 --set n_heads=6"
    batch, pairs, steps = (32, 64, 20) if args.tiny else (2048, 1024, 300)
    mlm = f"train mlm tokens {shape} --seq-len 128 --batch-size {batch} --minutes {args.minutes} --device {args.device}"
    contrast = f"--steps {steps} --batch-size {pairs} --lr 1e-4 --device {args.device}"
    recipe = "--weight-decay 1 --dropout 0.1 --mask-rate 0.4 --set mask_rate_end=0.2 --set average=0.1 --epochs 100"
    beside = {"plain": "--epochs 100", "bag": f"{recipe} --set bag=0.3"}
    parts = {
        "corpus": Part("ingest {text} --documents block --first-line-title"),
        "tokens": Part(f"tokenize corpus --algorithm wordpiece --vocab-size {2000 if args.tiny else 16000}"),
        "static": Part("train static tokens --goal similarity", beside=True),
        "model": Part(f"{mlm} {recipe}"),
        "context": Part(f"train contrastive tokens --init model {contrast}"),
    }
    for name in args.beside:
        parts[name] = Part(f"{mlm} {beside[name]}")
        parts[f"{name}-context"] = Part(f"train contrastive tokens --init {name} {contrast}")
    return parts


def make(parts: dict[str, Part], text: Path, work: Path) -> dict[str, Any]:
    """Make what is missing; of each part the seconds, counts and metrics of its manifest."""
    beside: list[tuple[str, subprocess.Popen[bytes]]] = []
    for name, part in parts.items():
        if (work / name / "manifest.json").exists():
            continue
        words = [word.format(text=text) for word in part.command.split()]
        begun = time.monotonic()
        started = subprocess.Popen([sys.executable, "-m", "wordpipe", *words, "-o", name, "-q"], cwd=work)
        if part.beside:
            beside.append((name, started))
        elif started.wait():
            raise SystemExit(f"{name}: exit code {started.returncode}; call the script again, it goes on from here")
        else:
            print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    for name, started in beside:
        if started.wait():
            raise SystemExit(f"{name}: exit code {started.returncode}; call the script again, it goes on from here")
    kept = ("seconds", "counts", "metrics", "rates")
    manifests = {name: json.loads((work / name / "manifest.json").read_text(encoding="utf-8")) for name in parts}
    return {name: {key: one[key] for key in kept if one.get(key)} for name, one in manifests.items()}


def opened(path: Path, device: str) -> TextEncoder:
    """An encoder of an artifact."""
    with Artifact(path, ["model"]) as artifact:
        return open_encoder(artifact, EmbedSettings.make({"device": device}))


def side_by_side(static: Vectors, context: Vectors, share: float) -> Vectors:
    """unit([static ; g · context]), (N, D + E)."""
    return unit_rows(np.concatenate([static, np.float32(share) * context], axis=1))[0]


# ---- likeness of sentences


def of_sentences(paths: Sequence[Path], static: TextEncoder, contexts: dict[str, TextEncoder]) -> dict[str, Any]:
    """Spearman x 100 on every set, the share chosen by leaving one out; sets of one name's parts count as one."""
    sets, found = judged_sets(paths), {}
    plain = [static.encode(one.texts).vectors for one in sets]
    for name, encoder in contexts.items():
        own = [encoder.encode(one.texts).vectors for one in sets]
        table = {
            share: [
                100 * (spearman(one.cosines(side_by_side(left, right, share)), one.scores) or 0.0)
                for one, left, right in zip(sets, plain, own, strict=True)
            ]
            for share in SHARES
        }
        alone = [100 * (spearman(one.cosines(right), one.scores) or 0.0) for one, right in zip(sets, own, strict=True)]
        lines = {}
        for place, one in enumerate(sets):
            others = [at for at, other in enumerate(sets) if _family(other.name) != _family(one.name)]
            best = max(SHARES, key=lambda share: sum(table[share][at] for at in others))
            lines[one.name] = {
                "static": round(table[0.0][place], 2), "context": round(alone[place], 2), "share": best,
                "both": round(table[best][place], 2),
            }  # fmt: skip
        found[name] = lines
    return found


def _family(name: str) -> str:
    return name.split("_")[0].split("-")[0]


# ---- search


Encode = Callable[[Sequence[str]], Vectors]


def remembered(encode: Encode) -> Encode:
    """The same, but texts that were encoded once are not encoded again."""
    kept: dict[tuple[str, ...], Vectors] = {}

    def of(texts: Sequence[str]) -> Vectors:
        key = tuple(texts)
        if key not in kept:
            kept[key] = encode(texts)
        return kept[key]

    return of


def by_chance(like: Encode) -> Encode:
    """Vectors drawn by chance, as wide as others, by the texts' own bytes."""
    return lambda texts: chance_vectors(len(texts), like(texts).shape[1], zlib.crc32("\n".join(texts).encode()))


class Judged(Bench):
    """A collection with the sides static, each context, and each beside the static one by every share.

    Attributes:
        partners: of each side nDCG@10 of hybrid search for the titles and passages of the documents, without judgements.
    """

    def __init__(self, folder: Path, contexts: Mapping[str, TextEncoder]) -> None:
        self.contexts, self.partners = contexts, dict[str, float]()
        super().__init__(folder, self._sides)

    def _sides(self, folder: Path, collection: Any, lexical: LexicalIndex) -> dict[str, Side]:
        with tempfile.TemporaryDirectory() as work:
            static = opened(adapted(folder, None, Path(work)), "cpu")
        own = remembered(lambda texts: static.encode(texts).vectors)
        found = {"static": own}
        for name, encoder in self.contexts.items():
            context = remembered(lambda texts, encoder=encoder: encoder.encode(texts).vectors)
            found[name] = context
            for kind, encode in ((name, context), (f"{name} by chance", remembered(by_chance(context)))):
                for share in SHARES:
                    found[f"{kind} {share}"] = lambda texts, encode=encode, share=share: side_by_side(
                        own(texts), encode(texts), share
                    )
        drawn = draw_queries(collection.titles, collection.texts)
        cuts = draw_queries([""] * len(collection.texts), collection.texts)
        sides = {}
        for name, encode in found.items():
            documents = encode(collection.passages)
            agreement, figures = measure(drawn, cuts, encode, VectorTable(documents), lexical)
            sides[name] = Side(documents, encode(collection.questions), agreement)
            if figures is not None:
                self.partners[name] = float(figures["hybrid"].mean())
        return sides

    def chosen(self, name: str) -> float:
        """The share that the documents themselves would choose; 0 where they have nothing to ask."""
        return max(SHARES, key=lambda share: (self.partners.get(f"{name} {share}", 0.0), -share))


def of_search(folders: Sequence[Path], contexts: dict[str, TextEncoder]) -> dict[str, Any]:
    """nDCG@10 of hybrid search: static, context, side by side by leave-one-out, the control, and MaxSim."""
    benches = {folder.name: Judged(folder, contexts) for folder in folders}

    def scores_of(name: str) -> dict[str, Any]:
        return {key: bench.asked({name: by_agreement(bench, name)}) for key, bench in benches.items()}

    floor, found = scores_of("static"), {}
    for name, encoder in contexts.items():
        beside = {str(share): scores_of(f"{name} {share}") for share in SHARES}
        drawn = {str(share): scores_of(f"{name} by chance {share}") for share in SHARES}
        again: dict[str, Any] = {str(weight): {} for weight in WEIGHTS}
        for key, bench in benches.items():
            side, asked = bench.sides["static"], bench.collection.questions
            made = Retriever(side.table, bench.lexical, side.agreement)
            hits = [one.hits.first(AGAIN) for one in made.find(asked, side.queries, 100)]
            similar = maxsim(encoder, asked, hits, bench.collection.passages).alike
            for weight in WEIGHTS:
                again[str(weight)][key] = bench.figures(ordered_anew(hits, similar, weight))
        found[name] = {
            "alone": {key: round(100 * float(values.mean()), 2) for key, values in scores_of(name).items()},
            "side_by_side": left_out(beside, floor), "by_chance": left_out(drawn, floor),
            "maxsim": left_out(again, again[str(WEIGHTS[0])]),
            "without_judgements": {
                key: {"share": (own := bench.chosen(name)), "ndcg_at_10": round(100 * float(beside[str(own)][key].mean()), 2)}
                for key, bench in benches.items()
            },
        }  # fmt: skip
    return found


def main(given: list[str] | None = None) -> int:
    """Make, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt, sts and retrieval")
    parser.add_argument("--work", type=Path, required=True, help="a folder that keeps what was made")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0, help="of masked training (default 8)")
    parser.add_argument("--mb", type=float, default=100.0, help="of the text (default 100)")
    parser.add_argument(
        "--beside",
        nargs="*",
        choices=["plain", "bag"],
        default=[],
        help="make these, too, in as many minutes again each",
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, to exercise the script")
    parser.add_argument("--out", type=Path, default=RESULTS / "data_limited.json", metavar="JSON")
    args = parser.parse_args(given)
    args.work.mkdir(parents=True, exist_ok=True)
    text = args.work.absolute() / "text.txt"
    if not text.exists():
        first_lines(args.data / "wiki" / "train.txt", text, round(args.mb * 1e6))
    parts = parts_of(args)
    made = make(parts, text, args.work.absolute())
    static = opened(args.work / "static", "cpu")
    contexts: dict[str, TextEncoder] = {
        name: opened(args.work / name, args.device) for name in parts if name.endswith("context")
    }
    sets = [path for name in SETS if (path := args.data / "sts" / name).exists()]
    folders = [path for name in COLLECTIONS if (path := args.data / "retrieval" / name).exists()]
    result = {
        "machine": machine(), "libraries": versions(["torch", "numpy"]), "mb": args.mb, "minutes": args.minutes, "made": made,
        "sentences": of_sentences(sets, static, contexts), "search": of_search(folders, contexts),
    }  # fmt: skip
    sick = [line for name, line in result["sentences"]["context"].items() if _family(name) == "SICK"]
    above = float(np.mean([line["both"] - line["static"] for line in sick]))
    result["sick_above_static"] = round(above, 2)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"side by side, {above:+.2f} on SICK")
    return 0 if above >= ABOVE else 1


if __name__ == "__main__":
    raise SystemExit(main())
