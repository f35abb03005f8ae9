"""One look every two seconds for all who watch: the headline of the overview, which tells pages that it is
time to look again. It looks only while somebody watches."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from windlass.operations.overview import Level, Totals, show_overview
from windlass.operations.principal import Principal, Role
from windlass.web.http.problems import Problem, problem_of
from windlass.web.service.service import Service

EVERY: Final = 2.0
_WATCHER: Final = Principal("ticker", Role.READ)


class Tick(Totals, frozen=True, kw_only=True):
    """How things stand, in short."""

    at: str
    healthy: Level
    workers: int
    succeeded_per_second: float
    failed_per_second: float


class Ticker:
    """Looks while somebody watches, and wakes them."""

    def __init__(self, service: Service, every: float = EVERY) -> None:
        self._service = service
        self._every = every
        self._watching = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.closed: bool = False
        self.number: int = 0
        self.last: Tick | Problem | None = None
        """The last look, or what went wrong with it."""

    def join(self) -> None:
        """Somebody watches from now on."""
        self._watching += 1
        if self._task is None or self._task.done():
            self._wake()  # an event belongs to one loop, and this may be another than the last
            self._task = asyncio.create_task(self._run())

    def leave(self) -> None:
        """Somebody watches no more."""
        self._watching -= 1
        if not self._watching and self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        """There will be no more ticks: whoever watches shall leave."""
        self.closed = True
        self._wake()

    async def after(self, number: int) -> None:
        """Wait until there is a later tick than this one, or there will be none."""
        while self.number <= number and not self.closed:
            await self._changed.wait()

    async def ended(self) -> None:
        """Wait until there will be no more ticks."""
        while not self.closed:
            await self._changed.wait()

    async def _run(self) -> None:
        while True:
            try:
                self.last = await self._look()
            except Exception as error:  # noqa: BLE001 - those who watch are told, and the next look may succeed
                self.last = problem_of(error)
            self.number += 1
            self._wake()
            await asyncio.sleep(self._every)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _look(self) -> Tick:
        seen = await self._service.run(_WATCHER, show_overview)
        totals = seen.totals
        if totals is None:
            raise Problem(503, "timeout", seen.missing["totals"])
        return Tick(
            **msgspec.structs.asdict(totals),
            at=seen.at,
            healthy=seen.healthy,
            workers=seen.workers_alive or 0,
            succeeded_per_second=seen.succeeded_per_second or 0.0,
            failed_per_second=seen.failed_per_second or 0.0,
        )
