"""Embedding, indexing and querying."""
