"""Measures of quality: arrays in, numbers out."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.metrics.attention import (
        LOOKS,
        HeadLooks,
        join_words,
        name_head,
        rollout,
        words_of_tokens,
    )
    from wordpipe.metrics.figures import (
        MEASURES,
        SIGNIFICANT,
        Apart,
        Evaluation,
        Figure,
        Measured,
        Part,
        System,
        Table,
        beside_models,
        in_json,
        json_of,
        listed,
        rounded,
        side_by_side,
        table_of_labels,
        written,
    )
    from wordpipe.metrics.scores import (
        INSTALL_SACREBLEU,
        LabelScore,
        QueryFigures,
        answer_f1,
        bleu_score,
        bleu_statistics,
        chrf_score,
        chrf_statistics,
        exact_match,
        f1_of,
        has_sacrebleu,
        label_score,
        label_statistics,
        macro_f1_of,
        micro_score,
        most_confused,
        normalise_answer,
        ratio_of,
        right_given_there,
        rouge_l,
        score_ranking,
        signatures,
        trec_order,
    )
    from wordpipe.metrics.statistics import (
        average_ranks,
        correlation_interval,
        correlation_of,
        correlation_statistics,
        mean_interval,
        paired_difference,
        paired_score_difference,
        pearson,
        score_interval,
        spearman,
    )
    from wordpipe.metrics.vectors import (
        SCORES_AT_ONCE,
        effective_rank,
        has_direction,
        hubs,
        largest_columns,
        mean_cosine,
        nearest_rows,
        neighbour_overlap,
        recall_at_k,
        unit_rows,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
