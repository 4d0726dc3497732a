"""The names of what artifacts carry with them, so that what is made of one can be asked wherever it is moved."""

__all__ = ["ENCODER", "INDEX_FILE", "TOKENIZER", "WEIGHTS_FILE"]

ENCODER = "encoder/"
"""Folder of the query encoder, carried from sentences to index."""

INDEX_FILE = "index.faiss"

TOKENIZER = "tokenizer.json"

WEIGHTS_FILE = "word_weights.safetensors"
"""Of a model whose pooling is `weighted`: one tensor `weights` (V,) float32, what each token id weighs in the mean."""
