"""The jobs of an app that a filter finds: gone through one after the other, newest first [M3], or counted,
retried, cancelled and deleted all at once [O6]. How the latter is done is in `windlass.operations.walks`.

    async for job in app.jobs(state="dead", task="mail.send", limit=50):    # and a plain `for`
        print(job, await job.asteps())
    for record in app.jobs(tag="nightly").records():
        print(record.id, record.state, record.errors)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from windlass.errors import InvalidOption
from windlass.handles.details import JobDetails, details_of
from windlass.handles.handle import _Handle
from windlass.handles.job import Job
from windlass.operations.operation import Ops
from windlass.operations.walks import BATCH, CAP, MOMENT, Acted, Answers, Count, Progress, Verb, apply, count
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, JobRecord

if TYPE_CHECKING:
    from windlass.app import Windlass

T_co = TypeVar("T_co", covariant=True)
PAGE: Final = 200
"""Jobs that are read at once: their payloads are in memory together."""
Show: TypeAlias = Callable[[Store, Sequence[JobRecord]], Awaitable[Sequence[T_co]]]
"""Makes of records what a loop is given."""


class Listing(_Handle, Generic[T_co]):
    """The jobs that a filter finds, newest first, for `async for` and for a plain `for`.

    Each loop begins anew and reads page by page: a page shows one moment [S5] and takes bounded time. Jobs
    that are enqueued meanwhile are not met."""

    __slots__ = ("_show", "limit", "where")

    def __init__(self, app: Windlass, where: JobFilter, limit: int | None, show: Show[T_co]) -> None:
        super().__init__(app)
        self.where: Final = where
        """The filter."""
        self.limit: Final = limit
        """How many jobs at most, the newest; None: all."""
        self._show = show

    async def __aiter__(self) -> AsyncIterator[T_co]:
        walk = _Walk(self)
        while not walk.ended:
            for each in await self._arun(walk.page):
                yield each

    def __iter__(self) -> Iterator[T_co]:
        walk = _Walk(self)
        while not walk.ended:
            yield from self._run(walk.page)


class _Walk(Generic[T_co]):
    """How far one loop has come."""

    def __init__(self, listing: Listing[T_co]) -> None:
        self.ended = False
        self._listing = listing
        self._left = listing.limit
        self._cursor: str | None = None
        self._met = Acted()

    async def page(self, ops: Ops) -> Sequence[T_co]:
        """The next jobs, maybe none. The last page sets `ended`. A job that moved and is met again is left
        out: see `Acted`."""
        most = PAGE if self._left is None else min(PAGE, self._left)
        page = await ops.store.jobs(self._listing.where, most, self._cursor, MOMENT)
        found = [job for job in page.jobs if job.id not in self._met]
        self._met.update(job.id for job in found)
        self._cursor = page.cursor
        if self._left is not None:
            self._left -= len(found)
        self.ended = self._cursor is None or self._left == 0
        return await self._listing._show(ops.store, found)


class Jobs(Listing[Job[Any]]):
    """The jobs of an app that a filter finds; see `Windlass.jobs`. It holds the filter and asks the store
    each time. As a loop it gives their handles, the newest first."""

    __slots__ = ()

    def __init__(self, app: Windlass, where: JobFilter, limit: int | None) -> None:
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidOption(f"limit: {limit!r} is not a whole number from 1")

        async def handles(_: Store, found: Sequence[JobRecord]) -> Sequence[Job[Any]]:
            return [app.named(record.task).job(record.id) for record in found]

        super().__init__(app, where, limit, handles)

    def __repr__(self) -> str:
        given = {name: getattr(self.where, name) for name in self.where.__struct_fields__}
        given["limit"] = self.limit
        return f"<Jobs {' '.join(f'{name}={value}' for name, value in given.items() if value) or 'all'}>"

    def records(self) -> Listing[JobDetails]:
        """List these jobs with everything the store knows about them, as `job.record()` has it, for `async
        for` and a plain `for`: without another question for each."""

        async def details(store: Store, found: Sequence[JobRecord]) -> Sequence[JobDetails]:
            workers = await store.workers() if any(job.worker is not None for job in found) else ()
            return [details_of(job, self._app.codec, workers) for job in found]

        return Listing(self._app, self.where, self.limit, details)

    def count(self, cap: int = CAP) -> Count:
        """How many there are, counted up to `cap`."""
        return self._run(lambda ops: self._count(ops.store, cap))

    async def acount(self, cap: int = CAP) -> Count:
        """How many there are, counted up to `cap`."""
        return await self._arun(lambda ops: self._count(ops.store, cap))

    def retry(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Offer the dead, scheduled and retrying ones again now, with their attempts reset."""
        return self._apply("retry", batch, progress)

    async def aretry(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Offer the dead, scheduled and retrying ones again now, with their attempts reset."""
        return await self._aapply("retry", batch, progress)

    def cancel(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Cancel them: those that wait now, those that run as soon as their workers hear of it."""
        return self._apply("cancel", batch, progress)

    async def acancel(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Cancel them: those that wait now, those that run as soon as their workers hear of it."""
        return await self._aapply("cancel", batch, progress)

    def delete(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Remove them; those that run are asked to stop instead."""
        return self._apply("delete", batch, progress)

    async def adelete(self, *, batch: int = BATCH, progress: Progress | None = None) -> Answers:
        """Remove them; those that run are asked to stop instead."""
        return await self._aapply("delete", batch, progress)

    def _apply(self, verb: Verb, batch: int, progress: Progress | None) -> Answers:
        return self._run(lambda ops: self._on(ops, verb, batch, progress))

    async def _aapply(self, verb: Verb, batch: int, progress: Progress | None) -> Answers:
        return await self._arun(lambda ops: self._on(ops, verb, batch, progress))

    def _on(self, ops: Ops, verb: Verb, batch: int, progress: Progress | None) -> Awaitable[Answers]:
        return apply(ops, self.where, verb, batch=batch, limit=self.limit, progress=progress)

    async def _count(self, store: Store, cap: int) -> Count:
        if self.limit is None or cap < self.limit:
            return await count(store, self.where, cap)
        return Count((await count(store, self.where, self.limit)).jobs)
