"""Tables of encoder-decoders, from benchmarks/results/seq2seq.json."""

from collections.abc import Callable
from typing import Any

from wordpipe_docs.figures import result, source, table


def _part(name: str) -> Any:
    return result("seq2seq")["parts"][name]


def translation() -> str:
    """What a model learned from 29,000 pairs, and ten of its translations as they came."""
    found = _part("multi30k")
    training, said = found["training"], found["evaluation"]
    names = {
        "model": "`train seq2seq`",
        "nearest": "the target of the nearest training pair",
        "copy": "the source itself",
    }
    rows = [
        [says, *(f"{said['metrics'][who][name]:.1f}" for name in ("bleu_lc", "bleu", "chrf"))]
        for who, says in names.items()
        if who in said["metrics"]
    ]
    counts = training["counts"]
    text = (
        f"multi30k, German to English: {counts['pairs_train']:,} pairs, {counts['parameters'] / 1e6:.1f}M weights, "
        f"{counts['steps']:,} steps in {training['seconds'] / 60:.0f} minutes; {said['counts']['pairs']:,} pairs to validate "
        f"on, 5 beams. Signatures: {said['signatures']['bleu_lc']}; {said['signatures']['bleu']}; chrF "
        f"{said['signatures']['chrf']}."
    )
    lines = [[one["source"], one["references"][0], next(iter(one["outputs"].values()))] for one in said["samples"]]
    first = table(["", "BLEU, lower-cased", "BLEU, cased", "chrF"], rows)
    second = table(["German", "reference", "what the model wrote"], lines)
    return f"{first}\n\n{text} {source('seq2seq', found=found)}\n\n{second}"


def pair_speed() -> str:
    """The training step and decoding of encoder-decoders beside transformers."""
    decode = _part("decode")
    text = (
        f"To decode 1,000 sentences with 5 beams takes {decode['seconds']:.1f} s. `generate` of transformers at its fastest "
        f"batch size takes {decode['seconds_of_transformers']:.1f} s ({decode['times_as_fast']:.2f} times as long), and "
        f"{decode['equal_texts']:.1%} of the texts are equal. {source('seq2seq', found=decode)}"
    )
    return "\n\n".join([_steps("speed", ""), _steps("speed, AVX2", ", with torch and oneDNN limited to AVX2"), text])


def _steps(part: str, says: str) -> str:
    """Tokens per second of all sides, and where the time of ours goes."""
    found = _part(part)
    lines: dict[str, dict[str, str]] = {}
    for one in found["lines"]:
        lines.setdefault(f"{_STYLES[one['kind']]}: {one['says']}", {})[one["dtype"]] = f"{one['tokens_per_s']:,}"
    dtypes = [dtype for dtype in ("float32", "bfloat16") if any(dtype in by for by in lines.values())]
    rows = [[who, *(by.get(dtype, "–") for dtype in dtypes)] for who, by in lines.items()]
    times = "; ".join(
        f"{_STYLES[one['kind']]}, {one['dtype']}: {one['times_as_fast']:.2f} times {one['against']}"
        for one in found["ratios"]
    )
    first, second = table(["training step", *dtypes], rows), _time_of(found["products"])
    text = f"Tokens of both sides per second{says}. With AdamW on both sides: {times}. {source('seq2seq', found=found)}"
    return f"{first}\n\n{text}\n\n{second}"


def _time_of(steps: list[dict[str, Any]]) -> str:
    """Where the time of steps goes, and how long the products alone would take."""
    kinds = sorted(steps[0]["where"], key=lambda kind: -steps[0]["where"][kind])
    rows = [[kind, *(f"{one['where'][kind]:.0%}" for one in steps)] for kind in kinds]
    for whose, says in (("torch", "as torch computes them"), ("ours", "as we do")):
        cells = [f"{one[f'share_{whose}']:.0%}" for one in steps]
        rows.append([f"*the products of the weights alone, {says}*", *cells])
    head = [f"{_STYLES[one['kind']]}, {one['dtype']}" for one in steps]
    return table(["share of the time of our step (torch profiler)", *head], rows)


_STYLES = {"vaswani": "vaswani", "t5": "T5"}


def pair_ablations() -> str:
    """What parts of the training bring."""
    found = _part("ablations")
    rows = [_row(says, one) for says, one in found["trainings"].items()]
    text = (
        f"These trainings on the same pairs are shorter, with {found['epochs']:g} epochs. In each line except the first, "
        "one part of the training is missing."
    )
    return f"{table(_HEAD, rows)}\n\n{text} {source('seq2seq', found=found)}"


def pair_denoising() -> str:
    """What learning to restore damaged texts first brings to few pairs."""
    found = _part("denoising")
    names = {"fresh": "new weights", "denoised before": "the weights of `train denoising`"}
    rows = [_row(names[says], one) for says, one in found["trainings"].items()]
    first, counts = found["denoising"], found["trainings"]["fresh"]["training"]["counts"]
    text = (
        f"{counts['pairs_train']:,} pairs of multi30k, {counts['steps']:,} steps, BART's style. Before this training, "
        f"`train denoising` read both sides of all pairs as separate texts, for {first['counts']['steps']:,} steps in "
        f"{first['seconds'] / 60:.0f} minutes."
    )
    return f"{table(_HEAD, rows)}\n\n{text} {source('seq2seq', found=found)}"


def pair_tasks() -> str:
    """One model, three tasks."""
    found = _part("tasks")
    systems = {
        "model": "the model", "copy": "the source itself", "first_sentence": "its first sentence",
        "nearest": "the target of the nearest training pair",
    }  # fmt: skip
    tasks = {
        "title: ": ("title of a passage", "title"), "answer: ": ("answer to a question", "answer"),
        "sentiment: ": ("sentiment of a sentence", "sentiment"),
    }  # fmt: skip
    rows = []
    for task, (says, _) in tasks.items():
        for one in found["systems"]:
            scores = one["by_prefix"][task]
            scores = scores.get("metrics", scores)
            rows.append([says, systems[one["system"]], f"{scores['rouge_l']:.3f}", f"{scores['exact_match']:.1%}"])
            says = ""
    counts, training = found["pairs"], found["training"]
    learned = ", ".join(f"{short} {counts[f'train {short}']:,}" for _, short in tasks.values())
    held_out = ", ".join(f"{short} {counts[f'held-out {short}']:,}" for _, short in tasks.values())
    text = (
        f"Training pairs: {learned}. Held-out pairs, chosen by document: {held_out}. The training took "
        f"{training['counts']['steps']:,} steps in {training['seconds'] / 60:.0f} minutes. It started from a model that had "
        f"learned to restore damaged passages for {found['denoising']['seconds'] / 60:.0f} minutes (BART's style). The "
        "input for a question also contains the sentence of its answer and the sentences around it, because the model has "
        "128 positions."
    )
    return f"{table(['task', 'who', 'ROUGE-L', 'exact'], rows)}\n\n{text} {source('seq2seq', found=found)}"


_HEAD = ["multi30k, validation set", "BLEU, lower-cased", "BLEU, cased", "chrF", "loss"]


def _row(says: str, one: dict[str, Any]) -> list[str]:
    scores = one["evaluation"]
    return [says, *(f"{scores[name]:.1f}" for name in ("bleu_lc", "bleu", "chrf")), f"{scores['loss']:.3f}"]


PAIR_FIGURES: dict[str, Callable[[], str]] = {
    "translation": translation, "pair-speed": pair_speed, "pair-ablations": pair_ablations,
    "pair-denoising": pair_denoising, "pair-tasks": pair_tasks,
}  # fmt: skip
"""Parts of pages, by the names that pages call them by."""
