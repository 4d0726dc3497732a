"""Nearest neighbours: kinds of FAISS index, building to a recall target, dense, lexical and hybrid search."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.search.beir import LatentSpace, Tfidf, read_collection, relevance_model
    from wordpipe.search.build import (
        Built,
        EncodedPart,
        Measurement,
        Parts,
        Plan,
        Records,
        build_index,
        encode_part,
        resident_bytes,
        rows_within,
        some_held_out,
    )
    from wordpipe.search.clustering import (
        ClusterTerms,
        all_links,
        assigned,
        choose_k,
        groups_of,
        index_links,
        simplified_silhouette,
        spherical_centres,
    )
    from wordpipe.search.conditions import locked_database, quoted
    from wordpipe.search.field_columns import FieldColumns, amount_in, numbers_of, span_of, without_number
    from wordpipe.search.filters import RowFilter, hints_on_empty
    from wordpipe.search.hits import Hits, best_of, weighed
    from wordpipe.search.hybrid import (
        ELSEWHERE_UNMEASURED,
        FEEDBACK,
        LEARNED_ELSEWHERE,
        UNMEASURED,
        Result,
        Retriever,
        SearchMode,
        vector_share,
        with_feedback,
    )
    from wordpipe.search.lexical.analysis import Analyser, stemmer
    from wordpipe.search.lexical.bm25 import FIELD_SHARE, RELATED, LexicalIndex
    from wordpipe.search.lexical.language import are_small, recognised_language, small_in_question
    from wordpipe.search.lexical.letters import folded, without_particle
    from wordpipe.search.lexical.names import IndexWithNames, names_in
    from wordpipe.search.lexical.packed_lists import LEXICAL
    from wordpipe.search.lexical.rules import RULES, SWITCHED, Rule
    from wordpipe.search.lexical.spelling import Speller, WordTable, is_sure, slips_between, slips_of_all
    from wordpipe.search.lexical.words_of_fields import (
        fields_of_hit,
        fields_with,
        searched_fields,
        texts_in,
        values_of_fields,
    )
    from wordpipe.search.loops import CANDIDATES, fuse, normalised, score_range
    from wordpipe.search.matching import (
        Searched,
        field_kind,
        field_mask,
        fields_of_clause,
        may_lack_words,
        remarks_on_fields,
        rows_matching,
    )
    from wordpipe.search.pseudo_queries import (
        MAX_QUERIES,
        MIN_QUERIES,
        PseudoQueries,
        draw_queries,
        found_by_words,
        measure,
        measured_by,
    )
    from wordpipe.search.question import Clause, FieldIs, FieldKind, Phrase, Prefix, Question, read_question
    from wordpipe.search.update import (
        read_held_out,
        renumbered,
        truth_of,
        update_index,
        with_new_rows,
    )
    from wordpipe.search.vectors.faiss_index import (
        K,
        VectorIndex,
        Width,
        faiss_threads,
        kind_names,
        kind_of,
        read_index,
        write_index,
    )
    from wordpipe.search.vectors.knn import (
        ByteVectors,
        ChanceVectors,
        ExactNeighbours,
        ExactRows,
        FoundRows,
        VectorStream,
        VectorTable,
        chance_vectors,
        nearest,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
