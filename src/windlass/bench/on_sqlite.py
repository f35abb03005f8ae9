"""The run on SQLite: a file of its own in a temporary directory, removed at the end. No references here."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from windlass.bench.figures import StoreReport, Taken, at_least, ratio
from windlass.bench.meters import Meter
from windlass.bench.plan import Plan
from windlass.bench.rounds import Progress, Rounds, Step
from windlass.bench.scenarios import Subject
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.connection import connect


async def measure(directory: Path | None, plan: Plan, until: float, progress: Progress) -> StoreReport:
    """Measure a new file below `directory` (None: the system's temporary directory)."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=directory) as home:
        path = Path(home) / "bench.db"
        store = SQLiteStore(path)
        try:
            progress("preparing")
            await store.migrate()
            await store.open()
            subject = Subject(store, plan)
            await subject.begin()
            rounds = await _rounds(path, subject, plan, until, progress)
            await subject.end()
        finally:
            await store.close()
        pinned = ratio(rounds.rates("both_at_once_pinned"), rounds.rates("both_at_once"))
        rates = rounds.figures()
        return StoreReport(
            store="sqlite",
            place="a temporary file" if directory is None else "a temporary file beside the one named",
            versions={"sqlite": apsw.sqlite_lib_version(), "apsw": apsw.apsw_version()},
            settings=_settings(path),
            rounds=rounds.done,
            seconds=round(time.monotonic() - began, 1),
            rates=rates,
            ratios={"pinned_vs_unpinned": pinned},
            cpu_per_1000_jobs=rounds.cpu(),
            notes=rounds.notes(),
            aims=[at_least("claim_finish", rates["claim_finish"].median, 50_000)],
        )


async def _rounds(path: Path, subject: Subject, plan: Plan, until: float, progress: Progress) -> Rounds:
    rounds = Rounds(plan, {"": Meter()}, until, progress)

    async def pinned() -> Taken:
        with _pinned_snapshot(path):
            return await subject.both_at_once()

    groups = [
        {"bulk_enqueue": Step(subject.bulk_enqueue)},
        {"claim_finish": Step(subject.claim_finish)},
        {"single_enqueue": Step(subject.single_enqueue)},
        {"both_at_once": Step(subject.both_at_once), "both_at_once_pinned": Step(pinned)},
    ]
    await rounds.run(groups, after_each=subject.drain)
    return rounds


@contextmanager
def _pinned_snapshot(path: Path) -> Iterator[None]:
    """A reader that stays in its transaction: the write-ahead log cannot start over while it does."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        yield
        connection.execute("COMMIT")
    finally:
        connection.close()


def _settings(path: Path) -> dict[str, str]:
    """What a connection of the store is set to."""
    connection = connect(str(path), 10.0)
    try:
        names = ("journal_mode", "synchronous", "page_size", "cache_size", "wal_autocheckpoint")
        return {name: str(connection.pragma(name)) for name in names}
    finally:
        connection.close()
