"""Attention and positions beside the usual ones, computed by torch alone: `ModelConfig.is_variant` says who needs them.

`additive` and `linear` compare queries and keys otherwise, `distances` biases the scores (ALiBi, T5), `bands` lets some tokens
see everything beside a window, and computes long windows in blocks.
"""
