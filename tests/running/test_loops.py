"""One app, many threads, many event loops, forks: an app works wherever it is called from."""

import asyncio
import multiprocessing
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from windlass import State, Windlass
from windlass.errors import SchemaMissing
from windlass.running import loopthread
from windlass.running.store_handle import StoreHandle
from windlass.store.protocol import Store
from windlass.store.records import JobFilter
from windlass.store.sqlite import SQLiteStore


def test_threads_share_one_loop_thread(any_app: Windlass) -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: any_app.enqueue("windlass.echo", number), range(64)))
    assert len({job.id for job in jobs}) == 64
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("windlass-loop") == 1


def test_one_event_loop_after_the_other(any_app: Windlass) -> None:
    async def make(number: int) -> int:
        return (await any_app.aenqueue("windlass.echo", number)).id

    ids = [asyncio.run(make(number)) for number in range(3)]
    ids.append(any_app.enqueue("windlass.echo", 3).id)
    assert any_app.run_until_idle().succeeded == 4
    assert [any_app.job(id).result() for id in ids] == [0, 1, 2, 3]


def test_two_event_loops_side_by_side(any_app: Windlass) -> None:
    both = threading.Barrier(2, timeout=30)

    async def work(own_store: bool) -> list[int]:
        both.wait()
        if own_store:
            async with any_app:
                return await any_app.named("windlass.echo").aenqueue_many([(1,), (2,)])
        return [(await any_app.aenqueue("windlass.echo", number)).id for number in range(5)]

    with ThreadPoolExecutor(2) as pool:
        ids = [id for found in pool.map(lambda own: asyncio.run(work(own)), [True, False]) for id in found]
    assert len(set(ids)) == 7
    assert any_app.run_until_idle().succeeded == 7


async def test_async_with_gives_the_loop_a_store_of_its_own(any_app: Windlass) -> None:
    async with any_app as same:
        assert same is any_app
        async with any_app:  # a library inside may do the same
            job = await any_app.aenqueue("windlass.echo", 1)
        assert await job.astatus() == State.READY
        other = any_app.enqueue("windlass.echo", 2)  # synchronous calls still work, from wherever
        await any_app.arun_until_idle()
        assert await other.aresult() == 2
    assert await job.aresult() == 1  # and after the block the way leads over the loop thread again


def test_a_synchronous_call_inside_a_loop_does_not_deadlock(any_app: Windlass) -> None:
    async def careless() -> int:
        return any_app.enqueue("windlass.echo", 1).id

    assert any_app.job(asyncio.run(careless())).status() == State.READY


async def test_a_line_that_holds_up_a_loop_is_told_once_what_to_await(
    any_app: Windlass, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopthread, "_told", set())  # lines that an earlier test has called from
    async with any_app:
        first, _ = [any_app.enqueue("windlass.echo", number) for number in range(2)]
        first.status()
    said = [record.getMessage() for record in caplog.records if record.name == "windlass"]
    assert len(said) == 2
    told = r"test_loops\.py:\d+ calls {}\(\) where an event loop runs, .*; await a{}\(\) instead$"
    for line, name in zip(said, ("enqueue", "status"), strict=True):
        assert re.search(told.format(name, name), line), line


def test_a_line_without_a_loop_is_not_told(any_app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    any_app.enqueue("windlass.echo", 1)
    assert caplog.text == ""


async def test_run_until_idle_inside_a_loop_says_what_to_do(app: Windlass) -> None:
    with pytest.raises(RuntimeError, match=r"await arun_until_idle\(\) instead"):
        app.run_until_idle()


def test_a_closed_app_opens_again(any_app: Windlass) -> None:
    job = any_app.enqueue("windlass.echo", 1)
    any_app.close()
    any_app.close()
    assert job.status() == State.READY


def test_code_of_the_loop_thread_cannot_wait_for_itself() -> None:
    handle = StoreHandle(lambda: SQLiteStore(":memory:"), roams=True)

    async def on_the_loop_thread() -> None:
        handle.call(lambda store: store.queues())

    with pytest.raises(RuntimeError, match="wait for itself"):
        loopthread.current().run(on_the_loop_thread())


def test_an_error_while_opening_is_raised_and_the_next_call_tries_again(pg_database: str) -> None:
    with Windlass(pg_database) as app:
        for _ in range(2):
            with pytest.raises(SchemaMissing):
                app.enqueue("windlass.echo")
        assert app.migrate().after >= 1
        assert app.enqueue("windlass.echo").receipt in ("enqueued", "scheduled")


def _child(app: Windlass, pipe: Connection) -> None:
    job = app.enqueue("windlass.echo", os.getpid())
    pipe.send((job.id, os.getpid(), asyncio.run(app.job(job.id).astatus())))
    pipe.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fault_22_after_a_fork_parent_and_child_both_go_on(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue("pg_dsn")
    with Windlass(url) as app:
        app.enqueue("windlass.echo", 0)  # the store is open and its loop thread runs
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(app, there))
        child.start()
        there.close()
        for number in range(20):  # the parent's connections must not notice
            app.enqueue("windlass.echo", number)
        assert here.poll(30), "the child did not answer"
        id, pid, status = here.recv()
        child.join(30)
        assert (child.exitcode, status) == (0, State.READY)
        assert app.run_until_idle().succeeded == 22
        assert app.job(id).result() == pid
        here.close()


def test_the_same_store_serves_sync_and_async_calls_of_an_app_in_memory(app: Windlass) -> None:
    async def look() -> int:
        return len((await app._store_handle().acall(lambda store: store.jobs(JobFilter()))).jobs)

    app.enqueue("windlass.echo")
    assert asyncio.run(look()) == 1


async def test_leaving_a_block_does_not_close_the_store_under_a_worker(any_app: Windlass) -> None:
    """Heartbeats and chores of the worker go on over the store that the process shares."""
    async with any_app.worker(["default"]):
        async with any_app:
            assert await (await any_app.aenqueue("windlass.echo", 1)).aresult("10s") == 1
        await any_app.aclose()
        assert await (await any_app.aenqueue("windlass.echo", 2)).aresult("10s") == 2


def test_closing_waits_for_a_call_under_way(any_app: Windlass) -> None:
    """Another thread may be in the middle of one: it is answered, and the next call opens the store anew."""
    began, proceed = threading.Event(), threading.Event()

    async def slow(store: Store) -> int:
        began.set()
        await asyncio.to_thread(proceed.wait, 10)
        return len(await store.queues())

    any_app.enqueue("windlass.echo", 1)
    with ThreadPoolExecutor(2) as pool:
        call = pool.submit(any_app._store_handle().call, slow)
        assert began.wait(10)
        closing = pool.submit(any_app.close)
        proceed.set()
        assert call.result(10) == 1
        closing.result(10)
    assert any_app.run_until_idle().succeeded == 1


def test_uvloop_is_used_where_it_is_installed(any_app: Windlass) -> None:
    """Jobs that are drained from code without a loop run on one of ours."""
    pytest.importorskip("uvloop")
    seen: list[str] = []

    @any_app.task(name="look")
    async def look() -> None:
        seen.append(loopthread.loop_name(asyncio.get_running_loop()))

    look.enqueue()
    assert any_app.run_until_idle().succeeded == 1
    assert [*seen, loopthread.loop_name(loopthread.current().loop)] == ["uvloop", "uvloop"]


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name comes with a hint."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loopthread.prefer_uvloop() is None

    async def name() -> str:
        return loopthread.loop_name(asyncio.get_running_loop())

    assert loopthread.run_here(name()) == "asyncio (uvloop is faster: pip install 'windlass[uvloop]')"
