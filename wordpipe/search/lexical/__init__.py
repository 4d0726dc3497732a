"""Search by words: texts to terms, terms and words counted, where they stand, BM25 over them, words as they were meant."""
