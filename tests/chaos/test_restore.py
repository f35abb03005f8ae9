"""[fault 24] pg_dump while jobs run, pg_restore into another cluster. In the copy nothing is lost and nothing
runs twice, relative to the moment of the dump; claims go on; workers of the original have no say there
[rule 15].

The dump uses a snapshot that the test has exported, so its moment is known: what was acknowledged before it
is in the copy, what was sent after it is not, and what was under way may be either.
"""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import Worker, connected, depth_is_a_scan, fill, job, opened, sized, until, waiting
from tests.chaos.ledger import Balance, Ended, Enqueued, Event, read
from tests.chaos.program import Crew
from tests.postgres import Server
from windlass.core.states import TERMINAL
from windlass.errors import WorkerLost
from windlass.store.postgres import PostgresStore

QUEUES = ["a", "b"]


class Moment(msgspec.Struct):
    """When the snapshot was taken: after `after` and before `before`, on the ledger's clock."""

    after: float
    before: float


async def run(server: Server, program: str, *arguments: str) -> None:
    """Run one of the server's own programs; one that fails fails the test."""
    process = await asyncio.create_subprocess_exec(server.bin_dir / program, *arguments)
    assert await process.wait() == 0, f"{program} failed"


async def dump(server: Server, dsn: str, path: Path) -> Moment:
    """Dump the database as it is at one moment."""
    async with (
        connected(dsn) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        after = time.monotonic()
        snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
        moment = Moment(after, time.monotonic())
        await run(server, "pg_dump", "-Fc", f"--snapshot={snapshot}", "-f", str(path), dsn)
    return moment


async def restore(server: Server, path: Path) -> str:
    """Restore the dump into a new database of this server, and return its DSN."""
    dsn = server.dsn(server.create_database())
    await run(server, "pg_restore", "--exit-on-error", "-d", dsn, str(path))
    return dsn


async def busy_dump(server: Server, dsn: str, folder: Path, seconds: float) -> Moment:
    """Dump in the middle of a run, then let the run end in good order."""
    async with opened(dsn) as store, Crew(folder) as crew:
        common = {"dsn": dsn, "queues": QUEUES}
        producer = crew.start(
            "producer", {**common, "styles": ["single", "bulk", "bulk", "transaction", "holder"]}
        )
        crew.start("claimer", {**common, "claimers": 2})
        ends = time.monotonic() + seconds

        async def promoted() -> bool:
            await store.promote()
            return time.monotonic() > ends and any(isinstance(event, Ended) for event in read(folder))

        await until(promoted, seconds + 30, pause=0.25)
        dumping = asyncio.create_task(dump(server, dsn, folder / "copy.dump"))
        ends = time.monotonic() + 1.0
        await until(promoted, 30, pause=0.25)
        moment = await dumping
        crew.alive()
        await crew.stop(producer)

        async def idle() -> bool:
            await store.promote()
            return not any(waiting(depth) for depth in (await store.depth(QUEUES)).values())

        await until(idle, 45, pause=0.25)
    return moment


def expected(events: Iterable[Event], moment: Moment) -> tuple[set[int], set[int]]:
    """The jobs that must run in the copy, and those that must not, by what their producers knew."""
    there: set[int] = set()
    over: set[int] = set()
    maybe_over: set[int] = set()
    for event in events:
        if isinstance(event, Enqueued) and event.at < moment.after:
            there.update(event.ids)
        elif isinstance(event, Ended):
            ended = {id for id, kind in event.jobs if kind in TERMINAL}
            if event.at < moment.after:
                over |= ended
            if event.sent < moment.before:
                maybe_over |= ended
    return there - maybe_over, over


async def run_copy(copy: str, figure: Figure) -> list[int]:
    """Open the copy, run all that is left in it, and then some more."""
    async with connected(copy) as connection:
        strangers = [
            r["id"] for r in await connection.fetch("SELECT id FROM windlass.worker_life WHERE alive")
        ]
    assert strangers, "no worker was alive in the dump"
    async with opened(copy) as store:
        worker = await Worker.registered(store)
        await refused(store, strangers[0])
        began = time.monotonic()
        ran = await worker.drain(*QUEUES)
        figure("jobs that ran in the copy", len(ran))
        figure("seconds to run them", time.monotonic() - began)
        fresh = await fill(store, 200, queue="a")
        assert await worker.drain(*QUEUES) == fresh
        assert (await store.rotate(force=True)).reclaimed
        await depth_is_a_scan(store, copy)
    return ran


async def refused(store: PostgresStore, stranger: int) -> None:
    """A worker of the original is not alive in the copy."""
    await store.enqueue([job(queue="other")])
    with pytest.raises(WorkerLost):
        await store.claim(stranger, ["other"], 1)


async def restored(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    moment = await busy_dump(server, dsn, folder, seconds)
    events = list(read(folder))
    balance = Balance(events)
    balance.check()
    must, must_not = expected(events, moment)
    with Server(18, fsync=False) as other:
        ran = await run_copy(await restore(other, folder / "copy.dump"), figure)
    assert len(set(ran)) == len(ran), "twice in the copy"
    assert not must - set(ran), f"lost in the copy: {len(must - set(ran))} of {len(must)}"
    assert not set(ran) & must_not, "ended before the dump, and ran again in the copy"
    assert set(ran) <= balance.committed, "nobody was told of these"
    figure("jobs waiting or running in the dump", len(must))
    figure("jobs over before the dump", len(must_not))
    assert must
    assert must_not


@pytest.mark.slow
@sized("seconds", (2.0,), (120.0,))
async def test_a_dump_taken_while_jobs_run(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    await restored(pg_server, pg_dsn, tmp_path, seconds, figure)
