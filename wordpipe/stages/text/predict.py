"""`wordpipe predict`: what a model with a head says of texts; its artifact, or a folder of transformers, opened for that."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wordpipe.artifacts import (
    TOKENIZER,
    Artifact,
    BundledFiles,
    is_artifact,
    parse_json_object,
    read_batches,
    read_regular_file,
)
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.runtime import pick_device
from wordpipe.stages.calls import public
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.stages.sources import refuse_headless
from wordpipe.tokens import number_of_ids, open_tokenizer, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.heads import Classifier, Prediction, Reader, Reading, StaticClassifier, StaticTagger, Tagger
    from wordpipe.model import LoadedHead
    from wordpipe.model.settings import Device

_MAX_FILE = 1 << 40  # bytes
_PAIR = 2
_TASKS = {"sequence": "classifier", "token": "tagger", "span": "reader"}


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
        """Whether it is a tagger."""
        return self.task == "tagger"

    @property
    def finds_answers(self) -> bool:
        """Whether it is a reader: of pairs the first text is the passage, the second the question."""
        return self.task == "reader"

    def predict(
        self, texts: Iterable[str | tuple[str, str]], numbers: Iterable[int] | None = None
    ) -> "Iterator[Prediction]":
        """What is said of each text or pair, in their order; about a thousand are read ahead.

        Args:
            texts: texts, or pairs of them.
            numbers: by which an error calls each, as the lines of a file; None: 1, 2, and so on.

        Raises:
            InputError: a text is blank, or a pair where texts are wanted, or the other way round.
        """
        with storage_errors():
            yield from self.model.predict(self._checked(*one) for one in zip(numbers or count(1), texts, strict=False))

    def _checked(self, number: int, given: str | tuple[str, str]) -> tuple[str, ...]:
        texts = (given,) if isinstance(given, str) else tuple(given)
        if not texts or len(texts) > _PAIR or (self.pairs is not None and len(texts) != (_PAIR if self.pairs else 1)):
            raise InputError(
                f"text {number} is {'one text' if len(texts) == 1 else 'a pair'}", got=" | ".join(texts)[:80],
                expected="pairs: the model learned from pairs" if self.pairs else "single texts",
                hint="on the command line a tab parts the two texts of a pair, or a question and its passage",
            )  # fmt: skip
        if not any(text.strip() for text in texts):
            raise InputError(f"text {number} is blank", expected="some words")
        return tuple(text.encode("utf-8", "replace").decode() for text in texts)


@public()
def open_predictor(
    path: PathLike, *, device: Literal["auto", "cpu", "cuda", "mps"] = "auto", verify: bool = True
) -> Predictor:
    """Read a model with a head and its tokenizer into memory.

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
        return read_regular_file(folder / name, _MAX_FILE, what="a file of a model")

    _refuse_headless_model(parse_json_object(read("config.json"), "config.json"), folder)
    return _predictor(folder, _load(read, names), read_tokenizer(folder), {}, device)


def predictor_of(artifact: Artifact, device: "Device") -> Predictor:
    """The predictor of an open artifact. Raises ArtifactError: damaged, or a model without a head."""
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
    from wordpipe.model import load_headed

    return load_headed(read, [*names])


def _refuse_headless_model(values: dict[str, Any], folder: Path) -> None:
    from wordpipe.model import is_headed

    if not is_headed(values):
        raise ArtifactError(
            "the model labels nothing", where=folder, got=values.get("architectures"),
            expected="a model of train classifier, train tagger or train reader",
            hint=f"wordpipe train classifier LABELLED --init {folder} -o OUTPUT",
        )  # fmt: skip


def _predictor(
    folder: Path, loaded: "LoadedHead", tokenizer: "Tokenizer", facts: dict[str, Any], device: "Device"
) -> Predictor:
    """A predictor by what its manifest says: temperature, thresholds, how much is read; nothing of a foreign folder."""
    from wordpipe.heads import Classifier, Reader, Tagger

    model, kind = loaded.model, loaded.model.head_config.kind
    if (n_ids := number_of_ids(tokenizer)) > model.config.vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings", where=folder, got=n_ids,
            expected=f"at most {model.config.vocab_size}",
        )  # fmt: skip
    model.requires_grad_(False)
    model.to(pick_device(device))
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
    pairs = facts.get("pairs") is True if facts else None if kind == "sequence" else False
    pairs = kind == "span" or pairs
    head = model.head_config
    task, device_name = _task_of(kind, head.problem), str(model.embedding.device)
    return Predictor(str(folder), predictor, head.labels, pairs, loaded.notes, task, head.problem, device_name)


def _task_of(kind: str, problem: str) -> str:
    return "score" if kind == "sequence" and problem == "regression" else _TASKS[kind]


def _reading(facts: dict[str, Any]) -> "Reading":
    """How a reader reads passages, as it learned it; the usual way, where nobody says."""
    from wordpipe.heads import Reading

    given = facts["reading"] if isinstance(facts.get("reading"), dict) else {}
    names = [one.name for one in fields(Reading)]
    return Reading(**{name: given[name] for name in names if type(given.get(name)) is int and given[name] > 0})


def _static_predictor(folder: Path, artifact: Artifact, files: BundledFiles, device: "Device") -> Predictor:
    """The same of word vectors, without torch."""
    import pyarrow as pa

    from wordpipe.heads import StaticClassifier, StaticTagger, UnitRows, read_static_config, read_static_head
    from wordpipe.stages.encoders import word_splitter

    if device not in ("auto", "cpu"):
        raise ConfigError(
            "a model of word vectors computes on the CPU", where="device", got=device, expected="auto or cpu"
        )
    with files.damage("the model cannot be read"):
        config, about = read_static_config(files["config.json"])
        units = UnitRows(pa.concat_arrays([batch["word"] for batch in read_batches(artifact, "words", ["word"])]))
        head = read_static_head(config, units, files["model.safetensors"], word_splitter(files, about, folder))
    facts = artifact.manifest.facts
    most = int(_number(facts, "read_tokens", 0)) or None
    thresholds, temperature = facts.get("thresholds"), float(_number(facts, "temperature", 1.0))
    model = (
        StaticTagger(head, max_words=most, temperature=temperature)
        if config.kind == "token"
        else StaticClassifier(
            head,
            max_words=most,
            temperature=temperature,
            thresholds=thresholds if isinstance(thresholds, list) else None,
        )
    )
    task = _task_of(config.kind, config.problem)
    return Predictor(str(folder), model, config.labels, config.pairs, (), task, config.problem)


def _number(facts: dict[str, Any], name: str, usual: float) -> float:
    found = facts.get(name)
    return found if isinstance(found, int | float) and found > 0 else usual


@public()
def predict(model: PathLike | Predictor, text: str, second: str | None = None, *, verify: bool = True) -> "Prediction":
    """What a model with a head says of a text, or of a pair of texts.

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
