"""Handlers that take many jobs at once: what is in a batch, and how each of its jobs ends."""

import asyncio
from collections import Counter

import msgspec
import pytest

from tests.apps import clocked
from tests.worker.line import Line, until
from tests.worker.worker_sessions import on_session
from windlass import Context, Dead, Retry, Snooze, State, Windlass
from windlass.errors import ConfigurationError, InvalidArguments
from windlass.tasks.options import Template
from windlass.tasks.task import Task


class Page(msgspec.Struct):
    """What a job of these tests carries."""

    url: str
    size: int = 0


def test_waiting_jobs_come_as_one_list(any_app: Windlass) -> None:
    batches: list[list[str]] = []

    @any_app.task(name="index", queue="index", batch=10)
    async def index(pages: list[Page]) -> None:
        batches.append([page.url for page in pages])

    ids = index.enqueue_many([(Page(f"u{n}"),) for n in range(23)])
    index.enqueue(Page("last"))
    drained = any_app.run_until_idle()
    assert drained.succeeded == 24
    assert [url for batch in batches for url in batch] == [*(f"u{n}" for n in range(23)), "last"]
    assert max(map(len, batches)) == 10
    assert len(batches) <= 4
    assert all(any_app.job(id).status() is State.SUCCEEDED for id in ids)


def test_a_plain_function_takes_batches_in_a_thread(app: Windlass) -> None:
    sums: list[int] = []

    @app.task(name="add", batch=100)
    def add(numbers: list[int]) -> None:
        sums.append(sum(numbers))

    add.enqueue_many([(n,) for n in range(5)])
    assert app.run_until_idle().succeeded == 5
    assert sum(sums) == 10
    assert add([1, 2]) is None


def test_the_answer_tells_the_items_apart(app: Windlass) -> None:
    """One entry for each item: an exception for one that failed, anything else is its result."""

    @app.task(name="check", batch=10, retry=Retry(1))
    async def check(numbers: list[int]) -> list[object]:
        known: dict[int, object] = {1: None, 2: Dead("no"), 3: Snooze(60), 4: ValueError("odd")}
        return [known.get(number, number * 10) for number in numbers]

    jobs = [check.enqueue(n) for n in range(1, 6)]
    drained = app.run_until_idle()
    states = [job.status() for job in jobs]
    assert states == [State.SUCCEEDED, State.DEAD, State.SCHEDULED, State.DEAD, State.SUCCEEDED]
    assert (drained.succeeded, drained.dead, drained.deferred) == (2, 2, 1)
    assert jobs[4].result() == 50
    assert jobs[3].record().errors[-1].message == "odd"


def test_a_raise_fails_each_of_them_and_each_is_tried_again() -> None:
    with clocked() as (app, clock):
        seen: Counter[int] = Counter()

        @app.task(name="flaky", batch=10, retry=Retry(3, base=5))
        async def flaky(numbers: list[int]) -> None:
            seen.update(numbers)
            if seen[1] == 1:
                raise OSError("the index is away")

        jobs = [flaky.enqueue(n) for n in range(3)]
        assert app.run_until_idle().retried == 3
        assert {job.status() for job in jobs} == {State.RETRYING}
        clock.advance(60)
        assert app.run_until_idle().succeeded == 3
        assert seen == {0: 2, 1: 2, 2: 2}


def test_a_wrong_answer_is_the_handlers_fault(app: Windlass) -> None:
    @app.task(name="short", batch=10, retry=Retry(1))
    async def short(numbers: list[int]) -> list[int]:
        return numbers[1:]

    job = short.enqueue(1)
    short.enqueue(2)
    assert app.run_until_idle().dead == 2
    assert "one entry for each of 2 items" in job.record().errors[-1].message


def test_a_payload_that_does_not_fit_fails_alone(app: Windlass) -> None:
    seen: list[int] = []

    @app.task(name="numbers", batch=10, retry=Retry(1))
    async def numbers(numbers: list[int]) -> None:
        seen.extend(numbers)

    numbers.enqueue(1)
    unchecked: Task[[str], None] = Task(app, "numbers", Template().using({"max_attempts": 1}))
    bad = unchecked.enqueue("text")
    numbers.enqueue(2)
    drained = app.run_until_idle()
    assert (drained.succeeded, drained.dead) == (2, 1)
    assert seen == [1, 2]
    assert bad.status() is State.DEAD


def test_arguments_are_checked_item_by_item(app: Windlass) -> None:
    @app.task(name="index", batch=10)
    async def index(pages: list[Page]) -> None: ...

    with pytest.raises(InvalidArguments, match="pages"):
        index.enqueue("no page")  # type: ignore[arg-type]


async def test_one_slot_holds_a_whole_batch(wired: Windlass, line: Line) -> None:
    sizes: list[int] = []
    proceed = asyncio.Event()

    @wired.task(name="held", batch=5)
    async def held(numbers: list[int]) -> None:
        sizes.append(len(numbers))
        await proceed.wait()

    await held.aenqueue_many([(n,) for n in range(20)])
    async with on_session(wired, line, slots=2) as session:
        await until(lambda: len(sizes) == 2)
        assert sizes == [5, 5]
        assert len(session.running) == 10
        proceed.set()
        await until(lambda: sum(sizes) == 20)


async def test_cancel_of_one_leaves_the_others_alone(wired: Windlass, line: Line) -> None:
    """[O5] What has not finished is cancelled; what finished first stands."""
    started, proceed = asyncio.Event(), asyncio.Event()
    answers: list[object] = []

    @wired.task(name="held", batch=5)
    async def held(numbers: list[int]) -> list[object]:
        started.set()
        await proceed.wait()
        return answers

    jobs = [await held.aenqueue(n) for n in range(3)]
    async with on_session(wired, line, slots=1) as session:
        await started.wait()
        session.cancel({jobs[0].id, jobs[1].id})
        answers[:] = [ValueError("gave up"), None, None]
        proceed.set()
        await until(lambda: session.holdings.none)
    states = [await job.astatus() for job in jobs]
    assert states == [State.CANCELLED, State.SUCCEEDED, State.SUCCEEDED]


async def test_a_batch_that_hangs_times_out_as_a_whole(wired: Windlass, line: Line) -> None:
    @wired.task(name="hangs", batch=5, timeout=0.05, retry=Retry(1))
    async def hangs(numbers: list[int]) -> None:
        await asyncio.Event().wait()

    jobs = [await hangs.aenqueue(n) for n in range(3)]
    async with on_session(wired, line, slots=1) as session:
        await until(lambda: session.holdings.none and not session.running)
        await until(lambda: line.calls["finish"] > 0)
        await session.log.flush()
    assert {await job.astatus() for job in jobs} == {State.DEAD}


def test_one_result_that_cannot_be_kept_fails_alone(app: Windlass) -> None:
    calls: list[int] = []

    @app.task(name="odd", batch=10, retry=Retry(3, base=0))
    async def odd(numbers: list[int]) -> list[object]:
        calls.append(len(numbers))
        return [object() if number == 2 else number for number in numbers]

    jobs = [odd.enqueue(n) for n in range(1, 4)]
    app.run_until_idle()
    assert calls == [3]
    assert [job.status() for job in jobs] == [State.SUCCEEDED, State.DEAD, State.SUCCEEDED]


async def test_a_batch_of_which_all_are_cancelled_ends(wired: Windlass, line: Line) -> None:
    """[O5] One by one they leave the others alone, and the last one ends the call."""
    started = asyncio.Event()

    @wired.task(name="hangs", batch=5)
    async def hangs(numbers: list[int]) -> None:
        started.set()
        await asyncio.Event().wait()

    jobs = [await hangs.aenqueue(n) for n in range(3)]
    async with on_session(wired, line, slots=1) as session:
        await started.wait()
        session.cancel({jobs[0].id})
        assert len(session.running) == 3
        session.cancel({job.id for job in jobs})
        await until(lambda: not session.running)
        await session.log.flush()
    assert {await job.astatus() for job in jobs} == {State.CANCELLED}


async def test_a_cancelled_one_does_not_keep_the_others_from_their_timeout(
    wired: Windlass, line: Line
) -> None:
    @wired.task(name="hangs", batch=5, timeout=0.1, retry=Retry(1))
    async def hangs(numbers: list[int]) -> None:
        await asyncio.Event().wait()

    jobs = [await hangs.aenqueue(n) for n in range(3)]
    async with on_session(wired, line, slots=1) as session:
        await until(lambda: len(session.running) == 3)
        session.cancel({jobs[0].id})
        await until(lambda: not session.running)
        await session.log.flush()
    assert [await job.astatus() for job in jobs] == [State.CANCELLED, State.DEAD, State.DEAD]


def test_what_cannot_take_batches_says_so(app: Windlass) -> None:
    with pytest.raises(ConfigurationError, match=r"list\[Page\]"):

        @app.task(name="two", batch=10)  # type: ignore[arg-type]
        async def two(pages: list[Page], more: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"list\[Page\]"):

        @app.task(name="one", batch=10)  # type: ignore[arg-type]
        async def one(page: Page) -> None: ...

    with pytest.raises(ConfigurationError, match="batch=0"):

        @app.task(name="none", batch=0)
        async def none(pages: list[Page]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"list\[Page\]"):

        @app.task(name="context", batch=10)  # type: ignore[arg-type]
        async def context(ctx: Context, pages: list[Page]) -> None: ...
