"""What can stand together in the settings of both encoders, and what they come to."""

import pytest

from wordpipe.errors import ConfigError
from wordpipe.training.contrastive import pair_plan
from wordpipe.training.contrastive.settings import ContrastiveSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "tiny"}, "preset cannot be chosen for encoder = static: give encoder = transformer"),
        ({"encoder": "transformer", "lsi_weight": 1.0}, "lsi_weight cannot be chosen for encoder = transformer"),
        ({"encoder": "transformer", "init": "a", "init_embeddings": "b"}, "init and init_embeddings both say"),
        ({"encoder": "transformer", "init": "a", "dim": 64, "n_layers": 2}, "dim, n_layers cannot be chosen here"),
        ({"encoder": "transformer", "teacher_temperature": 0.1}, "mean nothing without a teacher"),
    ],
)
def test_settings_that_mean_nothing_together_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ContrastiveSettings.make(values)


BERT = {"encoder": "transformer"}


@pytest.mark.parametrize(
    ("idle", "beside", "awake"),
    [
        ({"lsi_dim": 8}, {}, {"lsi_weight": 1.0}),
        ({"lexical_dim": 8}, {"lexical_weight": 0.0}, {"lexical_weight": 1.0}),
        ({"words_weight": 0.5}, {}, {"words": "w"}),
        *[
            ({name: value}, {"init": "m"}, {"init": None})
            for name, value in {
                "lexical_weight": 0.5, "lexical_dim": 8, "lsi_weight": 1.0, "weighting": "idf", "sif_a": 0.1,
            }.items()
        ],
        ({"sif_a": 0.1}, {"goal": "search"}, {"weighting": "sif"}),
        ({"sif_a": 0.1}, BERT | {"pooling": "mean"}, {"pooling": "weighted"}),
        ({"sif_a": 0.1}, BERT | {"init": "m"}, {"pooling": "weighted"}),
        ({"min_count": 3}, {"unit": "token"}, {"unit": "word"}),
        ({"decay": 0.1}, {}, {"schedule": "wsd"}),
        ({"min_lr_frac": 0.5}, {"schedule": "constant"}, {"schedule": "noam"}),
        ({"pair_dropout": 0.5}, {"pair_crop": 0.5}, BERT),
    ],
)  # fmt: skip
def test_settings_that_would_change_nothing_are_refused_where_they_are_given(idle, beside, awake):
    with pytest.raises(ConfigError, match=f"{next(iter(idle))}.* would change nothing"):
        ContrastiveSettings.make(beside | idle)
    ContrastiveSettings.make(beside)
    assert ContrastiveSettings.make(beside | awake | idle).model_fields_set >= idle.keys()


def test_no_share_is_no_wish():
    assert ContrastiveSettings.make({"pair_dropout": 0.0, "pair_crop": 1.0}).shares["crop"] == 1.0


@pytest.mark.parametrize(
    ("values", "steps"),
    [({}, 200), ({"epochs": 2}, 200), ({"epochs": 0.001}, 1), ({"steps": 7}, 7), ({"batch_size": 16}, 800)],
)
def test_the_length_of_a_training_follows_from_the_text(values, steps):
    settings = ContrastiveSettings.make({"encoder": "transformer"} | values)
    plan = pair_plan(settings, 12_800)
    assert plan.steps == steps
    assert plan.lr_at(plan.steps - 1) <= plan.lr
    assert plan.eval_every == max(1, -(-steps // 5))


def test_a_file_of_pairs_enters_the_recipe_by_its_content():
    here, there = (
        ContrastiveSettings.make({"pairs": f"{folder}/pairs.jsonl"}).recipe() for folder in ("here", "there")
    )
    assert here == there
    assert here != ContrastiveSettings.make({}).recipe()


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ({}, {"neighbour": 0.5, "deletion": 0.5}),
        ({"init": "model"}, {"dropout": 1.0}),
        ({"goal": "search"}, {"crop": 0.7, "title": 0.3}),
        ({"pair_dropout": 2 / 4, "pair_crop": 1 / 2}, {"dropout": 0.5, "crop": 0.5}),
        ({"pairs": "pairs.jsonl"}, {"neighbour": 0.25, "deletion": 0.25, "pairs": 0.5}),
    ],
)
def test_what_a_transformer_learns_from_depends_on_what_it_starts_from(values, shares):
    settings = ContrastiveSettings.make({"encoder": "transformer"} | values)
    assert {kind: share for kind, share in settings.shares.items() if share} == pytest.approx(shares)
