"""Texts to unit vectors: pooling, windows, transforms of the space, the encoders."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.sentences.encode_corpus import StoredVectors, VectorPlan, chunks_of, no_keys, plan_vectors, text_keys
    from wordpipe.sentences.encoder import (
        ENCODER_FILE,
        TRANSFORM_FILE,
        EncodedBatch,
        TextEncoder,
        TextParts,
        in_pieces,
        learned_from_pairs,
        load_encoder,
        transform_kind,
    )
    from wordpipe.sentences.explain import explained_cosine
    from wordpipe.sentences.folder import sentence_transformers_files
    from wordpipe.sentences.pooling import Pooling, merge_windows, pool_rows
    from wordpipe.sentences.scored_pairs import ScoredPairs, read_scored_pairs
    from wordpipe.sentences.static_encoder import (
        TABLE_FILE,
        TENSOR,
        TOKENIZER_FILE,
        StaticEncoder,
        TokenRows,
        WordRows,
        static_files,
    )
    from wordpipe.sentences.static_sums import sum_texts
    from wordpipe.sentences.static_tokenizer import listed_words, unspaced_share, word_tokenizer
    from wordpipe.sentences.torch_states import pool_hidden
    from wordpipe.sentences.transformer_encoder import ArrayStates, ModelParts, TransformerEncoder
    from wordpipe.sentences.transforms import (
        CROWDED,
        MIN_TEXTS,
        Crowding,
        Moments,
        Transform,
        TransformKind,
        check_directions,
        shrinkage,
    )
    from wordpipe.sentences.units import UnitBatch, UnitCutter, read_after_title
    from wordpipe.sentences.windows import frame, gathered, pack_sentences, padded, runs_of, token_batches
    from wordpipe.sentences.word_encoder import WORDS_FILE, WordEncoder, sif_weights, sum_segments, word_spans
else:
    __getattr__, __dir__ = face(__name__, __file__)
