"""Writes of many callers, sent in batches: steps and waits of jobs, and signals to them. While one call is
in flight, the next batch fills. So jobs that run side by side share a round trip and a commit, and a lone one
waits for nobody.

Each caller gets its own answer. Where a batch fails and somebody else's item may be the reason, its items are
sent again one by one: nothing of a batch that was refused was written."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from windlass.errors import StoreUnavailable, WorkerLost

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")
Send: TypeAlias = Callable[[K, Sequence[T]], Awaitable[Sequence[R | Exception]]]
Waiting: TypeAlias = "tuple[T, int, asyncio.Future[R]]"
MAX_ITEMS: Final = 500
"""How many are sent at once."""
MAX_SENT: Final = 4 * 2**20
"""Characters that are sent at once, where a single item has not more."""
CALLS: Final = 2
PATIENCE: Final = 0.02
"""In a worker, whose calls share a connection, unless one is slow."""


class Intake(Generic[K, T, R]):
    """Takes items one by one and sends them in batches, on one event loop. A batch is of one kind: of one
    worker, say. `calls` are the most that are in flight: another one begins where no answer has come within
    `patience` seconds."""

    def __init__(self, send: Send[K, T, R], *, calls: int = CALLS, patience: float = PATIENCE) -> None:
        self._send_all = send
        self._most = calls
        self._patience = patience
        self._waiting: dict[K, list[Waiting[T, R]]] = {}
        """By kind."""
        self._calls: set[asyncio.Task[None]] = set()
        self._late = 0
        """Calls among them that have not answered soon."""

    async def add(self, kind: K, item: T, size: int) -> R:
        """Send an item of so many characters, together with those of others."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(kind, []).append((item, size, answer))
        self._call()
        return await answer

    def _call(self) -> None:
        if self._waiting and len(self._calls) - self._late < 1 and len(self._calls) < self._most:
            # In a context of its own: it works for many callers, not for the one that happens to start it.
            call = asyncio.get_running_loop().create_task(self._drain(), context=contextvars.Context())
            self._calls.add(call)

    async def _drain(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                late: list[None] = []
                timer = loop.call_later(self._patience, self._another, late)
                try:
                    await self._send(*self._next())
                finally:
                    timer.cancel()
                    self._late -= len(late)
                await asyncio.sleep(0)  # who was answered just now may have the next one
        finally:
            self._calls.discard(me)
            self._call()

    def _another(self, late: list[None]) -> None:
        late.append(None)
        self._late += 1
        self._call()

    def _next(self) -> tuple[K, list[Waiting[T, R]]]:
        kind, waiting = next(iter(self._waiting.items()))
        total = 0
        for number, (_, size, _) in enumerate(waiting):
            total += size
            if number == MAX_ITEMS or (number and total > MAX_SENT):
                self._waiting[kind] = waiting[number:]
                return kind, waiting[:number]
        del self._waiting[kind]
        return kind, waiting

    async def _send(self, kind: K, batch: Sequence[Waiting[T, R]]) -> None:
        batch = [each for each in batch if not each[2].done()]  # a caller that was cancelled has left
        if not batch:
            return
        try:
            found = await self._send_all(kind, [item for item, _, _ in batch])
        except asyncio.CancelledError:
            for _, _, answer in batch:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the callers are told
            if len(batch) == 1 or isinstance(error, StoreUnavailable | WorkerLost):
                _answer(batch, [_own(error) for _ in batch])
                return
            for each in batch:
                await self._send(kind, [each])
        else:
            _answer(batch, found)


def _answer(batch: Sequence[Waiting[T, R]], found: Sequence[R | Exception]) -> None:
    for (_, _, answer), each in zip(batch, found, strict=True):
        if answer.done():
            continue
        if isinstance(each, Exception):
            answer.set_exception(each)
        else:
            answer.set_result(each)


def _own(error: Exception) -> Exception:
    """A copy for one caller: what one of them adds to it must not show up at the others."""
    kind = type(error)
    own = kind.__new__(kind, *error.args)
    vars(own).update(vars(error))
    own.__cause__, own.__suppress_context__ = error.__cause__, error.__suppress_context__
    return own
