"""Integer ranges and shards: half-open, with a short tail, and none where there is nothing [P3]."""

from collections.abc import Awaitable, Iterable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chunks.reading import parts, records, slices, spans
from windlass.chunks import Ranges, Shards
from windlass.errors import ConfigurationError
from windlass.store.records import PartPlan

BOUNDS = st.tuples(st.integers(-1000, 1000), st.integers(0, 300)).map(lambda pair: (pair[0], sum(pair)))


@given(bounds=BOUNDS, size=st.integers(1, 400), batches=st.lists(st.integers(1, 50), min_size=1, max_size=3))
def test_p3_every_number_once_and_from_every_cursor(
    bounds: tuple[int, int], size: int, batches: list[int]
) -> None:
    splitter = Ranges(bounds, size)
    planned = parts(splitter, {})
    assert all(part.size == size for part in planned[:-1])
    assert records(splitter, {}, batches) == list(range(*bounds))
    for part in planned:
        span = msgspec.json.decode(part.span)
        for piece in slices(splitter, span, {}, sizes=batches):
            rest = [number for more in slices(splitter, span, {}, piece.cursor) for number in more.records]
            assert rest == list(range(piece.records[-1] + 1, span[1]))
            assert piece.done == part.size - len(rest)


def test_p3_ranges_are_half_open_with_a_short_tail() -> None:
    assert spans(Ranges(25, size=10), {}) == [[0, 10], [10, 20], [20, 25]]
    assert spans(Ranges((5, 25), size=10), {}) == [[5, 15], [15, 25]]
    assert [part.size for part in parts(Ranges(25, size=10), {})] == [10, 10, 5]
    assert spans(Ranges(range(5, 25), size=10), {}) == [[5, 15], [15, 25]]
    assert spans(Ranges((7, 7)), {}) == []


def test_p3_shards_come_32_to_a_part() -> None:
    assert spans(Shards(100), {}) == [[0, 32], [32, 64], [64, 96], [96, 100]]
    assert spans(Shards(64), {}) == [[0, 32], [32, 64]]
    assert spans(Shards(0), {}) == []
    assert records(Shards(3, per_part=2), {}) == [0, 1, 2]
    assert (Shards(1).unit, Ranges(1).unit) == ("shards", "numbers")


def test_bounds_may_depend_on_the_arguments() -> None:
    assert spans(Ranges(lambda low, high: [low, high], size=10), {"low": 5, "high": 18}) == [
        [5, 15],
        [15, 18],
    ]
    assert spans(Shards(lambda count: count), {"count": 33}) == [[0, 32], [32, 33]]
    with pytest.raises(ConfigurationError, match="Ranges"):
        spans(Ranges(lambda: cast(int, "many")), {})


async def test_bounds_may_be_asked_for() -> None:
    async def highest(table: str) -> int:
        return len(table)

    planned = await cast(Awaitable[Iterable[PartPlan]], Ranges(highest, size=3).plan({"table": "users"}))
    assert [part.span for part in planned] == ["[0,3]", "[3,5]"]


def test_numbers_of_64_bits_come_back_as_they_were() -> None:
    splitter = Ranges((2**63 - 3, 2**63 - 1), size=1)
    assert records(splitter, {}) == [2**63 - 3, 2**63 - 2]


@pytest.mark.parametrize(
    "bounds",
    [
        "10",
        (1, 2, 3),
        (1.0, 2.0),
        1.5,
        None,
        True,
        (True, 5),
        (5, 1),
        -1,
        range(0, 4, 2),
        (0, 2**63),
        {"lo": 1},
    ],
)
def test_what_is_no_range_is_refused(bounds: Any) -> None:
    with pytest.raises(ConfigurationError, match="Ranges"):
        Ranges(bounds)


def test_what_is_no_count_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="size must be a whole number from 1, not 0"):
        Ranges(5, size=0)
    with pytest.raises(ConfigurationError, match="per_part must be a whole number from 1"):
        Shards(5, per_part=cast(int, "5"))
    with pytest.raises(ConfigurationError, match=r"count .*must be a whole number from 0, not -1"):
        Shards(-1)
