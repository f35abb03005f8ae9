"""[fault 17] Poison rows, as far as a store meets them: bad JSON, too large, wrong types and bad names are
refused and leave nothing behind, whoever sends them; tasks that nobody knows, deep and odd payloads are
handed out like any other. Only that job suffers; the claim loop goes on.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.chaos.kit import Worker, connected, counts, depth_is_a_scan, job, opened, until
from windlass.core.states import Kind
from windlass.errors import EnqueueError, PayloadTooLarge
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob, Failure, NewJob

HUGE = '{"a": "' + "x" * (50 * 1024 * 1024) + '"}'
BAD: dict[str, NewJob] = {
    "no JSON": job(payload="{not json"),
    "half of it": job(payload='{"a": '),
    "a bare string": job(payload='"text"'),
    "a bare number": job(payload="17"),
    "nothing": job(payload=""),
    "NaN": job(payload='{"a": NaN}'),
    "a NUL": job(payload='{"a": "\\u0000"}'),
    "a bad task name": job(task="No Such Name!"),
    "a bad queue name": job(queue="../etc"),
    "a long name": job(task="t" * 65),
}
ODD = [
    '{"a": ' + "[" * 900 + "]" * 900 + "}",
    '{"a": 1e400, "b": -0.0, "c": 123456789012345678901234567890}',
    '{"a": 1, "a": 2, "": null}',
    '{"text": "' + "ü😀\\u2028'\\\"; DROP TABLE windlass.ready; --" + '"}',
    '{"backslash": "\\\\u0000"}',
    '["\\ud800"]',
    "[]",
    '{"a": "' + "x" * 1_000_000 + '"}',
]
SQL = {
    "no JSON": "SELECT windlass.enqueue('t', '{not json')",
    "a wrong type": "SELECT windlass.enqueue('t', 17)",
    "a wrong array": "SELECT windlass.enqueue_many('default', 2::smallint, ARRAY['t'], ARRAY['{}', NULL])",
    "a bare string": "SELECT windlass.enqueue('t', '\"text\"')",
    "a bad priority": "SELECT windlass.enqueue('t', priority => 'soon')",
    "a bad tag list": "SELECT windlass.enqueue('t', tags => 'x')",
    "no task": "SELECT windlass.enqueue(NULL)",
    "a negative delay": "SELECT windlass.enqueue('t', delay => '-1 second')",
}


async def refused(dsn: str, poison: Callable[[PostgresStore, Any], Awaitable[None]]) -> None:
    """A good job before the poison and one after it: both run, and nothing else is there."""
    async with opened(dsn) as store, connected(dsn) as connection:
        await store.enqueue([job("before")])
        await poison(store, connection)
        await store.enqueue([job("after")])
        assert await counts(dsn) == {"ready": 2}
        worker = await Worker.registered(store)
        jobs = await worker.claim()
        assert [j.task for j in jobs] == ["before", "after"]
        await worker.finish(jobs)
        await worker.drain()
        await depth_is_a_scan(store, dsn)


async def test_bad_input_is_refused_and_leaves_nothing(pg_dsn: str) -> None:
    """[E4] Alone and among good ones, plain and with a key: all or none."""

    async def poison(store: PostgresStore, connection: Any) -> None:
        for name, bad in BAD.items():
            keyed = NewJob(task=bad.task, payload=bad.payload, queue=bad.queue, idempotency_key=name)
            for jobs in ([bad], [job("good"), bad, job("good")], [keyed], [job("good"), keyed]):
                with pytest.raises((EnqueueError, asyncpg.DataError)):
                    await store.enqueue(jobs)
                with pytest.raises((EnqueueError, asyncpg.DataError)):
                    async with connection.transaction():
                        await store.enqueue(jobs, connection=connection)

    await refused(pg_dsn, poison)


async def test_fifty_megabytes_are_refused(pg_dsn: str) -> None:
    """[E4] Through the store and in plain SQL, where no client looks at it before."""

    async def poison(store: PostgresStore, connection: Any) -> None:
        for jobs in ([job(payload=HUGE)], [job("good"), job(payload=HUGE, idempotency_key="k")]):
            with pytest.raises(PayloadTooLarge):
                await store.enqueue(jobs)
        with pytest.raises(asyncpg.PostgresError, match="1 MiB"):
            await connection.execute("SELECT windlass.enqueue('t', $1::text::json)", HUGE)

    await refused(pg_dsn, poison)


async def test_wrong_types_in_sql_are_refused(pg_dsn: str) -> None:
    """[E1] [E4] Whoever writes the SQL: an error, and nothing written."""

    async def poison(_: PostgresStore, connection: Any) -> None:
        for statement in SQL.values():
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(statement)

    await refused(pg_dsn, poison)


async def test_odd_jobs_are_handed_out_like_any_other(pg_dsn: str) -> None:
    """[O4] What is odd but sound comes back as it went in; a task that nobody knows is put off without
    charge; one that can never run ends dead. Those beside them are not held up."""
    async with opened(pg_dsn) as store:
        for payload in ODD:
            await store.enqueue([job("good"), job("odd", payload=payload)])
        await store.enqueue(
            [job("nobody.knows.me"), job("wrong.types", payload='{"n": "seven"}'), job("good")]
        )
        worker = await Worker.registered(store)
        jobs = [j for _ in range(len(ODD) * 2 + 3) for j in await worker.claim(limit=1)]
        assert [j.payload for j in jobs if j.task == "odd"] == ODD
        by_task = {task: [j for j in jobs if j.task == task] for task in {j.task for j in jobs}}
        assert (await worker.finish(by_task["good"] + by_task["odd"])).applied == len(jobs) - 2
        await worker.finish(by_task["nobody.knows.me"], Kind.UNKNOWN, delay=0.05)
        await worker.finish(by_task["wrong.types"], Kind.DEAD, error=Failure("TypeError", "n is no number"))
        await store.enqueue([job("good")])
        again: list[ClaimedJob] = []

        async def both() -> bool:
            await store.promote()
            again.extend(await worker.claim())
            return len(again) == 2

        await until(both, 5.0)
        assert {(j.task, j.attempt) for j in again} == {("good", 1), ("nobody.knows.me", 1)}
        await worker.finish(again)
        assert await counts(pg_dsn) == {"succeeded": len(jobs), "dead": 1}
        await depth_is_a_scan(store, pg_dsn)
