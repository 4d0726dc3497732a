"""Attention beside the usual one, computed by torch alone.

`similarity` compares queries and keys otherwise (additive, linear), `bands` computes long windows in blocks.
"""
