"""A transaction of the handler's own: its data and its outcome are committed together, or not at all."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.worker.line import Line, set_quick
from tests.worker.scene import declare_dead
from windlass import Context, Retry, Windlass

pytestmark = pytest.mark.usefixtures("often")


async def test_data_and_outcome_are_committed_together(tmp_path: Path) -> None:
    """[C5] [O8] Also when the handler raises afterwards: how the job ended cannot be changed any more."""
    path = tmp_path / "jobs.db"
    with Windlass(f"sqlite:///{path.as_posix()}") as app:

        @app.task(retry=Retry(2, base=0))
        async def books(ctx: Context, how: str) -> str:
            async with ctx.transaction() as connection:
                connection.execute("INSERT INTO book VALUES (?, ?)", (ctx.id, how))
                ctx.result = {"kept": how}
                if how == "rolls back" and ctx.attempt == 1:
                    raise OSError("half-way")
            if how == "fails after":
                raise OSError("too late to matter")
            return "comes too late"

        await app.amigrate()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("CREATE TABLE book (job INTEGER, how TEXT)")
        jobs = {how: await books.aenqueue(how) for how in ("plain", "fails after", "rolls back")}
        async with app.worker({"default": 1}):
            for how, job in jobs.items():
                assert await app.job(job.id).aresult("10s") == {"kept": how}
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            rows = database.execute("SELECT job, how FROM book ORDER BY how").fetchall()
        assert rows == [(jobs[how].id, how) for how in ("fails after", "plain", "rolls back")]
        assert [(await job.arecord()).attempt for job in jobs.values()] == [1, 1, 2]


async def test_a_transaction_of_a_lost_worker_commits_nothing(tmp_path: Path) -> None:
    """[C5]"""
    path = tmp_path / "jobs.db"
    with Windlass(f"sqlite:///{path.as_posix()}") as app:
        started, proceed = asyncio.Event(), asyncio.Event()

        @app.task
        async def books(ctx: Context) -> None:
            if not ctx.deaths:
                started.set()
                with contextlib.suppress(asyncio.CancelledError):  # ignores it: the fence must hold
                    await proceed.wait()
            async with ctx.transaction() as connection:
                connection.execute("INSERT INTO book VALUES (?)", (ctx.deaths,))

        await app.amigrate()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("CREATE TABLE book (deaths INTEGER)")
        job = await books.aenqueue()
        set_quick(app)
        async with app._store_handle().shared() as store, app.worker({"default": 1}):
            await started.wait()
            await declare_dead(Line(store))
            await job.aresult("10s")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            assert database.execute("SELECT deaths FROM book").fetchall() == [(1,)]
