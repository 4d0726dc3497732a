"""The compiled parts of word2vec: updates, SIMD arithmetic, random draws, the Huffman tree."""
