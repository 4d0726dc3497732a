"""What a table begins as: each part does what it promises; words and their stems."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.pair_texts import Document, made_text
from wordpipe.errors import InputError
from wordpipe.training.contrastive import (
    count_stems,
    join_compounds,
    joined_parts,
    lexical_part,
    lsi_part,
    near_their_stems,
    passage_weights,
    spelled_part,
    word_weights,
    write_ragged,
)

PLAIN = [f"{word:02}" for word in range(21)]  # each word of `topics` its own stem, in their order


def test_weights_are_those_of_smooth_inverse_frequency() -> None:
    assert word_weights(np.array([6, 3, 1, 0]), 0.1) == pytest.approx([1 / 7, 0.25, 0.5, 0.5])


def test_directions_are_of_stems_and_nearly_orthogonal() -> None:
    words = [f"w{i}" for i in range(300)]
    part = lexical_part([*words, "w1"], 256, 7)
    assert np.linalg.norm(part, axis=1) == pytest.approx(1)
    assert (part[1] == part[300]).all()
    cosines = (part[:300] @ part[:300].T)[np.triu_indices(300, 1)]
    assert cosines.std() == pytest.approx(1 / 16, rel=0.05)
    assert abs(cosines.mean()) < 0.002


def test_directions_depend_on_word_and_seed_alone() -> None:
    assert (lexical_part(["a", "b"], 100, 1)[1] == lexical_part(["b"], 100, 1)[0]).all()
    assert (lexical_part(["a"], 100, 1) != lexical_part(["a"], 100, 2)).any()


def test_stems_that_are_written_alike_are_nearer_than_strangers() -> None:
    stems = ["comput", "computer", "dog", "dig", "a", "", "comput"]
    part = spelled_part(stems, 512, 3)
    assert (part == spelled_part(stems, 512, 3)).all()
    assert (part[0] == part[6]).all()
    assert (part[2] == spelled_part(["dog"], 512, 3)[0]).all()
    assert part[0] @ part[1] > 0.5
    assert abs(part[[0, 1]] @ part[[2, 3, 4, 5]].T).max() < 0.25
    assert np.linalg.norm(part, axis=1) == pytest.approx(1, abs=0.25)


def test_directions_of_spelling_are_those_of_a_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wordpipe.training.contrastive.static_table._STEMS_AT_ONCE", 7)
    rng = np.random.default_rng()
    stems = ["".join(rng.choice(list("abü国")) for _ in range(rng.integers(0, 9))) for _ in range(40)]
    expected = []
    for stem in stems:
        features = {"=" + stem}
        for size in (3, 4, 5):
            features |= {("<" + stem)[at : at + size] for at in range(len(stem) + 2 - size)}
        total = sum(lexical_part([one], 100, 5)[0].astype(np.float64) for one in features)
        expected.append(total / len(features) ** 0.5)
    np.testing.assert_allclose(spelled_part(stems, 100, 5), np.array(expected), atol=1e-6)


def topics(n: int = 60) -> list[Document]:
    """Documents of one of two topics: ids 0 to 9, or 10 to 19, and the common word 20."""
    rng = np.random.default_rng(0)
    return [
        (f"d{i}", "train" if i % 6 else "valid", [[*(rng.integers(0, 10, 12) + 10 * (i % 2)).tolist(), 20]])
        for i in range(n)
    ]


def test_lsi_puts_words_of_one_topic_together(tmp_path: Path) -> None:
    part = lsi_part(made_text(tmp_path, topics(), vocab_size=21), 2, PLAIN)
    unit = part[:20] / np.linalg.norm(part[:20], axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert cosines[:10, :10].min() > 0.9
    assert cosines[10:, 10:].min() > 0.9
    assert abs(cosines[:10, 10:]).max() < 0.3


def test_lsi_is_the_svd_of_the_weighted_counts(tmp_path: Path) -> None:
    documents = topics()
    text = made_text(tmp_path, documents, vocab_size=21)
    counts = np.array([np.bincount(some[0], minlength=21) for _, split, some in documents if split == "train"])
    tf = np.where(counts, 1 + np.log(np.maximum(counts, 1)), 0)
    weighted = tf * (1 + np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0))))
    _, _, directions = np.linalg.svd(weighted / np.linalg.norm(weighted, axis=1, keepdims=True))
    part = lsi_part(text, 4, PLAIN)
    assert abs((part * directions[:4].T).sum(axis=0)) == pytest.approx(1, abs=1e-3)
    assert part.tobytes() == lsi_part(text, 4, PLAIN).tobytes()


def test_lsi_takes_the_forms_of_a_stem_for_one_word(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    documents = topics()
    forms: list[Document] = [  # now and then 0 is written as 21
        (name, split, [[21 if word == 0 and rng.random() < 0.5 else word for word in some[0]]])
        for name, split, some in documents
    ]
    stems = [f"s{word}" for word in [*range(21), 0]]
    part = lsi_part(made_text(tmp_path, forms, vocab_size=22), 4, stems)
    assert part[21].tobytes() == part[0].tobytes()
    plain = lsi_part(made_text(tmp_path / "plain", documents, vocab_size=21), 4, PLAIN)
    assert abs((part[:21] * plain).sum(axis=0)) == pytest.approx(1, abs=1e-3)


def test_weights_for_search_are_a_power_of_the_idf_of_stems(tmp_path: Path) -> None:
    text = made_text(tmp_path, topics(), vocab_size=22)  # 21 occurs nowhere
    stems = [f"s{word}" for word in [*range(21), 0]]
    weights = passage_weights(text, stems)
    train = [set(some[0]) for _, split, some in topics() if split == "train"]
    idf = 1 + np.log([(1 + len(train)) / (1 + sum(word in one for one in train)) for word in range(21)])
    assert weights[:21] == pytest.approx((idf / idf.max()) ** 1.5, abs=1e-6)
    assert weights[21] == weights[0]
    stop = passage_weights(text, ["" if word == 3 else stem for word, stem in enumerate(stems)])
    assert stop[3] == pytest.approx(0.01 * stop[stop > stop[3]].min())
    assert np.delete(stop, 3) == pytest.approx(np.delete(weights, 3) * stop[0] / weights[0])


def test_titles_and_not_stop_words_are_part_of_the_latent_directions(tmp_path: Path) -> None:
    """The same as if every title stood at the beginning of its text, and the stop words nowhere."""
    rng, documents = np.random.default_rng(2), topics()
    titles = [rng.integers(0, 20, 3).tolist() for _ in documents]
    text = made_text(tmp_path / "titled", documents, vocab_size=21)
    written = write_ragged([pa.array(titles, pa.list_(pa.uint32()))], tmp_path / "titles", vocab_size=21)
    stems = ["" if word == 5 else stem for word, stem in enumerate(PLAIN)]
    part = lsi_part(replace(text, titles=written), 4, stems)
    whole: list[Document] = [
        (name, split, [[word for word in [*title, *some[0]] if word != 5]])
        for (name, split, some), title in zip(documents, titles, strict=True)
    ]
    expected = lsi_part(made_text(tmp_path / "whole", whole, vocab_size=21), 4, PLAIN)
    others = np.delete(np.arange(21), 5)
    assert abs((part[others] * expected[others]).sum(axis=0)) == pytest.approx(1, abs=1e-3)


def test_lsi_has_no_more_directions_than_the_text(tmp_path: Path) -> None:
    part = lsi_part(made_text(tmp_path, topics(12), vocab_size=21), 64, PLAIN)
    assert part.shape == (21, 64)
    assert not part[:, 20:].any()


def test_lsi_of_next_to_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too little text"):
        lsi_part(made_text(tmp_path, [("a", "train", [[1, 2]])]), 2, [f"{word:02}" for word in range(50)])


def test_long_documents_are_cut_into_passages(tmp_path: Path) -> None:
    sentences = [[i % 50] * 40 for i in range(50)]
    text = made_text(tmp_path, [("a", "train", sentences)])
    assert np.isfinite(
        lsi_part(text, 5, [f"{word:02}" for word in range(50)])
    ).all()  # a single passage would be too little


def test_a_text_hears_of_each_part_as_the_weights_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = made_text(tmp_path, topics(), vocab_size=21)
    weights = word_weights(text.counts, 1e-2)
    parts = [
        (rng.standard_normal((21, 3)).astype(np.float32) * scale, weights, weight)
        for scale, weight in ((9, 1.0), (0.1, 2.0))
    ]
    table = joined_parts(parts, text)
    assert table.shape == (21, 6)
    sums = np.array([table[some[0]].sum(axis=0) for _, split, some in topics() if split == "train"])
    assert np.sqrt(np.square(sums[:, :3]).sum(axis=1).mean()) == pytest.approx(1, rel=1e-4)
    assert np.sqrt(np.square(sums[:, 3:]).sum(axis=1).mean()) == pytest.approx(2, rel=1e-4)


def test_a_word_with_hyphens_is_the_sum_of_its_parts() -> None:
    words = ["time", "sharing", "time-sharing", "time-honoured", "-", "real-time-sharing", "real"]
    table = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    joined = join_compounds(table.copy(), words)
    assert joined[2] == pytest.approx(table[0] + table[1])
    assert joined[5] == pytest.approx(table[6] + table[0] + table[1])
    assert (joined[[0, 1, 3, 4, 6]] == table[[0, 1, 3, 4, 6]]).all()


def unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def test_each_word_lies_between_itself_and_the_mean_of_its_stem() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((40, 5)).astype(np.float32)
    vectors[::7] = 0
    stems = [f"s{number}" for number in rng.integers(0, 12, 40)]
    counts = rng.integers(0, 50, 40)
    found = near_their_stems(vectors, stems, counts)
    for word in range(40):
        same = [other for other in range(40) if stems[other] == stems[word]]
        mean = unit(sum(max(1, counts[other]) * unit(vectors[other].astype(float)) for other in same))
        assert found[word] == pytest.approx(unit(unit(vectors[word].astype(float)) + mean), abs=1e-6)


def test_a_word_without_a_vector_has_that_of_its_stem_and_one_alone_stays() -> None:
    vectors = np.array([[3, 0], [0, 0], [0, 2], [0, 0]], dtype=np.float32)
    found = near_their_stems(vectors, ["walk", "walk", "bee", "zyx"], np.array([5, 1, 2, 1]))
    assert found.tolist() == [[1, 0], [1, 0], [0, 1], [0, 0]]


def test_stems_are_counted_in_all_forms() -> None:
    assert count_stems(["walk", "bee", "walk"], np.array([5, 2, 3])).tolist() == [8, 2, 8]
