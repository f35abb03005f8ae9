"""[fault 33] [K3] The store will not have its workers any more: its schema is gone, their role may do
nothing, its disk is full. SIGTERM ends every process all the same, and nobody goes on coordinating.

A coordinator that could not resign for a reason that nobody foresaw took its own end for one more failure and
began again: it led on without children until somebody killed it.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil
import psycopg
import pytest
from psycopg import sql

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import Host, Scene
from tests.postgres import Server
from tests.postgres_guard import alive
from tests.stopwatch import Stopwatch
from tests.store.postgres.conftest import role
from windlass.store.postgres import PostgresStore
from windlass.worker.engine.engine import LEAVE_TIME

__all__ = ["role"]

ENDING = 8.0
"""Seconds from SIGTERM to the last process's end, whatever the store says. No job runs."""


async def execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def coordinating(scene: Scene, **fields: str) -> AsyncIterator[Host]:
    """A host that leads the cluster and has run a job."""
    host = await scene.host(processes=2, WINDLASS_SHUTDOWN="1s", WINDLASS_GRACE="1s", **fields)
    await host.says("this host coordinates the cluster")
    (job,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(job, "succeeded")
    yield host


async def ends(host: Host, figure: Figure, within: float = ENDING) -> None:
    """SIGTERM; every process goes, and the supervisor ends as it would on any other day."""
    family = [host.pid, *(each.pid for each in psutil.Process(host.pid).children(recursive=True))]
    at, watch = time.monotonic(), Stopwatch()
    host.send(signal.SIGTERM)
    code = await host.leaves(within + 12.0)
    took, seconds = time.monotonic() - at, watch.seconds()
    figure("from SIGTERM to the end, s", took)
    assert seconds < within, host.log
    assert code == 0

    async def gone() -> bool:
        return not any(map(alive, family))

    await until(gone, 2.0)


async def test_the_schema_is_gone(pg_scene: Scene, figure: Figure) -> None:
    async with coordinating(pg_scene) as host:
        await execute(pg_scene.url, "DROP SCHEMA windlass CASCADE")
        await ends(host, figure)
    assert "could not resign" in host.log


@pytest.mark.slow
async def test_the_schema_has_been_gone_for_a_while(pg_scene: Scene, figure: Figure) -> None:
    """Children have ended and cannot be started again."""
    async with coordinating(pg_scene) as host:
        await execute(pg_scene.url, "DROP SCHEMA windlass CASCADE")
        await host.says("a new process starts in|cannot be started", 20.0)
        await ends(host, figure)


async def test_nothing_may_be_called_any_more(
    pg_scene: Scene, role: Callable[[str | None], str], figure: Figure
) -> None:
    dsn = role("worker")
    name = urlsplit(dsn).username
    async with coordinating(pg_scene, WINDLASS_DATABASE_URL=dsn) as host:
        await execute(
            pg_scene.url,
            f"REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA windlass FROM {name}",
            f"REVOKE ALL ON ALL TABLES IN SCHEMA windlass FROM {name}",
        )
        await ends(host, figure)
    assert "could not resign" in host.log


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with little room that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="windlass-disk-") as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "tmpfs", place]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root can make a small disk: SIGTERM with a full one was not tried")
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def small_database(disk: Path) -> Iterator[str]:
    """A database whose tables are on this disk; the server's log has its own, or it would end, too."""
    with Server(18, fsync=False) as server:
        data = disk / "tables"
        data.mkdir()
        owner = server.data_dir.stat()
        os.chown(data, owner.st_uid, owner.st_gid)
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
            session.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(str(data)))
            session.execute("CREATE DATABASE small TABLESPACE small")
        yield server.dsn("small")


def fill(place: Path) -> None:
    """Leave no byte free."""
    with (place / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(4096))


async def full(scene: Scene, disk: Path, figure: Figure) -> None:
    """What runs ends while nothing can be written; the worker leaves when it has tried for long enough."""
    gate = scene.folder / "gate"
    async with coordinating(scene) as host:
        jobs = await scene.enqueue("bulky", 4, gate=str(gate), size=200_000)
        for job in jobs:
            await scene.seen(job)
        fill(disk)
        gate.touch()
        await host.says("cannot write .* outcomes?", 10.0)
        await ends(host, figure, within=ENDING + LEAVE_TIME)
    (disk / "ballast").unlink()
    assert {record.state for record in await scene.records(jobs)} <= {"ready", "running", "succeeded"}
    await scene.host()
    await scene.all_ended(30.0)
    assert {record.state for record in await scene.records(jobs)} == {"succeeded"}


async def says_full(scene: Scene, disk: Path) -> None:
    """`/readyz` says so while a write finds no room, and no longer."""
    gate = scene.folder / "gate"
    async with coordinating(scene) as host:
        for job in await scene.enqueue("bulky", 4, gate=str(gate), size=200_000):
            await scene.seen(job)
        assert (await host.readiness() or {})["writes"] == "done"
        fill(disk)
        gate.touch()

        async def says(status: str, writes: str) -> bool:
            readiness = await host.readiness() or {}
            return (readiness.get("status"), readiness.get("writes")) == (status, writes)

        await until(lambda: says("not ready", "full"), 15.0)
        (disk / "ballast").unlink()
        await until(lambda: says("ready", "done"), 30.0)
        await scene.all_ended(30.0)


@pytest.mark.slow
async def test_m6_a_full_disk_is_not_ready_on_sqlite(tmp_path: Path, small_disk: Path) -> None:
    """[M6]"""
    async with Scene(f"sqlite:///{small_disk}/jobs.db", tmp_path) as scene:
        await says_full(scene, small_disk)


@pytest.mark.slow
async def test_m6_a_full_disk_is_not_ready_on_postgres(tmp_path: Path, small_disk: Path) -> None:
    """[M6]"""
    with small_database(small_disk) as dsn:
        await PostgresStore(dsn).migrate()
        async with Scene(dsn, tmp_path) as scene:
            await says_full(scene, small_disk)


@pytest.mark.slow
async def test_the_disk_is_full_on_sqlite(tmp_path: Path, small_disk: Path, figure: Figure) -> None:
    async with Scene(f"sqlite:///{small_disk}/jobs.db", tmp_path) as scene:
        await full(scene, small_disk, figure)


@pytest.mark.soak
async def test_the_disk_is_full_on_postgres(tmp_path: Path, small_disk: Path, figure: Figure) -> None:
    with small_database(small_disk) as dsn:
        await PostgresStore(dsn).migrate()
        async with Scene(dsn, tmp_path) as scene:
            await full(scene, small_disk, figure)
