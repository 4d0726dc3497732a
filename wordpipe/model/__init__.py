"""The transformer: one set of blocks that makes a bidirectional encoder or a causal decoder.

Read in this order: `config` (the numbers and kinds) and `styles` (which of them go together), `positions` and `distances`
(how a position is known), `masks` (who sees whom), `norms`, `attention` with `additive` and `linear_attention`,
`feedforward`, `block`, `language_model` (the whole), `initialise`, `vectors` (a start from word vectors), `cache`, `sampling`,
`generation` and `filling` (a model in use), `formats` (the folders of Hugging Face transformers and back).

    ids_BT → embedding → n_layers × [x += attention(norm(x)); x += feedforward(norm(x))] → norm → hidden_BTD → head → logits

Shapes are written in the names of tensors, one letter per axis:

    B sequences of a batch    T positions of a sequence    D width of the model    F width of the feed-forward
    H query heads             G key and value heads        E width of a head       V vocabulary
    S positions of the keys (T, but longer with a cache)   L layers                N rows (positions gathered from a batch)
    K targets of a sequence
"""
