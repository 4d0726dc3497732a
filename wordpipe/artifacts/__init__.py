"""Artifacts: folders that are whole or absent, checked before use, chained by digest.

`writer` writes and publishes, `reader` opens and checks, `tables` streams Parquet and `rows` picks rows, `layout` is how
tables look, `manifest` is what an artifact says of itself, `publish` is the step in which it takes its place, `lock` keeps
a second writer out, `hashing` is BLAKE3 with a cache of what was already read, `checkpoints` keeps what unfinished work did.
"""
