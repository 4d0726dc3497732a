"""`wordpipe evaluate sts` and `evaluate retrieval`: figures of encoders in tables for people, or as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import Option
from wordpipe.cli.evaluate.measures import evaluation, number, passed_over, some_words
from wordpipe.cli.options import chosen_embedding, embedding_options
from wordpipe.cli.output import counted
from wordpipe.cli.tables import Column, answer, print_columns, short_name

_HEADS = {
    "bm25": "BM25", "bm25_twice": "BM25 asked twice", "rm3": "BM25 + RM3", "words_mean": "mean of words", "tfidf": "TF-IDF",
    "lsi": "LSI", "overlap": "overlap", "random": "hybrid, random vectors",
}  # fmt: skip
_ABOUT = "Spearman. Correlation of the cosines with the scores, x 100; with 95 % of the draws of as many pairs."
_NAME_WIDTH, _SEARCH_WIDTH = 28, 24
_SIGNIFICANT = 0.05
_MEASURES = {"ndcg_at_10": "nDCG@10", "map": "MAP", "recall_at_100": "recall@100", "mrr": "MRR"}
_words = click.option(
    "--words", metavar="WORDS", type=click.Path(path_type=Path),
    help="Evaluate the mean of these vectors too.  [default: the first WORDS named]",
)  # fmt: skip
_language = click.option(
    "--language", default="auto", metavar="LANGUAGE", help="Whose endings are cut off words.  [default: auto]"
)


@evaluation(
    "encoders", "[MODEL|WORDS|SENTENCES]...", required=False, params=embedding_options(), json="all figures",
    example="wordpipe evaluate sts run/sentences --data stsb-en-dev.csv --data sts12/\n"
    "wordpipe evaluate sts run/model run/words --data stsb-en-dev.csv --words run/words --json",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PATH",
    help="A file of scored pairs, or a folder whose files are one set.",
)  # fmt: skip
@_words
@click.option(
    "--floors/--no-floors", default=True,
    help="Evaluate TF-IDF, LSI, the overlap and the mean of words too, as baselines.  [on]",
)  # fmt: skip
@_language
@number("--draws", 0, 1_000, "Of the bootstrap.")
def sts(encoders: tuple[Path, ...], data: tuple[str, ...], **given: Any) -> None:
    """Evaluate encoders of texts on pairs of sentences that people have scored, side by side with plain words.

    Columns of a csv, tsv or JSON Lines file are found by their names, or by their shape: two columns of sentences, and a
    score before or after them. The pairs of a folder are ranked together.

    A model or words artifact is evaluated as it is; a sentences or index artifact with its transform.
    """
    from wordpipe.stages import evaluate_sts

    settings = chosen_embedding(given)
    answer(evaluate_sts, encoders, data, show=_show_sts, remarks=_sts_remarks, **given, **settings)


def _show_sts(found: dict[str, Any]) -> None:
    print_columns([_sts_column(one) for one in found["systems"]], above=_ABOUT)


def _sts_name(one: dict[str, Any]) -> str:
    return _HEADS.get(one["system"]) or short_name(one["name"], _NAME_WIDTH)


def _sts_column(one: dict[str, Any]) -> Column:
    """The figure of each set and its interval."""
    lines: list[tuple[str, str | None]] = []
    for dataset in one["sets"]:
        label = f"{short_name(dataset['name'], _NAME_WIDTH)} ({counted(dataset['pairs'], 'pairs')})"
        lines.append((label, _hundredfold(dataset["spearman"])))
        lines.append(("  95 %", _range(dataset["spearman_interval"])))
    if len(one["sets"]) > 1:
        lines.append(("mean of the sets", _hundredfold(one["metrics"]["spearman"])))
    return _sts_name(one), lines


def _hundredfold(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _range(interval: Sequence[float] | None) -> str | None:
    return None if interval is None else " … ".join(f"{100 * bound:.1f}" for bound in interval)


def _sts_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: sentences and words that a system knows nothing of, and what was passed over."""
    lines = []
    for one, dataset in ((system, dataset) for system in found["systems"] for dataset in system["sets"]):
        if (count := dataset["sentences_without_vector"]) > 0:
            without = f"{counted(count, 'sentences')} of {dataset['name']} without a vector"
            lines.append(f"{_sts_name(one)}: {without}: pairs count as 0")
        if (count := dataset["unknown_words"]["count"]) > 0:
            unknown = f"{counted(count, 'unknown words')} in {dataset['name']}"
            lines.append(f"{_sts_name(one)}: {unknown}: {some_words(dataset['unknown_words'])}")
    if unscored := sum(one["unscored"] for one in found["sets"]):
        lines.append(f"{counted(unscored, 'pairs')} without a score left out")
    return lines + passed_over(found)


@evaluation(
    "encoders", "[MODEL|WORDS|SENTENCES]...", required=False, params=embedding_options(), json="all figures",
    example="wordpipe evaluate retrieval run/model --data collection/\n"
    "wordpipe evaluate retrieval run/words --data collection/ --json",
)  # fmt: skip
@click.option(
    "--data", required=True, metavar="DIR", help="A folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR)."
)
@_words
@click.option("--split", metavar="NAME", help="Take the judgements in qrels/NAME.tsv.  [default: test, or qrels.tsv]")
@click.option(
    "--weight", type=click.FloatRange(0, 1), metavar="W",
    help="Share of the dense score in hybrid.  [default: found without labels]",
)  # fmt: skip
@click.option(
    "--feedback", type=click.IntRange(min=0), metavar="N",
    help="In hybrid, ask again with the first N results, by vectors and by words; 0 asks once.  [default: 10]",
)  # fmt: skip
@_language
@click.option(
    "--drop-identical", cls=Option, expert=True, is_flag=True,
    help="Leave out a document of the same id as its query (ArguAna).",
)  # fmt: skip
@number("--draws", 0, 10_000, "Of the bootstrap.", expert=True)
def retrieval(encoders: tuple[Path, ...], data: str, **given: Any) -> None:
    """Evaluate how well encoders find the documents that people judged relevant, side by side with plain words.

    Each encoder is evaluated alone (dense) and mixed with BM25 (hybrid). Hybrid search asks twice, which brings something
    without vectors too: BM25 asked twice and random vectors are the controls. The figures are trec_eval's; a query without an
    answer counts as 0. p says how often draws of as many queries turn the difference to BM25 around.
    """
    from wordpipe.stages import evaluate_retrieval

    settings = chosen_embedding(given)
    if given["feedback"] is None:
        del given["feedback"]
    answer(evaluate_retrieval, encoders, data, show=_show_retrieval, remarks=_retrieval_remarks, **given, **settings)


def _show_retrieval(found: dict[str, Any]) -> None:
    print_columns([_retrieval_column(one) for one in found["systems"]], "x 100")


def _retrieval_column(one: dict[str, Any]) -> Column:
    """One line per measure, with what a draw may change about the first."""
    shown = [(label, f"{100 * one['metrics'][name]:.2f}") for name, label in _MEASURES.items()]
    against = (one["against_bm25"] or {}).get("ndcg_at_10")
    twice = (one.get("against_bm25_twice") or {}).get("ndcg_at_10") if one["system"] == "hybrid" else None
    drawn = [
        ("  95 %", _range(one["intervals"]["ndcg_at_10"]) or "–"),
        ("  above BM25", f"{100 * against['difference']:+.2f}" if against else "–"),
        ("  p", f"{against['p']:.4f}" if against else "–"),
        ("  above BM25 twice", f"{100 * twice['difference']:+.2f}" if twice else None),
        ("  p of that", f"{twice['p']:.4f}" if twice else None),
    ]
    return _retrieval_head(one), [*shown[:1], *drawn, *shown[1:]]


def _retrieval_head(one: dict[str, Any]) -> str:
    if one["system"] == one["name"]:
        return _HEADS[one["system"]]
    mixed = f"hybrid, {one['facts']['weight']:.2f} dense" if one["system"] == "hybrid" else one["system"]
    return f"{short_name(one['name'], _SEARCH_WIDTH)}\n{_HEADS.get(mixed, mixed)}"


def _retrieval_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on how much it stands, and what is missing."""
    counts = found["counts"]
    lines = [
        f"{counts['documents']:,} documents, {counts['queries']:,} judged queries, {counts['judgements']:,} judgements"
    ]
    said = {
        "queries_unjudged": "queries have no judgement and are left out",
        "queries_unknown": "judged queries have no text and count as 0",
        "queries_without_relevant": "queries have no relevant document and count as 0",
        "judged_documents_unknown": "judged documents are not in the corpus and cannot be found",
        "documents_empty": "documents have no text",
    }
    lines += [f"{counts[name]:,} {text}" for name, text in said.items() if counts[name]]
    for one in found["systems"]:
        if one["unanswered"] > counts["queries_unknown"]:
            name = _retrieval_head(one).splitlines()[0]
            lines.append(f"{name}: {one['unanswered']:,} queries have no answer from {one['system']} and count as 0")
    if found["drop_identical"]:
        lines.append("documents of the same id as their query are left out")
    return [*lines, *_legend({one["system"] for one in found["systems"]}), *_advice(found["systems"])]


_LEGEND = {
    "bm25_twice": "BM25 asked twice: words alone, asked again with what the first results say, as hybrid is; no vectors",
    "words_mean": "mean of words: cosines of the plain mean of word vectors; dense weighs rare words more and has a transform",
    "dense": "dense: cosines of the encoder's vectors alone; hybrid: mixed with BM25, and asked twice",
    "random": "random vectors: hybrid, with vectors drawn by chance in the place of the encoder's",
}


def _legend(there: set[str]) -> list[str]:
    """What the columns are that do not say it."""
    return [text for name, text in _LEGEND.items() if name in there]


def _advice(systems: Sequence[dict[str, Any]]) -> list[str]:
    """What the vectors of each encoder bring, and what may be tried next."""
    lines, learned = (
        [],
        {one["name"]: one["facts"]["learned_from_pairs"] for one in systems if one["system"] == "dense"},
    )
    for one in systems:
        against = (one.get("against_bm25_twice") or {}).get("ndcg_at_10")
        if one["system"] == "hybrid" and against:
            gain = f"{100 * against['difference']:+.2f} points of nDCG@10 (p {against['p']:.4f})"
            sure = "" if against["p"] < _SIGNIFICANT else ", which may be chance"
            lines.append(
                f"{short_name(one['name'], _SEARCH_WIDTH)}: its vectors bring {gain} to BM25 asked twice{sure}"
            )
    if untrained := [short_name(name, _SEARCH_WIDTH) for name, pairs in learned.items() if not pairs]:
        lines.append(
            f"{', '.join(untrained)}: not trained to search; to train an encoder on these documents, without labels: "
            "wordpipe train static --goal search"
        )
    return lines
