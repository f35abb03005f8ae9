"""What becomes of the jobs of a child that is no more: at once, and each by its own merit [C8]."""

import asyncio

import pytest

from tests.stopwatch import within
from tests.worker.line import Line, until
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import State
from windlass.errors import StoreUnavailable
from windlass.store.records import JobRecord, NewJob, WorkerInfo
from windlass.worker.processes import handback
from windlass.worker.processes.handback import hand_back, insist
from windlass.worker.processes.shutdown import Shutdown
from windlass.worker.reports.recorder import Recorder

POLICY = DeathPolicy(backoff=Backoff(0.0))


def hourly(queue: str) -> Backoff:
    return Backoff(3600.0, 7200.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handback, "RECONNECT", Backoff(0.001, 0.01))


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
    await hand_back(line.as_store, 7, (), (), crashed=False, policy=POLICY, backoff=hourly)
    assert await states(line, held) == [READY] * 4
    assert await line.workers() == []


async def test_c8_a_crash_is_charged_to_what_ran_and_to_nobody_else(
    line: Line, held: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """[C8] One death, no attempt; what waited for a slot goes back as it was."""
    record = Recorder()
    await hand_back(
        line.as_store, 7, held[:2], (), crashed=True, policy=POLICY, backoff=hourly, record=record
    )
    assert await states(line, held) == [CHARGED, CHARGED, READY, READY]
    assert [(event.kind, event.job) for event in record.events.oldest(9, record.clock)] == [
        *(("released", None), ("rescued", None), ("lost", held[0]), ("lost", held[1])),
    ]
    assert {name: n for each in record.samples() for name, n in each.counts.items()} == {
        "released": 2,
        "rescued": 2,
    }
    assert caplog.text.count("was running when its worker died") == 2
    assert await line.workers() == []


async def test_c6_a_child_killed_for_a_job_costs_that_one_an_attempt(line: Line, held: list[int]) -> None:
    """[C6] What ran beside it goes back uncharged."""
    await hand_back(line.as_store, 7, held[:2], held[:1], crashed=False, policy=POLICY, backoff=hourly)
    (first, *others) = await states(line, held)
    assert first[0] == State.RETRYING
    assert others == [READY] * 3
    record = await line.job(held[0])
    assert record.errors[0].type == "TimeoutError"


async def test_m1_names_of_tasks_that_nobody_ran_here_are_not_counted(line: Line, held: list[int]) -> None:
    """They may be any number. Of what ran, the code must have been there."""
    record = Recorder()
    await line.enqueue([NewJob(task="typo", payload="[]")])
    await line.claim(7, ["default"], 1)
    await hand_back(
        line.as_store, 7, held[:1], held[:1], crashed=False, policy=POLICY, backoff=hourly, record=record
    )
    assert {each.task: each.counts for each in record.samples()} == {
        "t": {"retry": 1, "released": 3},
        "": {"released": 1},
    }


async def test_o2_a_killed_job_waits_as_long_as_its_queue_says(line: Line, held: list[int]) -> None:
    """[O2] [C6] And not all for the same time."""
    await hand_back(line.as_store, 7, held, held, crashed=False, policy=POLICY, backoff=hourly)
    outcomes = line.arguments["finish"][2]
    delays = {outcome.delay for outcome in outcomes}
    assert all(3240.0 <= delay <= 3960.0 for delay in delays)
    assert len(delays) == 4


class Steps:
    """A step of a hand-back that fails with these errors first."""

    def __init__(self, *errors: Exception, for_ever: bool = False) -> None:
        self.errors = list(errors)
        self.for_ever = for_ever
        self.taken = 0

    async def __call__(self) -> None:
        self.taken += 1
        if self.errors:
            raise self.errors[0] if self.for_ever else self.errors.pop(0)


async def test_the_hand_back_is_tried_until_it_is_done(quick: None, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the error is; one that is a bug is told with its traceback."""
    step = Steps(*[StoreUnavailable("away")] * 3, RuntimeError("a bug"))
    assert await insist(step, Shutdown(30.0, 5.0))
    assert step.taken == 5
    assert caplog.text.count("cannot hand jobs back yet") == 1
    assert "RuntimeError: a bug" in caplog.text


async def test_an_error_that_no_waiting_mends_is_given_up(quick: None) -> None:
    step = Steps(RuntimeError("a bug"), for_ever=True)
    assert not await insist(step, Shutdown(30.0, 5.0))
    assert step.taken == handback.UNEXPECTED


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_supervisor_that_stops_does_not_wait_for_ever_for_the_store(quick: None, hangs: bool) -> None:
    """The lease gives back what it could not, also where the store does not even refuse."""
    step = Steps(StoreUnavailable("away"), for_ever=True)

    async def hang() -> None:
        await (asyncio.Event().wait() if hangs else step())

    shutdown = Shutdown(0.1, 0.1)
    trying = asyncio.create_task(insist(hang, shutdown))
    if not hangs:
        await until(lambda: step.taken >= 10)
    assert not trying.done()
    shutdown.begin()
    async with within(5.0):
        assert await trying is False


async def test_a_supervisor_in_a_hurry_tries_once_more(quick: None) -> None:
    step = Steps(StoreUnavailable("away"), for_ever=True)
    shutdown = Shutdown(60.0, 60.0)
    shutdown.stopping_now.set()
    assert await insist(step, shutdown) is False
    assert step.taken == 1


async def test_c8_a_poison_job_is_dead_after_its_last_death(line: Line) -> None:
    """[C8] However it is handed back, the deaths are counted."""
    await line.open()
    (receipt,) = await line.enqueue([NewJob(task="t", payload="[]")])
    for worker in (1, 2, 3):
        await line.register(WorkerInfo(id=worker, queues=("default",)))
        assert await line.claim(worker, ["default"], 1)
        await hand_back(line.as_store, worker, [receipt.id], (), crashed=True, policy=POLICY, backoff=hourly)
    assert await states(line, [receipt.id]) == [(State.DEAD, 1, 3)]


async def test_c8_a_rescue_that_must_wait_is_not_replaced_by_a_free_pardon(
    line: Line, held: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[C8] The store may still see a write of the dead one: then the death is counted a moment later, or by
    whoever finds its lease run out, but never forgotten."""
    monkeypatch.setattr(handback, "TRY_EVERY", 0.001)
    rescue = line.real.rescue
    answers = 0

    async def busy(worker: int, heartbeat: int, policy: DeathPolicy) -> object:
        nonlocal answers
        answers += 1
        return None if answers < limit else await rescue(worker, heartbeat, policy)

    monkeypatch.setattr(line.real, "rescue", busy)
    limit = handback.TRIES + 1
    await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY, backoff=hourly)
    assert await states(line, held) == [(State.RUNNING, 1, 0), READY, READY, READY]
    assert "wait until its lease expires" in caplog.text
    answers, limit = 0, 3
    await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY, backoff=hourly)
    assert await states(line, held) == [CHARGED, READY, READY, READY]


async def test_a_worker_that_somebody_else_rescued_is_left_alone(line: Line, held: list[int]) -> None:
    """[C5] Their jobs belong to others by now."""
    await line.rescue(7, 0, POLICY)
    for crashed in (True, False):
        await hand_back(line.as_store, 7, held, held[:1], crashed=crashed, policy=POLICY, backoff=hourly)
    assert await states(line, held) == [CHARGED] * 4


async def test_handing_back_twice_changes_nothing(line: Line, held: list[int]) -> None:
    """The supervisor tries again when an answer was lost."""
    for _ in range(2):
        await hand_back(line.as_store, 7, held[:1], (), crashed=True, policy=POLICY, backoff=hourly)
    assert await states(line, held) == [CHARGED, READY, READY, READY]
