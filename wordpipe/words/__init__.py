"""Word vectors: vocabulary, training text, the word2vec trainers, the table of vectors and its file formats."""
