"""A sentences artifact in LanceDB: its Parquet files are loaded as they are, and the neighbours are those of the vectors.

    pip install lancedb
    python benchmarks/lancedb_load.py run/sentences --work FOLDER

A hundred rows are asked for their ten nearest by cosine, exactly, in LanceDB and by a product of matrices here. Exit code 0:
the similarities of all answers agree to 1e-5.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import wordpipe

ASKED, K = 100, 10


def rows_of(sentences: Path) -> pa.Table:
    """All rows of the artifact, with vectors as lists of one length, as LanceDB wants vectors."""
    with wordpipe.open(sentences, "sentences") as opened:
        return opened.batches().read_all()


def main(given: list[str] | None = None) -> int:
    """Load, ask, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path, help="a sentences artifact")
    parser.add_argument("--work", type=Path, required=True, help="folder for the database, which is made anew")
    arguments = parser.parse_args(given)
    import lancedb

    table = rows_of(arguments.sentences)
    shutil.rmtree(arguments.work, ignore_errors=True)
    database: Any = lancedb.connect(str(arguments.work)).create_table("sentences", data=table)
    vectors = np.stack(table.column("vector").to_numpy(zero_copy_only=False)).astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    asked = np.random.default_rng(0).choice(len(vectors), min(ASKED, len(vectors)), replace=False)
    farthest = 0.0
    for row in asked:
        found = database.search(vectors[row]).distance_type("cosine").limit(K).to_arrow()
        theirs = 1.0 - np.sort(found.column("_distance").to_numpy())
        ours = np.sort(vectors @ vectors[row])[::-1][:K]
        farthest = max(farthest, float(np.abs(ours - theirs).max()))
    print(f"{len(vectors):,} rows, {len(asked)} asked: similarities differ by at most {farthest:.1e}")
    return 0 if farthest < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
