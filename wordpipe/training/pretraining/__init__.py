"""Further objectives of encoders: two texts in a sequence, replaced tokens, a random order, a teacher.

`text_pairs` guesses how two texts belong together (BERT, ALBERT), `replaced_tokens` finds the guesses of a small masked model
(ELECTRA), `distillation` learns from a larger model (DistilBERT): each is masked language modelling with something beside it.
`permutation` guesses tokens in a random order (XLNet).
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.pretraining.distillation import (
        Distilled,
        DistilledTargets,
        distilled_loss_sum,
        start_from_teacher,
        student_config,
    )
    from wordpipe.training.pretraining.permutation import PermutationTargets, Permuted
    from wordpipe.training.pretraining.replaced_tokens import (
        Replaced,
        ReplacedTargets,
        guesses,
        replaced,
        replaced_loss_sum,
        replaced_measure,
    )
    from wordpipe.training.pretraining.text_pairs import MaskedPairs, pair_accuracy, pair_measure
else:
    __getattr__, __dir__ = face(__name__, __file__)
