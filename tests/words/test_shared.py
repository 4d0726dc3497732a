import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.words import Listing, WordVectors, joint_counts, shared_words, unshared_words, vectors_of


def listings() -> st.SearchStrategy[dict[str, int]]:
    """Words with counts, the commonest first."""
    return st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(1, 30), max_size=12).map(
        lambda counts: dict(sorted(counts.items(), key=lambda item: -item[1]))
    )


def listed(counts: dict[str, int], rows: int = 5) -> Listing:
    """As read from a table, a few rows at a time."""
    schema = pa.schema([("word", pa.string()), ("count", pa.int64())])
    whole = pa.table([list(counts), list(counts.values())], schema=schema)
    return Listing.from_batches(whole.to_batches(max_chunksize=rows))


@given(listings(), listings(), st.integers(1, 8), st.integers(1, 20), st.sets(st.integers(0, 11), max_size=3))
def test_shared_words_are_those_of_the_slow_twin(
    a: dict[str, int], b: dict[str, int], most: int, min_count: int, asked: set[int]
) -> None:
    found = shared_words(listed(a), listed(b), most=most, min_count=min_count, asked=sorted(asked))
    both = sorted(set(a) & set(b), key=lambda word: -float(joint_counts(np.array([a[word]]), np.array([b[word]]))[0]))
    common = [word for word in both if min(a[word], b[word]) >= min_count]
    wanted = {word for row, word in enumerate(a) if row in asked and word in b}
    words = [list(a)[row] for row in found.rows_a]
    assert words == [list(b)[row] for row in found.rows_b]
    assert wanted <= set(words) <= wanted | set(common)
    joint = [float(joint_counts(np.array([a[word]]), np.array([b[word]]))[0]) for word in words]
    assert joint == sorted(joint, reverse=True)
    assert len(set(words) & set(common) - wanted) >= min(most, len(common)) - len(wanted)
    assert found.all == len(both) == len(words) + found.rare + found.beyond
    assert found.rare == len(set(both) - set(common) - wanted)


@given(listings(), listings(), st.integers(1, 8), st.integers(1, 20))
def test_words_of_one_table_only(a: dict[str, int], b: dict[str, int], most: int, min_count: int) -> None:
    count, first = unshared_words(listed(a), listed(b), most=most, min_count=min_count)
    expected = [{"word": word, "count": n} for word, n in a.items() if word not in b and n >= min_count]
    assert (count, first) == (len(expected), expected[:most])


def test_a_word_is_found_as_it_is_spelled() -> None:
    some = listed({"king": 3, "King": 2, "ü": 1}, rows=1)
    assert [some.words.row_of(word) for word in ("king", "King", "ü", "KING", "")] == [0, 1, 2, None, None]
    assert len(some.words) == 3


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 9), st.data())
def test_vectors_come_in_the_order_asked(seed: int, n: int, rows: int, data: st.DataObject) -> None:
    asked = np.array(data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n)), dtype=np.int64)
    vectors = np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)
    table = WordVectors([str(row) for row in range(n)], np.ones(n, np.int64), vectors)
    batches = (batch.select(["vector"]) for batch in table.to_batches(rows))
    np.testing.assert_array_equal(vectors_of(batches, asked), vectors[asked])
