"""Single enqueues that travel together: each caller gets an answer of their own."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.errors import AlreadyEnqueued, QueueFull, StoreUnavailable
from windlass.store.records import NewJob, Receipt
from windlass.web.intake import Intake


class Line:
    """A store's door: keeps what was sent, and waits until it is let go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.open = asyncio.Event()

    async def send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        self.batches.append([job.task for job in jobs])
        await self.open.wait()
        if any(job.task == "twin" for job in jobs):
            raise AlreadyEnqueued("it is there already")
        if any(job.queue == "full" for job in jobs):
            raise QueueFull("no room", "full", 5.0)
        if any(job.task == "lost" for job in jobs):
            raise StoreUnavailable("no answer")
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
    intake = Intake(line.send)
    got = await answers(intake, line, [job("a", n) for n in range(1, 10)])
    assert got == [Receipt(n) for n in range(1, 10)]
    assert [len(batch) for batch in line.batches] == [1, 9] or [len(batch) for batch in line.batches] == [10]


async def test_one_that_is_refused_spoils_nobody_elses() -> None:
    line = Line()
    intake = Intake(line.send)
    got = await answers(intake, line, [job("a", 1), job("twin", 2), job("b", 3)])
    assert got[0] == Receipt(1)
    assert isinstance(got[1], AlreadyEnqueued)
    assert got[2] == Receipt(3)


async def test_a_full_queue_costs_one_call_more_however_many_were_refused() -> None:
    line = Line()
    intake = Intake(line.send)
    jobs = [job("a", n, "full") for n in range(1, 50)] + [job("b", 99)]
    got = await answers(intake, line, jobs)
    assert all(isinstance(answer, QueueFull) for answer in got[:-1])
    assert got[-1] == Receipt(99)
    assert len(line.batches) <= 4


async def test_what_was_perhaps_written_is_not_sent_again() -> None:
    """[E7]: the callers are told, and may send again with their idempotency keys."""
    line = Line()
    intake = Intake(line.send)
    got = await answers(intake, line, [job("a", 1), job("lost", 2)])
    assert [type(answer) for answer in got] == [StoreUnavailable, StoreUnavailable]
    assert sum("a" in batch for batch in line.batches) == 1


async def test_who_has_left_before_it_was_sent_gets_no_job() -> None:
    line = Line()
    intake = Intake(line.send)
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
