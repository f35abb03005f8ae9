"""What a measurement costs: processor time of a family of processes, WAL, dead tuples, size on disk."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Reading:
    """The server at one moment. None is what cannot be read there."""

    cpu: float
    wal: int | None = None
    dead: int | None = None
    size: int | None = None


class Meter:
    """Reads a server: its processor time, and of a PostgreSQL database its WAL, dead tuples and size."""

    def __init__(self, server: psutil.Process | None, dsn: str | None = None) -> None:
        self._server = server
        self._dsn = dsn

    def read(self) -> Reading:
        """Read everything now."""
        cpu = 0.0 if self._server is None else family_cpu(self._server)
        if self._dsn is None:
            return Reading(cpu)
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute(
                "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,"
                " (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables),"
                " pg_database_size(current_database())"
            ).fetchone()
        assert row is not None
        return Reading(cpu, *row)
