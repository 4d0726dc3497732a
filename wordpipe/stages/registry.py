"""The table of all commands: names, inputs and outputs, without importing what they need.

The command line, the pipeline, the functions of Python and their stub, estimates, abilities in `serve` are drawn from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wordpipe.runtime import LEAST_SPACE, need_address_space

if TYPE_CHECKING:
    from wordpipe.artifacts import InputEntry, Kind
    from wordpipe.settings import Settings
    from wordpipe.stages.job import Made


def load_named(where: str) -> Any:
    """Import and return the object that "module:name" names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Argument:
    """One positional argument of a command."""

    name: str  # as shown in help: SOURCE, TOKENS, MODEL|WORDS
    kinds: tuple[str, ...]  # the artifacts it takes
    text: str
    sources: bool = False  # files, folders, globs, "-" and python:PACKAGE are taken too
    entry: str = ""  # a file of another program is taken: module:function that gives its entry in a manifest
    many: bool = False

    def load_entry(self) -> "Callable[[str], InputEntry]":
        """Return the function that makes a file's entry in a manifest."""
        function: Callable[[str], InputEntry] = load_named(self.entry)
        return function


def never(_: Mapping[str, Any]) -> bool:
    """Return False: the command has no shards with any settings."""
    return False


def _always(_: Mapping[str, Any]) -> bool:
    return True


def _after(usual: str, **others: str) -> Callable[[Mapping[str, int]], str]:
    """Return the function that suggests next commands; `others` are for results with a count of that name."""

    def suggest(counts: Mapping[str, int]) -> str:
        there = {name.partition(".")[0] for name, count in counts.items() if count}
        return next((commands for name, commands in others.items() if name in there), usual)

    return suggest


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the table: name, summary, function."""

    name: str  # "evaluate words"
    summary: str  # for the page of all commands
    function: str = ""  # module:function, for Python
    needs_mb: int = LEAST_SPACE  # of address space, which the smallest work was seen to take on two cores
    terminal: str = ""  # module:attribute of a click command that is not drawn from this table
    section: str = "Use them"  # of the page of all commands
    python_name: str = ""  # of its function, where that has another name: `wordpipe.search` is a room

    @property
    def python(self) -> str:
        """The name of its function in `wordpipe`."""
        return self.python_name or self.name.replace(" ", "_")


@dataclass(frozen=True, kw_only=True)
class Maker(Command):
    """A command that makes an artifact."""

    section: str = "Make artifacts"
    makes: "Kind"
    kind_of: str = ""  # module:function: of its first input the kind that it makes, where that is not always `makes`
    arguments: tuple[Argument, ...]
    settings: str  # module:class
    estimate: str  # module:function: what it takes of time, memory and disk
    example: str
    next: Callable[[Mapping[str, int]], str]
    """Counts of the result → the command to suggest, {output} stands for its path; a second line: what is done then, or "or: "
    and another way."""
    shards: Callable[[Mapping[str, Any]], bool] = never
    """Settings → True if the work has shards, which `--engine ray` makes on several machines."""
    joined: bool = False  # several processes can make it together, which `--engine ray` starts
    preview: str = ""  # module:function: what it would read, for --dry-run
    can: tuple[str, ...] = ("embed",)  # what a server is asked of its result, where that is a model

    @property
    def python(self) -> str:
        """The name of its function in `wordpipe`."""
        return self.function.partition(":")[2]

    def made_of(self, path: str) -> "Kind":
        """Return the kind of artifact that it makes of this first input."""
        if not self.kind_of:
            return self.makes
        kind: Kind = load_named(self.kind_of)(path)
        return kind

    @property
    def made_kinds(self) -> str:
        """The kinds of artifacts that it makes, for help."""
        return f"{self.makes} or model" if self.kind_of else self.makes

    @property
    def takes_engine(self) -> bool:
        """True if `--engine ray` can make it, with some settings."""
        return self.joined or self.shards is not never

    def load(self) -> "Callable[..., Made]":
        """Return the function that does the work. Raises BudgetError: its libraries would not fit into the address space."""
        need_address_space(self.needs_mb)
        function: Callable[..., Made] = load_named(self.function)
        return function

    def load_settings(self) -> "type[Settings]":
        """Return the class of its settings; imports nothing heavy."""
        cls: type[Settings] = load_named(self.settings)
        return cls


_SOURCES = Argument(
    "SOURCE", (), "files, folders or globs; - for stdin; python:PACKAGE for docstrings", sources=True, many=True
)
_CORPUS = Argument("CORPUS", ("corpus",), "a corpus artifact, or any source of text", sources=True, many=True)
_TOKENS = Argument("TOKENS", ("tokens",), "a tokens artifact")
_VECTORS = Argument(
    "FILE", (), "a file of word vectors (also .gz .bz2 .xz .zst), a folder with vectors.npy and words.txt, or a folder "
    "with a text encoder (sentence-transformers, transformers or model2vec; safetensors)",
    entry="wordpipe.stages:vectors_entry",
)  # fmt: skip
_HEADED = Argument(
    "MODEL",
    ("model",),
    "a model made by `train classifier` or `train tagger`, or a Hugging Face folder with a classifier or tagger",
    entry="wordpipe.stages:model_entry",
)
_ENCODER = Argument(
    "MODEL|WORDS|INDEX",
    ("model", "words", "index"),
    "a model (made by `train static`, `contrastive`, `mlm`, `clm` or `import`), a words artifact, or an index",
)

_INDEXED = Argument("CORPUS|SENTENCES|WORDS", ("corpus", "sentences", "words"), "a corpus, sentences or words artifact")
_PIPELINES = "Whole pipelines"
_CHANGES = ("records_added", "records_replaced", "records_removed")
_MAKERS: tuple[Command, ...] = (
    Maker(
        name="ingest",
        makes="corpus",
        summary="Read text files into a corpus of documents and sentences.",
        arguments=(_SOURCES,),
        function="wordpipe.stages.corpus.ingest:ingest",
        settings="wordpipe.corpus.settings:IngestSettings",
        needs_mb=470,
        estimate="wordpipe.stages.estimate:ingest_rule",
        preview="wordpipe.stages.corpus.preview:preview",
        shards=_always,
        example="wordpipe ingest data/sample -o run/corpus",
        next=_after(
            "wordpipe tokenize {output} -o {parent}/tokens\nor: wordpipe index {output} -o {parent}/words-index",
            **dict.fromkeys(_CHANGES, "wordpipe index {output} -o {parent}/words-index --update"),
            labels="wordpipe train classifier {output} --init MODEL -o {parent}/classifier",
            tags="wordpipe train tagger {output} --init MODEL -o {parent}/tagger",
        ),
    ),
    Maker(
        name="import",
        makes="words",
        kind_of="wordpipe.stages.encoder_folder:imported_kind",
        summary="Read word vectors or a text encoder of another program.",
        arguments=(_VECTORS,),
        function="wordpipe.stages.import_export:import_words",
        settings="wordpipe.words.settings:ImportSettings",
        needs_mb=750,
        estimate="wordpipe.stages.estimate:import_rule",
        example="wordpipe import glove.6B.100d.txt -o run/words\nwordpipe import all-MiniLM-L6-v2 -o run/minilm",
        next=_after("wordpipe query {output} WORD", parameters="wordpipe embed {output} CORPUS -o {parent}/sentences"),
    ),
    Maker(
        name="tokenize",
        makes="tokens",
        summary="Train a tokenizer on a corpus and turn the corpus into token ids.",
        arguments=(_CORPUS,),
        function="wordpipe.stages.corpus.tokenize:tokenize",
        settings="wordpipe.tokens.settings:TokenizeSettings",
        needs_mb=920,
        estimate="wordpipe.stages.estimate:tokenize_rule",
        shards=_always,
        example="wordpipe tokenize run/corpus -o run/tokens --algorithm bpe --vocab-size 8000",
        next=_after(
            "wordpipe train word2vec {output} -o {parent}/words",
            tokens_b="wordpipe train seq2seq {output} -o {parent}/seq2seq",
        ),
    ),
    Maker(
        name="train word2vec",
        makes="words",
        summary="Train word vectors with skip-gram or CBOW and negative sampling.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.word2vec:train_word2vec",
        settings="wordpipe.words.settings:Word2VecSettings",
        needs_mb=920,
        estimate="wordpipe.stages.estimate:word2vec_rule",
        example="wordpipe train word2vec run/tokens -o run/words --architecture skipgram --dim 100",
        next=_after("wordpipe query {output} WORD"),
    ),
    Maker(
        name="train mlm",
        makes="model",
        summary="Train a bidirectional transformer by masked language modelling.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_mlm",
        settings="wordpipe.training.settings:MaskedSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        can=("fill", "embed"),
        example="wordpipe train mlm run/tokens -o run/model --preset tiny --steps 200",
        next=_after("wordpipe embed {output} CORPUS -o {parent}/sentences"),
    ),
    Maker(
        name="train electra",
        makes="model",
        summary="Train a bidirectional transformer to find replaced tokens.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_electra",
        settings="wordpipe.training.settings:ElectraSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        example="wordpipe train electra run/tokens -o run/electra --preset tiny --steps 200",
        next=_after("wordpipe train classifier CORPUS --init {output} -o {parent}/classifier"),
    ),
    Maker(
        name="train permutation",
        makes="model",
        summary="Train a bidirectional transformer to predict tokens in a random order.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_permutation",
        settings="wordpipe.training.settings:PermutationSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        example="wordpipe train permutation run/tokens -o run/xlnet --preset tiny --steps 200",
        next=_after("wordpipe embed {output} CORPUS -o {parent}/sentences"),
    ),
    Maker(
        name="train clm",
        makes="model",
        summary="Train a causal transformer by next-token prediction.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_clm",
        settings="wordpipe.training.settings:CausalSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        can=("complete", "embed"),
        example="wordpipe train clm run/tokens -o run/clm --preset tiny --steps 200",
        next=_after('wordpipe generate {output} "The"'),
    ),
    Maker(
        name="train denoising",
        makes="model",
        summary="Train an encoder-decoder to restore damaged texts (without pairs of texts).",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_denoising",
        settings="wordpipe.training.settings:DenoisingSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        can=("fill",),
        example="wordpipe train denoising run/tokens -o run/denoiser --style t5 --preset mini",
        next=_after(
            "wordpipe tokenize PAIRS --tokenizer {output} -o {parent}/pair-tokens\n"
            "wordpipe train seq2seq {parent}/pair-tokens -o {parent}/seq2seq --init {output}"
        ),
    ),
    Maker(
        name="train seq2seq",
        makes="model",
        summary="Train an encoder-decoder on pairs of texts (translations, titles, answers).",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.pretrain:train_seq2seq",
        settings="wordpipe.training.settings:Seq2SeqSettings",
        needs_mb=1_180,
        estimate="wordpipe.stages.estimate:transformer_rule",
        joined=True,
        can=("complete",),
        example="wordpipe train seq2seq run/tokens -o run/translator --preset mini",
        next=_after(
            'wordpipe generate {output} "a source text"',
            prefixes='wordpipe generate {output} "a source text" --prefix PREFIX',
        ),
    ),
    Maker(
        name="train classifier",
        makes="model",
        summary="Teach a trained model to label texts, or pairs of texts.",
        arguments=(_CORPUS,),
        function="wordpipe.stages.train.heads:train_classifier",
        settings="wordpipe.heads.settings:ClassifierSettings",
        needs_mb=1_400,
        estimate="wordpipe.stages.estimate:headed_rule",
        can=("predict",),
        example="wordpipe train classifier run/labelled --init run/model -o run/topics",
        next=_after('wordpipe predict {output} "a text"'),
    ),
    Maker(
        name="train tagger",
        makes="model",
        summary="Teach a trained model to tag words (for example names or parts of speech).",
        arguments=(_CORPUS,),
        function="wordpipe.stages.train.heads:train_tagger",
        settings="wordpipe.heads.settings:TaggerSettings",
        needs_mb=1_400,
        estimate="wordpipe.stages.estimate:headed_rule",
        can=("predict",),
        example="wordpipe train tagger run/tagged --init run/model -o run/names",
        next=_after('wordpipe predict {output} "a text"'),
    ),
    Maker(
        name="train reader",
        makes="model",
        summary="Teach a trained model to find answers to questions in passages.",
        arguments=(_CORPUS,),
        function="wordpipe.stages.train.heads:train_reader",
        settings="wordpipe.heads.settings:ReaderSettings",
        needs_mb=1_400,
        estimate="wordpipe.stages.estimate:headed_rule",
        can=("predict",),
        example="wordpipe train reader questions.json --init run/model -o run/reader",
        next=_after('wordpipe predict {output} "a question" --index INDEX'),
    ),
    Maker(
        name="train static",
        makes="model",
        summary="Train a static text encoder (one vector per word) without labels, in minutes.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.static:train_static",
        settings="wordpipe.training.contrastive.settings:StaticSettings",
        needs_mb=1_650,
        estimate="wordpipe.stages.estimate:static_rule",
        example="wordpipe train static run/tokens -o run/encoder --goal search",
        next=_after("wordpipe embed {output} CORPUS -o {parent}/sentences"),
    ),
    Maker(
        name="train contrastive",
        makes="model",
        summary="Train a transformer as a text encoder (words in their context) without labels.",
        arguments=(_TOKENS,),
        function="wordpipe.stages.train.contrastive:train_contrastive",
        settings="wordpipe.training.contrastive.settings:ContrastiveSettings",
        needs_mb=1_650,
        estimate="wordpipe.stages.estimate:transformer_rule",
        example="wordpipe train contrastive run/tokens -o run/encoder --init run/model",
        next=_after("wordpipe embed {output} CORPUS -o {parent}/sentences"),
    ),
    Maker(
        name="embed",
        makes="sentences",
        summary="Turn texts into unit vectors (with a text encoder, a model or word vectors).",
        arguments=(_ENCODER, _CORPUS),
        function="wordpipe.stages.encode.embed:embed",
        settings="wordpipe.encoders.settings:EmbedSettings",
        needs_mb=850,
        estimate="wordpipe.stages.estimate:embed_rule",
        shards=_always,
        example="wordpipe embed run/model run/corpus -o run/sentences --unit sentence",
        next=_after("wordpipe index {output} -o {parent}/index"),
    ),
    Maker(
        name="index",
        makes="index",
        summary="Build an index over a corpus (words alone), sentences or words (FAISS).",
        arguments=(_INDEXED,),
        function="wordpipe.stages.search.index:index",
        settings="wordpipe.search.settings:IndexSettings",
        needs_mb=1_060,
        estimate="wordpipe.stages.estimate:index_rule",
        shards=lambda settings: settings.get("type") != "hnsw",  # a graph grows row by row
        example="wordpipe index run/corpus -o run/words-index\nwordpipe index run/sentences -o run/index --type auto",
        next=_after('wordpipe query {output} "your question"'),
    ),
    Maker(
        name="cluster",
        makes="clusters",
        summary="Group texts into clusters (with typical words and texts of each cluster).",
        arguments=(Argument("SENTENCES", ("sentences",), "a sentences artifact"),),
        function="wordpipe.stages.encode.cluster_duplicates:cluster",
        settings="wordpipe.search.settings:ClusterSettings",
        needs_mb=960,
        estimate="wordpipe.stages.estimate:cluster_rule",
        example="wordpipe cluster run/sentences -k 20 -o run/clusters",
        next=_after("wordpipe show {output} --cluster 0"),
    ),
)
_OTHERS: tuple[Command, ...] = (
    Command(name="search", summary="Search files, folders or records by words; nothing has to be made first.",
            function="wordpipe.stages.search.search_sources:search_texts", python_name="search_texts",
            terminal="wordpipe.cli.query:search", needs_mb=560),
    Command(name="query", summary="Find the nearest neighbours of a text or a word.",
            function="wordpipe.stages.search.opening:query", terminal="wordpipe.cli.query:query", needs_mb=560),
    Command(name="serve", summary="Answer queries over HTTP with a web page and an API.",
            function="wordpipe.web.server:serve", terminal="wordpipe.cli.serve:serve", needs_mb=1_170),
    Command(name="mcp", summary="Let an assistant search indexes (Model Context Protocol, on standard input).",
            terminal="wordpipe.cli.serve:mcp", needs_mb=560),
    Command(name="generate", summary="Continue a text, or write a target text for a source text.",
            function="wordpipe.stages.infer.generate:generate", terminal="wordpipe.cli.infer:generate", needs_mb=940),
    Command(name="fill", summary="Guess the missing words of a text.",
            function="wordpipe.stages.infer.fill:fill", terminal="wordpipe.cli.infer:fill", needs_mb=880),
    Maker(
        name="predict",
        makes="predictions",
        summary="Label texts, or find names in texts, with a trained model.",
        section="Use them",
        terminal="wordpipe.cli.infer:predict",
        arguments=(_HEADED, _CORPUS),
        function="wordpipe.stages.infer.predict:predict_corpus",
        settings="wordpipe.heads.settings:PredictSettings",
        needs_mb=1_300,
        estimate="wordpipe.stages.estimate:predict_rule",
        example="wordpipe predict run/topics run/corpus -o run/predicted",
        next=_after("wordpipe show {output} --rows 3", labelled="wordpipe evaluate predictions {output}"),
    ),
    Command(name="finish", summary="Make a model from a training that was stopped.",
            function="wordpipe.stages.train.finish:finish", terminal="wordpipe.cli.stage:finish", needs_mb=1_180),
    Command(name="plot", summary="Draw loss and learning rate of one or more trainings.",
            function="wordpipe.stages.examine.plot:plot", terminal="wordpipe.cli.examine:plot", needs_mb=910),
    Command(name="diff", summary="Show which words changed between two sets of word vectors.",
            function="wordpipe.stages.examine.diff:diff", terminal="wordpipe.cli.examine:diff", needs_mb=530),
    Command(name="evaluate tokenizer", summary="Evaluate and compare tokenizers on a text.",
            function="wordpipe.stages.evaluate.tokenizer:evaluate_tokenizer",
            terminal="wordpipe.cli.evaluate:tokenizer", needs_mb=990),
    Command(name="evaluate words", summary="Evaluate and compare word vectors on similarity and analogies.",
            function="wordpipe.stages.evaluate.words:evaluate_words",
            terminal="wordpipe.cli.evaluate:words", needs_mb=480),
    Command(name="evaluate model", summary="Evaluate and compare how well language models predict a text.",
            function="wordpipe.stages.evaluate.language_model:evaluate_model",
            terminal="wordpipe.cli.evaluate:model", needs_mb=1_540),
    Command(name="evaluate seq2seq",
            summary="Evaluate the texts that encoder-decoders write, and compare with baselines.",
            function="wordpipe.stages.evaluate.seq2seq:evaluate_seq2seq",
            terminal="wordpipe.cli.evaluate:seq2seq", needs_mb=1_360),
    Command(name="evaluate predictions",
            summary="Evaluate classifiers and taggers on labelled texts, and compare with baselines.",
            function="wordpipe.stages.evaluate.predictions:evaluate_predictions",
            terminal="wordpipe.cli.evaluate:predictions", needs_mb=1_700),
    Command(name="evaluate sts", summary="Evaluate text encoders on pairs of sentences that people have scored.",
            function="wordpipe.stages.evaluate.sts:evaluate_sts",
            terminal="wordpipe.cli.evaluate:sts", needs_mb=640),
    Command(name="evaluate search", summary="Evaluate an index with your own questions, in every search mode.",
            function="wordpipe.stages.evaluate.search:evaluate_search", terminal="wordpipe.cli.evaluate:search"),
    Command(name="evaluate retrieval", summary="Evaluate how well encoders find the documents that people judged relevant.",
            function="wordpipe.stages.evaluate.retrieval:evaluate_retrieval",
            terminal="wordpipe.cli.evaluate:retrieval", needs_mb=830),
    Command(name="show", summary="Show what an artifact is, how it was made and what it contains.",
            function="wordpipe.stages.examine.show:show", terminal="wordpipe.cli.show:show", needs_mb=460),
    Command(name="verify", summary="Check that artifacts are whole and unchanged.",
            function="wordpipe.stages.examine.show:verify", terminal="wordpipe.cli.show:verify", needs_mb=460),
    Command(name="doctor", summary="Check vectors or a model for problems, and give advice.",
            function="wordpipe.stages.evaluate.doctor:doctor", terminal="wordpipe.cli.evaluate:doctor", needs_mb=1_000),
    Command(name="duplicates", summary="Report groups of texts with nearly the same content.",
            function="wordpipe.stages.encode.cluster_duplicates:duplicates",
            terminal="wordpipe.cli.examine:duplicates", needs_mb=630),
    Command(name="map", summary="Draw a map of words or of texts as one HTML page.",
            function="wordpipe.stages.examine.map:map_words", terminal="wordpipe.cli.examine:map_", needs_mb=1_140),
    Command(name="report", summary="Write a report on a whole pipeline as one HTML page.",
            function="wordpipe.pipeline.report:report_pipeline", terminal="wordpipe.cli.examine:report", needs_mb=910),
    Command(name="attention", summary="Draw the attention of a model for a text as one HTML page.",
            function="wordpipe.stages.examine.attention:attention",
            terminal="wordpipe.cli.examine:attention", needs_mb=1_560),
    Command(name="export", summary="Write an artifact in the format of another program.",
            function="wordpipe.stages.import_export:export", terminal="wordpipe.cli.export:export", needs_mb=480),
    Command(name="copy", summary="Copy an artifact to or from a bucket, or between folders.",
            function="wordpipe.stages.copy_artifact:copy", terminal="wordpipe.cli.export:copy", needs_mb=0),
    Command(name="plan", summary="Show which model can be trained in a given time, for example 30m.",
            function="wordpipe.stages.time_plan:plan",
            terminal="wordpipe.cli.examine:plan", needs_mb=0, section=_PIPELINES),
    Command(name="init", summary="Write a first config and a Makefile; with --from FILE, settings fit the records of "
    "FILE.",
            function="wordpipe.pipeline.project:init_project",
            terminal="wordpipe.cli.stage:init", needs_mb=0, section=_PIPELINES),
    Command(name="run", summary="Make the missing or stale stages of a pipeline, in order.",
            function="wordpipe.pipeline.run:run_pipeline",
            terminal="wordpipe.cli.stage:run", needs_mb=0, section=_PIPELINES),
    Command(name="status", summary="Show the stale stages of a pipeline, the reasons and the cost.",
            function="wordpipe.pipeline.run:pipeline_status",
            terminal="wordpipe.cli.stage:status", needs_mb=0, section=_PIPELINES),
    Command(name="slim", summary="List, and delete, artifacts that only others were made of.",
            function="wordpipe.pipeline.slim:slim_pipeline",
            terminal="wordpipe.cli.export:slim", needs_mb=0, section=_PIPELINES),
    Command(name="help", summary="Show the help of a command; with --all, show every option.",
            terminal="wordpipe.cli.command:help_", needs_mb=0, section=_PIPELINES),
)  # fmt: skip
TABLE = {command.name: command for command in (*_MAKERS, *_OTHERS)}
"""All commands, in the order of help."""
COMMANDS = {name: command for name, command in TABLE.items() if isinstance(command, Maker)}
"""The commands that make artifacts."""
GROUPS = {
    "train": "Train word vectors, a transformer or a text encoder.",
    "evaluate": "Compare the quality of tokenizers, vectors, models and searches.",
}
"""First word of commands of two → the line of the page of all commands."""


def public_names() -> dict[str, tuple[str, str]]:
    """Functions and settings that Python is offered: name → module and the name there."""
    named = {command.python: command.function for command in TABLE.values() if command.function}
    named |= {one.preview.partition(":")[2]: one.preview for one in COMMANDS.values() if one.preview}
    named |= {command.settings.partition(":")[2]: command.settings for command in COMMANDS.values()}
    return {name: (module, own) for name, where in named.items() for module, _, own in [where.partition(":")]}
