"""benchmarks/data_limited.py: MaxSim, the choice of shares, and both judgements from end to end with small encoders."""

import json
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.stages.test_export_encoder import word_tokenizer
from tests.stages.test_import_encoder import files, imported, modules
from tests.support.model_artifacts import ROLES, model_files
from wordpipe.search import Hits

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
TEXTS = ["the bees fly home", "a bee and the hive", "home is a hive", "the hive of bees is home", "bees fly"]


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = model_files(word_tokenizer(ROLES).to_str().encode(), "encoder", "classic")
    return imported(files(made | modules("Pooling"), tmp_path_factory.mktemp("encoder") / "encoder"))


@pytest.fixture(scope="module")
def encoder(encoder_path: Path, benchmarks_on_path: None):
    return import_module("data_limited").opened(encoder_path, "cpu")


def test_maxsim_is_that_of_a_slow_twin(encoder) -> None:
    bench = import_module("peers.maxsim")
    found = [Hits(np.array([2, 0, 4]), np.array([3, 2, 1], np.float32)), Hits(np.array([1]), np.ones(1, np.float32))]
    similar = bench.maxsim(encoder, TEXTS[:2], found, TEXTS)
    has = {text: set(text.split()) for text in TEXTS}  # all texts but the fourth are answers
    for text, hits, values, rare in zip(TEXTS, found, similar.alike, similar.rare_more, strict=False):
        for row, value, weighed in zip(hits.rows.tolist(), values.tolist(), rare.tolist(), strict=True):
            asked, read = bench.states_of(encoder, text), bench.states_of(encoder, TEXTS[row])
            assert len(asked.tokens) == len(encoder.parts(text).spans) - 2  # without [CLS] and [SEP]
            best = [max(float(one @ other) for other in read.vectors) for one in asked.vectors]
            assert value == pytest.approx(sum(best) / len(best), abs=1e-6)
            counts = [sum(token in has[TEXTS[number]] for number in (0, 1, 2, 4)) for token in asked.tokens]
            weights = [math.log(1 + 4 / (1 + count)) for count in counts]
            mean = sum(a * b for a, b in zip(best, weights, strict=True)) / sum(weights)
            assert weighed == pytest.approx(mean, abs=1e-6)


def test_maxsim_moves_answers_by_its_weight() -> None:
    ordered = import_module("peers.maxsim").ordered_anew
    hits = [
        Hits(np.array([5, 3, 8]), np.array([9, 5, 1], np.float32)),
        Hits(np.zeros(0, np.int64), np.zeros(0, np.float32)),
    ]
    similar = [np.array([0.2, 0.2, 0.7]), np.zeros(0)]
    assert [one.rows.tolist() for one in ordered(hits, similar, 0.0)] == [[5, 3, 8], []]
    assert ordered(hits, similar, 0.8)[0].rows.tolist() == [5, 8, 3]
    assert ordered(hits, similar, 1.6)[0].rows.tolist() == [8, 5, 3]


def test_the_share_of_a_set_is_chosen_by_sets_of_other_families(encoder, tmp_path: Path, monkeypatch) -> None:
    bench = import_module("data_limited")
    for name in ("SICK_trial.csv", "SICK_train.csv", "stsb-en-dev.csv"):
        rng = np.random.default_rng(len(name))
        lines = [f"{TEXTS[a]},{TEXTS[b]},{rng.random():.3f}" for a in range(5) for b in range(a)]
        (tmp_path / name).write_text("sentence1,sentence2,score\n" + "\n".join(lines) + "\n")
    paths = sorted(tmp_path.glob("*.csv"))
    lines = bench.of_sentences(paths, encoder, {"context": encoder})["context"]
    assert {*lines} == {"SICK_trial", "SICK_train", "stsb-en-dev"}
    for line in lines.values():  # both sides are the same encoder, so every share finds what each finds alone
        assert line["static"] == pytest.approx(line["context"], abs=0.02) == line["both"]
        assert line["share"] == 0.0


def test_search_has_a_figure_for_every_side_and_control(
    encoder, encoder_path: Path, tmp_path: Path, monkeypatch
) -> None:
    bench = import_module("data_limited")
    monkeypatch.setattr(bench, "adapted", lambda *_: encoder_path)
    folders = []
    for name in ("one", "other"):
        folder = tmp_path / name
        lines = [json.dumps({"_id": str(row), "title": "", "text": text}) for row, text in enumerate(TEXTS)]
        files(
            {
                "corpus.jsonl": "\n".join(lines).encode(),
                "queries.jsonl": b'{"_id": "q", "text": "the hive of bees"}\n{"_id": "p", "text": "bees fly"}',
                "qrels.tsv": b"query-id\tcorpus-id\tscore\nq\t1\t1\np\t4\t1\n",
            },
            folder,
        )
        folders.append(folder)
    found = bench.of_search(folders, {"context": encoder})["context"]
    assert found["side_by_side"]["floor"] == dict.fromkeys(("one", "other"), found["side_by_side"]["means"]["0.0"])
    assert {*found["by_chance"]["means"]} == {str(share) for share in bench.SHARES}
    assert found["maxsim"]["leave_one_out"].keys() == {"one", "other"}
    for line in found["without_judgements"].values():
        assert line["share"] in bench.SHARES
        assert 0 < line["ndcg_at_10"] <= 100
