"""Vectors of an index: compared one by one, in a FAISS index, as int8."""
