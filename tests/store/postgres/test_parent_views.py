"""Parents as SQL shows them and decides about them, when the logs turn, and with many parts [P4] [P9]."""

import itertools
import json
import re
from typing import Any

from tests.store.postgres.families import Family, family, plan, started
from tests.store.postgres.kit import Base
from tests.store.postgres.plans import explained, plans
from windlass.core.parents import Standing, next_step
from windlass.core.states import Kind, State
from windlass.store.records import Checkpoint, Outcome

ADVANCE = "SELECT windlass.advance($1)"
STEP = """
SELECT windlass.next_step(jsonb_populate_record(NULL::windlass.parent, $1::jsonb || '{"state": "waiting"}'),
                          $2, $3)
"""


async def test_a_parent_outlives_its_segment(alone: Base) -> None:
    """[rule 7] Its first attempt goes with the logs, it does not; nothing of it is offered again."""
    kin = await family(alone, 3, parallel=1)
    (job,) = await kin.claim()
    await kin.store.finish(kin.worker, 2, [Outcome(job=job)])
    for _ in range(9):
        turned = await kin.store.rotate(force=True)
        assert turned.reclaimed
        assert turned.offered_again == 0
    found = await kin.store.job(kin.id)
    assert found is not None
    assert found.state is State.WAITING
    assert [part.state for part in await kin.store.parts(kin.id)] == [
        State.SUCCEEDED, State.READY, State.WAITING,
    ]  # fmt: skip
    for flush in (3, 4):
        (job,) = await kin.claim()
        await kin.store.finish(kin.worker, flush, [Outcome(job=job)])
    assert (await kin.look()).state is State.SUCCEEDED


async def test_sql_decides_as_the_core_does(base: Base) -> None:
    """[P9] Every way in which a few parts can stand."""
    finals = (None, State.RUNNING, State.SUCCEEDED, State.DEAD, State.CANCELLED)
    for pending, out, dead, cancelled, parallel, cancelling, finalizer in itertools.product(
        (0, 2), (0, 1), (0, 1), (0, 1), (1, 3, None), (False, True), (False, True)
    ):
        for final in finals if finalizer else finals[:1]:
            counts = {"pending": pending, "out": out, "dead": dead, "cancelled": cancelled}
            said: dict[str, Any] = {**counts, "parallel": parallel, "tolerated": 1}
            waiting, wanted = dead * out, 1 + cancelled
            standing = Standing(
                **said,
                waiting=waiting,
                wanted=wanted,
                cancelling=cancelling,
                finalizer=finalizer,
                final=final,
            )
            shown = "out" if final is State.RUNNING else final
            row = {**said, "cancelling": cancelling, "finalizer": finalizer, "final_state": shown}
            step = await base.look.value(STEP, json.dumps(row), waiting, wanted)
            assert step == next_step(standing), standing


async def test_views_show_parents_and_parts(base: Base) -> None:
    """[P4] SQL shows which part of which parent a job is, and how far everything has come."""
    kin = await family(base, 3, parallel=2)
    first, second = await kin.claim()
    await kin.store.checkpoint(kin.worker, first, Checkpoint('{"n": 2}', 4, 10))
    await kin.store.finish(kin.worker, 2, [Outcome(job=second)])
    rows = await base.look.rows(
        "SELECT id, state, parent, part, parts FROM windlass.job WHERE queue = $1 ORDER BY part", base.queue
    )
    third = (await kin.store.parts(kin.id))[2].job
    assert [tuple(row) for row in rows] == [
        (first.id, "running", kin.id, 0, 3), (second.id, "succeeded", kin.id, 1, 3),
        (third, "ready", kin.id, 2, 3), (kin.id, "waiting", None, None, None),
    ]  # fmt: skip
    rows = await base.look.rows(
        "SELECT index, total, span::text, state, job, attempt, done, records FROM windlass.job_part "
        "WHERE parent = $1 ORDER BY index",
        kin.id,
    )
    assert [tuple(row) for row in rows] == [
        (0, 3, "[0]", "running", first.id, 1, 4, 2), (1, 3, "[1]", "succeeded", second.id, 1, 10, 0),
        (2, 3, "[2]", "ready", third, 1, 0, 0),
    ]  # fmt: skip
    row = await base.look.row("SELECT * FROM windlass.job_parent WHERE id = $1", kin.id)
    assert (row["state"], row["size"], row["done"], row["records"], row["out"]) == ("waiting", 30, 14, 2, 2)


async def test_a_parent_with_many_parts_looks_at_few_of_them(alone: Base) -> None:
    """[rule 8] With plans that were made when there was none."""
    kin = await family(alone, 1)
    (job,) = await kin.claim()
    session = await alone.session()
    await explained(session)
    await alone.finish(kin.worker, [job], flush=2, by=session)
    assert await session.value(ADVANCE, kin.id) == "succeeded"
    store, worker, big = await started(alone)
    await store.split(worker, 1, big, plan(5_000, parallel=2))
    kin = Family(alone, store, worker, big.id)
    done, *dead = await kin.claim()
    async with plans(session) as found:
        await alone.finish(worker, [done], flush=2, by=session)
        await alone.finish(worker, dead, Kind.DEAD, flush=3, by=session)
        assert await session.value(ADVANCE, big.id) == "waiting"
        assert await session.value("SELECT windlass.redrive($1)", big.id) == 1
        assert await session.value("SELECT windlass.cancel($1)", big.id) == "requested"
        await session.row("SELECT * FROM windlass.job_parent WHERE id = $1", big.id)
        await session.rows("SELECT * FROM windlass.job_part WHERE parent = $1 AND index < 5", big.id)
    scans = found.scans(re.compile("part"))
    assert len(scans) > 10
    for scan in scans:
        assert scan.touched <= 20, scan
