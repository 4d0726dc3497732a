"""`wordpipe predict MODEL CORPUS -o OUTPUT`: a model with a head and a corpus → predictions, a row for each record.

    read      the records of the corpus, whole, whatever sentences they were split into
    ask       the model, about a thousand records ahead; those of about one length are computed together
    write     what it says beside the record, and what the corpus says it is (gold_label, gold_tags, gold_spans)

Memory holds the model and some thousand records. What a kind of head gives is one line of `_ANSWERS` here and its columns in
`PREDICTED` (`artifacts/layout.py`).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from wordpipe.artifacts import (
    GOLD,
    Artifact,
    is_artifact,
    predictions_schema,
    read_schema,
    row_count,
)
from wordpipe.errors import InputError
from wordpipe.heads.settings import PredictSettings
from wordpipe.runtime import cpu_count, torch_threads
from wordpipe.stages.calls import public
from wordpipe.stages.inputs import model_entry, open_corpus, reading, whole_records
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import SourceLike
from wordpipe.stages.text.predict import Predictor, open_predictor, predictor_of

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


@public(PredictSettings)
def predict_corpus(
    model: PathLike, corpus: SourceLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any
) -> Made:
    """What a model with a head says of every record of a corpus: an artifact with a row for each, in the corpus's order.

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
    if is_artifact(Path(model)):
        opened = predictor_of(job.open_input(model, ["model"]), settings.device)
    else:
        with reading(job, model_entry, Path(model)):
            opened = open_predictor(model, device=settings.device, verify=job.run.verify)
    for note in opened.notes:
        job.warn(f"{Path(model).name}: {note}")
    return opened


def _write(job: Job, opened: Predictor, source: Artifact) -> None:
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
            f"{counts['texts_cut']:,} of {counts['texts']:,} texts are longer than the model reads: {counts[cut]:,} {what} at "
            "their ends were left out"
        )


# ---- records, also for evaluations


def reads_pairs(opened: Predictor, columns: Sequence[str], where: Path) -> bool:
    """Whether a model is asked with both texts of a corpus. Raises InputError: it wants second texts, and there are none."""
    if opened.pairs and "text_b" not in columns:
        raise InputError(
            "the model learned from pairs, and the corpus has no second texts", where=where, got=", ".join(columns),
            hint="wordpipe ingest SOURCE --text-b FIELD -o CORPUS",
        )  # fmt: skip
    return opened.pairs or (opened.pairs is None and "text_b" in columns)


def asked(record: dict[str, Any], *, pairs: bool) -> str | tuple[str, str]:
    """What a model is asked of a record: its text, or both, as in training without white space around them."""
    text = record["text"].strip()
    return (text, (record["text_b"] or "").strip()) if pairs else text


def answer_of(task: str, found: Any, text: str) -> dict[str, Any]:
    """What a model says of a record, as columns; places in characters of the record's whole text."""
    answer, before = _ANSWERS[task](found), len(text) - len(text.lstrip())
    for place in [*answer.get("spans", ()), *([answer] if answer.get("start", -1) >= 0 else [])]:
        place["start"], place["end"] = place["start"] + before, place["end"] + before
    return answer
