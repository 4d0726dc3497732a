"""Tables of more text and more machines: what was measured (benchmarks/results/scale.json), and a plan made of it.

The plan multiplies measured rates. What it assumes beyond them stands in `ASSUMED` and is printed below the table; for another
cluster or other prices one changes that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wordpipe_docs.figures import result, source, table

TEXT_GB = 1000
VECTORS = 1_000_000_000
"""Texts that are embedded and indexed."""

ASSUMED = {
    "machines": 16, "processors": 16, "efficiency": 0.85, "gbit_per_s": 10.0, "dollars_per_processor_hour": 0.05,
    "dollars_per_gpu_hour": 4.0, "dollars_per_gb_month": 0.023,
}  # fmt: skip
"""Machines of so many processors; the share of their speed that many have; the network of each; prices."""

_WORDS_MACHINE_GB = 10
_ENCODER = "4x256"
_GPU_SHAPE, _GPU_WAY = "12L/768/2048 gated clm T1024", "compiled, Muon"
_TOKENS_PER_WEIGHT = 20  # Hoffmann et al. 2022
_HOUR = 3600


@dataclass(frozen=True)
class _Line:
    """A stage of the plan.

    Attributes:
        stage: what it is.
        processor_seconds: of all machines together; of GPUs where `is_gpu`.
        gigabytes: that are read and written.
        memory: what one process needs, in words.
        machines: that share it.
        is_gpu: whether the seconds are those of GPUs.
    """

    stage: str
    processor_seconds: float
    gigabytes: float
    memory: str
    machines: int
    is_gpu: bool = False

    @property
    def hours(self) -> float:
        """Of clock."""
        if self.is_gpu:
            return self.processor_seconds / _HOUR / self.machines
        share = self.machines * ASSUMED["processors"] * (ASSUMED["efficiency"] if self.machines > 1 else 1.0)
        network = self.gigabytes * 8 / (ASSUMED["gbit_per_s"] * self.machines)
        return max(self.processor_seconds / share, network) / _HOUR

    @property
    def dollars(self) -> float:
        """Of the machines while it lasts."""
        if self.is_gpu:
            return self.hours * self.machines * ASSUMED["dollars_per_gpu_hour"]
        return self.hours * self.machines * ASSUMED["processors"] * ASSUMED["dollars_per_processor_hour"]


def engines() -> str:
    """Seconds by engine and workers, and what more workers and Ray bring."""
    found = result("scale")
    sizes = {name: found[name] for name in found if name.endswith(" MB")}
    stages = [
        (f"`{stage}`, {size}", one)
        for size, stages in sorted(sizes.items(), key=lambda item: float(item[0].split()[0]))
        for stage, one in stages.items() if isinstance(one, dict) and "runs" in one
    ]  # fmt: skip
    runs = [*stages[0][1]["runs"]]
    rows = [
        [name, *(f"{one['runs'][run]['seconds']:.0f} s" for run in runs),
         *(f"{one['efficiency'][engine]:.0%}" for engine in ("local", "ray")), f"{one['ray_over_local']['2']:.2f}"]
        for name, one in stages
    ]  # fmt: skip
    head = ["", *(run.replace("-", " ") for run in runs), "two local", "two of Ray", "Ray over local"]
    killed = sum(one.get("killed", {}).get("killed", 0) for _, one in stages)
    ceilings = sorted(one["ceiling"] for _, one in stages if "ceiling" in one)
    loop = (
        f"For comparison, an arithmetic loop in two processes reached {ceilings[0]:.0%} to {ceilings[-1]:.0%} of twice the "
        "speed of one process. "
        if ceilings else ""
    )  # fmt: skip
    text = (
        "The columns give the seconds of a stage with this number of workers; the speed of two workers as a percentage of "
        "twice the speed of one worker; and the seconds with Ray, divided by the seconds without Ray, for two workers, "
        f"including the start of Ray. {killed} processes of Ray were killed during other runs. {_digests(dict(stages))} "
        f"{loop}{source('scale', found=next(iter(sizes.values())))}"
    )
    return f"{table(head, rows)}\n\n{text}"


def _digests(stages: dict[str, Any]) -> str:
    if others := [stage for stage, one in stages.items() if one["digests"] > 1]:
        return f"Not all digests are equal: {', '.join(others)}."
    return "All runs of a stage gave the same digest."


def growth() -> str:
    """Seconds and memory of more and more text."""
    found = result("scale")["growth"]
    rows = []
    for stage, sizes in found["stages"].items():
        for mb, one in sizes.items():
            rows.append(
                [f"`{stage}`", f"{float(mb) / 1000:g} GB", f"{one['seconds']:.0f} s",
                 f"{one['processor_seconds_per_gb']:.0f} s",
                 f"{one['peak_memory_bytes'] / 1e9:.2f} GB", f"{one['bytes'] / 1e6 / float(mb):.2f} GB"]
            )  # fmt: skip
    head = ["stage", "text", "seconds", "processor seconds per GB", "peak memory", "disk per GB"]
    text = f"The text is a part of Wikipedia, repeated with other numbers. {source('scale', found=found)}"
    return f"{table(head, rows)}\n\n{text}"


def plan() -> str:
    """A terabyte of text, and a billion vectors."""
    rows = [
        [line.stage, f"{line.machines}{' GPU' if line.is_gpu else ''}", _time(line.hours), f"{line.gigabytes:,.0f} GB",
         line.memory, f"${line.dollars:,.0f}"]
        for line in _plan()
    ]  # fmt: skip
    total = sum(line.dollars for line in _plan() if not line.stage.startswith("or "))
    head = ["stage", "machines", "time", "read and written", "memory of a process", "cost"]
    text = (
        f"The plan assumes machines with {ASSUMED['processors']} processors of the measured kind that reach "
        f"{ASSUMED['efficiency']:.0%} of their total speed, {ASSUMED['gbit_per_s']:g} Gbit/s for each machine, "
        f"${ASSUMED['dollars_per_processor_hour']:g} for one hour of a processor and ${ASSUMED['dollars_per_gpu_hour']:g} for "
        f"one hour of a GPU. All stages, with word vectors, cost ${total:,.0f}, and object storage costs "
        f"${TEXT_GB * ASSUMED['dollars_per_gb_month']:,.0f} a month for each terabyte. "
        "The plan is computed from the measured rates by `docs/wordpipe_docs/scale_figures.py`."
    )
    return f"{table(head, rows)}\n\n{text}"


def _time(hours: float) -> str:
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.0f} h" if hours < 100 else f"{hours / 24:.0f} days"


def _plan() -> Iterator[_Line]:
    grown, machines = result("scale")["growth"], int(ASSUMED["machines"])
    stages = grown["stages"]
    sizes = {name: max(of, key=float) for name, of in stages.items()}
    largest = {name: stages[name][mb] for name, mb in sizes.items()}
    made = {name: one["bytes"] / 1e6 / float(sizes[name]) for name, one in largest.items()}
    per_gb = {name: float(one["processor_seconds_per_gb"]) * TEXT_GB for name, one in largest.items()}

    memory = f"0.6 GB, and {32 * _documents(largest, sizes) / 1e9:,.0f} GB in the main process"
    yield _Line("`ingest`, files of some 100 MB", per_gb["ingest"], TEXT_GB * (1 + made["ingest"]), memory, machines)
    moved = TEXT_GB * (2 * made["ingest"] + made["tokenize"])
    yield _Line("`tokenize`", per_gb["tokenize"], moved, "0.6 GB", machines)

    gb = largest["tokenize"]["counts"]["words"] / float(sizes["tokenize"]) * 1000  # words of a GB
    seconds = _WORDS_MACHINE_GB * gb / _words_per_s() * ASSUMED["processors"]
    yield _Line(
        f"`train word2vec`, one pass over {_WORDS_MACHINE_GB} GB",
        seconds,
        _WORDS_MACHINE_GB * made["tokenize"],
        "2 GB",
        1,
    )
    gpu = next(
        one for one in result("model_gpu")["lines"] if (one.get("speed"), one.get("way")) == (_GPU_SHAPE, _GPU_WAY)
    )
    weights = gpu["parameters"]
    yield _Line(
        f"`train clm`, {weights / 1e6:.0f} million weights, {_TOKENS_PER_WEIGHT} tokens for each",
        _TOKENS_PER_WEIGHT * weights / gpu["tokens_per_s"], 0, f"{gpu['peak_gpu_gb']:.0f} GB of a GPU", 1, is_gpu=True,
    )  # fmt: skip

    rows = largest["index"]["counts"]["vectors"]
    vectors_gb = largest["embed"]["bytes"] / rows * VECTORS / 1e9
    spent = {name: one["processor_seconds_per_gb"] * float(sizes[name]) / 1000 for name, one in largest.items()}
    of_one = spent["embed"] / largest["embed"]["counts"]["texts_embedded"]  # as if no text came twice
    yield _Line("`embed`, word vectors", of_one * VECTORS, 2 * vectors_gb, "1 GB", machines)
    encoder = next(one for one in result("embed")["lines"] if one.get("part") == _ENCODER)
    of_one = 2 / encoder["texts_per_s"]["wordpipe"]
    yield _Line("or `embed`, a transformer of 4 layers of 256", of_one * VECTORS, 2 * vectors_gb, "1 GB", machines)
    parts_gb = VECTORS / machines * largest["index"]["peak_memory_bytes"] / rows / 1e9
    of_all = spent["index"] / rows * VECTORS
    yield _Line("`index`, one on each machine", of_all, 3 * vectors_gb, f"{parts_gb:,.0f} GB", machines)


def _documents(largest: dict[str, Any], sizes: dict[str, str]) -> float:
    """Of the whole text."""
    return float(largest["ingest"]["counts"]["documents_kept"] / float(sizes["ingest"]) * 1000 * TEXT_GB)


def _words_per_s() -> float:
    """Of skip-gram, one pass, on all processors of one machine of the plan."""
    found = next(
        one for one in result("words")["lines"]
        if (one["part"], one["engine"], one["architecture"], one["loss"]) == ("speed", "wordpipe", "skipgram", "ns")
    )  # fmt: skip
    return float(found["words_per_s"] / found["threads"] * ASSUMED["processors"] * ASSUMED["efficiency"])


def averaging() -> str:
    """What word vectors of several machines lose, whose tables are averaged."""
    found = result("word_averaging")
    machines = sorted({one["machines"] for one in found["lines"]})
    loss = {(one["architecture"], one["machines"]): one["loss"] for one in found["lines"]}
    rows = [[name, *(f"{loss[name, n]:.3f}" for n in machines)] for name in dict.fromkeys(kind for kind, _ in loss)]
    text = (
        f"Held-out loss in nats after {found['epochs']} passes over {found['words'] / 1e6:.1f} million words. The tables "
        f"are averaged {found['rounds']} times in each pass. The machines are simulated on one machine, with one thread for "
        f"each table. {source('word_averaging', found=found)}"
    )
    return f"{table(['', *(f'{n} machine' + 's' * (n > 1) for n in machines)], rows)}\n\n{text}"


def static_speed() -> str:
    """A step of a static encoder's training and latent directions, beside torch and ARPACK."""
    found = result("static_speed")
    rows = [
        [
            f"a step of {one['pairs']:,} pairs, {one['threads']} thread{'s' * (one['threads'] > 1)}",
            *(f"{one['processor_ms'][side]:,.0f} ms" for side in ("numpy", "torch")), "torch",
        ]
        for one in found["steps"]
    ] + [
        [
            f"{one['directions']} latent directions of {one['rows']:,} texts",
            *(f"{one['processor_ms'][side] / 1e3:,.1f} s" for side in ("lanczos", "arpack")), "ARPACK (scipy)",
        ]
        for one in found["directions"]
    ]  # fmt: skip
    kept = min(one["kept"] for one in found["directions"])
    text = (
        "Processor time of all threads. "
        f"The directions keep {kept:.1%} of the squared length that those of ARPACK keep. "
        f"{source('static_speed', found=found)}"
    )
    return f"{table(['`train static`', 'wordpipe', 'the other', ''], rows)}\n\n{text}"


_SERVED = {
    "vectors": "`mode=dense`",
    "hybrid": "`mode=hybrid`: words and vectors, searched twice, with rows and suggestions",
    "facets": "values of fields within the answers of a question",
}


def serving() -> str:
    """Milliseconds of answers under load, starts, memory, and how hostile requests ended."""
    found = result("serve")
    index, memory, hostile = found["index"], found["memory"], found["hostile"]
    versions = [name for name in ("before", "now") if name in found]
    asked = {"a simple server in twenty lines (FAISS, starlette), only vectors": found["plain_faiss_server"]} | {
        f"`wordpipe serve`, {what}{', before' * (name == 'before')}": found[name][way]
        for way, what in _SERVED.items()
        for name in versions
    }
    rows = [
        [
            what, *(f"{one[f'p{p}_ms']:.0f} ms" for p in (50, 95)), f"{one['processor_ms']:.1f} ms",
            f"{one['requests_per_s']:.0f}", f"{one['memory_bytes'] / 1e9:.2f} GB",
        ]
        for what, one in asked.items()
    ]  # fmt: skip
    starts = [
        [
            f"{int(way.partition('_')[2]):,} rows{', before' * (name == 'before')}", f"{one['processor_s']:.1f} s",
            f"{one['memory_bytes'] / 1e6:.0f} MB", f"{one['file_bytes'] / 1e6:.0f} MB", f"{one['disk_bytes'] / 1e6:.0f} MB",
        ]
        for way in found["now"]
        if way.startswith("start_")
        for name in versions
        for one in [found[name][way]]
    ]  # fmt: skip
    ended = ", ".join(f"{how} {n:,}" for how, n in hostile["ended"].items())
    bad = {how for how in hostile["ended"] if how == "hung" or (how.startswith("50") and how != "503")}
    verdict = (
        f"these results are wrong: {', '.join(sorted(bad))}"
        if bad
        else "no request got status 500, and every request ended"
    )
    text = (
        f"{index['n']:,} rows of width {index['dim']} ({index['type']}; fields: {found['facets_n']:,} rows), "
        f"{found['clients']} clients that each send one query after the other, on the cores of the server and of other work "
        f"(load before: {found['now']['hybrid']['load_before']:.1f}). Processor time is that of the "
        f"server for an answer; all figures are medians of {found['rounds']} rounds, in which the version before common "
        f"words were looked up by the number of the text took its turns. The memory was "
        f"{memory['before_bytes'] / 1e9:.2f} GB before and {memory['after_bytes'] / 1e9:.2f} GB after "
        f"{memory['requests']:,} more requests of three kinds. Then the server got {hostile['requests']:,} hostile requests "
        f"(damaged bodies, headers, paths), {hostile['requests_per_s']:.0f} a second, while {hostile['slow_clients']} "
        f"clients sent one character a second. Requests by status: {ended}; {verdict}. {source('serve', found=found)}"
    )
    loads = table(["", "p50", "p95", "processor time", "answers a second", "memory"], rows)
    begun = table(["start of `serve`", "processor time", "memory", "of it pages of files", "index on the disk"], starts)
    return f"{loads}\n\n{begun}\n\n{text}"


SCALE_FIGURES: dict[str, Callable[[], str]] = {
    "scale-engines": engines, "scale-growth": growth, "scale-plan": plan, "scale-averaging": averaging, "serving": serving,
    "static-speed": static_speed,
}  # fmt: skip
