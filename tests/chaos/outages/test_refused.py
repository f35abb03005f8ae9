"""[fault 8] The store refuses connections for longer than the lease: the processes stay up, they try again
with capped and jittered pauses, /readyz says so, handlers are stopped (their jobs belong to others by now),
and all goes on when the store is back.

SQLite refuses no connection; a file that is locked or gone is another fault.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import connected, counts, depth_is_a_scan, lasting, opened, until
from tests.chaos.outages.kit import balance, in_the_midst, settled, work
from tests.postgres import Server
from windlass.errors import StoreReadOnly, StoreUnavailable

LEASE = 2.0
END = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1"


async def refused(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """An outage of so many seconds while a long handler runs."""
    async with in_the_midst(server, dsn, folder, LEASE) as midst:
        proxy, host, store, family, quick, long = midst
        proxy.refuse()
        gone_at = time.monotonic()
        await until(lambda: midst.seen("cancelled"), LEASE * 2)
        figure("handler stopped after, s", time.monotonic() - gone_at)
        await until(host.not_ready, LEASE * 2)
        tries, cpu, counted = proxy.attempts, host.cpu_seconds(), time.monotonic()
        await asyncio.sleep(max(1.0, gone_at + seconds - time.monotonic()))
        span = time.monotonic() - counted
        rate = (proxy.attempts - tries) / span
        figure("tries to connect a second, whole host", rate)
        figure("processor seconds a second, whole host", (host.cpu_seconds() - cpu) / span)
        # Twelve where nothing else runs; the first tries come quicker, and a busy loop makes thousands.
        assert 0 < rate < 100, "a busy loop, or nobody tries"
        assert host.family() == family, "a process did not survive"
        assert not await midst.seen("ran")
        proxy.restore()
        back = time.monotonic()
        more = [receipt.id for receipt in await store.enqueue([work()] * 20)]
        await until(host.ready, 10.0)
        figure("ready again after, s", time.monotonic() - back)
        await host.runs([*more, long], 30.0)
        figure("all jobs run after, s", time.monotonic() - back)
        await settled(store)
        await depth_is_a_scan(store, dsn)
        balance(host.ran(), [*quick, *more, long])
        assert await counts(dsn) == {"succeeded": 41}
        assert host.family() == family


@pytest.mark.slow
@lasting(3 * LEASE, share=0.5)
async def test_the_store_refuses_connections(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    """[C9] Three leases long."""
    await refused(pg_server, pg_dsn, tmp_path, seconds, figure)


@pytest.mark.parametrize("how", ["closed", "renamed", "password"])
async def test_a_server_that_lets_nobody_in_is_one_that_is_away(
    pg_server: Server, pg_dsn: str, how: str
) -> None:
    """A store that was open once takes every refusal for an outage: a worker must not end because somebody
    renames a database or changes a password for a minute. At the first opening the same is said plainly."""
    name = pg_dsn.rpartition("/")[2]
    role = f"outage_{name}"
    shut = {
        "closed": f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        "renamed": f"ALTER DATABASE {name} RENAME TO {name}_away",
        "password": f"ALTER ROLE {role} PASSWORD 'another'",
    }[how]
    open_up = {
        "closed": f"ALTER DATABASE {name} ALLOW_CONNECTIONS true",
        "renamed": f"ALTER DATABASE {name}_away RENAME TO {name}",
        "password": f"ALTER ROLE {role} PASSWORD 'right'",
    }[how]
    url = f"postgresql://{role}:right@127.0.0.1:{pg_server.port}/{name}"
    async with connected(pg_server.dsn()) as server:
        await server.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'right'")
        try:
            async with opened(url) as store:
                await server.execute(END, name)
                await server.execute(shut)
                try:
                    for _ in range(2):
                        with pytest.raises(StoreUnavailable):
                            await store.enqueue([work()])
                    with pytest.raises(StoreUnavailable):
                        await store.workers()
                finally:
                    await server.execute(open_up)
                assert len(await store.enqueue([work()])) == 1
        finally:
            await server.execute(END, name)
            await server.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_server_that_may_only_be_read_is_one_that_is_away(pg_dsn: str) -> None:
    """As a standby is, until it is promoted: the same call succeeds later."""
    name = pg_dsn.rpartition("/")[2]
    async with opened(pg_dsn) as store, connected(pg_dsn) as server:
        await server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        others = (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2"
        )
        await server.execute(others, name, server.get_server_pid())
        refusals = 0
        for _ in range(3):  # the first may only find out that its connection is gone
            with pytest.raises(StoreUnavailable) as refused:
                await store.enqueue([work()])
            refusals += isinstance(refused.value, StoreReadOnly)
        assert refusals >= 1
        await server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await server.execute(others, name, server.get_server_pid())

        async def taken() -> bool:
            try:
                return len(await store.enqueue([work()])) == 1
            except StoreUnavailable:
                return False

        await until(taken, 5.0)
