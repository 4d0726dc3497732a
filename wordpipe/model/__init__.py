"""The transformer: one set of blocks that makes a bidirectional encoder or a causal decoder.

Read in this order: `config` (the numbers and kinds) and `styles` (which of them go together), `positions` (where a token
stands, who sees whom), `layers`, `attention`, `language_model` (the whole), `variants` (other ways to attend and to know
positions), `initialise` (fresh weights, or a start from word vectors), `generation` (a model in use),
`numpy_model` (the same without torch), `formats` (the folders of Hugging Face transformers and back).

    ids_BT → embedding → n_layers × [x += attention(norm(x)); x += feedforward(norm(x))] → norm → hidden_BTD → head → logits

Shapes are written in the names of tensors, one letter per axis:

    B sequences of a batch    T positions of a sequence    D width of the model    F width of the feed-forward
    H query heads             G key and value heads        E width of a head       V vocabulary
    S positions of the keys (T, but longer with a cache)   L layers                N rows (positions gathered from a batch)
    K targets of a sequence
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.model.attention import Cache
    from wordpipe.model.config import (
        EMBEDDING_STD,
        ROLES,
        Architecture,
        AttentionKind,
        FeedForwardKind,
        ModelConfig,
        NormKind,
        NormPlace,
        Positions,
        pad_vocab,
    )
    from wordpipe.model.fused import attend, attends, gated
    from wordpipe.model.generation import (
        Draw,
        Generation,
        choose,
        draw,
        forbid_repeated_ngrams,
        keep_top_k,
        keep_top_p,
        likeliest,
        penalise_repeats,
        span_of_masks,
    )
    from wordpipe.model.hf.families import FAMILIES, config_from_hf, native_class, why_not
    from wordpipe.model.hf.family import CONFIG, Family
    from wordpipe.model.hf.folder import Loaded, load_hf, save_hf
    from wordpipe.model.initialise import init_embeddings, new_model, orthonormal
    from wordpipe.model.language_model import LanguageModel
    from wordpipe.model.numpy_model import ArrayModel, read_arrays
    from wordpipe.model.packed import Packed, pack
    from wordpipe.model.positions import Rotary, rotate, sinusoidal_table
    from wordpipe.model.presets import MUON_LR, PRESETS, Preset, PresetName
    from wordpipe.model.seeds import seed_of
    from wordpipe.model.styles import STYLES, Style
    from wordpipe.model.variants.distances import N_BUCKETS, alibi_slopes, t5_buckets
else:
    __getattr__, __dir__ = face(__name__, __file__)
