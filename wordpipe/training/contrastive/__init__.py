"""Contrastive training: two texts that belong together should be nearer to each other than to anything else.

Read in this order, of both encoders: `settings`, `pairs` (rows → flat files of ids on disk → pairs), `pair_kernels` (the
compiled choice of pieces), `info_nce` (the loss). Of a static table: `static_table` (what it begins as), `row_adam` (the
optimiser of touched rows), `static`. Of a transformer: `transformer`.

As in the other trainings, everything that happens in step s is a function of (seed, s): which pairs, which words of them
are left out, the learning rate.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.contrastive.info_nce import false_negatives, info_nce_loss, nearest_share, relational_loss
    from wordpipe.training.contrastive.pair_text import (
        FilePairs,
        PairText,
        read_pair_file,
        rows_of,
        write_pair_text,
        write_ragged,
    )
    from wordpipe.training.contrastive.pairs import PairBatch, Pairs, Ragged, held_out_pairs
    from wordpipe.training.contrastive.static import RowAdam, StaticLearner
    from wordpipe.training.contrastive.static_table import (
        Stem,
        count_stems,
        join_compounds,
        joined_parts,
        lexical_part,
        lsi_part,
        near_their_stems,
        passage_weights,
        word_weights,
    )
    from wordpipe.training.contrastive.transformer import (
        Contrasting,
        ContrastLearner,
        Framing,
        Teacher,
        assemble_encoder,
        encoder_plan,
        joined,
        pool_packed,
        rows_at,
        start_as_mean,
        text_vectors,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
