"""Artifacts: folders that are whole or absent, checked before use, chained by digest.

`writer` writes and publishes, `reader` opens and checks, `tables` streams Parquet and picks rows, `schemas` has the schemas of
tables, `vectors` says how their vectors are stored, `manifest` is what an artifact says of itself, with its files' hashes,
`publish` is the step in which it takes its place and the lock that keeps a second writer out, `checkpoints` keeps what
unfinished work did, `safe_reading` reads what anyone may have written. `remote` copies what lies at URLs into the cache, and
publishes there.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.artifacts.checkpoints import CachedFiles, Checkpoint, Checkpoints, ResumeCache, array_blocks
    from wordpipe.artifacts.deleted import delete_artifact, forget_deleted, input_known, is_deleted, manifest_known
    from wordpipe.artifacts.keys_of_rows import matched_rows, row_keys
    from wordpipe.artifacts.manifest import (
        ENCODER,
        FORMATS,
        INDEX_FILE,
        KINDS,
        TARGET,
        TOKENIZER,
        TOKENIZER_B,
        WEIGHTS_FILE,
        HashCache,
        InputEntry,
        Kind,
        Manifest,
        OutputEntry,
        digest_of,
        hash_bytes,
        hash_fd,
        is_plain_path,
        library_versions,
        recipe_of,
    )
    from wordpipe.artifacts.publish import OutputLock, check_replaceable, clear_leftovers, exchange, recover
    from wordpipe.artifacts.reader import (
        Artifact,
        BundledFiles,
        input_of,
        is_artifact,
        manifest_at,
        refuse_inside_artifact,
    )
    from wordpipe.artifacts.remote import RemoteOutput, fetch_artifact, fetch_objects, has_manifest
    from wordpipe.artifacts.safe_reading import (
        MANIFEST,
        MAX_LINE,
        array_bytes,
        array_header,
        bounded_lines,
        damage_named,
        holds_artifact,
        is_broken_artifact,
        open_regular_file,
        parse_array,
        parse_json,
        parse_json_object,
        read_fact,
        read_regular_file,
    )
    from wordpipe.artifacts.schemas import (
        CORPUS,
        COUNTS,
        GOLD,
        OPTIONAL,
        OURS,
        PREDICTED,
        REMOVED,
        SOURCES,
        SPANS,
        STEPS,
        TAGS,
        TOKENS_16,
        TOKENS_32,
        VOCABULARY,
        DocumentStarts,
        clusters_schema,
        column_of,
        is_json,
        is_ours,
        leaf_paths,
        members_schema,
        ngrams_schema,
        predicted_task,
        predictions_schema,
        row_bytes,
        row_shower,
        sentences_schema,
        tokens_schema,
        type_name,
        user_name,
        vectors_schema,
        visible_columns,
        words_schema,
    )
    from wordpipe.artifacts.stopped_trainings import (
        IN_MEMORY,
        StoppedRun,
        as_given,
        notes_of,
        stopped_runs,
        why_unfinished,
        written,
    )
    from wordpipe.artifacts.tables import (
        DOUBLES,
        DOUBLES_FILE,
        ROWS_WITHOUT_VECTOR,
        PartFiles,
        RowReader,
        RowVectors,
        Shard,
        TableWriter,
        has_vectors,
        int8_vectors,
        open_part,
        part_names,
        read_batches,
        read_from,
        read_schema,
        read_shard,
        read_vectors,
        refuse_without_vectors,
        row_count,
        rows_with_vector,
        rows_without_vector,
        shard_vectors,
        shards_of,
        vectors_there,
    )
    from wordpipe.artifacts.vectors import Store, matrix_of, plain_numbers, unit_vectors, vector_batches, vector_column
    from wordpipe.artifacts.writer import (
        ArtifactWriter,
        HashedFile,
        array_data,
        atomic_file,
        atomic_folder,
        check_output,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
