"""An encoder from elsewhere (`wordpipe import`): equal vectors and speed beside sentence-transformers, and what it brings.

    python benchmarks/borrowed.py --encoder FOLDER --texts TEXT --sts FILE … --retrieval DIR …
                                                        writes benchmarks/results/borrowed.json
    python benchmarks/borrowed.py --encoder FOLDER --texts TEXT --parts speed --count 300 --repeat 1
    python benchmarks/borrowed.py --encoder FOLDER --parts distilled --retrieval DIR … --model2vec FOLDER

Parts that are not measured anew stay as they are in the file.

FOLDER is one that sentence-transformers loads (all-MiniLM-L6-v2). The parts:

    speed       `SentenceTransformer.encode` (batches of 32, its default) against our encoder: the same texts of one to eight
                lines of TEXT, the same threads, in turns in one process; median texts/s, the least processor time (which says
                more where the machine has other work), and the largest difference of any number of any vector (texts longer
                than the model are left out: there we read windows, they cut). And one query in NumPy and in theirs
    sts         Spearman on sets of scored pairs (as `wordpipe evaluate sts` reads them)
    retrieval   nDCG@10 on each collection: BM25, the encoder alone, BM25 and it by reciprocal ranks (k = 60), hybrid search
                with it as `query` answers (its share of the score, feedback on both sides), and hybrid search with random
                vectors, which is the feedback alone. `without` is hybrid search with a static encoder that was taught on the
                same texts, by leave-one-out (benchmarks/results/retrieval.json)
    distilled   the same systems with the table that `train static --goal search --teacher` makes of the encoder and the
                documents of each collection, in defaults alone; with `--model2vec`, a folder that model2vec distilled from the
                same encoder; each table's share of what the encoder brings above BM25, in the mean; texts/s of both, by
                processor time
    adapted     the same systems with what `train contrastive --init` makes of the encoder and the documents, in defaults alone
                (a layer behind it), and with the table that this one teaches
    alike       the sets of --sts with the table that `train static --goal similarity --teacher` makes of the documents (parted
                by empty lines) of --texts

Exit code 0: the vectors agree to 1e-5, and ours is at least 1.4 times as fast, by processor time.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers.embed_sides import mixed_texts, theirs
from tokens import machine

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.encoders import learned_elsewhere
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import QueryFigures, paired_difference
from wordpipe.search import (
    LEARNED_ELSEWHERE,
    ChanceVectors,
    Hits,
    LexicalIndex,
    Retriever,
    VectorTable,
    beir,
    chance_vectors,
    draw_queries,
    measure,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import bundled_encoder, open_collection, open_encoder

RESULTS = Path(__file__).parent.absolute() / "results"
PARTS = ("speed", "sts", "retrieval", "distilled", "adapted", "alike")
SYSTEMS = ("bm25", "bm25_twice", "dense", "rrf", "hybrid", "random", "without")
AGREE, FASTER = 1e-5, 1.4
RRF = 60  # Cormack, Clarke and Büttcher 2009


def main() -> int:
    """Measure; exit code 0 if the figures are as the head of this file says."""
    args = arguments()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "model"
        wordpipe.import_words(args.encoder, output=model)
        parts: dict[str, Any] = {"speed": speed, "sts": sts, "retrieval": retrieval, "distilled": distilled}
        parts |= {"alike": alike, "adapted": adapted}
        found = {part: parts[part](model, args) for part in args.parts}
    misses = []
    if "speed" in found:
        line = found["speed"]
        misses += [f"largest difference {line['largest_difference']:.1e}"] * (line["largest_difference"] > AGREE)
        ratio = line["ratio_of_processor"]
        misses += [f"{ratio} times their speed"] * (ratio < FASTER)
    about = {"machine": machine(), "threads": args.threads, "encoder": args.name or args.encoder.name}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(args.out.read_text()) if args.out.is_file() else {}
    args.out.write_text(json.dumps({**before, **about, **found, "misses": misses}, indent=1) + "\n")
    print("\n".join(misses) or "as fast and as equal as promised")
    return 1 if misses else 0


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description="An encoder from elsewhere, against sentence-transformers and BM25.")
    parser.add_argument("--encoder", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--texts", type=Path, metavar="TEXT", help="a file of one sentence per line, for speed")
    parser.add_argument("--count", type=int, default=1000, help="texts of the speed")
    parser.add_argument("--sts", type=Path, nargs="*", default=[], metavar="FILE", help="sets of scored pairs")
    parser.add_argument("--retrieval", type=Path, nargs="*", default=[], metavar="DIR", help="collections")
    parser.add_argument("--model2vec", type=Path, metavar="FOLDER", help="what model2vec distilled from the encoder")
    parser.add_argument("--dtype", default="float32", help="of the encoder's layers in the part distilled")
    parser.add_argument("--name", help="of the encoder; default: the name of its folder")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="0 = one per core")
    parser.add_argument("--out", type=Path, default=RESULTS / "borrowed.json", metavar="JSON")
    args = parser.parse_args()
    args.threads = args.threads or len(os.sched_getaffinity(0))
    return args


def speed(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Texts per second of both sides, how far their vectors lie apart, and the seconds of one query."""
    import torch

    torch.set_num_threads(args.threads)
    artifact = Artifact(model, ["model"])
    encoder = open_encoder(artifact, EmbedSettings.make({"threads": args.threads}))
    texts = mixed_texts(args.texts, args.count)
    texts = [text for text, length in zip(texts, encoder.lengths(texts), strict=True) if length <= encoder.window]
    their_side = theirs(args.encoder, device="cpu", dtype="float32", batch_size=32)
    sides: dict[str, Callable[[Sequence[str]], Any]] = {
        "wordpipe": lambda some: encoder.encode(some).vectors, "sentence-transformers": their_side,
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    of_processor: dict[str, list[float]] = {name: [] for name in sides}
    vectors = {name: encode(texts[:64]) for name, encode in sides.items()}  # which does not count
    for _ in range(args.repeat):
        for name, encode in sides.items():
            begun, cpu = time.perf_counter(), time.process_time()
            vectors[name] = encode(texts)
            of_processor[name].append(time.process_time() - cpu)
            seconds[name].append(time.perf_counter() - begun)
    one, other = vectors.values()
    rates = {name: round(len(texts) / statistics.median(taken), 1) for name, taken in seconds.items()}
    line = {
        "texts": len(texts), "tokens": round(float(encoder.lengths(texts).mean()), 1), "texts_per_s": rates,
        "ratio": round(rates["wordpipe"] / rates["sentence-transformers"], 3),
        "processor_ms": {name: round(1000 * min(taken) / len(texts), 2) for name, taken in of_processor.items()},
        "ratio_of_processor": round(min(of_processor["sentence-transformers"]) / min(of_processor["wordpipe"]), 3),
        "largest_difference": float(np.abs(one - other).max()), "query_ms": _query_ms(model, their_side),
    }  # fmt: skip
    print(json.dumps(line))
    return line


def _query_ms(model: Path, their_side: Callable[[Sequence[str]], Any]) -> dict[str, float]:
    """Least milliseconds of one query: in NumPy, as `query` reads an index's encoder, and in sentence-transformers."""
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "texts.txt").write_text("one text\nand another\n")
        wordpipe.embed(model, Path(work) / "texts.txt", output=Path(work) / "sentences")
        with Artifact(Path(work) / "sentences") as sentences:
            encoder = bundled_encoder(sentences)
    sides = {
        "wordpipe": lambda text: encoder.for_queries.encode([text]),
        "sentence-transformers": lambda t: their_side([t]),
    }
    found = {}
    for name, ask in sides.items():
        taken = []
        for number in range(30):
            begun = time.perf_counter()
            ask(f"why does the sea have {number} tides in a day")
            taken.append(time.perf_counter() - begun)
        found[name] = round(1000 * min(taken), 2)
    return found


def sts(model: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Spearman of the cosines on each set of scored pairs, with its 95 % interval."""
    lines = []
    for path in args.sts:
        found = wordpipe.evaluate_sts([model], data=path, transform="none", floors=False)
        own = found["systems"][0]["sets"][0]
        lines.append({name: own[name] for name in ("name", "pairs", "spearman", "spearman_interval")})
        print(json.dumps(lines[-1]), flush=True)
    return lines


def retrieval(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The nDCG@10 of each system on each collection, their means, and the difference of hybrid to the sum of ranks."""
    collections, own = {}, len(args.retrieval) > 0
    before = json.loads((RESULTS / "retrieval.json").read_text()) if own else {}
    with Artifact(model, ["model"]) as artifact:
        encoder = open_encoder(artifact, EmbedSettings.make({"threads": args.threads}))
        for folder in args.retrieval:
            scores = _scores(encoder, folder)
            line = {name: round(100 * float(values_Q.mean()), 2) for name, values_Q in scores.items()}
            trained = before.get("leave_one_out", {}).get(folder.name)  # our own static encoder, taught on these texts
            line |= {"without": round(100 * trained["ndcg_at_10"], 2)} if trained else {}
            for floor in ("bm25", "rrf"):
                apart = paired_difference(scores["hybrid"], scores[floor], draws=10_000)
                assert apart is not None
                line[f"hybrid_against_{floor}"] = {
                    "difference": round(100 * apart.mean, 2), "p": round(apart.p, 4),
                    "interval": [round(100 * bound, 2) for bound in apart.interval],
                }  # fmt: skip
            collections[folder.name] = line
            print(folder.name, json.dumps(line), flush=True)
    return {"ndcg_at_10": collections, "mean": _mean(list(collections.values()))}


def _mean(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The mean over collections of every system that all of them have."""
    return {
        name: round(float(np.mean([line[name] for line in lines])), 2)
        for name in SYSTEMS if lines and all(name in line for line in lines)
    }  # fmt: skip


def distilled(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of tables that the encoder taught, and of model2vec's, beside its own."""
    given = {"threads": args.threads}
    opened = given | {"dtype": args.dtype}
    sides: dict[str, dict[str, Any]] = {"teacher": {}, "distilled": {}, **({"model2vec": {}} if args.model2vec else {})}
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        paths = {"teacher": model, "model2vec": Path(work) / "model2vec"}
        if args.model2vec:
            wordpipe.import_words(args.model2vec, output=paths["model2vec"])
        for folder in args.retrieval:
            paths["distilled"] = _taught(folder, model, Path(work) / folder.name, given)
            for side in sides:
                with Artifact(paths[side], ["model"]) as artifact:
                    encoder = open_encoder(artifact, EmbedSettings.make(opened))
                    scores = _scores(encoder, folder)
                    rates[side] = rates.get(side) or _rate(encoder, folder)
                line = {name: round(100 * float(values_Q.mean()), 2) for name, values_Q in scores.items()}
                sides[side][folder.name] = line
                print(folder.name, side, json.dumps(line), flush=True)
        found: dict[str, Any] = {}
        for side, lines in sides.items():
            found[side] = {
                "ndcg_at_10": lines,
                "mean": _mean([*lines.values()]),
                "texts_per_s_of_processor": round(rates[side]),
            }
        gains = {
            side: {way: one["mean"][way] - one["mean"]["bm25"] for way in ("rrf", "hybrid")}
            for side, one in found.items()
        }
        for side, one in found.items():
            one["share_of_gain"] = {way: round(gain / gains["teacher"][way], 3) for way, gain in gains[side].items()}
    return found


def _tokens_of(folder: Path, scratch: Path) -> Path:
    """The tokens of a collection's documents; queries and judgements stay unseen."""
    collection = open_collection(folder)
    scratch.mkdir()
    with (scratch / "documents.jsonl").open("w", encoding="utf-8") as file:
        for title, text in zip(collection.titles, collection.texts, strict=True):
            record = {"title": title, "text": text} if text.strip() else {"text": title}
            if record["text"].strip():
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    wordpipe.ingest(scratch / "documents.jsonl", output=scratch / "corpus")
    return Path(wordpipe.tokenize(scratch / "corpus", output=scratch / "tokens").path)


def _taught(folder: Path, model: Path, scratch: Path, given: dict[str, Any]) -> Path:
    """A table that the encoder taught on the documents of a collection."""
    tokens = _tokens_of(folder, scratch)
    return Path(wordpipe.train_static(tokens, output=scratch / "model", goal="search", teacher=model, **given).path)


def adapted(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of the encoder with a layer that learned the documents, and of the table that this one taught."""
    given = {"threads": args.threads}
    sides: dict[str, dict[str, Any]] = {"adapted": {}, "adapted, distilled": {}}
    for folder in args.retrieval:
        with tempfile.TemporaryDirectory() as work:
            tokens = _tokens_of(folder, Path(work) / folder.name)
            layered = wordpipe.train_contrastive(tokens, output=Path(work) / "adapted", init=model, **given)
            table = wordpipe.train_static(tokens, output=Path(work) / "table", goal="search", teacher=layered, **given)
            for side, made in zip(sides, (layered, table), strict=True):
                with Artifact(made.path, ["model"]) as artifact:
                    scores = _scores(open_encoder(artifact, EmbedSettings.make(given | {"dtype": args.dtype})), folder)
                line: dict[str, Any] = {
                    name: round(100 * float(values_Q.mean()), 2) for name, values_Q in scores.items()
                }
                line |= {"steps": layered.counts["steps"], "held_out": layered.metrics} if side == "adapted" else {}
                sides[side][folder.name] = line
                print(folder.name, side, json.dumps(line), flush=True)
    return {side: {"ndcg_at_10": lines, "mean": _mean([*lines.values()])} for side, lines in sides.items()}


def alike(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Spearman of the table for similarity that the encoder taught on a plain text, and of model2vec's."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        corpus, tokens, taught, theirs = (Path(work) / name for name in ("corpus", "tokens", "taught", "model2vec"))
        wordpipe.ingest(args.texts, output=corpus, documents="block")
        wordpipe.tokenize(corpus, output=tokens)
        given = {"goal": "similarity", "teacher": model, "threads": args.threads}
        made = wordpipe.train_static(tokens, output=taught, **given)
        found["distilled"] = {"counts": made.counts, "seconds": round(made.seconds), "sts": sts(taught, args)}
        if args.model2vec:
            wordpipe.import_words(args.model2vec, output=theirs)
            found["model2vec"] = {"sts": sts(theirs, args)}
    return found


def _rate(encoder: Any, folder: Path) -> float:
    """Texts per second of the processor, by queries of a collection over and over; the second time counts."""
    count = 200 if encoder.kind == "transformer" else 20_000
    texts = (open_collection(folder).questions * count)[:count]
    encoder.encode(texts)
    begun = time.process_time()
    encoder.encode(texts)
    return len(texts) / (time.process_time() - begun)


def _scores(encoder: Any, folder: Path) -> dict[str, Any]:
    """The nDCG@10 of every query of a collection by each system, (Q,)."""
    collection = open_collection(folder)
    lexical = LexicalIndex.build(collection.passages, LexicalSettings())
    documents_ND = encoder.encode(collection.passages).vectors
    queries_QD = encoder.for_queries.encode(collection.questions).vectors
    dense, n = VectorTable(documents_ND), len(collection.passages)
    # the share of its vectors, or how far words and vectors agree, by queries made of the documents
    weight = LEARNED_ELSEWHERE if learned_elsewhere(encoder) else None
    drawn = draw_queries(collection.titles, collection.texts)
    cuts = draw_queries([""] * n, collection.texts)
    agreement, _ = measure(drawn, cuts, lambda texts: encoder.for_queries.encode(texts).vectors, dense, lexical)
    both = lexical.search(collection.questions, 1000), dense.search(queries_QD, 1000)
    by_chance = chance_vectors(len(queries_QD), documents_ND.shape[1], 2**40)
    hits: dict[str, list[Hits]] = {
        "bm25": both[0],
        "bm25_twice": [one.hits for one in Retriever(None, lexical).find(collection.questions, None, 1000)],
        "dense": both[1],
        "rrf": [_by_ranks(pair) for pair in zip(*both, strict=True)],
        "hybrid": [
            one.hits
            for one in Retriever(dense, lexical, agreement, weight).find(collection.questions, queries_QD, 1000)
        ],
        "random": [
            one.hits
            for one in Retriever(ChanceVectors(n, documents_ND.shape[1]), lexical, agreement, weight).find(
                collection.questions, by_chance, 1000
            )
        ],
    }
    place = QueryFigures._fields.index("ndcg_at_10")
    return {
        name: beir.scores(collection, beir.rankings(collection, found, drop_identical=False))[:, place]
        for name, found in hits.items()
    }


def _by_ranks(lists: Sequence[Hits]) -> Hits:
    """Return rows by the sum of 1 / (60 + rank) over lists of hits."""
    total: dict[int, float] = {}
    for hits in lists:
        for rank, row in enumerate(hits.rows.tolist(), 1):
            total[row] = total.get(row, 0.0) + 1 / (RRF + rank)
    rows = sorted(total, key=lambda row: (-total[row], row))
    return Hits(np.array(rows, np.int64), np.array([total[row] for row in rows], np.float32))


if __name__ == "__main__":
    raise SystemExit(main())
