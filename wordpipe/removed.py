"""The removed commands, options and values, each with what to use instead, for the error message.

An artifact that was made without a removed option stays fresh: its recipe held the option's default, which is kept here and
hashed as before.
"""

from dataclasses import dataclass
from typing import Any

_NOT_IN_RECIPES: Any = object()


@dataclass(frozen=True)
class Removed:
    """An option that is gone.

    Attributes:
        instead: what to do now, as a sentence without a full stop.
        was: the default, which recipes hold; left out where it was no part of a recipe.
    """

    instead: str
    was: Any = _NOT_IN_RECIPES


_TRAIN_FIRST = (
    "train on the documents first, then evaluate that model: wordpipe ingest DATA/corpus.jsonl -o corpus; wordpipe tokenize "
    "corpus -o tokens --vocab-size 8000; wordpipe train contrastive tokens -o model --goal search --encoder static --words "
    "WORDS --lsi-weight 1 --set lsi_dim=300 --set words_weight=0.35 --lexical-weight 0.7 --min-count 1 --steps 150 "
    "--batch-size 256"
)

COMMANDS: dict[str, str] = {}
"""Command → what to do instead."""

OPTIONS: dict[str, dict[str, Removed]] = {
    "train word2vec": {
        "phrases": Removed("leave it out, or import vectors of a program that joins words, as gensim does", was=0),
        "phrase_threshold": Removed("words are no longer joined into phrases", was=100.0),
        "device": Removed("word vectors are trained on the CPU"),
    },
    "train mlm": {"verify_resume": Removed("the tests prove it; a training on a CPU always resumes exactly")},
    "train clm": {"verify_resume": Removed("the tests prove it; a training on a CPU always resumes exactly")},
    "train contrastive": {
        "objective": Removed("train on pairs; the nearest to it is pair_deletion = 1", was="contrast"),
        "denoise_rate": Removed("pairs of deleted texts have deletion_rate", was=0.6),
        "queue": Removed("give a larger --batch-size, whose texts are all negatives", was=0),
        "mlm_weight": Removed("train the model longer by train mlm first, or with a lower --lr here", was=0.0),
        "mask_rate": Removed("it belonged to mlm_weight; train mlm has its own --mask-rate", was=0.3),
    },
    "embed": {"checkpoint_seconds": Removed("vectors are saved shard by shard, a few thousand texts each")},
    "index": {
        "rabitq_bits": Removed("indexes of rabitq codes are built no more; use --type ivf-pq", was=1),
        "nsg_degree": Removed("nsg graphs are built no more; use --type hnsw and --hnsw-m", was=32),
    },
    "diff": {
        "anchors": Removed("the 5,000 commonest shared words align the tables"),
        "min_count": Removed("leave it out: a word's shift is compared with those of words as rare"),
    },
    "evaluate tokenizer": {
        "sizes": Removed("train another size in seconds: wordpipe tokenize CORPUS --counts TOKENS --vocab-size N"),
    },
    "doctor": {
        "components": Removed("embed with other --components, and examine what that made"),
        "dims": Removed("embed with other --dims, and examine what that made"),
        "seed": Removed("the sample is the same every time; --sample takes more of the vectors"),
    },
    "evaluate sts": {
        "parts": Removed("name the files one by one with --data"),
        "pearson": Removed("--json has Pearson's correlation too"),
    },
    "evaluate retrieval": {
        "adapt": Removed(_TRAIN_FIRST),
        "adapt_config": Removed(_TRAIN_FIRST),
        "runs": Removed("--json has all figures that trec_eval would make of the answers"),
        "depth": Removed("1,000 documents are kept for each query, as trec_eval does"),
        "lsi_dim": Removed("LSI has 300 directions, or as many as there are"),
    },
}
"""Command → setting (or option, with underscores) → what became of it."""

VALUES: dict[str, dict[str, dict[str, str]]] = {
    "train word2vec": {"backend": {"torch": "use native, which trains on the CPU"}},
    "index": {
        "type": {
            "nsg": "use --type hnsw (its indexes still answer)",
            "ivf": "use --type ivf-pq (its indexes still answer)",
            "rabitq": "use --type ivf-pq, which is faster (its indexes still answer)",
            "panorama": "use --type ivf-pq, which is faster (its indexes still answer)",
        }
    },
    "export": {
        "to": {
            "onnx": "export it --to sentence-transformers; docs/tasks/programs.md has the lines that make a graph of it"
        }
    },
}
"""Command → setting → value that it no longer takes → what to do instead."""


def recipe_before(command: str) -> dict[str, Any]:
    """The removed settings of a command with their defaults, as recipes hold them."""
    gone = OPTIONS.get(command, {})
    return {name: removed.was for name, removed in gone.items() if removed.was is not _NOT_IN_RECIPES}


def why_no_command(name: str) -> str | None:
    """The error for a removed command; None: there never was one."""
    return f"{name} was removed: {COMMANDS[name]}" if name in COMMANDS else None


def why_no_option(command: str, name: str) -> str | None:
    """The error for a removed option; None: there never was one."""
    removed = OPTIONS.get(command, {}).get(name)
    return f"{name} was removed: {removed.instead}" if removed else None


def why_no_value(command: str, name: str, value: object) -> str | None:
    """The error for a removed value of an option; None: there never was one."""
    if isinstance(value, int) and value.bit_length() > 64:
        return None  # which may have more digits than Python prints
    instead = VALUES.get(command, {}).get(name, {}).get(str(value))
    return f"{name} = {value} was removed: {instead}" if instead else None
