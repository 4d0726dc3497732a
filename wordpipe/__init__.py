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
        cluster,
        diff,
        doctor,
        duplicates,
        embed,
        evaluate_model,
        evaluate_retrieval,
        evaluate_sts,
        evaluate_tokenizer,
        evaluate_words,
        export,
        export_words,
        fill,
        generate,
        import_words,
        index,
        ingest,
        map_words,
        open_model,
        plot,
        show,
        tokenize,
        train_clm,
        train_contrastive,
        train_mlm,
        train_word2vec,
        verify,
    )
    from wordpipe.stages import open_artifact as open  # noqa: A004
else:
    __getattr__, __dir__ = face(__name__, __file__)

__version__ = "0.1.0"
