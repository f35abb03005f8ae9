"""The part of the SQLite store that is about measures; see `windlass.store.measures` for what each operation
promises. Nothing is decided here."""

from __future__ import annotations

from windlass.core.rollup import Sample
from windlass.store.measures import Causes, EventRecord, Health, News, Rolled, TaskDepth
from windlass.store.sqlite import charts
from windlass.store.sqlite import health as looking
from windlass.store.sqlite import news as telling
from windlass.store.sqlite.base import Base


class Measuring(Base):
    """Rollups, timelines, and how the file is doing."""

    async def tell(self, source: int, number: int, news: News) -> float:
        return await self._write(lambda tx: telling.tell(tx, source, number, news))

    async def rollup(self, limit: int = 1000) -> Rolled:
        return await self._write(lambda tx: telling.rollup(tx, limit))

    async def measured(
        self, span: int, since: float, until: float, *, queue: str = "", task: str = ""
    ) -> list[Sample]:
        return await self._read(
            lambda connection: charts.measured(connection, span, since, until, queue, task)
        )

    async def totals(self) -> list[Sample]:
        return await self._read(charts.totals)

    async def events(
        self, *, job: int | None = None, queue: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[EventRecord]:
        return await self._read(lambda connection: charts.events(connection, job, queue, limit, before))

    async def task_depths(self, most: int = 100_000) -> list[TaskDepth]:
        return await self._read(lambda connection: looking.task_depths(connection, most))

    async def causes(
        self, *, queue: str | None = None, task: str | None = None, limit: int = 10_000
    ) -> Causes:
        return await self._read(lambda connection: charts.causes(connection, queue, task, limit))

    async def health(self) -> Health:
        return await self._read(lambda connection: looking.health(connection, self.path))
