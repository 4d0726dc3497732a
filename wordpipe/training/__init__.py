"""Training: from a stream of token ids to a trained model, exactly repeatable.

Read in this order: `settings`, `plan` (sizes, steps, learning rates), `token_stream` (documents → one file of ids → blocks in
an order), `objectives_and_masking` (blocks → inputs and targets), `seq2seq_pairs` (the same of pairs), `recipes` (what each
objective is made of), `cross_entropy`, `optimisers`, `processes` (several that train together), `execution` (device, number
format), `validation`, `snapshot`, `steps` (what a training consists of), `trainer` (the loop) and `learner` (what it trains).
`contrastive` has the learners of text encoders.

Everything that happens in step s is a function of (seed, s): the sequences, the masks, the dropout, the learning rate.
There is no iterator and no generator whose state would have to be saved, so a run that was killed and continued ends
with the same bytes as one that was not.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.cross_entropy import cross_entropy_sum
    from wordpipe.training.execution import Execution, LossScaler, make_execution, resolve_dtype
    from wordpipe.training.learner import LanguageLearner, ModelLearner, assemble, assemble_learner
    from wordpipe.training.objectives_and_masking import (
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
    from wordpipe.training.plan import (
        Plan,
        SpecialIds,
        learning_rate,
        make_plan,
        model_config,
        trained_shape,
        warmup_steps,
    )
    from wordpipe.training.processes import World, join_world
    from wordpipe.training.seq2seq_pairs import (
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
    from wordpipe.training.snapshot import (
        Snapshot,
        Tensors,
        diverged,
        load_snapshot,
        other_conditions,
        snapshot_files,
        threads_of_before,
    )
    from wordpipe.training.steps import UNTIL_DONE, Ending, Gradients, Measured, Step, Steps, bits_per_byte, perplexity
    from wordpipe.training.token_stream import (
        Blocks,
        Rows,
        Stream,
        WordStarts,
        block_order,
        causal_blocks,
        mapped,
        masked_blocks,
        open_ids,
        open_starts,
        pair_blocks,
        permute,
        row_starts,
        shuffled,
        spans,
        spread,
        unigram_entropy,
        write_streams,
    )
    from wordpipe.training.trainer import Trainer, resumed_trainer
    from wordpipe.training.validation import Scorer, Total, Validation
else:
    __getattr__, __dir__ = face(__name__, __file__)
