"""Contrastive training: two texts that belong together should be nearer to each other than to anything else.

Read in this order, of both encoders: `settings`, `pair_text` (rows → flat files of ids on disk), `pairs` (which texts and
words of them a step has, compiled), `info_nce` (the loss). Of a static table: `static_table` (its first values
and its last ones), `distillation` (first values that another
encoder teaches), `contrast_of_sums` (the loss without torch), `static_learner`. Of a transformer: `transformer_learner`,
and `linear_map` (a layer behind one whose weights rest).

As in the other trainings, everything that happens in step s is a function of (seed, s): which pairs, which words of them
are left out, the learning rate.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.contrastive.contrast_of_sums import Threads, contrast, found_share, same_texts
    from wordpipe.training.contrastive.distillation import distilled_table, held_words, nearness
    from wordpipe.training.contrastive.info_nce import false_negatives, info_nce_loss, nearest_share, relational_loss
    from wordpipe.training.contrastive.linear_map import STEPS, Learned, learned_map
    from wordpipe.training.contrastive.pair_text import (
        FilePairs,
        PairText,
        read_pair_file,
        rows_of,
        write_pair_text,
        write_ragged,
    )
    from wordpipe.training.contrastive.pairs import PairBatch, Pairs, Ragged, held_out_pairs
    from wordpipe.training.contrastive.static_learner import RowAdam, StaticLearner
    from wordpipe.training.contrastive.static_table import (
        Finish,
        continued_table,
        count_stems,
        join_compounds,
        joined_parts,
        lexical_part,
        lsi_part,
        near_their_stems,
        passage_weights,
        spelled_part,
        word_weights,
    )
    from wordpipe.training.contrastive.transformer_learner import (
        ContrastLearner,
        Framing,
        TeacherVectors,
        assemble_encoder,
        joined,
        rows_at,
        text_vectors,
    )
    from wordpipe.training.plan import pair_plan
    from wordpipe.training.trainer import pair_trainer
else:
    __getattr__, __dir__ = face(__name__, __file__)
