"""Jobs that wait for a signal, on connections that a test steps by hand."""

from tests.store.postgres.kit import Base, Session
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob

SEND = "SELECT windlass.signal($1, 'go', '1')"
OWN = "SELECT (windlass.send_signals(ARRAY[$1::bigint], ARRAY['go'], ARRAY['1']))[1]"
LOOK = "SELECT windlass.deliver_signals(100)"
ASK = """
SELECT w.states[1] AS state
  FROM windlass.wait_for_signals($1, ARRAY[$3::int], ARRAY[$4::bigint], ARRAY[1], ARRAY[$5::bigint],
                                 ARRAY[$2::bigint], ARRAY[1], ARRAY[$7::text], ARRAY['go'],
                                 ARRAY[$6::float8], ARRAY[NULL::text]) AS w
"""


async def ask(session: Session, worker: int, job: ClaimedJob, timeout: float = 3600, no: int = 1) -> str:
    """How a wait stands: the first one for the signal, or another."""
    name = "wait:go" if no == 1 else f"wait:go#{no}"
    row = await session.row(ASK, worker, job.id, job.lane, job.claim, job.seq, timeout, name)
    return str(row["state"])


async def begun(alone: Base, timeout: float = 3600) -> tuple[int, int, ClaimedJob]:
    """A lane, a worker, and a job of it that has asked for its signal."""
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue()
    (job,) = (await alone.claim(lane, worker)).jobs
    assert await ask(alone.look, worker, job, timeout) == "waits"
    return lane, worker, job


async def suspended(alone: Base, timeout: float = 3600) -> tuple[int, int, ClaimedJob]:
    """The same, and the job waits."""
    lane, worker, job = await begun(alone, timeout)
    await alone.finish(worker, [job], Kind.SNOOZE, delay=timeout)
    await alone.look.run(LOOK)
    return lane, worker, job


async def goes_on(alone: Base, lane: int, worker: int) -> str:
    """The one job that waits is claimed now; how its wait has ended."""
    (job,) = (await alone.claim_late(lane, worker)).jobs
    return await ask(alone.look, worker, job)
