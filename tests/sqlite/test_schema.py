"""The schema's version and SQLite's: a newer schema and an older library are both told."""

import asyncio
import threading
import time
import warnings
from pathlib import Path

import apsw
import pytest

from tests.sqlite.invariants import check
from tests.sqlite.kit import drain, foreign, job, opened
from windlass.core.retry import DeathPolicy
from windlass.core.rollup import Sample
from windlass.errors import SchemaTooNew
from windlass.store.measures import News, Vitals
from windlass.store.records import Migration, QueueRecord, Rescued, TaskRecord
from windlass.store.sqlite import SQLiteStore, schema
from windlass.store.sqlite.connection import check_version, connect
from windlass.store.sqlite.schema import VERSION


async def test_opening_migrates(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SQLiteStore(path)
    assert await store.migrate() == Migration(0, VERSION)
    assert await store.migrate() == Migration(VERSION, VERSION)
    async with opened(path) as again:
        assert await again.migrate() == Migration(VERSION, VERSION)


async def test_a_file_of_the_first_version_goes_on(tmp_path: Path) -> None:
    """What was in it stays: a queue's settings, a live worker, a job that runs; the new settings are those
    of a new queue."""
    path = tmp_path / "w.db"
    old = connect(str(path), 10)
    old.execute(dict(schema.MIGRATIONS)[1])
    old.execute("CREATE TABLE windlass_schema (only INTEGER PRIMARY KEY, version INTEGER)")
    old.execute("INSERT INTO windlass_schema VALUES (1, 1)")
    old.execute("INSERT INTO windlass_queue VALUES ('default', 1, 4, NULL, 60.0, 9)")
    old.execute(
        "INSERT INTO windlass_worker VALUES (7, 'w', 'here', 1, '[\"default\"]', 'm', 'b', 1, 3, 5.0, 5.0)"
    )
    old.close()
    async with opened(path) as store:
        (queue,) = await store.queues()
        assert queue == QueueRecord(name="default", paused=True, max_workers=4, dead_retention=60.0, window=9)
        assert [(worker.id, worker.beat, worker.lease) for worker in await store.workers()] == [(7, 3, 30.0)]
        assert await store.lead(1, 30) == 1
    check(path)


async def test_a_file_of_the_second_version_goes_on(tmp_path: Path) -> None:
    """Its jobs are claimed and finished, those that ran are rescued, and the dead can be brought back."""
    path = tmp_path / "w.db"
    old = connect(str(path), 10)
    for number in (1, 2):
        old.execute(dict(schema.MIGRATIONS)[number])
    old.execute("CREATE TABLE windlass_schema (only INTEGER PRIMARY KEY, version INTEGER)")
    old.execute("INSERT INTO windlass_schema VALUES (1, 2)")
    old.execute("INSERT INTO windlass_queue (name, dead_retention, window) VALUES ('default', 60.0, 9)")
    lane = "(id, queue, priority, seq, hi, ready, running, scheduled, dead)"
    old.execute(f"INSERT INTO windlass_lane {lane} VALUES (1, 'default', 2, 4, 3, 1, 1, 1, 1)")
    old.execute("UPDATE windlass_lane SET seq = 1 WHERE id = 0")
    old.execute(
        "INSERT INTO windlass_worker"
        " (id, label, host, pid, queues, machine, boot, alive, started_at, beat_at)"
        " VALUES (7, 'w', 'here', 1, '[\"default\"]', 'm', 'b', 1, 5.0, 5.0)"
    )
    base, dead, runs, ready, later = 1 << 44, 5, 3, 2, 7
    states = [(base + 2, dead, None), (base + 3, runs, '{"unique_key":"k"}'), (base + 4, ready, None)]
    for number, (pos, state, options) in enumerate([*states, (1, later, None)], 1):
        old.execute(
            "INSERT INTO windlass_job (pos, lane, state, touched_at, enqueued_at, number, attempt, deaths,"
            " task, payload, options, run_at) VALUES (?, 1, ?, 5, 5, ?, 1, 0, 't', '{}', ?, ?)",
            (pos, state, number, options, 5.0 if state == later else None),
        )
        old.execute("INSERT INTO windlass_birth (number, lo, n, at) VALUES (?, ?, 1, 5)", (number, pos))
    claim = "(id, lane, lo, hi, worker, unfinished, at)"
    old.execute(f"INSERT INTO windlass_claim {claim} VALUES (1, 1, 2, 3, 7, 1, 5)")
    old.execute("INSERT INTO windlass_unique (key, job) VALUES ('k', ?)", (base + 3,))
    old.execute("INSERT INTO windlass_checkpoint (job, data, at) VALUES (?, '{}', 5)", (base + 3,))
    old.close()
    async with opened(path) as store:
        check(path)
        assert await store.rescue(7, 0, DeathPolicy()) == Rescued(offered=1)
        await store.promote()
        assert await store.retry([base + 2]) == {base + 2: "retried"}
        (receipt,) = await store.enqueue([job(after=(base + 3,))])
        assert {claimed.id for claimed in await drain(store, 1)} == {base + n for n in (2, 3, 4)} | {1}
        await store.promote()
        assert [claimed.id for claimed in await drain(store, 2)] == [receipt.id]
    check(path)


async def test_a_file_of_the_third_version_goes_on(tmp_path: Path) -> None:
    """A job that waits for the turn of its fair key gets it, and settings are kept. Keys that jobs had before
    there were gates do no harm: who is in his lane or the ring goes on, who comes due passes his gates."""
    path = tmp_path / "w.db"
    old = connect(str(path), 10)
    for number in (1, 2, 3):
        old.execute(dict(schema.MIGRATIONS)[number])
    old.execute("CREATE TABLE windlass_schema (only INTEGER PRIMARY KEY, version INTEGER)")
    old.execute("INSERT INTO windlass_schema VALUES (1, 3)")
    old.execute("INSERT INTO windlass_queue (name, dead_retention, window) VALUES ('default', 60.0, 9)")
    old.execute("INSERT INTO windlass_task (name, batch) VALUES ('t', 7)")
    lane = "(id, queue, priority, seq, ready, held, scheduled)"
    old.execute(f"INSERT INTO windlass_lane {lane} VALUES (1, 'default', 2, 2, 2, 1, 2)")
    old.execute("UPDATE windlass_lane SET seq = 3 WHERE id = 0")
    base, ready, later, held = 1 << 44, 2, 7, 9
    keys = '"ordering_key":"o","concurrency_key":"c"'
    jobs = [(1, held, f'{{"fair_key":"f",{keys}}}')]
    jobs += [(pos, ready if pos > base else later, f"{{{keys}}}") for pos in (2, 3, base + 1, base + 2)]
    for number, (pos, state, options) in enumerate(jobs, 1):
        old.execute(
            "INSERT INTO windlass_job (pos, lane, state, touched_at, enqueued_at, number, attempt, deaths,"
            " task, payload, options, fair_key, run_at)"
            " VALUES (?, 1, ?, 5, 5, ?, 1, 0, 't', '{}', ?, ?, ?)",
            (pos, state, number, options, "f" if state == held else None, 5.0 if state == later else None),
        )
        old.execute("INSERT INTO windlass_birth (number, lo, n, at) VALUES (?, ?, 1, 5)", (number, pos))
    old.close()
    async with opened(path) as store:
        check(path)
        assert await store.tasks() == [TaskRecord(name="t", batch=7)]
        assert await store.queues() == [QueueRecord(name="default", dead_retention=60.0, window=9)]
        promoted = await store.promote()
        assert (promoted.due, promoted.admitted) == (2, 1)
        check(path)
        assert {claimed.id for claimed in await drain(store, 1)} == {1, 2, 3, base + 1, base + 2}
        assert [mark.position for mark in await store.watermarks("default")] == [2]
    check(path)


async def test_a_file_of_the_fourth_version_goes_on(tmp_path: Path) -> None:
    """[M1] A worker that was alive has told nothing yet, what was offered before counts, measures begin."""
    path = tmp_path / "w.db"
    old = connect(str(path), 10)
    for number in (1, 2, 3, 4):
        old.execute(dict(schema.MIGRATIONS)[number])
    old.execute("CREATE TABLE windlass_schema (only INTEGER PRIMARY KEY, version INTEGER)")
    old.execute("INSERT INTO windlass_schema VALUES (1, 4)")
    old.execute("INSERT INTO windlass_queue (name, dead_retention, window) VALUES ('default', 60.0, 9)")
    old.execute("INSERT INTO windlass_lane (id, queue, priority, seq, hi) VALUES (1, 'default', 2, 5, 5)")
    old.execute(
        "INSERT INTO windlass_worker"
        " (id, label, host, pid, queues, machine, boot, alive, started_at, beat_at)"
        " VALUES (7, 'w', 'here', 1, '[]', 'm', 'b', 1, 5.0, 5.0)"
    )
    old.close()
    async with opened(path) as store:
        await store.enqueue([job()])
        assert (await store.depth())["default"].offered == 6
        assert [worker.vitals for worker in await store.workers()] == [None]
        await store.tell(7, 1, News(samples=[Sample(at=60, counts={"lost": 1})], vitals=Vitals(slots=2)))
        assert (await store.rollup()).folded == 1
        assert [row.counts for row in await store.totals()] == [{"lost": 1}]
        assert [worker.vitals for worker in await store.workers()] == [Vitals(slots=2)]
    check(path)


async def test_two_migrations_at_once_are_one(tmp_path: Path) -> None:
    """The second has found no schema, waits for the lock of the first, and must look again when it has it."""
    path = tmp_path / "w.db"
    first, second = connect(str(path), 10), connect(str(path), 10)
    waits = threading.Event()

    def busy(_: int) -> bool:
        waits.set()
        time.sleep(0.001)
        return True

    second.set_busy_handler(busy)
    first.execute("BEGIN IMMEDIATE")
    late = asyncio.create_task(asyncio.to_thread(schema.migrate, second))
    assert await asyncio.to_thread(waits.wait, 10)
    for _, script in schema.MIGRATIONS:
        first.execute(script)
    first.execute("CREATE TABLE windlass_schema (only INTEGER PRIMARY KEY, version INTEGER)")
    first.execute("INSERT INTO windlass_schema VALUES (1, ?)", (VERSION,))
    first.execute("COMMIT")
    assert await late == Migration(VERSION, VERSION)
    first.close()
    second.close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job()])
    other = foreign(path)
    other.execute("UPDATE windlass_schema SET version = ?", (VERSION + 1,))
    for attempt in (SQLiteStore(path).migrate, SQLiteStore(path).open):
        with pytest.raises(SchemaTooNew, match="upgrade Windlass"):
            await attempt()
    assert other.execute("SELECT count(*) FROM windlass_job").get == 1
    other.close()


async def test_the_tables_live_beside_an_applications_own(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    other = foreign(path)
    other.execute("CREATE TABLE job (id INTEGER PRIMARY KEY); PRAGMA user_version = 77")
    async with opened(path) as store:
        await store.enqueue([job()])
    assert other.pragma("user_version") == 77
    tables = other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert {str(name) for (name,) in tables if not str(name).startswith(("windlass_", "sqlite_"))} == {"job"}
    other.close()
    check(path)


async def test_every_commit_is_synced_and_logged_ahead(tmp_path: Path) -> None:
    async with opened(tmp_path / "w.db") as store:
        names = ("journal_mode", "synchronous")
        found = await store._write(lambda tx: [tx.connection.pragma(name) for name in names])
        assert found == ["wal", 2]


def test_an_old_sqlite_is_warned_about() -> None:
    for old in ("3.45.1", "3.51.2", "3.7"):
        with pytest.warns(RuntimeWarning, match=f"SQLite {old}.*pip install"):
            check_version(old)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version("3.51.3")
        check_version("3.54.0")
        check_version(apsw.sqlite_lib_version())
