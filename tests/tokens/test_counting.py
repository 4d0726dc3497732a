"""The table of distinct strings, and counts that go to disk."""

import random
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pretoken_tables import table_of
from wordpipe.tokens import PARTS, SpillingTable, StringCounts, keep_most_frequent, sorted_by_count, sum_runs
from wordpipe.tokens.kernels.string_table import StringTable, hashes_of


def spans_of(texts: list[bytes]):
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64).astype(np.int32)
    return (
        np.frombuffer(b"".join(texts), np.uint8),
        np.concatenate([[0], ends[:-1]]).astype(np.int32)[: len(ends)],
        ends,
    )


def as_counter(units: StringCounts) -> Counter[bytes]:
    cut = [units.data[a:b].tobytes() for a, b in zip(units.offsets[:-1], units.offsets[1:], strict=True)]
    assert len(set(cut)) == len(cut)
    return Counter(dict(zip(cut, units.counts.tolist(), strict=True)))


@given(st.lists(st.binary(max_size=12), max_size=200))
def test_units_are_numbered_in_the_order_they_are_first_seen(texts):
    data, starts, ends = spans_of(texts)
    numbers = np.empty(len(texts), np.int32)
    table = StringTable()
    assert table.look_up(data, starts, ends, numbers) == len(texts)
    order = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    assert numbers.tolist() == [order[text] for text in texts]
    assert table.size == len(order)
    found = np.empty(len(texts), np.int32)
    table.find(data, starts, ends, found)
    assert found.tolist() == numbers.tolist()
    StringTable().find(data, starts, ends, found)
    assert (found == -1).all()


def test_a_table_grows_and_keeps_what_it_had():
    texts = [str(number).encode() for number in range(50_000)] * 2
    data, starts, ends = spans_of(texts)
    numbers = np.empty(len(texts), np.int32)
    table = StringTable()
    assert table.look_up(data, starts, ends, numbers) == len(texts)
    assert numbers.tolist() == [*range(50_000)] * 2
    assert set(table.counts[: table.size].tolist()) == {2}


def test_a_full_table_stops_and_one_unit_always_fits():
    texts = [bytes([letter]) * 100_000 for letter in b"abcdef"]
    data, starts, ends = spans_of(texts)
    numbers = np.empty(len(texts), np.int32)
    table = StringTable(max_bytes=300_000)
    first = table.look_up(data, starts, ends, numbers)
    assert 0 < first < len(texts)
    while first < len(texts):
        before = first
        table.clear()
        first = table.look_up(data, starts, ends, numbers, first)
        assert first > before


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_any_size_of_memory_are_the_same(tmp_path, seed):
    rng = random.Random(seed)
    texts = [str(int(rng.paretovariate(0.2))).encode() * rng.choice([1, 1, 4]) for _ in range(20_000)]
    weights = np.array([rng.randint(1, 1 << 40) for _ in texts], np.int64)
    expected: Counter[bytes] = Counter()
    for text, weight in zip(texts, weights.tolist(), strict=True):
        expected[text] += weight
    runs = []

    @contextmanager
    def new_run():
        runs.append(tmp_path / f"{len(runs)}.parquet")
        with runs[-1].open("wb") as file:
            yield file

    tables = [SpillingTable(1 << 18, new_run), SpillingTable(1 << 40, new_run)]
    data, starts, ends = spans_of(texts)
    half = len(texts) // 2
    tables[0].add(data, starts[:half], ends[:half], weights[:half])
    tables[1].add(data, starts[half:], ends[half:], weights[half:])
    tables[0].take(tables[1])
    tables[0].spill()
    assert len(runs) >= 2
    parts = list(sum_runs([partial(path.open, "rb") for path in runs]))
    assert len(parts) == PARTS
    assert sum((as_counter(part) for part in parts), Counter()) == expected


@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(1, 5)), st.integers(0, 400), st.integers(1, 5))
def test_the_commonest_that_fit_are_kept_however_they_are_parted(counts, room, parts):
    def fits(size: int, number: int) -> bool:
        return size + number <= room

    whole = table_of({}) if not counts else StringCounts.from_sorted(counts.keys(), counts.values())
    hashes = dict(zip(counts, hashes_of(whole.data, whole.offsets).tolist(), strict=True))
    by_worth = sorted(counts, key=lambda text: (-counts[text], hashes[text]))
    sizes = [sum(len(text) + 1 for text in by_worth[:n]) for n in range(len(by_worth) + 1)]
    number = max(n for n, size in enumerate(sizes) if size <= room)
    expected = sorted(((text, counts[text]) for text in by_worth[:number]), key=lambda item: (-item[1], item[0]))
    cut = [StringCounts.from_sorted(*zip(*part, strict=True)) if (part := list(counts.items())[i::parts]) else
           StringCounts.from_sorted([], []) for i in range(parts)]  # fmt: skip
    kept = keep_most_frequent(iter(cut), fits)
    assert list(as_counter(kept.strings).items()) == expected
    assert kept.left_out == len(counts) - len(expected)
    assert kept.left_out_count == (counts[by_worth[number]] if number < len(counts) else 0)
    assert kept.left_out_total == sum(counts.values()) - sum(count for _, count in expected)


@given(st.lists(st.tuples(st.sampled_from([b"a", b"\0"]), st.integers(1, 40), st.integers(1, 2)), max_size=30))
def test_equal_counts_are_ordered_by_all_their_bytes(drawn):
    counts = {letter * length + b"x" * (length % 3): count for letter, length, count in drawn}
    shuffled = sorted(counts.items(), key=lambda item: item[0][::-1])
    units = StringCounts.from_sorted([text for text, _ in shuffled], [count for _, count in shuffled])
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    assert list(as_counter(sorted_by_count(units)).items()) == expected
