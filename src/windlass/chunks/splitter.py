"""The protocol of splitters: how a chunked job is cut into parts, and how the records of one part are read
again.

A splitter is a value: it is given once, as `@app.chunked(split=NDJSON("256MiB"))`, and holds nothing of a
job. It plans the parts of a job from the job's arguments, and reads the records of one part from any place
that it named before. Both may block.

Here are the shapes alone; the splitters live in `ndjson`, `ranges` and `items`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from windlass.errors import ConfigurationError
from windlass.store.records import PartPlan

Arguments: TypeAlias = Mapping[str, Any]
"""The arguments of the job, by name."""
Plans: TypeAlias = Iterable[PartPlan] | Awaitable[Iterable[PartPlan]]
T = TypeVar("T")


class Slice(Protocol):
    """Some records in a row."""

    @property
    def cursor(self) -> Any:
        """Where the next slice begins, as a JSON value for `Splitter.read`."""

    @property
    def done(self) -> int:
        """Units from the part's start to the end of this slice, for progress."""

    @property
    def records(self) -> Sequence[Any]:
        """The records, decoded on the first access and then kept."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]:
        """The records one at a time; where they need decoding, without keeping them."""


class Reader(Protocol):
    """Reads a part from front to back. Its calls block, and one thread at a time makes them."""

    def take(self, n: int) -> Slice | None:
        """The next records: at least one, at most n. None once the part is read to its end."""

    def close(self) -> None:
        """Let go of the file, if there is one. Closing twice is fine."""


class Splitter(Protocol):
    """Cuts a job into parts, and reads their records."""

    @property
    def unit(self) -> str:
        """The unit of the sizes of parts: bytes, numbers, shards, items or parts."""

    def plan(self, arguments: Arguments) -> Plans:
        """The parts of a job with these arguments, in order. The same arguments give the same parts."""

    def read(self, span: Any, arguments: Arguments, cursor: Any) -> Reader:
        """A reader of the part that `plan` described by this span, from its start or, with a cursor, from
        right behind the slice that named it."""


@runtime_checkable
class Resizable(Protocol):
    """A splitter whose parts have a size that operators may set, in its unit [P13]."""

    def resized(self, size: int) -> Splitter:
        """Return this splitter with parts of this size, at least 1."""


@runtime_checkable
class Checks(Protocol):
    """A splitter that can tell from the names of a task's arguments whether it will find what it needs."""

    def check(self, task: str, names: Sequence[str]) -> None:
        """Raise ConfigurationError where it will not."""


def check_call(task: str, owner: str, function: Callable[..., Any], names: Sequence[str]) -> None:
    """Return whether a function of the user's takes the arguments of a job by name. Raises
    ConfigurationError."""
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        listed = ", ".join(names) or "none"
        raise ConfigurationError(
            f"task {task}: the function of {owner} gets the job's arguments by name ({listed}): {error}"
        ) from None
    except ValueError:
        return  # a built-in that does not tell


def settled(value: Any, then: Callable[[Any], T]) -> T | Awaitable[T]:
    """`then(value)`; where the value is still to be awaited, the promise of that."""
    if not inspect.isawaitable(value):
        return then(value)

    async def later() -> T:
        return then(await value)

    return later()


def whole(owner: str, name: str, value: Any, least: int = 1) -> int:
    """A count given to a splitter. Raises ConfigurationError where it is none."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{owner}: {name} must be a whole number from {least}, not {value!r}")
    return value
