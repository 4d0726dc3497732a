"""Text in, corpus rows out: sources, decompression, decoding, formats, docstrings, sentences, splits, duplicates."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.corpus.columns import kinds_of, recast, text_of, to_array, type_of
    from wordpipe.corpus.decode import (
        BLOCK,
        Decoder,
        ExpansionLimit,
        compression_of,
        decompress_blocks,
        read_blocks,
        without_end_marks,
    )
    from wordpipe.corpus.docstrings import find_package, package_records, see_also_names
    from wordpipe.corpus.documents import (
        Digests,
        Ledger,
        Record,
        RecordIds,
        cut_point,
        split_of,
        split_oversize,
        split_record,
    )
    from wordpipe.corpus.fields import Fields
    from wordpipe.corpus.formats import in_pieces, looks_like
    from wordpipe.corpus.ingest import Ingest, source_parts
    from wordpipe.corpus.labelled import labelled_records
    from wordpipe.corpus.looks.not_text import not_text, way_to_read
    from wordpipe.corpus.markup.sections import markup_records, to_utf8
    from wordpipe.corpus.modules import string_value
    from wordpipe.corpus.parallel import parallel_records
    from wordpipe.corpus.previous import PreviousCorpus, SourceSummary
    from wordpipe.corpus.readers import (
        csv_records,
        first_values,
        jsonl_records,
        read_records,
        said_delimiter,
        text_records,
        tsv_records,
    )
    from wordpipe.corpus.sentences import is_hard_wrapped, paragraphs, split_sentences
    from wordpipe.corpus.sources import Source, Sources, expand, fingerprint, from_memory
    from wordpipe.corpus.tables import memory_records, parquet_records
else:
    __getattr__, __dir__ = face(__name__, __file__)
