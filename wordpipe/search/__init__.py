"""Nearest neighbours: kinds of FAISS index, building to a recall target, asking."""
