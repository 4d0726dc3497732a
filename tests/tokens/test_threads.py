"""Threads that keep the order."""

import time

import pytest

from wordpipe.tokens import in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads):
    def work(state: list[int], item: int) -> int:
        state.append(item)
        time.sleep((item * 7 % 5) / 1000)
        return item * item

    states = [[] for _ in range(threads)]
    assert list(in_order(work, range(40), states)) == [n * n for n in range(40)]
    assert sorted(item for state in states for item in state) == [*range(40)]


def test_no_more_items_are_taken_than_are_worked_on():
    taken = []

    def items():
        for n in range(1000):
            taken.append(n)
            yield n

    results = in_order(lambda _, item: item, items(), [None, None])
    assert next(results) == 0
    begun = len(taken)
    assert begun < 50
    results.close()
    assert len(taken) == begun


def test_an_error_comes_out_and_ends_the_work():
    def work(_: None, item: int) -> int:
        return 1 // (3 - item)

    results = in_order(work, range(1000), [None, None])
    with pytest.raises(ZeroDivisionError):
        list(results)
