"""Cutting rows of text into pre-tokens and words, where tokenizers cuts them."""
