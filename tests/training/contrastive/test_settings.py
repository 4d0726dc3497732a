"""The settings of contrastive training: shares of pairs, what cannot stand together, and the plan they come to."""

import pytest

from wordpipe.errors import ConfigError
from wordpipe.training.contrastive import pair_plan, pairs
from wordpipe.training.contrastive.settings import KINDS, ContrastiveSettings


@pytest.mark.parametrize("goal", ["similarity", "search"])
@pytest.mark.parametrize("encoder", ["static", "transformer"])
@pytest.mark.parametrize("pairs", [None, "pairs.jsonl"])
def test_shares_add_up(goal: str, encoder: str, pairs: str | None) -> None:
    shares = ContrastiveSettings.make({"goal": goal, "encoder": encoder, "pairs": pairs}).shares
    assert [*shares] == [*KINDS]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["pairs"] == (0.5 if pairs else 0)


def test_shares_that_are_given_replace_those_of_the_goal() -> None:
    shares = ContrastiveSettings.make({"pair_title": 0.6, "pair_crop": 0.2}).shares
    assert shares["title"] == pytest.approx(0.75)
    assert shares["crop"] == pytest.approx(0.25)
    assert shares["deletion"] == 0


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"steps": 5, "epochs": 1}, "both say how long"),
        ({"pair_file": 0.5}, "needs pairs"),
        ({"pair_crop": 0.0}, "no kind of pair"),
        ({"temperature": 0}, "temperature"),
        ({"pair_crop": 2}, "pair_crop"),
    ],
)
def test_what_cannot_stand_together_is_named(values: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        ContrastiveSettings.make(values)


def test_the_numbers_of_kinds_are_their_places() -> None:
    assert [getattr(pairs, kind.upper()) for kind in KINDS] == [*range(len(KINDS))]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "tiny"}, "preset cannot be chosen for encoder = static: give encoder = transformer"),
        ({"encoder": "transformer", "lsi_weight": 1.0}, "lsi_weight cannot be chosen for encoder = transformer"),
        ({"encoder": "transformer", "init": "a", "init_embeddings": "b"}, "init and init_embeddings both say"),
        ({"encoder": "transformer", "init": "a", "dim": 64, "n_layers": 2}, "dim, n_layers cannot be chosen here"),
        ({"encoder": "transformer", "teacher_temperature": 0.1}, "would change nothing: there is no teacher"),
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


PAIRS = 640


@pytest.mark.parametrize(
    ("given", "n_pairs", "expected"),
    [
        ({"steps": 7}, 40 * PAIRS, 7),
        ({"epochs": 2.5}, 40 * PAIRS, 100),
        ({"epochs": 1}, 40 * PAIRS + 1, 41),  # the last pair is not left out
        ({"epochs": 1.1}, 10 * PAIRS, 11),
        ({"epochs": 0.001}, 40 * PAIRS, 1),
        ({}, 40 * PAIRS, 200),
        ({}, 300 * PAIRS - 1, 300),
    ],
)
@pytest.mark.parametrize("encoder", ["static", "transformer"])
def test_the_steps_of_a_text(encoder: str, given: dict[str, float], n_pairs: int, expected: int) -> None:
    settings = ContrastiveSettings.make({"encoder": encoder, "batch_size": PAIRS} | given)
    assert pair_plan(settings, n_pairs).steps == expected


@pytest.mark.parametrize(
    ("given", "n_pairs", "expected"),
    [
        ({}, 10, 10),
        ({}, 1, 2),
        ({"encoder": "transformer"}, 100, 100),
        ({}, 1_023, 1_023),
        ({}, 1_024, 1_024),
        ({}, 10**6, 1_024),
        ({"encoder": "transformer"}, 10**6, 128),
        ({"batch_size": 64}, 10, 64),
        ({"pairs": "pairs.jsonl"}, 10, 1_024),  # the file may have more
    ],
)
def test_a_step_has_no_more_pairs_than_there_are_sentences(given, n_pairs, expected):
    plan = pair_plan(ContrastiveSettings.make(given), n_pairs)
    assert plan.batch_size == expected
    if n_pairs < 10**6:
        assert plan.steps == 200
