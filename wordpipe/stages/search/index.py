"""`wordpipe index`: sentences, words, or the words of a corpus alone → index."""

from typing import Any

from wordpipe.artifacts import DOUBLES_FILE, Artifact
from wordpipe.errors import InputError
from wordpipe.runtime import keep_freed_memory
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.index_lexical import bundle_lexical
from wordpipe.stages.search.index_rows import bundle_rows, rows_of_corpus
from wordpipe.stages.search.previous_index import IndexVectors, bundle_keys, lineage_of, previous_index


@public(IndexSettings)
def index(source: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Build an index over a corpus, or over the vectors of sentences or words; or bring the one at the output up to date.

    Of a corpus the words are indexed (BM25), without an encoder and without vectors, in seconds. Of sentences, both the
    vectors (FAISS) and the words are. The index artifact holds the rows in index order and, where there are vectors, the query
    encoder too, so the folder can be moved and queried.

    Args:
        source: a corpus, sentences or words artifact.
        output: folder of the index artifact.
        run: progress, fresh start, verification.
        settings: fields of `IndexSettings`; unit, with_title, window and overlap are of a corpus, those of the kind of index
            and of its recall are of vectors.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.index("run/corpus", output="new/words-index")
        >>> [hit["rank"] for hit in wordpipe.query(made, "bees", k=2)]
        [1, 2]
        >>> made = wordpipe.index("run/words", output="new/index", type="flat")
        >>> [hit["word"] for hit in wordpipe.query(made, "water", k=2)] != []
        True
    """
    chosen = IndexSettings.make(settings)
    keep_freed_memory()  # every block of vectors was mapped and zeroed anew: 2.2 s of an update's 3.8 s, and now 0.9 of 2.7
    with open_job("index", output, chosen, run) as job:
        given = job.open_input(source, ["corpus", "sentences", "words"])
        chosen.refuse_unfit(of_corpus=given.kind == "corpus")
        if given.kind == "corpus":
            _index_words(job, given, chosen)
        else:
            from wordpipe.stages.search.index_vectors import index_vectors  # faiss, which words do without

            index_vectors(job, given, chosen)
    return job.made


def _index_words(job: Job, corpus: Artifact, chosen: IndexSettings) -> None:
    """Make the index of a job over the words of a corpus.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    job.libraries = ("numpy", "pyarrow", "PyStemmer")
    if job.engine_options.engine == "ray":
        job.note("an index of words is made in this process, without shards")
    job.note_first_texts(corpus)
    # The rows, and those of the index at the output.
    rows = rows_of_corpus(job, corpus, chosen)
    keyed = IndexVectors(rows)
    if not keyed.rows:
        raise InputError("the corpus has no text", where=corpus.path)
    previous = previous_index(job, rows, keyed, chosen) if chosen.update and not job.run.fresh else None
    # Write them, with their keys and their words.
    bundle_rows(job, rows)
    bundle_keys(job, keyed)
    for name in corpus.names(DOUBLES_FILE):
        job.writer.share(corpus, name)
    job.facts = {"dim": 0, "type": "none", "of": rows.kind, "lineage": lineage_of(rows)}
    if previous is not None:
        bundle_lexical(job, rows, chosen, previous.artifact, previous.old_rows)
    else:
        counted = None if job.run.ahead is None else job.run.ahead.lexical(corpus, chosen)
        bundle_lexical(job, rows, chosen, counted=counted)
    job.counts = {"texts": keyed.rows, **(previous.counts if previous else {})}
