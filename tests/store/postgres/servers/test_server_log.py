"""The log of the server: a worker that starts, works and stops leaves no error in it. Whoever watches a
database takes each for a fault."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Server
from tests.postgres_install import Version
from windlass import State, Windlass
from windlass.worker.engine import engine

VERSIONS = [18, pytest.param("stock", marks=pytest.mark.stock)]
APP = """
from windlass import Context, Retry, Windlass

app = Windlass()
app.budget("b", rate=1000, burst=5)

@app.task(name="call", budgets=["b"], concurrency=2)
async def call(n: int) -> int:
    return n

@app.task(name="sometimes", retry=Retry(3, base="10ms"))
def sometimes(ctx: Context, n: int) -> None:
    if ctx.attempt == 1 and n % 10 == 0:
        raise ValueError(n)

@app.task(name="plain")
async def plain(n: int) -> None:
    pass

@app.schedule("* * * * *")
@app.task
async def tick() -> None:
    pass
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_worker_leaves_no_error_in_it(tmp_path: Path, version: Version) -> None:
    """Jobs wait already when the worker starts, so that each of its first calls finds something."""
    (tmp_path / "small_app.py").write_text(APP)
    with Server(version, fsync=False) as server:
        url = server.dsn(server.create_database())
        Windlass(url).migrate()
        with Windlass(url) as app:
            jobs = [app.enqueue("call", n) for n in range(40)]
            jobs += [app.enqueue("sometimes", n) for n in range(40)]
            jobs += [app.enqueue("plain", n) for n in range(200)]
            argv = [sys.executable, "-m", "windlass", "worker", "small_app:app", "-p", "2"]
            environment = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": os.pathsep.join(sys.path)}
            log = tmp_path / "worker.log"
            with log.open("wb") as out:
                worker = subprocess.Popen(
                    argv, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT
                )
                try:
                    for job in jobs:
                        job.result("60s")
                    worker.send_signal(signal.SIGTERM)
                    assert worker.wait(30) == 0, log.read_text()
                finally:
                    worker.kill()
                    worker.wait(30)
        said = server.log_path.read_text(errors="replace").splitlines()
    assert [line for line in said if "ERROR:" in line or "FATAL:" in line] == []


TURNS = 100
"""Of the loop: a worker that was told to stop has begun to, and a task that was cancelled has ended."""
CLAIMS = """
SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock' AND query LIKE '%.claim(%'
"""


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_worker_that_stops_leaves_no_error_in_it(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim, a promotion and a heartbeat were broken off where they were under way. What a claim that is
    answered then brings goes back at once."""
    monkeypatch.setattr(engine, "ANSWER_TIME", 60.0)
    with Server(version, fsync=False) as server:
        url = server.dsn(server.create_database())
        await Windlass(url).amigrate()
        holder = await psycopg.AsyncConnection.connect(url)
        async with Windlass(url) as app, holder:

            @app.task(name="t")
            async def t() -> None:
                pass

            async with app.worker(["default"]) as worker:
                await (await t.aenqueue()).aresult("60s")
                await holder.execute("SELECT FROM windlass.worker_life FOR UPDATE")
                job = await t.aenqueue()
                while (await (await holder.execute(CLAIMS)).fetchone()) == (0,):
                    await holder.execute("SELECT pg_stat_clear_snapshot()")
                claims = next(task for task in asyncio.all_tasks() if task.get_name() == "windlass claims")
                worker.stop()
                for _ in range(TURNS):
                    await asyncio.sleep(0)
                assert not claims.done(), "it was broken off"
                await holder.commit()
            assert await job.astatus() == State.READY
        said = server.log_path.read_text(errors="replace").splitlines()
    assert [line for line in said if "ERROR:" in line or "FATAL:" in line] == []
