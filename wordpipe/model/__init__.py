"""The transformer: one set of blocks that makes a bidirectional encoder or a causal decoder.

Read in this order: `config` (shape and parts), `positions` (and who sees whom), `layers`, `attention`, `transformer` (the
whole), `variants` (other kinds of attention, other mixers), `init` (initial weights, fresh or from word vectors), `generation`
(texts continued, masks filled), `attention_weights` (what looks where, heads and layers left out), `numpy_model` (the same
without torch), `hf` (the folders of Hugging Face transformers and back).

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
    from wordpipe.model.attention import Attention, Cache, Source, make_view
    from wordpipe.model.attention_weights import (
        Attended,
        attend_exactly,
        attention_of,
        feedforwards_observed,
        heads_off,
    )
    from wordpipe.model.config import (
        EMBEDDING_STD,
        MUON_LR,
        PRESETS,
        ROLES,
        SCORED,
        STYLES,
        Architecture,
        AttentionKind,
        FeedForwardKind,
        MixerKind,
        ModelConfig,
        NormKind,
        NormPlace,
        PairStyle,
        Positions,
        Preset,
        PresetName,
        Style,
        pad_vocab,
        seed_of,
    )
    from wordpipe.model.encoder_decoder import EncoderDecoder, Transformer, shifted
    from wordpipe.model.fused_attention import attend, attends
    from wordpipe.model.generation import (
        Generation,
        NewToken,
        choose,
        forbid_repeated_ngrams,
        keep_top_k,
        keep_top_p,
        most_probable,
        penalise_repeats,
        sample_tokens,
        span_of_masks,
    )
    from wordpipe.model.heads import HeadConfig, HeadedModel, Problem, start_headed
    from wordpipe.model.hf.families import (
        FAMILIES,
        config_from_hf,
        config_to_hf,
        family_of,
        transformers_class,
        why_no_class,
    )
    from wordpipe.model.hf.folder import (
        GENERATION,
        Loaded,
        generation_config,
        load_encoder,
        load_hf,
        one_stack,
        save_hf,
    )
    from wordpipe.model.hf.heads import LoadedHead, headed_class, is_headed, load_headed, save_headed
    from wordpipe.model.hf.mapping import CONFIG, WEIGHTS, Entry, Family
    from wordpipe.model.hf.parts import PARTS, StoredWeight, is_of_head, parts_of, read_header, without_tensors
    from wordpipe.model.init import (
        init_embeddings,
        new_encoder_decoder,
        new_model,
        start_as_mean,
        start_from_encoder,
    )
    from wordpipe.model.layers import Dropout, Linear, Norm, filled, gated
    from wordpipe.model.numpy_model import ARRAY_ACTIVATIONS, NumpyModel, read_arrays
    from wordpipe.model.packing import Packed, pack, pack_pairs
    from wordpipe.model.positions import N_BUCKETS, Rotary, alibi_slopes, rotate, sinusoidal_table, t5_buckets
    from wordpipe.model.seq2seq_decoding import (
        Hypothesis,
        Rules,
        beam_search,
        largest,
        length_penalty,
        sample_targets,
    )
    from wordpipe.model.transformer import LanguageModel
else:
    __getattr__, __dir__ = face(__name__, __file__)
