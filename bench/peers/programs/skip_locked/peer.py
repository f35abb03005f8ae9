"""What one writes by hand: a jobs table, FOR UPDATE SKIP LOCKED, asyncpg. A limit, not a library.

It is written with care and leaves out what a library must do: no leases, no retries, no priorities, nothing
that notices a dead worker. Claims take 100 jobs in one statement, their end is one UPDATE, a LISTEN wakes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any

import asyncpg
import bench_kit

TABLE = """
CREATE TABLE jobs (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    state       text NOT NULL DEFAULT 'ready',
    task        text NOT NULL,
    payload     json NOT NULL
);
CREATE INDEX ON jobs (id) WHERE state = 'ready';
"""
CLAIM = """
UPDATE jobs SET state = 'running'
 WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING id, task, payload
"""
FINISH = "UPDATE jobs SET state = 'done', finished_at = now() WHERE id = ANY ($1::bigint[])"
WAKE = "WITH new AS (INSERT INTO jobs (task, payload) {}) SELECT pg_notify('jobs', '')"
ONE, MANY = WAKE.format("VALUES ($1, $2)"), WAKE.format("SELECT $1, unnest($2::json[])")
BATCH, POLL = 100, 1.0


async def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


async def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(number)


TASKS = {"noop": noop, "long": long}


def payload(number: int) -> str:
    return json.dumps({"number": number, "text": bench_kit.TEXT})


class SkipLocked(bench_kit.Peer):
    """The loop, with everything left out that it can do without."""

    packages = ("asyncpg", "uvloop")
    settings = {  # noqa: RUF012
        "claim": f"{BATCH} jobs a statement, FOR UPDATE SKIP LOCKED; ended by one UPDATE",
        "wake-up": f"NOTIFY in the statement of each insert, and a poll every {POLL:g} s",
        "missing": "leases, retries, priorities, any notice of a dead worker",
    }
    bulk = "INSERT … SELECT unnest"
    batch = 5000
    _pool: Any

    async def prepare(self) -> None:
        connection = await asyncpg.connect(os.environ["BENCH_DSN"])
        await connection.execute(TABLE)
        await connection.close()

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(os.environ["BENCH_DSN"], min_size=1, max_size=16)

    async def close(self) -> None:
        await self._pool.close()

    async def send(self, number: int, kind: str) -> None:
        await self._pool.execute(ONE, kind, payload(number))

    async def send_many(self, numbers: range, kind: str) -> None:
        await self._pool.execute(MANY, kind, [payload(number) for number in numbers])

    def work(self, processes: int, slots: int | None) -> None:
        import uvloop

        uvloop.install()
        bench_kit.run_until_signal(self._run(slots or BATCH))

    async def _run(self, slots: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._serve(slots)
            await asyncio.sleep(0.5)

    async def _serve(self, slots: int) -> None:
        connection = await asyncpg.connect(os.environ["BENCH_DSN"])
        woken = asyncio.Event()
        await connection.add_listener("jobs", lambda *_: woken.set())
        while True:
            woken.clear()
            rows = await connection.fetch(CLAIM, min(slots, BATCH))
            if not rows:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), POLL)
                continue
            await asyncio.gather(*(TASKS[row["task"]](**json.loads(row["payload"])) for row in rows))
            await connection.execute(FINISH, [row["id"] for row in rows])

    async def left(self) -> int | None:
        return int(await self._pool.fetchval("SELECT count(*) FROM jobs WHERE state <> 'done'"))


if __name__ == "__main__":
    bench_kit.main(SkipLocked)
