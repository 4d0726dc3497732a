"""`tokenize` in shards: the same bytes whatever the threads, the memory and the kills; what was finished stays finished."""

import json
import random
import signal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import wordpipe
from tests.support.small_shards import SMALL
from wordpipe.artifacts import Artifact, tables
from wordpipe.errors import BudgetError, ConfigError, InputError
from wordpipe.stages.corpus import tokenize_shards
from wordpipe.tokens import WordSplitter, run_splitter

SETTINGS = {"vocab_size": 600}
KINDS = ("pretokens", "words")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, handbook):
    """The handbook and some text in other scripts, in many row groups."""
    root = tmp_path_factory.mktemp("corpus")
    other = root / "other.txt"
    other.write_text(
        "Быстрая лиса прыгает через ленивую собаку. Собака спит.\n\n东京は日本の首都です。人口が多い。\n\n"
        "The [MASK] and the [PAD] stand here as text. naïve café, ﬁne ①\n\nภาษาไทยไม่มีช่องว่างระหว่างคำ\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
        wordpipe.ingest([handbook, other], output=root / "corpus", documents="block")
    return root / "corpus"


@pytest.fixture
def in_shards(monkeypatch):
    monkeypatch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)
        wordpipe.tokenize(corpus, output=root / "tokens", **SETTINGS)
    return root / "tokens"


def digest_of(folder):
    assert wordpipe.verify(folder)["ok"]
    return json.loads((folder / "manifest.json").read_bytes())["digest"]


def rows_of(folder, table="tokens"):
    return pq.read_table(sorted(folder.glob(f"{table}*.parquet"))).to_pylist()


def test_ids_are_those_of_the_tokenizer_file_and_words_those_of_the_splitter(corpus, undisturbed):
    tokenizer = Tokenizer.from_file(str(undisturbed / "tokenizer.json"))
    split = WordSplitter(run_splitter(tokenizer))
    words = [row["word"] for row in rows_of(undisturbed, "words")]
    texts, rows = rows_of(corpus, "corpus"), rows_of(undisturbed)
    assert len(list(undisturbed.glob("tokens-*.parquet"))) > 3
    assert len(rows) == len(texts)
    for text, row in zip(texts, rows, strict=True):
        assert row["ids"] == tokenizer.encode(text["text"], add_special_tokens=False).ids
        assert [words[number] for number in row["word_ids"]] == split(text["text"])
        assert (row["doc_id"], row["sentence_id"]) == (text["doc_id"], text["sentence_id"])


def test_words_are_counted(undisturbed):
    counts = np.bincount([number for row in rows_of(undisturbed) for number in row["word_ids"]])
    assert [row["count"] for row in rows_of(undisturbed, "words")] == counts.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("memory", ["1GB", "70MB"])
def test_the_bytes_do_not_depend_on_workers_or_memory(corpus, undisturbed, in_shards, tmp_path, workers, memory):
    run = wordpipe.RunOptions(workers=workers)
    wordpipe.tokenize(corpus, output=tmp_path / "tokens", run=run, memory=memory, **SETTINGS)
    assert digest_of(tmp_path / "tokens") == digest_of(undisturbed)


@pytest.mark.landing
@pytest.mark.parametrize(
    "algorithm", ["bpe", "wordpiece", pytest.param("unigram", marks=pytest.mark.slow), "word", "char"]
)
def test_every_algorithm_gives_the_same_bytes_twice(corpus, tmp_path, algorithm):
    digests = {
        wordpipe.tokenize(corpus, output=tmp_path / name, algorithm=algorithm, vocab_size=700).digest for name in "ab"
    }
    assert len(digests) == 1


@pytest.mark.landing
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_killed_runs_continue_and_finished_shards_are_not_done_twice(corpus, undisturbed, nursery, tmp_path, seed):
    rng = random.Random(seed)
    output, partial = tmp_path / "tokens", tmp_path / ".tokens.partial"
    call = ("tests.support.small_shards:tokenize", str(corpus), str(output), json.dumps(SETTINGS))

    def attempt(failpoint: str) -> int:
        return nursery.start(*call, WORDPIPE_FAILPOINT=failpoint).wait()

    finished: dict[str, int] = {}
    for _ in range(3):
        assert attempt(f"resume_cache.file_finished:kill:{rng.randint(1, 6)}") == -signal.SIGKILL
        counted = tuple(f"{kind}-{path.stem[-5:]}" for path in partial.glob("counted-*.json") for kind in KINDS)
        whole = [path for path in partial.glob("*.parquet") if path.name.startswith((*counted, "tokens-"))]
        now = {path.name: path.stat().st_ino for path in whole if Path(f"{path}.json").exists()}
        assert finished.items() <= now.items(), "what was finished was written again"
        finished = now
    assert attempt("nowhere:kill") == 0
    assert digest_of(output) == digest_of(undisturbed)
    assert not partial.exists()
    for name in finished.keys() & {path.name for path in output.iterdir()}:
        assert (output / name).stat().st_ino == finished[name]


def test_training_another_size_from_the_counts_gives_what_counting_again_gives(corpus, undisturbed, tmp_path):
    wordpipe.tokenize(corpus, output=tmp_path / "a", vocab_size=400, counts=undisturbed)
    wordpipe.tokenize(corpus, output=tmp_path / "b", vocab_size=400)
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    with pytest.raises(ConfigError, match="lowercase"):
        wordpipe.tokenize(corpus, output=tmp_path / "c", counts=undisturbed, lowercase=True)


@pytest.mark.slow
def test_counts_of_counts_keep_how_the_text_was_made_ready(corpus, tmp_path):
    options = {"normalization": "nfkc", "lowercase": True, "pretokenizer": "digits"}
    wordpipe.tokenize(corpus, output=tmp_path / "a", vocab_size=400, **options)
    wordpipe.tokenize(corpus, output=tmp_path / "b", vocab_size=300, counts=tmp_path / "a")
    wordpipe.tokenize(corpus, output=tmp_path / "c", vocab_size=400, counts=tmp_path / "b", pretokenizer="auto")
    assert (tmp_path / "c/tokenizer.json").read_bytes() == (tmp_path / "a/tokenizer.json").read_bytes()


def test_an_artifact_for_its_counts_is_another_recipe_than_the_same_one_for_its_tokenizer(
    corpus, undisturbed, tmp_path
):
    one = wordpipe.tokenize(corpus, output=tmp_path / "a", counts=undisturbed)
    other = wordpipe.tokenize(corpus, output=tmp_path / "b", tokenizer=undisturbed)
    assert one.recipe != other.recipe


def test_what_would_do_nothing_is_refused(corpus, undisturbed, tmp_path):
    with pytest.raises(ConfigError, match="sample"):
        wordpipe.tokenize(corpus, output=tmp_path / "t", counts=undisturbed, sample=0.5)
    with pytest.raises(ConfigError, match="min_frequency"):
        wordpipe.tokenize(corpus, output=tmp_path / "t", algorithm="unigram", min_frequency=5)


def test_too_little_memory_names_the_least(corpus, tmp_path):
    with pytest.raises(BudgetError, match=r"at least \d+MB"):
        wordpipe.tokenize(corpus, output=tmp_path / "t", memory="1MB", **SETTINGS)


def test_too_small_a_sample_is_named(corpus, tmp_path):
    with pytest.raises(InputError, match="no text") as error:
        wordpipe.tokenize(corpus, output=tmp_path / "t", sample=1e-9, **SETTINGS)
    assert "--sample" in error.value.hint


def test_a_warning_is_said_once(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.stages.corpus.tokenize.training_bytes", lambda chosen, size, number: number)
    said = []
    run = wordpipe.RunOptions(report=lambda progress: said.append(progress.note) if progress.note else None)
    wordpipe.tokenize(corpus, output=tmp_path / "t", memory="1KB", run=run, **SETTINGS)
    assert sum("distinct pretokens" in line for line in said) == 1


def test_special_tokens_that_the_text_spells_out_are_counted(corpus, tmp_path):
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", **SETTINGS)
    assert made.counts["tokens_special"] == 2
    assert any("[MASK]" in warning or "[PAD]" in warning for warning in made.warnings)


def test_a_folder_or_the_current_one_may_hold_the_tokenizer(corpus, undisturbed, tmp_path, monkeypatch):
    wordpipe.export(undisturbed, "transformers", tmp_path / "hf")
    monkeypatch.chdir(tmp_path / "hf")
    wordpipe.tokenize(corpus, output=tmp_path / "t", tokenizer=".")
    assert rows_of(tmp_path / "t") == rows_of(undisturbed)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no tokenizer"):
        wordpipe.tokenize(corpus, output=tmp_path / "u", tokenizer=tmp_path / "empty")


def test_a_tokenizer_that_raises_is_the_users_matter(corpus, tmp_path):
    broken = Tokenizer(models.WordLevel({"the": 0}, unk_token="[NONE]"))
    for number, cutter in enumerate([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()]):
        broken.pre_tokenizer = cutter
        broken.save(str(tmp_path / f"{number}.json"))
        with pytest.raises(InputError):
            wordpipe.tokenize(corpus, output=tmp_path / "t", tokenizer=tmp_path / f"{number}.json")


def test_the_scripts_of_all_of_the_text_are_looked_at(tmp_path):
    (tmp_path / "a.txt").write_text("The sea is wide and the hill is high.\n" * 3000)
    (tmp_path / "b.txt").write_text("ภาษาไทยไม่มีช่องว่างระหว่างคำ\n" * 1000)
    made = wordpipe.tokenize([tmp_path / "a.txt", tmp_path / "b.txt"], output=tmp_path / "t", vocab_size=400)
    with Artifact(made.path) as tokens:
        assert tokens.manifest.facts["pretokenizer"] == "marks"


def test_a_sample_trains_on_some_documents_and_encodes_all(corpus, tmp_path):
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", sample=0.5, **SETTINGS)
    assert 0 < made.counts["sentences_trained_on"] < made.counts["sentences"] == len(rows_of(corpus, "corpus"))


def test_little_memory_leaves_out_the_rarest_and_says_so(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.stages.corpus.tokenize.training_bytes", lambda chosen, size, number: number)
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", memory="1KB", **SETTINGS)
    assert made.counts["distinct_pretokens_left_out"] > 0
    assert len(rows_of(tmp_path / "t", "counts")) <= 1000
    assert any("--memory" in warning for warning in made.warnings)
    assert made.counts["pretokens_left_out"] == made.counts["pretokens"] - sum(
        row["count"] for row in rows_of(tmp_path / "t", "counts")
    )


def test_words_that_do_not_fit_get_no_number(corpus, tmp_path):
    made = wordpipe.tokenize(corpus, output=tmp_path / "t", memory="64KB", tokenizer=_tokenizer(corpus, tmp_path))
    listed = rows_of(tmp_path / "t", "words")
    numbers = [number for row in rows_of(tmp_path / "t") for number in row["word_ids"]]
    assert made.counts["distinct_words_left_out"] > 0
    assert len(numbers) == sum(row["count"] for row in listed) == made.counts["words"] - made.counts["words_left_out"]


def _tokenizer(corpus, tmp_path):
    wordpipe.tokenize(corpus, output=tmp_path / "given", **SETTINGS)
    return tmp_path / "given" / "tokenizer.json"


def test_text_without_anything_to_train_on_is_refused(tmp_path):
    (tmp_path / "blank.txt").write_text(" \n \n")
    with pytest.raises(InputError):
        wordpipe.tokenize(tmp_path / "blank.txt", output=tmp_path / "t")
