"""Settings of `wordpipe index`, of its lexical search, and of `wordpipe cluster`; the options of a query."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from wordpipe.elsewhere import did_you_mean
from wordpipe.errors import ConfigError
from wordpipe.settings import Settings, checked, setting

KINDS = {
    "flat": "wordpipe.search.index:Flat",
    "hnsw": "wordpipe.search.hnsw:Graph",
    "ivf-pq": "wordpipe.search.ivf_pq:Lists",
}
"""Kind of index → its class."""
AUTO = "ivf-pq"  # the kind for many vectors, where it finds enough
if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal["auto", *KINDS]
Language = Literal[
    "auto", "none", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?"

_GRAPH = "Graphs (hnsw)"
_LISTS = "Lists (ivf-pq)"


def _refuse_no_number_of_clusters(value: int | str) -> None:
    if isinstance(value, int) and not 1 <= value <= 100_000:
        raise ValueError("1 to 100000, or auto")


def _refuse_no_size(value: str) -> None:
    if value and not re.fullmatch(_SIZE, value, re.IGNORECASE):
        raise ValueError("a size such as 500MB or 8GB")


def _all_true(given: Any) -> Any:
    """Several conditions as one."""
    if not isinstance(given, list | tuple):
        return given
    several = [one for one in given if one]
    return " and ".join(several if len(several) == 1 else map("({})".format, several)) or None


class LexicalSettings(Settings):
    """Settings of search by words: BM25 over stems, with the scores of Lucene."""

    language: Language = setting(
        "auto", "whose endings are cut off (Snowball) and small words left out; auto: the one that is recognised, or none",
        section="Lexical search",
    )  # fmt: skip
    k1: float = setting(
        1.2, "BM25: how soon a word that comes again in a text stops counting", ge=0, le=10, expert=True
    )
    b: float = setting(0.75, "BM25: how much a long text pays for its length; 0 = nothing", ge=0, le=1, expert=True)


class ClusterSettings(Settings):
    """Settings of `cluster`: the number of clusters, and what is kept of each."""

    command = "cluster"

    k: int | Literal["auto"] = setting(
        "auto",
        "how many clusters; auto: the number that stands out most from chance, by its silhouette",
        metavar="N|auto",
        check=_refuse_no_number_of_clusters,
    )
    central: int = setting(3, "texts nearest to its centre that are kept of each cluster", ge=1, le=20)
    label_words: int = setting(5, "words that each cluster is labelled with", ge=0, le=20)
    language: Language = setting(
        "auto",
        "whose endings are cut off (Snowball) and small words left out; auto: the one that is recognised, or none",
    )
    seed: int = setting(1, "seed of k-means and of the samples", ge=0, lt=2**31, expert=True)
    threads: int = setting(0, "threads, 0 = one per core", ge=0, recipe=False, expert=True)


class IndexSettings(LexicalSettings):
    """Settings of `index`: the kind of FAISS index, the recall that it must reach, the memory that it may take."""

    command = "index"

    type: KindName = setting(
        "auto",
        "the kind of index; flat: exact; ivf-pq: lists of codes, the best compared by their vectors; hnsw: a graph; auto: "
        "flat for few vectors, else ivf-pq where it finds enough",
        section="The index",
    )
    recall: float = setting(
        0.95,
        "share of the true 10 nearest that must be found; search widens until held-out queries reach this share",
        gt=0,
        le=1,
    )
    update: bool = setting(
        False, "change the index that stands at the output by the rows that came, went or changed", recipe=False
    )
    max_memory: str = setting(
        "",
        "refuse to build where the prediction is above this; nothing = no bound",
        recipe=False,
        metavar="SIZE",
        check=_refuse_no_size,
    )
    seed: int = setting(1, "seed of graph levels, of k-means and of the held-out queries", ge=0, lt=2**31, expert=True)
    threads: int = setting(
        0, "threads, 0 = one per core; a graph has the same bytes every time with one alone", ge=0, recipe=False
    )
    nlist: int = setting(0, "lists; 0 = the square root of the number of vectors", ge=0, section=_LISTS, expert=True)
    nprobe: int = setting(0, "lists that a search looks at; 0 = as many as the recall needs", ge=0, expert=True)
    refine: int = setting(
        0,
        "candidates per answer of ivf-pq that are compared by their vectors; 0 = as the recall needs",
        ge=0,
        expert=True,
    )
    pq_dims: int = setting(
        0, "numbers of a vector that share one 4-bit code of ivf-pq; 0 = 2, or 1 below 64", ge=0, le=64, expert=True
    )
    hnsw_m: int = setting(32, "neighbours per vector in an hnsw graph", ge=2, le=256, section=_GRAPH, expert=True)
    ef_construction: int = setting(
        100, "candidates looked at when a vector enters an hnsw graph", ge=1, le=10_000, expert=True
    )
    ef_search: int = setting(
        0, "candidates that a search of a graph looks at; 0 = as many as the recall needs", ge=0, expert=True
    )

    @property
    def max_memory_bytes(self) -> int | None:
        """The bound in bytes, or None."""
        found = re.fullmatch(_SIZE, self.max_memory, re.IGNORECASE)
        return int(float(found[1]) * _UNITS[found[2].upper()]) if found else None


class QueryOptions(Settings):
    """Options of a query: what `wordpipe query`, Python and the server take beside the query and the number of hits."""

    in_files = False

    mode: Literal["auto", "dense", "lexical", "hybrid"] = setting(
        "auto",
        "by vectors (dense), by words (lexical, BM25), or by both (hybrid); auto: what found best when the index was built",
    )
    weight: float | None = setting(
        None, "share of the vectors in a hybrid score; else the one that was measured, more for long queries", ge=0, le=1,
        metavar="SHARE",
    )  # fmt: skip
    feedback: int | None = setting(
        None,
        "ask again with the first N hits, in a hybrid search by vectors and by words, with --mode lexical by words alone; 0 "
        "asks once; else 10, with --mode lexical 0",
        ge=0,
        metavar="N",
    )
    where: str | None = setting(
        None,
        "only rows of which this is true, over the columns that `wordpipe show INDEX` lists, such as year > 2000; of several "
        "conditions all are to be true",
        metavar="SQL",
        several=True,
        read=_all_true,
        prose=True,
    )
    per_document: bool = setting(False, "of every document its best row alone")
    min_score: float | None = setting(
        None,
        "leave out hits that score less: relative to the best hit in hybrid mode, a cosine by vectors (--mode dense), BM25 by "
        "words",
        metavar="SCORE",
    )
    explain: bool = setting(False, "say which words carried each score; as JSON in full")

    @classmethod
    def make(
        cls, values: Mapping[str, Any], *, where: str | None = None, flags: Mapping[str, str] | None = None
    ) -> Self:
        """See `Settings.make`; what is no option is answered with those spelled like it, of which `k` is one, too."""
        if unknown := [name for name in values if name not in cls.model_fields]:
            known = ["k", *cls.model_fields]
            hint = did_you_mean(unknown[0], known) or f"known options: {', '.join(known)}"
            raise ConfigError(f"unknown option {unknown[0]!r}", hint=hint)
        return super().make(values, where=where, flags=flags)

    @checked
    def _fits_the_mode(self) -> None:
        if self.weight is not None and self.mode in ("dense", "lexical"):
            raise ValueError(
                f"weight needs mode = hybrid, not {self.mode}: it mixes a search by vectors with one by words"
            )
        if self.feedback and self.mode == "dense":
            raise ValueError("feedback needs mode = hybrid or lexical, not dense: vectors alone are asked once")

    @property
    def is_hybrid(self) -> bool:
        """True if an option says how words and vectors are mixed, so that auto is hybrid."""
        return self.weight is not None or bool(self.feedback)
