"""The plain server that benchmarks/serve.py asks beside ours: FAISS and starlette, one query at a time.

python -m peers.faiss_server INDEX PORT
"""

import sys
from itertools import chain
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import wordpipe

opened = wordpipe.open(Path(sys.argv[1]), "index", verify=False)
index = opened.index  # FAISS's own, with the vectors as float32
texts = list(chain.from_iterable(batch.column(0).to_pylist() for batch in opened.batches(["text"])))


def search(request: Request) -> JSONResponse:
    """The ten nearest rows."""
    scores, rows = index.search(opened.encode([request.query_params["q"]]), 10)
    hits = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
    return JSONResponse([{"row": row, "score": score, "text": texts[row]} for row, score in hits])


if __name__ == "__main__":
    app = Starlette(routes=[Route("/search", search)])
    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
