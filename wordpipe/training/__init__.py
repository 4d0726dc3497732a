"""Training: from a stream of token ids to a trained model, exactly repeatable.

Read in this order: `settings`, `plan` (sizes, steps, learning rates), `token_stream` (documents → one file of ids),
`sequences` (that file → blocks in an order), `objectives` (blocks → inputs and targets), `pair_targets` (the same of pairs),
`recipes` (what each objective is made of), `cross_entropy`, `optimisers`, `precision` (device and number format),
`validation`, `distributed` (several processes), `checkpoint`, `trainer` (the loop) and `learner` (what it trains).
`contrastive` has the learners of text encoders.

Everything that happens in step s is a function of (seed, s): the sequences, the masks, the dropout, the learning rate.
There is no iterator and no generator whose state would have to be saved, so a run that was killed and continued ends
with the same bytes as one that was not.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.checkpoint import (
        Snapshot,
        Tensors,
        diverged,
        load_snapshot,
        other_conditions,
        snapshot_files,
        threads_of_before,
    )
    from wordpipe.training.cross_entropy import cross_entropy_sum
    from wordpipe.training.distributed import World, join_world
    from wordpipe.training.learner import LanguageLearner, ModelLearner, assemble, assemble_learner
    from wordpipe.training.objectives import (
        RATE_STEPS,
        AnyTargets,
        LanguageObjective,
        Masked,
        Targets,
        choose,
        loss_sum,
        span_lengths,
        span_units,
        take,
        word_numbers,
        word_units,
    )
    from wordpipe.training.optimisers import (
        Muon,
        clip_gradients,
        load_optimiser,
        make_optimiser,
        optimiser_tensors,
        orthogonalise,
    )
    from wordpipe.training.pair_targets import (
        Continuations,
        Flat,
        PairBlocks,
        PairRows,
        Pairs,
        PairTargets,
        PairWriter,
        SecondTexts,
        open_pairs,
    )
    from wordpipe.training.plan import (
        Plan,
        SpecialIds,
        learning_rate,
        make_plan,
        model_config,
        trained_shape,
        warmup_steps,
    )
    from wordpipe.training.precision import Execution, LossScaler, make_execution, resolve_dtype
    from wordpipe.training.sequences import (
        Blocks,
        Rows,
        block_order,
        causal_blocks,
        masked_blocks,
        pair_blocks,
        permute,
        shuffled,
        spread,
    )
    from wordpipe.training.token_stream import (
        Stream,
        WordStarts,
        open_ids,
        open_starts,
        row_starts,
        unigram_entropy,
        write_streams,
    )
    from wordpipe.training.trainer import UNTIL_DONE, Ending, Gradients, Measured, Step, Trainer
    from wordpipe.training.validation import Scorer, Total, Validation, bits_per_byte, perplexity
else:
    __getattr__, __dir__ = face(__name__, __file__)
