"""Word vectors: vocabulary, training text, the word2vec trainers, the table of vectors and its file formats."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.words.diff import (
        CountedWords,
        aligned_distances,
        centred_rows,
        effective_counts,
        procrustes_rotation,
        robust_z_scores,
        semantic_shifts,
        vocabulary_difference,
        vocabulary_intersection,
    )
    from wordpipe.words.evaluate import (
        Method,
        Pairs,
        Questions,
        Unknown,
        evaluate_analogies,
        evaluate_similarity,
        read_set,
    )
    from wordpipe.words.formats import (
        FILES,
        FOLDERS,
        VECTORS_NPY,
        WordFile,
        WordFilter,
        WordTable,
        check_words,
        folder_files,
        open_folder,
        open_stream,
        read_text,
        vector_files,
        without_controls,
    )
    from wordpipe.words.gensim_backend import GensimTraining, require_gensim
    from wordpipe.words.heldout_loss import HeldOutLoss, keep_probabilities, noise_distribution
    from wordpipe.words.lookup import (
        PHRASE_SEPARATOR,
        KnownPhrases,
        Spellings,
        parse_expression,
        similar_words,
    )
    from wordpipe.words.subwords import HashRows, NGrams, hashes_of
    from wordpipe.words.training import NativeTraining, Parts, Step, Weights, chunk_size, done_in_order
    from wordpipe.words.vectors import CommonPart, WordList, WordQuery, WordVectors, stacked_vectors
    from wordpipe.words.vocabulary import (
        COLUMN_OF_UNIT,
        TrainingText,
        Vocabulary,
        Words,
        count_ids,
        kept_rows,
        read_words,
        write_text,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
