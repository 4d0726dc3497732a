"""Text into corpora, and corpora into tokens."""
