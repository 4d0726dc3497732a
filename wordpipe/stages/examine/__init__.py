"""Artifacts examined: shown, compared, drawn."""
