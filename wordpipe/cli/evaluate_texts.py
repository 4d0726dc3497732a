"""`wordpipe evaluate sts`, `retrieval`, `seq2seq` and `predictions`: commands whose options are the fields of settings."""

from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, Option, number
from wordpipe.cli.evaluate import evaluation
from wordpipe.cli.figures import answer
from wordpipe.cli.options import chosen_embedding, chosen_settings, embedding_options, settings_options
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings, Seq2SeqEvaluationSettings

_COMMON = ("quiet", "verify", "as_json")
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
    answer(evaluate_sts, encoders, data, **given, **settings)


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
    answer(evaluate_retrieval, encoders, data, **given, **settings)


@evaluation(
    "models", "[MODEL]...", required=False, params=settings_options(Seq2SeqEvaluationSettings), json="all figures",
    example="wordpipe evaluate seq2seq run/model --data val.de --data val.en --train train.de --train train.en\n"
    "wordpipe evaluate seq2seq run/model --data run/corpus --samples 5 -o outputs.tsv --json",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PAIRS",
    help="A corpus with second texts, a file of pairs, or parallel files of plain text, the sources first.",
)  # fmt: skip
@click.option(
    "--train",
    multiple=True,
    metavar="PAIRS",
    help="The training pairs; the target of the nearest source is a baseline.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write what the model wrote, as .tsv or .parquet.")
def seq2seq(
    models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], output: Path | None, **given: Any
) -> None:
    """Evaluate encoder-decoders by the target texts that they write, side by side with baselines.

    PAIRS are source<TAB>target lines (further columns are further references), records with the fields text and text_b, two
    parallel files, or a corpus. Baselines copy the source, or take its first sentence, or the target of the nearest training
    pair.

    BLEU is cased (13a) and lower-cased (split at white space); only figures of equal signatures compare. p says how often
    draws of as many pairs turn the difference around. The loss is of the first reference, and compares models with the same
    tokenizer.
    """
    from wordpipe.stages import evaluate_seq2seq

    answer(
        evaluate_seq2seq, models, data, train=train or None, output=output,
        **{name: given[name] for name in _COMMON}, **chosen_settings(Seq2SeqEvaluationSettings, given),
    )  # fmt: skip


@evaluation(
    "models", "MODEL|PREDICTIONS...", params=settings_options(PredictionsEvaluationSettings), json="all figures",
    example="wordpipe evaluate predictions run/topics --data run/labelled\n"
    "wordpipe evaluate predictions run/topics --data test.jsonl --train train.jsonl --label-field topic\n"
    "wordpipe evaluate predictions run/predicted",
)  # fmt: skip
@click.option(
    "--data", multiple=True, metavar="LABELLED",
    help="Labelled texts; a corpus artifact, or any source. Predictions have theirs beside them.",
)  # fmt: skip
@click.option(
    "--train", multiple=True, metavar="LABELLED",
    help="The texts that the baselines learn from.  [default: the corpus that the model names]",
)  # fmt: skip
def predictions(models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], **given: Any) -> None:
    """Evaluate classifiers and taggers by what they say of labelled texts, beside baselines without a transformer.

    MODEL is an artifact of train classifier or tagger, or a folder of transformers with such a class; PREDICTIONS what
    `wordpipe predict MODEL CORPUS -o` made of a corpus with labels.

    Baselines: the commonest label; TF-IDF of words and pairs of words with a linear model; of tags the spans of the training
    texts by heart; of questions the best sentence by BM25. p says how often draws of as many texts turn a difference around.
    Spans are counted as conlleval counts them. The calibration error says how far probabilities are from the share that is
    right.
    """
    from wordpipe.stages import evaluate_predictions

    answer(
        evaluate_predictions, models, data or None, train=train or None,
        **{name: given[name] for name in _COMMON},
        **chosen_settings(PredictionsEvaluationSettings, given),
    )  # fmt: skip
