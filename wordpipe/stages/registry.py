"""The registry of the commands that make artifacts: names, inputs and outputs, without importing what they need.

The command line and the pipeline are drawn from this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wordpipe.runtime import need_address_space

if TYPE_CHECKING:
    from wordpipe.artifacts import InputEntry, Kind
    from wordpipe.settings import Settings
    from wordpipe.stages.job import Made


def load_named(where: str) -> Any:
    """The thing that "module:name" names."""
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
        """The function that says what a manifest records of such a file."""
        function: Callable[[str], InputEntry] = load_named(self.entry)
        return function


@dataclass(frozen=True)
class Command:
    """A command that makes an artifact."""

    name: str  # "train mlm"
    makes: "Kind"
    summary: str
    arguments: tuple[Argument, ...]
    function: str  # module:function
    settings: str  # module:class
    needs_mb: int  # of address space, which the smallest work was seen to take on two cores
    estimate: str  # module:function: what it takes of time, memory and disk
    example: str
    next: str = ""  # what one does with the result, {output} stands for its path; a second line is what one does then
    parted: bool = False  # its work has shards, which `--engine ray` makes on several machines
    joined: bool = False  # several processes can make it together, which `--engine ray` starts
    whole_with: tuple[tuple[str, Any], ...] = ()  # settings with which it has none: name, value
    next_with: tuple[tuple[str, str], ...] = ()  # the same for a result that counts these: name of counts, commands

    def next_of(self, counts: Mapping[str, int]) -> str:
        """What one does with a result that has these counts."""
        there = {name.partition(".")[0] for name, count in counts.items() if count}
        return next((commands for name, commands in self.next_with if name in there), self.next)

    def is_parted(self, settings: Mapping[str, Any]) -> bool:
        """Whether its work has shards with these settings."""
        return self.parted and not any(settings.get(name) == value for name, value in self.whole_with)

    def load(self) -> "Callable[..., Made]":
        """The function that does the work. Raises BudgetError: its libraries would not fit into the address space."""
        need_address_space(self.needs_mb)
        function: Callable[..., Made] = load_named(self.function)
        return function

    def load_settings(self) -> "type[Settings]":
        """The class of its settings; imports nothing heavy."""
        cls: type[Settings] = load_named(self.settings)
        return cls


_SOURCES = Argument(
    "SOURCE",
    (),
    "files, folders, globs, - for stdin, python:PACKAGE for docstrings",
    sources=True,
    many=True,
)
_CORPUS = Argument("CORPUS", ("corpus",), "a corpus artifact, or any source of text", sources=True, many=True)
_TOKENS = Argument("TOKENS", ("tokens",), "a tokens artifact")
_VECTORS = Argument(
    "FILE",
    (),
    "a file of word vectors, also .gz .bz2 .xz .zst, or a folder with vectors.npy and words.txt",
    entry="wordpipe.stages:vectors_entry",
)
_HEADED = Argument(
    "MODEL",
    ("model",),
    "a model of train classifier or tagger, or a folder of transformers with such a class",
    entry="wordpipe.stages:model_entry",
)
_ENCODER = Argument(
    "MODEL|WORDS", ("model", "words"), "a model (of train static, contrastive, mlm or clm) or a words artifact"
)

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            name="ingest",
            makes="corpus",
            summary="Read text files into a corpus of documents and sentences.",
            arguments=(_SOURCES,),
            function="wordpipe.stages.text.ingest:ingest",
            settings="wordpipe.corpus.settings:IngestSettings",
            needs_mb=470,
            estimate="wordpipe.stages.estimate:ingest_rule",
            parted=True,
            example="wordpipe ingest data/sample -o run/corpus",
            next="wordpipe tokenize {output} -o {parent}/tokens",
            next_with=(
                ("labels", "wordpipe train classifier {output} --init MODEL -o {parent}/classifier"),
                ("tags", "wordpipe train tagger {output} --init MODEL -o {parent}/tagger"),
            ),
        ),
        Command(
            name="import",
            makes="words",
            summary="Read word vectors of another program; word2vec, fastText, GloVe, NumPy.",
            arguments=(_VECTORS,),
            function="wordpipe.stages.convert.import_words:import_words",
            settings="wordpipe.words.settings:ImportSettings",
            needs_mb=750,
            estimate="wordpipe.stages.estimate:import_rule",
            example="wordpipe import glove.6B.100d.txt -o run/words",
            next="wordpipe query {output} WORD",
        ),
        Command(
            name="tokenize",
            makes="tokens",
            summary="Train a tokenizer on a corpus and turn the corpus into token ids.",
            arguments=(_CORPUS,),
            function="wordpipe.stages.text.tokenize:tokenize",
            settings="wordpipe.tokens.settings:TokenizeSettings",
            needs_mb=920,
            estimate="wordpipe.stages.estimate:tokenize_rule",
            parted=True,
            example="wordpipe tokenize run/corpus -o run/tokens --algorithm bpe --vocab-size 8000",
            next="wordpipe train word2vec {output} -o {parent}/words",
            next_with=(("tokens_b", "wordpipe train seq2seq {output} -o {parent}/seq2seq"),),
        ),
        Command(
            name="train word2vec",
            makes="words",
            summary="Train word vectors; skip-gram or CBOW with negative sampling.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.word2vec:train_word2vec",
            settings="wordpipe.words.settings:Word2VecSettings",
            needs_mb=920,
            estimate="wordpipe.stages.estimate:word2vec_rule",
            example="wordpipe train word2vec run/tokens -o run/words --architecture skipgram --dim 100",
            next="wordpipe query {output} WORD",
        ),
        Command(
            name="train mlm",
            makes="model",
            summary="Train a bidirectional transformer by masked language modelling.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.pretrain:train_mlm",
            settings="wordpipe.training.settings:MaskedSettings",
            needs_mb=1_180,
            estimate="wordpipe.stages.estimate:transformer_rule",
            joined=True,
            example="wordpipe train mlm run/tokens -o run/model --preset tiny --steps 200",
            next="wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Command(
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
            next="wordpipe train classifier CORPUS --init {output} -o {parent}/classifier",
        ),
        Command(
            name="train permutation",
            makes="model",
            summary="Train a bidirectional transformer to guess tokens in a random order.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.pretrain:train_permutation",
            settings="wordpipe.training.settings:PermutationSettings",
            needs_mb=1_180,
            estimate="wordpipe.stages.estimate:transformer_rule",
            joined=True,
            example="wordpipe train permutation run/tokens -o run/xlnet --preset tiny --steps 200",
            next="wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Command(
            name="train clm",
            makes="model",
            summary="Train a causal transformer by next-token prediction.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.pretrain:train_clm",
            settings="wordpipe.training.settings:CausalSettings",
            needs_mb=1_180,
            estimate="wordpipe.stages.estimate:transformer_rule",
            joined=True,
            example="wordpipe train clm run/tokens -o run/clm --preset tiny --steps 200",
            next='wordpipe generate {output} "The"',
        ),
        Command(
            name="train denoising",
            makes="model",
            summary="Train an encoder-decoder without pairs; it restores damaged texts.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.pretrain:train_denoising",
            settings="wordpipe.training.settings:DenoisingSettings",
            needs_mb=1_180,
            estimate="wordpipe.stages.estimate:transformer_rule",
            joined=True,
            example="wordpipe train denoising run/tokens -o run/denoiser --style t5 --preset mini",
            next="wordpipe tokenize PAIRS --tokenizer {output} -o {parent}/pair-tokens\n"
            "wordpipe train seq2seq {parent}/pair-tokens -o {parent}/seq2seq --init {output}",
        ),
        Command(
            name="train seq2seq",
            makes="model",
            summary="Train an encoder-decoder on pairs; translations, titles, answers.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.pretrain:train_seq2seq",
            settings="wordpipe.training.settings:Seq2SeqSettings",
            needs_mb=1_180,
            estimate="wordpipe.stages.estimate:transformer_rule",
            joined=True,
            example="wordpipe train seq2seq run/tokens -o run/translator --preset mini",
            next='wordpipe generate {output} "a source text"',
            next_with=(("prefixes", 'wordpipe generate {output} "a source text" --prefix PREFIX'),),
        ),
        Command(
            name="train classifier",
            makes="model",
            summary="Teach a trained model to label texts, or pairs of texts.",
            arguments=(_CORPUS,),
            function="wordpipe.stages.train.heads:train_classifier",
            settings="wordpipe.heads.settings:ClassifierSettings",
            needs_mb=1_400,
            estimate="wordpipe.stages.estimate:headed_rule",
            example="wordpipe train classifier run/labelled --init run/model -o run/topics",
            next='wordpipe predict {output} "a text"',
        ),
        Command(
            name="train tagger",
            makes="model",
            summary="Teach a trained model to tag words; names, parts of speech.",
            arguments=(_CORPUS,),
            function="wordpipe.stages.train.heads:train_tagger",
            settings="wordpipe.heads.settings:TaggerSettings",
            needs_mb=1_400,
            estimate="wordpipe.stages.estimate:headed_rule",
            example="wordpipe train tagger run/tagged --init run/model -o run/names",
            next='wordpipe predict {output} "a text"',
        ),
        Command(
            name="train reader",
            makes="model",
            summary="Teach a trained model to find the answers of questions in passages.",
            arguments=(_CORPUS,),
            function="wordpipe.stages.train.heads:train_reader",
            settings="wordpipe.heads.settings:ReaderSettings",
            needs_mb=1_400,
            estimate="wordpipe.stages.estimate:headed_rule",
            example="wordpipe train reader questions.json --init run/model -o run/reader",
            next='wordpipe predict {output} "a question" --index INDEX',
        ),
        Command(
            name="train static",
            makes="model",
            summary="Train a static encoder of texts without labels: a vector for each word, in minutes.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.static:train_static",
            settings="wordpipe.training.contrastive.settings:StaticSettings",
            needs_mb=1_650,
            estimate="wordpipe.stages.estimate:static_rule",
            example="wordpipe train static run/tokens -o run/encoder --goal search",
            next="wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Command(
            name="train contrastive",
            makes="model",
            summary="Train a transformer as an encoder of texts without labels: words are read in context.",
            arguments=(_TOKENS,),
            function="wordpipe.stages.train.contrastive:train_contrastive",
            settings="wordpipe.training.contrastive.settings:ContrastiveSettings",
            needs_mb=1_650,
            estimate="wordpipe.stages.estimate:transformer_rule",
            example="wordpipe train contrastive run/tokens -o run/encoder --init run/model",
            next="wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Command(
            name="embed",
            makes="sentences",
            summary="Turn texts into unit vectors; by an encoder of texts, a model or word vectors.",
            arguments=(_ENCODER, _CORPUS),
            function="wordpipe.stages.search.embed:embed",
            settings="wordpipe.encoders.settings:EmbedSettings",
            needs_mb=850,
            estimate="wordpipe.stages.estimate:embed_rule",
            parted=True,
            example="wordpipe embed run/model run/corpus -o run/sentences --unit sentence",
            next="wordpipe index {output} -o {parent}/index",
        ),
        Command(
            name="index",
            makes="index",
            summary="Build a FAISS index over sentences or words.",
            arguments=(Argument("SENTENCES|WORDS", ("sentences", "words"), "a sentences or words artifact"),),
            function="wordpipe.stages.search.index:index",
            settings="wordpipe.search.settings:IndexSettings",
            needs_mb=1_060,
            estimate="wordpipe.stages.estimate:index_rule",
            parted=True,
            whole_with=(("type", "hnsw"),),
            example="wordpipe index run/sentences -o run/index --type auto",
            next='wordpipe query {output} "your question"',
        ),
        Command(
            name="predict",
            makes="predictions",
            summary="Label the texts of a corpus, or find the names in them.",
            arguments=(_HEADED, _CORPUS),
            function="wordpipe.stages.text.predict_corpus:predict_corpus",
            settings="wordpipe.heads.settings:PredictSettings",
            needs_mb=1_300,
            estimate="wordpipe.stages.estimate:predict_rule",
            example="wordpipe predict run/topics run/corpus -o run/predicted",
            next="wordpipe show {output} --rows 3",
            next_with=(("labelled", "wordpipe evaluate predictions {output}"),),
        ),
        Command(
            name="cluster",
            makes="clusters",
            summary="Part texts into clusters, with words and central texts of each.",
            arguments=(Argument("SENTENCES", ("sentences",), "a sentences artifact"),),
            function="wordpipe.stages.search.cluster:cluster",
            settings="wordpipe.search.settings:ClusterSettings",
            needs_mb=960,
            estimate="wordpipe.stages.estimate:cluster_rule",
            example="wordpipe cluster run/sentences -k 20 -o run/clusters",
            next="wordpipe show {output} --cluster 0",
        ),
    )
}


def public_names() -> dict[str, tuple[str, str]]:
    """What Python is offered of the commands, function and settings of each: name → module and the name there."""
    named = [where.split(":") for command in COMMANDS.values() for where in (command.function, command.settings)]
    return {name: (module, name) for module, name in named}
