"""What can be done to jobs through the desk: enqueue, cancel, retry, delete and replay them, one by one or
many by filter. Each action needs the role `operate` and is told to the timeline; an enqueue is not, since
the job itself tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from windlass import bulk as walks
from windlass.bulk import CAP, Count, Verb
from windlass.core.states import State
from windlass.errors import EnqueueError
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, Receipt
from windlass.web.asking import Asking
from windlass.web.bodies import Maker, NewJobBody
from windlass.web.bulk import Bulk, Bulks
from windlass.web.doorstep import Doorstep
from windlass.web.problems import Conflict, Invalid
from windlass.web.shapes import BulkShape, ReceiptShape
from windlass.web.who import Role, Who
from windlass.words import deeds

MOST_AT_ONCE: Final = 1_000
"""Jobs that one request may enqueue or name."""
ENOUGH: Final = 1.0
"""Seconds after which a preview stops counting."""
_COUNTED: Final = frozenset({State.READY, State.RUNNING, State.SCHEDULED, State.RETRYING, State.DEAD})
"""States that the store has counts of; ready counts what `splitting` jobs are not."""


class Doing(Asking):
    """What can be done to jobs."""

    _doorstep: Doorstep
    _maker: Maker
    _bulks: Bulks

    # -- enqueue ----------------------------------------------------------------------------------------

    async def enqueue(self, who: Who, jobs: Sequence[NewJobBody]) -> list[ReceiptShape]:
        """Add jobs, all or none. Single ones wait in a line of bounded length."""
        who.must(Role.OPERATE)
        if not 1 <= len(jobs) <= MOST_AT_ONCE:
            raise Invalid(f"send 1 to {MOST_AT_ONCE:,} jobs at once, not {len(jobs):,}", "jobs")
        if len(jobs) == 1:
            made = [self._maker.make(jobs[0])]
            with self._doorstep.crossed(made):
                return [receipt_shape(receipt) for receipt in await self.app._producer.asend(made)]
        made = []
        for place, body in enumerate(jobs):
            try:
                made.append(self._maker.make(body))
            except EnqueueError as error:
                error.args = (f"jobs[{place}]: {error}",)
                raise
        return [receipt_shape(receipt) for receipt in await self.app._producer.asend(made)]

    # -- single jobs ------------------------------------------------------------------------------------

    async def act(self, who: Who, verb: Verb, ids: Sequence[int]) -> dict[str, str]:
        """Cancel jobs (those that wait now, those that run as soon as their workers hear of it [O5]), retry
        them (offer dead, scheduled and retrying ones again now, with their attempts reset [O6]), or delete
        them and their traces (those that run are asked to stop instead)."""
        who.must(Role.OPERATE)
        named = list(dict.fromkeys(ids))
        if not 1 <= len(named) <= MOST_AT_ONCE:
            raise Invalid(f"name 1 to {MOST_AT_ONCE:,} jobs at once, not {len(named):,}", "ids")
        answers = await self.ask(lambda store: walks.act(store, verb, named))
        self._stop_here(frozenset(id for id, answer in answers.items() if answer == "requested"))
        self.changed()
        await self.note(who, deeds.steered(verb, answers))
        return {str(id): answer for id, answer in answers.items()}

    async def replay(self, who: Who, id: int) -> ReceiptShape:
        """Enqueue a copy of a job that has ended; it knows which one it repeats [O6]."""
        who.must(Role.OPERATE)
        try:
            copy = await self.app.job(id).areplay()
        except EnqueueError as error:
            if type(error) is EnqueueError:  # it has not ended, or is a part
                raise Conflict(str(error)) from error
            raise
        self.changed()
        await self.note(who, [deeds.replayed(id, copy.id)])
        return receipt_shape(Receipt(copy.id, copy.receipt or "enqueued", copy.pressure))

    def _stop_here(self, jobs: frozenset[int]) -> None:
        if jobs:
            self.home.tell_cancelled(jobs)

    # -- many jobs --------------------------------------------------------------------------------------

    async def preview(self, who: Who, where: JobFilter) -> Count:
        """How many jobs a filter finds, as far as can be counted in a moment."""
        who.must(Role.READ)
        return await self.ask(lambda store: _count(store, where))

    async def start_bulk(
        self, who: Who, verb: Verb, where: JobFilter, *, everything: bool = False
    ) -> BulkShape:
        """Retry, cancel or delete every job that a filter finds, in the background. Every job there is must
        be meant: `everything` says so."""
        who.must(Role.OPERATE)
        if where == JobFilter() and not everything:
            raise Invalid('this would be every job there is; filter, or say "everything"', "everything")
        found = await self.preview(who, where)
        bulk = Bulk(verb, where, who.name, None if found.more else found.jobs)
        self._bulks.add(bulk)

        async def work(answers: Any, progress: walks.Progress) -> object:
            return await self.ask(
                lambda store: walks.apply(
                    store, where, verb, progress=progress, requested=self._stop_here, answers=answers
                )
            )

        async def ended(state: str) -> None:
            self.changed()
            await self.note(who, [deeds.steered_many(verb, state, bulk.answers, where)])

        bulk.start(work, ended)
        return bulk.shape()

    async def bulk(self, who: Who, id: str) -> BulkShape:
        """How far an operation is. Raises NotFound."""
        who.must(Role.READ)
        return self._bulks.find(id).shape()

    async def bulks(self, who: Who) -> list[BulkShape]:
        """The operations of this process, the latest first."""
        who.must(Role.READ)
        return [bulk.shape() for bulk in self._bulks.all()]

    async def stop_bulk(self, who: Who, id: str) -> BulkShape:
        """End an operation after its present batch. Raises NotFound."""
        who.must(Role.OPERATE)
        bulk = self._bulks.find(id)
        bulk.stop()
        return bulk.shape()

    async def close(self) -> None:
        """Stop what runs in the background."""
        await self._bulks.stop()
        await self._noted()


def receipt_shape(receipt: Receipt) -> ReceiptShape:
    """A receipt as JSON has it."""
    id = str(receipt.id) if receipt.id else None
    return ReceiptShape(id=id, status=receipt.status, pressure=receipt.pressure)


async def _count(store: Store, where: JobFilter) -> Count:
    """By the store's own counts where it has them, else by walking for a moment."""
    if where.state in _COUNTED and where == JobFilter(queue=where.queue, state=where.state):
        depths = await store.depth(None if where.queue is None else [where.queue])
        counted = sum(getattr(depth, str(where.state)) for depth in depths.values())
        return Count(min(counted, CAP), more=counted > CAP)
    return await walks.count(store, where, within=ENOUGH)
