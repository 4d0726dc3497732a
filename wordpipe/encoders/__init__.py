"""Texts to unit vectors: the three encoders, pooling, windows, transforms of the space, the encoding of a corpus.

Read `encoder` first (what every encoder gives), then `word_encoder`, `static_encoder` or `transformer_encoder`.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.encoders.encode_corpus import (
        StoredVectors,
        UnitBatch,
        UnitCutter,
        VectorPlan,
        chunks_of,
        no_keys,
        plan_vectors,
        read_after_title,
        text_keys,
    )
    from wordpipe.encoders.encoder import (
        ENCODER_FILE,
        TRANSFORM_FILE,
        UNKNOWN_PAIRS,
        EncodedBatch,
        TextEncoder,
        check_finite,
        explained_cosine,
        learned_elsewhere,
        learned_from_pairs,
        load_facts,
        text_runs,
        transform_kind,
    )
    from wordpipe.encoders.kernels import sum_texts
    from wordpipe.encoders.layers import LAYERS_FILE, Layer, Layers, trimmed
    from wordpipe.encoders.pooling import POOLINGS, Pooling, pool_packed, pooling_named
    from wordpipe.encoders.sentence_transformers import FolderModules, read_modules, sentence_transformers_files
    from wordpipe.encoders.states import ArrayStates, HiddenModel
    from wordpipe.encoders.static_encoder import (
        TABLE_FILE,
        StaticEncoder,
        listed_words,
        static_files,
        static_table,
        unspaced_share,
        word_tokenizer,
    )
    from wordpipe.encoders.text_rows import TOKENIZER_FILE, FoundRows, TokenRows, WordRows, sum_rows
    from wordpipe.encoders.transformer_encoder import TransformerEncoder
    from wordpipe.encoders.transforms import (
        MAX_MEAN_COSINE,
        MIN_TEXTS,
        Moments,
        Transform,
        TransformKind,
        check_directions,
        mean_cosine_of_sum,
        shrinkage,
    )
    from wordpipe.encoders.windows import WordLengths, frame, gathered, pack_sentences, padded, runs_of, token_batches
    from wordpipe.encoders.word_encoder import WORDS_FILE, WordEncoder, sif_weights, word_spans
else:
    __getattr__, __dir__ = face(__name__, __file__)
