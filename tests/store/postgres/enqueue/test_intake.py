"""Single enqueues that travel together: each caller gets an answer of their own."""

import asyncio
import contextvars
from collections.abc import Sequence

import pytest

from tests.stopwatch import within
from tests.store.postgres.kit import Base
from windlass.errors import AlreadyEnqueued, QueueFull, StoreUnavailable
from windlass.store.postgres import intake as intakes
from windlass.store.postgres.intake import CALLS, Intake
from windlass.store.records import NewJob, Options, Receipt

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


class Line:
    """A store's door: keeps what was sent, and waits until it is let go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.calls: list[tuple[list[str], object]] = []
        self.open = asyncio.Event()

    async def send_own(self, jobs: Sequence[NewJob], connection: object) -> list[Receipt]:
        self.calls.append(([job.task for job in jobs], connection))
        return [Receipt(int(job.payload)) for job in jobs]

    async def send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        self.batches.append([job.task for job in jobs])
        await self.open.wait()
        if any(job.task == "twin" for job in jobs):
            raise AlreadyEnqueued("it is there already")
        if any(job.queue == "full" for job in jobs):
            raise QueueFull("no room", "full", 5.0)
        if any(job.task == "lost" for job in jobs):
            raise StoreUnavailable("no answer")
        if any(job.task == "odd" for job in jobs):
            raise RuntimeError("nobody foresaw this")
        if any(job.task == "struck" for job in jobs):
            raise asyncio.CancelledError
        return [Receipt(int(job.payload)) for job in jobs]


def job(task: str, n: int, queue: str = "default") -> NewJob:
    return NewJob(task=task, payload=str(n), queue=queue)


async def answers(intake: Intake, line: Line, jobs: Sequence[NewJob]) -> list[Receipt | BaseException]:
    """What each of these is answered, sent while another is in flight."""
    first = asyncio.create_task(intake.add(job("first", 0)))
    await asyncio.sleep(0)
    others = [asyncio.create_task(intake.add(each)) for each in jobs]
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    line.open.set()
    await first
    return await asyncio.gather(*others, return_exceptions=True)


async def test_while_one_is_in_flight_the_next_batch_fills() -> None:
    line = Line()
    intake = Intake(line.send, line.send_own)
    got = await answers(intake, line, [job("a", n) for n in range(1, 10)])
    assert got == [Receipt(n) for n in range(1, 10)]
    assert [len(batch) for batch in line.batches] == [1, 9] or [len(batch) for batch in line.batches] == [10]


async def test_what_a_caller_has_put_together_or_joined_to_a_transaction_goes_as_it_is() -> None:
    line, own = Line(), object()
    intake = Intake(line.send, line.send_own)
    assert await intake.enqueue([]) == []
    assert await intake.enqueue([job("a", 1), job("b", 2)]) == [Receipt(1), Receipt(2)]
    assert await intake.enqueue([job("c", 3)], connection=own) == [Receipt(3)]
    assert line.calls == [(["a", "b"], None), (["c"], own)]
    line.open.set()
    assert await intake.enqueue([job("d", 4)]) == [Receipt(4)]
    assert line.batches == [["d"]]


async def test_one_that_is_refused_spoils_nobody_elses() -> None:
    line = Line()
    intake = Intake(line.send, line.send_own)
    got = await answers(intake, line, [job("a", 1), job("twin", 2), job("b", 3)])
    assert got[0] == Receipt(1)
    assert isinstance(got[1], AlreadyEnqueued)
    assert got[2] == Receipt(3)


async def test_a_full_queue_costs_one_call_more_however_many_were_refused() -> None:
    line = Line()
    intake = Intake(line.send, line.send_own)
    jobs = [job("a", n, "full") for n in range(1, 50)] + [job("b", 99)]
    got = await answers(intake, line, jobs)
    assert all(isinstance(answer, QueueFull) for answer in got[:-1])
    assert got[-1] == Receipt(99)
    assert len(line.batches) <= 4


@pytest.mark.parametrize(("task", "error"), [("lost", StoreUnavailable), ("odd", RuntimeError)])
async def test_what_was_perhaps_written_is_not_sent_again(task: str, error: type[Exception]) -> None:
    """[E7]: the callers are told, and may send again with their idempotency keys."""
    line = Line()
    intake = Intake(line.send, line.send_own)
    got = await answers(intake, line, [job("a", 1), job(task, 2)])
    assert [type(answer) for answer in got] == [error, error]
    assert sum("a" in batch for batch in line.batches) == 1


async def test_an_error_is_its_callers_own() -> None:
    """What one adds to it, or was handling when it came, the others do not see."""
    line = Line()
    intake = Intake(line.send, line.send_own)

    async def call(n: int) -> StoreUnavailable:
        try:
            raise KeyError(n)
        except KeyError:
            with pytest.raises(StoreUnavailable, match="no answer") as found:
                await intake.add(job("lost", n))
        found.value.add_note(f"caller {n}")
        return found.value

    calls = [asyncio.create_task(call(n)) for n in range(4)]
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    line.open.set()
    errors = await asyncio.gather(*calls)
    assert [error.__notes__ for error in errors] == [[f"caller {n}"] for n in range(4)]
    assert [str(error.__context__) for error in errors] == ["0", "1", "2", "3"]
    own = intakes._own(QueueFull("no room", "full", 5.0))
    assert isinstance(own, QueueFull)
    assert (str(own), own.queue, own.retry_after) == ("no room", "full", 5.0)


async def test_a_call_that_is_cancelled_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "MAX_JOBS", 1)
    line = Line()
    got = await answers(Intake(line.send, line.send_own), line, [job("struck", 1), job("a", 2), job("a", 3)])
    assert isinstance(got[0], asyncio.CancelledError)
    assert got[1:] == [Receipt(2), Receipt(3)]


async def test_who_has_left_before_it_was_sent_gets_no_job() -> None:
    line = Line()
    intake = Intake(line.send, line.send_own)
    first = asyncio.create_task(intake.add(job("first", 1)))
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    gone = asyncio.create_task(intake.add(job("gone", 2)))
    stays = asyncio.create_task(intake.add(job("stays", 3)))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    line.open.set()
    assert [await first, await stays] == [Receipt(1), Receipt(3)]
    assert line.batches == [["first"], ["stays"]]


class Sticky(Line):
    """A store that answers all but the jobs that stick, until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[str] = []
        self.given_up = 0

    async def send_own(self, jobs: Sequence[NewJob], connection: object) -> list[Receipt]:
        self.calls.append(([job.task for job in jobs], connection))
        return [Receipt(int(job.payload)) for job in jobs]

    async def send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        self.batches.append([job.task for job in jobs])
        self.callers.append(caller.get())
        if any(job.task == "stick" for job in jobs):
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
        await asyncio.sleep(0)
        return [Receipt(int(job.payload)) for job in jobs]


KEYS = [
    {"idempotency_key": "k"},
    {"options": Options(unique_key="k")},
    {"options": Options(ordering_key="k")},
    {"options": Options(concurrency_key="k")},
    {"options": Options(task_limit=1)},
    {"options": Options(after=(7,))},
]


@pytest.mark.parametrize("fields", KEYS)
async def test_a_job_that_may_have_to_wait_is_sent_on_its_own(fields: dict[str, object]) -> None:
    """The key that it waits for may be held by a transaction that lasts."""
    line = Sticky()
    intake = Intake(line.send, line.send_own)
    stuck = asyncio.create_task(intake.add(NewJob(task="stick", payload="1", **fields)))  # type: ignore[arg-type]
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    async with within(intakes.PATIENCE):  # others do not even need a second call beside it
        got = await asyncio.gather(*(intake.add(job("a", n)) for n in range(20)))
    assert got == [Receipt(n) for n in range(20)]
    line.open.set()
    assert await stuck == Receipt(1)


async def test_a_call_that_does_not_answer_gets_others_beside_it() -> None:
    """A few: the next ones wait, and who leaves meanwhile leaves nothing behind."""
    line = Sticky()
    intake = Intake(line.send, line.send_own)
    stuck = []
    for n in range(CALLS - 1):
        stuck.append(asyncio.create_task(intake.add(job("stick", n))))
        while len(line.batches) <= n:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert await intake.add(job("a", 7)) == Receipt(7)
    stuck.append(asyncio.create_task(intake.add(job("stick", 8))))
    while len(line.batches) <= CALLS:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    waits = [asyncio.create_task(intake.add(job("late", n))) for n in range(3)]
    await asyncio.sleep(2 * intakes.PATIENCE)
    assert len(line.batches) == CALLS + 1
    waits[0].cancel()
    line.open.set()
    got = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(got[0], asyncio.CancelledError)
    assert got[1:] == [Receipt(1), Receipt(2)]
    assert line.batches[-1] == ["late", "late"]
    assert [await each for each in stuck] == [Receipt(0), Receipt(1), Receipt(2), Receipt(8)]


async def test_callers_with_one_key_keep_one_call_waiting() -> None:
    line = Sticky()
    intake = Intake(line.send, line.send_own)
    twins = [
        asyncio.create_task(intake.add(NewJob(task="stick", payload=str(n), options=Options(unique_key="k"))))
        for n in range(2 * CALLS)
    ]
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    other = NewJob(task="a", payload="9", options=Options(unique_key="other"))
    assert await intake.add(other) == Receipt(9)
    assert line.batches == [["stick"], ["a"]]
    line.open.set()
    assert await asyncio.gather(*twins) == [Receipt(n) for n in range(2 * CALLS)]


async def test_large_payloads_go_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "MAX_SENT", 4)
    line = Line()
    got = await answers(Intake(line.send, line.send_own), line, [job("a", n) for n in range(100, 103)])
    assert got == [Receipt(n) for n in range(100, 103)]
    assert max(len(batch) for batch in line.batches) <= 2


async def test_a_batch_belongs_to_none_of_its_callers() -> None:
    """What the first of them has in its context, such as a trace, is not the others'."""
    line = Sticky()
    intake = Intake(line.send, line.send_own)

    async def call(name: str, n: int) -> Receipt:
        caller.set(name)
        return await intake.add(job("a", n))

    await asyncio.gather(*(asyncio.create_task(call(f"caller {n}", n)) for n in range(3)))
    assert line.callers == ["caller 0", "nobody"]  # the first found nothing in flight, and went alone


async def test_a_call_that_nobody_waits_for_is_given_up() -> None:
    line = Sticky()
    intake = Intake(line.send, line.send_own)
    first = asyncio.create_task(intake.add(job("stick", 1)))
    while not line.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    others = [asyncio.create_task(intake.add(job("stick", n))) for n in (2, 3)]
    while len(line.batches) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    others[0].cancel()
    await asyncio.sleep(0)
    assert line.given_up == 0
    others[1].cancel()
    for each in await asyncio.gather(*others, return_exceptions=True):
        assert isinstance(each, asyncio.CancelledError)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert line.given_up == 2
    assert await intake.add(job("a", 4)) == Receipt(4)


async def test_jobs_enqueued_at_once_share_transactions(alone: Base) -> None:
    """Fifty calls of one process make a handful of transactions, and each gets a job of its own."""
    store = await alone.store()
    await store.enqueue([NewJob(task="a", payload="{}")])  # declares the queue
    receipts = await asyncio.gather(*(store.enqueue([NewJob(task="a", payload="{}")]) for _ in range(50)))
    assert len({receipt.id for (receipt,) in receipts}) == 50
    rows = await alone.look.rows("SELECT count(*) AS jobs FROM windlass.ready GROUP BY xmin::text")
    assert sum(row["jobs"] for row in rows) == 51
    assert len(rows) < 10


async def test_f4_what_is_refused_counts_once_however_often_it_was_sent(alone: Base) -> None:
    """A batch with jobs for other queues is sent again in parts."""
    store = await alone.store()
    for queue in ("full", "other"):
        await store.enqueue([NewJob(task="a", payload="{}", queue=queue)])
    await store.set_queue("full", {"max_depth": 1})
    queues = ["other", "full", "full", "other", "full"]
    sent = (store.enqueue([NewJob(task="a", payload="{}", queue=queue)]) for queue in queues)
    got = await asyncio.gather(*sent, return_exceptions=True)
    assert [isinstance(answer, QueueFull) for answer in got] == [queue == "full" for queue in queues]
    (record,) = [queue for queue in await store.queues() if queue.name == "full"]
    assert record.refused == 3
