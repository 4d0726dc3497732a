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
