"""The objectives of language models, with all that each is made of: a file each, with its `RECIPE`; see `table`.

`mlm` hides tokens (also of two texts, BERT, ALBERT; and learns from a larger model, DistilBERT), `electra` finds the guesses
of a small masked model, `permutation` guesses tokens in a random order (XLNet), `clm` the next token, `denoising` what
`span_corruption` (T5) or `text_infilling` (BART) has damaged, `seq2seq` the second text of a pair. `data` says how their texts
are laid out.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.training.recipes.clm import Causal
    from wordpipe.training.recipes.data import SPLITS, Held, PairTexts, Texts
    from wordpipe.training.recipes.denoising import Denoising
    from wordpipe.training.recipes.electra import Electra, Replaced, generator_config, guesses, replaced, start_electra
    from wordpipe.training.recipes.mlm import (
        Distilled,
        MaskedBags,
        MaskedPairs,
        bag_shares,
        pair_accuracy,
        start_from_teacher,
        student_config,
    )
    from wordpipe.training.recipes.span_corruption import SpanCorruption, random_spans
    from wordpipe.training.recipes.table import NAMES, Opened, Recipe, fresh_config, recipe_for, recipe_named, recipe_of
    from wordpipe.training.recipes.text_infilling import TextInfilling
else:
    __getattr__, __dir__ = face(__name__, __file__)
