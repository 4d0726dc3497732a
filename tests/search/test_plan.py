import faiss
import pytest

from tests.search.vectors import built, unit
from wordpipe.errors import BudgetError
from wordpipe.runtime import forget_peak_memory, peak_memory_bytes
from wordpipe.search import KINDS, Plan, resident_bytes
from wordpipe.search.settings import IndexSettings


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_every_kind_is_foretold(kind: str) -> None:
    vectors_ND = unit(3_000, 64, 1, clusters=20)
    result = built(vectors_ND, type=kind, ef_construction=10, hnsw_m=16, recall=0.5)
    assert result.plan is not None
    assert result.plan.index_bytes == pytest.approx(len(faiss.serialize_index(result.index)), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "ivf-pq", "hnsw"])
def test_the_peak_is_foretold_within_a_fifth(kind: str) -> None:
    vectors_ND = unit(100_000, 256, 1, clusters=200)
    resident = resident_bytes()
    forget_peak_memory()
    result = built(vectors_ND, type=kind, ef_construction=10, hnsw_m=8, block=8192, recall=0.5)
    assert result.plan is not None
    assert result.plan.memory_bytes - resident == pytest.approx(peak_memory_bytes() - resident, rel=0.2, abs=100e6)


def test_what_needs_too_much_is_refused_and_nothing_else() -> None:
    plan = Plan.of_build(KINDS["ivf-pq"](1_000_000, 32, IndexSettings(threads=1)))
    assert plan.memory_bytes > plan.index_bytes > 1_000_000 * 32 * 4
    plan.refuse_above(None)
    plan.refuse_above(plan.memory_bytes)
    with pytest.raises(BudgetError, match=r"ivf-pq index is predicted .* at most 100 MB"):
        plan.refuse_above(100_000_000)


def test_what_follows_the_index_counts_where_it_needs_more() -> None:
    kind = KINDS["ivf-pq"](50_000, 32, IndexSettings(threads=1))
    alone = Plan.of_build(kind)
    assert Plan.of_build(kind, 1 << 20).memory_bytes == pytest.approx(alone.memory_bytes, rel=0.05)
    assert Plan.of_build(kind, 1 << 32).memory_bytes > 1 << 32


def test_an_update_needs_the_index_and_what_is_read() -> None:
    plan = Plan.of_update(KINDS["ivf-pq"](100_000, 64, IndexSettings()))
    assert plan.memory_bytes > plan.index_bytes > 100_000 * 64 * 4


def test_more_vectors_need_more_of_both() -> None:
    for kind in KINDS.values():
        plans = [Plan.of_build(kind(n, 32, IndexSettings(threads=1))) for n in (30_000, 300_000)]
        assert plans[0].index_bytes < plans[1].index_bytes
        assert plans[0].memory_bytes < plans[1].memory_bytes
