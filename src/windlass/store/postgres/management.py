"""Managing jobs on PostgreSQL: cancel, delete and retry, one by one or many at once [O5] [O6].

Many are managed in sets: what needs nothing but its own row, or the lock of its lane, is done in one
statement for each lane or table. Parents, parts, jobs whose unique key must be asked for or that are to
replace others, jobs that a gate holds up, and whatever moves at that moment are left over by these
statements, and go one by one. Each statement names the jobs that it has dealt with, so none is dealt with
twice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from windlass.store.changes import changed_task, merged
from windlass.store.fields import TaskRecord
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.flow.limits import Limits
from windlass.store.postgres.known_queues import KnownRows
from windlass.store.postgres.rows import record_of
from windlass.store.records import CancelAnswer, DeleteAnswer, QueueRecord, RetryAnswer

STEP: Final = 500
"""Jobs a statement at most: a lane stays locked for some milliseconds."""
LARGEST: Final = 2**63 - 1

Verb: TypeAlias = Literal["cancel", "delete", "retry"]


class Management:
    """The acts of operators on jobs, queues and tasks."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._db = database
        self._limits = limits
        self._known: KnownRows[QueueRecord] = KnownRows()

    async def cancel(self, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
        """See Store.cancel."""
        return await self._manage("cancel", jobs)

    async def delete(self, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
        """See Store.delete."""
        return await self._manage("delete", jobs)

    async def retry(self, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
        """See Store.retry."""
        return await self._manage("retry", jobs)

    async def _manage(self, verb: Verb, jobs: Sequence[int]) -> dict[int, Any]:
        gates_of = schemas.call("gates_of_jobs", 1, self._db.schema)
        answers: dict[int, Any] = dict.fromkeys(jobs, "not_found")
        known = [job for job in answers if 0 < job <= LARGEST]
        for start in range(0, len(known), STEP):
            some = known[start : start + STEP]
            async with self._db.connection() as connection:
                gates = {row["gate"] for row in await connection.fetch(gates_of, some)}
                together = _Together(connection, self._db.schema)
                answered = await together.manage(verb, some) if len(some) > 1 else {}
                for job in some:
                    answers[job] = answered.get(job) or await self._manage_one(
                        connection, verb, job, "requested" if job in together.requested else None
                    )
                gates.update(row["gate"] for row in await connection.fetch(gates_of, some))
                await self._limits.admit(connection, gates)
        return answers

    async def _manage_one(self, connection: Any, verb: Verb, job: int, answer: str | None) -> Any:
        """In a transaction of its own, so that no lane stays locked for long and two cannot deadlock.

        A cancel that was only requested, maybe before, looks again: the job may have been offered anew at
        that moment. That it has ended by then is what was requested."""
        is_parent = schemas.query("parent", self._db.schema)
        answer = answer or await self._ask(connection, verb, job)
        # What is asked of a parent is asked of all its parts under its lock: once is enough.
        if answer == "requested" and not await connection.fetch(is_parent, job):
            again = await self._ask(connection, verb, job)
            return answer if again == "finished" else again
        return answer

    async def _ask(self, connection: Any, function: str, number: int) -> Any:
        async with connection.transaction(isolation="read_committed"):
            return await connection.fetchval(schemas.call(function, 1, self._db.schema), number)

    # -- settings of queues and tasks -------------------------------------------------------------------

    async def queues(self) -> list[QueueRecord]:
        """See Store.queues."""
        known = self._known
        rows = await self._db.query("queues", known.stamp)
        sent = {row["name"]: _queue(row) for row in rows if row["name"] is not None}
        self._known = known = known.updated(rows[0]["stamp"], sent)
        return list(known.rows.values())

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> QueueRecord:
        """See Store.set_queue."""
        merged("queue", name, QueueRecord(name=name), changes)
        (row,) = await self._db.query("set_queue", name, json.dumps(dict(changes)))
        return _queue(row)

    async def throttle(self, queue: str, hint: float | None = None) -> float:
        """See Store.throttle."""
        return float(await self._db.value("throttle", queue, hint))

    async def warm(self, queue: str, *, force: bool = False) -> bool:
        """See Store.warm."""
        return bool(await self._db.value("warm", queue, force))

    async def tasks(self) -> list[TaskRecord]:
        """See Store.tasks."""
        return [record_of(TaskRecord, row) for row in await self._db.query("tasks")]

    async def set_task(self, name: str, changes: Mapping[str, Any]) -> TaskRecord:
        """See Store.set_task."""
        changed_task(TaskRecord(name=name), changes)
        return record_of(TaskRecord, await self._db.call("set_task", name, json.dumps(dict(changes))))


class _Together:
    """One batch: each step takes what it can of the jobs that the steps before it have left."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._left: dict[int, None] = {}
        self._answers: dict[int, str] = {}
        self.requested: frozenset[int] = frozenset()
        """Jobs that ran when their cancel was requested."""

    async def manage(self, verb: Verb, jobs: Iterable[int]) -> dict[int, str]:
        """Act on the jobs that need no look of their own, and return the answers."""
        self._left = dict.fromkeys(jobs)
        match verb:
            case "retry":
                self._answer("retried", await self._call("retry_many", [*self._left]))
                # Neither dead nor put off: there is nothing to retry, wherever in the logs it is.
                self._answer("unchanged", [row["job"] for row in await self._places()])
            case "cancel":
                places = await self._end_in_lanes("cancelled")
                self._answer("finished", [row["job"] for row in places if row["ended"]])
                await self._end_aside("cancelled")
                await self._request()
            case "delete":
                self._answer("deleted", await self._call("delete_dead", [*self._left]))
                ended = [row for row in await self._end_in_lanes("deleted") if row["ended"]]
                where = [row["lane"] for row in ended], [row["seq"] for row in ended]
                self._answer("deleted", await self._call("delete_ended", *where) if ended else ())
                await self._end_aside("deleted")
                await self._request()
        return self._answers

    async def _request(self) -> None:
        """Request the cancels of those that run, and look again: one that was offered anew at that moment is
        left, and so is one that has ended."""
        if self._left:
            self.requested = frozenset(await self._call("request_cancels", [*self._left]))
        if self.requested:
            self._answer("requested", await self._call("request_cancels", [*self.requested]))

    async def _end_in_lanes(self, kind: str) -> list[Any]:
        """End what waits in lanes, one lane a transaction; answers with the places of all."""
        places = await self._places()
        lanes: dict[int, list[int]] = defaultdict(list)
        for row in places:
            if not row["claimed"]:
                lanes[row["lane"]].append(row["seq"])
        for lane, seqs in lanes.items():
            self._answer(kind, await self._call("end_in_lane", lane, seqs, kind))
        return places

    async def _end_aside(self, kind: str) -> None:
        if self._left:
            self._answer(kind, await self._call("end_aside", [*self._left], kind))

    async def _places(self) -> list[Any]:
        if not self._left:
            return []
        async with self._connection.transaction(isolation="read_committed"):
            rows: list[Any] = await self._connection.fetch(
                schemas.call("places_of", 1, self._schema), [*self._left]
            )
        return rows

    async def _call(self, function: str, *args: Any) -> list[int]:
        async with self._connection.transaction(isolation="read_committed"):
            jobs: list[int] = await self._connection.fetchval(
                schemas.call(function, len(args), self._schema), *args
            )
        return jobs

    def _answer(self, answer: str, jobs: Iterable[int]) -> None:
        for job in jobs:
            self._answers[job] = answer
            self._left.pop(job, None)


def _queue(row: Any) -> QueueRecord:
    flow = {"rate": None, "why": None, **json.loads(row["flow"])}  # these two only where it is governed
    return record_of(QueueRecord, row, **flow)
