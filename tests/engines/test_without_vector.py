"""Texts without a vector in shards: every engine leaves the same rows out."""

import json
from itertools import pairwise

import numpy as np
import pytest

import wordpipe
from tests.support.made_vectors import made_words
from tests.support.small_shards import SMALL
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, shards_of, tables
from wordpipe.stages.search import index_shards


@pytest.mark.slow
def test_texts_without_a_vector_have_the_same_bytes_in_shards(ray_here, tmp_path, monkeypatch):
    """Every engine leaves them out of the lists; the rows of one shard have no vector at all."""
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
    monkeypatch.setattr(index_shards, "SHARD_BYTES", 3 * SMALL)
    rng = np.random.default_rng(3)
    words = made_words(tmp_path / "w", rng.standard_normal((90, 16)).astype(np.float32), [5] * 90)
    known = [" ".join(f"w{number}" for number in some) for some in rng.integers(0, 90, (1_500, 4)).tolist()]
    texts_N = [*known[:700], *(f"xylomorph{row} zzz" for row in range(900)), *known[700:]]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts_N))
    wordpipe.ingest(tmp_path / "t.jsonl", output=tmp_path / "c", deduplicate=False, valid=0.0)
    found = []
    for number, run in enumerate([RunOptions(workers=1), RunOptions(workers=3), RunOptions(engine="ray")]):
        sentences = wordpipe.embed(words, tmp_path / "c", output=tmp_path / f"s{number}", transform="none", run=run)
        found.append(
            (sentences.digest, wordpipe.index(sentences, output=tmp_path / f"i{number}", type="ivf-pq", run=run).digest)
        )
        assert sentences.counts["without_vector"] == 900
    assert len(set(found)) == 1
    with Artifact(tmp_path / "s0") as source:
        shards = shards_of(source, "sentences", 3 * SMALL)
        ends = np.cumsum([0, *(shard.rows for shard in shards)])
        assert any(first >= 700 and last <= 1_600 for first, last in pairwise(ends.tolist())), ends
    assert "xylomorph5 zzz" in wordpipe.query(tmp_path / "i2", "xylomorph5")[0]["text"]
