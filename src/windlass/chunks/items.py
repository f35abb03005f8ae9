"""Splitters for what can be listed: `Items` cuts an iterable into parts, `planner` lets a function of yours
say what the parts are.

    @app.chunked(split=Items(lambda folder: sorted(os.listdir(folder)), size=100))
    async def thumbnails(part: Part, folder: str) -> None: ...

    @planner
    def months(year: int) -> Iterator[dict[str, int]]:
        for month in range(1, 13):
            yield {"year": year, "month": month}

    @app.chunked(split=months)
    async def report(part: Part, year: int) -> None: ...    # part.span is one of these dicts

What is listed is kept with the parts, so it must be JSON, and what is big belongs elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self, TypeAlias

from windlass.chunks.splitter import Arguments, Plans, check_call, whole
from windlass.errors import ConfigurationError, InvalidPayload, PayloadTooLarge
from windlass.running.encoding import LIMIT, encode
from windlass.store.records import PartPlan

Listing: TypeAlias = Iterable[Any] | AsyncIterable[Any]


@dataclass(frozen=True, slots=True)
class ItemSlice:
    """Some items in a row. The cursor is the number of items before the next one."""

    records: list[Any]
    cursor: int
    done: int

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)


class ItemReader:
    """Goes through the items that are kept in a part."""

    def __init__(self, items: list[Any], cursor: int | None, *, size: int | None = None) -> None:
        self._items = items
        self._next = cursor or 0
        self._size = len(items) if size is None else size

    def take(self, n: int) -> ItemSlice | None:
        """The next items, n of them while there are as many."""
        items = self._items[self._next : self._next + n]
        if not items:
            return None
        self._next += len(items)
        return ItemSlice(items, self._next, self._size * self._next // len(self._items))

    def close(self) -> None:
        """There is nothing to let go of."""


class Items:
    """Cuts an iterable into parts of `size` items, which are kept with the parts.

    `of` is a list or another iterable that can be gone through more than once, or a function that takes the
    job's arguments by name and gives an iterable, also an asynchronous one.
    """

    unit = "items"

    def __init__(self, of: Iterable[Any] | Callable[..., Any], size: int = 100) -> None:
        self._size = whole("Items", "size", size)
        if not callable(of):
            _check_listing("Items", of)
            if isinstance(of, Iterator):
                raise ConfigurationError(
                    f"Items({of!r}): an iterator can be gone through only once, and every job needs it anew; "
                    "give a list, or a function that makes the iterator"
                )
        self._of = of

    def check(self, task: str, names: Sequence[str]) -> None:
        """See Checks."""
        if callable(self._of):
            check_call(task, "Items", self._of, names)

    def resized(self, size: int) -> Self:
        """See Resizable."""
        other = copy(self)
        other._size = size
        return other

    def plan(self, arguments: Arguments) -> Plans:
        """One part for every `size` items, the last one with the rest."""
        listing = self._of(**arguments) if callable(self._of) else self._of
        return _planned("Items", listing, self._cut)

    def read(self, span: Any, arguments: Arguments, cursor: Any) -> ItemReader:
        """The items of a part."""
        return ItemReader(span, cursor)

    def _cut(self, listing: Iterable[Any]) -> Iterator[PartPlan]:
        rest = iter(listing)
        index = 0
        while items := list(islice(rest, self._size)):
            advice = f"lower size, which is {self._size}," if len(items) > 1 else "make the item smaller"
            yield PartPlan(_span("Items", index, items, advice), len(items))
            index += 1


class Planner:
    """Parts as a function of yours says: every JSON value that it gives is the span of one part."""

    unit = "parts"

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"planner({function!r}): give a function that takes the job's arguments and yields one JSON "
                "value for each part; a list is split with Items(...)"
            )
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)

    def check(self, task: str, names: Sequence[str]) -> None:
        """See Checks."""
        check_call(task, self._name, self._function, names)

    def plan(self, arguments: Arguments) -> Plans:
        """One part of size 1 for each value."""
        return _planned(self._name, self._function(**arguments), self._cut)

    def read(self, span: Any, arguments: Arguments, cursor: Any) -> ItemReader:
        """The items of the part's value, where that is a list."""
        if not isinstance(span, list):
            raise ConfigurationError(
                f"the parts that {self._name} plans are no lists, so they have no batches of records: let "
                "the handler work with part.span itself, or let the planner yield lists"
            )
        return ItemReader(span, cursor, size=1)

    def _cut(self, listing: Iterable[Any]) -> Iterator[PartPlan]:
        for index, value in enumerate(listing):
            yield PartPlan(_span(self._name, index, value, "yield smaller values"), 1)


def planner(function: Callable[..., Any]) -> Planner:
    """Make a splitter of a function that takes the job's arguments by name and yields one JSON value for each
    part. It may be a generator, give any iterable, and be `async`."""
    return Planner(function)


def _planned(owner: str, listing: Any, cut: Callable[[Iterable[Any]], Iterable[PartPlan]]) -> Plans:
    if inspect.isawaitable(listing) or isinstance(listing, AsyncIterable):
        return _gathered(owner, listing, cut)
    _check_listing(owner, listing)
    return cut(listing)


async def _gathered(
    owner: str,
    listing: Awaitable[Any] | AsyncIterable[Any],
    cut: Callable[[Iterable[Any]], Iterable[PartPlan]],
) -> Iterable[PartPlan]:
    found: Any = await listing if inspect.isawaitable(listing) else listing
    if isinstance(found, AsyncIterable):
        return cut([item async for item in found])
    _check_listing(owner, found)
    return cut(found)


def _check_listing(owner: str, listing: Any) -> None:
    """Texts and mappings can be iterated, too, but never into what was meant."""
    if isinstance(listing, str | bytes | Mapping) or not isinstance(listing, Iterable):
        raise ConfigurationError(
            f"{owner}: {listing!r} is no list of items; give an iterable, or a function of the job's "
            "arguments that gives one"
        )


def _span(owner: str, index: int, value: Any, advice: str) -> str:
    try:
        return encode(value)
    except PayloadTooLarge as error:
        raise PayloadTooLarge(
            f"part {index} of {owner} takes more than {LIMIT:,} bytes as JSON; {advice} or keep the data "
            "elsewhere and list its addresses"
        ) from error
    except InvalidPayload as error:
        raise InvalidPayload(f"part {index} of {owner} {error}") from error
