"""Word vectors out of a words artifact, with their n-grams where it has them."""

from wordpipe.artifacts import Artifact, read_batches
from wordpipe.words import WordVectors


def read_word_vectors(artifact: Artifact) -> WordVectors:
    """The table of an open words artifact, or of an index over words.

    Raises:
        ArtifactError: a file of it is missing or of another schema.
    """
    facts = artifact.manifest.facts
    min_n, max_n = int(facts.get("min_n", 0)), int(facts.get("max_n", 0))
    ngrams = read_batches(artifact, "ngrams") if max_n else None
    return WordVectors.from_batches(read_batches(artifact, artifact.kind), ngrams, min_n=min_n, max_n=max_n)
