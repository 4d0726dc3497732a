"""Ids of single pre-tokens, as the models of tokenizers give them."""
