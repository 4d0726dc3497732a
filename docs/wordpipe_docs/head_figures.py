"""Tables of heads, from benchmarks/results/heads.json."""

from collections.abc import Callable
from typing import Any

from wordpipe_docs.figures import result, source, table

_SETS = {"sst": "SST, positive or negative", "trec": "TREC, six kinds of questions", "wnut": "WNUT-17, names in posts"}
_SYSTEMS = {
    "bags": "TF-IDF, logistic regression; of names a gazetteer", "words": "word vectors",
    "fresh": "transformer, first weights", "pretrained": "transformer after `train mlm`",
}  # fmt: skip


def _part(name: str) -> Any:
    return result("heads")["parts"][name]


def head_gain() -> str:
    """What pre-training brings, by how many labels there are."""
    found, rows = _part("gain"), []
    for name, says in _SETS.items():
        for number in ("100", "1000", "all"):
            if one := found.get(f"{name}-{number}"):
                cells = (f"{100 * one[system]['mean']:.1f}" for system in _SYSTEMS)
                rows.append([says, number, *cells])
    before = _part("pretrain")
    text = (
        f"Accuracy, of WNUT-17 F1 of spans; means of three draws of so many labels. The model: {before['figures']['steps']:,} "
        f"steps on {before['mb']:.0f} MB of Wikipedia, {before['seconds'] / 60:.0f} minutes of two cores. "
        f"{source('heads', found=found)}"
    )
    return f"{table(['set', 'labels', *_SYSTEMS.values()], rows)}\n\n{text}"


HEAD_FIGURES: dict[str, Callable[[], str]] = {"head-gain": head_gain}
