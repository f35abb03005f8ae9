"""What a worker does with errors that a task's policy does not retry: dead at once, and the job says why
[O9]."""

import pytest

from tests.worker.handlers import process_tasks
from tests.worker.line import Line, until_it_is
from tests.worker.worker_sessions import on_session
from windlass import Retry, Snooze, State, Windlass
from windlass.endings import Ending
from windlass.errors import RemoteError
from windlass.worker.handlers.processes import Processes

POLICY = Retry(5, base=0, on=(OSError, "json.JSONDecodeError"), never=FileNotFoundError)


async def ends(app: Windlass, line: Line, error: BaseException, *, plain: bool) -> tuple[State, str, int]:
    """How a job ends that raises this each time: its state, its reason, its last attempt."""

    async def on_loop() -> None:
        raise error

    def in_thread() -> None:
        raise error

    task = app.task(name="odd", retry=POLICY)(in_thread if plain else on_loop)
    async with on_session(app, line):
        job = await task.aenqueue()
        await until_it_is(job.astatus, State.DEAD)
        record = await job.arecord()
    assert record.errors[-1].type.endswith(type(error).__name__)
    return record.state, record.reason or "", record.attempt


@pytest.mark.parametrize("plain", [False, True])
async def test_o9_what_is_in_never_is_dead_at_once(wired: Windlass, line: Line, plain: bool) -> None:
    found = await ends(wired, line, FileNotFoundError("gone"), plain=plain)
    assert found == (State.DEAD, "not retried: FileNotFoundError is in never", 1)


async def test_o9_what_is_not_in_on_is_dead_at_once(wired: Windlass, line: Line) -> None:
    found = await ends(wired, line, KeyError("x"), plain=False)
    assert found == (State.DEAD, "not retried: KeyError is not in on", 1)


async def test_o9_what_is_in_on_uses_all_its_attempts(wired: Windlass, line: Line) -> None:
    found = await ends(wired, line, ConnectionError("cut"), plain=False)
    assert found == (State.DEAD, "exhausted", 5)


async def test_o9_a_handler_that_asks_for_another_attempt_gets_it(wired: Windlass, line: Line) -> None:
    """Signals are not judged, and neither is what they were raised from."""
    attempts: list[str] = []
    asked: list[Ending] = [Retry(after=0), Snooze(0)]

    @wired.task(name="asks", retry=POLICY)
    async def asks() -> int:
        attempts.append("one")
        if asked:
            raise asked.pop() from FileNotFoundError("gone")
        return len(attempts)

    async with on_session(wired, line):
        assert await (await asks.aenqueue()).aresult("10s") == 3


async def test_o9_a_child_process_judges_by_the_class_that_only_it_knows() -> None:
    processes = Processes(1)
    try:
        with pytest.raises(RemoteError) as raised:
            await processes.run(process_tasks.picky, '{"name": "Picked"}')
        said = "not retried: tests.worker.handlers.process_tasks.Picked is a LookupError, in never"
        assert raised.value.not_retried == said
        with pytest.raises(RemoteError) as other:
            await processes.run(process_tasks.picky, '{"name": "ValueError"}')
        assert other.value.not_retried is None
    finally:
        await processes.close()
