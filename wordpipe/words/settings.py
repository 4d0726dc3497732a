"""Settings of `wordpipe train word2vec` and `wordpipe import`. Imports nothing heavy.

Those of word2vec follow the size of the text: few words need many passes and every word they have; many need neither. Measured
on the first N MB of a cleaned English Wikipedia, blank lines parting documents, skip-gram, everything else as it is by
default; one seed, at 0.3 MB mostly three:

    wordpipe ingest first-N-MB.txt -o corpus --documents block --valid 0.01 && wordpipe tokenize corpus -o tokens
    wordpipe train word2vec tokens -o words --window W --epochs E --min-count M
    wordpipe evaluate words words --data EN-WS-353-ALL.txt --data EN-SIMLEX-999.txt --data questions-words.txt

WS, SL: Spearman × 100 on the pairs whose words are both known. AN: right analogies, %, among the 30,000 commonest words.
Like: Spearman between the cosines of up to 1,500 words of five or more occurrences and the cosines of the same words in
vectors of 100 MB, mean of two such tables (windows 5 and 10): a measure for small texts.

      MB   words of the text    W   E  M    WS    SL    AN   like
     0.3              46,000    5  20  1  27.6   0.4     -   .237
                                5  40  1  40.4   3.2     -   .267     (WS ± 1.2)
                                5  50  1  40.9   4.2     -   .245
                               10  20  1  31.7   2.2     -   .285
                               10  50  1  32.8   7.5     -   .189
                                5  40  2  38.0   6.9     -   .262     (85 pairs of WS; 139 with M 1)
     1               156,000    5  20  1  36.1  13.1     -   .333
                                5  30  1  41.8  14.3     -   .330
                               10  10  1  34.3  11.9     -   .319
                               10  20  1  46.4  15.4     -   .327
     3               470,000   10   5  2  28.1  16.0     -   .369
                               10  10  2  48.5  21.4     -   .447
                               10  15  2  50.2  20.6     -   .427
                               10  20  2  49.3  21.5     -   .387
                                5  20  2  49.1  21.2     -   .444
                               10  15  3  53.5  23.3     -   .421     (259 pairs of WS; 288 with M 2)
    10           1,585,000     10   5  5  54.2  23.1   6.9   .608
                                5  10  5  53.5  24.2   7.6   .617
                               10  10  5  61.1  22.7  10.1   .582
                               10  20  5  62.9  20.5  11.4   .452
    30           4,760,000      5   5  5  57.1  27.0  17.3   .746
                               10   5  5  62.9  24.9  19.4   .748
   100          15,500,000      5   3  5  66.4  29.3  31.6      -
                               10   3  5  68.2  28.4  35.0      -

A wider window helps topical likeness (WS) and analogies, and costs a little of SimLex's strict likeness and 50 to 70 % more
time. Passes help until the vectors learn the text by heart, which "like" shows falling. Whether rarer words are kept changes
the vectors of the others little, but then they are near everything: with min_count 2, words of fewer than five occurrences
are half of the ten neighbours of the 1,000 common words after the first 50 (54 % at 3 MB, 42 % at 10 MB); with 3, a third
(35 % at 3 MB).

Searching small texts asks for more than likeness of single words does. A title (0.1 MB, 165 documents) or the first sentence
of a paragraph (1 MB and 3 MB) as the query, word vectors averaged by `embed`, and how often the right text comes first:

      MB    W   E  M   first        W   E  M   first        W   E  M   first
     0.1    5  40  2    31 %       10  20  1    28 %       10  50  1    61 %
            5  40  1    34 %       10  40  1    58 %       15  50  1    62 %
     1      5  20  2    13 %       10  20  1    16 %       10  40  1    21 %
     3     10  15  3    16 %       10  30  3    18 %       10  30  1    19 %

So a text of few words keeps what it has and is read often; larger texts need neither. Nothing larger than 100 MB was measured.
"""

from pathlib import Path
from typing import Any, Literal

from wordpipe.settings import Settings, checked, minutes_setting, setting

Format = Literal["auto", "word2vec-text", "word2vec-binary", "glove", "numpy"]

_LR = {"skipgram": 0.025, "cbow": 0.05}
_TABLE = (  # words of the text below which the rest of the line holds, window, epochs, min_count
    (100_000, 10, 50, 1),
    (300_000, 10, 40, 1),
    (1_000_000, 10, 20, 2),
    (3_000_000, 10, 10, 5),
    (10_000_000, 10, 5, 5),
    (100_000_000, 10, 3, 5),
)
_LARGER = (5, 3, 5)  # half the window takes 40 % less time


class Word2VecSettings(Settings):
    """Settings of the training of word vectors. Settings that are not given follow the size of the text."""

    command = "train word2vec"

    architecture: Literal["skipgram", "cbow"] = setting(
        "skipgram",
        "predict a word from each of its neighbours (skipgram), or from their mean (cbow)",
        section="What is learned",
    )
    loss: Literal["ns", "hs", "softmax"] = setting(
        "ns", "training objective: ns = find the word among noise words (negative sampling), hs = predict the path to the"
        " word in a Huffman tree (hierarchical softmax), softmax = find the word among all words (for small vocabularies)",
        expert=True,
    )  # fmt: skip
    unit: Literal["word", "token"] = setting(
        "word", "unit that gets a vector: each word, or each token of the tokenizer (to initialise a transformer)"
    )
    context: Literal["sentence", "document"] = setting(
        "document",
        "limit of the context: words of the same sentence, or words of the same document",
        expert=True,
    )
    dim: int = setting(100, "number of dimensions of each vector", ge=1, le=4096)
    window: int | None = setting(
        None, "number of context words on each side; default: chosen by the size of the text", ge=1, le=1000
    )
    dynamic_window: bool = setting(
        True,
        "choose the size of each window at random from 1 to --window, so that near words have more influence",
        expert=True,
    )
    negatives: int = setting(5, "number of noise words per window, for loss = ns", ge=1, le=1000, expert=True)
    ns_exponent: float = setting(
        0.75,
        "for loss = ns: exponent E; a noise word is drawn with a probability proportional to its count ^ E",
        ge=-2,
        le=2,
        expert=True,
    )
    epochs: int | None = setting(
        None,
        "number of passes over the text; default: chosen by the size of the text",
        ge=1,
        le=100_000,
        section="Amount of text",
    )
    minutes: float | None = minutes_setting()
    min_count: int | None = setting(
        None, "minimum count of a word; rarer words get no vector; default: chosen by the size of the text", ge=1
    )
    subsample: float = setting(
        1e-3,
        "words with a relative frequency above this value are skipped at random; 0 = keep all words",
        ge=0,
        le=1,
        expert=True,
    )
    min_n: int = setting(
        3,
        "minimum length of character n-grams, if max_n is given",
        ge=1,
        le=50,
        expert=True,
        section="Character n-grams",
    )
    max_n: int = setting(
        0, "maximum length of character n-grams; 0 = no n-grams; with n-grams, the vector of a word also depends on its"
        " n-grams, and unknown words get vectors", ge=0, le=50
    )  # fmt: skip
    max_ngrams: int = setting(
        2_000_000,
        "maximum number of character n-grams, if max_n is given; the most frequent n-grams are kept",
        ge=1,
        le=100_000_000,
        expert=True,
    )
    lr: float | None = setting(
        None, "learning rate at the start, which falls linearly to min_lr; default: 0.025 for skipgram, 0.05 for cbow",
        gt=0, le=1, expert=True,
        section="The optimiser",
    )  # fmt: skip
    min_lr: float = setting(1e-4, "learning rate at the end", ge=0, le=1, expert=True)
    vectors: Literal["inputs", "outputs", "sum"] = setting(
        "inputs", "vectors to keep for the words: inputs = input vectors (in cbow: vectors of the context words), outputs ="
        " output vectors (vectors of the predicted words), sum = input vectors plus output vectors", expert=True,
        section="What is kept",
    )  # fmt: skip
    remove_components: int = setting(
        0, "all-but-the-top: subtract the mean of all vectors, and remove this number of principal components; 0 = no change",
        ge=0, le=1000, expert=True,
    )  # fmt: skip
    store: Literal["int8", "float16", "float32"] = setting(
        "int8", "number format of the stored vectors: int8 (a byte for each number, and a scale for each vector), float16 or "
        "float32", expert=True,
    )  # fmt: skip
    keep_outputs: bool = setting(
        True,
        "also keep the output vectors, with which --init can continue; doubles the size of the artifact; not for loss = hs",
        expert=True,
    )
    init: Path | None = setting(
        None, "continue the training of this words artifact: more epochs, or more text", metavar="WORDS", artifact=("words",),
        section="Where and how it runs",
    )  # fmt: skip
    seed: int = setting(
        1, "seed for random numbers: initial vectors, windows, subsampling and noise", ge=0, lt=2**32, expert=True
    )
    deterministic: bool = setting(
        False,
        "give the same bytes in every run, whatever --threads is; both backends then train in one thread",
        expert=True,
    )
    threads: int = setting(
        0, "number of training threads; 0 = one per core; several threads use no locks, so results of runs differ slightly",
        ge=0, le=1024, recipe=False,
    )  # fmt: skip
    backend: Literal["auto", "native", "gensim"] = setting(
        "auto",
        "training program on the CPU: native = compiled code of wordpipe, gensim = the gensim library; auto: native",
        expert=True,
    )
    checkpoint_seconds: float = setting(
        60,
        "seconds between checkpoints, from which a stopped run continues; up to 3 exist, each as large as all vectors",
        gt=0, recipe=False, expert=True,
    )  # fmt: skip

    @checked
    def _fit_together(self) -> None:
        """Refuse settings of word2vec that do not go together."""
        # numbers that bound each other
        if self.min_lr > (lr := self.lr or _LR[self.architecture]):
            raise ValueError(f"min_lr = {self.min_lr} should be at most lr = {lr}")
        if self.remove_components >= self.dim:
            raise ValueError(f"remove_components = {self.remove_components} should be less than dim = {self.dim}")
        if 0 < self.max_n < self.min_n:
            raise ValueError(f"max_n = {self.max_n} should be at least min_n = {self.min_n}, or 0 for no n-grams")
        # n-grams and output vectors
        if self.max_n and self.unit == "token":
            raise ValueError("max_n needs unit = word, because tokens are already parts of words")
        if self.vectors != "inputs" and self.loss == "hs":
            raise ValueError(
                f"vectors = {self.vectors} needs loss = ns or softmax: with hs, only the nodes of the tree have output vectors"
            )
        if self.vectors != "inputs" and self.max_n:
            raise ValueError(f"vectors = {self.vectors} cannot be used with n-grams (max_n): use vectors = inputs")
        # gensim trains less
        beyond_gensim = {
            "dynamic_window": not self.dynamic_window, "init": self.init is not None,
            "loss": self.loss != "ns", "max_n": self.max_n > 0,
        }  # fmt: skip
        for name, asked in beyond_gensim.items():
            if asked and self.backend == "gensim":
                raise ValueError(f"{name} = {getattr(self, name)} needs backend = native, not gensim")

    def recipe(self) -> dict[str, Any]:
        """Return the settings that decide the result, with the name of the backend in the place of auto."""
        return super().recipe() | {"backend": "native" if self.backend == "auto" else self.backend}

    def plan(self, words: int) -> "Word2VecPlan":
        """Return the settings with nothing left open, for a training text of so many words."""
        chosen = {**defaults_for(words), "lr": _LR[self.architecture]}
        given = {name: value for name, value in self.model_dump().items() if value is not None}
        return Word2VecPlan(**{**chosen, **given})


class Word2VecPlan(Word2VecSettings):
    """Settings with nothing left open: what a trainer takes."""

    window: int = setting(5, "number of context words on each side")
    epochs: int = setting(5, "number of passes over the text")
    min_count: int = setting(5, "minimum count of a word; rarer words get no vector")
    lr: float = setting(0.025, "learning rate at the start")


def defaults_for(words: int) -> dict[str, int]:
    """Return window, epochs and min_count for a training text of so many words; measured above."""
    chosen = next((rest for below, *rest in _TABLE if words < below), list(_LARGER))
    return dict(zip(("window", "epochs", "min_count"), chosen, strict=True))


class ImportSettings(Settings):
    """Settings of the reading of a file of word vectors, or of a folder with a text encoder."""

    command = "import"

    format: Format = setting(
        "auto", "format of FILE; auto: recognised by its content. For fastText's .vec, use word2vec-text"
    )
    limit: int = setting(0, "number of words to read from the beginning of the file; 0 = all words", ge=0)
    bad_bytes: Literal["fail", "skip"] = setting(
        "fail", "for a word that is not UTF-8: fail = stop with an error, skip = leave the word out", expert=True
    )
    unit: Literal["word", "token"] = setting(
        "word", "unit that has a vector: each word, or each token of a tokenizer (to initialise a transformer)"
    )
    tokenizer: Path | None = setting(
        None,
        "tokenizer with which the text was cut; needed for unit = token, and for new texts in scripts without spaces",
        metavar="TOKENS",
        artifact=("tokens", "model"),
    )
    max_expand: int = setting(
        200,
        "maximum size of an unpacked file, as a multiple of its compressed size (64 MiB are always allowed)",
        ge=2,
        expert=True,
    )

    query_prompt: str | None = setting(
        None,
        'text that a text encoder reads before each query, such as "query: "; default: that of the folder',
        section="Text encoders",
        metavar="TEXT",
    )
    text_prompt: str | None = setting(
        None,
        'text that a text encoder reads before each text, such as "passage: "; default: that of the folder',
        metavar="TEXT",
    )

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts that are given, by what is read: text or query."""
        given = {"text": self.text_prompt, "query": self.query_prompt}
        return {role: text for role, text in given.items() if text is not None}

    @checked
    def _tokens_have_a_tokenizer(self) -> None:
        if self.unit == "token" and self.tokenizer is None:
            raise ValueError("unit = token needs the tokenizer of these tokens: --tokenizer TOKENS")
