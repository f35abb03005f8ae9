"""What becomes of the jobs of a child that is no more: at once, and each by its own merit [C8]."""

import pytest

from tests.worker.line import Line
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import State
from windlass.store.records import JobRecord, NewJob, WorkerInfo
from windlass.worker import handback
from windlass.worker.handback import hand_back

POLICY = DeathPolicy(backoff=Backoff(0.0))


@pytest.fixture
async def held(line: Line) -> list[int]:
    """Four jobs that worker 7 has claimed."""
    await line.open()
    receipts = await line.enqueue([NewJob(task="t", payload="[]") for _ in range(4)])
    await line.register(WorkerInfo(id=7, queues=("default",)))
    await line.claim(7, ["default"], 4)
    return [receipt.id for receipt in receipts]


async def states(line: Line, ids: list[int]) -> list[tuple[State, int, int]]:
    records: list[JobRecord] = [await line.job(id) for id in ids]
    return [(record.state, record.attempt, record.deaths) for record in records]


READY, RETRYING = (State.READY, 1, 0), (State.RETRYING, 1, 0)
CHARGED = (State.READY, 1, 1)


async def test_who_left_in_good_order_costs_nobody_anything(line: Line, held: list[int]) -> None:
    await hand_back(line.as_store, 7, (), (), crashed=False, policy=POLICY)
    assert await states(line, held) == [READY] * 4
    assert await line.workers() == []


async def test_c8_a_crash_is_charged_to_what_ran_and_to_nobody_else(
    line: Line, held: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """[C8] One death, no attempt; what waited for a slot goes back as it was."""
    await hand_back(line.as_store, 7, held[:2], (), crashed=True, policy=POLICY)
    assert await states(line, held) == [CHARGED, CHARGED, READY, READY]
    assert caplog.text.count("was running when its worker died") == 2
    assert await line.workers() == []


async def test_c6_a_child_killed_for_a_job_costs_that_one_an_attempt(line: Line, held: list[int]) -> None:
    """[C6] What ran beside it goes back uncharged."""
    await hand_back(line.as_store, 7, held[:2], held[:1], crashed=False, policy=POLICY)
    (first, *others) = await states(line, held)
    assert first[0] == State.RETRYING
    assert others == [READY] * 3
    record = await line.job(held[0])
    assert record.errors[0].type == "TimeoutError"


async def test_c8_a_poison_job_is_dead_after_its_last_death(line: Line) -> None:
    """[C8] However it is handed back, the deaths are counted."""
    await line.open()
    (receipt,) = await line.enqueue([NewJob(task="t", payload="[]")])
    for worker in (1, 2, 3):
        await line.register(WorkerInfo(id=worker, queues=("default",)))
        assert await line.claim(worker, ["default"], 1)
        await hand_back(line.as_store, worker, [receipt.id], (), crashed=True, policy=POLICY)
    assert await states(line, [receipt.id]) == [(State.DEAD, 1, 3)]


async def test_c8_a_rescue_that_must_wait_is_not_replaced_by_a_free_pardon(
    line: Line, held: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[C8] The store may still see a write of the dead one: then the death is counted a moment later, or by
    whoever finds its lease run out, but never forgotten."""
    monkeypatch.setattr(handback, "TRY_EVERY", 0.001)
    rescue = line.real.rescue
    answers = 0

    async def busy(worker: int, beat: int, policy: DeathPolicy) -> object:
        nonlocal answers
        answers += 1
        return None if answers < limit else await rescue(worker, beat, policy)

    monkeypatch.setattr(line.real, "rescue", busy)
    limit = handback.TRIES + 1
    await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY)
    assert await states(line, held) == [(State.RUNNING, 1, 0), READY, READY, READY]
    assert "wait until its lease is over" in caplog.text
    answers, limit = 0, 3
    await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY)
    assert await states(line, held) == [CHARGED, READY, READY, READY]


async def test_a_worker_that_somebody_else_rescued_is_left_alone(line: Line, held: list[int]) -> None:
    """[C5] Their jobs belong to others by now."""
    await line.rescue(7, 0, POLICY)
    for crashed in (True, False):
        await hand_back(line.as_store, 7, held, held[:1], crashed=crashed, policy=POLICY)
    assert await states(line, held) == [CHARGED] * 4


async def test_handing_back_twice_changes_nothing(line: Line, held: list[int]) -> None:
    """The supervisor tries again when an answer was lost."""
    for _ in range(2):
        await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY)
    assert await states(line, held) == [CHARGED, READY, READY, READY]
