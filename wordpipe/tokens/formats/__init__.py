"""Tokenizers in other programs' formats, read and written."""
