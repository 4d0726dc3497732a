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

# where each of them is, seen from here; `open` is called `open_artifact` there
_MODULES = {
    "errors": "WordpipeError", "pipeline": "Pipeline", "stages.contrast": "train_contrastive", "stages.diff": "diff",
    "stages.doctor": "doctor", "stages.duplicates": "duplicates", "stages.embed": "embed",
    "stages.evaluate": "evaluate_tokenizer", "stages.evaluate_model": "evaluate_model",
    "stages.evaluate_retrieval": "evaluate_retrieval", "stages.evaluate_sts": "evaluate_sts",
    "stages.evaluate_words": "evaluate_words", "stages.export": "export export_words",
    "stages.generate": "fill generate", "stages.import_words": "import_words", "stages.index": "index",
    "stages.ingest": "ingest", "stages.inspect": "show verify", "stages.making": "Made RunOptions",
    "stages.map": "map_words", "stages.models": "open_model", "stages.plot": "plot",
    "stages.pretrain": "train_clm train_mlm", "stages.query": "open", "stages.tokenize": "tokenize",
    "stages.word2vec": "train_word2vec",
}  # fmt: skip
_PUBLIC = {name: f"wordpipe.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'wordpipe' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), "open_artifact" if name == "open" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
