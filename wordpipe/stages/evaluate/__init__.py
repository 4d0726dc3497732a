"""Evaluations: an artifact against a set with known answers."""
