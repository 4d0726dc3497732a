"""The names in a folder brought to those of its class: old names, buffers, tied copies, models without their head."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Entry, Family
from wordpipe.model.formats.stored import WEIGHTS

__all__ = ["Matched", "match"]

# what old releases stored although it can be computed: position numbers, rotary frequencies, GPT-2's causal mask
_BUFFERS = re.compile(r"(embeddings\.(position|token_type)_ids|rotary_emb\.inv_freq|h\.\d+\.attn\.(bias|masked_bias))$")
_TASK_HEADS = r"(classifier|score|qa_outputs)\..+"  # of models that were trained on for one task
_HEAD = ("head.", "output")  # how our names of its weights begin


@dataclass
class Matched:
    """The weights of a folder under the names of its class.

    Attributes:
        weights: name in the class → weight, of whatever type the folder has.
        entries: those to fill from `weights`.
        missing: those that the folder has nothing for; weights of the head, where that was allowed.
        notes: what the user should know.
    """

    weights: dict[str, Tensor]
    entries: list[Entry]
    missing: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def match(stored: Mapping[str, Tensor], family: Family, config: ModelConfig, *, allow_missing_head: bool) -> Matched:
    """Find every weight of a model of this shape.

    Args:
        stored: the weights by their names in the folder.
        family: the folder's class.
        config: the shape.
        allow_missing_head: a folder of the class without the output head will do.

    Raises:
        ArtifactError: a weight is missing, unknown or there twice, or a tied copy differs.
    """
    entries = list(family.entries(config))
    wanted = [entry for entry in entries if not entry.repeats]
    expected = {name for entry in wanted for name in entry.theirs}
    matched = Matched(_named(stored, family, expected), wanted)
    for repeated in (name for entry in entries if entry.repeats for name in entry.theirs):
        matched.weights.pop(repeated, None)
    if config.tied:
        _drop_copies(matched.weights, family)
    _leave_behind(matched, family)
    _refuse_unknown(matched.weights.keys() - expected)
    _set_missing_apart(matched, allow_missing_head)
    return matched


def _named(stored: Mapping[str, Tensor], family: Family, expected: set[str]) -> dict[str, Tensor]:
    """The weights under their names in the class; buffers are dropped."""
    weights: dict[str, Tensor] = {}
    for found, weight in stored.items():
        if _BUFFERS.search(found):
            continue
        name = found
        for old, new in family.renamed.items():
            name = re.sub(old, new, name)
        if name not in expected and family.prefix + name in expected:
            name = family.prefix + name
        if name in weights:
            raise ArtifactError(f"{name} is there under two names", where=WEIGHTS, got=found)
        weights[name] = weight
    return weights


def _drop_copies(weights: dict[str, Tensor], family: Family) -> None:
    """Some folders keep a tied weight twice."""
    for copy, name in family.copies.items():
        if copy in weights and name in weights:
            if not torch.equal(weights[copy], weights[name]):
                raise ArtifactError(
                    f"{copy} differs from {name}", where=WEIGHTS, expected="the same, as the config ties them"
                )
            del weights[copy]


def _leave_behind(matched: Matched, family: Family) -> None:
    patterns = (*family.unused, _TASK_HEADS)
    unused = sorted(name for name in matched.weights if any(re.fullmatch(pattern, name) for pattern in patterns))
    for name in unused:
        del matched.weights[name]
    if unused:
        matched.notes.append(f"not part of a language model and left behind: {', '.join(unused)}")


def _refuse_unknown(names: Iterable[str]) -> None:
    unknown = sorted(names)
    if unknown:
        raise ArtifactError(f"{len(unknown)} weights are unknown, {unknown[0]} first", where=WEIGHTS)


def _set_missing_apart(matched: Matched, allow_missing_head: bool) -> None:
    absent = sorted({name for entry in matched.entries for name in entry.theirs} - matched.weights.keys())
    if not absent:
        return
    missing = [entry for entry in matched.entries if not set(entry.theirs) <= matched.weights.keys()]
    only_head = all(entry.ours.startswith(_HEAD) for entry in missing)
    if not (only_head and allow_missing_head):
        hint = "the folder holds a model without its output head" if only_head else None
        raise ArtifactError(f"{len(absent)} weights are missing, {absent[0]} first", where=WEIGHTS, hint=hint)
    matched.missing = missing
    matched.entries = [entry for entry in matched.entries if entry not in missing]
    matched.notes.append(f"not in the folder and freshly initialised: {', '.join(absent)}")
