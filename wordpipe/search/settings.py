"""Settings of `wordpipe index`."""

import re
from typing import Literal

from pydantic import field_validator

from wordpipe.search.lexical_settings import LexicalSettings
from wordpipe.settings import setting

__all__ = ["IndexSettings", "KindName"]

KindName = Literal["auto", "flat", "hnsw", "nsg", "ivf", "ivf-pq", "rabitq", "panorama"]

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?"

_GRAPH = "Graphs (hnsw, nsg)"
_LISTS = "Lists (ivf, ivf-pq, rabitq, panorama)"


class IndexSettings(LexicalSettings):
    """Which kind of FAISS index is built, how well it has to find, and what it may cost."""

    command = "index"

    type: KindName = setting(
        "auto",
        "the kind of index; flat: exact; ivf-pq: lists of codes, the best compared by their vectors; rabitq: the same with a "
        "bit per number; ivf, panorama: lists of vectors; hnsw, nsg: graphs; auto: flat for few vectors, else ivf-pq where it "
        "finds enough",
        section="The index",
    )
    recall: float = setting(
        0.95,
        "share of the true 10 nearest that must be found; search widens until held-out queries reach it",
        gt=0,
        le=1,
    )
    update: bool = setting(
        False, "change the index that stands at the output by the rows that came, went or changed", recipe=False
    )
    max_memory: str = setting(
        "", "refuse to build where the prediction is above this; nothing = no bound", recipe=False, metavar="SIZE"
    )
    seed: int = setting(1, "seed of graph levels, of k-means and of the held-out queries", ge=0, lt=2**31, expert=True)
    threads: int = setting(
        0, "threads, 0 = one per core; with one, every kind has the same bytes every time", ge=0, recipe=False
    )
    nlist: int = setting(0, "lists; 0 = the square root of the number of vectors", ge=0, section=_LISTS, expert=True)
    nprobe: int = setting(0, "lists that a search looks at; 0 = as many as the recall needs", ge=0, expert=True)
    refine: int = setting(
        0,
        "candidates per answer of ivf-pq and rabitq that are compared by their vectors; 0 = as the recall needs",
        ge=0,
        expert=True,
    )
    pq_dims: int = setting(
        0, "numbers of a vector that share one 4-bit code of ivf-pq; 0 = 2, or 1 below 64", ge=0, le=64, expert=True
    )
    rabitq_bits: int = setting(1, "bits per number of a rabitq code", ge=1, le=9, expert=True)
    hnsw_m: int = setting(32, "neighbours per vector in an hnsw graph", ge=2, le=256, section=_GRAPH, expert=True)
    ef_construction: int = setting(
        100, "candidates looked at when a vector enters an hnsw graph", ge=1, le=10_000, expert=True
    )
    nsg_degree: int = setting(32, "neighbours per vector in an nsg graph", ge=2, le=256, expert=True)
    ef_search: int = setting(
        0, "candidates that a search of a graph looks at; 0 = as many as the recall needs", ge=0, expert=True
    )

    @property
    def max_memory_bytes(self) -> int | None:
        """The bound in bytes, or None."""
        found = re.fullmatch(_SIZE, self.max_memory, re.IGNORECASE)
        return int(float(found[1]) * _UNITS[found[2].upper()]) if found else None

    @field_validator("max_memory")
    @classmethod
    def _is_a_size(cls, value: str) -> str:
        if value and not re.fullmatch(_SIZE, value, re.IGNORECASE):
            raise ValueError("a size such as 500MB or 8GB")
        return value
