"""Items of any iterable, and parts as a planner of the user's says."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chunks.reading import parts, records, slices, spans
from windlass.chunks import Items, Splitter, planner
from windlass.errors import ConfigurationError, InvalidPayload, PayloadTooLarge
from windlass.store.records import PartPlan


async def planned(splitter: Splitter, **arguments: Any) -> list[Any]:
    found = await cast(Awaitable[Iterable[PartPlan]], splitter.plan(arguments))
    return [msgspec.json.decode(part.span) for part in found]


@given(
    items=st.lists(st.integers() | st.text("abc"), max_size=30).map(lambda items: [*items, {"last": None}]),
    size=st.integers(1, 12),
    batches=st.lists(st.integers(1, 5), min_size=1, max_size=3),
)
def test_every_item_once_and_from_every_cursor(items: list[Any], size: int, batches: list[int]) -> None:
    splitter = Items(items, size)
    assert records(splitter, {}, batches) == msgspec.json.decode(msgspec.json.encode(items))
    for part in parts(splitter, {}):
        span = msgspec.json.decode(part.span)
        assert part.size == len(span)
        for piece in slices(splitter, span, {}, sizes=batches):
            rest = [item for more in slices(splitter, span, {}, piece.cursor) for item in more.records]
            assert span[piece.cursor :] == rest
            assert piece.done == part.size - len(rest)


def test_items_may_depend_on_the_arguments() -> None:
    splitter = Items(lambda names: (name.upper() for name in names), size=2)
    assert spans(splitter, {"names": ["a", "b", "c"]}) == [["A", "B"], ["C"]]
    assert spans(splitter, {"names": []}) == []
    assert spans(Items(range(3), size=2), {}) == [[0, 1], [2]]


async def test_items_may_be_asked_for() -> None:
    async def one_by_one(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    async def at_once(n: int) -> list[int]:
        return list(range(n))

    async def both(n: int) -> AsyncIterator[int]:
        return one_by_one(n)

    for function in (one_by_one, at_once, both):
        assert await planned(Items(function, size=2), n=3) == [[0, 1], [2]]


def test_a_part_that_is_too_big_says_to_lower_size() -> None:
    with pytest.raises(PayloadTooLarge, match=r"part 1 of Items .* lower size, which is 2, or"):
        parts(Items(["a", "b", "x" * 600_000, "y" * 600_000], size=2), {})
    with pytest.raises(PayloadTooLarge, match=r"part 0 of Items .* make the item smaller or"):
        parts(Items(["x" * 1_100_000]), {})


def test_items_that_are_not_json_are_refused() -> None:
    with pytest.raises(InvalidPayload, match="part 0 of Items cannot be written as JSON"):
        parts(Items([object()]), {})


@pytest.mark.parametrize("of", ["text", b"bytes", {"a": 1}, 5, None])
def test_what_is_no_list_is_refused(of: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no list of items; give an iterable, or a function"):
        Items(of)
    with pytest.raises(ConfigurationError, match="is no list of items"):
        Items(lambda: of).plan({})


def test_an_iterator_is_refused_since_the_second_job_would_find_it_empty() -> None:
    with pytest.raises(ConfigurationError, match=r"only once.*give a list, or a function"):
        Items(iter([1, 2]))


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Items: size must be a whole number from 1, not 0"):
        Items([1], size=0)


def test_a_planner_says_what_the_parts_are() -> None:
    @planner
    def months(year: int, count: int) -> Iterator[dict[str, int]]:
        for month in range(1, count + 1):
            yield {"year": year, "month": month}

    found = parts(months, {"year": 2024, "count": 2})
    assert [(part.span, part.size) for part in found] == [
        ('{"year":2024,"month":1}', 1),
        ('{"year":2024,"month":2}', 1),
    ]
    assert parts(months, {"year": 2024, "count": 0}) == []
    with pytest.raises(ConfigurationError, match=r"that months plans are no lists.*part\.span itself"):
        months.read({"year": 2024, "month": 1}, {}, None)


def test_a_planners_lists_are_read_as_records() -> None:
    splitter = planner(lambda: [[1, 2, 3], [], [4]])
    assert records(splitter, {}, [2]) == [1, 2, 3, 4]
    assert [(piece.cursor, piece.done) for piece in slices(splitter, [1, 2, 3], {}, sizes=[2])] == [
        (2, 0),
        (3, 1),
    ]


async def test_a_planner_may_be_async() -> None:
    @planner
    async def tenants() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    assert await planned(tenants) == ["a", "b"]


def test_what_is_no_planner_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"a list is split with Items"):
        planner(cast(Any, [1, 2]))
    with pytest.raises(PayloadTooLarge, match=r"part 0 of <lambda> .*yield smaller values"):
        parts(planner(lambda: ["x" * 1_100_000]), {})
