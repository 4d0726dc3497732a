"""Names of other programs are answered with ours, and no name with nonsense."""

import pytest

import wordpipe
from wordpipe.elsewhere import COMMANDS, SETTINGS, did_you_mean, meant
from wordpipe.errors import ConfigError
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import COMMANDS as STAGES
from wordpipe.stages import load_named

FIELDS = {name: {*load_named(command.settings).model_fields} for name, command in STAGES.items()}


@pytest.mark.parametrize(
    ("command", "theirs", "ours"),
    [
        ("train word2vec", "vector_size", "dim"), ("train word2vec", "size", "dim"),
        ("train word2vec", "sg", "architecture"),
        ("train word2vec", "iter", "epochs"), ("train word2vec", "alpha", "lr"), ("train word2vec", "sample", "subsample"),
        ("train word2vec", "workers", "threads"), ("train word2vec", "minCount", "min_count"),
        ("train word2vec", "ws", "window"),
        ("train word2vec", "negative", "negatives"), ("train word2vec", "min_alpha", "min_lr"),
        ("train mlm", "learning_rate", "lr"), ("train mlm", "hidden_size", "dim"),
        ("train mlm", "num_hidden_layers", "n_layers"),
        ("train mlm", "num_attention_heads", "n_heads"), ("train mlm", "per_device_train_batch_size", "batch_size"),
        ("train mlm", "num_train_epochs", "epochs"), ("train mlm", "max_length", "seq_len"),
        ("train mlm", "mlm_probability", "mask_rate"), ("train mlm", "intermediate_size", "ffn_dim"),
        ("train clm", "block_size", "seq_len"), ("train static", "learning_rate", "lr"),
        ("train classifier", "learning_rate", "lr"), ("embed", "batch_size", "batch_tokens"),
        ("index", "efSearch", "ef_search"),
        ("index", "M", "hnsw_m"), ("cluster", "n_clusters", "k"), ("cluster", "random_state", "seed"),
    ],
)  # fmt: skip
def test_other_programs_names(command, theirs, ours):
    found = did_you_mean(theirs, FIELDS[command])
    assert found.startswith(f"did you mean {ours}"), found
    with pytest.raises(ConfigError) as caught:
        load_named(STAGES[command].settings).make({theirs: 1})
    assert caught.value.hint == found


def test_what_a_value_is_here():
    assert did_you_mean("hs", FIELDS["train word2vec"]).startswith(
        "did you mean loss, negatives? (instead of hs = 1, use loss = hs; instead of hs = 0"
    )
    assert "sg = 1 is skipgram, sg = 0 is cbow" in did_you_mean("sg", FIELDS["train word2vec"])


@pytest.mark.parametrize("name", ["size", "zzz", "hs", "iter", "x" * 5_000, "", "ß", "verbose"])
def test_nothing_is_better_than_nonsense(name):
    for known in FIELDS.values():
        for found in meant(name, known):
            assert found in known
            assert found in SETTINGS.get(name, ())


def test_slips_are_answered_as_before():
    assert meant("vocab_sise", FIELDS["tokenize"]) == ["vocab_size"]
    assert meant("eopchs", FIELDS["train mlm"])[0] == "epochs"
    assert meant("n_layer", FIELDS["train mlm"]) == ["n_layers"]


def test_every_name_of_ours_in_the_table_is_one():
    options = {*QueryOptions.model_fields, "k", "output"}
    generation = {
        "max_tokens",
        "min_tokens",
        "beams",
        "n_best",
        "samples",
        "temperature",
        "top_k",
        "stop",
        "no_repeat_ngram",
    }
    ours = options.union(generation, *FIELDS.values()) | {"workers"}
    assert {one for names in SETTINGS.values() for one in names} <= ours
    assert {*COMMANDS.values()} <= {"query", "duplicates", "show"}


def test_the_command_line_says_options(cli, tmp_path):
    def hint(*arguments):
        return cli(*arguments, "-o", tmp_path / "o").err.splitlines()[1]

    assert "did you mean --lr? To see all options: wordpipe train mlm --help" in hint(
        "train", "mlm", "t", "--learning-rate", 1
    )
    assert "did you mean --dim? " in hint("train", "word2vec", "t", "--vector-size=3")
    assert "did you mean --set beta1=VALUE? " in hint("train", "mlm", "t", "--adam-beta1", 1)
    assert "did you mean -k? " in cli("query", "i", "x", "--top-k", 3).err


def test_keywords_and_files_say_settings(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown option 'top_k'\n  hint: did you mean k\?"):
        QueryOptions.make({"top_k": 3})
    with pytest.raises(ConfigError, match=r"unknown setting 'vector_size'\n  hint: did you mean dim\?"):
        wordpipe.train_word2vec(tmp_path, output=tmp_path / "o", vector_size=3)
    (tmp_path / "wordpipe.toml").write_text(
        '[stage.corpus]\ncommand = "ingest"\ninputs = ["a.txt"]\n[stage.tokens]\ncommand = "tokenize"\ninputs = ["corpus"]\n'
        'vocabulary_size = 9\n'
    )  # fmt: skip
    (tmp_path / "a.txt").write_text("A text.\n")
    with pytest.raises(ConfigError, match=r"did you mean vocab_size\?"):
        wordpipe.status(tmp_path / "wordpipe.toml")
