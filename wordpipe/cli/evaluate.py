"""`wordpipe evaluate` and `wordpipe doctor`: their options; the stages find the figures, `tables.py` prints the tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand, Option, number
from wordpipe.cli.options import chosen_embedding, chosen_settings, embedding_options, settings_options
from wordpipe.cli.tables import answer
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings, Seq2SeqEvaluationSettings


def evaluation(
    name: str,
    metavar: str,
    *,
    example: str,
    json: str,
    required: bool = True,
    params: Sequence[click.Parameter] = (),
    nargs: int = -1,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return the decorator of a command of `evaluate`, which has --json, -q and --verify."""

    def make(function: Callable[..., None]) -> click.Command:
        take = click.argument(name, nargs=nargs, required=required, metavar=metavar, type=click.Path(path_type=Path))
        command = click.command(
            cls=ExampleCommand, params=[*params], example=example, json=f"Print one JSON object, with {json}.",
            quiet="Print nothing but the table and errors.", verify="artifacts'",
        )  # fmt: skip
        return command(take(function))

    return make


_data = click.option(
    "--data", required=True, multiple=True, metavar="CORPUS", help="A corpus artifact, or any source of text."
)


@evaluation(
    "tokens", "TOKENS...", example="wordpipe evaluate tokenizer run/tokens --data run/corpus",
    json="the first texts that encoding and decoding changed, and unused tokens",
)  # fmt: skip
@_data
@click.option(
    "--by",
    metavar="COLUMN",
    help="Show separate figures for each source, or for each value of a metadata column (for example lang).",
)
@click.option("--split", type=click.Choice(["train", "valid", "test"]), help="Evaluate this part of the corpus only.")
def tokenizer(tokens: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate tokenizers on a text, side by side.

    TOKENS: artifacts with a tokenizer, or any value that `tokenize --tokenizer` accepts. More bytes per token mean shorter
    sequences. Tokens per word (fertility) and split words are counted where spaces separate words.

    To train another vocabulary size in seconds: wordpipe tokenize CORPUS --counts TOKENS --vocab-size N.
    """
    from wordpipe.stages import evaluate_tokenizer

    answer(evaluate_tokenizer, tokens, data, **options)


@evaluation(
    "models", "MODEL...", json="all counts",
    example="wordpipe evaluate model run/model --data run/corpus\n"
    "wordpipe evaluate model run/clm run/larger --data held_out.txt --json",
)  # fmt: skip
@_data
@click.option(
    "--split", type=click.Choice(["train", "valid", "test", "all"]),
    help="The split of the corpus to evaluate on.  [default: valid, else test, else all; for sources: all]",
)  # fmt: skip
@click.option(
    "--seq-len", type=int, metavar="N",
    help="Length of the sequences in tokens; a model sees only one sequence.  [default: the model's maximum, at most 2048]",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), default="auto",
    help="Where to run the models; auto chooses the fastest device.  [default: auto]",
)  # fmt: skip
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="CPU threads, 0 = one per core.  [default: 0]",
)
def model(models: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate language models on a text by loss, perplexity and bits per byte, side by side.

    MODEL: a model artifact, or a model folder of Hugging Face transformers. A target is a token that the model must predict:
    every token for a left-to-right model, 15 % of the tokens (always the same) for a model that sees both sides.

    Compare models with different tokenizers by bits per byte and by perplexity per word. Models with the same tokenizer can
    be compared by loss too. Models that see both sides can be compared only with each other.
    """
    from wordpipe.stages import evaluate_model

    answer(evaluate_model, models, data, **options)


@evaluation(
    "words", "WORDS...", json="all sections and the first unknown words",
    example="wordpipe evaluate words run/words --data wordsim353.txt --data questions-words.txt\n"
    "wordpipe evaluate words run/words run/small --data sets/ --sections",
)  # fmt: skip
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="PATH",
    help="A test set, or a folder of test sets (.txt, .tsv, .csv).",
)
@number("--restrict-vocab", 0, 30_000, "For analogies, use only the N most frequent words; 0: all words.")
@click.option(
    "--analogy", type=click.Choice(["cosadd", "cosmul"]), default="cosadd",
    help="How the cosines of an analogy are combined: added (cosadd) or multiplied (cosmul).  [default: cosadd]",
)  # fmt: skip
@click.option(
    "--unknown", type=click.Choice(["drop", "zero"]), default="drop",
    help="Treatment of unknown words: drop leaves out the pair or question; zero: cosine 0, wrong answer.  [default: drop]",
)  # fmt: skip
@click.option("--sections", is_flag=True, help="Show figures for each section of an analogy test set.")
def words(words: tuple[Path, ...], data: tuple[str, ...], sections: bool, **options: Any) -> None:
    """Evaluate word vectors on word similarity and analogies, side by side.

    Each line of a similarity set has two words and a score; the figure is Spearman's correlation between the scores and the
    cosines. An analogy set has lines of four words below headings such as ": family"; the figure is the share of questions
    whose fourth word is found from the other three.

    The figures depend on how many pairs and questions contain only known words, and for analogies on --restrict-vocab. Both
    numbers are printed. Compare two figures only if both numbers are equal.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages import evaluate_words

    found = answer(evaluate_words, words, data, details=sections, **options)
    if all(figure is None for one in found["words"] for figure in one["metrics"].values()):
        hint = "check the letter case and the language of the test sets, or raise --restrict-vocab"
        raise InputError("no figure could be computed, because too few words of the test sets have vectors", hint=hint)


@evaluation(
    "index", "INDEX", nargs=1, example="wordpipe evaluate search run/index --data questions.tsv", json="all figures",
)  # fmt: skip
@click.option(
    "--data", required=True, metavar="FILE", type=PATH,
    help="A file with one right answer per line: question, tab, id or title; or a table with columns question and id/title.",
)  # fmt: skip
@number("--draws", 0, 10_000, "Number of bootstrap samples.", expert=True)
def search(index: Path, data: Path, **given: Any) -> None:
    """Evaluate an index with your own questions, in every way of searching, and say which way is best.

    If a question has several right answers, write one line for each. A value that is an id of the index is read as an id,
    otherwise as a title. The ways of searching are: words; vectors; both; words with a second search that uses the first
    answers (without vectors); both with one search only; and several weights of the vectors. The ranking is the same as in
    `wordpipe query`. p is the two-sided bootstrap p-value of the difference to a search by words. Exit code 3: no right
    answer is in the index.
    """
    from wordpipe.stages import evaluate_search

    answer(evaluate_search, index, data, **given)


@click.command(
    cls=ExampleCommand,
    example="wordpipe doctor run/sentences\nwordpipe doctor run/words --json\nwordpipe doctor run/model --data run/corpus",
    json="Print one JSON object, with the figures of every transform and all findings.",
    quiet="Print nothing but the figures and errors.",
    verify="artifact's",
)
@click.argument("artifact", type=click.Path(path_type=Path), metavar="SENTENCES|WORDS|INDEX|MODEL")
@click.option("--data", multiple=True, metavar="CORPUS", help="Text to measure a model on; may be repeated.")
@number(
    "--sample",
    128,
    10_000,
    "Number of sampled vectors: one half to fit transforms, one half to evaluate them; for a model: number of tokens.",
)
def doctor(artifact: Path, data: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Examine vectors or a model: find weaknesses, and the setting that fixes each.

    For vectors, the checks are: are all vectors similar, do they use only a few dimensions, are a few vectors neighbours of
    most others (hubs), and do searches find the right texts? The report names each weakness, and at the end the setting that
    fixes it, or says that only more text helps. If a transform helps, its figures are shown beside the present ones; it is
    fitted on one half of the sample and evaluated on the other half.

    For texts, doctor measures how well vectors and words find what belongs together: a title and its text, the rows of one
    document, or a part of a text and the rest. For an index, these figures were measured when the index was built.

    For a model (of `train mlm`, `clm`, `seq2seq`, `denoising`, `classifier` or `tagger`, or a model folder of Hugging Face
    transformers), doctor measures the loss on held-out text (of the training data, or of --data), and finds layers that
    hardly changed or have dead units. For the importance of single heads, use `attention --importance`.
    """
    from wordpipe.stages import doctor as examine

    answer(examine, artifact, quiet=quiet | as_json, as_json=as_json, data=list(data) or None, **options)


_COMMON = ("quiet", "verify", "as_json")
_words = click.option(
    "--words", metavar="WORDS", type=click.Path(path_type=Path),
    help="Also evaluate the mean of these word vectors.  [default: the first WORDS argument]",
)  # fmt: skip
_language = click.option(
    "--language",
    default="auto",
    metavar="LANGUAGE",
    help="Language of the texts, used to remove word endings.  [default: auto]",
)


@evaluation(
    "encoders", "[MODEL|WORDS|SENTENCES]...", required=False, params=embedding_options(), json="all figures",
    example="wordpipe evaluate sts run/sentences --data stsb-en-dev.csv --data sts12/\n"
    "wordpipe evaluate sts run/model run/words --data stsb-en-dev.csv --words run/words --json",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PATH",
    help="A file of sentence pairs with scores; or a folder, whose files together form one test set.",
)  # fmt: skip
@_words
@click.option(
    "--floors/--no-floors", default=True,
    help="Also evaluate baselines: TF-IDF, LSI, word overlap and the mean of word vectors.  [on]",
)  # fmt: skip
@_language
@number("--draws", 0, 1_000, "Number of bootstrap samples.")
def sts(encoders: tuple[Path, ...], data: tuple[str, ...], **given: Any) -> None:
    """Evaluate encoders of texts on pairs of sentences that people have scored, side by side with plain words.

    The columns of a csv, tsv or JSON Lines file are recognized by their names, or by their contents: two columns of
    sentences, and a score before or after them. All pairs of a folder are ranked together.

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
@click.option(
    "--split",
    metavar="NAME",
    help="Read relevance judgements from qrels/NAME.tsv.  [default: test, else the file qrels.tsv]",
)
@click.option(
    "--weight", type=click.FloatRange(0, 1), metavar="W",
    help="Weight of the dense score in hybrid search.  [default: estimated without labels]",
)  # fmt: skip
@click.option(
    "--feedback", type=click.IntRange(min=0), metavar="N",
    help="Hybrid search uses its first N results for a second search; 0: no second search.  [default: 10]",
)  # fmt: skip
@_language
@click.option(
    "--drop-identical", cls=Option, expert=True, is_flag=True,
    help="Leave out documents that have the same id as the query (for example in ArguAna).",
)  # fmt: skip
@number("--draws", 0, 10_000, "Number of bootstrap samples.", expert=True)
def retrieval(encoders: tuple[Path, ...], data: str, **given: Any) -> None:
    """Evaluate how well encoders find the documents that people judged relevant, side by side with plain words.

    Each encoder is evaluated alone (dense) and mixed with BM25 (hybrid). Hybrid search searches twice, by vectors and by
    words. A second search helps without vectors too; therefore BM25 with two searches and random vectors are controls. The
    figures are computed as by trec_eval; a query without results counts as 0. p is the two-sided bootstrap p-value of the
    difference to BM25.
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
    help="A corpus of pairs, a file of pairs, or two parallel text files (first the source texts, then the targets).",
)  # fmt: skip
@click.option(
    "--train",
    multiple=True,
    metavar="PAIRS",
    help="The training pairs, for a baseline that answers with the target of the most similar training source.",
)
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="Save the generated texts in this .tsv or .parquet file."
)
def seq2seq(
    models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], output: Path | None, **given: Any
) -> None:
    """Evaluate encoder-decoders by the target texts that they write, side by side with baselines.

    PAIRS: lines of source<TAB>target (more columns: more references), records with the fields text and text_b, two parallel
    files, or a corpus of pairs. The baselines are: the source itself, its first sentence, and the target of the most similar
    training pair.

    BLEU is computed with upper and lower case (13a), and in lower case (split at white space). Compare only BLEU figures with
    the same signature. p is the two-sided bootstrap p-value of a difference. The loss is computed on the first reference;
    compare losses only between models with the same tokenizer.
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
    help="Labelled texts: a corpus artifact, or any source of text; not needed for PREDICTIONS, which contain labels.",
)  # fmt: skip
@click.option(
    "--train", multiple=True, metavar="LABELLED",
    help="Labelled texts to train the baselines.  [default: the training corpus of the first model]",
)  # fmt: skip
def predictions(models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], **given: Any) -> None:
    """Evaluate classifiers and taggers on labelled texts, beside baselines without a transformer.

    MODEL: a model of `train classifier` or `train tagger`, or a model folder of Hugging Face transformers of one of these
    classes. PREDICTIONS: an artifact that `wordpipe predict MODEL CORPUS -o` made from a corpus with labels.

    Baselines: the most frequent label; a linear model on TF-IDF of words and word pairs; for tags, the spans of the training
    texts; for questions, the best sentence by BM25. p is the two-sided bootstrap p-value of a difference. Spans are counted
    as by conlleval. The calibration error is the distance between the probabilities and the share of right predictions.
    """
    from wordpipe.stages import evaluate_predictions

    answer(
        evaluate_predictions, models, data or None, train=train or None,
        **{name: given[name] for name in _COMMON},
        **chosen_settings(PredictionsEvaluationSettings, given),
    )  # fmt: skip
