"""The Parquet schemas that pass between the stages: checked when written and when read.

`corpus`, `sentences` and `index` may carry further columns (metadata of the source) after those listed here.
"""

import pyarrow as pa

__all__ = [
    "CORPUS",
    "COUNTS",
    "SOURCES",
    "STEPS",
    "TOKENS_16",
    "TOKENS_32",
    "VOCABULARY",
    "ngrams_schema",
    "sentences_schema",
    "tokens_schema",
    "vectors_schema",
    "words_schema",
]

CORPUS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),  # BLAKE3 of the document's text, first 80 bits, in hex
        pa.field("sentence_id", pa.int32(), nullable=False),  # 0, 1, … within the document
        pa.field("title", pa.string()),
        pa.field("text", pa.string(), nullable=False),  # a document's sentences concatenate to its text
        pa.field("split", pa.string(), nullable=False),  # train, valid or test
        pa.field("source", pa.string(), nullable=False),  # the file (or python:package.module) it came from
        pa.field("line", pa.int64(), nullable=False),  # 1-based line or record where the sentence begins
    ]
)

SOURCES = (
    pa.schema(  # sources.parquet beside the corpus: what each source gave, in the order of its rows; outside the digest
        [
            pa.field("source", pa.string(), nullable=False),
            pa.field("digest", pa.string(), nullable=False),  # BLAKE3 of its content; empty for a stream
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("told", pa.string(), nullable=False),  # counts and warnings, JSON
        ]
    )
)


def tokens_schema(id_type: pa.DataType) -> pa.Schema:
    """One row per sentence: subword ids without special tokens, and the sentence's words by their number."""
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("sentence_id", pa.int32(), nullable=False),
            pa.field("split", pa.string(), nullable=False),
            pa.field("ids", pa.list_(pa.field("item", id_type, nullable=False)), nullable=False),
            pa.field("word_ids", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
        ]
    )


TOKENS_16 = tokens_schema(pa.uint16())  # a vocabulary of up to 65,536
TOKENS_32 = tokens_schema(pa.uint32())

VOCABULARY = pa.schema(  # words.parquet beside the tokens: the row number is the word id, the commonest word first
    [pa.field("word", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)

COUNTS = pa.schema(  # counts.parquet beside the tokens: what the tokenizer was trained from, the commonest first
    [pa.field("pretoken", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)

STEPS = pa.schema(  # one row per report of any training; a log, outside the digest
    [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),  # seen so far
        pa.field("split", pa.string(), nullable=False),  # train or valid: what the loss was measured on
        pa.field("loss", pa.float64()),  # nats per target; null where the backend gives no honest figure
        pa.field("lr", pa.float64()),
        pa.field("seconds", pa.float64(), nullable=False),
    ]
)


def words_schema(dim: int) -> pa.Schema:
    """One row per word, the commonest first."""
    return pa.schema([*VOCABULARY, _vector(dim)])


def ngrams_schema(dim: int) -> pa.Schema:
    """One row per character n-gram of the words beside them, `<` and `>` for their ends, the commonest first."""
    return pa.schema([pa.field("ngram", pa.string(), nullable=False), _vector(dim)])


def vectors_schema(dim: int) -> pa.Schema:
    """Vectors alone: output vectors, a row for each of the words beside them."""
    return pa.schema([_vector(dim)])


def sentences_schema(dim: int, metadata: pa.Schema | None = None) -> pa.Schema:
    """One row per embedded text; `metadata` are the columns carried from the source."""
    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("title", pa.string()),
            pa.field("text", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("line", pa.int64(), nullable=False),
            _vector(dim),
            *(metadata or []),
        ]
    )


def _vector(dim: int) -> pa.Field:
    return pa.field("vector", pa.list_(pa.field("item", pa.float32(), nullable=False), dim), nullable=False)
