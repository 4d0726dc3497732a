"""Heads: a trained transformer, or word vectors, learn to label texts, to tag words, to find answers.

Here they learn and predict; `model/heads.py` is the layer above a transformer, `stages/train/heads.py` the command.

Read in this order: `settings`, `labels` (what texts and words are labelled as, and the spans that tags mean), `examples`
(records → ids and targets on disk → batches and their loss), `learner` (what the trainer trains),
`calibration` (probabilities that mean something, thresholds), `predict` (texts → labels, spans), `reader` (questions and
passages → windows → answers) and `baselines` (what does without a transformer).
Of word vectors instead of a transformer: `static_model` (texts as bags, and what is said of them, without torch) and
`static_learner`.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.heads.baselines import Gazetteer, TfidfModel, best_sentence, commonest
    from wordpipe.heads.calibration import (
        calibration_error,
        choose_no_answer,
        choose_temperature,
        choose_thresholds,
        log_loss,
        probabilities_of,
    )
    from wordpipe.heads.examples import (
        IGNORED,
        Encoded,
        ExampleWriter,
        HeadObjective,
        HeadTargets,
        LabelledExamples,
        Rows,
        TextEncoder,
        head_loss_sum,
        open_examples,
    )
    from wordpipe.heads.labels import (
        Chunk,
        Contradictions,
        LabelCounts,
        balanced_weights,
        best_tags,
        chunks_of,
        is_held_out,
        is_no_score,
        tag_vocabulary,
        words_of,
    )
    from wordpipe.heads.learner import HeadLearner, SeenRows, head_trainer, layered_optimiser
    from wordpipe.heads.predict import Answered, Classified, Classifier, Prediction, Tagged, TaggedSpan, Tagger
    from wordpipe.heads.reader import (
        Candidates,
        Passage,
        PassageEncoder,
        Reader,
        Reading,
        Window,
        answered,
        best_candidates,
        whole_in_one,
    )
    from wordpipe.heads.static_learner import (
        RowEncoder,
        RowsLearner,
        StaticModel,
        static_trainer,
    )
    from wordpipe.heads.static_model import (
        StaticClassifier,
        StaticHead,
        StaticHeadConfig,
        StaticTagger,
        UnitCounts,
        UnitRows,
        bags_of,
        counted,
        extended,
        is_pair,
        is_static_head,
        read_static_config,
        read_static_head,
        static_head_files,
        text_units,
        word_units,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
