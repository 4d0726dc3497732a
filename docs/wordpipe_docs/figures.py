"""Tables of figures, in Markdown, from the files under benchmarks/results; each names its file and its processor.

README has some of them in its text; `tests/test_docs.py` holds that they are what these functions give.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from wordpipe.words.settings import defaults_for

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results"
_SETS = {
    "stsb-en-dev": "STS-B dev", "stsb-en-train": "STS-B train", "sts12": "STS 2012 without MSRvid", "SICK_train": "SICK train",
}  # fmt: skip
_COLLECTIONS = {"cacm": "CACM", "cisi": "CISI", "cranfield": "Cranfield", "npl": "NPL"}
_PDF_TEXTS = {
    "wordpipe": "paragraphs in reading order, headings, rows of tables; no headers and footers",
    "pypdfium2": "characters in the order of the file",
    "pypdf": "lines",
    "pdfminer.six": "lines and boxes",
}
_GB = 1000
_NUMBER = re.compile(r"[*+-]*[\d–]|$")


def result(name: str) -> Any:
    """A file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table, columns of numbers to the right."""
    names, lines = [*head], [[str(cell) for cell in row] for row in rows]
    columns = [[line[at] for line in lines] for at in range(len(names))]
    rule = ["---:" if all(_NUMBER.match(cell) for cell in column) else "---" for column in columns]
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, rule, *lines))


def source(name: str, script: str = "", found: Any = None) -> str:
    """Where figures come from."""
    machine = (found or result(name)).get("machine", {})
    cpu = machine.get("cpu", "processor not noted")
    load = machine.get("load_at_the_end", 0)
    busy = f", busy with other work: load {load:g}" if load > 1.5 * machine.get("cores", 2) else ""
    by = f", made by `benchmarks/{script or name}.py`" if script != "-" else ""
    return f"Source: `benchmarks/results/{name}.json`{by} ({cpu}, {machine.get('cores', 2)} cores{busy})."


def how_long() -> str:
    """Minutes, memory and disk of the usual chain for 1 and 5 GB of text."""
    found = result("sizes")
    mb, rows = found["mb"], []
    for line in found["lines"]:
        least = line["seconds"]
        times = [_duration(least * size / mb) for size in (_GB, 5 * _GB)]
        disk = f"{line['disk_bytes'] / 1e9 * _GB / mb:.1f} GB"
        rows.append(
            [f"`{line['command'].partition(' {text}')[0].removesuffix(' corpus')}`", f"{least:.0f} s", *times, disk]
        )
    total = sum(line["seconds"] for line in found["lines"])
    disk = sum(line["disk_bytes"] for line in found["lines"]) / 1e9 * _GB / mb
    times = [_duration(total * size / mb) for size in (_GB, 5 * _GB)]
    rows.append(["all", f"{total:.0f} s", *times, f"{disk:.1f} GB"])
    return table(["", f"{mb:.0f} MB, measured", "1 GB", "5 GB", "disk for 1 GB"], rows)


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 1 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def how_long_memory() -> str:
    """The largest memory of any stage of the usual chain, and of what."""
    found = result("sizes")
    most = max(found["lines"], key=lambda line: line["peak_memory_bytes"])
    memory = most["peak_memory_bytes"] / 1e9
    text = (
        f"All artifacts together take {found['times_the_text']:g} times the text on the disk; files that they share count "
        f"once. `{most['command'].split(' --')[0]}` needed the most memory of these commands, {memory:.1f} GB. A query from "
        f"the shell takes {found['query']['seconds']:g} s, including the start of the program. "
        + (f"Times and memory are those of {found['seconds_of']}. " if "seconds_of" in found else "")
        + source("sizes", found=found)
    )
    return textwrap.fill(text, 124, break_on_hyphens=False, break_long_words=False)


def which_encoder() -> str:
    """What each encoder is for, at what speed, and what it was worth."""
    sts, retrieval, speed = result("sentences"), result("retrieval"), result("embed")["lines"]
    rate = {line["part"]: line["texts_per_s"]["wordpipe"] for line in speed if "texts_per_s" in line}
    found = 100 * sts["parts"]["static"]["metrics"]["spearman"]
    floor = 100 * sts["tfidf"]["metrics"]["spearman"]
    static, small = f"{rate['static']:,.0f}", f"{rate['4x256']:,.0f}"
    rows = [
        [
            "to search your texts (start here)", "`train static --goal search`", static,
            f"nDCG@10 {100 * _left_out(retrieval):.1f}; BM25 {100 * retrieval['mean']['bm25']:.1f}, "
            f"BM25 searched twice {100 * retrieval['controls']['mean']['bm25_twice']:.1f}",
        ],
        *_brought_encoders(static, f"{rate['6x384']:,.0f}"),
        [
            "to compare sentences, find duplicates", "`train static --goal similarity`", static,
            f"Spearman {found:.1f}, TF-IDF {floor:.1f}",
        ],
        ["to compare words", "`train word2vec`", "–", _word_quality()],
        [
            "words in context: fill, generate; better with a GPU", "`train mlm`, `train clm`", small,
            _recipe_quality(),
        ],
        ["to sort texts, find names, answers", "`train classifier`, `tagger`, `reader`", small, _head_quality()],
        ["to translate, to write titles or answers", "`train seq2seq`", "–", _translation_quality()],
    ]  # fmt: skip
    return table(["you want", "take", "texts/s, 2 cores", "worth"], rows)


def _brought_encoders(static: str, transformer: str) -> list[list[str]]:
    """What an encoder that others trained is worth, and a table that it taught, which are as fast as others of their kinds."""
    found = result("borrowed")["distilled"]
    worth = [f"nDCG@10 {found[side]['mean']['hybrid']:.1f}" for side in ("teacher", "distilled")]
    return [
        ["the same with an encoder from elsewhere", "`import FOLDER`", transformer, worth[0]],
        ["a table that such an encoder taught", "`train static --teacher`", static, worth[1]],
    ]


def _translation_quality() -> str:
    found = result("seq2seq")["parts"]["multi30k"]
    return f"BLEU {found['evaluation']['metrics']['bleu_lc']:.1f} from {found['training']['counts']['pairs_train']:,} pairs"


def _head_quality() -> str:
    found = result("heads")["parts"]["gain"]["trec-all"]
    return f"kinds of questions {100 * found['pretrained']['mean']:.1f} %, TF-IDF {100 * found['bags']['mean']:.1f} %"


def _word_quality() -> str:
    ours = next(
        line
        for line in result("words")["quality"]
        if (line["engine"], line["architecture"]) == ("wordpipe", "skipgram")
    )
    return f"WS-353 {100 * ours['ws353']['mean']:.1f} from 30 MB"


def _recipe_quality() -> str:
    lines = {line["cell"]: line["loss"] for line in result("model_recipes")["lines"]}
    return f"held-out loss {lines['default']:.2f}, BERT {lines['bert-2e-3-warm']:.2f}, on 20 MB"


def word_defaults() -> str:
    """What word2vec takes by itself for a text of some size: from the code."""
    bounds = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 100_000_000)
    rows = [[f"below {below:,}", *defaults_for(below - 1).values()] for below in bounds]
    rows.append(["more", *defaults_for(bounds[-1]).values()])
    return table(["words of the text", "`window`", "`epochs`", "`min_count`"], rows)


def tokens() -> str:
    """Training and applying tokenizers, beside other programs."""
    found = result("tokens")
    versions = found["versions"]
    cells = [(part, algorithm) for part in ("train", "encode") for algorithm in ("bpe", "wordpiece")]
    lines = {
        (one["engine"], one["part"], one["algorithm"]): f"{one['seconds']:.1f} s, {one['peak_memory_mb']:.0f} MB"
        for one in found["lines"] if one["mb"] == 100
    }  # fmt: skip
    rows = [[name, *(lines.get((engine, *cell), "–") for cell in cells)] for engine, name in versions.items()]
    wanted = ("stage", "bpe", 100)
    whole = {one["engine"]: one for one in found["lines"] if (one["part"], one["algorithm"], one["mb"]) == wanted}
    ours, theirs = whole["wordpipe"], whole["hf"]
    text = (
        f"The whole command, from corpus to tokens with words and counts, takes {ours['seconds']:.1f} s and "
        f"{ours['peak_memory_mb']:.0f} MB. A script that does the same with tokenizers takes {theirs['seconds']:.0f} s and "
        f"{theirs['peak_memory_mb']:.0f} MB."
    )
    head = ["100 MB of Wikipedia", "train BPE", "train WordPiece", "encode BPE", "encode WordPiece"]
    return f"{table(head, rows)}\n\n{text} {source('tokens', found=found)}"


def pdf_speed() -> str:
    """Pages of PDF a second and core, beside other libraries."""
    found = result("pdf_speed")
    least = min(found["files"], key=lambda one: one["pages"] / one["seconds"]["wordpipe"])
    rows = [
        [f"{name} {found['libraries'][name]}", _PDF_TEXTS[name], f"{rate:,.0f}"]
        for name, rate in found["pages_per_s"].items()
    ]
    text = (
        f"{found['pages']:,} pages in {len(found['files'])} manuals, processor time of one core, the best of "
        f"{found['repeats']} runs. wordpipe reads the slowest file, {least['name']}, at "
        f"{least['pages'] / least['seconds']['wordpipe']:,.0f} pages a second. {source('pdf_speed', found=found)}"
    )
    return f"{table(['PDF', 'text', 'pages/s'], rows)}\n\n{text}"


def exactness() -> str:
    """How many ids were compared with those of tokenizers."""
    found = result("exactness")
    ids = sum(one["ids"] for one in found["results"])
    differ = sum(one["lines_that_differ"] for one in found["results"])
    return (
        f"wordpipe and tokenizers {found['tokenizers']} were compared in {found['files']} files, with {len(found['results'])} "
        f"kinds of tokenizer and {ids:,} ids. {differ} lines differ. "
        f"{source('exactness', found=found)}"
    )


def words() -> str:
    """Speed and quality of word2vec, beside other programs."""
    found = result("words")
    speed = {
        (one["engine"], one["architecture"]): one
        for one in found["lines"]
        if (one["part"], one["mb"]) == ("speed", 100)
    }
    quality = {(one["engine"], one["architecture"]): one for one in found["quality"]}
    rows = []
    for engine, name in found["versions"].items():
        cells = [f"{speed[engine, kind]['words_per_s'] / 1e6:.2f} million" for kind in ("skipgram", "cbow")]
        memory = f"{speed[engine, 'skipgram']['peak_memory_mb']:.0f} MB"
        rows.append(
            [name, *cells, memory, *(_words_quality(quality.get((engine, kind))) for kind in ("skipgram", "cbow"))]
        )
    head = [
        "100 MB of Wikipedia", "skip-gram, words/s", "CBOW, words/s", "memory",
        "skip-gram: WS-353, SimLex, analogies", "CBOW: WS-353, SimLex, analogies",
    ]  # fmt: skip
    times = {
        (one["architecture"]): one
        for one in found["ratios"]
        if (one["part"], one["against"]) == ("speed", "gensim-file")
    }
    skipgram, cbow = times["skipgram"], times["cbow"]
    text = (
        f"In training words per second on two threads, skip-gram is {skipgram['times_as_fast']:.1f} times as fast as gensim "
        f"with corpus_file, and CBOW {cbow['times_as_fast']:.1f} times as fast. The whole command is "
        f"{skipgram['times_as_fast_whole_command']:.1f} and {cbow['times_as_fast_whole_command']:.1f} times as fast. "
        "Quality was measured on 30 MB after 5 epochs with equal settings: mean and spread of three seeds, with analogies "
        "among the 30,000 most frequent words. gensim with corpus_file trained "
        f"{100 * found['long_line'][1]['share_trained']:.0f} % of a line of 30,000 words."
    )
    return f"{table(head, rows)}\n\n{text} {source('words', found=found)}"


def _words_quality(one: Any) -> str:
    if one is None:
        return "–"
    sets = (one["ws353"], one["simlex"], one["analogies"])
    return ", ".join(f"{100 * found['mean']:.1f} ± {100 * found['spread']:.1f}" for found in sets)


_OPTIONS = {
    "plain": "skip-gram with the defaults", "cbow": "`--architecture cbow`", "ngrams": "`--max-n 6`", "hs": "`--loss hs`",
    "fixed-window": "`--no-dynamic-window`", "plain vectors=sum": "`--vectors sum`",
    "plain remove-components=1": "`--remove-components 1`", "plain cosmul": "`evaluate words --analogy cosmul`",
}  # fmt: skip


def word_options() -> str:
    """What the options of word2vec bring."""
    found = result("word_options")
    lines = {one["option"]: one for one in found["lines"] if one["mb"] == 30}
    rows = []
    for option, name in _OPTIONS.items():
        one = lines[option]
        cells = [f"{one[measure]['mean']:.1f}" for measure in ("ws353", "simlex", "semantic", "syntactic")]
        cpu = f"{one['cpu_seconds']['mean']:.0f} s" if "cpu_seconds" in one else ""
        size = f"{one['table_bytes']['mean'] / 1e6:.0f} MB" if "table_bytes" in one else ""
        rows.append([name, *cells, cpu, size])
    head = ["30 MB of Wikipedia", "WS-353", "SimLex", "analogies, meaning", "analogies, grammar", "CPU", "vectors"]
    hidden = lines["hidden"]["ws353_hidden"]["mean"]
    seen = lines["ngrams"]["ws353_seen"]["mean"]
    text = (
        "With `--max-n 6`, words that were deleted from the text get a vector from their letters. On the pairs of these "
        f"words, WS-353 is {hidden:.0f}, and {seen:.0f} if the words are in the text. Figures are means of three seeds."
    )
    return f"{table(head, rows)}\n\n{text} {source('word_options', found=found)}"


def recipes() -> str:
    """What the parts of the recipe of masked training bring."""
    found = result("model_recipes")
    rows = [
        [
            one["says"],
            f"{one['loss']:.3f}",
            f"{one['better_than_default']['nats']:+.3f}" if one["cell"] != "default" else "–",
        ]
        for one in found["lines"]
    ]
    text = (
        f"Held-out loss in nats per masked token, 15 % fixed masks, after {found['tokens'] / 1e6:.0f} million tokens of "
        f"{found['mb']:.0f} MB of Wikipedia (WordPiece, {found['vocab_size']:,} tokens). This is a short training: the "
        f"unigram entropy is {found['text']['unigram_entropy']:.3f}, and a recipe that gets below it early has a large "
        "advantage."
    )
    table_ = table(["recipe", "held-out loss", "better than the default by"], rows)
    return f"{table_}\n\n{text} {source('model_recipes', found=found)}"


def model_speed() -> str:
    """Tokens per second of the training step."""
    found = result("model")
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found["lines"]:
        lines.setdefault((one["kind"], one["says"]), {})[one["dtype"]] = one
    names = {"mlm": "masked", "clm": "causal"}
    rows = []
    for (kind, says), by in lines.items():
        speeds = [f"{by[dtype]['tokens_per_s']:,}" if dtype in by else "–" for dtype in ("float32", "bfloat16")]
        memory = f"{by['bfloat16']['peak_memory_mb']:,} MB" if "bfloat16" in by else "–"
        rows.append([f"{names[kind]}: {says}", *speeds, memory])
    times = "; ".join(
        f"{names[one['kind']]}, {one['dtype']}: {one['times_as_fast']:.2f} times {one['against']}"
        for one in found["ratios"]
    )
    shape = found["shape"]
    text = (
        f"Tokens per second; {shape['n_layers']} layers, width {shape['dim']}, {shape['batch_size']} sequences of "
        f"{shape['seq_len']}, vocabulary {found['vocab_size']:,}. With AdamW on both sides: {times}."
    )
    head = ["training step", "float32", "bfloat16", "memory (bfloat16)"]
    return f"{table(head, rows)}\n\n{text} {source('model', found=found)}"


def gpu_speed() -> str:
    """Tokens per second of a GPU, and what was checked there."""
    found = result("model_gpu")
    speeds = [one for one in found["lines"] if "speed" in one]
    checked = sum("check" in one for one in found["lines"])
    rows = [
        [one["speed"], one["way"], f"{one['tokens_per_s']:,}", f"{one['micro_batch']}", f"{one['peak_gpu_gb']:g} GB"]
        for one in speeds
    ]
    text = (
        f"One {found['machine']['name']}, torch {found['machine']['torch']}, transformers "
        f"{found['versions']['transformers']}. On the same GPU {checked} checks passed: models learn, stopped runs continue "
        "to the same bytes, and losses, gradients, vectors, beams and scores of heads agree with the CPU. These cases "
        f"were not measured on the GPU: {', '.join(found['not_measured'])}. Source: `benchmarks/results/model_gpu.json`, "
        "made by `benchmarks/model_gpu.py`."
    )
    return f"{table(['model', 'way', 'tokens/s', 'sequences at once', 'memory'], rows)}\n\n{text}"


def embed() -> str:
    """Texts per second, beside sentence-transformers."""
    found = result("embed")
    names = {"4x256": "transformer, 4 layers of 256", "6x384": "transformer, 6 layers of 384", "static": "static table"}
    rows = [
        [names[one["part"]], *(f"{one['texts_per_s'][side]:,.0f}" for side in ("wordpipe", "sentence-transformers")),
         f"{one['ratio']:.1f}", f"{one['largest_difference']:.0e}"]
        for one in found["lines"] if "texts_per_s" in one
    ]  # fmt: skip
    cold = next(one for one in found["lines"] if one["part"] == "index of a static encoder")
    text = f"The first query from a shell takes {cold['cold_median_s']:.2f} s (median)."
    head = ["the same folder, float32", "wordpipe", "sentence-transformers", "times", "largest difference"]
    return f"{table(head, rows)}\n\n{text} {source('embed', found=found)}"


def sentences() -> str:
    """Similarity of sentences, from 100 MB of text and nothing else."""
    found = result("sentences")
    parts, compared = found["parts"], found["compared"]
    rows_of = {
        "TF-IDF": found["tfidf"]["metrics"],
        "TF-IDF with our weights of numbers and negation (left out)": compared["tfidf_leaving_one_out"],
        "LSI": found["lsi"]["metrics"],
        "piece vectors alone, finished": parts["words"]["metrics"],
        "directions of stems and letters alone, finished": parts["stems"]["metrics"],
        "both, three passes over the pairs, unfinished": compared["static_not_finished"],
        "**static encoder, by leave-one-set-out**": compared["static_leaving_one_out"],
        "with the defaults, which were chosen on these four": parts["static"]["metrics"],
    }
    rows = []
    for name, one in rows_of.items():
        cells = [f"{100 * one[f'spearman/{part}']:.1f}" for part in _SETS]
        rows.append([name, *cells, f"{100 * one['spearman']:.1f}"])
    plain, weighed = compared["static_against_tfidf"]["mean"], compared["static_against_tfidf_with_factors"]["mean"]
    text = (
        f'Spearman × 100. "Left out" and "leave-one-set-out" mean that the weights of numbers, pieces and negation were '
        f"chosen on the three other sets. This static encoder is above TF-IDF by {_points(plain)}, and above TF-IDF with "
        f"the same weights by {_points(weighed)}."
    )
    return f"{table(['', *_SETS.values(), 'mean'], rows)}\n\n{text} {source('sentences', found=found)}"


def _points(one: dict[str, Any]) -> str:
    low, high = (100 * value for value in one["interval"])
    return f"{100 * one['difference']:.1f} points (95 %: {low:.1f} to {high:.1f})"


def retrieval() -> str:
    """Search on four judged collections."""
    found, with_words = result("retrieval"), result("retrieval_words")
    systems = ("bm25", "rm3", "tfidf", "lsi", "dense", "hybrid")
    rows = []
    for key, name in _COLLECTIONS.items():
        one, left = found["collections"][key]["systems"], found["leave_one_out"][key]
        cells = [_scored(one[system]["metrics"], one[system].get("against_bm25"), system) for system in systems]
        rows.append([name, *cells, _scored(left, left["against_bm25"], "hybrid")])
    mean = [f"{100 * found['mean'][system]:.1f}" for system in systems]
    rows.append(["mean", *mean, f"{100 * _left_out(found):.1f}"])
    below = "none" if not found["significantly_below_bm25"] else ", ".join(found["significantly_below_bm25"])
    text = (
        "nDCG@10 × 100. A hybrid figure is in bold if it is above BM25 with p < 0.05. Encoders were trained on the "
        "documents, with default settings. "
        '"Left out" means that two settings, the number of answers for the second search and the weight of the vectors, '
        f"were chosen on the three other collections ({len(found['settings'])} combinations). Left out, hybrid "
        f"search is above BM25 by {100 * found['above_bm25']:.1f} points in the mean, and significantly below BM25 on "
        f"{below}. With the defaults, which were chosen on all four collections, it is above BM25 by "
        f"{100 * found['default']['above_bm25']:.1f} points, and by {100 * with_words['default']['above_bm25']:.1f} points "
        "if the encoder starts with word vectors of Wikipedia."
    )
    controls = found["controls"]
    text += (
        " Hybrid search searches a second time with the content of its first answers, and a second search is better without "
        "vectors, too. Two controls were therefore run separately: BM25 searched twice, "
        f"{100 * controls['mean']['bm25_twice']:.1f} in the mean ("
        + ", ".join(
            f"{name} {100 * controls['collections'][key]['bm25_twice']['ndcg_at_10']:.1f}"
            for key, name in _COLLECTIONS.items()
        )
        + f"), and hybrid search with random vectors, {100 * controls['mean']['random']:.1f}. In the same run, BM25 had "
        f"{100 * controls['mean']['bm25']:.1f}."
    )
    head = ["", "BM25", "RM3", "TF-IDF", "LSI", "dense", "hybrid", "hybrid, left out"]
    also = "The figure with word vectors of Wikipedia is from `benchmarks/results/retrieval_words.json`."
    return f"{table(head, rows)}\n\n{text} {source('retrieval', found=found)} {also}"


def _left_out(found: dict[str, Any]) -> float:
    """nDCG@10 of a hybrid index whose settings were chosen on the other collections, in the mean of all."""
    return sum(one["ndcg_at_10"] for one in found["leave_one_out"].values()) / len(_COLLECTIONS)


def _scored(metrics: dict[str, Any], against: dict[str, Any] | None, system: str) -> str:
    shown = f"{100 * metrics['ndcg_at_10']:.1f}"
    better = system == "hybrid" and against is not None and against["p"] < 0.05 and against["difference"] > 0
    return f"**{shown}**" if better else shown


_WORD_SIDES = {"wordpipe": "wordpipe", "fts5": "SQLite FTS5, porter", "bm25s": "bm25s", "tantivy": "tantivy"}


def words_search() -> str:
    """Search by words beside other programs."""
    found = result("words_search")
    kinds, scores = found["texts"], found["ndcg_at_10"]
    rows = []
    for side in kinds["records"]["sides"]:
        cells = [
            f"{one['build_cpu_s']:.1f} s, {one['disk_of_text']:.1f} ×, {one['ms']:.1f} ms"
            for one in (kind["sides"][side] for kind in kinds.values())
        ]
        rows.append([_WORD_SIDES[side], *cells, *(f"{100 * one[side]:.1f}" for one in scores["collections"].values()),
                     f"{100 * scores['mean'][side]:.1f}"])  # fmt: skip
    names = [f"{one['texts']:,} {name}, {one['mb']:.0f} MB" for name, one in kinds.items()]
    head = ["words alone", *names, *(_COLLECTIONS[name] for name in scores["collections"]), "mean"]
    whole = " and ".join(
        f"{one['command']['index_cpu_s']:.1f} s on the {name} ({one['command']['index_unmeasured_cpu_s']:.1f} s with "
        f"`--endings remove`, {one['command']['disk_of_text']:.1f} × the text on disk, {one['command']['ms']:.1f} ms a query)"
        for name, one in kinds.items()
    )
    text = (
        "Columns of texts: processor time for indexing, disk as a multiple of the text, with the text, and median processor "
        "time of a warm query with reading 10 texts. FTS5 and tantivy search for the small words of queries (*of the*), too. "
        "Other columns: nDCG@10 × 100. The whole command `wordpipe index CORPUS`, "
        f"with the start of Python, takes {whole}."
    )
    runs = f" The figures were {found['remark']}." if found.get("remark") else ""
    return f"{table(head, rows)}\n\n{text}{runs} {source('words_search', found=found)}"


def search() -> str:
    """Kinds of index and other libraries."""
    found = result("search")
    rows = []
    for size in found["sizes"]:
        for side, one in size["sides"].items():
            rows.append([
                f"{size['n']:,} × {size['dim']}: {side}", f"{one['build_s']:,.0f} s", f"{one['recall_at_10']:.3f}",
                f"{one['queries_per_s']:,.0f}", f"{one['peak_memory_bytes'] / 1e9:.1f} GB",
            ])  # fmt: skip
    head = ["random vectors", "build", "recall@10", "queries/s", "memory"]
    return f"{table(head, rows)}\n\n{source('search', found=found)}"


def index_update() -> str:
    """An update beside a rebuild."""
    found = result("index_update")
    rows = []
    for one in found["sizes"]:
        for name in ("update", "rebuild"):
            side = one[name]
            rows.append([f"{one['n']:,} vectors, {name}", f"{side['seconds']:.0f} s", f"{side['recall_at_10']:.3f}"])
    head = [f"{found['share']:.0%} of the vectors changed", "one thread", "recall@10"]
    return f"{table(head, rows)}\n\n{source('index_update', found=found)}"


def query_modes() -> str:
    """What a question costs in each mode."""
    found = result("query_modes")
    rows = []
    for one in found["indexes"].values():
        for part, name in (("search", "search"), ("whole", "search, with encoding and reading rows")):
            cells = [f"{one[part][mode]:.1f} ms" for mode in ("lexical", "dense", "hybrid")]
            rows.append([f"{one['rows']:,} × {one['dim']}, {one['type']}: {name}", *cells])
    head = ["median time of a query", "lexical", "dense", "hybrid"]
    return f"{table(head, rows)}\n\n{source('query_modes', found=found)}"


def int8() -> str:
    """Why int8 stays out."""
    found = result("int8")
    rows = [
        [
            name,
            f"{one['sentences']['texts_per_s']:,.0f}",
            f"{one['lines']['texts_per_s']:,.0f}",
            f"{one['spearman']:.2f}",
        ]
        for name, one in found["sides"].items()
    ]
    head = ["one thread", "short sentences/s", "Wikipedia lines/s", "Spearman × 100"]
    return f"{table(head, rows)}\n\n{source('int8', found=found)}"


def demo() -> str:
    """What `make demo` found."""
    found = result("demo")
    n = len(found["questions"])
    return (
        f"{found['answered']} of {n} questions find an accepted function among the first five answers: {found['transformer']} "
        f"with the transformer, {found['word vectors']} with word vectors. {source('demo', found=found)}"
    )


def installed() -> str:
    """What a bare installation takes, by package."""
    found = result("installed")
    large = {name: mb for name, mb in found["packages_mb"].items() if mb >= 10}
    rows = [[f"`{name}`", f"{mb:.0f}"] for name, mb in large.items()]
    rows.append([f"{len(found['packages_mb']) - len(large)} others", f"{found['total_mb'] - sum(large.values()):.0f}"])
    rows.append(["bytecode, which pip makes of all", f"{found['bytecode_mb']:.0f}"])
    rows.append(["together", f"{found['total_mb'] + found['bytecode_mb']:.0f}"])
    return f"{table(['package', 'MB'], rows)}\n\n{source('installed', found=found)}"


FIGURES: dict[str, Callable[[], str]] = {
    "installed": installed,
    "how-long": how_long, "how-long-memory": how_long_memory, "which-encoder": which_encoder, "word-defaults": word_defaults,
    "pdf-speed": pdf_speed,
    "tokens": tokens, "exactness": exactness, "words": words, "word-options": word_options, "recipes": recipes,
    "model-speed": model_speed, "gpu-speed": gpu_speed, "embed": embed, "sentences": sentences, "retrieval": retrieval,
    "words-search": words_search, "search": search,
    "index-update": index_update, "query-modes": query_modes, "int8": int8, "demo": demo,
}  # fmt: skip
"""Parts of pages, by the names that pages call them by."""
