"""Judging a tokenizer on text."""
