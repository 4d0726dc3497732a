"""Settings of `wordpipe index`."""

from typing import Literal

from wordpipe.settings import Settings, setting

__all__ = ["IndexSettings"]


class IndexSettings(Settings):
    """Which kind of FAISS index is built, and how well it has to find."""

    type: Literal["auto", "flat", "hnsw", "ivf"] = setting(
        "auto",
        "flat: exact; hnsw: a graph, fast up to some millions; ivf: lists, for more; auto: by the number of vectors",
    )
    recall: float = setting(
        0.95, "share of the true 10 nearest that must be found; search widens until a sample reaches it", gt=0, le=1
    )
    hnsw_m: int = setting(32, "neighbours per vector in an hnsw graph", ge=2, le=256)
    ef_construction: int = setting(100, "candidates looked at when a vector enters an hnsw graph", ge=1, le=10_000)
    ef_search: int = setting(0, "candidates looked at by an hnsw search; 0 = as many as the recall needs", ge=0)
    nlist: int = setting(0, "lists of an ivf index; 0 = four times the square root of the number of vectors", ge=0)
    nprobe: int = setting(0, "lists looked at by an ivf search; 0 = as many as the recall needs", ge=0)
    seed: int = setting(1, "seed of graph levels, of k-means and of the recall sample", ge=0, lt=2**31)
    threads: int = setting(
        0, "threads, 0 = one per core; with one, an hnsw or ivf index has the same bytes every time", ge=0, recipe=False
    )
