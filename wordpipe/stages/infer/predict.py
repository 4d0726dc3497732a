"""`wordpipe predict`: what a model with a head says of texts, and of every record of a corpus (`-o OUTPUT`).

A model is an artifact, or a folder of transformers (`open_predictor`). Of a corpus an artifact is made, a row for each record:

    read      the records of the corpus, whole, whatever sentences they were split into
    ask       the model, about a thousand records ahead; those of about one length are computed together
    write     what it says beside the record, and what the corpus says it is (gold_label, gold_tags, gold_spans)

Memory holds the model and some thousand records. What a kind of head gives is one line of `_ANSWERS` here and its columns in
`PREDICTED` (`artifacts/schemas.py`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wordpipe.artifacts import (
    GOLD,
    TOKENIZER,
    Artifact,
    BundledFiles,
    is_artifact,
    parse_json_object,
    predictions_schema,
    read_batches,
    read_regular_file,
    read_schema,
    row_count,
)
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.heads.settings import PredictSettings
from wordpipe.runtime import cpu_count, pick_device, torch_threads
from wordpipe.stages.inputs import model_entry, open_corpus, reading, whole_records
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike, refuse_headless
from wordpipe.tokens import number_of_ids, open_tokenizer, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.heads import Classifier, Prediction, Reader, Reading, StaticClassifier, StaticTagger, Tagger
    from wordpipe.model import LoadedHead
    from wordpipe.model.settings import Device

_MAX_FILE = 1 << 40  # bytes
_PAIR = 2
_TASKS = {"sequence": "classifier", "token": "tagger", "span": "reader"}
_ROWS = 1024  # written at a time
_ANSWERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "classifier": lambda found: {"labels": found.labels, "probabilities": found.probabilities},
    "score": lambda found: {"score": found.score},
    "tagger": lambda found: {
        "tags": found.tags,
        "spans": [
            {"start": one.start, "end": one.end, "label": one.label, "probability": one.probability}
            for one in found.spans
        ],
    },
    "reader": lambda found: {
        name: getattr(found, name) for name in ("answer", "start", "end", "probability", "no_answer")
    },
}
"""Task → what a model says of a text, as columns; places are in characters of the text that was read."""


@dataclass(frozen=True)
class Predictor:
    """A model with a head, ready to be asked.

    Attributes:
        path: where it came from.
        model: says what a text is, what its words are, or where in it the answer of a question stands.
        labels: that it knows, in its order; of a score the one name.
        pairs: it learned from pairs of texts; None of a folder of transformers, which does not say: both are taken.
        notes: what the user should know of how it was read.
        task: what it says, a key of `PREDICTED`: classifier, score, tagger or reader.
        problem: as `HeadConfig.problem`.
        device: where it computes.
    """

    path: str
    model: "Classifier | Tagger | Reader | StaticClassifier | StaticTagger"
    labels: tuple[str, ...]
    pairs: bool | None
    notes: tuple[str, ...]

    task: str
    problem: str
    device: str = "cpu"

    @property
    def tags_words(self) -> bool:
        """True if the model is a tagger."""
        return self.task == "tagger"

    @property
    def finds_answers(self) -> bool:
        """True if the model is a reader: of pairs the first text is the passage, the second the question."""
        return self.task == "reader"

    def predict(
        self, texts: Iterable[str | tuple[str, str]], numbers: Iterable[int] | None = None
    ) -> "Iterator[Prediction]":
        """Yield the prediction for each text or pair, in their order; about a thousand are read ahead.

        Args:
            texts: texts, or pairs of them.
            numbers: by which an error calls each, as the lines of a file; None: 1, 2, and so on.

        Raises:
            InputError: a text is blank, or a pair where texts are wanted, or the other way round.
        """
        with storage_errors():
            yield from self.model.predict(self._checked(*one) for one in zip(numbers or count(1), texts, strict=False))

    def values(self, found: "Prediction") -> dict[str, Any]:
        """Return a prediction as JSON values, with probabilities by label."""
        values = {name: value for name, value in asdict(found).items() if value is not None}
        if "probabilities" in values:
            known = zip(self.labels, values["probabilities"], strict=False)
            values["probabilities"] = {name: round(value, 6) for name, value in known}
        return values

    def _checked(self, number: int, given: str | tuple[str, str]) -> tuple[str, ...]:
        """Return a text or pair to predict for as the model takes it; refuse a blank one."""
        texts = (given,) if isinstance(given, str) else tuple(given)
        if not texts or len(texts) > _PAIR or (self.pairs is not None and len(texts) != (_PAIR if self.pairs else 1)):
            raise InputError(
                f"text {number} is {'a single text' if len(texts) == 1 else 'a pair'}", got=" | ".join(texts)[:80],
                expected="pairs, because the model was trained on pairs of texts" if self.pairs else "single texts",
                hint="on the command line, put a tab between the two texts of a pair, or between a question and its passage",
            )  # fmt: skip
        if not any(text.strip() for text in texts):
            raise InputError(f"text {number} is empty or contains only spaces", expected="some words")
        return tuple(text.encode("utf-8", "replace").decode() for text in texts)


@public()
def open_predictor(
    path: PathLike, *, device: Literal["auto", "cpu", "cuda", "mps"] = "auto", verify: bool = True
) -> Predictor:
    """Read a model with a head and its tokenizer into memory, to predict.

    Args:
        path: an artifact of train classifier, tagger or reader, or a folder of transformers with such a class.
        device: where to compute; a model of word vectors on the CPU alone.
        verify: check an artifact's hashes first.

    Raises:
        ArtifactError: nothing there, damaged, or a model without a head.

    Example:
        >>> rows = [{"text": f"{i} is {w}", "label": w} for i in range(30) for w in ("red", "blue")]
        >>> _ = wordpipe.ingest(rows, output="new/labelled", label_field="label")
        >>> _ = wordpipe.train_classifier("new/labelled", output="new/colours", init="run/model", epochs=1)
        >>> opened = wordpipe.open_predictor("new/colours")
        >>> opened.labels, len(list(opened.predict(["7 is red"])))
        (('blue', 'red'), 1)
    """
    folder = Path(path)
    if is_artifact(folder) or not (folder / "config.json").is_file():
        with Artifact(folder, ["model"], verify=verify) as artifact:
            return predictor_of(artifact, device)
    refuse_headless(folder)
    names = [file.name for file in folder.iterdir()]

    def read(name: str) -> bytes:
        """Return a text, or pair, to predict for."""
        return read_regular_file(folder / name, _MAX_FILE, what="a model file")

    _refuse_headless_model(parse_json_object(read("config.json"), "config.json"), folder)
    return _predictor(folder, _load(read, names), read_tokenizer(folder), {}, device)


def predictor_of(artifact: Artifact, device: "Device") -> Predictor:
    """Return the predictor of an open artifact. Raises ArtifactError: damaged, or a model without a head."""
    from wordpipe.heads import is_static_head

    folder, files, facts = artifact.path, BundledFiles(artifact), artifact.manifest.facts
    with files.damage("the model cannot be read"):
        values = parse_json_object(files["config.json"], "config.json")
    if is_static_head(values):
        return _static_predictor(folder, artifact, files, device)
    with files.damage("the model cannot be read"):
        _refuse_headless_model(values, folder)
        tokenizer = open_tokenizer(files[TOKENIZER], where=str(folder / TOKENIZER))
        return _predictor(folder, _load(files.__getitem__, artifact.names()), tokenizer, facts, device)


def _load(read: Any, names: Iterable[str]) -> "LoadedHead":
    """Read a model with a head from the files of its folder."""
    from wordpipe.model import load_headed

    return load_headed(read, [*names])


def _refuse_headless_model(values: dict[str, Any], folder: Path) -> None:
    """Refuse a folder whose `config.json` names a model without a head."""
    from wordpipe.model import is_headed

    if not is_headed(values):
        raise ArtifactError(
            "the model has no head, so it cannot predict labels, tags or answers", where=folder,
            got=values.get("architectures"), expected="a model made by `train classifier`, `train tagger` or `train reader`",
            hint=f"wordpipe train classifier LABELLED --init {folder} -o OUTPUT",
        )  # fmt: skip


def _predictor(
    folder: Path, loaded: "LoadedHead", tokenizer: "Tokenizer", facts: dict[str, Any], device: "Device"
) -> Predictor:
    """Return the predictor of a transformer: temperature, thresholds and limits as its manifest says, if it has one."""
    from wordpipe.heads import Classifier, Reader, Tagger

    # The model, on its device.
    model, kind = loaded.model, loaded.model.head_config.kind
    if (n_ids := number_of_ids(tokenizer)) > model.config.vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings", where=folder, got=n_ids,
            expected=f"at most {model.config.vocab_size}",
        )  # fmt: skip
    model.requires_grad_(False)
    model.to(pick_device(device))
    # What its artifact says of predictions.
    max_len, temperature = _number(facts, "read_tokens", model.config.max_len), _number(facts, "temperature", 1.0)
    same: dict[str, Any] = {"max_len": int(max_len), "temperature": float(temperature)}
    thresholds = facts["thresholds"] if isinstance(facts.get("thresholds"), list) else None
    predictor: Classifier | Tagger | Reader
    if kind == "span":
        threshold = float(thresholds[0]) if thresholds else None
        predictor = Reader(model, tokenizer, threshold=threshold, reading=_reading(facts), **same)
    elif kind == "token":
        predictor = Tagger(model, tokenizer, **same)
    else:
        predictor = Classifier(model, tokenizer, thresholds=thresholds, **same)
    # Whether it reads pairs: a foreign folder does not say, and may read both.
    pairs = facts.get("pairs") is True if facts else None if kind == "sequence" else False
    pairs = kind == "span" or pairs
    head = model.head_config
    task, device_name = _task_of(kind, head.problem), str(model.embedding.device)
    return Predictor(str(folder), predictor, head.labels, pairs, loaded.notes, task, head.problem, device_name)


def _task_of(kind: str, problem: str) -> str:
    """Return the task of a head: classifier, score, tagger or reader."""
    return "score" if kind == "sequence" and problem == "regression" else _TASKS[kind]


def _reading(facts: dict[str, Any]) -> "Reading":
    """Return how a reader that predicts reads passages: as in its training; by defaults where the facts do not say."""
    from wordpipe.heads import Reading

    given = facts["reading"] if isinstance(facts.get("reading"), dict) else {}
    names = [one.name for one in fields(Reading)]
    return Reading(**{name: given[name] for name in names if type(given.get(name)) is int and given[name] > 0})


def _static_predictor(folder: Path, artifact: Artifact, files: BundledFiles, device: "Device") -> Predictor:
    """Return the predictor of a model over word vectors, without torch."""
    import pyarrow as pa

    from wordpipe.heads import StaticClassifier, StaticTagger, UnitRows, read_static_config, read_static_head
    from wordpipe.stages.encoders import word_splitter

    if device not in ("auto", "cpu"):
        raise ConfigError(
            "a model of word vectors runs only on the CPU", where="device", got=device, expected="auto or cpu"
        )
    # The words and their weights.
    with files.damage("the model cannot be read"):
        config, about = read_static_config(files["config.json"])
        units = UnitRows(pa.concat_arrays([batch["word"] for batch in read_batches(artifact, "words", ["word"])]))
        head = read_static_head(config, units, files["model.safetensors"], word_splitter(files, about, folder))
    # What its artifact says of predictions.
    facts = artifact.manifest.facts
    most = int(_number(facts, "read_tokens", 0)) or None
    thresholds, temperature = facts.get("thresholds"), float(_number(facts, "temperature", 1.0))
    model: StaticTagger | StaticClassifier
    if config.kind == "token":
        model = StaticTagger(head, max_words=most, temperature=temperature)
    else:
        known = thresholds if isinstance(thresholds, list) else None
        model = StaticClassifier(head, max_words=most, temperature=temperature, thresholds=known)
    task = _task_of(config.kind, config.problem)
    return Predictor(str(folder), model, config.labels, config.pairs, (), task, config.problem)


def _number(facts: dict[str, Any], name: str, usual: float) -> float:
    """Return a positive number among the facts of a manifest, else the usual number."""
    found = facts.get(name)
    return found if isinstance(found, int | float) and found > 0 else usual


@public()
def predict(model: PathLike | Predictor, text: str, second: str | None = None, *, verify: bool = True) -> "Prediction":
    """Predict the labels, tags or answer of a text, or of a pair of texts, by a model with a head.

    Many texts go through `open_predictor(PATH).predict(texts)`.

    Args:
        model: an artifact of train classifier, tagger or reader, a folder of transformers, or what `open_predictor` opened.
        text: to be labelled; of a reader the passage.
        second: the second text of a pair; of a reader the question.
        verify: check the artifact's hashes first.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"see Rome {i}", "tags": ["O", "B-LOC", "O"]} for i in range(40)]
        >>> _ = wordpipe.ingest(rows, output="new/tagged", tags_field="tags")
        >>> _ = wordpipe.train_tagger("new/tagged", output="new/names", init="run/model", epochs=1)
        >>> len(wordpipe.predict("new/names", "see Rome 7").tags)
        3
    """
    opened = model if isinstance(model, Predictor) else open_predictor(model, verify=verify)
    (found,) = opened.predict([text if second is None else (text, second)])
    return found


@public(PredictSettings)
def predict_corpus(
    model: PathLike, corpus: SourceLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any
) -> Made:
    """Predict the labels, tags or answer of every record of a corpus: an artifact with a row for each, in the corpus's order.

    A record is read whole, however many sentences it has. Where the corpus says what its records are (`ingest --label-field`,
    `--tags-field`, `--spans-field`), that stands beside: gold_label, gold_tags, gold_spans.

    Args:
        model: an artifact of train classifier or tagger, or a folder of transformers with such a class.
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the predictions artifact.
        run: progress, fresh start, verification.
        settings: fields of `PredictSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"{i} is {w}", "label": w} for i in range(30) for w in ("red", "blue")]
        >>> _ = wordpipe.ingest(rows, output="new/labelled", label_field="label")
        >>> _ = wordpipe.train_classifier("new/labelled", output="new/colours", init="run/model", epochs=1)
        >>> made = wordpipe.predict_corpus("new/colours", "new/labelled", output="new/predicted")
        >>> made.kind, made.counts["texts"]
        ('predictions', 60)
    """
    chosen = PredictSettings.make(settings)
    with open_job("predictions", output, chosen, run) as job, torch_threads(chosen.threads):
        job.libraries = ("torch", "tokenizers", "numpy", "pyarrow")
        opened = _open(job, model, chosen)
        job.device, job.threads = opened.device, chosen.threads or cpu_count()
        source = open_corpus(job, corpus)
        job.facts = {"task": opened.task, "problem": opened.problem, "labels": [*opened.labels]}
        _write(job, opened, source)
        job.rates = {"texts_per_s": round(job.counts["texts"] / max(job.clock.seconds, 1e-9), 1)}
    return job.made


def _open(job: Job, model: PathLike, settings: PredictSettings) -> Predictor:
    """Open the model that predicts, an artifact or a folder, as an input of the job."""
    if is_artifact(Path(model)):
        opened = predictor_of(job.open_input(model, ["model"]), settings.device)
    else:
        with reading(job, model_entry, Path(model)):
            opened = open_predictor(model, device=settings.device, verify=job.run.verify)
    for note in opened.notes:
        job.warn(f"{Path(model).name}: {note}")
    return opened


def _write(job: Job, opened: Predictor, source: Artifact) -> None:
    """Write the table of predictions: each record of the corpus beside what the model predicts."""
    # What is read of each record.
    there = read_schema(source, "corpus")
    pairs = reads_pairs(opened, there.names, source.path)
    if not pairs:
        job.note_first_texts(source)
    schema, total = predictions_schema(opened.task, there), row_count(source, "corpus")
    waiting: deque[dict[str, Any]] = deque()  # read, and not yet answered

    def texts() -> Iterator[str | tuple[str, str]]:
        for record, done in whole_records(source, [name for name in there.names if name in (*schema.names, *GOLD)]):
            waiting.append(record)
            yield asked(record, pairs=pairs)
            job.report("predicting", done, total, "sentences")

    # Write what the model says beside each record, and count what was cut.
    rows, counts = list[dict[str, Any]](), {"texts": 0, "labelled": 0, "texts_cut": 0}
    cut = f"{'words' if opened.task == 'tagger' else 'tokens'}_cut"
    counts[cut] = 0
    with job.table("predictions", schema) as table:
        for found in opened.predict(texts()):
            record = waiting.popleft()
            counts["texts"] += 1
            counts["texts_cut"] += found.cut > 0
            counts[cut] += found.cut
            counts["labelled"] += any(record.get(name) is not None for name in GOLD)
            # the record, what the corpus says it is, what the model says
            rows.append(record | {new: record.get(name) for name, new in GOLD.items()}
                        | answer_of(opened.task, found, record["text"]))  # fmt: skip
            if len(rows) == _ROWS:
                table.write(pa.RecordBatch.from_pylist(rows, schema))
                rows.clear()
        if rows:
            table.write(pa.RecordBatch.from_pylist(rows, schema))
    job.counts |= counts
    if counts["texts_cut"]:
        what = cut.removesuffix("_cut")
        job.warn(
            f"{counts['texts_cut']:,} of {counts['texts']:,} texts are too long for the model: {counts[cut]:,} {what} at the "
            "ends of these texts were left out"
        )


# ---- records, also for evaluations


def reads_pairs(opened: Predictor, columns: Sequence[str], where: Path) -> bool:
    """True if a model predicts from both texts of a corpus. Raises InputError: there are no second texts."""
    if opened.pairs and "text_b" not in columns:
        raise InputError(
            "the model was trained on pairs of texts, but the corpus has only single texts", where=where,
            got=", ".join(columns), hint="wordpipe ingest SOURCE --text-b FIELD -o CORPUS",
        )  # fmt: skip
    return opened.pairs or (opened.pairs is None and "text_b" in columns)


def asked(record: dict[str, Any], *, pairs: bool) -> str | tuple[str, str]:
    """Return the text of a record, or both texts, for prediction: without white space around, as in training."""
    text = record["text"].strip()
    return (text, (record["text_b"] or "").strip()) if pairs else text


def answer_of(task: str, found: Any, text: str) -> dict[str, Any]:
    """Return a prediction as columns of the predictions artifact; places are in the record's whole text."""
    answer, before = _ANSWERS[task](found), len(text) - len(text.lstrip())
    for place in [*answer.get("spans", ()), *([answer] if answer.get("start", -1) >= 0 else [])]:
        place["start"], place["end"] = place["start"] + before, place["end"] + before
    return answer
