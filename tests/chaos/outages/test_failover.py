"""[fault 28] [S3] Failover to a standby that lags, and the same worker goes on. What the old primary had
acknowledged and the standby never got is lost, and nothing else is: no job ends without having run, no id
means another job, and none is left behind.

What broke: the standby gave out the same claim numbers and positions again, and an old worker's outcomes,
which came late, ended 119 jobs that had never run.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import connected, depth_is_a_scan, opened, until
from tests.chaos.outages.kit import Host, proxied, settled, work
from tests.chaos.replicas import pair
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob


async def ids_of(store: PostgresStore, jobs: list[NewJob]) -> list[int]:
    """Enqueue, and again while the store is away; the ids that were acknowledged."""
    while True:
        try:
            return [receipt.id for receipt in await store.enqueue(jobs)]
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def states(dsn: str) -> dict[int, str]:
    """The state of every job, by its id."""
    async with connected(dsn) as connection:
        rows = await connection.fetch("SELECT id, state FROM windlass.job")
    return {row["id"]: row["state"] for row in rows}


@pytest.mark.slow
async def test_a_worker_goes_on_after_a_failover_with_lag(tmp_path: Path, figure: Figure) -> None:
    with pair() as (primary, standby):
        name = primary.create_database()
        dsn = primary.dsn(name)
        await PostgresStore(dsn).migrate()
        async with proxied(primary, dsn) as (proxy, url), Host(tmp_path, url, slots=64) as host:
            async with opened(url) as store:
                kept = await ids_of(store, [work()] * 50)
                await host.runs(kept)
                await settled(store)

                async def same() -> bool:
                    return standby.caught_up()

                await until(same, 20.0)
                await asyncio.to_thread(standby.lag)
                # The standby knows the worker and none of what follows: jobs that ended, jobs that run.
                lost = await ids_of(store, [work()] * 50)
                await host.runs(lost)
                running = await ids_of(store, [work("pause", '{"seconds": 10}')] * 40)
                began = time.monotonic()

                async def started() -> bool:
                    return sum(effect.what == "began" for effect in host.effects()) == len(running)

                await until(started, 10.0)
                lost += running
                primary.kill9()
                standby.promote()
                promoted = time.monotonic()
                proxy.lead_to(standby.port)
                proxy.refuse()
                proxy.restore()
                # While the old handlers still run, as many new jobs come in, for the places of the lost ones.
                fresh = await ids_of(store, [work("pause", '{"seconds": 0.5}')] * 90)
                assert time.monotonic() - began < 10.0, "too slow to show anything"
                await host.runs(fresh, within=30.0)
                resumed = min(e.at for e in host.effects() if e.job in set(fresh)) - promoted
                await settled(store)
                await until(host.ready, 10.0)
                await depth_is_a_scan(store, standby.dsn(name))
            found = await states(standby.dsn(name))
        late = {effect.job for effect in host.effects() if effect.what == "ran" and effect.at > promoted}
    assert not set(fresh) & set(lost), "an id that somebody holds means another job now"
    assert found.keys() == {*kept, *fresh}, (
        "jobs of which nobody knows, or lost ones of which the standby knew"
    )
    assert set(found.values()) == {"succeeded"}
    assert set(fresh) <= late, "ended without having run"
    figure("jobs that the server lost", len(lost))
    figure("seconds from the promotion to the first job after it", resumed)
