"""wordpipe: from your own text to a searchable index, on your own machine.

    import wordpipe

    wordpipe.ingest(["notes/"], output="run/corpus")
    wordpipe.tokenize("run/corpus", output="run/tokens", vocab_size=8000)
    wordpipe.train_word2vec("run/tokens", output="run/words")
    wordpipe.train_mlm("run/tokens", output="run/model", preset="tiny", steps=200)
    wordpipe.embed("run/model", "run/corpus", output="run/sentences")
    wordpipe.index("run/sentences", output="run/index")
    with wordpipe.open("run/index") as index:
        hits = index.query("how do bees find their way", k=5)

The functions are loaded when they are first used, so importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wordpipe.errors import WordpipeError as WordpipeError
    from wordpipe.pipeline import Pipeline as Pipeline
    from wordpipe.stages.contrast import train_contrastive as train_contrastive
    from wordpipe.stages.diff import diff as diff
    from wordpipe.stages.doctor import doctor as doctor
    from wordpipe.stages.duplicates import duplicates as duplicates
    from wordpipe.stages.embed import embed as embed
    from wordpipe.stages.evaluate import evaluate_tokenizer as evaluate_tokenizer
    from wordpipe.stages.evaluate_model import evaluate_model as evaluate_model
    from wordpipe.stages.evaluate_retrieval import evaluate_retrieval as evaluate_retrieval
    from wordpipe.stages.evaluate_sts import evaluate_sts as evaluate_sts
    from wordpipe.stages.evaluate_words import evaluate_words as evaluate_words
    from wordpipe.stages.export import export as export
    from wordpipe.stages.export import export_words as export_words
    from wordpipe.stages.generate import fill as fill
    from wordpipe.stages.generate import generate as generate
    from wordpipe.stages.import_words import import_words as import_words
    from wordpipe.stages.index import index as index
    from wordpipe.stages.ingest import ingest as ingest
    from wordpipe.stages.inspect import show as show
    from wordpipe.stages.inspect import verify as verify
    from wordpipe.stages.making import Made as Made
    from wordpipe.stages.making import RunOptions as RunOptions
    from wordpipe.stages.map import map_words as map_words
    from wordpipe.stages.models import open_model as open_model
    from wordpipe.stages.plot import plot as plot
    from wordpipe.stages.pretrain import train_clm as train_clm
    from wordpipe.stages.pretrain import train_mlm as train_mlm
    from wordpipe.stages.query import open_artifact as open  # noqa: A004, F401
    from wordpipe.stages.tokenize import tokenize as tokenize
    from wordpipe.stages.word2vec import train_word2vec as train_word2vec

__version__ = "0.1.0"

_PUBLIC = {
    "ingest": "wordpipe.stages.ingest:ingest",
    "tokenize": "wordpipe.stages.tokenize:tokenize",
    "train_word2vec": "wordpipe.stages.word2vec:train_word2vec",
    "train_mlm": "wordpipe.stages.pretrain:train_mlm",
    "train_clm": "wordpipe.stages.pretrain:train_clm",
    "doctor": "wordpipe.stages.doctor:doctor",
    "train_contrastive": "wordpipe.stages.contrast:train_contrastive",
    "embed": "wordpipe.stages.embed:embed",
    "evaluate_tokenizer": "wordpipe.stages.evaluate:evaluate_tokenizer",
    "evaluate_model": "wordpipe.stages.evaluate_model:evaluate_model",
    "evaluate_retrieval": "wordpipe.stages.evaluate_retrieval:evaluate_retrieval",
    "evaluate_sts": "wordpipe.stages.evaluate_sts:evaluate_sts",
    "evaluate_words": "wordpipe.stages.evaluate_words:evaluate_words",
    "generate": "wordpipe.stages.generate:generate",
    "fill": "wordpipe.stages.generate:fill",
    "open_model": "wordpipe.stages.models:open_model",
    "import_words": "wordpipe.stages.import_words:import_words",
    "index": "wordpipe.stages.index:index",
    "open": "wordpipe.stages.query:open_artifact",
    "diff": "wordpipe.stages.diff:diff",
    "duplicates": "wordpipe.stages.duplicates:duplicates",
    "show": "wordpipe.stages.inspect:show",
    "verify": "wordpipe.stages.inspect:verify",
    "export": "wordpipe.stages.export:export",
    "export_words": "wordpipe.stages.export:export_words",
    "map_words": "wordpipe.stages.map:map_words",
    "plot": "wordpipe.stages.plot:plot",
    "Pipeline": "wordpipe.pipeline:Pipeline",
    "RunOptions": "wordpipe.stages.making:RunOptions",
    "Made": "wordpipe.stages.making:Made",
    "WordpipeError": "wordpipe.errors:WordpipeError",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'wordpipe' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
