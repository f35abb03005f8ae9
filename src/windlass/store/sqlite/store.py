"""The SQLite store as a whole; see `windlass.store.protocol` for what each operation promises.

Nothing is decided here. An operation is a function of one of the modules: one that writes is a function of a
transaction and is handed to the writer's thread, one that reads is a function of a connection and is handed
to the reader's.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence, Set
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import apsw

from windlass.core.abilities import NONE
from windlass.errors import Refused, ResultTimeout
from windlass.store import records
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import (
    claims,
    cluster,
    deferred,
    flush_claims,
    listing,
    management,
    measures,
    moving,
    outcomes,
    parents,
    parts,
    retention,
    schedules,
    schema,
    workers,
)
from windlass.store.sqlite import enqueue as enqueuing
from windlass.store.sqlite.connections.database import Database
from windlass.store.sqlite.durable import change as changing
from windlass.store.sqlite.durable import groups, signals, streams, waiting
from windlass.store.sqlite.durable import steps as durable_steps
from windlass.store.sqlite.flow import budgets, limits, waiting_lists
from windlass.store.sqlite.operation.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["SQLiteStore", P], Coroutine[Any, Any, T]]
DEFAULTS = StoreSettings()


def _write(operation: Callable[Concatenate[Transaction, P], T]) -> Method[P, T]:
    """The method of an operation that writes."""

    @wraps(operation)
    async def method(self: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda tx: operation(tx, *args, **kwargs))

    return method


def _read(operation: Callable[Concatenate[apsw.Connection, P], T]) -> Method[P, T]:
    """The method of an operation that reads."""

    @wraps(operation)
    async def method(self: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: operation(connection, *args, **kwargs))

    return method


def _read_now(operation: Callable[Concatenate[apsw.Connection, float, P], T]) -> Method[P, T]:
    """The method of an operation that reads and asks for the time."""

    @wraps(operation)
    async def method(self: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        now = self._clock()
        return await self.database.read(lambda connection: operation(connection, now, *args, **kwargs))

    return method


class SQLiteStore:
    """A store in one file, for the processes of one machine.

    Where an operation has the name of its module it comes last there: from then on the name means the
    operation."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: StoreSettings = DEFAULTS,
        clock: Callable[[], float] = time.time,
        *,
        busy_timeout: float = 10.0,
        books: bool = True,
    ) -> None:
        """`busy_timeout` is how many seconds a write waits for another process before StoreUnavailable.
        `books` says whether claims may book tokens that are not there yet."""
        self.path: Final = os.fspath(path)
        self._settings = settings
        self._clock = clock
        self._token_lists: frozenset[str] = frozenset()  # as the last promotion left them

        def run(connection: apsw.Connection, operation: Callable[[Transaction], Any]) -> tuple[Any, bool]:
            tx = Transaction(connection, clock(), settings, books=books)
            answer = operation(tx)
            deferred.complete(tx)
            return answer, tx.notify

        self.database: Final = Database(self.path, busy_timeout, settings.idle_poll, schema.migrate, run)

    # -- life of the store ------------------------------------------------------------------------------

    @property
    def read_only(self) -> str | None:
        """See Store.read_only: this store is never so."""
        return None

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

    async def migrate(self) -> records.Migration:
        return await self.database.migrate()

    async def now(self) -> float:
        return self._clock()

    # -- enqueue ----------------------------------------------------------------------------------------

    async def enqueue(
        self, jobs: Sequence[records.NewJob], *, connection: Any = None
    ) -> list[records.Receipt]:
        return await self._enqueue(lambda tx: enqueuing.enqueue(tx, jobs), connection)

    async def _enqueue(
        self, write: Callable[[Transaction], list[records.Receipt] | Refused], connection: Any
    ) -> list[records.Receipt]:
        if connection is not None:
            answer = self.database.join(connection, write)
        else:
            answer = await self.database.write(write)
        if isinstance(answer, Refused):
            raise answer  # only now: that it was refused is written, and nothing else
        return answer

    observe: Final = _write(enqueuing.observe)

    # -- the life of a worker ---------------------------------------------------------------------------

    register: Final = _write(workers.register)
    retire: Final = _write(workers.retire)
    heartbeat: Final = _write(workers.heartbeat)
    rescue: Final = _write(workers.rescue)
    published_queue: Final = _read(workers.published_queue)
    published_tasks: Final = _read(workers.published_tasks)
    workers: Final = _read(workers.workers)

    async def rehearse(self, worker: int, queues: Sequence[str]) -> None:
        """See Store.rehearse: there is no server, and nothing to warm up."""

    # -- claim and finish -------------------------------------------------------------------------------

    claim: Final = _write(parents.claim)
    unfinished: Final = _read(claims.unfinished)
    fences: Final = _read(claims.fences)
    finish: Final = _write(flush_claims.finish)

    async def wait(self, queues: Sequence[str], timeout: float, abilities: Set[str] = NONE) -> bool:
        soon = await self.database.read(
            lambda connection: claims.work_in(connection, queues, self._clock(), abilities)
        )
        look = lambda connection: claims.has_work(connection, queues, self._clock(), abilities)  # noqa: E731
        return await self.database.wait(look, min(timeout, soon), by_time=True) is True

    async def forward_wakeups(self, queues: Sequence[str], forward: Callable[[records.WakeUp], None]) -> None:
        """See Store.forward_wakeups: each process has a socket of its own, and looks at the file."""
        receives = self.database.receives_others
        await self.database.watch(
            cluster.host_calls, lambda calls: forward(records.WakeUp(tuple(calls[1]), receives=receives))
        )

    def on_wakeup(self, wake_up: records.WakeUp | None) -> None:
        """See Store.on_wakeup."""

    async def polling(self, queues: Sequence[str]) -> records.Polling:
        took = [await self._timed_look(queues) for _ in range(claims.LOOKS)]
        every = self.database.longest
        return records.Polling(every, self.database.receives_others, 1 / every, statistics.median(took))

    async def _timed_look(self, queues: Sequence[str]) -> float:
        before = time.monotonic()
        await self.database.read(lambda connection: claims.has_work(connection, queues, self._clock()))
        return time.monotonic() - before

    @asynccontextmanager
    async def transaction(
        self, worker: int, flush: int, outcome: Callable[[], records.Outcome]
    ) -> AsyncIterator[apsw.Connection]:
        """See Store.transaction. Keep the block short, since it holds the file's write lock."""
        async with self.database.begin() as connection:
            yield connection
            ended = outcome()
            self.database.commit(
                connection, ended.job.id, lambda tx: outcomes.finish_alone(tx, worker, flush, ended)
            )

    async def checkpoint(
        self, worker: int, job: records.ClaimedJob, checkpoint: records.Checkpoint, *, connection: Any = None
    ) -> None:
        write = lambda tx: claims.checkpoint(tx, worker, job, checkpoint)  # noqa: E731
        if connection is not None:
            self.database.join(connection, write)
        else:
            now = self._clock()
            await self.database.write(
                write, lambda own: claims.checkpoint_again(own, worker, job, checkpoint, now)
            )

    @asynccontextmanager
    async def saving(
        self, worker: int, job: records.ClaimedJob, checkpoint: Callable[[], records.Checkpoint]
    ) -> AsyncIterator[apsw.Connection]:
        """See Store.saving, and `transaction` for what else is true of the block."""
        async with self.database.begin() as connection:
            yield connection
            saved = checkpoint()
            self.database.commit(connection, job.id, lambda tx: claims.checkpoint(tx, worker, job, saved))

    # -- steps ------------------------------------------------------------------------------------------

    save_step: Final = _write(durable_steps.save)

    @asynccontextmanager
    async def saving_step(
        self, worker: int, job: records.ClaimedJob, step: Callable[[], records.Step]
    ) -> AsyncIterator[apsw.Connection]:
        """See Store.saving_step, and `transaction` for what else is true of the block."""
        async with self.database.begin() as connection:
            yield connection
            done = step()
            self.database.commit(
                connection, job.id, lambda tx: durable_steps.save_once(tx, worker, job, done)
            )

    async def steps(self, job: int) -> list[records.Step]:
        now = self._clock()
        return await self.database.read(lambda connection: durable_steps.steps(connection, job, now))

    # -- signals ----------------------------------------------------------------------------------------

    async def signal(
        self,
        job: int,
        name: str,
        value: str,
        *,
        once: records.Once | None = None,
        connection: Any = None,
        fits: Callable[[str], None] | None = None,
    ) -> str:
        write = lambda tx: signals.send(tx, job, name, value, once, fits)  # noqa: E731
        if connection is not None:
            return self.database.join(connection, write)
        return await self.database.write(write)

    wait_for_signal: Final = _write(signals.wait_for)
    waits: Final = _read(waiting.waits)

    # -- streams ----------------------------------------------------------------------------------------

    emit: Final = _write(streams.emit)

    async def wait_stream(self, job: int, after: int, timeout: float) -> records.StreamPage:
        look = lambda connection: streams.news(connection, job, after)  # noqa: E731
        found = await self.database.wait(look, timeout)
        if found is not None:
            return found
        return await self.database.read(lambda connection: streams.read(connection, job, after))

    # -- groups -----------------------------------------------------------------------------------------

    async def enqueue_in_group(
        self, group: int, jobs: Sequence[records.NewJob], *, connection: Any = None
    ) -> list[records.Receipt]:
        return await self._enqueue(lambda tx: groups.enqueue_in(tx, group, jobs), connection)

    close_group: Final = _write(deferred.close_group)
    group_jobs: Final = _read(groups.jobs)
    group_counts: Final = _read(groups.counts)

    # -- deferred jobs ----------------------------------------------------------------------------------

    async def promote(self, limit: int = 1000) -> records.Promoted:
        def step(tx: Transaction) -> tuple[records.Promoted, frozenset[str]]:
            return deferred.promote(tx, limit), waiting_lists.token_lists(tx.connection)

        promoted, self._token_lists = await self.database.write(step)
        return promoted

    async def wait_aside(self, timeout: float) -> None:
        """See Store.wait_aside: a commit admits whom it can. Only those who begin to wait for tokens are news
        to whoever promotes: he does not know yet when the first of these comes [F1]."""
        await self.database.wait_for_more(waiting_lists.token_lists, self._token_lists, timeout)

    # -- limits -----------------------------------------------------------------------------------------

    gates: Final = _read_now(waiting_lists.gates)
    watermarks: Final = _read_now(limits.watermarks)

    # -- budgets and the governor -----------------------------------------------------------------------

    declare_budget: Final = _write(budgets.declare)
    set_budget: Final = _write(budgets.set_budget)
    drop_budget: Final = _write(budgets.drop)
    take: Final = _write(budgets.take)
    lease: Final = _write(budgets.lease)
    give_back: Final = _write(budgets.give_back)
    usage: Final = _read_now(budgets.usage)
    settle: Final = _write(budgets.settle)
    spent: Final = _write(budgets.spent)
    drain: Final = _write(budgets.drain)
    report_calls: Final = _write(budgets.report_calls)
    count_runs: Final = _write(budgets.count_runs)
    governed: Final = _write(budgets.governed)
    govern: Final = _write(budgets.govern)
    budgets: Final = _read_now(budgets.budgets)

    # -- schedules --------------------------------------------------------------------------------------

    seed_schedule: Final = _write(schedules.seed)
    put_schedule: Final = _write(schedules.put_live)
    set_schedule: Final = _write(schedules.change)
    drop_schedule: Final = _write(schedules.drop)
    due: Final = _read_now(schedules.due)
    fire: Final = _write(schedules.fire)
    schedules: Final = _read(schedules.schedules)

    # -- measures ---------------------------------------------------------------------------------------

    report: Final = _write(measures.report)
    rollup: Final = _write(measures.rollup)
    measured: Final = _read(measures.measured)
    totals: Final = _read(measures.totals)
    ended: Final = _read(measures.ended)
    count_ends: Final = _write(measures.count_ends)
    recount: Final = _write(measures.recount)
    events: Final = _read(measures.events)
    task_depths: Final = _read(measures.task_depths)
    causes: Final = _read(measures.causes)

    async def diagnose(self) -> list[records.Finding]:
        now = self._clock()
        found = await self.database.read(lambda connection: measures.diagnose(connection, now))
        queues = [queue.name for queue in await self.queues()]
        return [*found, records.Finding(name="polling", text=str(await self.polling(queues)))]

    async def health(self) -> records.Health:
        return await self.database.read(lambda found: measures.health(found, self.database.lock_waits.n))

    # -- listing ----------------------------------------------------------------------------------------

    job: Final = _read(listing.job)
    jobs: Final = _read(listing.jobs)
    matches: Final = _read(listing.matches)
    depth: Final = _read_now(listing.depth)
    checkpoints: Final = _read(listing.checkpoints)
    results: Final = _read(listing.results)

    async def wait_finished(self, job: int, timeout: float) -> records.JobRecord:
        look = lambda connection: listing.finished_job(connection, job)  # noqa: E731
        found = await self.database.wait(look, timeout)
        if found is None:
            raise ResultTimeout(f"job {job} did not finish within {timeout:g} s")
        return found

    # -- managing --------------------------------------------------------------------------------------

    cancel: Final = _write(management.cancel)
    delete: Final = _write(management.delete)
    retry: Final = _write(management.retry)
    change: Final = _write(changing.change)
    redrive: Final = _write(management.redrive)
    queues: Final = _read_now(management.queues)
    set_queue: Final = _write(management.set_queue)
    throttle: Final = _write(management.throttle)
    warm: Final = _write(management.warm)
    tasks: Final = _read(management.tasks)
    set_task: Final = _write(management.set_task)

    async def set_parent(self, id: int, *, parallel: int | None) -> records.ParentRecord | None:
        known = await self.database.write(lambda tx: management.set_parallel(tx, id, parallel))
        return await self.parent(id) if known else None

    # -- parents and parts ------------------------------------------------------------------------------

    split: Final = _write(parents.split)
    parent: Final = _read(parts.parent)
    parents: Final = _read(parts.parents)
    part_states: Final = _read(parts.part_states)
    parts: Final = _read(parts.parts)

    # -- the cluster ------------------------------------------------------------------------------------

    lead: Final = _write(cluster.lead)
    resign: Final = _write(cluster.resign)
    assign: Final = _write(cluster.assign)
    begin_chore: Final = _write(cluster.begin_chore)
    cluster_view: Final = _read_now(cluster.cluster_view)

    # -- what leaves for another store -------------------------------------------------------------------

    identity: Final = _read(moving.identity)
    closed: Final = _read(moving.closed)
    count_unfinished: Final = _read(moving.counts)
    put_to_rest: Final = _write(moving.put_to_rest)
    shut: Final = _write(moving.shut)
    reopen: Final = _write(moving.reopen)
    leaving: Final = _read(moving.leaving)
    leaving_parent: Final = _read(moving.leaving_parent)
    leaving_keys: Final = _read(moving.leaving_keys)
    last_jobs: Final = _read(moving.last_jobs)

    # -- retention --------------------------------------------------------------------------------------

    expire: Final = _write(retention.expire)

    async def rotate(self, *, force: bool = False) -> records.Rotation:
        return await retention.rotate(self.database, self._settings, force=force)
