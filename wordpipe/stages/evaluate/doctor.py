"""`wordpipe doctor`: the health of a space of vectors, what a search finds, and which setting helps; nothing is written.

A trained transformer is examined by `model_doctor`.

Every vector is read once, for what is broken or comes again (8 bytes of memory each). The figures are of a random sample:
transforms are fitted on one half of it and evaluated on the other, so that none looks better than it is on new texts.

An even space may still find nothing: random vectors are as healthy as can be. So texts are searched for what they should find,
by vectors and by words; of an index that is known since it was built.

Shapes: N vectors, D numbers each.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import (
    ENCODER,
    Artifact,
    is_artifact,
    matrix_of,
    read_batches,
    read_schema,
    refuse_without_vectors,
    row_count,
    rows_without_vector,
)
from wordpipe.encoders import ENCODER_FILE, MIN_TEXTS, Moments, Transform, TransformKind, load_facts
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import MEASURES, Evaluation, Part, Table, effective_rank, hubs, mean_cosine, unit_rows
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.stages.inspected_models import inspect_model, inspected_of
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.index_lexical import QUERIES_MEASURED, TOO_ALIKE, measure_some
from wordpipe.stages.search.index_vectors import lines_of_parts
from wordpipe.stages.sources import SourceLike
from wordpipe.wording import counted

_NEIGHBOURS = 10
_GAP = " " * 9  # below a state
_SEED = 1  # of the sample
_MIN_VECTORS = 4 * MIN_TEXTS
_STATES = ("healthy", "weak", "sick")
_SEARCHED = 50_000  # texts of which something should be found: with vectors of 384 numbers 77 MB, and a few seconds
_NOISE = 0.02  # of nDCG@10 on 300 queries
_OWN = 0.9  # cosine of a vector and what the encoder gives; float16 costs less than 0.001
_FOUND = 0.1  # nDCG@10: where neither vectors nor words find so much, the queries are to blame

Vectors = npt.NDArray[np.float32]
Figures = dict[str, Any]
"""What a space looks like.

mean_cosine, of all pairs: the share of the direction that all have in common; effective_rank, directions in which the vectors
lie; hub_skew, skewness of how often a vector is among others' 10 nearest; orphans, share of vectors that are among nobody's;
twins, share of vectors with a neighbour at a cosine of 0.99 or more; dim; directions, how many they can lie in: dim, or as
many as there are vectors.
"""


class Norm(NamedTuple):
    """Bounds of one figure: above `weak` it is not healthy any more, above `sick` it is bad."""

    name: str  # of the figure
    what: str  # it, in words
    weak: float
    sick: float
    healthy: str  # what is healthy, as it is shown
    means: str  # what the figure says of a space
    says: tuple[str, str]  # what being weak or sick means for a search

    def state(self, figures: Figures) -> int:
        """The number of the state among `_STATES`."""
        figure = figures[self.name]
        compared = {self.name: figure, "mean_cosine": abs(figure), "effective_rank": -figure / figures["directions"]}
        return sum(compared[self.name] > bound for bound in (self.weak, self.sick))


NORMS = (
    Norm("mean_cosine", "mean cosine of two texts", 0.1, 0.3, "-0.1 to 0.1",
        "how alike two unrelated texts are: best is 0; at 1 all vectors are the same", (
        "even unrelated texts have a cosine above 0, because all vectors have similar directions",
        "all texts have very similar vectors, so a high score means little",
    )),
    Norm("effective_rank", "directions in use", -0.15, -0.05, "15% or more",
        "over how many of the directions that they have the vectors are spread: the more, the better", (
        "the vectors use only a few of their directions",
        "the vectors use almost none of their directions",
    )),
    Norm("hub_skew", "hubs (skewness)", 3.0, 6.0, "up to 3",
        "how often the same few texts are among the 10 nearest of others: best is 0", (
        "some texts are neighbours of very many other texts",
        "a few texts would be among the results of nearly every search",
    )),
    Norm("orphans", "texts near no other text", 0.2, 0.4, "up to 20%",
        "the share of texts that are not among the 10 nearest of any other text: best is 0", (
        "many texts are not among the 10 nearest of any other text",
        "a search would almost never find a large part of the texts",
    )),
    Norm("twins", "texts with a twin", 0.05, 0.3, "up to 5%",
        "the share of texts with nearly the same vector as another text (cosine 0.99 or more): best is 0", (
        "some texts have nearly the same vector as another text (cosine 0.99 or more)",
        "a large part of the texts have nearly the same vector as another text (cosine 0.99 or more)",
    )),
)  # fmt: skip


@public()
def doctor(
    artifact: PathLike, *, data: SourceLike | None = None, sample: int = 10_000, run: RunOptions | None = None
) -> Evaluation:
    """Examine the vectors of an artifact, or a trained transformer.

    Args:
        artifact: sentences, words, or an index over either; or a model, also one with a head, also a folder of transformers.
        data: for a model: a corpus artifact or text for the measurement; None: the training data in its manifest.
        sample: number of vectors to sample; transforms are fitted on one half and evaluated on the other. For a model:
            number of tokens.
        run: progress, verification.

    Returns:
        Of a model: path, kind, architecture, task (of a head), data, split, objective, counts, metrics (loss, None of an
        ELECTRA, unigram_entropy), meanings (figure → what, means, healthy: in words), layers (of each: stack, layer, moved:
        how far its matrices are from where training began, dead_units: share of its feed-forward), embedding_moved, start
        (fresh, a model, or "" where it is not known), findings
        (list of name, state, says, mend).

        Of vectors: path, kind, dim, counts, neighbours (K of hubness), transform (what the vectors went through already),
        spaces (transform → `Figures`), verdicts (transform → list of name, state, says), mend (transform and command; None
        for a space that needs none, and where only more training helps), worse (transform, dense and dense_after, the
        nDCG@10 of the vectors without and with it: what would mend the figures and finds less; else None), metrics (the
        figures as they are), meanings (figure → what, means, healthy: in words), and, of texts, finds: what `_finds` gives.

    Raises:
        ConfigError: a sample too small to evaluate, or data for vectors.
        InputError: fewer than 64 different vectors; or a model's text is not found.

    Example:
        >>> found = wordpipe.doctor("run/sentences")
        >>> found["kind"], found["dim"]
        ('sentences', 32)
    """
    if sample < 128:
        raise ConfigError("the sample is too small", where="sample", got=sample, expected="at least 128")
    run = run or RunOptions()
    if _is_model(Path(artifact)):
        from wordpipe.stages.evaluate.model_doctor import examine_model

        with storage_errors():
            return examine_model(inspect_model(artifact, verify=run.verify), data=data, sample=sample, run=run)
    if data is not None:
        raise ConfigError("--data can be used with a model only", where="data", got=str(artifact), expected="a model")
    with storage_errors(), Artifact(artifact, ["sentences", "words", "index"], verify=run.verify) as opened:
        return _examine_vectors(opened, str(artifact), sample, run)


def doctor_of(artifact: Artifact, *, sample: int, run: RunOptions) -> dict[str, Any]:
    """Examine an open artifact as `doctor` does, with its figures; and, for vectors too, the `findings` of `findings_of`.

    Raises:
        ArtifactError, ConfigError, InputError: as from `doctor`.
    """
    if artifact.kind == "model":
        from wordpipe.stages.evaluate.model_doctor import examine_model

        return examine_model(inspected_of(artifact), data=None, sample=sample, run=run)
    found = _examine_vectors(artifact, str(artifact.path), sample, run)
    return found | {"findings": findings_of(found)}


def _examine_vectors(artifact: Artifact, path: str, sample: int, run: RunOptions) -> Evaluation:
    """Return the evaluation of the vectors of an open artifact. Raises ConfigError: it has none."""
    refuse_without_vectors(artifact)
    # the figures of the space, and what is found by vectors and words
    drawn_ND, counts = _read_vectors(artifact, sample, run.report)
    spaces = diagnose(drawn_ND, report=run.report)
    has_texts = "word" not in read_schema(artifact, artifact.kind).names
    finds = _finds(artifact, counts, run.report) if has_texts else {}
    # a transform that makes the space even and finds less is not advised
    mend, worse = _mending(artifact, spaces), None
    ndcg = None if mend is None else _compared(artifact, mend["transform"], drawn_ND, finds, run.report)
    if mend is not None and ndcg is not None and ndcg[1] < ndcg[0]:
        worse = {"transform": mend["transform"], "dense": ndcg[0], "dense_after": ndcg[1]}
        mend = None
    # all figures, as JSON
    transform = artifact.manifest.facts.get("transform")
    found = {
        "path": path, "kind": artifact.kind, "dim": drawn_ND.shape[1], "counts": counts, "neighbours": _NEIGHBOURS,
        "transform": transform, "spaces": spaces, "verdicts": {kind: rate(figures) for kind, figures in spaces.items()},
        "mend": mend, "worse": worse, "metrics": spaces["none"],
        "meanings": {one.name: {"what": _named(one.what, artifact.kind), "means": _named(one.means, artifact.kind),
                                "healthy": one.healthy} for one in NORMS},
        **({"finds": finds} if has_texts else {}),
    }  # fmt: skip
    through = [] if transform in (None, "none") else [f"--transform {transform} was already applied to these vectors"]
    return Evaluation(found, parts=[*_parts(found)], remarks=through)


def findings_of(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what `doctor` complains of about vectors: name, state, says, and mend, the next step."""
    # the next step for the space
    more = (
        "use more text or more --epochs"
        if found["kind"] == "words"
        else "use more text, or more --steps for the encoder"
    )
    mend, worse, verdicts = found["mend"], found["worse"], found["verdicts"]["none"]
    step = (
        f"{more}; no --transform fixes this problem"
        if any(one["state"] == "sick" for one in verdicts)
        else "no change is needed"
    )
    if mend is not None:
        step = mend["command"]
    elif worse is not None:
        even = f"--transform {worse['transform']} would spread the vectors more evenly"
        step = f"change nothing: {even}, but a search would find less"
    # broken vectors, figures that are not healthy, and what is not found
    broken = {"not_finite": "vectors have values that are not finite", "zero": "vectors are zero"}
    findings = [
        {"name": name, "state": "sick", "says": f"{n:,} {says}", "mend": "make the vectors again"}
        for name, says in broken.items() if (n := found["counts"][name])
    ]  # fmt: skip
    findings += [
        {**one, "says": _named(one["says"], found["kind"]), "mend": step}
        for one in verdicts if one["state"] != "healthy"
    ]  # fmt: skip
    finds = found.get("finds")
    if finds is not None and finds["state"] != "healthy":
        step = finds["mend"] or f"{more} may help"
        findings.append({"name": "finds", "state": finds["state"], "says": finds["says"], "mend": step})
    return sorted(findings, key=lambda one: ("sick", "weak", "unknown").index(one["state"]))


def _named(what: str, kind: str) -> str:
    """Return what `doctor` says of texts; of an artifact of words what it says of words."""
    return what.replace("text", "word") if kind == "words" else what


def _is_model(path: Path) -> bool:
    """True if `doctor` is given a model artifact or a folder of transformers."""
    if is_artifact(path):
        with Artifact(path, verify=False) as artifact:
            return artifact.kind == "model"
    return (path / "config.json").is_file()


def _read_vectors(artifact: Artifact, size: int, report: Report) -> tuple[Vectors, dict[str, int]]:
    """Read the vectors that `doctor` examines once: a sample, and how many are broken or repeated."""
    total, without = row_count(artifact, artifact.kind), len(rows_without_vector(artifact))
    name = "word" if "word" in read_schema(artifact, artifact.kind).names else "text"
    rows_S = np.sort(np.random.default_rng([_SEED, 0]).choice(total, min(size, total), replace=False))
    vectors, hashes, text_hashes, not_finite, zero, first = list[Vectors](), [], [], 0, 0, 0
    for batch in read_batches(artifact, artifact.kind, [name, "vector"]):
        vectors_ND = matrix_of(batch.column("vector"))
        lengths_N = np.linalg.norm(vectors_ND.astype(np.float64), axis=1)
        good_N = np.isfinite(lengths_N) & (lengths_N > 0)
        not_finite += int((~np.isfinite(lengths_N)).sum())
        zero += int((lengths_N == 0).sum())
        hashes.append(np.array([hash(vector_D.tobytes()) for vector_D in vectors_ND[good_N]], np.int64))
        text_hashes.append(np.fromiter(map(hash, batch.column(name).to_pylist()), np.int64, len(batch)))
        # the rows of the sample that are in this batch and are not broken
        inside = rows_S[np.searchsorted(rows_S, first) : np.searchsorted(rows_S, first + len(batch))] - first
        vectors.append(vectors_ND[inside[good_N[inside]]])
        first += len(batch)
        report(Progress("reading vectors", first, total, "vectors"))
    vectors_repeated, texts_repeated = (
        len(whole) - len(np.unique(whole)) for whole in map(np.concatenate, (hashes, text_hashes))
    )
    sample_ND = unit_sample(np.concatenate(vectors))
    return sample_ND, {
        "rows": total, "without_vector": without, "not_finite": not_finite, "zero": zero - without,
        "repeated_vectors": vectors_repeated, "repeated_texts": texts_repeated, "sampled": len(sample_ND),
    }  # fmt: skip


def unit_sample(vectors_ND: Vectors) -> Vectors:
    """Return the vectors that `doctor` read at length 1, without repeated ones, in random order."""
    unit_ND, valid_N = unit_rows(vectors_ND)
    _, first_N = np.unique(unit_ND, axis=0, return_index=True)
    kept = np.random.default_rng([_SEED, 1]).permutation(np.sort(first_N[valid_N[first_N]]))
    return np.take(unit_ND, kept, axis=0)


def diagnose(sample_ND: Vectors, *, report: Report = quiet) -> dict[TransformKind, Figures]:
    """Diagnose a space: the figures of `doctor` as it is (none) and after each transform.

    Transforms are fitted on the first half of the sample, the figures are of the second. Fewer than 64 vectors are refused
    (InputError).
    """
    n = len(sample_ND)
    if n < _MIN_VECTORS:
        hint = "use more text" if n else None
        raise InputError("there are too few different vectors to examine", got=n, expected=_MIN_VECTORS, hint=hint)
    moments, found = Moments(sample_ND.shape[1]), dict[TransformKind, Figures]()
    moments.add(sample_ND[: n // 2])
    kinds = get_args(TransformKind)
    for number, kind in enumerate(kinds):
        report(Progress("evaluating the space", number, len(kinds), "transforms"))
        found[kind] = _space_figures(moments.fit(kind), sample_ND[n // 2 :])
    return found


def _space_figures(transform: Transform, held_out_ND: Vectors) -> Figures:
    """Return the figures by which `doctor` diagnoses a space of vectors after a transform."""
    vectors_ND, lost_N = transform.apply(held_out_ND)
    unit_ND = vectors_ND[~lost_N]
    near = hubs(unit_ND, _NEIGHBOURS)
    return {
        "mean_cosine": mean_cosine(unit_ND),
        "effective_rank": effective_rank(unit_ND),
        "hub_skew": near.skew, "orphans": near.orphans, "twins": near.twins,
        "dim": unit_ND.shape[1], "directions": min(unit_ND.shape),
    }  # fmt: skip


def rate(figures: Figures) -> list[dict[str, str]]:
    """The state (name, state, says: empty of what is healthy) of every figure."""
    states = [(norm, norm.state(figures)) for norm in NORMS]
    return [{"name": norm.name, "state": _STATES[state], "says": ("", *norm.says)[state]} for norm, state in states]


def best_transform(spaces: Mapping[TransformKind, Figures]) -> TransformKind:
    """Return the transform that `doctor` prescribes: it leaves the fewest sick figures.

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


def _mending(artifact: Artifact, spaces: Mapping[TransformKind, Figures]) -> dict[str, Any] | None:
    """Return the transform and the command by which `doctor` mends vectors; None: no transform is better.

    None where no transform is better than none.

    Word vectors of ours in next to no directions have hardly been trained, and no transform brings what was not learned: of
    2 MB of Wikipedia 1, 4 and 20 epochs gave mean cosines of 0.95, 0.83 and 0.18, in 1.4, 2.3 and 35.7 of 64 directions.
    """
    best = best_transform(spaces)
    states = {one["name"]: one["state"] for one in rate(spaces["none"])}
    untrained = artifact.manifest.command == "train word2vec" and states["effective_rank"] == "sick"
    if best == "none" or untrained:
        return None
    path = shlex.quote(str(artifact.path))
    command = {
        "words": f"wordpipe embed {path} CORPUS -o SENTENCES --transform {best}",
        "sentences": f"wordpipe embed MODEL CORPUS -o {path} --transform {best}",
        "index": f"wordpipe embed MODEL CORPUS -o SENTENCES --transform {best} && wordpipe index SENTENCES -o {path}",
    }[artifact.kind]
    return {"transform": best, "command": command}


def _compared(
    artifact: Artifact, kind: TransformKind, drawn_ND: Vectors, finds: Mapping[str, Any], report: Report
) -> tuple[float, float] | None:
    """Return for `doctor` the nDCG@10 of the vectors as they are and after a transform; None where it cannot be measured.

    Of 600 tickets written by one form, whitening made the space even (0.86 to 0.00, 2 to 35 directions), and what titles found
    fell from 0.10 to 0.01.
    """
    if not finds or finds["measured"] is None or finds["state"] == "unknown" or not artifact.names(ENCODER):
        return None
    if finds["own_cosine"] is not None and finds["own_cosine"] < _OWN:
        return None
    moments = Moments(drawn_ND.shape[1])
    moments.add(drawn_ND)
    now = finds if finds["own_cosine"] is not None else measure_some(artifact, _SEARCHED, report)
    after = measure_some(artifact, _SEARCHED, report, moments.fit(kind))
    before, then = (one["measured"] and one["measured"]["ndcg_at_10"]["dense"] for one in (now, after))
    return None if before is None or then is None else (before, then)


def _finds(artifact: Artifact, counts: Mapping[str, int], report: Report) -> dict[str, Any]:
    """Return for `doctor` how well vectors and words find the texts that queries are made of.

    Returns:
        measured (by, queries, ndcg_at_10 of dense, lexical, hybrid and the controls, see `measure_modes`), None where it could
        not be; agreement of vectors and words and mode (which found most), None where not known; rows, how many texts were
        searched; seconds of the parts of a query, of an index alone; trained, whether the encoder learned from pairs of texts;
        state (healthy, weak, sick, unknown) and says; mend, the command where they do not find; own_cosine, see
        `measure_some`, None of an index.
    """
    # what is known where nothing can be measured
    found: dict[str, Any] = {
        "measured": None, "agreement": None, "mode": None, "rows": counts["rows"], "trained": False, "mend": None,
        "own_cosine": None, "seconds": {},
    }  # fmt: skip
    why = "there are too few texts with 12 words or more: use more text"
    # an index knows it since it was built; of sentences it is measured now
    try:
        if artifact.kind == "index":
            lexical = artifact.fact("lexical", dict, {})
            found |= {name: lexical.get(name) for name in ("measured", "agreement", "mode")}
            found["seconds"] = lexical.get("seconds", {})
            found["alike"] = lexical.get("alike", False)
        elif not artifact.names(ENCODER):
            why = "this artifact has no encoder for queries"
        elif counts["not_finite"] or counts["zero"]:
            why = "some vectors are zero or not finite"
        else:
            found |= measure_some(artifact, _SEARCHED, report)
        # queries like those of its training are found too easily
        if artifact.names(ENCODER):
            found["trained"] = "pairs" in load_facts(artifact.read(ENCODER + ENCODER_FILE))["identity"]
    except ArtifactError as error:  # the figures of the space need no encoder
        why = error.message
    # the state, or why there is none
    why = TOO_ALIKE if found.pop("alike", False) else why
    if found["measured"] is None:
        return {**found, "agreement": None, "mode": None, "state": "unknown", "says": why}
    if found["own_cosine"] is not None and found["own_cosine"] < _OWN:
        why = f"the vectors were not made by the encoder of this artifact (median cosine {found['own_cosine']:.2f})"
        command = f"wordpipe embed MODEL CORPUS -o {shlex.quote(str(artifact.path))}"
        return {**found, "state": "sick", "says": why, "mend": command}
    state, says = _rate_finds(found["measured"]["ndcg_at_10"])
    mend = "wordpipe train static TOKENS -o MODEL --goal search" if state == "sick" else None
    return {**found, "state": state, "says": says, "mend": mend}


def _rate_finds(ndcg_at_10: Mapping[str, float]) -> tuple[str, str]:
    """Return the state that `doctor` gives the search by vectors, compared with words."""
    dense, lexical = ndcg_at_10["dense"], ndcg_at_10["lexical"]
    if max(dense, lexical) < _FOUND:
        return "unknown", "search by vectors and search by words find too little, so this test cannot judge the vectors"
    if dense < lexical / 2:
        return "sick", "vectors find less than half as much as words find"
    if dense < lexical - _NOISE:
        return "weak", "vectors find less than words"
    return "healthy", "vectors find as much as words, or more"


# ---- for people


def _parts(found: Mapping[str, Any]) -> Iterator[Part]:
    """Return what `doctor` prints: a table of the figures, what is not healthy, what is found, what to do."""
    spaces, states, meanings = found["spaces"], found["verdicts"], found["meanings"]
    yield _counted(found)
    kinds = {"no transform": "none", **({} if found["mend"] is None else {(best := found["mend"]["transform"]): best})}
    rows = [
        (
            meanings[norm.name]["what"],
            [*(_cell(norm.name, spaces[kind], states[kind][at]["state"]) for kind in kinds.values()), norm.healthy],
        )
        for at, norm in enumerate(NORMS)
    ]
    yield Table([*kinds, "healthy"], rows)
    yield from (f"{one['what']}: {one['means']}" for one in meanings.values())
    yield from (f"{one['state']:<8} {_named(one['says'], found['kind'])}" for one in states["none"] if one["says"])
    if "finds" in found:
        yield from _found(found["finds"], found["counts"]["rows"])
    yield from _next_steps(found)


def _cell(name: str, figures: Mapping[str, Any], state: str) -> str:
    """Return one figure of `doctor`, and its state where it is not healthy."""
    shown = MEASURES[name].form.format(figures[name])
    if name == "effective_rank":
        shown += f" of {figures['directions']:,}"
    return shown if state == "healthy" else f"{state} {shown}"


def _counted(found: Mapping[str, Any]) -> str:
    """Return a line of `doctor` on the vectors that were read, and how many are broken or repeated."""
    counts = found["counts"]
    parts = [f"{counted(counts['rows'], 'vectors')} of {found['dim']:,} numbers each, {counts['sampled']:,} examined"]
    if counts["without_vector"]:
        parts.append(f"{counts['without_vector']:,} texts have no vector and are found by words only")
    for name, what in (
        ("not_finite", "NOT FINITE"),
        ("zero", "zero"),
        ("repeated_vectors", "equal to an earlier vector"),
    ):
        parts += [f"{counts[name]:,} {what}"] if counts[name] else []
    parts += [counted(counts["repeated_texts"], "repeated texts")] if counts["repeated_texts"] else []
    return "; ".join(parts)


def _found(finds: Mapping[str, Any], rows: int) -> Iterator[str]:
    """Yield lines of `doctor` on how well vectors and words find texts, and on the meaning of figures."""
    if (measured := finds["measured"]) is None:
        yield f"search   not measured: {finds['says']}"
        return
    among = f", among {finds['rows']:,} of {rows:,} texts" if finds["rows"] < rows else ""
    yield f"search   tested with {measured['queries']:,} queries ({QUERIES_MEASURED[measured['by']]}){among}:"
    yield from (f"{_GAP}{line}" for line in lines_of_parts(finds))
    yield f"{_GAP}nDCG@10: 1 if every text is found first, 0 if none is among the first 10;"
    yield f"{_GAP}above words: how much more than in the first line, with a 95 % interval"
    yield f"{finds['state']:<8} {finds['says']}"
    if finds["trained"] and finds["state"] == "healthy":
        yield f"{_GAP}(too optimistic, because the vectors were trained on pairs of this kind)"


def _next_steps(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the advice of `doctor` on the space and on its search; a setting is named as option and key."""
    # what is not healthy, with and without a transform
    finds = found.get("finds", {"state": "unknown", "mend": None, "trained": False})
    states = {kind: [one["state"] for one in some] for kind, some in found["verdicts"].items()}
    ill = {kind: len(some) - some.count("healthy") for kind, some in states.items()}
    more = "more text or more --steps (in wordpipe.toml: steps in the stage that trains the encoder)"
    if found["kind"] == "words":
        more = "more text or more --epochs (in wordpipe.toml: epochs in the stage that trains the words)"
    # about the space
    if (mend := found["mend"]) is not None:
        best = mend["transform"]
        now = f"{counted(ill['none'], 'problems')} now, {counted(ill[best], 'problems')} with --transform {best}"
        yield f'{now} (in wordpipe.toml: transform = "{best}" in the embed stage):'
        yield f"  {mend['command']}"
    # a transform that would do harm, or none that helps
    elif (worse := found["worse"]) is not None:
        yield (
            f"--transform {worse['transform']} would spread the vectors more evenly, but a search by vectors would "
            f"find less (nDCG@10 {worse['dense_after']:.2f} instead of {worse['dense']:.2f}): do not use this transform."
        )
    elif "sick" in states["none"]:
        yield f"No --transform fixes this problem; {more} may help."
    # about what its vectors find
    if finds["mend"] is not None and "embed" in finds["mend"]:
        yield "The vectors were not made by this encoder. No setting fixes this problem; embed the texts again:"
        yield f"  {finds['mend']}"
    elif finds["mend"] is not None:
        way = "Another --pooling or --transform may help (in wordpipe.toml: pooling, transform in the embed stage)"
        way = f"For search {more} may help" if finds["trained"] else way
        train = 'or train an encoder for search (command = "train static", goal = "search"):'
        yield f"The vectors do not find the texts. {way}; {train}"
        yield f"  {finds['mend']}"
    # where nothing is to be repaired
    elif finds["state"] == "weak":
        yield f"For vectors that find as much as words, {more} may help; `query` searches by vectors and words together."
    elif "sick" not in states["none"]:
        yield "There is no serious problem: no change is needed." if ill["none"] else "The space is healthy."
