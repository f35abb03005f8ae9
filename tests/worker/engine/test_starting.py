"""How runs are begun: in a context of their own, at once where Python can, and never all the loop's time."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from tests.stopwatch import within
from tests.worker.line import Line, until
from tests.worker.worker_sessions import on_session
from windlass import Windlass, current_context
from windlass.worker.engine.slots import AT_ONCE

MANY = 500
SET_BY: ContextVar[int] = ContextVar("set_by", default=0)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_handler_sees_nothing_that_another_one_set(wired: Windlass, line: Line, kind: str) -> None:
    """One that ends makes room for the next, which has its context from elsewhere all the same."""
    seen: list[tuple[int, bool]] = []

    def look(number: int) -> None:
        seen.append((SET_BY.get(), current_context().id in ids))
        SET_BY.set(number)

    async def alook(number: int) -> None:
        look(number)

    wired.task(name="look")(look if kind == "plain" else alook)
    ids = await wired.named("look").aenqueue_many([(number,) for number in range(1, 6)])
    async with on_session(wired, line, slots=1):
        await until(lambda: len(seen) == 5)
    assert seen == [(0, True)] * 5


async def test_jobs_that_end_at_once_leave_the_loop_to_others(wired: Windlass, line: Line) -> None:
    """[K1] And neither does each of them stand on the stack of the one before it."""
    loop = asyncio.get_running_loop()
    runs = most = 0
    ended = asyncio.Event()

    @wired.task(name="at_once")
    async def at_once(number: int) -> None:
        nonlocal runs, most
        runs += 1
        most = max(most, runs)
        if number == MANY - 1:
            ended.set()

    def turn() -> None:
        nonlocal runs
        runs = 0
        if not ended.is_set():
            loop.call_soon(turn)

    await wired.named("at_once").aenqueue_many([(number,) for number in range(MANY)])
    turn()
    async with on_session(wired, line, slots=1), within(20):
        await ended.wait()
    assert 1 <= most <= 2 * AT_ONCE  # by a claim, and by who goes on with the one before it


async def test_a_task_factory_of_the_program_is_used(wired: Windlass, line: Line) -> None:
    """A worker inside a program makes its tasks as the program wants them made."""
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:
        made.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop)

    @wired.task(name="sees")
    async def sees() -> int:
        return SET_BY.get()

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        job = await sees.aenqueue()
        async with on_session(wired, line):
            assert await job.aresult("10s") == 0
    finally:
        loop.set_task_factory(None)
    assert "Slots._run" in made
