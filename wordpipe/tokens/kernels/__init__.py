"""The compiled parts of tokenizing: scanning, normalizing, training, ids of single pre-tokens."""
