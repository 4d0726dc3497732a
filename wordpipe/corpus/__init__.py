"""Text in, corpus rows out: sources, decompression, decoding, formats, docstrings, sentences, splits, duplicates."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.corpus.decode import (
        BLOCK,
        Decoder,
        ExpansionLimit,
        compression_of,
        decompress_blocks,
        read_blocks,
        refuse_binary,
    )
    from wordpipe.corpus.docstrings import package_records, see_also_names
    from wordpipe.corpus.documents import Digests, Ledger, Record, cut_point, split_of, split_oversize, split_record
    from wordpipe.corpus.ingest import DOCUMENT_COLUMNS, Ingest, PreviousCorpus, SourceSummary, corpus_schema
    from wordpipe.corpus.markup import markup_records, to_utf8
    from wordpipe.corpus.modules import string_value
    from wordpipe.corpus.readers import Fields, csv_records, jsonl_records, parquet_records, text_records, tsv_records
    from wordpipe.corpus.sentences import is_hard_wrapped, paragraphs, split_sentences
    from wordpipe.corpus.sources import Source, Sources, expand, fingerprint
else:
    __getattr__, __dir__ = face(__name__, __file__)
