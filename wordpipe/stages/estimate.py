"""Estimates of what it takes to make an artifact: seconds, peak memory and disk, from the size of the input and the settings.

For each command a rule of thumb says what its work comes to: bytes of text, words × epochs × window × numbers per vector,
steps × parameters. Artifacts that are not there yet are foretold, from the sources on (their words, their rows). The rules
come from one machine with two cores; what a stage really took, divided by what its rule says, corrects the next estimate.
These ratios are kept, the last few for each command, in a small file outside the artifacts, beside the cache of hashes
(`$XDG_CACHE_HOME/wordpipe/rates.json`); whatever goes wrong with it, it is as if nothing were known. Where no earlier run is
known, the artifact that an output replaces says how long it took, else half a second of work measures the machine's speed.
"""

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Literal

from wordpipe.artifacts import Artifact, InputEntry, Manifest, is_artifact
from wordpipe.errors import WordpipeError
from wordpipe.runtime import cpu_count
from wordpipe.stages.encoder_folder import encoder_size, imported_kind
from wordpipe.stages.registry import COMMANDS, load_named
from wordpipe.storage import cache_folder

if TYPE_CHECKING:
    from wordpipe.corpus import Sources
    from wordpipe.settings import Settings

_COMPRESSED = 3.3  # bytes out of one of .gz, .bz2, .xz, .zst
_ENDING = re.compile(r"\.(\w+?)(\.(?:gz|bz2|xz|zst))?$")


@dataclass(frozen=True)
class Size:
    """The size of sources or of an artifact, known or foretold; 0 for what an artifact of this kind does not have."""

    form: str = ""  # the format of sources; the kind of an encoder: static, transformer, words; how vectors are stored
    files: float = 0.0
    bytes: float = 0.0  # of sources, or of text
    text: float = 0.0  # bytes of text in sources
    reading: float = 0.0  # seconds of reading sources
    documents: float = 0.0
    sentences: float = 0.0
    words: float = 0.0  # running words
    distinct: float = 0.0
    tokens: float = 0.0
    vocab: float = 0.0
    rows: float = 0.0  # that have a vector
    dim: float = 0.0
    parameters: float = 0.0
    layers: float = 0.0
    disk: float = 0.0


def size_of_sources(sources: "Sources | Path") -> Size:
    """Return for an estimate the size of sources of text, or of a file or folder of another program."""
    if isinstance(sources, Path):
        if imported_kind(sources) == "model":
            return Size(**encoder_size(sources))
        files = [sources] if sources.is_file() else [one for one in sources.glob("*") if one.is_file()]
        return Size(bytes=sum(one.stat().st_size for one in files), files=len(files))
    return size_of_files([(source.name, source.bytes) for source in sources])


def size_of_artifact(path: Path) -> Size:
    """Return the size of an artifact, for the estimate of a stage that reads the artifact.

    Raises:
        ArtifactError: there is none, or it is damaged.
    """
    with Artifact(path, verify=False) as artifact:
        return size_of_manifest(artifact.manifest)


def size_of_manifest(manifest: Manifest) -> Size:
    """Return the size of an artifact, as far as its manifest knows."""
    counts, facts = manifest.counts, manifest.facts
    disk = float(sum(entry.bytes for entry in manifest.outputs))
    return replace(SIZES[manifest.kind](counts, facts), disk=disk)


SIZES: dict[str, Callable[[Mapping[str, int], Mapping[str, Any]], Size]] = {
    "corpus": lambda n, _: Size(
        bytes=n.get("bytes_kept", 0), documents=n.get("documents_kept", 0), sentences=n.get("sentences", 0),
        words=n.get("bytes_kept", 0) / 6.3, tokens=n.get("bytes_kept", 0) / 3.9,
    ),
    "tokens": lambda n, facts: Size(
        words=n.get("words", 0), distinct=n.get("distinct_words", 0), tokens=n.get("tokens", 0),
        sentences=n.get("sentences", 0), vocab=float(facts.get("vocab_size", 0)), bytes=n.get("words", 0) * 6.3,
    ),
    "words": lambda n, facts: Size(form="words", rows=n.get("distinct_kept", 0), dim=float(facts.get("dim", 0))),
    "model": lambda n, facts: Size(
        form="static" if facts.get("encoder") == "static" else "transformer", dim=float(facts.get("dim", 0)),
        parameters=n.get("parameters", 0), layers=float(facts.get("n_layers", 0)),
    ),
    "sentences": lambda n, facts: Size(
        form=facts.get("store", "float32"), rows=n.get("sentences", 0), dim=float(facts.get("dim", 0)),
    ),
    "index": lambda n, facts: Size(rows=n.get("vectors", n.get("texts", 0)), dim=float(facts.get("dim", 0))),
    "clusters": lambda n, _: Size(rows=n.get("texts", 0)),
    "predictions": lambda n, _: Size(rows=n.get("texts", 0)),
}  # fmt: skip


def size_of_files(files: Sequence[tuple[str, float]]) -> Size:
    """Return the size of named sources for an estimate; the format is that of most bytes."""
    from wordpipe.corpus import ENDINGS, READERS

    by_form: dict[str, float] = {}
    for name, size in files:
        ending = _ENDING.search(name.lower())
        reader = ENDINGS.get(f".{ending[1]}") if ending else None
        form = reader.name if reader is not None and reader.read else "txt"
        form = "python" if name.startswith("python:") else form
        unpacked = size * (_COMPRESSED if ending and ending[2] else 1.0)
        by_form[form] = by_form.get(form, 0.0) + unpacked
    form = max(by_form, key=lambda one: by_form[one], default="txt")
    text, seconds = (
        sum(size * READERS[one].text_share for one, size in by_form.items()),
        sum(size / READERS[one].mb_per_s / 1e6 for one, size in by_form.items()),
    )
    return Size(form=form, files=len(files), bytes=sum(by_form.values()), text=text, reading=seconds)


Basis = Literal["earlier runs", "probed", "rule of thumb"]

_FORMAT = 1  # of the file; one that was written by other rules says nothing
_LARGEST = 1 << 18  # bytes of the file that are read
_KEYS, _RUNS = 64, 8  # commands that are remembered, and runs of each
_WEEK, _SHORTEST = 7 * 86_400.0, 0.1  # seconds that a measured speed is taken for; the shortest that is measured
_MEASURED = ("documents", "sentences", "words", "distinct", "tokens", "rows", "parameters", "bytes")
_SPREAD: dict[str, float] = {"earlier runs": 1.4, "probed": 2.2, "rule of thumb": 3.0}  # likely factor to either side
_TEXT_S, _NUMBERS_S = 0.04, 0.025  # what the two measurements take on the machine of the rules
_CORES = 2  # of that machine
_LEAST = {"seconds": 1e-3, "memory": 1.0, "disk": 1e5}  # what is less says nothing of what is more; else 500
_FAR, _FAR_SPREAD = 8.0, 2.2  # earlier runs of so many times more or less work, and what they are worth


@dataclass(frozen=True)
class Estimate:
    """Time, memory and disk for making an artifact, roughly."""

    seconds: tuple[float, float]  # from, to
    memory_bytes: int  # at its peak
    disk_bytes: int
    basis: Basis

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        body = asdict(self)
        return body | {"seconds": [round(one, 2) for one in self.seconds]}


@dataclass(frozen=True)
class Rule:
    """The rule of thumb for one stage."""

    key: str  # what is comparable: "train mlm/tiny"
    seconds: float
    memory: float
    disk: float
    size: Size  # of what comes out


class Estimator:
    """Estimates of stages in the order in which they are made; `sizes` has those before, by name."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}
        self._rates = _Rates()

    def nothing_known(self, name: str) -> None:
        """Record that the size of a stage's result cannot be estimated."""
        self.sizes[name] = Size()

    def estimate(self, name: str, settings: "Settings", inputs: Sequence[Size], output: Path) -> Estimate:
        """Estimate the making of a stage from inputs of these sizes, and keep the size of the result.

        Args:
            name: of the stage.
            settings: of its command.
            inputs: sizes of its inputs, then of the artifacts that settings name.
            output: what stands there was made by an earlier run.
        """
        rule = _rule(settings, inputs)
        ratios, basis, spread = self._rates.ratios(rule)
        if not ratios and (earlier := _earlier(settings, output)) is not None:
            ratios, basis, spread = earlier, "earlier runs", _FAR_SPREAD
        elif not ratios:
            ratios, basis, spread = self._rates.speed(_is_arithmetic(settings.command)), "probed", _SPREAD["probed"]
        likely = max(_SHORTEST, rule.seconds * ratios.get("seconds", 1.0))
        known = {field: getattr(rule.size, field) * ratios.get(field, 1.0) for field in _MEASURED}
        disk = rule.disk * ratios.get("disk", 1.0)
        self.sizes[name] = replace(rule.size, **known, disk=disk)
        memory = rule.memory * ratios.get("memory", 1.0)
        return Estimate(_within(settings, likely / spread, likely * spread), round(memory), round(disk), basis)

    def save(self) -> None:
        """Save the measured speed of the machine for later estimates."""
        self._rates.save()


def _within(settings: "Settings", low: float, high: float) -> tuple[float, float]:
    """Return the estimated seconds (from, to) of a stage within its limit of time."""
    if (minutes := getattr(settings, "minutes", None)) is None:
        return low, high
    most = 60.0 * minutes
    given = settings.model_dump(include={"steps", "epochs"})
    if "steps" in given and set(given.values()) == {None}:  # it takes all of it
        return 0.9 * most, most
    return min(low, most), min(high, most)


def total(estimates: Sequence[Estimate]) -> Estimate:
    """Return the estimate of stages one after another: sums of seconds and disk, the largest memory, the weakest basis.

    What is off to one side for one stage is off to the other for the next: the spread of a sum is less than that of its parts.
    """
    low, high = (sum(one.seconds[side] for one in estimates) for side in (0, 1))
    bases: list[Basis] = [
        basis for basis in ("rule of thumb", "probed") if any(one.basis == basis for one in estimates)
    ]
    memory = max((one.memory_bytes for one in estimates), default=0)
    disk = sum(one.disk_bytes for one in estimates)
    return Estimate((low, high), memory, disk, bases[0] if bases else "earlier runs")


def remember(settings: "Settings", inputs: Sequence[InputEntry], artifacts: Sequence[Manifest], made: Manifest) -> None:
    """Save the time, memory and disk of a finished stage for later estimates. Never fails.

    Args:
        settings: of the stage.
        inputs: as its manifest lists them.
        artifacts: the manifests of those inputs that are artifacts.
        made: the manifest of what was made.
    """
    if artifacts and len(artifacts) != len(inputs):
        return  # sources were ingested on the fly, or a model of another program lent its weights
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        sizes = [size_of_manifest(manifest) for manifest in artifacts]
        if not artifacts:
            sizes = [size_of_files([(entry.path or "", entry.bytes or 0) for entry in inputs])]
        if made.command == "import" and made.kind == "model":  # of an encoder, whose folder may be gone
            sizes = [replace(size_of_manifest(made), bytes=sum(entry.bytes or 0 for entry in inputs))]
        rule = _rule(settings, sizes)
        rates = _Rates()
        rates.add(rule, _ratios(rule, made))
        rates.save()


def _rule(settings: "Settings", inputs: Sequence[Size]) -> Rule:
    """Return the rule of thumb for a command, which the registry names: time, memory and disk."""
    rule: Callable[[Any, Sequence[Size]], Rule] = load_named(COMMANDS[settings.command].estimate)
    return rule(settings, inputs)


def ingest_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `ingest`: bytes of text, and files of Python more slowly."""
    from wordpipe.corpus import READERS  # trainings do without them

    given, form = inputs[0], inputs[0].form or "txt"
    text = given.text or given.bytes * READERS[form].text_share
    of_text = {"auto": given.files, "file": given.files, "block": text / 1200, "line": text / 150}
    documents = of_text[settings.documents] if form in ("txt", "md") else text / 1200
    size = Size(bytes=text, documents=documents, sentences=text / 120, words=text / 6.3, tokens=text / 3.9)
    seconds = 0.3 + (given.reading or given.bytes / READERS[form].mb_per_s / 1e6)
    return Rule(f"ingest/{form}", seconds, 140e6 + min(4 * text, 200e6), 0.45 * text, size)


def import_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `import`: bytes of word vectors, or of a text encoder, of another program."""
    given = inputs[0].bytes
    if inputs[0].form in ("transformer", "static"):
        disk = 4 * inputs[0].parameters
        return Rule(
            f"import/{inputs[0].form}", 2 + given / 30e6, 400e6 + 4 * given, disk, replace(inputs[0], disk=disk)
        )
    rows = min(settings.limit or math.inf, given / 1000)
    return Rule("import", 1 + given / 20e6, 200e6 + 2 * given, 0.5 * given, Size(form="words", rows=rows, dim=100))


def tokenize_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `tokenize`: counting, training and encoding; distinct words grow by Heaps' law."""
    text = inputs[0].bytes
    words = text / 6.3
    distinct = min(words, 8.5 * words**0.64)  # Heaps' law, on English Wikipedia
    tokens = {"char": text, "word": words * 1.2}.get(settings.algorithm, text / 3.9)
    size = replace(inputs[0], words=words, distinct=distinct, tokens=tokens, vocab=settings.vocab_size)
    slower = 6.0 if settings.algorithm == "unigram" and settings.tokenizer is None else 1.0
    key = f"tokenize/{'given' if settings.tokenizer else settings.algorithm}"
    return Rule(key, 1.4 + slower * text / 12e6, 310e6 + min(6 * text, 1.5e9), 2.9 * tokens, size)


def word2vec_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `train word2vec`: operations for each word, window and negative."""
    given = inputs[0]
    plan = settings.plan(int(given.words))
    rows = given.vocab if plan.unit == "token" else given.distinct * plan.min_count**-0.85
    per_word = plan.window * (1 + plan.negatives) * plan.dim if plan.architecture == "skipgram" else 12 * plan.dim
    words = given.tokens if plan.unit == "token" else given.words
    threads = 1 if plan.deterministic else min(settings.threads or cpu_count(), cpu_count())
    table = 4.0 * rows * plan.dim * (2 if plan.keep_outputs else 1)
    seconds = 1.5 + words * plan.epochs * per_word / (2.2e9 * threads)
    size = Size(form="words", rows=rows, dim=plan.dim)
    disk = 1.1 * _STORED[plan.store] * table
    return Rule(f"train word2vec/{plan.architecture}/{plan.loss}", seconds, 290e6 + 2 * table, disk, size)


def transformer_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate the training of a transformer: 6 operations for each parameter and token; fewer in the output matrix."""
    from wordpipe.model import PRESETS

    # the shape: of the model that training starts from, of the settings, or of the preset
    given, preset = inputs[0], PRESETS[settings.preset]
    begun = next((one for one in inputs[1:] if one.form == "transformer"), Size())
    dim, layers = begun.dim or settings.dim or preset.dim, begun.layers or settings.n_layers or preset.n_layers
    ffn = (getattr(settings, "ffn_dim", None) or preset.ffn_dim) * (dim / preset.dim if settings.dim else 1)
    body, table = layers * (4 * dim**2 + 3 * dim * ffn), given.vocab * dim
    if "n_decoder_layers" in type(settings).model_fields:  # a decoder as deep, with cross-attention
        body = body * 2 + layers * 4 * dim**2
    # the steps, and the positions of each
    positions = (settings.batch_size or preset.batch_size) * (getattr(settings, "seq_len", None) or preset.max_len)
    if settings.command == "train contrastive":
        positions, guessed = settings.pairs_per_step(int(given.sentences)) * 2 * 32.0, 0.0
        steps = settings.steps_for(int(given.sentences))
    else:
        guessed = getattr(settings, "mask_rate", 1.0)
        least, passes = (1, settings.epochs) if settings.epochs else (200, 3)
        steps = settings.steps or max(least, math.ceil(passes * given.tokens / positions))
    # time, memory and disk
    flops, parameters = 6.0 * steps * positions * (body + table * guessed), body + table
    on_gpu = settings.device == "cuda" or (settings.device == "auto" and Path("/dev/nvidia0").exists())
    seconds = 4 + (steps * 0.03 + flops / 2e13 if on_gpu else steps * 0.055 + flops / 4e11)
    memory = 480e6 + 26 * parameters + min(positions, 4096) * dim * layers * 40 + (1e9 if on_gpu else 0)
    size = Size(form="transformer", dim=dim, parameters=parameters, layers=layers)
    key = f"{settings.command}/{settings.preset}/{'cuda' if on_gpu else 'cpu'}"
    kept = 3 if getattr(settings, "keep_state", False) else 1
    return Rule(key, seconds, memory, 4.0 * parameters * kept, size)


def headed_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate the training of a head on a transformer: the texts of the corpus, and a step for every batch."""
    given, begun = inputs[0], next((one for one in inputs[1:] if one.form == "transformer"), Size())
    if vectors := next((one for one in inputs[1:] if one.form in ("words", "static")), None):
        return _headed_words(settings, given, vectors)
    settings = settings.of_transformer(max(1, int(given.documents)))
    positions, parameters = settings.epochs * settings.seeds * given.tokens * 1.2, begun.parameters or 4e6
    seconds = 4 + positions * 6 * parameters / 1.5e11 + settings.epochs * given.documents / settings.batch_size * 0.05
    memory = 480e6 + 26 * parameters
    size = Size(form="transformer", dim=begun.dim, parameters=parameters, layers=begun.layers)
    return Rule(settings.command, seconds, memory, 4.0 * parameters, size)


def _headed_words(settings: Any, given: Size, vectors: Size) -> Rule:
    """Estimate the training of a head on word vectors: a row for each second word of the texts, a step in milliseconds."""
    chosen, dim = settings.of_words(max(1, int(given.documents))), vectors.dim or 100
    rows = (vectors.rows or vectors.parameters / dim) + min(5e5, 0.6 * given.words)
    steps = chosen.epochs * chosen.seeds * max(1.0, given.documents / chosen.batch_size)
    words = chosen.epochs * chosen.seeds * given.words
    seconds = 3 + 0.002 * steps + words * 2 * dim / 1e8
    size = Size(form="transformer", dim=dim, parameters=rows * dim, layers=1)
    return Rule(f"{settings.command}/words", seconds, 420e6 + 24 * rows * dim, 4.0 * rows * dim + 15 * rows, size)


def static_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `train static`: the words of the texts, and the matrices that the table begins with."""
    given, parts = inputs[0], settings.parts
    dim = (settings.lexical_dim if parts.lexical else 0) + (settings.lsi_dim if parts.lsi else 0)
    dim += sum(one.dim for one in inputs[1:] if one.form)
    min_count = max(parts.min_count, 2 if given.distinct > 100_000 and settings.min_count is None else 1)
    rows = given.vocab if settings.unit == "token" else given.distinct * min_count**-0.85
    parameters = rows * (dim or 100)
    steps = settings.steps_for(int(given.sentences)) if settings.trains else 0
    share = settings.pairs_per_step(int(given.sentences)) / 1_024
    seconds = 1 + share * (4 + 1.35e-8 * steps * parameters) + 6e-6 * given.words
    if settings.teacher is not None:  # words of some four tokens, and passages
        body = sum(max(one.layers, 1) * 10 * one.dim**2 for one in inputs[1:] if one.form == "transformer")
        read = min(given.tokens, 160 * settings.teacher_texts) + 4 * rows
        seconds += 2 * body * read / 2e11 + 5e-8 * dim * min(given.words, 128 * settings.teacher_texts)
    size = Size(form="static", dim=dim, parameters=parameters)
    return Rule(f"train static/{settings.goal}", seconds, 450e6 + 42 * parameters, 4 * parameters, size)


def embed_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `embed`: rows of a corpus through an encoder."""
    encoder, text = inputs[0], inputs[1]
    rows = _rows_of(text, settings.unit)
    if encoder.form == "transformer":
        body = max(encoder.layers, 1) * 10 * encoder.dim**2
        seconds = 2 + 4.5e-4 * max(rows, text.tokens / 40) + 2 * body * text.tokens / 2e11
    else:
        seconds = 0.8 + text.words / 350e3 + rows * encoder.dim / 2e7
    vectors = 4 * rows * encoder.dim
    memory = 310e6 + 2.5 * (encoder.disk or 4 * encoder.parameters) + min(vectors, 500e6)
    disk = (
        vectors * _STORED[settings.store]
        + 0.45 * text.bytes
        + (encoder.disk / (3 if encoder.form == "transformer" else 1))
    )
    size = Size(form=settings.store, rows=rows, dim=encoder.dim, bytes=text.bytes, disk=disk)
    return Rule(f"embed/{encoder.form or 'transformer'}", seconds, memory, disk, size)


_STORED = {"float32": 1, "float16": 0.5, "int8": 0.25}  # of the bytes of vectors in memory, those in a table


def _rows_of(text: Size, unit: str) -> float:
    """Return the number of rows that a corpus is cut into."""
    return {
        "sentence": text.sentences or text.bytes / 120, "document": text.documents or text.bytes / 1200,
        "window": max(text.documents, text.words / 100),
    }[unit]  # fmt: skip


def index_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `index`: vectors, texts and terms, with the measurements; of a corpus its texts and terms."""
    given = inputs[0]
    if not given.dim:
        text, rows = given.bytes, _rows_of(given, settings.unit)
        return Rule("index/words", 0.8 + text / 2.5e6, 200e6 + 8 * text, 1.7 * text, Size(rows=rows, bytes=text))
    vectors = 4 * given.rows * given.dim
    stored = vectors * _STORED.get(given.form, 1)
    text = min(given.bytes or max(0.0, given.disk - 1.2 * stored), 2000 * given.rows)
    seconds = 0.8 + text / 0.8e6 + given.rows * given.dim / 5e6
    memory = 350e6 + 2 * vectors + 8 * text + 1.4 * max(0.0, given.disk - stored)
    return Rule("index", seconds, memory, given.disk + 0.1 * vectors + 1.1 * text, Size(rows=given.rows, dim=given.dim))


def cluster_rule(settings: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `cluster`: rounds over a sample, then all rows once."""
    given = inputs[0]
    seconds = (
        2 + (12 if settings.k == "auto" else 1) * min(given.rows, 2e4) * given.dim / 5e6 + given.rows * given.dim / 1e7
    )
    memory = 300e6 + 12 * min(given.rows, 1e5) * given.dim
    return Rule("cluster", seconds, memory, 40 * given.rows + 4 * given.rows**0.5 * given.dim, Size(rows=given.rows))


def predict_rule(_: Any, inputs: Sequence[Size]) -> Rule:
    """Estimate `predict`: texts through a model with a head."""
    model, text = inputs[0], inputs[1]
    tokens, texts = text.tokens or text.bytes / 3.9, text.documents or text.bytes / 1200
    parameters = model.parameters or model.bytes / 4 or 4e6
    seconds = 2 + texts * 1e-4 + tokens * 2 * parameters / 2e11
    memory = 420e6 + 6 * parameters + min(text.bytes, 50e6)
    return Rule("predict", seconds, memory, 0.5 * text.bytes + 40 * texts, Size(rows=texts))


def _is_arithmetic(command: str) -> bool:
    """True if a command computes with numbers rather than texts."""
    return command.startswith(("train", "embed", "predict"))


def _ratios(rule: Rule, made: Manifest) -> dict[str, float]:
    """Return time, memory, disk and sizes of an artifact, divided by the rule's estimate."""
    size = size_of_manifest(made)
    found = {
        "seconds": (made.seconds, rule.seconds), "memory": (made.peak_memory_bytes, rule.memory),
        "disk": (size.disk, rule.disk),
    } | {field: (getattr(size, field), getattr(rule.size, field)) for field in _MEASURED}  # fmt: skip
    found = {name: (real, said) for name, (real, said) in found.items() if min(real, said) >= _LEAST.get(name, 500)}
    return {name: real / said for name, (real, said) in found.items()}


def _earlier(settings: "Settings", output: Path) -> dict[str, float] | None:
    """Return the ratios (measured by estimated) of the artifact at an output, if its inputs can be seen."""
    with suppress(WordpipeError, OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        if not is_artifact(output):
            return None
        with Artifact(output, verify=False) as artifact:
            made = artifact.manifest
        if made.command != settings.command:
            return None
        then = type(settings).make(
            {name: made.settings[name] for name in made.settings if made.settings[name] is not None}
        )
        artifacts = [entry.path for entry in made.inputs if entry.kind in SIZES]
        sizes = [size_of_artifact(output.parent / path) for path in artifacts if path is not None]
        sizes = sizes or [size_of_files([(entry.path or "", entry.bytes or 0) for entry in made.inputs])]
        return _ratios(_rule(then, sizes), made)
    return None


class _Rates:
    """The file of what earlier runs took: `{"format", "speed": [when, text, numbers], "runs": {key: [[work, ratios], …]}}`."""

    def __init__(self) -> None:
        self._path = cache_folder() / "rates.json"
        self._runs: dict[str, list[tuple[float, dict[str, float]]]] = {}
        self._speed: tuple[float, float, float] | None = None
        self._is_new = False
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._read()

    def _read(self) -> None:
        """Read the file of rates of earlier runs, by which estimates are corrected."""
        if not self._path.is_file() or self._path.stat().st_size > _LARGEST:
            return
        with self._path.open("rb") as file:
            body = json.loads(file.read(_LARGEST))
        if body["format"] != _FORMAT:
            return
        for key, runs in body["runs"].items():
            kept = [(_plausible(work), {str(k): _plausible(v) for k, v in ratios.items()}) for work, ratios in runs]
            self._runs[key] = kept[-_RUNS:]
        if body["speed"] is not None:
            when, text, numbers = body["speed"]
            self._speed = (_plausible(when), _plausible(text), _plausible(numbers))

    def ratios(self, rule: Rule) -> tuple[dict[str, float], Basis, float]:
        """Return corrections of an estimate's rule, from runs of nearly as much work, and the likely factor."""
        runs = self._runs.get(rule.key)
        if not runs:
            return {}, "rule of thumb", _SPREAD["rule of thumb"]
        runs = runs[::-1]  # of equally near ones the latest
        near = sorted(runs, key=lambda run: abs(math.log(run[0] / max(rule.seconds, 1e-3))))[:3]
        names = {name for _, ratios in near for name in ratios}
        far = max(rule.seconds / near[0][0], near[0][0] / rule.seconds) > _FAR
        ratios = {n: geometric_mean([r[n] for _, r in near if n in r]) for n in names}
        return ratios, "earlier runs", _FAR_SPREAD if far else _SPREAD["earlier runs"]

    def speed(self, of_numbers: bool) -> dict[str, float]:
        """Return for estimates the seconds of this machine for one of the rules', measured once a week."""
        if self._speed is None or not 0 <= time.time() - self._speed[0] < _WEEK:
            self._speed, self._is_new = (time.time(), *_machine_speed()), True
        slower = self._speed[2 if of_numbers else 1]
        return {"seconds": slower * (_CORES / cpu_count()) ** (0.8 if of_numbers else 0.3)}

    def add(self, rule: Rule, ratios: dict[str, float]) -> None:
        """Add the ratios of a finished run, for later estimates."""
        if "seconds" in ratios:
            runs = self._runs.pop(rule.key, [])
            self._runs[rule.key] = [*runs, (max(rule.seconds, 1e-3), ratios)][-_RUNS:]  # the latest key is the last
            self._is_new = True

    def save(self) -> None:
        """Write the file of rates for estimates, if there is anything new. Never fails."""
        if not self._is_new:
            return
        runs = {key: [[work, ratios] for work, ratios in self._runs[key]] for key in [*self._runs][-_KEYS:]}
        data = json.dumps({"format": _FORMAT, "speed": self._speed, "runs": runs}).encode()
        beside = self._path.with_name(f".rates.{secrets.token_hex(8)}.tmp")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                beside.write_bytes(data)
                beside.replace(self._path)
            finally:
                beside.unlink(missing_ok=True)
        self._is_new = False


def _plausible(value: Any) -> float:
    """Check a number of the rates file. Raises ValueError: it is not plausible."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-6 < value < 1e12:
        raise ValueError(value)
    return float(value)


def _machine_speed() -> tuple[float, float]:
    """Return for estimates the slowness of one core against the machine of the rules.

    By processor time: what else the machine does just now says nothing about tomorrow.
    """
    import numpy as np

    text = " ".join(f"word{number % 977} and,{number % 89}" for number in range(100_000))
    numbers = np.ones(1 << 20, np.float32)

    def read() -> None:
        counts: dict[str, int] = {}
        for word in re.findall(r"\w+", text):
            counts[word] = counts.get(word, 0) + 1

    def multiply() -> None:
        for _ in range(15):
            np.sqrt(numbers * 1.5 + 2.0)

    slower = (_seconds_of(read) / _TEXT_S, _seconds_of(multiply) / _NUMBERS_S)
    return min(max(slower[0], 0.2), 5.0), min(max(slower[1], 0.2), 5.0)


def _seconds_of(work: Callable[[], None]) -> float:
    """Return the processor time of the best of three tries, to estimate this machine's speed."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-5)
