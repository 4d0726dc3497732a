"""Tokenizers and words: training, encoding, and how often each word occurs."""
