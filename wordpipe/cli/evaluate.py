"""`wordpipe evaluate` and `wordpipe doctor`: their options; the stages find the figures, `figures.py` prints the tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand, Option, number
from wordpipe.cli.figures import answer
from wordpipe.cli.options import chosen_embedding, chosen_settings, embedding_options, settings_options
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
    """A command that evaluates what its arguments name: with --json, -q and --verify."""

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
    json="the first failures and unused tokens",
)  # fmt: skip
@_data
@click.option(
    "--by", metavar="COLUMN", help="Figures for each source, or each value of a metadata column such as lang."
)
@click.option("--split", type=click.Choice(["train", "valid", "test"]), help="Evaluate this part of the corpus only.")
def tokenizer(tokens: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate tokenizers on a text, side by side.

    TOKENS are artifacts with a tokenizer, or whatever tokenize --tokenizer takes. More bytes per token make shorter
    sequences; tokens per word (fertility) and split words count words where spaces mark them.

    Another size of the vocabulary is trained in seconds: wordpipe tokenize CORPUS --counts TOKENS --vocab-size N.
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
    help="The part of the corpus to evaluate on.  [default: what is held out: valid, else test, else all; of sources: all]",
)  # fmt: skip
@click.option(
    "--seq-len", type=int, metavar="N",
    help="Positions of a sequence: how far a model can look back.  [default: the model's length, at most 2048]",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), default="auto",
    help="Where the models run; auto takes the fastest there is.  [default: auto]",
)  # fmt: skip
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="CPU threads, 0 = one per core.  [default: 0]",
)
def model(models: tuple[Path, ...], data: tuple[str, ...], **options: Any) -> None:
    """Evaluate language models by how much a text surprises them, side by side.

    MODEL is an artifact, or a folder of transformers. A target is a token to be guessed: every token for a model that reads
    from left to right, 15 % of them, always the same, for one that sees both sides.

    Models with different tokenizers compare by bits per byte and by perplexity per word; those of equal tokenizers by
    their loss too. Models that see both sides compare only with each other.
    """
    from wordpipe.stages import evaluate_model

    answer(evaluate_model, models, data, **options)


@evaluation(
    "words", "WORDS...", json="all sections and the first unknown words",
    example="wordpipe evaluate words run/words --data wordsim353.txt --data questions-words.txt\n"
    "wordpipe evaluate words run/words run/small --data sets/ --sections",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PATH", help="A set, or a folder of .txt, .tsv and .csv sets."
)
@number("--restrict-vocab", 0, 30_000, "Ask and answer analogies with the N commonest words; 0 takes all.")
@click.option(
    "--analogy", type=click.Choice(["cosadd", "cosmul"]), default="cosadd",
    help="Add the cosines of a question, or multiply them.  [default: cosadd]",
)  # fmt: skip
@click.option(
    "--unknown", type=click.Choice(["drop", "zero"]), default="drop",
    help="Leave out pairs and questions with unknown words, or count them as cosine 0 and as wrong.  [default: drop]",
)  # fmt: skip
@click.option("--sections", is_flag=True, help="Figures for each section of the analogies.")
def words(words: tuple[Path, ...], data: tuple[str, ...], sections: bool, **options: Any) -> None:
    """Evaluate word vectors on word similarity and analogies, side by side.

    A similarity set has two words and a score a line; the figure is Spearman's correlation of the scores with the cosines.
    An analogy set has lines of four words below lines such as ": family"; the figure is the share of questions whose
    fourth word is found from the other three.

    Figures depend on which pairs and questions are known, and those of analogies on --restrict-vocab, so both are printed;
    only figures of equal ones can be compared.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages import evaluate_words

    found = answer(evaluate_words, words, data, details=sections, **options)
    if all(figure is None for one in found["words"] for figure in one["metrics"].values()):
        hint = "look at the case and the language of the sets, or raise --restrict-vocab"
        raise InputError("nothing could be evaluated: the tables know too few words of the sets", hint=hint)


@evaluation(
    "index", "INDEX", nargs=1, example="wordpipe evaluate search run/index --data questions.tsv", json="all figures",
)  # fmt: skip
@click.option(
    "--data", required=True, metavar="FILE", type=PATH,
    help="Lines of a question, a tab, and the id or title of a right answer; or columns question, and id or title.",
)  # fmt: skip
@number("--draws", 0, 10_000, "Of the bootstrap.", expert=True)
def search(index: Path, data: Path, **given: Any) -> None:
    """Ask an index your own questions, in every way in which it can be asked, and say which finds best.

    Several right answers of a question are several lines; an id goes before a title. The index is asked as it is, by words,
    by vectors, by both, by words asked twice (with what the first answers say, without vectors), by both asked once, and by
    several weights of the vectors. Rows count as query lists them. p says how often draws of as many questions turn the
    difference to words alone around. Exit code 3 when no right answer stands in the index.
    """
    from wordpipe.stages import evaluate_search

    answer(evaluate_search, index, data, **given)


@click.command(
    cls=ExampleCommand,
    example="wordpipe doctor run/sentences\nwordpipe doctor run/words --json\nwordpipe doctor run/model --data run/corpus",
    json="Print one JSON object, with the figures of every transform, and what is found.",
    quiet="Print nothing but the figures and errors.",
    verify="artifact's",
)
@click.argument("artifact", type=click.Path(path_type=Path), metavar="SENTENCES|WORDS|INDEX|MODEL")
@click.option("--data", multiple=True, metavar="CORPUS", help="Measure a model on this text; may be repeated.")
@number("--sample", 128, 10_000, "Vectors to sample; half of them fit, half are evaluated. Of a model: tokens.")
def doctor(artifact: Path, data: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Examine a space of vectors: is it crowded, flat or ruled by hubs, does it find, and which change would help.

    What is weak or sick is named, and at the end the setting that mends it, or that only more text helps. Where a transform
    mends, its figures stand beside those of now; it is fitted on one half of the sample and evaluated on the other.

    Of texts it is measured how well vectors and words find what they should: the text of a title, the other rows of a row's
    document, or what a cut was taken from. Of an index that is known since it was built.

    Of a model (of train mlm, clm, seq2seq, denoising, classifier or tagger, or a folder of transformers) the loss on
    held-out text is measured, on what it was made of or on --data, and which layers hardly moved or have dead units. What
    single heads bring, attention --importance says.
    """
    from wordpipe.stages import doctor as examine

    answer(examine, artifact, quiet=quiet | as_json, as_json=as_json, data=list(data) or None, **options)


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
    help="Labelled texts; a corpus artifact, or any source. Predictions hold their own labels.",
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
