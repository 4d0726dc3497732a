"""Text in, corpus rows out: sources, decompression, decoding, formats, docstrings, sentences, splits, duplicates."""
