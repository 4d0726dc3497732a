"""Measures of quality: arrays in, numbers out."""
