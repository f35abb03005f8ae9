"""[K13] Real worker hosts with an id that they were given: kept over a kill, refused to a second one."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.outages.kit import APP, COMMAND, QUEUE, Host, work
from tests.chaos.program import ROOT
from windlass.store.factory import make_store
from windlass.store.protocol import Store

LEASE = 120.0
"""Longer than the test may take: nobody waits for it to end."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("pg_dsn"))
    return f"sqlite:///{tmp_path}/jobs.db"


async def names(store: Store) -> dict[str, int]:
    return {worker.name: worker.id for worker in await store.workers() if worker.alive}


async def test_it_is_kept_over_a_kill(url: str, tmp_path: Path, figure: Figure) -> None:
    """The whole family is killed. The host that is started again with the same id has the same names under
    new numbers, and waits for no lease."""
    store = make_store(url)
    await store.migrate()
    await store.open()
    try:
        killed = Host(tmp_path, url, lease=LEASE, processes=2, worker_id="pod-0")
        await killed.__aenter__()

        async def both() -> bool:
            return set(await names(store)) == {"pod-0.1", "pod-0.2"}

        await until(both, 10.0)
        before = await names(store)
        (receipt,) = await store.enqueue([work()])
        await killed.runs([receipt.id])
        killed.kill()
        assert await names(store) == before  # nobody has noticed
        began = time.monotonic()
        async with Host(tmp_path, url, lease=LEASE, processes=2, worker_id="pod-0") as host:

            async def anew() -> bool:
                return not set(before.values()) & set((await names(store)).values()) and await both()

            await until(anew, 30.0)
            figure("up again under the same id, s", time.monotonic() - began)
            (receipt,) = await store.enqueue([work()])
            await host.runs([receipt.id])
            labels = {worker.label.rpartition("-worker-")[2] for worker in await store.workers()}
            assert labels == {"pod-0.1", "pod-0.2"}
            assert "its process has ended" in host.log.read_text()
    finally:
        await store.close()


async def test_a_second_host_is_refused(url: str, tmp_path: Path) -> None:
    """It ends with an error that says who has the id; the first one does not notice."""
    store = make_store(url)
    await store.migrate()
    await store.open()
    try:
        async with Host(tmp_path, url, lease=3.0, worker_id="pod-0") as host:
            before = await names(store)
            second = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", COMMAND, "worker", APP, "-q", QUEUE, "--id", "pod-0", "--lease", "3s"],
                cwd=ROOT, env={**os.environ, "WINDLASS_DATABASE_URL": url}, capture_output=True, text=True,
                timeout=30, check=False,
            )  # fmt: skip
            assert second.returncode != 0
            assert "worker id pod-0.1 is taken" in second.stderr
            assert "sends heartbeats" in second.stderr
            assert await names(store) == before
            (receipt,) = await store.enqueue([work()])
            await host.runs([receipt.id])
    finally:
        await store.close()
