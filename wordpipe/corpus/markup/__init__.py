"""Structured documents: one parser for each markup, and the outline that all of them tell what they meet."""
