"""Nearest neighbours: kinds of FAISS index, building to a recall target, asking."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.search.analysis import Analyser, looks_english, stemmer
    from wordpipe.search.beir import read_collection
    from wordpipe.search.build import Built, Plan, build_index, resident_bytes
    from wordpipe.search.duplicates import all_links, groups_of, index_links
    from wordpipe.search.exact import nearest, nearest_of
    from wordpipe.search.filters import locked_database, rows_where
    from wordpipe.search.hits import Hits, best_of
    from wordpipe.search.hybrid import (
        CANDIDATES,
        FEEDBACK,
        Found,
        Moved,
        Retriever,
        Way,
        mix,
        span,
        stretched,
        towards_answers,
        weight_by_merit,
    )
    from wordpipe.search.hybrid_weight import (
        ENOUGH,
        LEAST,
        UNMEASURED,
        PseudoQueries,
        Space,
        draw_queries,
        measured_mix,
    )
    from wordpipe.search.kinds import KINDS, K, Lists, Width, kind_names
    from wordpipe.search.lexical import LexicalIndex
    from wordpipe.search.query import row_vectors, search
    from wordpipe.search.recall import (
        ExactNeighbours,
        Measurement,
        Records,
        completed,
        moved,
        read_held_out,
        some_held_out,
        truth_of,
    )
    from wordpipe.search.tfidf import LatentSpace, Tfidf
    from wordpipe.search.update import matched_rows, row_keys, update_index
    from wordpipe.search.vectors import faiss_threads, read_index, read_lists, unit_vectors, write_index
else:
    __getattr__, __dir__ = face(__name__, __file__)
