"""Splitters for work that is numbered: ranges of integers, and shards [P3].

    @app.chunked(split=Ranges((1, 5_000_000), size=10_000))         # ids 1 to 4,999,999
    @app.chunked(split=Ranges(lambda table: highest_id(table) + 1)) # asked when the job is split
    @app.chunked(split=Shards(1024))                                # shard ids 0 to 1023, 32 a part

All ranges are half-open, and the last part may be short. The records of a part are its numbers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import msgspec

from windlass.chunks.splitter import Arguments, Plans, check_call, settled, whole
from windlass.errors import ConfigurationError
from windlass.store.records import PartPlan

Bounds: TypeAlias = int | Sequence[int]
"""n for [0, n), or (lo, hi) or range(lo, hi) for [lo, hi)."""
Count: TypeAlias = int | Callable[..., int | Awaitable[int]]

# Beyond 64 bits JSON readers take a number for a float, and it would come back as another one.
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RangeSlice:
    """Some numbers in a row."""

    records: range
    start: int

    @property
    def cursor(self) -> int:
        """The number after the last one."""
        return self.records.stop

    @property
    def done(self) -> int:
        """How many numbers of the part lie before the cursor."""
        return self.records.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class RangeReader:
    """Counts from the cursor to the end of the part."""

    def __init__(self, start: int, stop: int, cursor: int | None) -> None:
        self._start = start
        self._next = start if cursor is None else cursor
        self._stop = stop

    def take(self, n: int) -> RangeSlice | None:
        """The next numbers, n of them while there are as many."""
        upper = min(self._next + n, self._stop)
        if self._next >= upper:
            return None
        numbers = range(self._next, upper)
        self._next = upper
        return RangeSlice(numbers, self._start)

    def close(self) -> None:
        """There is nothing to let go of."""


class Ranges:
    """Cuts a range of integers into parts of `size` numbers [P3].

    `bounds` is n for [0, n), a pair (lo, hi) for [lo, hi), or a function that takes the job's arguments by
    name and gives one of these; it may be `async`. An empty range has no parts.
    """

    unit = "numbers"

    def __init__(
        self, bounds: Bounds | Callable[..., Bounds | Awaitable[Bounds]], size: int = 10_000
    ) -> None:
        self._name = type(self).__name__
        self._size = whole(self._name, "size", size)
        self._bounds = bounds if callable(bounds) else self._pair(bounds)

    def check(self, task: str, names: Sequence[str]) -> None:
        """See Checks."""
        if callable(self._bounds):
            check_call(task, self._name, self._bounds, names)

    def resized(self, size: int) -> Self:
        """See Resizable."""
        other = copy(self)
        other._size = size
        return other

    def plan(self, arguments: Arguments) -> Plans:
        """One part for every `size` numbers, the last one with the rest."""
        if callable(self._bounds):
            return settled(self._bounds(**arguments), lambda bounds: self._cut(*self._pair(bounds)))
        return self._cut(*self._bounds)

    def read(self, span: Any, arguments: Arguments, cursor: Any) -> RangeReader:
        """The numbers of the part [lo, hi)."""
        lower, upper = span
        return RangeReader(lower, upper, cursor)

    def _cut(self, lower: int, upper: int) -> Iterator[PartPlan]:
        for start in range(lower, upper, self._size):
            stop = min(start + self._size, upper)
            yield PartPlan(msgspec.json.encode((start, stop)).decode(), stop - start)

    def _pair(self, bounds: Any) -> tuple[int, int]:
        pair = (0, bounds) if type(bounds) is int else bounds
        if isinstance(pair, range) and pair.step == 1:
            pair = (pair.start, pair.stop)
        match pair:
            case (int(), int()) if not isinstance(pair, range) and type(pair[0]) is type(pair[1]) is int:
                lower, upper = pair
            case _:
                raise ConfigurationError(
                    f"{self._name}({bounds!r}): write n for the numbers below n, (lo, hi) for those from lo "
                    "to hi - 1, or a function of the job's arguments that gives one of these"
                )
        if not LOWEST <= lower <= upper <= HIGHEST:
            raise ConfigurationError(
                f"{self._name}({bounds!r}): the range must begin before it ends and fit into 64 bits"
            )
        return lower, upper


class Shards(Ranges):
    """Cuts shard ids 0 to count - 1 into parts of `per_part` shards [P3]. `count` may be a function of the
    job's arguments, `async` or not. 0 shards have no parts."""

    unit = "shards"

    def __init__(self, count: Count, per_part: int = 32) -> None:
        whole("Shards", "per_part", per_part)
        super().__init__(count, per_part)

    def _pair(self, bounds: Any) -> tuple[int, int]:
        return 0, whole("Shards", "count (or what its function gives)", bounds, least=0)
