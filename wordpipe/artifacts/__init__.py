"""Artifacts: folders that are whole or absent, checked before use, chained by digest.

`draft` writes and publishes, `reader` opens and checks, `tables` streams Parquet, `manifest` is what an artifact says of
itself, `lock` keeps a second writer out, `hashing` is BLAKE3 with a cache of what was already read, `checkpoints` keeps the
state of a training that is not finished, `arrays` gives it arrays as bytes.
"""
