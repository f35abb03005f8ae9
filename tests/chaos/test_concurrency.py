"""Many producers, many claimers, in several processes, while the logs turn all the time: what was committed
is finished, each job once, and nothing else. [C1] [C2] [C5] [C8] [K6]

This is stress, not proof: the proofs are the model in spec/ and the forced schedules in
tests/store/postgres/.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import Worker, depth_is_a_scan, fill, lasting, opened, until, waiting
from tests.chaos.ledger import Balance, read
from tests.chaos.program import Crew
from windlass.core.states import Kind, State
from windlass.store.postgres import PostgresStore
from windlass.store.records import Rotation

QUEUES = ["a", "b", "c"]
STYLES = ["single", "bulk", "transaction", "holder"]
PRODUCERS = 3
CLAIMERS = 2
TAIL = 45.0
"""Seconds within which everything must have run after the last producer has stopped."""

KINDS = (Kind.RETRY, Kind.RELEASED, Kind.SNOOZE, Kind.THROTTLED)
"""What claimers must have done besides succeeding."""
AROUND = 8
"""So many segments reclaimed say that the ring has gone round."""

ROUNDS = 2
"""How often the ring goes round while others look."""


class Upkeep:
    """What the coordinator does, all the time: turn the logs, and promote four times a second."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.turns: list[Rotation] = []
        self.over = asyncio.Event()

    @property
    def reclaimed(self) -> int:
        """How many segments have been emptied so far."""
        return sum(turn.reclaimed for turn in self.turns)

    async def turn(self) -> None:
        while not self.over.is_set():
            self.turns.append(await self.store.rotate(force=True))
            await asyncio.sleep(0.02)

    async def promote(self) -> None:
        while not self.over.is_set():
            await self.store.promote()
            await asyncio.sleep(0.25)

    async def idle(self) -> bool:
        """Nothing waits anywhere, by the counts that need no scan."""
        return not any(waiting(depth) for depth in (await self.store.depth()).values())


def telling(folder: Path, upkeep: Upkeep) -> bool:
    """Whether everything has happened that the run is about, which a loaded machine may take longer for."""
    balance = Balance(read(folder))
    return bool(balance.undone) and all(balance.kinds[kind] for kind in KINDS) and upkeep.reclaimed >= AROUND


async def run(dsn: str, folder: Path, seconds: float) -> Upkeep:
    """Producers and claimers for so long and until that tells something, and on until everything has run."""
    async with opened(dsn) as store, Crew(folder) as crew, asyncio.TaskGroup() as group:
        upkeep = Upkeep(store)
        group.create_task(upkeep.turn())
        group.create_task(upkeep.promote())
        common = {"dsn": dsn, "queues": QUEUES}
        producers = [crew.start("producer", {**common, "styles": STYLES}) for _ in range(PRODUCERS)]
        for _ in range(CLAIMERS):
            crew.start("claimer", {**common, "claimers": 2})
        ends = time.monotonic() + seconds
        while (now := time.monotonic()) < ends or (now < ends + TAIL and not telling(folder, upkeep)):
            crew.alive()
            await asyncio.sleep(0.2)
        await crew.stop(*producers)
        await until(upkeep.idle, TAIL)
        await crew.stop()
        upkeep.over.set()
    return upkeep


async def conserved(dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """The run and its books."""
    began = time.monotonic()
    upkeep = await run(dsn, folder, seconds)
    took = time.monotonic() - began
    balance = Balance(read(folder))
    balance.check()
    assert balance.undone, "no transaction was rolled back"
    assert all(balance.kinds[kind] for kind in KINDS)
    assert upkeep.reclaimed >= AROUND, f"the ring did not go round: {upkeep.turns[-1]}"
    assert not sum(turn.offered_again for turn in upkeep.turns), "rotation met rows that no claim covers"
    async with opened(dsn) as store:
        assert await Upkeep(store).idle(), "a count lives in a process and not in the store"
        await depth_is_a_scan(store, dsn)
    figure("jobs committed = finished", len(balance.committed))
    figure("jobs rolled back", len(balance.undone))
    figure("attempts", sum(balance.kinds.values()))
    figure("segments reclaimed", upkeep.reclaimed)
    figure("turns that found their segment in use", sum(turn.blocked is not None for turn in upkeep.turns))
    figure("rows moved by rotation", sum(turn.moved for turn in upkeep.turns))
    figure("attempts a second", sum(balance.kinds.values()) / took)


@pytest.mark.slow
@lasting(4.0)
async def test_committed_is_finished(pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float) -> None:
    """0 lost, 0 twice, 0 phantom, and the counts equal a scan of the view."""
    await conserved(pg_dsn, tmp_path, seconds, figure)


@pytest.mark.slow
async def test_running_jobs_are_seen_while_the_ring_turns(pg_dsn: str, figure: Figure) -> None:
    """[rule 7] A segment is reclaimed by TRUNCATE, which heeds no snapshot. Whoever looks at that moment for
    jobs that are carried to another segment must find them all the same."""
    async with opened(pg_dsn) as store, opened(pg_dsn) as other:
        upkeep = Upkeep(store)
        worker = await Worker.registered(store)
        await fill(store, 150)
        ids = {j.id for j in await worker.claim(limit=100)}
        one = min(ids)

        async def found() -> bool:
            record = await other.job(one)
            return record is not None and record.state is State.RUNNING

        async def held() -> bool:
            return {j.id for claim in await other.unfinished(worker.id) for j in claim.jobs} == ids

        async def unchanged() -> bool:
            return await other.retry([one]) == {one: "unchanged"}

        async def counted() -> bool:
            depth = (await other.depth())["default"]
            return (depth.ready, depth.running) == (50, 100)

        async def round_and_round() -> bool:
            return sum(turn.reclaimed for turn in upkeep.turns) >= ROUNDS * 8

        async def look(true: Callable[[], Awaitable[bool]]) -> int:
            looks = 0
            while not upkeep.over.is_set():
                looks += 1
                assert await true(), f"not {true.__name__} at look {looks}"
            return looks

        async with asyncio.TaskGroup() as group:
            group.create_task(upkeep.turn())
            lookers = [group.create_task(look(true)) for true in (found, held, unchanged, counted)]
            await until(round_and_round, 30.0)
            upkeep.over.set()
        figure("looks", sum(looker.result() for looker in lookers))
        figure("segments reclaimed meanwhile", sum(turn.reclaimed for turn in upkeep.turns))
        await worker.finish([j for claim in await other.unfinished(worker.id) for j in claim.jobs])
        assert len(await worker.drain()) == 50
