"""An encoder that is trained on a collection's own documents, without their queries and judgements."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordpipe.artifacts.reader import Artifact
from wordpipe.errors import ArtifactError
from wordpipe.search.collection import Collection
from wordpipe.stages.carried import TOKENIZER
from wordpipe.stages.contrast import train_contrastive
from wordpipe.stages.ingest import ingest
from wordpipe.stages.making import PathLike, RunOptions
from wordpipe.stages.tokenize import tokenize
from wordpipe.training.contrast.settings import ContrastiveSettings

__all__ = ["adapt"]

_VOCAB_SIZE = 8_000  # tokens of a tokenizer that is trained on a collection: a few megabytes of text hold no more
_TABLE = {"lsi_weight": 1.0, "lsi_dim": 300, "words_weight": 0.35, "lexical_weight": 0.7, "min_count": 1}
"""What a static encoder that starts from word vectors begins as: mostly the collection's own latent directions. Vectors of
another text alone found less than half of what these find on Cranfield (nDCG@10 x 100: 24 and 52), but help where queries
are short. The shares were chosen on Cranfield, CISI, NPL and CACM, one for all four."""
_LENGTH = {"steps": 150, "batch_size": 256}  # on Cranfield nDCG@10 rose from 48.6 at the start to 50.6


def adapt(encoder: PathLike, collection: Collection, folder: Path, run: RunOptions, **settings: Any) -> str:
    """Train an encoder on the documents of a collection with the goal of search.

    Word vectors become a static encoder that begins with them, with latent directions of the documents and a direction for
    each stem; a static model goes on as one, a transformer as a transformer with its own tokenizer.

    Args:
        encoder: a words or model artifact.
        collection: its documents are read, nothing else.
        folder: where the corpus, the tokens and the model are made.
        run: progress, verification.
        settings: of `train_contrastive`, beside encoder, goal, and the artifact that it starts from; they win.

    Returns:
        The path of the model.

    Raises:
        ArtifactError: an artifact that cannot be trained.
        WordpipeError: as from `train_contrastive`.
    """
    start, tokenizer = _start(encoder, run)
    quietly = RunOptions(report=run.report, verify=False)
    source = folder / "documents.jsonl"
    _write_documents(collection, source)
    ingest(source, output=folder / "corpus", run=quietly)
    tokenize(folder / "corpus", output=folder / "tokens", run=quietly, **tokenizer)
    chosen = _beside({"goal": "search"} | start, settings)
    made = train_contrastive(folder / "tokens", output=folder / "model", run=quietly, **chosen)
    return made.path


def _beside(usual: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given, and of the usual ones those that mean something beside them."""
    chosen = ContrastiveSettings.merge(usual, settings)
    idle = {
        "lsi_dim": not chosen.get("lsi_weight"),
        "min_count": chosen.get("unit") == "token",
    }
    return {name: value for name, value in chosen.items() if name in settings or not idle.get(name)}


def _start(encoder: PathLike, run: RunOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the training and of the tokenizer that follow from what is to be adapted."""
    with Artifact(encoder, ["words", "model"], verify=run.verify) as artifact:
        facts = artifact.manifest.facts
        if artifact.kind == "words":
            unit = str(facts.get("unit", "word"))
            own = {"tokenizer": encoder} if unit == "token" and TOKENIZER in artifact.names() else {}
            start = {"encoder": "static", "words": encoder, "unit": unit} | _TABLE | _LENGTH
            return start, own or {"vocab_size": _VOCAB_SIZE, "keep_case": bool(facts.get("keep_case", False))}
        if facts.get("encoder") == "static":
            return {"encoder": "static", "init": encoder}, {"tokenizer": encoder}
        if facts.get("architecture") == "decoder":
            raise ArtifactError(
                "a model that reads to the right only is no encoder", where=str(encoder), hint="name one of `train mlm`"
            )
        return {"encoder": "transformer", "init": encoder}, {"tokenizer": encoder}


def _write_documents(collection: Collection, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for title, text in zip(collection.titles, collection.texts, strict=True):
            record: Mapping[str, str] = {"title": title, "text": text} if text.strip() else {"text": title}
            if record["text"].strip():
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
