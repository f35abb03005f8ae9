"""Cancels of jobs whose run is put off by a flush at the same moment [O5] [W2]."""

import pytest

from tests.store.postgres.kit import Base
from tests.store.postgres.waiting import begun
from windlass.core.states import Kind


@pytest.mark.parametrize("call", ["cancel", "delete"])
@pytest.mark.parametrize("first", ["flush", "operator"])
async def test_o5_a_cancel_that_a_flush_has_not_seen_ends_the_job_where_it_waits(
    alone: Base, call: str, first: str
) -> None:
    """Neither sees the other: the cancel is for a job that runs, and the flush suspends it, for ever."""
    store = await alone.store()
    _, worker, job = await begun(alone)
    operator, flush = await alone.sessions(2)
    await operator.begin()
    await flush.begin()
    assert await operator.value(f"SELECT windlass.{call}($1)", job.id) == "requested"
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600, by=flush)
    for session in (flush, operator) if first == "flush" else (operator, flush):
        await session.commit()
    await store.promote()
    assert await alone.state(job.id) == "cancelled"
    assert await alone.look.value("SELECT count(*) FROM windlass.cancel_request") == 0


@pytest.mark.parametrize("call", ["retry", "retry_many"])
async def test_o6_a_cancel_of_a_run_that_is_over_does_not_end_the_next_one(alone: Base, call: str) -> None:
    """The flush that ended the run has not seen it, and the operator wants the job again since."""
    store = await alone.store()
    _, worker, job = await begun(alone)
    operator, flush = await alone.sessions(2)
    await operator.begin()
    await flush.begin()
    assert await operator.value("SELECT windlass.cancel($1)", job.id) == "requested"
    await alone.finish(worker, [job], Kind.DEAD, by=flush)
    await flush.commit()
    await operator.commit()
    arguments = job.id if call == "retry" else [job.id]
    await alone.look.value(f"SELECT windlass.{call}($1)", arguments)
    await store.promote()
    assert await alone.state(job.id) == "ready"
    assert await alone.look.value("SELECT count(*) FROM windlass.cancel_request") == 0
