"""JSON that is nested more deeply than Python reads it, as only SQL can enqueue it [fault 17]."""

import asyncio

import pytest

from tests.cli.kit import Desk
from tests.store.postgres.kit import Base
from tests.web.kit import visiting
from windlass import Windlass

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
