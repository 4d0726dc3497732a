"""Tables of heads, from benchmarks/results/heads.json."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from wordpipe_docs.figures import result, source, table

_SETS = {
    "sst": "SST, positive or negative", "sick": "SICK, entailment of pairs", "trec": "TREC, six kinds of questions",
    "wnut": "WNUT-17, names in posts", "xquad": "XQuAD, answers out of passages",
}  # fmt: skip
_SYSTEMS = {
    "bags": "TF-IDF, logistic regression; of names a gazetteer", "words": "word vectors",
    "fresh": "transformer, first weights", "pretrained": "transformer after `train mlm`",
}  # fmt: skip
_GAINED = ("sst", "trec", "wnut")


def _part(name: str) -> Any:
    return result("heads")["parts"][name]


def heads() -> str:
    """Heads beside those of transformers, from the same folder with the same settings."""
    found, speed, rows = _part("heads"), _part("speed"), []
    for name, says in _SETS.items():
        if one := found.get(name):
            means = (f"{100 * one[side]['mean']:.1f}" for side in ("ours", "theirs"))
            times = (
                f"{speed[name][kind]:.2f}" if name in speed else "not measured"
                for kind in ("times_as_fast", "predicting_times_as_fast")
            )
            rows.append([says, one["measure"], *means, _apart(one), *times])
    seeds = len(next(found[name] for name in _SETS if name in found)["ours"]["scores"])
    text = (
        f"Means of {seeds} trainings on one {found['device']} in float32, with transformers "
        f"{found['libraries']['transformers']}. The brackets contain the 95 % interval of the difference, compared text by "
        "text. The last two columns were measured on a CPU: the seconds of transformers divided by the seconds of "
        f"wordpipe, for an epoch with its held-out texts and for predicting. {source('heads', found=speed)}"
    )
    head = ["set", "measure", "wordpipe", "transformers", "difference", "training, times as fast", "predicting"]
    return f"{table(head, rows)}\n\n{text}"


def _apart(one: Any) -> str:
    low, high = (100 * bound for bound in one["difference"]["interval"])
    return f"{100 * one['difference']['mean']:+.1f} ({low:+.1f} to {high:+.1f})"


def head_gain() -> str:
    """What pre-training brings, by how many labels there are."""
    found, rows = _part("gain"), []
    for name in _GAINED:
        for number in ("100", "1000", "all"):
            if one := found.get(f"{name}-{number}"):
                cells = (f"{100 * one[system]['mean']:.1f}" for system in _SYSTEMS)
                rows.append([_SETS[name].partition(",")[0], number, *cells])
    before = _part("pretrain")
    text = (
        "Accuracy, and F1 of spans for WNUT-17. Figures are means of three random samples of labels. The model was trained "
        f"for {before['figures']['steps']:,} steps on {before['mb']:.0f} MB of Wikipedia, in {before['seconds'] / 60:.0f} "
        f"minutes on two cores. {source('heads', found=found)}"
    )
    return f"{table(['set', 'labels', *_SYSTEMS.values()], rows)}\n\n{text}"


def head_adapting() -> str:
    """A BERT of transformers with and without more of its own kind of text."""
    found, rows = _part("adapt"), []
    for name, one in found["sets"].items():
        means = (f"{100 * fmean(one[says]):.1f}" for says in ("as it was", "adapted"))
        rows.append([_SETS[name].partition(",")[0], *means, _apart(one)])
    text = (
        'The model is a folder of transformers with its tokenizer. "As it was" is `train classifier` or `train tagger` on '
        'this model; "adapted" is the same after `train mlm --init` on the texts of the set, without their labels. Figures '
        f"are means of three trainings on one {found['device']}. {source('heads', found=found)}"
    )
    return f"{table(['set', 'as it was', 'adapted', 'difference'], rows)}\n\n{text}"


HEAD_FIGURES: dict[str, Callable[[], str]] = {"heads": heads, "head-gain": head_gain, "head-adapting": head_adapting}
