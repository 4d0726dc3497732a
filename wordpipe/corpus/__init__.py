"""Text in, corpus rows out: sources, decompression, decoding, formats, docstrings, sentences, splits, duplicates."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.corpus.binary.bounded import Bounds, Unreadable, end_children, values_of
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
    from wordpipe.corpus.detect_format import (
        document_name,
        form_of,
        has_titles,
        looks_like,
        not_text,
        patterns_for,
        way_to_read,
    )
    from wordpipe.corpus.digests import Digests, RecordIds
    from wordpipe.corpus.documents import (
        Ledger,
        Record,
        cut_point,
        no_reason,
        split_of,
        split_oversize,
        split_record,
    )
    from wordpipe.corpus.fields import Fields
    from wordpipe.corpus.formats import CONFIGURATION, ENDINGS, FORMATS, NOT_READ, READERS, Reader, function_of
    from wordpipe.corpus.ingest import Ingest, source_parts
    from wordpipe.corpus.kept import (
        REPLACED,
        TAKEN_OUT,
        Additions,
        GrowingCorpus,
        KeptSource,
        RemovedRecords,
        leave_out,
        with_splits,
    )
    from wordpipe.corpus.pieces import in_pieces
    from wordpipe.corpus.previous import ForwardRows, PreviousCorpus, SourceSummary
    from wordpipe.corpus.readers.lines import (
        first_values,
        parallel_records,
        said_delimiter,
        text_records,
    )
    from wordpipe.corpus.readers.package import find_package, package_records, see_also_names, string_value
    from wordpipe.corpus.readers.sections import section_records
    from wordpipe.corpus.readers.tables import memory_records, parquet_fields, parquet_records
    from wordpipe.corpus.reading import (
        UNREADABLE,
        Opened,
        about_repeats,
        fingerprint,
        line_about_include,
        lines_about_skipped,
        lines_about_unreadable,
        may_be_left,
        read_records,
        settings_for,
        text_blocks,
    )
    from wordpipe.corpus.record_fields import IDS, TEXTS, TITLES, Field, called, seen_fields, text_and_title
    from wordpipe.corpus.sentences import is_hard_wrapped, is_one_sentence, paragraphs, split_sentences, unwrapped
    from wordpipe.corpus.sources import (
        CHANGED,
        NAMED_TWICE,
        Source,
        Sources,
        expand,
        from_memory,
        shown_path,
        sources_of,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
