"""`wordpipe doctor`: made spaces, healthy and sick, what is said of them, and whether texts are found in them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import wordpipe
from tests.support.made_vectors import made_sentences, made_words, with_other_vectors
from wordpipe import doctor
from wordpipe.artifacts import Artifact
from wordpipe.cli.app import app
from wordpipe.encoders import Moments, Transform
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.runtime import quiet
from wordpipe.stages import NORMS, Figures, best_transform, diagnose, rate, unit_sample
from wordpipe.stages.evaluate import doctor as doctor_file

measure_some = doctor_file.measure_some

# ---- the command


def cone(n: int, dim: int, *, shift: float, seed: int = 1) -> np.ndarray:
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    vectors_ND[:, 0] += shift
    return unit_rows(vectors_ND)[0]


def texts(n: int) -> list[str]:
    return [f"bees {'fly ' * (row % 17)}home {row}" for row in range(n)]


@pytest.fixture
def sick(tmp_path):
    return made_sentences(tmp_path / "sick", cone(600, 16, shift=8), texts(600))


def asked(*args: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["doctor", *args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_cone_is_sick_and_mended_with_a_command(sick):
    found = doctor(sick)
    assert {one["state"] for one in found["verdicts"]["none"]} >= {"sick"}
    assert found["mend"]["transform"] == "centre"
    assert found["mend"]["command"] == f"wordpipe embed MODEL CORPUS -o {sick} --transform centre"
    assert found["metrics"] == found["spaces"]["none"]
    assert found["metrics"]["mean_cosine"] > 0.7 > 0.1 > found["spaces"]["centre"]["mean_cosine"]
    assert found["counts"] == {
        "rows": 600, "without_vector": 0, "not_finite": 0, "zero": 0, "repeated_vectors": 0,
        "repeated_texts": 0, "sampled": 600,
    }  # fmt: skip
    assert doctor(sick) == found


def test_the_screen_shows_before_and_after(sick):
    code, shown, _ = asked(str(sick))
    assert code == 0
    lines = shown.splitlines()
    assert next(line.split() for line in lines if "no transform" in line) == ["no", "transform", "centre", "healthy"]
    cosine = next(line for line in lines if "mean cosine" in line)
    assert re.fullmatch(r" *mean cosine of two texts +sick 0\.\d\d +-?0\.0\d +-0\.1 to 0\.1 *", cosine)
    assert "sick     all texts have very similar vectors, so a high score means little" in lines
    assert (
        "mean cosine of two texts: how alike two unrelated texts are: best is 0; at 1 all vectors are the same" in lines
    )
    assert lines[-2].endswith(
        ' 0 problems with --transform centre (in wordpipe.toml: transform = "centre" in the embed stage):'
    )
    assert lines[-1] == f"  {doctor(sick)['mend']['command']}"
    code, shown, _ = asked(str(sick), "--json")
    meanings = json.loads(shown)["meanings"]
    assert meanings.keys() == {one.name for one in NORMS}
    assert meanings["orphans"]["healthy"] == "up to 20%"
    assert json.loads(shown)["spaces"].keys() == {"none", "centre", "remove-components", "whiten"}


def test_what_is_broken_or_comes_again_is_counted(tmp_path):
    vectors_ND, said = cone(300, 16, shift=0), texts(300)
    vectors_ND[7, 3], vectors_ND[8], vectors_ND[100:105] = np.nan, 0, vectors_ND[1]
    said[100:105] = [said[1]] * 5
    found = doctor(made_sentences(tmp_path / "odd", vectors_ND, said))
    assert found["counts"] == {
        "rows": 300, "without_vector": 0, "not_finite": 1, "zero": 1, "repeated_vectors": 5,
        "repeated_texts": 5, "sampled": 293,
    }  # fmt: skip
    assert found["mend"] is None
    code, shown, _ = asked(str(tmp_path / "odd"))
    assert code == 0
    assert "1 NOT FINITE; 1 zero; 5 equal to an earlier vector; 5 repeated texts" in shown.splitlines()[0]
    assert "The space is healthy." in shown


def test_crowded_words_of_another_program_are_mended_as_texts(tmp_path):
    words = made_words(tmp_path / "words", cone(300, 32, shift=90), [1] * 300)
    assert doctor(words)["mend"]["command"] == f"wordpipe embed {words} CORPUS -o SENTENCES --transform whiten"
    shown = asked(str(words))[1]
    assert "all words have very similar vectors" in shown
    index = tmp_path / "index"
    wordpipe.index(words, output=index)
    command = f"wordpipe embed MODEL CORPUS -o SENTENCES --transform whiten && wordpipe index SENTENCES -o {index}"
    assert doctor(index)["mend"]["command"] == command


def test_hardly_trained_words_are_to_be_trained_longer(built):
    found = doctor(built / "words")
    assert (found["kind"], found["dim"], found["mend"]) == ("words", 24, None)
    assert asked(str(built / "words"))[1].splitlines()[-1] == (
        "No --transform fixes this problem; more text or more --epochs (in wordpipe.toml: epochs in the stage that trains the "
        "words) may help."
    )
    assert doctor(built / "index")["kind"] == "index"


def test_few_vectors_can_lie_in_few_directions():
    """Of 50 even vectors in 800 directions none is to blame that they lie in at most 50."""
    spaces = diagnose(space(100, 800))
    assert spaces["none"]["directions"] == 50
    assert states(spaces["none"])["effective_rank"] == "healthy"


def test_a_sample_is_enough(sick):
    whole, some = doctor(sick), doctor(sick, sample=200)
    assert some["counts"]["sampled"] == 200
    assert some["metrics"]["mean_cosine"] == pytest.approx(whole["metrics"]["mean_cosine"], abs=0.05)


def test_too_little_is_said(sick, tmp_path):
    with pytest.raises(ConfigError, match="the sample is too small"):
        doctor(sick, sample=10)
    few = made_sentences(tmp_path / "few", cone(20, 16, shift=0), texts(20))
    with pytest.raises(InputError, match="too few different vectors") as refused:
        doctor(few)
    assert refused.value.hint == "use more text"
    broken = made_sentences(tmp_path / "broken", np.full((80, 4), np.nan, np.float32), texts(80))
    with pytest.raises(InputError, match="got 0"):
        doctor(broken)


@pytest.mark.landing
def test_hidden_states_are_sick_and_whitened_ones_are_not(built, tmp_path):
    for transform in ("none", "whiten"):
        wordpipe.embed(
            built / "model", built / "corpus", output=tmp_path / transform, transform=transform, device="cpu", threads=1
        )
    raw, mended = doctor(tmp_path / "none"), doctor(tmp_path / "whiten")
    command = f"wordpipe embed MODEL CORPUS -o {tmp_path / 'none'} --transform "
    assert raw["mend"]["command"].startswith(command)
    assert raw["metrics"]["mean_cosine"] > 0.3 > 0.1 > abs(mended["metrics"]["mean_cosine"])
    assert mended["mend"] is None
    assert "--transform whiten was already applied to these vectors" in asked(str(tmp_path / "whiten"))[2]


# ---- what is found

MODES = ("lexical", "lexical_twice", "dense", "hybrid", "random_vectors")
SEARCH = "wordpipe train static TOKENS -o MODEL --goal search"


@pytest.fixture(scope="module")
def finding(built, tmp_path_factory) -> Path:
    """Documents in the vectors of a small encoder for search."""
    folder = tmp_path_factory.mktemp("finding")
    made = wordpipe.train_static(built / "tokens", output=folder / "model", goal="search", steps=25, threads=1)
    wordpipe.embed(made.path, built / "corpus", output=folder / "sentences", unit="document", threads=1)
    return folder / "sentences"


def random_instead(path: Path, sentences: Path) -> Path:
    """The same texts and the same encoder, but vectors that have nothing to do with them."""
    with Artifact(sentences) as artifact:
        n, dim = sum(output.rows or 0 for output in artifact.manifest.outputs), int(artifact.manifest.facts["dim"])
    return with_other_vectors(path, sentences, cone(n, dim, shift=0))


def test_vectors_that_find_are_healthy(finding):
    finds = doctor(finding)["finds"]
    assert (finds["state"], finds["mend"], finds["rows"]) == ("healthy", None, 165)
    assert (finds["measured"]["by"], finds["measured"]["queries"]) == ("titles", 165)
    assert finds["measured"]["ndcg_at_10"]["dense"] > 0.6
    assert finds["trained"]
    shown = asked(str(finding))[1].splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("search "))
    assert shown[at] == "search   tested with 165 queries (each title must find its text):"
    assert shown[at + 1].split() == ["search", "by", "nDCG@10", "above", "words", "(95", "%)"]  # nothing was timed
    names = ["words", "words, 2 searches", "vectors", "words and vectors", "words and random vectors"]
    for name, mode, line in zip(names, MODES, shown[at + 2 : at + 7], strict=True):
        figures = line.strip().removeprefix(name).split(maxsplit=1)
        assert figures[0] == f"{finds['measured']['ndcg_at_10'][mode]:.3f}"
        if mode != "lexical":
            apart, low, high = finds["measured"]["above_words"][mode]
            assert figures[1] == f"{apart:+.3f} ({low:+.3f} to {high:+.3f})"
            assert low <= apart <= high
    assert [line.strip() for line in shown[at + 7 : at + 11]] == [
        "nDCG@10: 1 if every text is found first, 0 if none is among the first 10;",
        "above words: how much more than in the first line, with a 95 % interval",
        "healthy  vectors find as much as words, or more",
        "(too optimistic, because the vectors were trained on pairs of this kind)",
    ]
    assert max(map(len, shown[at : at + 11])) <= 90


@pytest.mark.slow
def test_random_vectors_are_even_and_not_of_their_encoder(finding, tmp_path):
    """What is left of a text without its title is encoded anew, and found: that says nothing of the vectors stored."""
    path = random_instead(tmp_path / "random", finding)
    found = doctor(path)
    assert "sick" not in {one["state"] for one in found["verdicts"]["none"]}
    finds, command = found["finds"], f"wordpipe embed MODEL CORPUS -o {path}"
    assert (finds["state"], finds["mend"]) == ("sick", command)
    assert abs(finds["own_cosine"]) < 0.3
    assert finds["agreement"] < 0.3
    code, shown, _ = asked(str(path))
    assert code == 0  # as of every sick space
    assert (
        f"sick     the vectors were not made by the encoder of this artifact (median cosine {finds['own_cosine']:.2f})"
        in shown
    )
    assert "The space is healthy" not in shown
    assert shown.splitlines()[-2:] == [
        "The vectors were not made by this encoder. No setting fixes this problem; embed the texts again:", f"  {command}",
    ]  # fmt: skip
    assert json.loads(asked(str(path), "--json")[1])["finds"] == finds


def test_vectors_of_an_encoder_that_learned_nothing_do_not_find(built):
    finds = doctor(built / "sentences")["finds"]
    assert finds["own_cosine"] == pytest.approx(1, abs=1e-3)
    found = finds["measured"]["ndcg_at_10"]
    assert (finds["state"], finds["mend"], finds["trained"]) == ("sick", SEARCH, False)
    assert 2 * found["dense"] < found["lexical"]


@pytest.mark.slow
def test_a_sick_space_that_does_not_find_has_two_next_steps(built, tmp_path):
    made = tmp_path / "crowded"
    wordpipe.embed(
        built / "model", built / "corpus", output=made, unit="document", transform="none", device="cpu", threads=1
    )
    found, shown = doctor(made), asked(str(made))[1]
    assert shown.splitlines()[-3:] == [
        f"  {found['mend']['command']}",
        "The vectors do not find the texts. Another --pooling or --transform may help (in wordpipe.toml: pooling, transform "
        'in the embed stage); or train an encoder for search (command = "train static", goal = "search"):',
        f"  {SEARCH}",
    ]
    assert "too well" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("of", ["sentences", "index"])
def test_no_transform_is_named_that_finds_less(of, built, tmp_path, monkeypatch):
    made = tmp_path / of
    wordpipe.embed(
        built / "model", built / "corpus", output=tmp_path / "sentences", unit="document", transform="none", device="cpu",
        threads=1,
    )  # fmt: skip
    if of == "index":
        wordpipe.index(tmp_path / "sentences", output=made, threads=1)
    seen = {}

    def measured(artifact, at_most, report, transform=None):
        found = measure_some(artifact, at_most, report, transform)
        seen["none" if transform is None else transform.kind] = found["measured"]["ndcg_at_10"]["dense"]
        if transform is not None and seen.get("less"):
            found["measured"]["ndcg_at_10"]["dense"] = 0.0
        return found

    monkeypatch.setattr(doctor_file, "measure_some", measured)
    first = doctor(made)
    kind = (first["mend"] or first["worse"])["transform"]
    assert (first["worse"] is None) == (seen[kind] >= seen["none"])
    assert (first["mend"] is None) == (seen[kind] < seen["none"])
    seen["less"] = 1
    found = doctor(made)
    assert found["mend"] is None
    assert found["worse"] == {"transform": kind, "dense": seen["none"], "dense_after": 0.0}
    shown = asked(str(made))[1]
    assert (
        f"--transform {kind} would spread the vectors more evenly, but a search by vectors would find less (nDCG@10 0.00 "
        in shown
    )
    assert "now, 0 problems with --transform" not in shown


@pytest.mark.slow
def test_what_vectors_find_after_a_transform_is_of_the_same_queries(finding):
    with Artifact(finding) as artifact:
        plain = measure_some(artifact, 1_000, quiet)
        dim = int(artifact.manifest.facts["dim"])
        assert measure_some(artifact, 1_000, quiet, Transform.none(dim))["measured"] == plain["measured"]
        moments = Moments(dim)
        moments.add(np.eye(dim, dtype=np.float32)[:3])
        other = measure_some(artifact, 1_000, quiet, moments.fit("remove-components"))["measured"]["ndcg_at_10"]
    assert other["lexical"] == plain["measured"]["ndcg_at_10"]["lexical"]
    assert other["dense"] != plain["measured"]["ndcg_at_10"]["dense"]


def test_an_index_says_what_was_measured_when_it_was_built(finding, tmp_path):
    wordpipe.index(finding, output=tmp_path / "index", threads=1)
    here, there = doctor(finding)["finds"], doctor(tmp_path / "index")["finds"]
    with Artifact(tmp_path / "index") as artifact:
        facts = artifact.manifest.facts["lexical"]
    assert {name: there[name] for name in ("measured", "agreement", "mode")} == {
        name: facts[name] for name in ("measured", "agreement", "mode")
    }
    assert here.pop("own_cosine") > 0.99
    assert there.pop("own_cosine") is None
    assert {*there.pop("seconds")} == {
        "encoding",
        "words",
        "feedback",
        "search",
    }  # an index was timed, sentences were not
    assert here.pop("seconds") == {}
    assert there == here  # the same measurement of the same rows


@pytest.mark.parametrize(
    ("dense", "lexical", "state"),
    [(0.8, 0.7, "healthy"), (0.69, 0.7, "healthy"), (0.6, 0.7, "weak"), (0.34, 0.7, "sick"), (0.03, 0.09, "unknown")],
)
def test_vectors_are_compared_with_words(dense, lexical, state, chain):
    with Artifact(chain / "index") as artifact:
        manifest = artifact.manifest
    manifest.facts["lexical"]["measured"]["ndcg_at_10"] |= {"dense": dense, "lexical": lexical}
    (chain / "index" / "manifest.json").write_bytes(manifest.to_bytes())
    finds = doctor(chain / "index")["finds"]
    assert (finds["state"], finds["mend"]) == (state, SEARCH if state == "sick" else None)
    advice = asked(str(chain / "index"))[1]
    assert ("--steps (in wordpipe.toml: steps in" in advice) == (state == "weak")
    assert ('goal = "search"' in advice) == (state == "sick")


def test_what_cannot_be_measured_is_said(sick, finding, tmp_path, built):
    finds = doctor(sick)["finds"]
    assert (finds["state"], finds["measured"], finds["says"]) == (
        "unknown",
        None,
        "this artifact has no encoder for queries",
    )
    vectors_ND = cone(165, 16, shift=0)
    vectors_ND[3] = 0
    assert (
        doctor(with_other_vectors(tmp_path / "broken", finding, vectors_ND))["finds"]["says"]
        == "some vectors are zero or not finite"
    )
    (tmp_path / "short.txt").write_text("\n\n".join(f"{word} of {other}" for word in _SHORT for other in _SHORT))
    wordpipe.ingest(tmp_path / "short.txt", output=tmp_path / "corpus", documents="block")
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "short", unit="document", threads=1)
    finds = doctor(tmp_path / "short")["finds"]
    assert finds["says"] == "there are too few texts with 12 words or more: use more text"
    assert "search   not measured: there are too few texts" in asked(str(tmp_path / "short"))[1]
    assert "finds" not in doctor(built / "words")


_SHORT = ("water", "light", "bees", "bread", "sea", "wind", "moon", "salt", "stone", "tree", "fire", "heat")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_a_large_artifact_is_searched_in_part(unit, finding, built, tmp_path, monkeypatch):
    """Whole documents from everywhere, so that their rows still look for each other."""
    sentences = tmp_path / "sentences"
    wordpipe.embed(finding.parent / "model", built / "corpus", output=sentences, unit=unit, threads=1)
    whole = doctor(sentences)["finds"]
    monkeypatch.setattr(doctor_file, "_SEARCHED", whole["rows"] // 2)
    half = doctor(sentences)["finds"]
    assert half["rows"] == pytest.approx(whole["rows"] / 2, rel=0.15)
    assert half["measured"]["by"] == whole["measured"]["by"] == {"document": "titles", "sentence": "rows"}[unit]
    assert half["measured"]["ndcg_at_10"]["lexical"] >= whole["measured"]["ndcg_at_10"]["lexical"] - 0.03
    assert f", among {half['rows']:,} of {whole['rows']:,} texts:\n" in asked(str(sentences))[1]


# ---- the figures


def space(n: int, dim: int, *, cone: float = 0.0, flat: float = 1.0, seed: int = 1) -> np.ndarray:
    """Vectors around a common direction; few directions are strong."""
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim))
    vectors_ND[:, 4:] *= flat
    vectors_ND[:, 0] += cone
    return unit_sample(vectors_ND.astype(np.float32))


def states(figures: Figures) -> dict[str, str]:
    return {verdict["name"]: verdict["state"] for verdict in rate(figures)}


def test_an_even_space_is_healthy() -> None:
    spaces = diagnose(space(2_000, 32))
    assert set(states(spaces["none"]).values()) == {"healthy"}
    assert best_transform(spaces) == "none"


def test_a_cone_is_sick_and_centring_mends_it() -> None:
    spaces = diagnose(space(2_000, 32, cone=9))
    assert states(spaces["none"])["mean_cosine"] == "sick"
    assert states(spaces["none"])["effective_rank"] == "weak"
    assert set(states(spaces["centre"]).values()) == {"healthy"}
    assert best_transform(spaces) == "centre"


def test_of_equals_the_strongest_mends_what_lies_in_next_to_no_directions() -> None:
    spaces = diagnose(space(2_000, 32, cone=40))
    assert states(spaces["none"])["effective_rank"] == "sick"
    assert set(states(spaces["centre"]).values()) == set(states(spaces["whiten"]).values()) == {"healthy"}
    assert best_transform(spaces) == "whiten"


def test_a_flat_cone_needs_whitening() -> None:
    spaces = diagnose(space(4_000, 48, cone=3, flat=0.03))
    assert states(spaces["none"])["mean_cosine"] == "sick"
    assert states(spaces["centre"])["effective_rank"] == "weak"
    assert best_transform(spaces) == "whiten"
    assert spaces["whiten"]["effective_rank"] > 40


def test_a_weak_space_is_left_alone() -> None:
    spaces = diagnose(space(2_000, 32, cone=3))
    assert states(spaces["none"])["mean_cosine"] == "weak"
    assert best_transform(spaces) == "none"


def test_every_state_has_words() -> None:
    assert all(len({"", *norm.says}) == 3 for norm in NORMS)
    assert {one["says"] for one in rate(diagnose(space(2_000, 32))["none"])} == {""}
    assert all(norm.weak < norm.sick for norm in NORMS)
    assert {norm.name for norm in NORMS} < set(diagnose(space(100, 8))["none"])


def test_the_smallest_sample_fits_every_transform_and_a_smaller_one_is_refused() -> None:
    for dim in (2, 80):
        assert list(diagnose(space(64, dim))) == ["none", "centre", "remove-components", "whiten"]
    with pytest.raises(InputError, match="too few different vectors"):
        diagnose(space(63, 8))


def test_a_sample_has_every_vector_once() -> None:
    vectors_ND = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0) * np.array([[1], [2], [3], [4]] * 3, np.float32)
    sample_ND = unit_sample(np.vstack([vectors_ND, np.zeros((2, 3), np.float32)]))
    np.testing.assert_array_equal(sample_ND[np.argsort(sample_ND.argmax(axis=1))], np.eye(3))
