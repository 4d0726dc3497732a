"""word2vec in compiled kernels: threads that train side by side, on vectors that they share."""
