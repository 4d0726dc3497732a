"""The settings of both encoders' trainings: shares of pairs, what cannot stand together, and the plan they come to."""

from typing import Any

import pytest

from wordpipe.errors import ConfigError
from wordpipe.training.contrastive import pair_plan, pairs
from wordpipe.training.contrastive.settings import KINDS, ContrastiveSettings, EncoderSettings, StaticSettings

TABLE, BERT = StaticSettings, ContrastiveSettings
BOTH = pytest.mark.parametrize("encoder", [TABLE, BERT])


@pytest.mark.parametrize("goal", ["similarity", "search"])
@BOTH
@pytest.mark.parametrize("pairs", [None, "pairs.jsonl"])
def test_shares_add_up(goal: str, encoder: type[EncoderSettings], pairs: str | None) -> None:
    shares = encoder.make({"goal": goal, "pairs": pairs}).shares
    assert [*shares] == [*KINDS]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["pairs"] == (0.5 if pairs else 0)


@BOTH
def test_shares_that_are_given_replace_those_of_the_goal(encoder: type[EncoderSettings]) -> None:
    shares = encoder.make({"pair_title": 0.6, "pair_crop": 0.2}).shares
    assert shares["title"] == pytest.approx(0.75)
    assert shares["crop"] == pytest.approx(0.25)
    assert shares["deletion"] == 0


@pytest.mark.parametrize(
    ("encoder", "values", "word"),
    [
        (TABLE, {"steps": 5, "epochs": 1}, "each of them sets the length"),
        (BERT, {"pair_file": 0.5}, "needs a file of pairs"),
        (TABLE, {"pair_crop": 0.0}, "all shares of pairs are 0"),
        (BERT, {"temperature": 0}, "temperature"),
        (TABLE, {"pair_crop": 2}, "pair_crop"),
        (TABLE, {"init": "a", "words": "b"}, "set only one of init and words"),
        (BERT, {"init": "a", "init_embeddings": "b"}, "set only one of init and init_embeddings"),
        (BERT, {"init": "a", "dim": 64, "n_layers": 2}, "dim, n_layers cannot be set together with init"),
        (BERT, {"teacher_temperature": 0.1}, "has no effect, because no teacher is given"),
    ],
)
def test_what_cannot_stand_together_is_named(
    encoder: type[EncoderSettings], values: dict[str, object], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        encoder.make(values)


@pytest.mark.parametrize(
    ("encoder", "values", "said"),
    [
        (BERT, {"encoder": "static"}, 'command = "train static"'),
        (TABLE, {"encoder": "transformer"}, "wordpipe train contrastive for a transformer"),
        (TABLE, {"preset": "tiny"}, "unknown setting 'preset': this setting belongs to wordpipe train contrastive"),
        (TABLE, {"pair_dropout": 0.5}, "'pair_dropout': this setting belongs to wordpipe train contrastive"),
        (BERT, {"lsi_weight": 1.0}, "'lsi_weight': this setting belongs to wordpipe train static"),
    ],
)
def test_a_setting_of_the_other_encoder_is_answered_with_its_command(encoder, values, said):
    with pytest.raises(ConfigError, match=said) as caught:
        encoder.make(values)
    assert caught.value.hint is None


def test_the_numbers_of_kinds_are_their_places() -> None:
    assert [getattr(pairs, kind.upper()) for kind in KINDS] == [*range(len(KINDS))]


@pytest.mark.parametrize(
    ("encoder", "idle", "beside", "awake"),
    [
        (TABLE, {"lsi_dim": 8}, {}, {"lsi_weight": 1.0}),
        (TABLE, {"lexical_dim": 8}, {"lexical_weight": 0.0}, {"lexical_weight": 1.0}),
        (TABLE, {"words_weight": 0.5}, {}, {"words": "w"}),
        *[
            (TABLE, {name: value}, {"init": "m"}, {"init": None})
            for name, value in {
                "lexical_weight": 0.5, "lexical_dim": 8, "lsi_weight": 1.0, "weighting": "idf", "sif_a": 0.1,
            }.items()
        ],
        (TABLE, {"sif_a": 0.1}, {"goal": "search"}, {"weighting": "sif"}),
        (BERT, {"sif_a": 0.1}, {"pooling": "mean"}, {"pooling": "weighted"}),
        (BERT, {"sif_a": 0.1}, {"init": "m"}, {"pooling": "weighted"}),
        (TABLE, {"min_count": 3}, {"unit": "token"}, {"unit": "word"}),
        (TABLE, {"decay": 0.1}, {}, {"schedule": "wsd"}),
        (BERT, {"min_lr_frac": 0.5}, {"schedule": "constant"}, {"schedule": "noam"}),
    ],
)  # fmt: skip
def test_settings_that_would_change_nothing_are_refused_where_they_are_given(encoder, idle, beside, awake):
    with pytest.raises(ConfigError, match=f"{next(iter(idle))}.* has no effect"):
        encoder.make(beside | idle)
    encoder.make(beside)
    assert encoder.make(beside | awake | idle).model_fields_set >= idle.keys()


@pytest.mark.parametrize(
    ("values", "steps"),
    [({}, 200), ({"epochs": 2}, 200), ({"epochs": 0.001}, 1), ({"steps": 7}, 7), ({"batch_size": 16}, 800)],
)
def test_the_length_of_a_training_follows_from_the_text(values, steps):
    plan = pair_plan(BERT.make(values), 12_800)
    assert plan.steps == steps
    assert plan.lr_at(plan.steps - 1) <= plan.lr
    assert plan.eval_every == max(1, -(-steps // 5))


def test_a_file_of_pairs_enters_the_recipe_by_its_content():
    here, there = (BERT.make({"pairs": f"{folder}/pairs.jsonl"}).recipe() for folder in ("here", "there"))
    assert here == there
    assert here != BERT.make({}).recipe()


def test_a_share_of_the_table_that_is_written_out_changes_no_recipe():
    assert TABLE.make({"goal": "search", "lsi_weight": 1.0, "min_count": 1}).recipe() == TABLE.make(
        {"goal": "search"}
    ).recipe()  # fmt: skip


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ({}, {"neighbour": 0.5, "deletion": 0.5}),
        ({"init": "model"}, {"dropout": 1.0}),
        ({"goal": "search"}, {"crop": 0.7, "title": 0.3}),
        ({"pair_dropout": 2 / 4, "pair_crop": 1 / 2}, {"dropout": 0.5, "crop": 0.5}),
        ({"pair_dropout": 0.0, "pair_crop": 1.0}, {"crop": 1.0}),
        ({"pairs": "pairs.jsonl"}, {"neighbour": 0.25, "deletion": 0.25, "pairs": 0.5}),
    ],
)
def test_what_a_transformer_learns_from_depends_on_what_it_starts_from(values, shares):
    assert {kind: share for kind, share in BERT.make(values).shares.items() if share} == pytest.approx(shares)


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
def test_the_steps_of_a_text(given: dict[str, Any], n_pairs: int, expected: int) -> None:
    assert pair_plan(TABLE.make({"batch_size": PAIRS} | given), n_pairs).steps == expected


@pytest.mark.parametrize(
    ("encoder", "given", "n_pairs", "expected"),
    [
        (TABLE, {}, 10, 10),
        (TABLE, {}, 1, 2),
        (BERT, {}, 100, 100),
        (TABLE, {}, 1_023, 1_023),
        (TABLE, {}, 1_024, 1_024),
        (TABLE, {}, 10**6, 1_024),
        (BERT, {}, 10**6, 128),
        (TABLE, {"batch_size": 64}, 10, 64),
        (TABLE, {"pairs": "pairs.jsonl"}, 10, 1_024),  # the file may have more
    ],
)
def test_a_step_has_no_more_pairs_than_there_are_sentences(encoder, given, n_pairs, expected):
    plan = pair_plan(encoder.make(given), n_pairs)
    assert plan.batch_size == expected
    if n_pairs < 10**6:
        assert plan.steps == 200
