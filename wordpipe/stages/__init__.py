"""The stages: open artifacts, call the cores, publish. `registry` lists the commands, `job` is the frame they share."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.stages.copy_artifact import copy
    from wordpipe.stages.corpus.preview import Preview, preview, preview_of
    from wordpipe.stages.encode.cluster_duplicates import duplicates
    from wordpipe.stages.encoder_folder import imported_kind
    from wordpipe.stages.encoders import bundled_encoder, open_encoder, read_word_vectors
    from wordpipe.stages.estimate import (
        Estimate,
        Estimator,
        Size,
        size_of_artifact,
        size_of_sources,
        total,
    )
    from wordpipe.stages.evaluate.doctor import (
        NORMS,
        Figures,
        best_transform,
        diagnose,
        doctor,
        doctor_of,
        rate,
        unit_sample,
    )
    from wordpipe.stages.evaluate.language_model import evaluate_model
    from wordpipe.stages.evaluate.predictions import evaluate_predictions
    from wordpipe.stages.evaluate.retrieval import evaluate_retrieval, open_collection
    from wordpipe.stages.evaluate.search import evaluate_search
    from wordpipe.stages.evaluate.seq2seq import evaluate_seq2seq
    from wordpipe.stages.evaluate.sts import evaluate_sts, read_scored_pairs, read_sts_sets
    from wordpipe.stages.evaluate.tokenizer import evaluate_tokenizer
    from wordpipe.stages.evaluate.words import evaluate_words
    from wordpipe.stages.examine.attention import AttendedText, attend_in, attention
    from wordpipe.stages.examine.diff import diff
    from wordpipe.stages.examine.first_look import (
        dates_of,
        queries_to_begin_with,
        sample_answers,
        sizes_of_clusters,
        spread,
    )
    from wordpipe.stages.examine.map import map_of, map_words, pick_text_layout
    from wordpipe.stages.examine.map_texts import map_of_texts
    from wordpipe.stages.examine.plot import logged_runs, plot, run_figures
    from wordpipe.stages.examine.show import parameters, segment, show, verify
    from wordpipe.stages.export_encoder import encoder_files
    from wordpipe.stages.import_export import export, vectors_entry
    from wordpipe.stages.infer.fill import DenoisingFiller, Filled, Filler, fill, filler_of
    from wordpipe.stages.infer.generate import WINDOW, Target, TargetWriter, Writing, Written, answer_notes, generate
    from wordpipe.stages.infer.predict import Predictor, open_predictor, predict, predictor_of
    from wordpipe.stages.infer.reader_answers import FoundAnswer, ask, best_answers, open_passages
    from wordpipe.stages.inputs import file_entry, model_entry
    from wordpipe.stages.inspected_models import Inspected, inspected_of, is_transformer
    from wordpipe.stages.job import Made, PathLike, RunOptions, open_job, storage_error, storage_errors
    from wordpipe.stages.models import OpenModel, model_of, open_model
    from wordpipe.stages.python_calls import Keyword, documented, keywords_of, public
    from wordpipe.stages.registry import COMMANDS, GROUPS, TABLE, Argument, Maker, load_named, public_names
    from wordpipe.stages.search.answer_list import CsvAnswers, csv_line, less_related_from
    from wordpipe.stages.search.asked_query import ChosenMode, QueryResult, choose_modes
    from wordpipe.stages.search.index_in_folder import CONFIG, changed_input, index_in
    from wordpipe.stages.search.index_lexical import QUERIES_MEASURED
    from wordpipe.stages.search.opened_artifact import OpenArtifact, OpenIndex
    from wordpipe.stages.search.opened_words_and_tables import (
        OpenClusters,
        OpenEncoder,
        OpenSentences,
        OpenTable,
        OpenWords,
    )
    from wordpipe.stages.search.opening import open_artifact, query, why_apart
    from wordpipe.stages.search.passages import (
        Passage,
        PassageFinder,
        best_passage,
        field_passages,
        fields_beside,
        flowing_pieces,
        pieces_of,
        shown_hit,
    )
    from wordpipe.stages.search.previous_index import IndexVectors, bundled_keys
    from wordpipe.stages.search.query import OpenTextIndex
    from wordpipe.stages.search.search_sources import (
        CachedSearch,
        cached_searches,
        clear_searches,
        files_passed_over,
        open_sources,
        remark_on_documents,
        search_texts,
    )
    from wordpipe.stages.sources import entries_of, fetched, names_url, prepared
    from wordpipe.stages.time_plan import plan
    from wordpipe.stages.train.finish import finish
    from wordpipe.stages.train.word2vec import TrainingRun
else:
    __getattr__, __dir__ = face(__name__, __file__)
