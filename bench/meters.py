"""What a measurement costs besides time: processor time of client and server, WAL, dead tuples, size on disk.

A meter is read before and after a measurement, never while the clock runs.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg


def family_cpu(process: psutil.Process) -> float:
    """Processor seconds of a process and all it started, those that have ended included."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def peak_memory(pid: int) -> int:
    """The most bytes of memory that a process ever had; where the system does not say, what it has now."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        # Not ru_maxrss, in which Linux also counts the process that started this one.
        lines = status.read_text("ascii", "replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return int(psutil.Process(pid).memory_info().rss)


@dataclass(frozen=True)
class Reading:
    """This process and the server at one moment. None is what cannot be read there."""

    client: float
    server: float | None
    wal: int | None = None
    dead: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Spent:
    """The difference of two readings."""

    client: float
    server: float | None
    wal: int | None


class Meter:
    """Reads a server: its processor time, and of a PostgreSQL database its WAL, dead tuples and size."""

    def __init__(self, server: psutil.Process | None = None, dsn: str | None = None) -> None:
        self._server = server
        self._dsn = dsn

    def read(self) -> Reading:
        """Read everything now."""
        server = None if self._server is None else family_cpu(self._server)
        if self._dsn is None:
            return Reading(time.process_time(), server)
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute(
                "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,"
                " (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables),"
                " pg_database_size(current_database())"
            ).fetchone()
        assert row is not None
        return Reading(time.process_time(), server, *row)


def spent(before: Reading, after: Reading) -> Spent:
    """What was used between two readings."""
    server = None if before.server is None or after.server is None else after.server - before.server
    wal = None if before.wal is None or after.wal is None else after.wal - before.wal
    return Spent(after.client - before.client, server, wal)
