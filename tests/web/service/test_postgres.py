"""On PostgreSQL: what a request gave up is given up in the database, too."""

import asyncio

import asyncpg

from tests.stopwatch import within
from tests.web.kit import visiting
from windlass import Windlass

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def test_a_statement_that_took_too_long_is_cancelled_on_the_server(pg_dsn: str) -> None:
    with Windlass(pg_dsn) as app:
        async with app, visiting(app, timeout=0.3) as visitor:
            await visitor.put("/api/queues/mail", json={})
            holder = await asyncpg.connect(pg_dsn)
            watcher = await asyncpg.connect(pg_dsn)
            try:
                async with holder.transaction():
                    await holder.execute("LOCK TABLE windlass.queue IN ACCESS EXCLUSIVE MODE")
                    asking = asyncio.create_task(visitor.post("/api/queues/mail/pause"))
                    while not await watcher.fetchval(WAITING):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    answer = await asking
                    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "timeout")
                    async with within(5):
                        while await watcher.fetchval(WAITING):  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
            finally:
                await holder.close()
                await watcher.close()
            assert (await visitor.post("/api/queues/mail/pause")).status_code == 200
