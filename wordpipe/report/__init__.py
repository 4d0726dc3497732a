"""Pages for people: arrays in, the bytes of one self-contained file out. Nothing here opens an artifact."""
