"""Mixers of the positions of a sequence beside the usual attention, computed by torch alone.

`similarity` compares queries and keys otherwise (additive, linear), `relative` by their distance too (Transformer-XL, XLNet),
`approximate` comes near the softmax for less (Performer,
Linformer), `bands` computes long windows in blocks. No attention at all: `fourier` and `state_space`.
"""
