"""The line between a worker and its store, which a test can cut, delay, and rob of answers.

A `Line` is a real store with one thing more: every call passes through here first, so that a test may see it
and let it fail at the wrong moment. What comes back is always what the real store would say.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from tests.stopwatch import Stopwatch
from windlass import Windlass
from windlass.errors import StoreUnavailable
from windlass.settings import Settings
from windlass.store.protocol import Store

Gate = Callable[..., Awaitable[object]]


class Line:
    """A store behind a line. `before[name]` is awaited with the call's arguments before it goes out, and
    `after[name]` with its answer before that comes back; either may raise, or wait."""

    def __init__(self, store: Store) -> None:
        self.real = store
        self.is_cut = False
        self.calls: Counter[str] = Counter()
        self.arguments: dict[str, tuple[Any, ...]] = {}
        self.before: dict[str, Gate] = {}
        self.after: dict[str, Gate] = {}

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.real, name)
        if not inspect.iscoroutinefunction(operation):
            return operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            self.arguments[name] = args
            if self.is_cut and name != "close":
                raise StoreUnavailable("the test has cut the line")
            if name in self.before:
                await self.before[name](*args, **kwargs)
            answer = await operation(*args, **kwargs)
            if name in self.after:
                await self.after[name](answer)
            return answer

        return call

    @property
    def as_store(self) -> Store:
        """The same, for those who ask for a store."""
        return cast("Store", self)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing gets through while the block lasts."""
        self.is_cut = True
        try:
            yield
        finally:
            self.is_cut = False

    def fail(self, name: str, *errors: BaseException) -> None:
        """The next calls of this name raise these, one each, without reaching the store."""
        left = list(errors)

        async def fail(*_: Any, **__: Any) -> None:
            if left:
                raise left.pop(0)

        self.before[name] = fail

    def lose_answer(self, name: str, *, times: int = 1) -> None:
        """The next calls of this name that bring something do their work, and their answers are lost."""
        left = [StoreUnavailable("the line broke after the commit")] * times

        async def lose(answer: object) -> None:
            if left and answer:
                raise left.pop()

        self.after[name] = lose


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    """Wait until something is so, looking often. Fails when it does not become so."""
    watch = Stopwatch()
    while not condition():
        assert watch.seconds() < within, f"it did not happen within {within:g} s"
        await asyncio.sleep(0.002)


async def until_it_is(look: Callable[[], Awaitable[object]], value: object, within: float = 15.0) -> None:
    """Wait until what the store says is so."""
    watch = Stopwatch()
    while (seen := await look()) != value:
        assert watch.seconds() < within, f"it is {seen!r}, not {value!r}, after {within:g} s"
        await asyncio.sleep(0.005)


def set_quick(app: Windlass, *, lease: float = 0.6, **settings: Any) -> Windlass:
    """Give an app a lease shorter than users may set, so that no test has to wait for a long one."""
    quick = Settings(database_url=app.settings.database_url, lease=lease, **{"sweep": lease / 3, **settings})
    app.__dict__["settings"] = quick
    return app
