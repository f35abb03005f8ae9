"""JSON that is nested more deeply than Python reads it, as only SQL can enqueue it [fault 17]."""

import asyncio

import pytest

from tests.cli.kit import Desk
from tests.store.postgres.kit import Base
from tests.web.kit import visiting
from windlass import Context, Retry, Windlass

DEEP = "[" * 2000 + "]" * 2000
MANY = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', ARRAY[$2], ARRAY[$3])"


@pytest.mark.parametrize(
    ("payload", "options"),
    [(f"[{DEEP}]", "{}"), (f'{{"n": {DEEP}}}', "{}"), ("[1]", f'{{"strange": {DEEP}}}')],
    ids=["arguments", "named arguments", "options"],
)
async def test_it_ends_alone_and_can_be_looked_at(alone: Base, payload: str, options: str) -> None:
    """[fault 17] Also where a budget goes by an argument; those behind it run."""
    await alone.lane()
    with Windlass(alone.dsn) as app:
        app.budget("b", rate=1000, key="n")
        ran: list[object] = []

        @app.task(name="t", queue=alone.queue, budgets=["b"], concurrency_key="n")
        async def t(n: object) -> None:
            ran.append(n)

        (bad,) = await alone.look.value(MANY, alone.queue, payload, options)
        await alone.look.enqueue(args="[7]")
        async with visiting(app) as visitor:
            for path in (f"/api/jobs/{bad}", f"/jobs/{bad}", "/jobs", "/api/jobs", "/"):
                answer = await visitor.get(path)
                assert answer.status_code == 200, path
            await app.arun_until_idle()
            assert ran in ([7], [1, 7])
            for path in (f"/api/jobs/{bad}", f"/jobs/{bad}", "/dead"):
                answer = await visitor.get(path)
                assert answer.status_code == 200, path
        shown = await asyncio.to_thread(Desk(alone.dsn).run, "job", "show", str(bad))
        assert shown.exit_code == 0


async def test_the_value_of_a_signal_stops_no_lane(alone: Base) -> None:
    """[fault 17] A claim brings it along as a step of the job that waited for it."""
    await alone.lane()
    with Windlass(alone.dsn) as app:
        ran: list[int] = []

        @app.task(name="t", queue=alone.queue)
        async def t(n: int) -> None:
            ran.append(n)

        @app.task(name="waits", queue=alone.queue, retry=Retry(1))
        async def waits(ctx: Context) -> None:
            await ctx.wait("go", timeout="1h")

        job = await waits.aenqueue()
        await app.arun_until_idle()
        await alone.look.value("SELECT windlass.signal($1, 'go', $2::json)", job.id, DEEP)
        await t.aenqueue(7)
        await app.arun_until_idle()
        assert ran == [7]
        assert (await job.astatus()).value == "dead"
        async with visiting(app) as visitor:
            for path in (f"/api/jobs/{job}", f"/jobs/{job}", "/dead"):
                assert (await visitor.get(path)).status_code == 200, path


async def test_what_was_imported_can_be_looked_at(alone: Base) -> None:
    """[fault 17] Shapes that jobs wait for, and streams."""
    await alone.lane()
    waits = f'[{{"name": "wait:x", "signal": "x", "shape": {DEEP}, "suspended": true}}]'
    stream = f'[{{"position": 1, "n": 1, "run": 1, "attempt": 1, "events": [{DEEP}]}}]'
    jobs = f"""[{{"key": "1", "task": "t", "waits": {waits}}},
               {{"key": "2", "task": "t", "state": "dead", "stream": {stream}}}]"""
    with Windlass(alone.dsn) as app:
        found = await alone.look.rows("SELECT job FROM windlass.import_jobs('old', $1)", jobs)
        waiting, dead = (row["job"] for row in found)
        async with visiting(app) as visitor:
            for path in (f"/jobs/{waiting}", "/waits", "/api/waits", f"/jobs/{dead}"):
                assert (await visitor.get(path)).status_code == 200, path
            sent = await visitor.post(f"/api/jobs/{waiting}/signals/x", json={"value": 1})
            assert sent.status_code == 200
            events = await visitor.get(f"/api/jobs/{dead}/events")
        assert '"value":null,"gone":0,"sealed":"unreadable"' in events.text
