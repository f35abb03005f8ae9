"""[fault 6] `kill -9` PostgreSQL under load, as far as the store goes: every acknowledged job is there after
the restart and runs once, and producers and claimers go on by themselves with the stores they have. (The
worker's own part, its slots and its handlers, belongs to the worker's tests.)
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import depth_is_a_scan, opened, per_soak, sized, until, waiting
from tests.chaos.ledger import Balance, Claimed, Ended, Enqueued, Event, read
from tests.chaos.program import Crew
from tests.postgres import Server
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore

QUEUES = ["a", "b"]
BACK = 10.0
"""Seconds within which everybody must be at work again after the server is back."""


async def upkeep(store: PostgresStore, over: asyncio.Event) -> None:
    """The coordinator's part: it, too, meets the crash in the middle of whatever it does."""
    while not over.is_set():
        with contextlib.suppress(StoreUnavailable):
            await store.promote()
            await store.rotate(force=True)
        await asyncio.sleep(0.1)


async def crash(server: Server, dsn: str, folder: Path, kills: int, between: float) -> list[float]:
    """Load, a kill every so often, and on until all has run; the moments at which the server was back."""
    back: list[float] = []
    over = asyncio.Event()
    async with opened(dsn) as store, Crew(folder) as crew, asyncio.TaskGroup() as group:
        keeping = group.create_task(upkeep(store, over))
        common = {"dsn": dsn, "queues": QUEUES}
        producer = crew.start(
            "producer", {**common, "styles": ["single", "bulk"] * 3, "keyed": True, "pause": 0.005}
        )
        crew.start("claimer", {**common, "claimers": 2, "dies": 0.0})
        for _ in range(kills):
            await busy(store, between)
            await asyncio.to_thread(server.kill9)
            await asyncio.to_thread(server.start)
            back.append(time.monotonic())
        await busy(store, between)
        crew.alive()
        await crew.stop(producer)

        async def idle() -> bool:
            return not any(waiting(depth) for depth in (await store.depth()).values())

        await until(idle, 60.0, pause=0.1)
        await crew.stop()
        over.set()
        await keeping
        await depth_is_a_scan(store, dsn)
    return back


async def busy(store: PostgresStore, seconds: float) -> None:
    """Until jobs have been seen running, and then for so long."""

    async def at_work() -> bool:
        with contextlib.suppress(StoreUnavailable):
            return any(depth.running for depth in (await store.depth()).values())
        return False

    await until(at_work, 30.0, pause=0.01)
    await asyncio.sleep(seconds)


def resumed(events: Sequence[Event], back: float) -> dict[str, float]:
    """How long after the server was back each kind of work was first answered."""
    answered: dict[str, float] = {}
    for event in events:
        if isinstance(event, Enqueued | Claimed | Ended) and event.at > back:
            name = type(event).__name__.lower()
            answered[name] = min(answered.get(name, float("inf")), event.at - back)
    return answered


async def crashed(folder: Path, kills: int, between: float, figure: Figure) -> None:
    with Server(18, settings={"synchronous_commit": "on"}) as server:
        dsn = server.dsn(server.create_database())
        store = PostgresStore(dsn)
        await store.migrate()
        back = await crash(server, dsn, folder, kills, between)
    events = list(read(folder))
    balance = Balance(events)
    balance.check()
    times = [resumed(events, moment) for moment in back]
    for name in ("enqueued", "claimed", "ended"):
        figure(f"first {name} after the server was back, s, at most", max(time[name] for time in times))
        assert all(time[name] < BACK for time in times)
    figure("kills", kills)
    figure("jobs committed = finished", len(balance.committed))


@pytest.mark.slow
@sized("kills, between", (1, 1.0), (per_soak(15.0), 10.0))
async def test_postgres_killed_under_load(tmp_path: Path, figure: Figure, kills: int, between: float) -> None:
    await crashed(tmp_path, kills, between, figure)
