"""`wordpipe doctor`: the health of a space of vectors, and the transform or training that would mend it; nothing is made.

Every vector is read once, for what is broken or comes again (8 bytes of memory each). The figures are of a random sample:
transforms are fitted on one half of it and evaluated on the other, so that none looks better than it is on new texts.

Shapes: N vectors, D numbers each, P pairs.
"""

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from wordpipe.artifacts import Artifact, matrix_of, read_batches, read_schema, row_count
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import (
    VectorStatistics,
    dead_dimensions,
    effective_rank,
    hubs,
    mean_cosine,
    random_pairs,
    ridge_r_squared,
    spearman,
    unit_rows,
)
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.sentences import MIN_TEXTS, Moments, Transform, TransformKind, check_directions
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.settings import Settings
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.tokens import WordSplitter
from wordpipe.words.settings import Word2VecSettings

_MAX_CHARACTERS = 2_000  # characters of a text whose words are looked at; a sample of books would not fit the memory
_NEIGHBOURS = 10
_PAIRS = 20_000
_MIN_VECTORS = 4 * MIN_TEXTS
_MIN_RANK_SHARE = 0.05  # of the dimensions: an effective rank below it is sick, see `NORMS`
_MIN_RANK = 3.0  # directions; 5 % of a narrow table's are less than the one that there always is
# times the epochs. Of 2 MB of Wikipedia 1, 4 and 20 epochs gave mean cosines of 0.95, 0.83 and 0.18, in 1.4, 2.3 and 35.7 of
# 64 directions
_EPOCHS_FACTOR = 4
_STATES = ("healthy", "weak", "sick")
_MADE_BY: dict[str, tuple[str, type[Settings], tuple[str, ...]]] = {
    "sentences": ("embed", EmbedSettings, ("MODEL", "CORPUS")),
    "words": ("train word2vec", Word2VecSettings, ("TOKENS",)),
}

Figures = dict[str, Any]
"""What a space looks like.

mean_cosine, of all pairs; cosine_deviation, standard deviation over random pairs; effective_rank, directions in which the
vectors lie; hub_skew, skewness of how often a vector is among others' 10 nearest; orphans, share of vectors that are among
nobody's; twins, share of vectors with a neighbour at a cosine of 0.99 or more; length_told, how much of a text's (log) length
its vector tells a linear model, R²; length_in_cosine, Spearman's correlation of the cosine of two texts with how alike their
lengths are (both None where lengths do not vary); frequency_told and frequency_in_cosine, the same of how common the words are
(None where nobody counted); dead_dimensions, numbers that hardly vary; dim.
"""


class Sample(NamedTuple):
    """Some of the vectors, in random order, with what they should not tell."""

    vectors: npt.NDArray[np.float32]  # (N, D), of length 1
    lengths: npt.NDArray[np.float64]  # (N,) the logarithm of the characters of each text or word
    frequencies: npt.NDArray[np.float64]  # (N,) of how common its words are, on average; NaN where nobody counted

    def part(self, rows: Any) -> "Sample":
        """Some of the rows."""
        return Sample(*(column[rows] for column in self))

    def after(self, transform: Transform) -> "Sample":
        """The sample after a transform, without what has no direction left."""
        vectors_ND, lost_N = transform.apply(self.vectors)
        return self._replace(vectors=vectors_ND).part(~lost_N)


class Norm(NamedTuple):
    """What is healthy of one figure. Above `weak` it is not healthy any more, above `sick` it is bad."""

    name: str  # of the figure
    what: str  # it, in words
    weak: float
    sick: float
    healthy: str  # what is healthy, as it is shown
    says: tuple[str, str, str]  # what being healthy, weak or sick means for a search

    def state(self, figures: Figures) -> int:
        """The number of the state among `_STATES`; healthy too where it could not be measured."""
        if (figure := figures[self.name]) is None:
            return 0
        share = figure / figures["dim"]
        compared = {self.name: figure, "mean_cosine": abs(figure), "effective_rank": -share, "dead_dimensions": share}
        return sum(compared[self.name] > bound for bound in (self.weak, self.sick))


NORMS = (
    Norm("mean_cosine", "mean cosine of two texts", 0.1, 0.3, "within ±0.1", (
        "texts that have nothing in common score about 0",
        "texts that have nothing in common score above 0: all lie to one side",
        "all texts look alike: they lie in a narrow cone, and a high score says little",
    )),
    Norm("effective_rank", "effective rank", -0.15, -_MIN_RANK_SHARE, "15 % of the dimensions or more", (
        "the vectors use many directions",
        "the vectors use few of their directions",
        "the vectors lie in next to no directions",
    )),
    Norm("hub_skew", "hubness (skew of 10-occurrence)", 3.0, 6.0, "up to 3", (
        "no text is near everything",
        "some texts are near very many others",
        "a few texts turn up in answer to everything",
    )),
    Norm("orphans", "texts near nobody", 0.2, 0.4, "up to 20 %", (
        "few texts are out of every other's reach",
        "many texts are among nobody's 10 nearest",
        "a search would hardly ever find a large part of the texts",
    )),
    Norm("twins", "texts with a twin (cosine 0.99)", 0.05, 0.3, "up to 5 %", (
        "texts that differ have vectors that differ",
        "some texts cannot be told apart",
        "a large part of the texts cannot be told apart",
    )),
    Norm("length_in_cosine", "length in the cosine", 0.15, 0.3, "up to 0.15", (
        "the length of the texts has little to do with how near two texts are",
        "the length of the texts has a say in how near two texts are",
        "the length of the texts decides much of how near two texts are",
    )),
    Norm("frequency_in_cosine", "word frequency in the cosine", 0.15, 0.3, "up to 0.15", (
        "how common the words are has little to do with how near two texts are",
        "how common the words are has a say in how near two texts are",
        "how common the words are decides much of how near two texts are",
    )),
    Norm("dead_dimensions", "dead dimensions", 0.0, 0.1, "0", (
        "every number of a vector says something",
        "some numbers are the same in all vectors",
        "many numbers are the same in all vectors: a smaller --dim would do",
    )),
)  # fmt: skip


def doctor(
    artifact: PathLike,
    *,
    sample: int = 10_000,
    components: int = 1,
    dims: int = 0,
    seed: int = 1,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Examine the vectors of an artifact.

    Args:
        artifact: sentences, words, or an index over either.
        sample: vectors to sample; transforms are fitted on half of them and evaluated on the other half.
        components: directions that remove-components takes away.
        dims: directions that whiten keeps, 0 = all.
        seed: of the sample.
        run: progress, verification.

    Returns:
        path, kind, dim, counts, norms (shortest and longest), neighbours (K of hubness), transform (what the vectors went
        through already), spaces (transform → `Figures`), verdicts (transform → list of name, state, says), train_first (what
        to do before any transform, or None), mend (transform and command; None for a space that needs none), metrics (the
        figures as they are).

    Raises:
        ConfigError: a sample too small to judge, or more directions than the vectors have.
        InputError: fewer than 64 different vectors.
    """
    if sample < 128:
        raise ConfigError("too small a sample to judge", where="sample", got=sample, expected="at least 128")
    run = run or RunOptions()
    with storage_errors(), Artifact(artifact, ["sentences", "words", "index"], verify=run.verify) as opened:
        # the one component that is tried unasked may be all that there is: then it is left out
        check_directions(int(opened.manifest.facts["dim"]), components=components if components > 1 else 0, dims=dims)
        drawn, statistics, repeated = _read(opened, sample, seed, run.report)
        spaces = diagnose(drawn, components=components, dims=dims, seed=seed, report=run.report)
        return {
            "path": str(artifact),
            "kind": opened.kind,
            "dim": drawn.vectors.shape[1],
            "counts": {
                "rows": statistics.rows, "not_finite": statistics.not_finite, "zero": statistics.zero,
                "repeated_vectors": statistics.repeated, "repeated_texts": repeated, "sampled": len(drawn.vectors),
            },
            "norms": {"shortest": statistics.shortest, "longest": statistics.longest},
            "neighbours": _NEIGHBOURS,
            "transform": opened.manifest.facts.get("transform"),
            "spaces": spaces,
            "verdicts": {kind: rate(figures) for kind, figures in spaces.items()},
            "train_first": _training_first(opened, spaces["none"]),
            "mend": _mending(opened, best_transform(spaces), components, dims),
            "metrics": spaces["none"],
        }  # fmt: skip


def _read(artifact: Artifact, size: int, seed: int, report: Report) -> tuple[Sample, VectorStatistics, int]:
    """Go through the table once: a sample, counts over all vectors, and how many texts (or words) come again."""
    total, columns = row_count(artifact, artifact.kind), read_schema(artifact, artifact.kind).names
    name = "word" if "word" in columns else "text"
    counted = name == "word" and artifact.manifest.facts.get("counts") != "unknown"
    rows_S = np.sort(np.random.default_rng([seed, 0]).choice(total, min(size, total), replace=False))
    statistics, hashes, first = VectorStatistics(), [], 0
    vectors, lengths, texts, counts = list[npt.NDArray[np.float32]](), list[int](), list[str](), list[int]()
    for batch in read_batches(artifact, artifact.kind, [name, *(["count"] if counted else []), "vector"]):
        vectors_ND = matrix_of(batch.column("vector"))
        good_N = statistics.add(vectors_ND)
        hashes.append(np.fromiter(map(hash, batch.column(name).to_pylist()), np.int64, len(batch)))
        # the rows of the sample that are in this batch and are not broken
        inside = rows_S[np.searchsorted(rows_S, first) : np.searchsorted(rows_S, first + len(batch))] - first
        taken = batch.take(inside[good_N[inside]])
        vectors.append(matrix_of(taken.column("vector")))
        lengths += pc.utf8_length(taken.column(name)).to_pylist()
        texts += pc.utf8_slice_codeunits(taken.column(name), 0, _MAX_CHARACTERS).to_pylist()
        counts += taken.column("count").to_pylist() if counted else []
        first += len(batch)
        report(Progress("reading vectors", first, total, "vectors"))
    if counted:
        frequencies_N = np.log1p(np.array(counts, dtype=np.float64))
    else:
        frequencies_N = np.full(len(texts), np.nan) if name == "word" else _frequencies(texts)
    lengths_N = np.log1p(np.array(lengths, dtype=np.float64))
    repeated = total - len(np.unique(np.concatenate(hashes)))
    return unit_sample(Sample(np.concatenate(vectors), lengths_N, frequencies_N), seed), statistics, repeated


def _frequencies(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """The mean logarithm of how often each text's words occur in the sample; NaN for a text without words."""
    words = [*map(WordSplitter(), texts)]
    counts = Counter(word for some in words for word in some)
    means = [np.log([counts[word] for word in some]).mean() if some else np.nan for some in words]
    return np.array(means, dtype=np.float64)


def unit_sample(read: Sample, seed: int) -> Sample:
    """What was read, made unit length, without vectors that come again, in random order."""
    unit_ND, valid_N = unit_rows(read.vectors)
    _, first_N = np.unique(unit_ND, axis=0, return_index=True)
    kept = np.random.default_rng([seed, 1]).permutation(np.sort(first_N[valid_N[first_N]]))
    return read._replace(vectors=unit_ND).part(kept)


def diagnose(
    sample: Sample, *, components: int = 1, dims: int = 0, seed: int = 1, report: Report = quiet
) -> dict[TransformKind, Figures]:
    """The figures of a space as it is (none) and after each transform; one that it is too small or too flat for is left out.

    Transforms are fitted on the first half of the sample, the figures are of the second. Fewer than 64 vectors are refused
    (InputError).
    """
    n = len(sample.vectors)
    if n < _MIN_VECTORS:
        hint = "embed more text" if n else None
        raise InputError("too few different vectors to judge a space", got=n, expected=_MIN_VECTORS, hint=hint)
    fitted, held_out = sample.part(slice(n // 2)), sample.part(slice(n // 2, None))
    moments, found = Moments(sample.vectors.shape[1]), dict[TransformKind, Figures]()
    moments.add(fitted.vectors)
    for kind in get_args(TransformKind):
        try:
            transform = moments.fit(kind, components, dims=dims)
        except (ConfigError, InputError):
            continue
        report(Progress(f"evaluating the space ({kind})"))
        found[kind] = _figures(fitted.after(transform), held_out.after(transform), seed)
    return found


def _figures(fitted: Sample, held_out: Sample, seed: int) -> Figures:
    unit_ND = held_out.vectors
    one_P, other_P = random_pairs(len(unit_ND), _PAIRS, seed)
    cosines_P = np.einsum("pd,pd->p", unit_ND[one_P], unit_ND[other_P]).astype(np.float64)
    near = hubs(unit_ND, _NEIGHBOURS)
    figures: Figures = {
        "mean_cosine": mean_cosine(unit_ND), "cosine_deviation": float(cosines_P.std()),
        "effective_rank": effective_rank(unit_ND),
        "hub_skew": near.skew, "orphans": near.orphans, "twins": near.twins,
    }  # fmt: skip
    for name, of_fitted_N, of_others_N in (
        ("length", fitted.lengths, held_out.lengths), ("frequency", fitted.frequencies, held_out.frequencies),
    ):  # fmt: skip
        known, seen = np.isfinite(of_fitted_N), np.isfinite(of_others_N)
        measured = known.any() and seen.any()
        alike_P = -np.abs(of_others_N[one_P] - of_others_N[other_P])
        there_P = np.isfinite(alike_P)
        figures[f"{name}_told"] = (
            ridge_r_squared(fitted.vectors[known], of_fitted_N[known], unit_ND[seen], of_others_N[seen])
            if measured
            else None
        )
        figures[f"{name}_in_cosine"] = spearman(cosines_P[there_P], alike_P[there_P])
    return figures | {"dead_dimensions": dead_dimensions(unit_ND), "dim": unit_ND.shape[1]}


def rate(figures: Figures) -> list[dict[str, str]]:
    """The state (name, state, says) of every figure that could be measured."""
    states = [(norm, norm.state(figures)) for norm in NORMS if figures[norm.name] is not None]
    return [{"name": norm.name, "state": _STATES[state], "says": norm.says[state]} for norm, state in states]


def best_transform(spaces: Mapping[TransformKind, Figures]) -> TransformKind:
    """What mends a sick space: the transform that leaves the fewest sick figures, then the fewest weak ones.

    Of equals it is the first, which does least; but where the vectors lie in next to no directions the last, which gives
    every direction its say. A space that is weak at most is left alone.

    Correlation with people's judgement (STS-B dev, Spearman x 100) as it is / centred / whitened: mean-pooled hidden states
    of three small masked models, which are sick, 55.5 / 53.4 / 63.0, 54.0 / 57.0 / 67.1 and 48.4 / 43.3 / 61.5; sif of word
    vectors, which is weak, 75.0 / 73.8 / 73.5.
    """
    states = {kind: {norm.name: norm.state(figures) for norm in NORMS} for kind, figures in spaces.items()}
    pains = {kind: ([*found.values()].count(2), [*found.values()].count(1)) for kind, found in states.items()}
    if not pains["none"][0]:
        return "none"
    return min([*spaces][:: -1 if states["none"]["effective_rank"] == 2 else 1], key=pains.__getitem__)


def _mending(artifact: Artifact, best: TransformKind, components: int, dims: int) -> dict[str, str] | None:
    """What mends the vectors of this artifact: transform and command; None where nothing does better than none."""
    if best == "none":
        return None
    chosen: dict[str, Any] = {"transform": best}
    if best == "remove-components" and components != 1:
        chosen["components"] = components
    if best == "whiten" and dims:
        chosen["dims"] = dims
    shown, flags = shlex.quote(str(artifact.path)), _flags(chosen)
    if artifact.kind == "sentences":
        command = _again(artifact, chosen)
    elif artifact.kind == "index":
        command = f"wordpipe embed MODEL CORPUS -o SENTENCES {flags} && wordpipe index SENTENCES -o {shown}"
    elif artifact.manifest.command == "train word2vec" and best != "whiten":
        command = _again(artifact, {"remove_components": components})
    else:  # words of another program, or a transform that only texts can be given
        command = f"wordpipe embed {shown} CORPUS -o SENTENCES {flags}"
    return {"transform": best, "command": command}


def _training_first(artifact: Artifact, figures: Figures) -> str | None:
    """What to do before any transform, with the command: words in next to no directions have hardly been trained."""
    made = artifact.manifest
    if figures["effective_rank"] >= max(_MIN_RANK, _MIN_RANK_SHARE * figures["dim"]):
        return None
    if made.command == "train word2vec" and artifact.kind == "words":
        epochs = int(made.facts["epochs"])
        said = f"Trained too little (--epochs {epochs}): no transform brings what was not learned"
        command = _again(artifact, {"epochs": _EPOCHS_FACTOR * epochs})
    elif artifact.kind != "words" and (made.facts.get("encoder") or {}).get("kind") == "words":
        said = "Perhaps the word vectors were trained too little"
        command = f"wordpipe doctor {shlex.quote(_input(artifact, made.inputs[0].path) or 'WORDS')}"
    else:
        return None
    return f"{said}. First:\n  {command}"


def _again(artifact: Artifact, chosen: Mapping[str, Any]) -> str:
    """The command that made the artifact, with other settings."""
    verb, cls, names = _MADE_BY[artifact.kind]
    made = artifact.manifest.settings
    kept = {
        name: made[name] for name, field in cls.model_fields.items() if made.get(name, field.default) != field.default
    }
    plain = {name: value for name, value in kept.items() if isinstance(value, str | int | float)}
    found = [_input(artifact, entry.path) for entry in artifact.manifest.inputs]
    # several sources that were read on the fly are left to the reader
    paths = found if len(found) == len(names) else names
    inputs = [shlex.quote(path or name) for path, name in zip(paths, names, strict=True)]
    return " ".join(["wordpipe", verb, *inputs, "-o", shlex.quote(str(artifact.path)), _flags({**plain, **chosen})])


def _flags(values: Mapping[str, Any]) -> str:
    flags = [(name.replace("_", "-"), value) for name, value in values.items()]
    return " ".join(
        f"--{'' if value else 'no-'}{name}" if isinstance(value, bool) else f"--{name} {shlex.quote(str(value))}"
        for name, value in flags
    )


def _input(artifact: Artifact, path: str | None) -> str | None:
    """The path of an input, as seen from here."""
    return path if path is None or path.startswith("python:") else os.path.normpath(artifact.path.parent / path)
