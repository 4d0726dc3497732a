"""Heads: what a trained transformer is taught to say of texts, and how it says it.

Read in this order: `settings`, `tags` (tags of words and the spans they mean), `labels` (what the records are labelled as),
`examples` (records → ids and targets, on disk), `targets` (a batch and its loss), `learner` (what the trainer trains),
`calibration` (probabilities that mean something, thresholds), `predict` (texts → labels, spans).
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.heads.calibration import (
        calibration_error,
        choose_temperature,
        choose_thresholds,
        log_loss,
        probabilities_of,
    )
    from wordpipe.heads.examples import (
        IGNORED,
        Encoded,
        ExampleWriter,
        LabelledExamples,
        Rows,
        TextEncoder,
        open_examples,
        words_of,
    )
    from wordpipe.heads.labels import Contradictions, LabelCounts, balanced_weights, is_held_out
    from wordpipe.heads.learner import HeadLearner, head_trainer, layered_optimiser
    from wordpipe.heads.predict import Classified, Classifier, Prediction, Tagged, TaggedSpan, Tagger
    from wordpipe.heads.tags import Chunk, best_tags, chunks_of, tag_vocabulary
    from wordpipe.heads.targets import HeadObjective, HeadTargets, head_loss_sum
else:
    __getattr__, __dir__ = face(__name__, __file__)
