"""The transformer: one set of blocks that makes a bidirectional encoder or a causal decoder.

Read in this order: `config` (the numbers), `positions`, `norms`, `attention`, `feedforward`, `block`, `language_model`
(the whole), `initialise`, `vectors` (a start from word vectors), `folder` (the Hugging Face folder and back).

    ids_BT → embedding → n_layers × [x += attention(norm(x)); x += feedforward(norm(x))] → norm → hidden_BTD → head → logits

                    encoder (as ModernBERT)              decoder (as Llama)
    norm            LayerNorm without bias               RMSNorm
    activation      GELU (GeGLU)                         SiLU (SwiGLU)
    attention       every position sees all              a position sees itself and what came before
    head            dense, GELU, norm, output, bias      output

Shapes are written in the names of tensors, one letter per axis:

    B sequences of a batch    T positions of a sequence    D width of the model    F width of the feed-forward
    H query heads             G key and value heads        E width of a head       V vocabulary
    L layers                  N rows (positions gathered from a batch)             K targets of a sequence
"""
