"""The verbs that make artifacts: their names, inputs and outputs, without importing what they need.

The command line, the pipeline and the Python functions are all drawn from this table.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wordpipe.artifacts.manifest import InputEntry
    from wordpipe.settings import Settings
    from wordpipe.stages.making import Made

__all__ = ["VERBS", "Argument", "Verb"]


@dataclass(frozen=True)
class Argument:
    """One positional argument of a verb."""

    name: str  # as shown in help: SOURCE, TOKENS, MODEL|WORDS
    kinds: tuple[str, ...]  # the artifacts it takes
    text: str
    sources: bool = False  # files, folders, globs, "-" and python:PACKAGE are taken too
    entry: str = ""  # a file of another program is taken: module:function that gives its entry in a manifest
    many: bool = False

    def load_entry(self) -> "Callable[[str], InputEntry]":
        """The function that says what a manifest records of such a file."""
        return pkgutil.resolve_name(self.entry)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Verb:
    """A verb that makes an artifact."""

    name: str  # "train mlm"
    makes: str
    summary: str
    arguments: tuple[Argument, ...]
    function: str  # module:function
    settings: str  # module:class
    example: str
    next: str = ""  # what one does with the result, {output} stands for its path

    def load(self) -> "Callable[..., Made]":
        """The function that does the work."""
        return pkgutil.resolve_name(self.function)  # type: ignore[no-any-return]

    def load_settings(self) -> "type[Settings]":
        """The class of its settings; imports nothing heavy."""
        return pkgutil.resolve_name(self.settings)  # type: ignore[no-any-return]


_TEXT = "files, folders, globs, - for stdin, or python:PACKAGE for the docstrings of an installed package"
_SOURCES = Argument("SOURCE", (), _TEXT, sources=True, many=True)
_CORPUS = Argument("CORPUS", ("corpus",), "a corpus artifact, or any source of text", sources=True, many=True)
_TOKENS = Argument("TOKENS", ("tokens",), "a tokens artifact")
_FILE = "a file of word vectors, also .gz .bz2 .xz .zst, or a folder with vectors.npy and words.txt"
_VECTORS = Argument("FILE", (), _FILE, entry="wordpipe.stages.import_words:vectors_entry")
_ENCODER = Argument("MODEL|WORDS", ("model", "words"), "a model (of train contrastive, mlm or clm) or a words artifact")
_UNITS = Argument("SENTENCES|WORDS", ("sentences", "words"), "a sentences or words artifact")

VERBS: dict[str, Verb] = {
    verb.name: verb for verb in (
        Verb(
            "ingest", "corpus", "Read text files into a corpus of documents and sentences.",
            (_SOURCES,), "wordpipe.stages.ingest:ingest", "wordpipe.corpus.settings:IngestSettings",
            "wordpipe ingest data/sample -o run/corpus", "wordpipe tokenize {output} -o {parent}/tokens",
        ),
        Verb(
            "import", "words", "Read word vectors of another program; word2vec, fastText, GloVe, NumPy.",
            (_VECTORS,), "wordpipe.stages.import_words:import_words", "wordpipe.words.formats.settings:ImportSettings",
            "wordpipe import glove.6B.100d.txt -o run/words", "wordpipe query {output} WORD",
        ),
        Verb(
            "tokenize", "tokens", "Train a tokenizer on a corpus and turn the corpus into token ids.",
            (_CORPUS,), "wordpipe.stages.tokenize:tokenize", "wordpipe.tokens.settings:TokenizeSettings",
            "wordpipe tokenize run/corpus -o run/tokens --algorithm bpe --vocab-size 8000",
            "wordpipe train word2vec {output} -o {parent}/words",
        ),
        Verb(
            "train word2vec", "words", "Train word vectors; skip-gram or CBOW with negative sampling.",
            (_TOKENS,), "wordpipe.stages.word2vec:train_word2vec", "wordpipe.words.settings:Word2VecSettings",
            "wordpipe train word2vec run/tokens -o run/words --architecture skipgram --dim 100",
            "wordpipe query {output} WORD",
        ),
        Verb(
            "train mlm", "model", "Train a bidirectional transformer by masked language modelling.",
            (_TOKENS,), "wordpipe.stages.pretrain:train_mlm", "wordpipe.training.settings:MaskedSettings",
            "wordpipe train mlm run/tokens -o run/model --preset tiny --steps 200",
            "wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Verb(
            "train clm", "model", "Train a causal transformer by next-token prediction.",
            (_TOKENS,), "wordpipe.stages.pretrain:train_clm", "wordpipe.training.settings:CausalSettings",
            "wordpipe train clm run/tokens -o run/clm --preset tiny --steps 200", 'wordpipe generate {output} "The"',
        ),
        Verb(
            "train contrastive", "model", "Train an encoder of texts without labels; what belongs together comes near.",
            (_TOKENS,), "wordpipe.stages.contrast:train_contrastive",
            "wordpipe.training.contrast.encoder_settings:ContrastiveSettings",
            "wordpipe train contrastive run/tokens -o run/encoder --words run/words",
            "wordpipe embed {output} CORPUS -o {parent}/sentences",
        ),
        Verb(
            "embed", "sentences", "Turn texts into unit vectors; by an encoder of texts, a model or word vectors.",
            (_ENCODER, _CORPUS), "wordpipe.stages.embed:embed", "wordpipe.sentences.settings:EmbedSettings",
            "wordpipe embed run/model run/corpus -o run/sentences --unit sentence",
            "wordpipe index {output} -o {parent}/index",
        ),
        Verb(
            "index", "index", "Build a FAISS index over sentences or words.",
            (_UNITS,), "wordpipe.stages.index:index", "wordpipe.search.settings:IndexSettings",
            "wordpipe index run/sentences -o run/index --type auto", 'wordpipe query {output} "your question"',
        ),
    )
}  # fmt: skip
