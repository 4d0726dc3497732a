"""`wordpipe doctor`: how healthy a space of vectors is, and what would mend it; nothing is made."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts.layout import matrix_of
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.errors import ConfigError
from wordpipe.metrics.vectors import Census
from wordpipe.runtime import Progress
from wordpipe.sentences.diagnosis import NEIGHBOURS, Sample, diagnose, unit_sample
from wordpipe.sentences.fitting import check_directions
from wordpipe.sentences.transforms import TransformKind
from wordpipe.sentences.verdicts import best_transform, judge
from wordpipe.stages.doctor_command import mending, training_first
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.tokens.words import WordSplitter

__all__ = ["doctor"]

_KINDS: tuple[TransformKind, ...] = ("none", "centre", "remove-components", "whiten")
_READ = 2_000  # characters of a text whose words are looked at; a sample of books would not fit the memory


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

    Every vector is read once, for what is broken or comes again (8 bytes of memory each); the figures of the space are
    taken of a random sample, of which one half fits the transforms and the other is judged.

    Args:
        artifact: sentences, words, or an index over either.
        sample: vectors to sample.
        components: directions that remove-components takes away.
        dims: directions that whiten keeps, 0 = all.
        seed: of the sample.
        run: progress, verification.

    Returns:
        path, kind, dim, counts (rows, sampled, not finite, zero, repeated vectors, repeated texts), norms (shortest and
        longest), neighbours (K of hubness), transform (what the vectors went through already), spaces (transform →
        figures, see `Figures`), verdicts (transform → list of name, state, says), train_first (what to do before any
        transform, or None), mend (transform and command; None for a space that needs none), metrics (the figures as they
        are).

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
        read = _read(opened, sample, seed, run)
        drawn = _sample(read, seed)
        spaces = diagnose(
            drawn,
            _KINDS,
            components=components,
            dims=dims,
            seed=seed,
            report=lambda kind: run.report(Progress(f"judging the space ({kind})")),
        )
        best = best_transform(spaces)
        return {
            "path": str(artifact),
            "kind": opened.kind,
            "dim": drawn.vectors.shape[1],
            "counts": {**_counts(read), "sampled": len(drawn.vectors)},
            "norms": {"shortest": read.census.shortest, "longest": read.census.longest},
            "neighbours": NEIGHBOURS,
            "transform": opened.manifest.facts.get("transform"),
            "spaces": {kind: asdict(figures) for kind, figures in spaces.items()},
            "verdicts": {kind: [asdict(verdict) for verdict in judge(figures)] for kind, figures in spaces.items()},
            "train_first": training_first(opened, spaces["none"]),
            "mend": mending(opened, best, components=components, dims=dims),
            "metrics": asdict(spaces["none"]),
        }


@dataclass
class _Reading:
    """What was taken of a table: the sampled rows, and counts over all."""

    census: Census
    of_words: bool
    repeated_texts: int = 0
    vectors: list[npt.NDArray[np.float32]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


def _read(artifact: Artifact, size: int, seed: int, run: RunOptions) -> _Reading:
    """Go through the table once."""
    total = row_count(artifact, artifact.kind)
    rows_S = np.sort(np.random.default_rng([seed, 0]).choice(total, min(size, total), replace=False))
    columns = _columns(artifact)
    reading, hashes, first = _Reading(Census(int(artifact.manifest.facts["dim"])), columns[0] == "word"), [], 0
    for batch in read_batches(artifact, artifact.kind, [*columns, "vector"]):
        vectors_ND, texts = matrix_of(batch.column("vector")), batch.column(columns[0])
        good_N = reading.census.add(vectors_ND)
        hashes.append(np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts)))
        inside = rows_S[np.searchsorted(rows_S, first) : np.searchsorted(rows_S, first + len(batch))] - first
        inside = inside[good_N[inside]]
        reading.vectors.append(vectors_ND[inside])
        for row in inside:
            text = texts[int(row)].as_py()
            reading.lengths.append(len(text))
            reading.texts.append(text[:_READ])
        if len(columns) > 1:
            reading.counts += batch.column(columns[1]).take(inside).to_pylist()
        first += len(batch)
        run.report(Progress("reading vectors", first, total, "vectors"))
    reading.repeated_texts = total - len(np.unique(np.concatenate(hashes))) if hashes else 0
    return reading


def _columns(artifact: Artifact) -> list[str]:
    """The column of texts or words, and that of counts where there is one that means something."""
    there = read_schema(artifact, artifact.kind).names
    if "word" not in there:
        return ["text"]
    return ["word"] if artifact.manifest.facts.get("counts") == "unknown" else ["word", "count"]


def _sample(reading: _Reading, seed: int) -> Sample:
    vectors_ND = np.concatenate(reading.vectors)
    lengths_N = np.log1p(np.array(reading.lengths, dtype=np.float64))
    known = np.log1p(np.array(reading.counts, dtype=np.float64)) if reading.counts else _frequencies(reading)
    return unit_sample(vectors_ND, lengths_N, known, seed)


def _frequencies(reading: _Reading) -> npt.NDArray[np.float64]:
    """The mean logarithm of how often each text's words occur in the sample; NaN for a text without words."""
    if reading.of_words:  # nobody counted
        return np.full(len(reading.texts), np.nan)
    split = WordSplitter()
    words = [split(text) for text in reading.texts]
    counts = Counter(word for some in words for word in some)
    means = [np.log([counts[word] for word in some]).mean() if some else np.nan for some in words]
    return np.array(means, dtype=np.float64)


def _counts(reading: _Reading) -> dict[str, int]:
    census = reading.census
    return {
        "rows": census.rows,
        "not_finite": census.not_finite,
        "zero": census.zero,
        "repeated_vectors": census.repeated,
        "repeated_texts": reading.repeated_texts,
    }
