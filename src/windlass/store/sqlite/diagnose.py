"""What an operator should know about a file, for `windlass doctor`. Nothing here writes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw

from windlass.store.budgets import FITS, over
from windlass.store.records import Finding
from windlass.store.sqlite import schema
from windlass.store.sqlite.cluster import serving
from windlass.store.sqlite.connection import CHECKPOINT_PAGES, is_safe, needed
from windlass.store.sqlite.machine import Machine
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.workers import elsewhere

_SQL = Statements("diagnose")
MEGABYTE = 1024 * 1024


def diagnose(connection: apsw.Connection, now: float, machine: Machine, version: str) -> list[Finding]:
    """Look at the library, the file, its queues and its workers. The WAL cannot be asked for once something
    was read, so the file comes before the rest."""
    return [
        _library(version),
        Finding(name="schema", told=f"version {schema.VERSION}, the one this Windlass works with"),
        _file(connection, version),
        *_queues(connection, now),
        *([over(*found) for found in fetch(connection, _SQL["over"])] or [FITS]),
        _machine(connection, now, machine),
    ]


def _library(version: str) -> Finding:
    if is_safe(version):
        return Finding(name="sqlite", told=f"SQLite {version}")
    return Finding(
        name="sqlite",
        level="error",
        told=f"SQLite {version} can corrupt a file in WAL mode that several processes write",
        advice=f"Windlass needs {needed()} or newer, which the apsw wheel brings along: "
        "pip install --upgrade --force-reinstall apsw",
    )


def _file(connection: apsw.Connection, version: str) -> Finding:
    """The sizes, and whether the WAL shrinks. It is copied into the file every CHECKPOINT_PAGES; where much
    more than that is waiting, somebody reads in a snapshot that needs it."""
    path = connection.filename
    told = f"{_megabytes(path)}, and {_megabytes(f'{path}-wal')} in its WAL"
    _, frames, copied = fetch(connection, _SQL["wal"])[0] if is_safe(version) else (0, 0, 0)
    if frames - copied <= 2 * CHECKPOINT_PAGES:
        return Finding(name="file", told=told)
    return Finding(
        name="file",
        level="warning",
        told=f"{told}, which a long read transaction keeps from shrinking",
        advice="end it: look for a program or a shell that has read from this file and not ended its "
        "transaction",
    )


def _megabytes(path: str) -> str:
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return f"{size / MEGABYTE:.1f} MB"


def _queues(connection: apsw.Connection, now: float) -> Iterator[Finding]:
    """Queues with work that nobody does [K1]. A paused one is meant to stand still."""
    served = serving(fetch(connection, _SQL["live"], (now,)))
    unserved = [(queue, n) for queue, n in fetch(connection, _SQL["waiting"]) if queue not in served]
    for queue, ready in unserved:
        yield Finding(
            name="queues",
            level="warning",
            told=f"{ready} ready jobs in queue {queue}, and no live worker serves it",
            advice=f"windlass worker myapp:app -q {queue}",
        )
    if not unserved:
        yield Finding(name="queues", told="every queue with ready jobs is served")


def _machine(connection: apsw.Connection, now: float, machine: Machine) -> Finding:
    other = elsewhere(connection, machine, now)
    if other is None:
        return Finding(name="machine", told="all live workers run on this machine")
    host, label = other
    return Finding(
        name="machine",
        level="error",
        told=f"worker {label or '?'} on host {host or 'unknown'} uses this file, and this is another machine",
        advice="stop the workers there, or use PostgreSQL: SQLite serves the processes of one machine only",
    )
