"""Settings of `wordpipe index`, of its lexical search, and of `wordpipe cluster`; the options of a query."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from wordpipe.elsewhere import did_you_mean
from wordpipe.errors import ConfigError
from wordpipe.search.lexical.rules import SWITCHED
from wordpipe.settings import Settings, checked, setting

KINDS = {
    "flat": "wordpipe.search.vectors.faiss_index:Flat",
    "hnsw": "wordpipe.search.vectors.hnsw:Graph",
    "ivf-pq": "wordpipe.search.vectors.ivf_pq:Lists",
}
"""Kind of index → its class."""
EXACT = "flat"  # the kind that compares a query with all vectors
AUTO = "ivf-pq"  # the kind for many vectors, where it finds enough
if TYPE_CHECKING:
    KindName = str
    RuleName = str
else:
    KindName = Literal["auto", *KINDS]
    RuleName = Literal[*SWITCHED]
Language = Literal[
    "auto", "none", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip

_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "mo": 365.25 / 12, "y": 365.25}
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?"

_MOST_OFFSET = 10**9

_GRAPH = "Graphs (hnsw)"
_LISTS = "Lists (ivf-pq)"


Unit = Literal["sentence", "document", "window"]
_WINDOW = 128  # words
_MINUS = ("-", "−")  # of a descending order; a shell may have written it as the second


def unit_setting(default: Unit) -> Any:
    """Declare the setting that says what one row of a corpus is."""
    return setting(
        default,
        "the text that becomes one row: a sentence, a document, or a window (as many sentences as fit)",
        section="The rows",
    )


def _refuse_no_number_of_clusters(value: int | str) -> None:
    if isinstance(value, int) and not 1 <= value <= 100_000:
        raise ValueError("1 to 100000, or auto")


def _refuse_no_size(value: str) -> None:
    if value and not re.fullmatch(_SIZE, value, re.IGNORECASE):
        raise ValueError("a size such as 500MB or 8GB")


def _all_true(given: Any) -> Any:
    """Return several conditions as one, of which all must be true."""
    if not isinstance(given, list | tuple):
        return given
    several = [one for one in given if one]
    return " and ".join(several if len(several) == 1 else map("({})".format, several)) or None


class UnitSettings(Settings):
    """Settings of the rows that a corpus is cut into: sentences, documents or windows of sentences."""

    unit: Unit = unit_setting("sentence")
    with_title: bool = setting(True, "put the title before the text of each document or window", expert=True)
    window: int = setting(
        0,
        "words (or tokens of a model) per window; 0 = 128 words, or as many tokens as the model can read at once",
        ge=0,
    )
    overlap: int = setting(
        16, "number of words (or tokens) that two neighbouring windows share; at most half of a window", ge=0,
        expert=True,
    )  # fmt: skip

    @property
    def reads_titles(self) -> bool:
        """True if a row is read with its title before its text."""
        return self.with_title and self.unit != "sentence"

    @property
    def word_window(self) -> tuple[int, int]:
        """Words of a window, and words that it shares with the one before it, where words are counted and no tokens."""
        size = self.window or _WINDOW
        return size, min(self.overlap, size // 2)


class LexicalSettings(Settings):
    """Settings of search by words: BM25 over stems, with the scores of Lucene."""

    language: Language = setting(
        "auto", "language of the texts: its word endings are removed (Snowball stemmer) and its stop words are ignored; "
        "auto: the language that wordpipe detects, or none",
        section="Lexical search",
    )  # fmt: skip
    k1: float = setting(
        1.2, "BM25: how much a repeated word raises the score of a text; 0 = not at all", ge=0, le=10, expert=True
    )
    b: float = setting(
        0.75, "BM25: how much the length of a text lowers its score; 0 = not at all", ge=0, le=1, expert=True
    )
    without_rules: tuple[RuleName, ...] = setting(
        (),
        "rules by which words are made the same that this index does not use; questions follow it; can be repeated",
        metavar="RULE",
        expert=True,
    )

    def in_language(self, language: str) -> "LexicalSettings":
        """Return the lexical settings alone, with a language."""
        own = {name: getattr(self, name) for name in LexicalSettings.model_fields}
        return LexicalSettings.make(own | {"language": language})


def days_of(time: str) -> float:
    """Return a half-life in days.

    >>> days_of("30d"), days_of("12h"), days_of("2y")
    (30.0, 0.5, 730.5)

    Raises:
        ValueError: it is no time.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(h|d|w|mo|y)", time.strip())
    if not found or not float(found[1]):
        raise ValueError("a time such as 30d, 12h, 6w, 3mo or 2y")
    return float(found[1]) * _DAYS[found[2]]


def sort_key(sort: str) -> tuple[str, bool]:
    """Return the field by which the rows that a query finds are sorted, and whether the largest value comes first.

    >>> sort_key("year:desc"), sort_key("year"), sort_key("odd:name"), sort_key("-year"), sort_key("-odd:asc")
    (('year', True), ('year', False), ('odd:name', False), ('year', True), ('-odd', False))
    """
    name, sign, order = sort.rpartition(":")
    if sign and order in ("asc", "desc"):
        return name, order == "desc"
    return (sort[1:], True) if sort[:1] in _MINUS and sort[1:] else (sort, False)


class ClusterSettings(Settings):
    """Settings of `cluster`: the number of clusters, and what is kept of each."""

    command = "cluster"

    k: int | Literal["auto"] = setting(
        "auto",
        "number of clusters; auto: the number whose silhouette is furthest above the silhouette of random vectors",
        metavar="N|auto",
        check=_refuse_no_number_of_clusters,
    )
    central: int = setting(
        3, "number of texts to keep for each cluster; the texts nearest to its centre are kept", ge=1, le=20
    )
    label_words: int = setting(5, "number of words in the label of each cluster", ge=0, le=20)
    language: Language = setting(
        "auto",
        "language of the texts: its word endings are removed (Snowball stemmer) and its stop words are ignored; "
        "auto: the language that wordpipe detects, or none",
    )
    seed: int = setting(1, "seed for k-means and random samples", ge=0, lt=2**31, expert=True)
    threads: int = setting(0, "number of threads; 0 = one per core", ge=0, recipe=False, expert=True)


class IndexSettings(LexicalSettings, UnitSettings):
    """Settings of `index`: the rows of a corpus, its words; the kind of FAISS index, its recall, its memory."""

    command = "index"

    unit: Unit = unit_setting("window")
    type: KindName = setting(
        "auto",
        "kind of index; flat: exact search; ivf-pq: search in compressed vectors, then compare the best candidates by "
        "their full vectors; hnsw: search in a graph; auto: flat for few vectors, otherwise ivf-pq if ivf-pq reaches the "
        "recall",
        section="The index",
    )
    recall: float = setting(
        0.95,
        "share of the 10 nearest vectors that a search must find; the search compares more vectors until held-out "
        "queries reach this share",
        gt=0,
        le=1,
    )
    endings: Literal["auto", "remove", "keep"] = setting(
        "auto",
        "whether search by words removes word endings; auto: if the language was detected, what finds more is measured "
        "on a sample of the texts, which takes longer",
        section="Lexical search",
        expert=True,
    )
    update: bool = setting(
        False,
        "update the index in the output folder; only rows that were added, removed or changed are processed",
        recipe=False,
    )
    max_memory: str = setting(
        "",
        "memory limit; if more memory is predicted, the index is not built; default: no limit",
        recipe=False,
        metavar="SIZE",
        check=_refuse_no_size,
    )
    seed: int = setting(1, "seed for graph levels, k-means and held-out queries", ge=0, lt=2**31, expert=True)
    threads: int = setting(
        0,
        "number of threads; 0 = one per core; with more than 1 thread, an hnsw index has other bytes every time",
        ge=0,
        recipe=False,
    )
    nlist: int = setting(
        0, "number of lists; 0 = the square root of the number of vectors", ge=0, section=_LISTS, expert=True
    )
    nprobe: int = setting(0, "number of lists that a search reads; 0 = as many as the recall needs", ge=0, expert=True)
    refine: int = setting(
        0,
        "for ivf-pq: number of candidates per hit whose full vectors are compared; 0 = as many as are needed for --recall",
        ge=0,
        expert=True,
    )
    pq_dims: int = setting(
        0,
        "how many numbers of a vector ivf-pq stores in one 4-bit code; 0: 2 numbers, or 1 number if a vector has fewer "
        "than 64 numbers",
        ge=0,
        le=64,
        expert=True,
    )
    hnsw_m: int = setting(
        32, "number of neighbours of each vector in an hnsw graph", ge=2, le=256, section=_GRAPH, expert=True
    )
    ef_construction: int = setting(
        100,
        "number of candidates that are compared when a vector is added to an hnsw graph",
        ge=1,
        le=10_000,
        expert=True,
    )
    ef_search: int = setting(
        0,
        "number of candidates that a search in an hnsw graph compares; 0 = as many as the recall needs",
        ge=0,
        expert=True,
    )

    def refuse_unfit(self, *, of_corpus: bool) -> None:
        """Refuse settings that were given and have no effect: of rows where these are there already, of vectors without any.

        Args:
            of_corpus: the index is made of a corpus, not of vectors.

        Raises:
            ConfigError: names one.
        """
        of_rows = {*UnitSettings.model_fields}
        free = {"endings", "update", "max_memory", "seed", "threads", *LexicalSettings.model_fields}  # they do no harm
        unfit = {*self.model_fields} - of_rows - free if of_corpus else of_rows
        if name := next((name for name in self.model_fields if name in unfit & self.model_fields_set), None):
            what = "this setting is for vectors, and an index over a corpus has none"
            hint = "embed the corpus, then index the sentences"
            if not of_corpus:
                what = "this setting is for an index over a corpus: these rows are there already"
                hint = "give it to embed, which makes the rows"
            raise ConfigError(what, where=name, got=getattr(self, name), hint=hint)

    @property
    def max_memory_bytes(self) -> int | None:
        """The bound on memory in bytes, or None."""
        found = re.fullmatch(_SIZE, self.max_memory, re.IGNORECASE)
        return int(float(found[1]) * _UNITS[found[2].upper()]) if found else None


class QueryOptions(Settings):
    """Options of a query: what `wordpipe query`, Python and the server take beside the query and the number of hits."""

    in_files = False

    mode: Literal["auto", "dense", "lexical", "hybrid"] = setting(
        "auto",
        "search by vectors (dense), by words (lexical, BM25) or by vectors and words (hybrid); auto: the mode that gave "
        "the best results in tests when the index was built",
    )
    weight: float | None = setting(
        None, "weight of the vectors in a hybrid score; default: the weight measured for this index, larger for long "
        "queries", ge=0, le=1,
        metavar="SHARE", expert=True,
    )  # fmt: skip
    feedback: int | None = setting(
        None,
        "search a second time with the content of the first N hits; with --mode lexical, only with their words; 0: search "
        "once; default: 10, or 0 with --mode lexical",
        ge=0,
        metavar="N",
        expert=True,
    )
    exact: bool = setting(
        False, "search for the words as typed; signs are no operators, and misspelt words are not corrected"
    )
    prefix: bool = setting(
        False, "the last word may be unfinished; words that begin with it are searched for, too", expert=True
    )
    where: str | None = setting(
        None,
        "return only rows for which this condition is true, for example year > 2000; `wordpipe show INDEX` lists the "
        "columns; if several conditions are given, all conditions must be true",
        metavar="SQL",
        several=True,
        read=_all_true,
        prose=True,
    )
    per_document: bool = setting(False, "return only the best row of each document")
    offset: int = setting(
        0, "leave out the first N answers; with -k, this gives the next page", ge=0, le=_MOST_OFFSET, metavar="N"
    )
    sort: str | None = setting(
        None,
        "sort the matching rows by this field, rows without a value last; FIELD:desc or -FIELD: the largest value first; "
        "rows match if they contain a word of the query and fulfil its operators and the condition",
        metavar="FIELD",
    )
    newer_better: str | None = setting(
        None,
        "rank newer rows higher: a score is halved with each --half-life of the age in this field of dates, times or years; "
        "the newest row of the index has age 0, and a row without a date counts as old as the median row",
        metavar="FIELD",
        expert=True,
    )
    half_life: str | None = setting(
        None,
        "age at which a score is halved with --newer-better: a number with h, d, w, mo or y; default: 1y",
        metavar="TIME",
        check=lambda given: days_of(given or "1y"),
        expert=True,
    )
    boost: str | None = setting(
        None,
        "rank rows with a larger number in this field higher: a score is multiplied by 1 + ln(1 + number) / ln(1 + largest "
        "number), so at most doubled; a row without a number keeps its score",
        metavar="FIELD",
        expert=True,
    )
    min_score: float | None = setting(
        None,
        "omit hits with a lower score, relative to the best hit in hybrid mode; with --mode dense the score is a cosine, "
        "with --mode lexical it is BM25",
        metavar="SCORE",
        ge=-1e9,
        le=1e9,
    )
    explain: bool = setting(False, "show which words contributed to each score; --json shows all details")

    @classmethod
    def make(
        cls, values: Mapping[str, Any], *, where: str | None = None, flags: Mapping[str, str] | None = None
    ) -> Self:
        """Check options of a query, see `Settings.make`; an unknown option is answered with similar names, also `k`."""
        if unknown := [name for name in values if name not in cls.model_fields]:
            known = ["k", *cls.model_fields]
            hint = did_you_mean(unknown[0], known) or f"known options: {', '.join(known)}"
            raise ConfigError(f"unknown option {unknown[0]!r}", hint=hint)
        return super().make(values, where=where, flags=flags)

    @checked
    def _fits_the_mode(self) -> None:
        if self.weight is not None and self.mode in ("dense", "lexical"):
            raise ValueError(
                f"weight needs mode = hybrid, not {self.mode}, because weight mixes a search by vectors with a search by "
                "words"
            )
        if self.feedback and self.mode == "dense":
            raise ValueError(
                "feedback needs mode = hybrid or lexical, not dense, because only a search by words is repeated"
            )

    @checked
    def _fits_the_order(self) -> None:
        if self.sort is None:
            return
        if self.mode == "dense":
            raise ValueError("sort needs another mode than dense, because a search by vectors ranks all rows")
        if unfit := [name for name in ("weight", "feedback", "newer_better", "boost") if getattr(self, name)]:
            raise ValueError(f"{unfit[0]} cannot be used with sort, because sorted rows are not ranked by their scores")

    @checked
    def _has_dates(self) -> None:
        if self.half_life is not None and self.newer_better is None:
            raise ValueError("half_life needs newer_better, which names the field with the dates")

    @property
    def is_hybrid(self) -> bool:
        """True if an option says how words and vectors are mixed, so that auto is hybrid."""
        return self.weight is not None or bool(self.feedback)

    @property
    def half_life_days(self) -> float:
        """The half-life of a score."""
        return days_of(self.half_life or "1y")
