"""What is opened gives everything back when it is closed: descriptors and memory, without Python's cycle collector."""

import sys
import warnings
import weakref
from contextlib import suppress

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models

import wordpipe
from tests.support.leaks import open_files
from wordpipe import OpenArtifact
from wordpipe.errors import ArtifactError, WordpipeError
from wordpipe.search import LexicalIndex
from wordpipe.search.settings import LexicalSettings, QueryOptions
from wordpipe.stages import inspected_of, predictor_of
from wordpipe.tokens import WordFertility

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")

UNKNOWN = "zzqqx"


def tried(*calls):
    """Call what may fail: an error refers to all that was at work when it was raised."""
    for call in calls:
        with suppress(WordpipeError, IndexError):
            call()


def use_rows(opened):
    opened.batches().read_all()
    next(iter(opened.batches()))  # a stream that is not read to its end
    tried(lambda: opened.batches(["nothing"]), lambda: opened.batches(table="nothing"), lambda: opened.query("x"))


def use_encoder(opened):
    opened.encode(["the sea and the moon", "salt"] * 600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened.encode(["", UNKNOWN])
    tried(
        lambda: opened.encode("one"), lambda: opened.encode([1]), lambda: opened.encoder.parts("the sea and the moon")
    )
    opened.encoder.lengths(["the sea"])


def use_index(opened):
    use_rows(opened)
    words = opened.artifact.fact("of", str) == "words"
    asked = opened.batches(["word"]).read_all()["word"][0].as_py() if words else "sea"
    where = "count > 3" if words else "row > 3"
    for options in ({}, {"explain": True}, {"where": where}, {"where": f"not {where}"}, {"min_score": 0.1}):
        tried(lambda options=options: opened.query(asked, k=5, **options))
    tried(lambda: opened.query(asked, where="nothing > 1"), lambda: opened.query(asked, where="(("))
    opened.similar(0, 3)
    opened.similar(0, 3, QueryOptions(where=where))
    tried(lambda: opened.similar(1 << 40), lambda: opened.row_of("nobody"))
    opened.fulfilling(QueryOptions(where=where), 3)
    opened.check(QueryOptions())
    opened.passages("sea and salt").passage("The sea has salt in it.", 10, {})
    opened.nothing_found(QueryOptions(where=f"{where} and not {where}"), UNKNOWN)


def use_text_index(opened):
    use_index(opened)
    use_encoder(opened)
    for mode in ("dense", "lexical", "hybrid"):
        for options in ({"explain": True}, {"where": "row > 3", "per_document": True}):
            tried(lambda mode=mode, options=options: opened.query(f"salt of the sea {UNKNOWN}", mode=mode, **options))
    opened.lexical.compile()
    opened.query("the salt of the sea", mode="hybrid", feedback=3)
    opened.passages("sea and salt").passage("The sea has salt in it.", 10, {})


def use_words(opened):
    opened.batches().read_all()
    word = next(iter(opened))
    opened.query(f"{word} - {word} + {word}")
    opened.neighbours(word, 3)
    assert word in opened
    assert len(opened[word]) == opened.dim
    tried(
        lambda: opened.query(UNKNOWN), lambda: opened.query("+ - +"), lambda: opened.query(word, where="x"),
        lambda: opened[UNKNOWN], lambda: opened.neighbours(UNKNOWN),
    )  # fmt: skip
    use_encoder(opened)


def use_clusters(opened):
    use_rows(opened)
    assert opened.labels
    assert [*opened.members(0)]
    next(opened.members(0))
    tried(lambda: opened.members(99))


def use_model(opened):
    use_rows(opened)
    tried(lambda: use_encoder(opened))


def use_sentences(opened):
    use_rows(opened)
    use_encoder(opened)


def use_language_model(path):
    """References to what was opened."""
    model = wordpipe.open_model(path)
    tried(
        lambda: wordpipe.fill(model, "the [MASK] of the sea"), lambda: wordpipe.generate(model, "the", max_tokens=2),
        lambda: wordpipe.fill(model, "no mask"), lambda: wordpipe.generate(model, "the", max_tokens=-1),
    )  # fmt: skip
    with wordpipe.open(path) as opened:
        looked_into = inspected_of(opened.artifact)
        tried(lambda: predictor_of(opened.artifact, "cpu"))
    return [weakref.ref(part) for part in (model, model.model, looked_into, looked_into.model, opened)]


USES = {
    "OpenTable": use_rows, "OpenClusters": use_clusters, "OpenEncoder": use_model, "OpenSentences": use_sentences,
    "OpenWords": use_words, "OpenTextIndex": use_text_index, "OpenWordIndex": use_index,
}  # fmt: skip
"""How every class that can be opened is used up; a new one is to be added."""


QUICK = ("word-index", "corpus", "words", "clusters", "index", "static", "sentences-static")
SLOW = ("tokens", "model", "sentences", "clm", "clm-alibi", "contrastive", "index-hnsw", "index-ivf-pq", "mlm-rms")


def classes(base=OpenArtifact):
    for one in base.__subclasses__():
        yield one
        yield from classes(one)


@pytest.fixture(scope="module")
def used_once(trained):
    """Gives the path of an artifact, which was opened and used once, so that libraries have what they keep for ever."""
    used = set()

    def path_of(name):
        if name not in used:
            used.add(name)
            with wordpipe.open(trained(name)) as opened:
                USES[type(opened).__name__](opened)
        return trained(name)

    return path_of


def test_every_class_that_can_be_opened_is_tried(used_once):
    used = set()
    for name in QUICK:
        with wordpipe.open(used_once(name)) as opened:
            used.add(type(opened).__name__)
    several = {"OpenIndexes", "OpenApart"}  # of which test_several_indexes.py sees that they are given back
    leaves = {one.__name__ for one in classes() if {sub.__name__ for sub in one.__subclasses__()} <= several} - several
    leaves |= {"OpenEncoder"}
    assert used == {*USES} == leaves


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_what_was_opened_and_used_is_given_back(used_once, collector_off, name):
    path = used_once(name)
    before = open_files()
    opened = wordpipe.open(path)
    USES[type(opened).__name__](opened)
    parts = [weakref.ref(part) for part in (opened, opened.artifact)]
    kept = {key: value for key, value in vars(opened).items() if key != "artifact"}
    refs = dict[str, weakref.ref]()
    for key, value in kept.items():
        with suppress(TypeError):  # lists, arrays of Arrow and numbers
            refs[key] = weakref.ref(value)
    del kept
    value = None
    opened.close()
    assert open_files() == before
    assert {key for key, ref in refs.items() if ref() is not None} <= {"_shown"}  # which may be a function of a module
    with pytest.raises(ArtifactError, match="the artifact is already closed"):
        opened.batches().read_all()
    del opened
    assert [part() for part in parts] == [None, None]


@pytest.mark.parametrize(
    "name",
    [
        "clm",
        pytest.param("mlm-rms", marks=pytest.mark.slow),
        pytest.param("model", marks=pytest.mark.slow),
    ],
)
def test_models_that_are_never_closed_are_given_back(used_once, collector_off, name):
    path = used_once(name)
    before = open_files()
    assert [part() for part in use_language_model(path)] == [None] * 5
    assert open_files() == before


def test_an_artifact_that_nobody_closes_is_closed_as_it_goes(built, collector_off):
    before = open_files()
    for _ in range(14):
        with wordpipe.open(built / "index") as index:
            index.query("sea", k=2)
        assert open_files() == before
    index = wordpipe.open(built / "index")
    index.query("sea", k=2, where="row > 3")
    assert open_files() != before
    del index
    assert open_files() == before


def words_that_are_counted():
    counter = WordFertility(Tokenizer(models.WordLevel({"sea": 0, "the": 1}, unk_token="the")))
    counter.count(pa.array(["the sea and the moon"]))
    return counter


def words_that_are_cut():
    index = LexicalIndex.build(["the tides", "the moons"], LexicalSettings())
    index.search(["tides"], 1)
    assert index.strangers("tidse") == {"tidse": ["tides"]}
    return index


@pytest.mark.parametrize("use", [words_that_are_counted, words_that_are_cut])
def test_what_remembers_words_keeps_nobody_in_memory(collector_off, use):
    used = use()
    known = [weakref.ref(used)]
    if isinstance(used, LexicalIndex):
        known += [weakref.ref(used.analyser), weakref.ref(used.speller)]
    del used
    assert [one() for one in known] == [None] * len(known)
