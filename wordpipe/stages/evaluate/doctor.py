"""`wordpipe doctor`: how healthy a space of vectors is, and what would mend it; nothing is made.

Every vector is read once, for what is broken or comes again (8 bytes of memory each). The figures are of a random sample:
transforms are fitted on one half of it and judged on the other, so that none looks better than it is on new texts.

Shapes: N vectors, D numbers each, P pairs.
"""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from wordpipe.artifacts import Artifact, matrix_of, read_batches, read_schema, row_count
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import spearman
from wordpipe.metrics import vectors as space
from wordpipe.runtime import Progress
from wordpipe.sentences import MIN_TEXTS, Moments, Transform, TransformKind, check_directions
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.settings import Settings
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.tokens import WordSplitter
from wordpipe.words.settings import Word2VecSettings

_KINDS: tuple[TransformKind, ...] = ("none", "centre", "remove-components", "whiten")
_READ = 2_000  # characters of a text whose words are looked at; a sample of books would not fit the memory
_NEIGHBOURS = 10
_PAIRS = 20_000
_LEAST = 4 * MIN_TEXTS
_HARDLY = 0.05  # of the dimensions: an effective rank below it is sick, see `NORMS`
_FEWEST = 3.0  # directions; 5 % of a narrow table's are less than the one that there always is
# times the epochs. Of 2 MB of Wikipedia 1, 4 and 20 epochs gave mean cosines of 0.95, 0.83 and 0.18, in 1.4, 2.3 and 35.7 of
# 64 directions
_MORE = 4
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
    """What is healthy: a figure's name, itself in words, its bounds, what is healthy as it is shown.

    Above `weak` a figure is not healthy any more, above `sick` it is bad. `says` is what the three states mean for a search.
    """

    name: str
    what: str
    weak: float
    sick: float
    healthy: str
    says: tuple[str, str, str]

    def state(self, figures: Figures) -> int:
        """The number of the state among `_STATES`; healthy too where it could not be measured."""
        if (figure := figures[self.name]) is None:
            return 0
        share = figure / figures["dim"]
        compared = {self.name: figure, "mean_cosine": abs(figure), "effective_rank": -share, "dead_dimensions": share}
        return sum(compared[self.name] > bound for bound in (self.weak, self.sick))


def _near(what: str) -> tuple[str, str, str]:
    how = ("has little to do with", "has a say in", "decides much of")
    return tuple(f"{what} {some} how near two texts are" for some in how)  # type: ignore[return-value]


NORMS = (
    Norm("mean_cosine", "mean cosine of two texts", 0.1, 0.3, "within ±0.1", (
        "texts that have nothing in common score about 0",
        "texts that have nothing in common score above 0: all lie to one side",
        "all texts look alike: they lie in a narrow cone, and a high score says little",
    )),
    Norm("effective_rank", "effective rank", -0.15, -_HARDLY, "15 % of the dimensions or more", (
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
    Norm("length_in_cosine", "length in the cosine", 0.15, 0.3, "up to 0.15", _near("the length of the texts")),
    Norm("frequency_in_cosine", "word frequency in the cosine", 0.15, 0.3, "up to 0.15", _near("how common the words are")),
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
        sample: vectors to sample; half of them fit the transforms, half are judged.
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
        drawn, census, repeated = _read(opened, sample, seed, run)
        spaces = diagnose(
            drawn, components=components, dims=dims, seed=seed,
            report=lambda kind: run.report(Progress(f"judging the space ({kind})")),
        )  # fmt: skip
        return {
            "path": str(artifact),
            "kind": opened.kind,
            "dim": drawn.vectors.shape[1],
            "counts": {
                "rows": census.rows, "not_finite": census.not_finite, "zero": census.zero,
                "repeated_vectors": census.repeated, "repeated_texts": repeated, "sampled": len(drawn.vectors),
            },
            "norms": {"shortest": census.shortest, "longest": census.longest},
            "neighbours": _NEIGHBOURS,
            "transform": opened.manifest.facts.get("transform"),
            "spaces": spaces,
            "verdicts": {kind: judge(figures) for kind, figures in spaces.items()},
            "train_first": _training_first(opened, spaces["none"]),
            "mend": _mending(opened, best_transform(spaces), components, dims),
            "metrics": spaces["none"],
        }  # fmt: skip


def _read(artifact: Artifact, size: int, seed: int, run: RunOptions) -> tuple[Sample, space.Census, int]:
    """Go through the table once: a sample, counts over all vectors, and how many texts (or words) come again."""
    total, there = row_count(artifact, artifact.kind), read_schema(artifact, artifact.kind).names
    name = "word" if "word" in there else "text"
    counted = name == "word" and artifact.manifest.facts.get("counts") != "unknown"
    rows_S = np.sort(np.random.default_rng([seed, 0]).choice(total, min(size, total), replace=False))
    census, hashes, first = space.Census(int(artifact.manifest.facts["dim"])), [], 0
    vectors, lengths, texts, counts = list[npt.NDArray[np.float32]](), list[int](), list[str](), list[int]()
    for batch in read_batches(artifact, artifact.kind, [name, *(["count"] if counted else []), "vector"]):
        vectors_ND = matrix_of(batch.column("vector"))
        good_N = census.add(vectors_ND)
        hashes.append(np.fromiter(map(hash, batch.column(name).to_pylist()), np.int64, len(batch)))
        inside = rows_S[np.searchsorted(rows_S, first) : np.searchsorted(rows_S, first + len(batch))] - first
        inside = inside[good_N[inside]]
        vectors.append(vectors_ND[inside])
        lengths += pc.utf8_length(taken := batch.column(name).take(inside)).to_pylist()
        texts += pc.utf8_slice_codeunits(taken, 0, _READ).to_pylist()
        counts += batch.column("count").take(inside).to_pylist() if counted else []
        first += len(batch)
        run.report(Progress("reading vectors", first, total, "vectors"))
    if counted:
        frequencies_N = np.log1p(np.array(counts, dtype=np.float64))
    else:
        frequencies_N = np.full(len(texts), np.nan) if name == "word" else _frequencies(texts)
    lengths_N = np.log1p(np.array(lengths, dtype=np.float64))
    repeated = total - len(np.unique(np.concatenate(hashes)))
    return unit_sample(Sample(np.concatenate(vectors), lengths_N, frequencies_N), seed), census, repeated


def _frequencies(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """The mean logarithm of how often each text's words occur in the sample; NaN for a text without words."""
    words = [*map(WordSplitter(), texts)]
    counts = Counter(word for some in words for word in some)
    means = [np.log([counts[word] for word in some]).mean() if some else np.nan for some in words]
    return np.array(means, dtype=np.float64)


def unit_sample(read: Sample, seed: int) -> Sample:
    """What was read, made unit length, without vectors that come again, in random order."""
    unit_ND, valid_N = space.unit_rows(read.vectors)
    _, first_N = np.unique(unit_ND, axis=0, return_index=True)
    kept = np.random.default_rng([seed, 1]).permutation(np.sort(first_N[valid_N[first_N]]))
    return read._replace(vectors=unit_ND).part(kept)


def diagnose(
    sample: Sample, *, components: int = 1, dims: int = 0, seed: int = 1, report: Callable[[str], None] = lambda _: None
) -> dict[TransformKind, Figures]:
    """The figures of a space as it is (none) and after each transform; one that it is too small or too flat for is left out.

    The first half of the sample fits, the second is judged. Fewer than 64 vectors are refused (InputError).
    """
    n = len(sample.vectors)
    if n < _LEAST:
        hint = "embed more text" if n else None
        raise InputError("too few different vectors to judge a space", got=n, expected=_LEAST, hint=hint)
    fitted, judged = sample.part(slice(n // 2)), sample.part(slice(n // 2, None))
    moments, found = Moments(sample.vectors.shape[1]), dict[TransformKind, Figures]()
    moments.add(fitted.vectors)
    for kind in _KINDS:
        try:
            transform = moments.fit(kind, components, dims=dims)
        except (ConfigError, InputError):
            continue
        report(kind)
        found[kind] = _figures(fitted.after(transform), judged.after(transform), seed)
    return found


def _figures(fitted: Sample, judged: Sample, seed: int) -> Figures:
    unit_ND = judged.vectors
    one_P, other_P = space.random_pairs(len(unit_ND), _PAIRS, seed)
    cosines_P = np.einsum("pd,pd->p", unit_ND[one_P], unit_ND[other_P]).astype(np.float64)
    near = space.hubs(unit_ND, _NEIGHBOURS)

    def told(of_fitted_N: npt.NDArray[np.float64], of_judged_N: npt.NDArray[np.float64]) -> float | None:
        known, seen = np.isfinite(of_fitted_N), np.isfinite(of_judged_N)
        if not known.any() or not seen.any():
            return None
        return space.told_share(fitted.vectors[known], of_fitted_N[known], unit_ND[seen], of_judged_N[seen])

    def in_cosine(values_N: npt.NDArray[np.float64]) -> float | None:
        alike_P = -np.abs(values_N[one_P] - values_N[other_P])
        known = np.isfinite(alike_P)
        return spearman(cosines_P[known], alike_P[known])

    return {
        "mean_cosine": space.mean_cosine(unit_ND), "cosine_deviation": float(cosines_P.std()),
        "effective_rank": space.effective_rank(unit_ND),
        "hub_skew": near.skew, "orphans": near.orphans, "twins": near.twins,
        "length_told": told(fitted.lengths, judged.lengths), "length_in_cosine": in_cosine(judged.lengths),
        "frequency_told": told(fitted.frequencies, judged.frequencies),
        "frequency_in_cosine": in_cosine(judged.frequencies),
        "dead_dimensions": space.dead_dimensions(unit_ND),
        "dim": unit_ND.shape[1],
    }  # fmt: skip


def judge(figures: Figures) -> list[dict[str, str]]:
    """A verdict (name, state, says) on every figure that could be measured."""
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
    chosen |= {"components": components} if best == "remove-components" and components != 1 else {}
    chosen |= {"dims": dims} if best == "whiten" and dims else {}
    shown, flags = shlex.quote(str(artifact.path)), _flags(chosen)
    command = f"wordpipe embed MODEL CORPUS -o SENTENCES {flags} && wordpipe index SENTENCES -o {shown}"
    if artifact.kind == "sentences":
        command = _again(artifact, chosen)
    elif artifact.kind == "words":
        trained = artifact.manifest.command == "train word2vec" and best != "whiten"
        again = _again(artifact, {"remove_components": components}) if trained else None
        # of another program, or by what only texts can be given
        command = again or f"wordpipe embed {shown} CORPUS -o SENTENCES {flags}"
    return {"transform": best, "command": command}


def _training_first(artifact: Artifact, figures: Figures) -> str | None:
    """What to do before any transform, with the command: words in next to no directions have hardly been trained."""
    made = artifact.manifest
    if figures["effective_rank"] >= max(_FEWEST, _HARDLY * figures["dim"]):
        return None
    if made.command == "train word2vec" and artifact.kind == "words":
        epochs = int(made.facts["epochs"])
        said = f"Trained too little (--epochs {epochs}): no transform brings what was not learned"
        command = _again(artifact, {"epochs": _MORE * epochs})
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
