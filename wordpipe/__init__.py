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

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.errors import WordpipeError
    from wordpipe.pipeline import Pipeline
    from wordpipe.stages import (
        Made,
        RunOptions,
        evaluate_tokenizer,
        export_words,
        fill,
        map_words,
        open_model,
        show,
        train_clm,
        train_contrastive,
        train_mlm,
        train_word2vec,
        verify,
    )
    from wordpipe.stages import open_artifact as open  # noqa: A004
    from wordpipe.stages.diff import diff
    from wordpipe.stages.doctor import doctor
    from wordpipe.stages.duplicates import duplicates
    from wordpipe.stages.embed import embed
    from wordpipe.stages.evaluate_model import evaluate_model
    from wordpipe.stages.evaluate_retrieval import evaluate_retrieval
    from wordpipe.stages.evaluate_sts import evaluate_sts
    from wordpipe.stages.evaluate_words import evaluate_words
    from wordpipe.stages.export import export
    from wordpipe.stages.generate import generate
    from wordpipe.stages.import_words import import_words
    from wordpipe.stages.index import index
    from wordpipe.stages.ingest import ingest
    from wordpipe.stages.plot import plot
    from wordpipe.stages.tokenize import tokenize
else:
    __getattr__, __dir__ = face(__name__, __file__)

__version__ = "0.1.0"
