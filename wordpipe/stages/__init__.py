"""One file per verb: open artifacts, call the cores, publish. `catalog` lists the verbs, `making` is the frame they share."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.stages.catalog import VERBS, Argument, Verb
    from wordpipe.stages.contrast import train_contrastive
    from wordpipe.stages.doctor import NORMS, Figures, Sample, best_transform, diagnose, judge, unit_sample
    from wordpipe.stages.encoders import carried_encoder, open_encoder
    from wordpipe.stages.evaluate import evaluate_tokenizer
    from wordpipe.stages.evaluate_retrieval import open_collection
    from wordpipe.stages.evaluate_sts import read_sts_sets
    from wordpipe.stages.export import export_words
    from wordpipe.stages.export_encoder import encoder_files, is_of_head, without_tensors
    from wordpipe.stages.generate import Filled, Filler, Writing, fill
    from wordpipe.stages.index_update import IndexVectors, carried_keys
    from wordpipe.stages.init import write_project
    from wordpipe.stages.inputs import entries_of, file_entry, model_entry
    from wordpipe.stages.inspect import show, verify
    from wordpipe.stages.making import Made, PathLike, RunOptions, storage_error
    from wordpipe.stages.map import map_words
    from wordpipe.stages.models import OpenModel, open_model
    from wordpipe.stages.open_index import Route, routes_of
    from wordpipe.stages.plot import told
    from wordpipe.stages.pretrain import train_clm, train_mlm
    from wordpipe.stages.query import Answers, Ask, Opened, open_artifact
    from wordpipe.stages.row_vectors import RowVectors
    from wordpipe.stages.word2vec import train_word2vec
    from wordpipe.stages.word_training import TrainingRun
    from wordpipe.stages.word_vectors import read_word_vectors
else:
    __getattr__, __dir__ = face(__name__, __file__)
