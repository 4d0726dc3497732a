"""Imported by a server of processes: numba takes most of a second before its first kernel, and then no more."""

from wordpipe.words import hashes_of

hashes_of(["a"])
