"""Text in and out: a project to start from, corpora, tokens, generated text."""
