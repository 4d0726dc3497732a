"""word2vec on a GPU, in torch: thousands of windows at a time as dense products."""
