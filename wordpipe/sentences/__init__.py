"""Texts to unit vectors: pooling, windows, transforms of the space, the encoders."""
