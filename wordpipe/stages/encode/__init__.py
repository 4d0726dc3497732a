"""Texts as vectors, and groups of texts by their vectors."""
