"""`wordpipe tokenize`: corpus → tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.artifacts.schemas import CORPUS, TOKENS_16, TOKENS_32, VOCABULARY
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.sources import file_entry
from wordpipe.stages.texts import open_corpus
from wordpipe.tokens.encoding import encode_batch
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.trainers import open_tokenizer, piece_splitter, train_tokenizer
from wordpipe.tokens.words import Words, WordSplitter, regroup

__all__ = ["tokenize"]


def tokenize(
    corpus: PathLike | Iterable[PathLike], *, output: PathLike, run: RunOptions | None = None, **settings: Any
) -> Made:
    """Train a tokenizer on a corpus, encode the corpus and count its words.

    Args:
        corpus: a corpus artifact, or sources of text, which are then ingested with the default settings.
        output: folder of the tokens artifact.
        run: progress, fresh start, verification.
        settings: fields of `TokenizeSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = TokenizeSettings.make(settings)
    with making("tokens", "tokenize", output, chosen, run) as job:
        job.libraries = ("tokenizers", "regex", "pyarrow")
        source = open_corpus(job, corpus)
        given = _given_tokenizer(job, chosen.tokenizer)
        runs: Counter[str] = Counter()
        texts = _counted_texts(job, source, runs, keep_case=chosen.keep_case)
        if given is None:
            tokenizer = train_tokenizer(texts, chosen)
            # tokenizers orders WordPiece's alphabet by a hash that differs in every process
            job.bitwise = chosen.algorithm != "wordpiece"
        else:
            tokenizer = given
            for _ in texts:
                pass
        split = WordSplitter(piece_splitter(tokenizer), keep_case=chosen.keep_case)
        words = Words(regroup(runs, split))
        _write_words(job, words)
        job.write("tokenizer.json", tokenizer.to_str(pretty=True).encode())
        _write_tokens(job, source, tokenizer, split, words)
        job.facts = {
            "vocab_size": tokenizer.get_vocab_size(),
            "algorithm": type(tokenizer.model).__name__,
            "keep_case": chosen.keep_case,
        }
    return job.made


def _given_tokenizer(job: Job, path: Path | None) -> Tokenizer | None:
    """The tokenizer named by the user, recorded as an input by its content."""
    if path is None:
        return None
    if is_artifact(path):
        data = job.open_input(path, ["tokens", "model"]).read("tokenizer.json")
    else:
        job.inputs.append(file_entry(path))
        data = path.read_bytes()
    return open_tokenizer(data, where=str(path))


def _counted_texts(job: Job, source: Artifact, counts: Counter[str], *, keep_case: bool) -> Iterator[str]:
    """The corpus's texts, counting their words on the way."""
    split, total, done = WordSplitter(keep_case=keep_case), row_count(source, "corpus"), 0
    for batch in read_batches(source, "corpus", ["text"], expected=CORPUS):
        for text in batch.column("text").to_pylist():
            counts.update(split(text))
            yield text
        done += len(batch)
        job.report("reading", done, total, "sentences")
    job.report("training the tokenizer")


def _write_words(job: Job, words: Words) -> None:
    with job.table("words", VOCABULARY, single=True) as table:
        for start in range(0, len(words.words), 65_536):
            part = slice(start, start + 65_536)
            table.write(pa.record_batch([pa.array(words.words[part]), pa.array(words.counts[part])], schema=VOCABULARY))
    job.counts |= {"words": sum(words.counts), "distinct_words": len(words.words)}


def _write_tokens(job: Job, source: Artifact, tokenizer: Tokenizer, split: WordSplitter, words: Words) -> None:
    schema = TOKENS_16 if tokenizer.get_vocab_size() <= 1 << 16 else TOKENS_32
    unknown = _unknown_id(tokenizer)
    total, tokens, missed, done, characters = row_count(source, "corpus"), 0, 0, 0, 0
    with job.table("tokens", schema) as table:
        for batch in read_batches(source, "corpus", ["doc_id", "sentence_id", "split", "text"], expected=CORPUS):
            encoded = encode_batch(batch, tokenizer, split, words.number, schema)
            table.write(encoded)
            ids = encoded.column("ids").flatten()
            tokens += len(ids)
            missed += 0 if unknown is None else int(pc.sum(pc.equal(ids, unknown)).as_py() or 0)
            characters += batch.column("text").nbytes
            done += len(batch)
            job.report("encoding", done, total, "sentences")
    job.counts |= {"sentences": done, "tokens": tokens, "tokens_unknown": missed}
    job.rates = {"mb_per_s": round(characters / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"tokens_per_word": round(tokens / max(1, job.counts["words"]), 4)}


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    """The id that stands for what the vocabulary cannot spell; byte-level BPE needs none."""
    token = getattr(tokenizer.model, "unk_token", None)
    return None if token is None else tokenizer.token_to_id(token)
