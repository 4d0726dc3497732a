"""Models with a head as folders of `transformers`, and back: its classes for sequences, tokens and answers.

`config.json` names the class, the labels in their order (`id2label`) and what they mean (`problem_type`). A model that
transformers has no class for has our own format.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.config import ModelConfig
from wordpipe.model.heads import HeadConfig, HeadedModel, HeadKind, Pooling, Problem
from wordpipe.model.hf.encoders import XLNET_SUMMARY
from wordpipe.model.hf.families import OWN, config_from_hf, config_to_hf, family_of
from wordpipe.model.hf.folder import fill_model, read_config, read_weights, write_folder
from wordpipe.model.hf.mapping import CONFIG, Entry, Family, refusal, refuse_others

_PROBLEM_TYPES: dict[Problem, str] = {
    "single_label": "single_label_classification", "multi_label": "multi_label_classification", "regression": "regression",
}  # fmt: skip
_USUAL_LABELS = 2  # of transformers, where config.json has none
_MAX_LABELS = 1 << 20
_OWN_CLASSES: dict[HeadKind, str] = {
    "sequence": "WordpipeForSequenceClassification", "token": "WordpipeForTokenClassification",
    "span": "WordpipeForQuestionAnswering",
}  # fmt: skip


@dataclass(frozen=True)
class _Class:
    """A class of `transformers` with a head.

    Attributes:
        kind: of head.
        name: of the class.
        classifier: the name of the last matrix.
        prefix: of the body, where it is not that of the language model.
    """

    kind: HeadKind
    name: str
    classifier: str
    prefix: str = ""


def _classes(name: str, *matrices: str, prefix: str = "") -> tuple[_Class, ...]:
    """Return the three classes with a head of one type of model: for sequences, tokens and answers."""
    kinds: tuple[HeadKind, ...] = ("sequence", "token", "span")
    ends = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    return tuple(
        _Class(kind, name + end, matrix, prefix if kind == "span" else "")
        for kind, end, matrix in zip(kinds, ends, matrices, strict=True)
    )


_CLASSES: dict[str, tuple[_Class, ...]] = {
    "modernbert": _classes("ModernBert", "classifier", "classifier", "classifier"),
    "bert": _classes("Bert", "classifier", "classifier", "qa_outputs"),
    "llama": _classes("Llama", "score", "score", "qa_outputs", prefix="transformer."),
    "mistral": _classes("Mistral", "score", "score", "qa_outputs"),
    "gpt2": _classes("GPT2", "score", "classifier", "qa_outputs"),
    "albert": _classes("Albert", "classifier", "classifier", "qa_outputs"),
    # its class for sequences has ReLU where BERT has tanh, so that one is kept in our own format
    "distilbert": _classes("DistilBert", "", "classifier", "qa_outputs")[1:],
    "xlnet": (
        *_classes("XLNet", "logits_proj", "classifier", "")[:2],
        _Class("span", "XLNetForQuestionAnsweringSimple", "qa_outputs"),
    ),
}
_POOLERS = {"bert": "bert.pooler.dense", "albert": "albert.pooler", "xlnet": "sequence_summary.summary"}


@dataclass(frozen=True)
class LoadedHead:
    """A model with a head out of a folder.

    Attributes:
        model: in evaluation mode, on the CPU, in float32.
        notes: what the user should know, one sentence each.
    """

    model: HeadedModel
    notes: tuple[str, ...]


def headed_class(config: ModelConfig, kind: HeadKind) -> str | None:
    """Return the class of `transformers` that loads a model of this shape with a head of this kind, or None."""
    found = _class_of(family_of(config), kind)
    return found.name if found else None


def is_headed(values: Mapping[str, Any]) -> bool:
    """True if a `config.json` is that of a model with a head."""
    return _named_class(values) is not None


def save_headed(model: HeadedModel, write: Callable[[str, bytes], None]) -> None:
    """Give the files of the model's folder, name by name, to `write`; the weights as float32."""
    config, head = model.language_config, model.head_config
    family = _family_of(config, head.kind)
    theirs = _class_of(family, head.kind)
    values = config_to_hf(config, family) | {"architectures": [theirs.name if theirs else _OWN_CLASSES[head.kind]]}
    values |= {"classifier_dropout": head.dropout}
    if head.kind != "span":
        values |= {"id2label": {str(place): name for place, name in enumerate(head.labels)},
                   "label2id": {name: place for place, name in enumerate(head.labels)}}  # fmt: skip
    if head.kind == "sequence":
        values |= {"problem_type": _PROBLEM_TYPES[head.problem]}
        if family is OWN or family.model_type == "modernbert":
            values |= {"classifier_pooling": head.pooling}
    write_folder(model, model.config, values, _entries(model, family), write)


def load_headed(read: Callable[[str], bytes], names: Collection[str]) -> LoadedHead:
    """Return the model in a folder, ready to use.

    Args:
        read: gives the bytes of a file of the folder by its name.
        names: the files that there are.

    Raises:
        ArtifactError: it is no model with a head, or malformed, as of `load_hf`.
    """
    values = read_config(read, names)
    kind = _named_class(values)
    if kind is None:
        raise refusal(
            "architectures", values.get("architectures"), "a class with a head, for example …ForTokenClassification"
        )
    # the body, and the meaning of the head
    family, config = config_from_hf({**values, "architectures": None})
    if family.model_type == "xlnet" and kind == "sequence":
        refuse_others({"summary_type": "last", **values}, {name: (value,) for name, value in XLNET_SUMMARY.items()})
    try:
        head = HeadConfig(kind, *_meaning(values, kind), pooling=_pooling(values, family), dropout=0.0)
        entries = list(_entries_of(config, head, family))
    except ConfigError as error:
        raise ArtifactError(error.message, where=CONFIG, got=error.got, expected=error.expected) from None
    # the weights, by the names of the folder
    theirs = _class_of(family, kind)
    if theirs and theirs.prefix:  # the names of the language model, whatever the class calls its body
        family = replace(family, renamed={**family.renamed, f"^{re.escape(theirs.prefix)}": family.prefix})
        entries = [_renamed(entry, theirs.prefix, family.prefix) for entry in entries]
    found = fill_model(
        read_weights(read, names), values, family, config, entries, lambda shape: HeadedModel(shape, head)
    )
    assert isinstance(found.model, HeadedModel)
    return LoadedHead(found.model, found.notes)


def _family_of(config: ModelConfig, kind: HeadKind) -> Family:
    """Return the class of the body; our own format where transformers has no head of this kind."""
    family = family_of(config)
    return family if _class_of(family, kind) else OWN


def _class_of(family: Family, kind: HeadKind) -> _Class | None:
    """Return the class of transformers for a head of this kind on this type of model, or None."""
    return next((one for one in _CLASSES.get(family.model_type, ()) if one.kind == kind), None)


def _named_class(values: Mapping[str, Any]) -> HeadKind | None:
    """Return the kind of head, by the class that a `config.json` names."""
    named, kind = values.get("architectures"), values.get("model_type")
    name = named[0] if isinstance(named, list) and named else None
    ours = {_OWN_CLASSES[one]: one for one in get_args(HeadKind)}
    theirs = {one.name: one.kind for one in _CLASSES.get(kind, ())} if isinstance(kind, str) else {}
    return (ours if kind == OWN.model_type else theirs).get(name) if isinstance(name, str) else None


def _meaning(values: Mapping[str, Any], kind: HeadKind) -> tuple[tuple[str, ...], Problem]:
    """Read the labels of a head in their order, and the kind of problem, from `config.json`."""
    if kind == "span":
        return (), "single_label"
    names = values.get("id2label")
    if names is None:
        number = values.get("num_labels") or _USUAL_LABELS
        if type(number) is not int or not 0 < number <= _MAX_LABELS:
            raise refusal("num_labels", number, "a whole number of labels, 1 or more")
        names = {str(place): f"LABEL_{place}" for place in range(number)}
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise refusal("id2label", names, "a name for each label number, starting at 0")
    if names.keys() != {str(place) for place in range(len(names))}:
        raise refusal("id2label", names, f"a name for each label number from 0 to {len(names) - 1}")
    labels = tuple(str(names[str(place)]) for place in range(len(names)))
    stated = values.get("problem_type")
    problems: dict[Any, Problem] = {theirs: ours for ours, theirs in _PROBLEM_TYPES.items()}
    if kind == "token" or stated is None:
        return labels, "regression" if kind == "sequence" and len(labels) == 1 else "single_label"
    if stated not in problems:
        raise refusal("problem_type", stated, " or ".join(problems))
    return labels, problems[stated]


def _pooling(values: Mapping[str, Any], family: Family) -> Pooling:
    """Read the pooling of a head from `config.json`."""
    stated = values.get("classifier_pooling")
    if family is not OWN and family.model_type != "modernbert":
        return ""
    if stated is None:
        return "cls" if family is not OWN else ""  # transformers' default
    if stated not in get_args(Pooling):
        raise refusal("classifier_pooling", stated, " or ".join(get_args(Pooling)))
    pooling: Pooling = stated
    return pooling


def _entries_of(config: ModelConfig, head: HeadConfig, family: Family) -> Iterator[Entry]:
    """Yield every weight of a model with this head, which need not exist."""
    from wordpipe.runtime import without_memory

    with without_memory():
        model = HeadedModel(config, head)
    return _entries(model, family)


def _entries(model: HeadedModel, family: Family) -> Iterator[Entry]:
    """Yield every weight of a model with a head."""
    there, theirs = dict(model.named_parameters()), _class_of(family, model.head_config.kind)
    if theirs is None:
        yield from (Entry(name, (name,)) for name in there)
        return
    for entry in family.entries(model.language_config):
        of_table = entry.ours == "position_embedding" and model.config.positions == "sinusoidal"
        if (entry.ours in there or of_table) and not entry.repeats:
            yield _renamed(entry, family.prefix, theirs.prefix) if theirs.prefix else entry
    for name, _ in model.head_weights():
        matrix = theirs.classifier if name.startswith("classifier.") else _POOLERS[family.model_type]
        yield Entry(name, (f"{matrix}.{name.rpartition('.')[2]}",))


def _renamed(entry: Entry, old: str, new: str) -> Entry:
    """Return an entry of a weight with another name of the body."""
    names = (new + name.removeprefix(old) if name.startswith(old) else name for name in entry.theirs)
    return replace(entry, theirs=tuple(names))
