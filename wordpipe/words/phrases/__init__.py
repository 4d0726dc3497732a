"""Phrases: neighbours that occur together far more often than chance has it, joined to one word (new york → new_york)."""
