"""Measures: what processes report, its rollup into the rows of charts [M1], timelines [M2], what jobs died of
[O4], how the file is doing, and what an operator should know of it.

To report is a row of samples, a row per event and the reporter's own: a few inserts every two seconds. All
that takes thought is left to the rollup, which one process does for everybody.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, defaultdict
from typing import Any, Final

import apsw
from msgspec.structs import astuple

from windlass.core.read_errors import READ_ERRORS
from windlass.core.rollup import (
    EVER,
    Sample,
    roll,
)
from windlass.store import findings, records
from windlass.store.causes import Death, by_cause
from windlass.store.measures import (
    EVENTS_KEPT,
    MAX_EVENTS,
    REPORTERS_KEPT,
    REPORTS_COUNTED,
    STEP,
    cutoffs,
    kept,
    pack,
    read_report,
    unpack,
)
from windlass.store.sqlite import moving, schema
from windlass.store.sqlite.cluster import serving
from windlass.store.sqlite.connections.connection import CHECKPOINT_PAGES, is_safe, needed
from windlass.store.sqlite.durable import groups
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import ENDS, encode, failures, fetch, named
from windlass.store.sqlite.schema import Statements
from windlass.store.sqlite.workers import elsewhere

_SQL = Statements("measures")

logger: Final = logging.getLogger("windlass.store")


def report(tx: Transaction, source: int, number: int, report: records.Report) -> float:
    """Accept the report of one process, unless it was accepted before."""
    last = tx.one(_SQL["last_report"], (source,))
    if last is not None and number <= last[0]:
        return tx.now
    vitals = encode(report.vitals).decode() if report.vitals is not None else None
    tx.run(_SQL["keep_reporter"], (source, number, tx.now, vitals, tx.now if vitals is not None else None))
    if report.samples:
        tx.run(_SQL["add_report"], (encode(report.samples).decode(),))
    tx.many(_SQL["add_event"], (astuple(kept(event, tx.now)) for event in report.events))
    return tx.now


def rollup(tx: Transaction, limit: int = 1000) -> records.Rolled:
    """Fold the oldest reports into the rows, forget them, and remove what has outlived its time. One
    transaction: who asks again finds nothing left to fold."""
    folded, rows = _fold_reports(tx, min(limit, STEP))
    removed = _tidy(tx, limit)
    more = bool(tx.connection.execute(_SQL["any_report"]).get) or removed >= limit
    return records.Rolled(folded, rows, removed, more)


def _fold_reports(tx: Transaction, limit: int) -> tuple[int, int]:
    batches = tx.all(_SQL["oldest_reports"], (limit,))
    if not batches:
        return 0, 0
    rows = roll(sample for _, text in batches for sample in read_report(text))
    for (span, at, queue, task), sample in rows.items():
        key = (span, queue, task, at)
        _add(sample, tx.one(_SQL["rollup_row"], key), key)
        tx.run(_SQL["write_rollup"], (*key, pack(sample)))
    tx.run(_SQL["forget_reports"], (batches[-1][0],))
    return len(batches), len(rows)


def _add(row: Sample, found: Any, key: tuple[int, str, str, int]) -> None:
    """Add to a row what it has counted so far, if there is any and it can be read."""
    _, queue, task, at = key
    try:
        if found is not None:
            row.add(unpack(found[0], at, queue, task))
    except READ_ERRORS as error:
        logger.warning("the measures of %s cannot be read and start again from zero: %s", key, error)


def _tidy(tx: Transaction, limit: int) -> int:
    """Remove rows, events and reporters, so many of each at most; how many rows and events that were."""
    removed = sum(tx.run(_SQL["remove_rollups"], (span, end, limit)) for span, end in cutoffs(tx.now).items())
    removed += tx.run(_SQL["remove_events"], (tx.now - EVENTS_KEPT, MAX_EVENTS, limit))
    tx.run(_SQL["remove_reporters"], (tx.now - REPORTERS_KEPT, limit))
    return removed


# -- charts, timelines and causes of death -------------------------------------------------------------------

_LAST: Final = (1 << 63) - 1


def measured(
    connection: apsw.Connection, span: int, since: float, until: float, *, queue: str = "", task: str = ""
) -> list[Sample]:
    """The rows of a span that begin between two times."""
    found = fetch(connection, _SQL["measured"], (span, queue, task, since, until))
    return [unpack(*row) for row in found]


def totals(connection: apsw.Connection) -> list[Sample]:
    """The rows of all time."""
    return [unpack(*row) for row in fetch(connection, _SQL["totals"])]


def ended(connection: apsw.Connection) -> list[Sample]:
    """Return the counts of ended jobs, by task and queue [M7]."""
    counts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for queue, task, state, n in fetch(connection, _SQL["ended"]):
        counts[queue, task][ENDS[state]] = n
    return [Sample(at=0, queue=queue, task=task, counts=each) for (queue, task), each in counts.items()]


def count_ends(tx: Transaction, limit: int = 1000) -> records.Counted:
    """Nothing is left to count: who ends a job counts it."""
    return records.Counted()


def recount(tx: Transaction) -> list[records.Miscount]:
    """Count ended jobs that were not counted. There may be fewer than were: retention removes them."""
    wrong = tx.all(_SQL["miscounts"])
    tx.many(_SQL["correct_count"], ((queue, task, state, found) for queue, task, state, _, found in wrong))
    return [records.Miscount(queue, task, ENDS[state], *both) for queue, task, state, *both in wrong]


def events(
    connection: apsw.Connection,
    *,
    job: int | None = None,
    queue: str | None = None,
    limit: int = 100,
    before: int | None = None,
) -> list[records.EventRecord]:
    """Events, the latest first."""
    end = _LAST if before is None else min(before, _LAST)
    if job is not None:
        found = named(connection, _SQL["events_of_job"], (job, end, queue, limit))
    elif queue is not None:
        found = named(connection, _SQL["events_of_queue"], (queue, end, limit))
    else:
        found = named(connection, _SQL["events"], (end, limit))
    return [records.EventRecord(**row) for row in found]  # whose kind a newer version may have made


def causes(
    connection: apsw.Connection,
    *,
    queue: str | None = None,
    task: str | None = None,
    since: float | None = None,
    limit: int = 10_000,
) -> records.Causes:
    """The newest dead jobs by what they died of. Failures are read only of the latest of each group."""
    name, bindings = ("dead", (limit + 1,)) if queue is None else ("dead_of_queue", (queue, limit + 1))
    deaths: list[Death] = []
    looked, more = 0, False
    for pos, mine, at, error in connection.execute(_SQL[name], bindings):
        if looked == limit:
            more = True
            break
        looked += 1
        if task in (None, mine) and (since is None or at >= since):
            deaths.append(Death(mine, error or "", at, pos))
    return records.Causes(by_cause(deaths, lambda pos: _last_words(connection, pos)), looked, more)


def _last_words(connection: apsw.Connection, pos: int) -> str:
    """Return the message of a job's last failure, or the reason it died of."""
    ((errors, reason),) = fetch(connection, _SQL["last_words"], (pos,))
    kept = failures(errors)
    return kept[-1].message if kept else reason or ""


# -- the file ------------------------------------------------------------------------------------------------

SMALL: Final = 64 * 1024 * 1024
"""Up to this size of the file the tables are told apart: SQLite keeps no statistics of them, and to ask for
their sizes is to read every page."""


def health(connection: apsw.Connection, lock_waits: int) -> records.Health:
    """Return the health of the file."""
    size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    return records.Health(
        store=f"SQLite {apsw.sqlite_lib_version()}",
        bytes=size,
        tables=_tables(connection) if size <= SMALL else (),
        wal_file=_size_of(f"{connection.filename}-wal"),
        lock_waits=lock_waits,
        coordinator_until=connection.execute(_SQL["term"]).get or None,
        reports=connection.execute(_SQL["count_reports"], (REPORTS_COUNTED,)).get,
    )


def _tables(connection: apsw.Connection) -> tuple[records.Table, ...]:
    if "ENABLE_DBSTAT_VTAB" not in apsw.compile_options:
        return ()
    return tuple(
        records.Table(name=name.removeprefix("windlass_"), bytes=size)
        for name, size in fetch(connection, _SQL["sizes"])
    )


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def task_depths(connection: apsw.Connection, most: int = 100_000) -> list[records.TaskDepth]:
    """How many jobs of each task are ready, in lanes and aside, by queue."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    estimated: set[str] = set()
    aside: Counter[str] = Counter()
    for lane, queue, ready, held, cursor, end in fetch(connection, _SQL["lanes_with_ready"]):
        counts[queue].update(dict(fetch(connection, _SQL["in_lane"], (cursor, end, most))))
        room = most - aside[queue]
        counts[queue].update(dict(fetch(connection, _SQL["aside"], (lane, room))))
        aside[queue] += min(held, room)
        if ready > most or held > room:
            estimated.add(queue)
    return [
        records.TaskDepth(queue=queue, task=task, ready=n, estimate=queue in estimated)
        for queue, mine in sorted(counts.items())
        for task, n in sorted(mine.items())
    ]


# -- for `windlass doctor` -----------------------------------------------------------------------------------

MEGABYTE = 1024 * 1024


def diagnose(connection: apsw.Connection, now: float) -> list[records.Finding]:
    """Look at the library, the file, its queues and its workers. The WAL cannot be asked for once something
    was read, so the file comes before the rest."""
    version = apsw.sqlite_lib_version()
    return [
        _library(version),
        records.Finding(name="schema", text=f"version {schema.VERSION}, the one this Windlass works with"),
        _file(connection, version),
        *_moved(connection),
        *findings.unserved(_unserved_queues(connection, now)),
        *findings.over(fetch(connection, _SQL["over_budgets"])),
        *findings.circles(groups.circles(connection)),
        _counts(connection),
        _same_machine(connection, now),
    ]


def _library(version: str) -> records.Finding:
    if is_safe(version):
        return records.Finding(name="sqlite", text=f"SQLite {version}")
    return findings.error(
        "sqlite",
        f"SQLite {version} can corrupt a file in WAL mode that several processes write",
        f"Windlass needs {needed()} or newer, which the apsw wheel brings along: "
        "pip install --upgrade --force-reinstall apsw",
    )


def _file(connection: apsw.Connection, version: str) -> records.Finding:
    """The sizes, and whether the WAL shrinks. It is copied into the file every CHECKPOINT_PAGES; where much
    more than that is waiting, somebody reads in a snapshot that needs it."""
    path = connection.filename
    message = f"{_megabytes(path)}, and {_megabytes(f'{path}-wal')} in its WAL"
    _, frames, copied = fetch(connection, _SQL["wal"])[0] if is_safe(version) else (0, 0, 0)
    if frames - copied <= 2 * CHECKPOINT_PAGES:
        return records.Finding(name="file", text=message)
    return findings.warning(
        "file",
        f"{message}, which a long read transaction keeps from shrinking",
        "end it: look for a program or a shell that has read from this file and not ended its transaction",
    )


def _moved(connection: apsw.Connection) -> list[records.Finding]:
    """Return whether its jobs were copied elsewhere, as those who still bring some are told."""
    if (why := moving.why_closed(connection)) is None:
        return []
    text, _, advice = why.partition(": " if ": " in why else "; ")
    return [findings.warning("moved", f"this file takes no jobs and no workers: {text}", advice)]


def _megabytes(path: str) -> str:
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return f"{size / MEGABYTE:.1f} MB"


def _counts(connection: apsw.Connection) -> records.Finding:
    reported = measured(connection, EVER, 0, 1)
    ended = connection.execute(_SQL["succeeded"]).get
    return findings.counts(ended, sum(row.counts.get("succeeded", 0) for row in reported))


def _unserved_queues(connection: apsw.Connection, now: float) -> list[tuple[str, int]]:
    """Queues with work that nobody does [K1]. A paused one is meant to stand still."""
    served = serving(fetch(connection, _SQL["live_workers"], (now,)))
    return [(queue, n) for queue, n in fetch(connection, _SQL["ready_by_queue"]) if queue not in served]


def _same_machine(connection: apsw.Connection, now: float) -> records.Finding:
    other = elsewhere(connection, now)
    if other is None:
        return records.Finding(name="machine", text="all live workers run on this machine")
    host, label = other
    return findings.error(
        "machine",
        f"worker {label or '?'} on host {host or 'unknown'} uses this file, and this is another machine",
        "stop the workers there, or use PostgreSQL: SQLite serves the processes of one machine only",
    )
