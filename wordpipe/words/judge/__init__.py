"""Judging word vectors on word similarity and analogies."""
