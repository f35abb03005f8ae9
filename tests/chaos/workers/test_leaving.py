"""A worker that is told to stop while its database is away leaves all the same; the lease returns its
jobs.
"""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.outages.kit import proxied
from tests.chaos.workers.kit import Scene
from tests.postgres import Server
from tests.postgres_guard import alive

SHUTDOWN, GRACE = 1.0, 1.0
LIMIT = SHUTDOWN + GRACE + 10.0 + GRACE + 10.0
"""Until a child that does not leave is killed, until its jobs are left to their lease, and for a busy
machine and connections that must be given up."""


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
async def test_a_worker_leaves_though_its_database_is_away(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, silent: bool
) -> None:
    """Whether it refuses connections or says nothing at all. And the log stays short meanwhile."""
    async with proxied(pg_server, pg_dsn) as (proxy, url), Scene(pg_dsn, tmp_path) as scene:
        host = await scene.host(
            processes=2,
            lease=30.0,
            WINDLASS_DATABASE_URL=url,
            WINDLASS_SHUTDOWN=f"{SHUTDOWN:g}s",
            WINDLASS_GRACE=f"{GRACE:g}s",
        )
        await scene.enqueue("gated", 2, gate=str(tmp_path / "gate"))
        await scene.seen(n=2)
        children = host.children()
        (proxy.swallow if silent else proxy.refuse)()

        async def out_of_reach() -> bool:
            return (await host.readiness() or {}).get("store") == "out of reach"

        began = time.monotonic()
        await host._until(out_of_reach, 10.0)
        figure("database away → not ready, s", time.monotonic() - began)
        told_at = time.monotonic()
        host.send(signal.SIGTERM)
        assert await host.leaves(within=LIMIT) == 0
        figure("told to stop → has left, s", time.monotonic() - told_at)
        assert not any(map(alive, children))
        outages = re.findall(rf"WARNING +\[{host.pid}\] windlass\.cluster", host.log)
        figure("warnings of the member", len(outages))
        assert len(outages) <= 8
