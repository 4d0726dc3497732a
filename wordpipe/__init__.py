"""wordpipe: from your own text to a searchable index, on your own machine.

    import wordpipe

    wordpipe.ingest(["notes/"], output="run/corpus")
    wordpipe.tokenize("run/corpus", output="run/tokens", vocab_size=8000)
    wordpipe.train_word2vec("run/tokens", output="run/words")
    wordpipe.train_mlm("run/tokens", output="run/model", preset="tiny", steps=200)
    wordpipe.embed("run/model", "run/corpus", output="run/sentences")
    wordpipe.index("run/sentences", output="run/index")
    hits = wordpipe.query("run/index", "how do bees find their way", k=5)

Each function is named as its command is, but for `import`, which is a word of Python's own: `import_words`. It takes the
command's settings as keywords, and `help` says which there are. Functions are loaded when they are first used, so importing
the package costs nothing.
"""

from wordpipe.lazy import face

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself takes 5 ms, in which Ctrl-C has no answer
if TYPE_CHECKING:
    from wordpipe.cli.output import progress
    from wordpipe.errors import (
        ArtifactError,
        BudgetError,
        ConfigError,
        DivergedError,
        InputError,
        LockedError,
        NothingFound,
        PeerError,
        StorageError,
        UnknownWordError,
        WordpipeError,
        WordpipeWarning,
    )
    from wordpipe.heads import Answered, Classified, Prediction, Tagged
    from wordpipe.model.settings import FillSettings, GenerateSettings
    from wordpipe.pipeline import Pipeline
    from wordpipe.runtime import Progress, Stopped
    from wordpipe.search.settings import QueryOptions
    from wordpipe.stages import (
        FoundAnswer,
        Made,
        OpenArtifact,
        OpenClusters,
        OpenEncoder,
        OpenIndex,
        OpenModel,
        OpenSentences,
        OpenTable,
        OpenWords,
        Predictor,
        Preview,
        RunOptions,
        Target,
        TargetWriter,
        Written,
        ask,
        open_model,
        open_predictor,
        predict,
    )
    from wordpipe.stages import open_artifact as open  # noqa: A004
    from wordpipe.web import Server
    from wordpipe.web.settings import ServeSettings
else:

    def _of_commands():
        from wordpipe.stages import public_names

        return public_names()

    __getattr__, __dir__ = face(__name__, __file__, _of_commands)  # and what makes artifacts: function, settings

__version__ = "0.1.0"
TERMINAL = "wordpipe.cli.output"  # what calls from Python show goes through it; loaded at the first of them
