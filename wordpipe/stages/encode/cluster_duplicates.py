"""`wordpipe cluster` and `wordpipe duplicates`: texts grouped by their vectors.

Clusters are found by spherical k-means:

    sample    rows drawn evenly, at most 256 MiB of vectors: centres, and of `auto` their number, are found in them
    assign    every row to its nearest centre, while the vectors stream by
    label     the words of each cluster, and the texts nearest to its centre

Memory holds the sample, 12 bytes of each row, and the words of at most 50,000 texts.

Near duplicates are rows that are linked by a high cosine.

Shapes: N rows, D numbers of each, K clusters.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts import (
    Artifact,
    RowReader,
    clusters_schema,
    matrix_of,
    members_schema,
    read_batches,
    read_schema,
    read_vectors,
    refuse_without_vectors,
    row_count,
    row_shower,
    rows_with_vector,
    vector_column,
    vectors_there,
)
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.runtime import Progress, keep_freed_memory
from wordpipe.search import (
    Analyser,
    ClusterTerms,
    all_links,
    assigned,
    choose_k,
    faiss_threads,
    groups_of,
    index_links,
    recognised_language,
    simplified_silhouette,
    spherical_centres,
)
from wordpipe.search.settings import ClusterSettings
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.opened_artifact import OpenIndex

_SAMPLE_BYTES = 256 << 20
_SAMPLE_PER_CLUSTER = 1 << 9  # rows that k-means sees of each cluster, at least where there are so many
_ROWS_TO_CHOOSE = 4_096  # in which the number of clusters is looked for
_ROWS_EVALUATED = 20_000  # for the silhouette that is told
_TEXTS_LABELLED = 50_000
_LOOKED_AT = 4  # times as many texts are looked at as are kept: the same text may come again
_STREAM = 0xC1  # separates this draw from every other use of a seed
_CLUSTERS_AT_ONCE = 4_096  # rows of the table written at a time
_KEPT = (
    "record_id",
    "doc_id",
    "title",
    "text",
    "source",
    "line",
    "anchor",
)  # columns of the sentences that stand beside a row's cluster

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
EXACT_UP_TO = 200_000  # rows whose pairs are all compared: 2 minutes of 384 numbers on two cores


@public(ClusterSettings)
def cluster(sentences: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Part texts into clusters of those that are near each other, and say what each is about.

    The artifact holds two tables. `clusters`: cluster (0 is the largest), size, share, label (words), central (the texts
    nearest to the centre, the nearest first), central_rows and vector (the centre). `members`: row (of the sentences),
    record_id where the records had ids, doc_id, title, text, source, line, anchor where there are any, cluster and similarity
    (cosine with the centre), as the sentences are ordered. Texts without a vector are in none: their cluster is -1.

    Args:
        sentences: a sentences artifact.
        output: folder of the clusters artifact.
        run: progress, fresh start, verification.
        settings: fields of `ClusterSettings`.

    Raises:
        InputError: more clusters than texts.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.cluster("run/sentences", output="new/clusters", k=3)
        >>> with wordpipe.open(made, "clusters") as clusters:
        ...     len(clusters), [one["row"] >= 0 for one in clusters.members(0, 2)]
        (3, [True, True])
    """
    chosen = ClusterSettings.make(settings)
    keep_freed_memory()
    with open_job("clusters", output, chosen, run) as job, faiss_threads(chosen.threads) as job.threads:
        job.libraries = ("faiss-cpu", "numpy", "pyarrow", "PyStemmer")
        # Input: the vectors of the rows that have one.
        source = job.open_input(sentences, ["sentences"])
        total, dim = row_count(source, "sentences"), int(source.manifest.facts["dim"])
        with_vector = rows_with_vector(source)
        rows = total if with_vector is None else len(with_vector)
        if isinstance(chosen.k, int) and chosen.k > rows:
            raise InputError(
                "the number of clusters is larger than the number of texts with a vector", where=str(source.path),
                got=f"k = {chosen.k:,}", expected=f"at most {rows:,}",
                hint="give a smaller -k, or -k auto",
            )  # fmt: skip
        # Find the centres in a sample.
        sample_SD = _sample(job, _vectors(source, with_vector), rows, dim, chosen)
        k = chosen.k if isinstance(chosen.k, int) else _chosen_k(job, sample_SD, chosen.seed)
        job.report("k-means")
        sample_SD = sample_SD[: max(_ROWS_EVALUATED, _SAMPLE_PER_CLUSTER * k)]
        centres_KD = spherical_centres(sample_SD, k, chosen.seed)
        job.facts = {"dim": dim, "asked": chosen.k, "sample": len(sample_SD)}
        # Assign every row, and number the clusters by size: those without rows go.
        centre_M, cosine_M = _assign(job, _vectors(source, with_vector), centres_KD, rows)
        centres_KD, centre_M = _by_size(centres_KD, centre_M)
        if len(centres_KD) < k:
            job.warn(
                f"only {len(centres_KD):,} of {k:,} clusters contain texts, because there are too few different texts"
            )
        # Measure them.
        if len(centres_KD) > 1:
            job.metrics["silhouette"] = round(simplified_silhouette(sample_SD[:_ROWS_EVALUATED], centres_KD), 4)
        job.metrics["mean_cosine"] = round(float(cosine_M.mean(dtype=np.float64)), 4)
        # Write both tables, in which rows without a vector are in no cluster.
        centre_N, cosine_N = np.full(total, -1, np.int64), np.full(total, np.nan, np.float32)
        with_vector = np.arange(total) if with_vector is None else with_vector
        centre_N[with_vector], cosine_N[with_vector] = centre_M, cosine_M
        _write_clusters(job, source, centres_KD, centre_N, cosine_N, chosen)
        _write_members(job, source, centre_N, cosine_N)
        job.counts = {"texts": total, "clusters": len(centres_KD)} | (
            {"without_vector": total - rows} if total > rows else {}
        )
        job.rates = {"texts_per_s": round(rows / max(job.clock.seconds, 1e-9), 1)}
    return job.made


def _vectors(source: Artifact, with_vector: Ints | None) -> Iterator[Floats]:
    """Yield the vectors of the rows that have one, in their order."""
    return vectors_there((block for _, block in read_vectors(source, "sentences")), with_vector)


def _sample(job: Job, blocks: Iterable[Floats], rows: int, dim: int, chosen: ClusterSettings) -> Floats:
    """Return unit vectors of rows drawn evenly, in random order, to find clusters in."""
    most = max(_SAMPLE_BYTES // (4 * dim), 1)
    wanted = _SAMPLE_PER_CLUSTER * (chosen.k if isinstance(chosen.k, int) else 256)
    size = min(rows, most, max(wanted, _ROWS_TO_CHOOSE))
    random = np.random.default_rng([_STREAM, chosen.seed])
    drawn_S = np.sort(random.choice(rows, size, replace=False))
    sample_SD = np.empty((size, dim), np.float32)
    first = done = 0
    for block_BD in blocks:
        last = int(np.searchsorted(drawn_S, first + len(block_BD)))
        sample_SD[done:last] = unit_rows(block_BD[drawn_S[done:last] - first])[0]
        first, done = first + len(block_BD), last
        job.report("reading", first, rows, "texts")
    return sample_SD[random.permutation(size)]


def _chosen_k(job: Job, sample_SD: Floats, seed: int) -> int:
    """Return the number of clusters that are told apart best; a note says which were tried."""
    if len(sample_SD) < 3:
        return 1
    k, tried = choose_k(
        sample_SD[:_ROWS_TO_CHOOSE],
        seed,
        lambda done, total: job.report("trying numbers of clusters", done, total, "numbers"),
    )
    best = sorted(tried, key=lambda number: (-tried[number], number))[1:4]
    others = ", ".join(f"{number} with {tried[number]:.3f}" for number in best)
    job.note(
        f"-k auto tested {len(tried)} numbers of clusters and chose {k} (silhouette above chance: {tried[k]:.3f}"
        + (f"; the next best numbers: {others})" if others else ")")
    )
    return k


def _assign(job: Job, blocks: Iterable[Floats], centres_KD: Floats, rows: int) -> tuple[Ints, Floats]:
    """Return the nearest cluster centre of each vector, (N,), and the cosine of the two, (N,)."""
    centre_N, cosine_N = np.empty(rows, np.int64), np.empty(rows, np.float32)
    first = 0
    for block_BD in blocks:
        at = slice(first, first + len(block_BD))
        centre_N[at], cosine_N[at] = assigned(unit_rows(block_BD)[0], centres_KD)
        first += len(block_BD)
        job.report("assigning", first, rows, "texts")
    return centre_N, cosine_N


def _by_size(centres_KD: Floats, centre_N: Ints) -> tuple[Floats, Ints]:
    """Return the clusters that have any row, the largest first, and the new number of each row's cluster."""
    sizes_K = np.bincount(centre_N, minlength=len(centres_KD))
    order = np.argsort(-sizes_K, kind="stable")[: np.count_nonzero(sizes_K)]
    place_K = np.full(len(centres_KD), -1, np.int64)
    place_K[order] = np.arange(len(order))
    return centres_KD[order], place_K[centre_N]


def _write_clusters(
    job: Job, source: Artifact, centres_KD: Floats, centre_N: Ints, cosine_N: Floats, chosen: ClusterSettings
) -> None:
    """Write the clusters as a table: size, label, central texts and centre of each."""
    # The size of each cluster, its words, and where its rows begin among all, ordered by cluster, the nearest to the centre
    # first, equals as they come; rows in no cluster stand before.
    sizes_K = np.bincount(centre_N[centre_N >= 0], minlength=len(centres_KD))
    labels = _labels(job, source, centre_N, len(centres_KD), chosen)
    order_N = np.lexsort((-cosine_N, centre_N))[len(centre_N) - sizes_K.sum() :]
    starts_K = np.concatenate([[0], np.cumsum(sizes_K)[:-1]])
    # Write the table, some clusters at a time.
    schema = clusters_schema(centres_KD.shape[1])
    with job.table("clusters", schema) as table:
        for first in range(0, len(centres_KD), _CLUSTERS_AT_ONCE):
            at = range(first, min(first + _CLUSTERS_AT_ONCE, len(centres_KD)))
            # The texts nearest to each centre; the same text may come again, and is shown once.
            nearest = [
                order_N[starts_K[k] : starts_K[k] + min(sizes_K[k], _LOOKED_AT * chosen.central)].tolist() for k in at
            ]
            central = _different(source, nearest, chosen.central)
            # A row for each cluster.
            columns = {
                "cluster": pa.array(at, pa.int32()),
                "size": pa.array(sizes_K[first : at.stop], pa.int64()),
                "share": pa.array(sizes_K[first : at.stop] / len(centre_N), pa.float64()),
                "label": pa.array([", ".join(labels[k]) for k in at], pa.string()),
                "central": pa.array([[text for _, text in some] for some in central], schema.field("central").type),
                "central_rows": pa.array(
                    [[row for row, _ in some] for some in central], schema.field("central_rows").type
                ),
                "vector": vector_column(centres_KD[first : at.stop]),
            }
            table.write(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))


def _different(source: Artifact, nearest: list[list[int]], n: int) -> list[list[tuple[int, str]]]:
    """Return row and text of the first n texts of each list that are not the same: a cluster's central texts."""
    wanted = sorted({row for rows in nearest for row in rows})
    fetched = RowReader(source, "sentences", ["text"]).fetch(wanted)
    text_of = {row: str(found["text"]).strip() for row, found in zip(wanted, fetched, strict=True)}
    found = []
    for rows in nearest:
        first_of: dict[str, int] = {}
        for row in rows:
            first_of.setdefault(text_of[row], row)
        found.append([(row, text) for text, row in islice(first_of.items(), n)])
    return found


def _labels(job: Job, source: Artifact, centre_N: Ints, clusters: int, chosen: ClusterSettings) -> list[list[str]]:
    """Return the words that tell each cluster from the others, of a sample of the texts where these are many."""
    step = max(1, -(-len(centre_N) // _TEXTS_LABELLED))
    language: str = chosen.language
    if language == "auto":
        language = recognised_language(text for _, text in _texts(source, step))
    analyser, terms = Analyser(language), ClusterTerms.empty(clusters)
    job.facts |= {"language": language, "texts_labelled": -(-len(centre_N) // step)}
    for row, text in _texts(source, step) if chosen.label_words else ():
        if centre_N[row] >= 0:
            terms.add(int(centre_N[row]), analyser.with_words(text))
    return terms.labels(chosen.label_words)


def _texts(source: Artifact, step: int) -> Iterator[tuple[int, str]]:
    """Yield row and text of every `step`-th row, to label clusters."""
    first = 0
    for batch in read_batches(source, "sentences", ["text"]):
        rows = range(-first % step, len(batch), step)
        yield from zip(
            (first + row for row in rows),
            batch.column("text").take(pa.array(rows, pa.int64())).to_pylist(),
            strict=True,
        )
        first += len(batch)


def _write_members(job: Job, source: Artifact, centre_N: Ints, cosine_N: Floats) -> None:
    """Write the table of members: the cluster of each row, and its cosine with the centre."""
    stored = read_schema(source, "sentences")
    kept = [stored.field(name) for name in _KEPT if name in stored.names]
    schema = members_schema(kept)
    first = 0
    with job.table("members", schema) as table:
        for batch in read_batches(source, "sentences", [field.name for field in kept]):
            at = slice(first, first + len(batch))
            own = {
                "row": pa.array(np.arange(at.start, at.stop), pa.int64()),
                "cluster": pa.array(centre_N[at], pa.int32()),
                "similarity": pa.array(cosine_N[at], pa.float32(), from_pandas=True),
            }
            arrays = [own[name] if name in own else batch.column(name) for name in schema.names]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            first += len(batch)


@public()
def duplicates(
    artifact: PathLike, *, threshold: float = 0.95, n: int = 20, run: RunOptions | None = None
) -> dict[str, Any]:
    """Find near duplicates: groups of rows that are linked by cosines of at least the threshold.

    Rows without a vector are in none.

    Up to 200,000 rows all pairs are compared; of more the index is searched for the 32 nearest of each row.

    Args:
        artifact: an index, or a sentences artifact.
        threshold: of the cosine.
        n: groups to tell of; all are counted.
        run: progress and verification.

    Returns:
        path, threshold, rows, pairs, groups (how many), rows_in_groups, largest (rows of the largest group), exact, and
        shown: the largest groups, each a list of rows as in a query's hits, with the cosine with the group's first row.

    Raises:
        ConfigError: a threshold that is no cosine.
        InputError: too many rows without an index.

    Example:
        >>> found = wordpipe.duplicates("run/index", threshold=0.99)
        >>> found["rows"], found["exact"]
        (165, True)
    """
    if not -1 <= threshold <= 1:
        raise ConfigError("the threshold must be a cosine", where="threshold", got=threshold, expected="-1 to 1")
    run = run or RunOptions()
    with Artifact(artifact, ["index", "sentences"], verify=run.verify) as opened:
        refuse_without_vectors(opened)
        # The vectors, as unit vectors, of the rows that have one.
        rows, batches = row_count(opened, opened.kind), read_batches(opened, opened.kind, ["vector"])
        with_vector = rows_with_vector(opened)
        compared = rows if with_vector is None else len(with_vector)
        blocks = vectors_there((unit_rows(matrix_of(batch.column("vector")))[0] for batch in batches), with_vector)

        def report(done: int) -> None:
            run.report(Progress("comparing", done, compared, "rows"))

        # Link rows that are alike, and put linked rows into groups.
        if compared <= EXACT_UP_TO:
            links = all_links(np.concatenate(list(blocks)), threshold, report)
        elif opened.kind == "index":
            links = index_links(OpenIndex(opened).index, blocks, compared, threshold, report)
        else:
            raise InputError(
                "too many rows to compare all pairs", where=opened.path, got=f"{compared:,}",
                expected=f"at most {EXACT_UP_TO:,} rows without an index",
                hint=f"wordpipe index {opened.path} -o INDEX, then wordpipe duplicates INDEX",
            )  # fmt: skip
        groups, pairs = groups_of(links, compared)
        if with_vector is not None:
            groups = [with_vector[group] for group in groups]
        # Read the rows of the largest groups.
        wanted = np.unique(np.concatenate(groups[:n])).tolist() if groups[:n] else []
        schema = read_schema(opened, opened.kind)
        columns = [name for name in schema.names if name not in ("id", "row")]
        row_of = dict(zip(wanted, RowReader(opened, opened.kind, columns).fetch(wanted), strict=True))
    # All groups are counted, the largest are shown.
    shown = [[_row(row_of, int(group[0]), row, row_shower(schema)) for row in group.tolist()] for group in groups[:n]]
    return {
        "path": str(artifact), "threshold": threshold, "rows": rows, "pairs": pairs, "groups": len(groups),
        "rows_in_groups": sum(map(len, groups)), "largest": max(map(len, groups), default=0),
        "exact": compared <= EXACT_UP_TO, "shown": shown,
    }  # fmt: skip


def _row(
    row_of: dict[int, dict[str, Any]], first: int, row: int, shower: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Return a row of duplicates as it is shown, and its cosine with the first of its group."""
    pair = unit_rows(np.array([row_of[first]["vector"], row_of[row]["vector"]], dtype=np.float32))[0]
    shown = {name: value for name, value in shower(row_of[row]).items() if name != "vector"}
    return {"row": row, **shown, "cosine": min(1.0, float(pair[0] @ pair[1]))}
