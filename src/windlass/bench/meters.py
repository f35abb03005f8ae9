"""What a scenario costs besides time: CPU of client and server, WAL, dead tuples. Read, never estimated.

A meter is read before and after a scenario, never while the clock runs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import msgspec

TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
LOGS: Final = ("ready", "claim", "outcome")


class Reading(msgspec.Struct, frozen=True):
    """The meters at one moment. `server` holds CPU seconds by process id; `wal` is a position in bytes."""

    client: float
    server: dict[int, float] | None = None
    wal: int | None = None


class Spent(msgspec.Struct, frozen=True):
    """The difference of two readings."""

    client: float
    server: float | None
    wal: int | None


class Meter:
    """The meters of this process, and of the server where there is one."""

    def __init__(self, connection: Any = None, application: str = "") -> None:
        """`connection` asks the server; `application` names the sessions whose CPU counts."""
        self._connection = connection
        self._application = application

    async def read(self) -> Reading:
        """Read everything now."""
        if self._connection is None:
            return Reading(time.process_time())
        wal = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        rows = await self._connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name = $1", self._application
        )
        server = {pid: cpu for row in rows if (cpu := _cpu_of(pid := row["pid"])) is not None}
        seen = bool(server) and len(server) == len(rows)
        return Reading(time.process_time(), server if seen else None, int(wal))


def spent(before: Reading, after: Reading) -> Spent:
    """What was used between two readings. A session that is new since the first counts from its start."""
    server = None
    if before.server is not None and after.server is not None:
        server = sum(cpu - before.server.get(pid, 0.0) for pid, cpu in after.server.items())
    wal = after.wal - before.wal if before.wal is not None and after.wal is not None else None
    return Spent(after.client - before.client, server, wal)


async def dead_tuples(connection: Any, schema: str) -> dict[str, int]:
    """Dead tuples in all partitions of each log, as the statistics count them.

    Sessions report on their end at the latest, so close the store first. Where the extension pgstattuple is
    installed and may be used, the pages themselves are counted, too (`ready_on_pages`, …)."""
    rows = await connection.fetch(
        "SELECT p.relname AS name, sum(s.n_dead_tup)::bigint AS dead "
        "FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent "
        "JOIN pg_stat_user_tables s ON s.relid = i.inhrelid "
        "WHERE p.relnamespace = to_regnamespace($1) AND p.relname = ANY ($2) GROUP BY 1",
        schema,
        list(LOGS),
    )
    found = {row["name"]: int(row["dead"]) for row in rows}
    counted = {log: found[log] for log in LOGS}
    function = await connection.fetchval("SELECT to_regprocedure('pgstattuple(regclass)')::oid")
    if function and await connection.fetchval("SELECT has_function_privilege($1::oid, 'execute')", function):
        for log in LOGS:
            counted[f"{log}_on_pages"] = int(
                await connection.fetchval(
                    "SELECT sum((pgstattuple(i.inhrelid::regclass)).dead_tuple_count) "
                    "FROM pg_inherits i WHERE i.inhparent = to_regclass($1)",
                    f"{schema}.{log}",
                )
            )
    return counted


def process_cpu(pid: int) -> float | None:
    """CPU seconds that a process of this machine has used, or None where it cannot be seen."""
    try:
        # The second field is the name in parentheses and may hold spaces; utime and stime are 14 and 15.
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _cpu_of(pid: int) -> float | None:
    """CPU seconds of a PostgreSQL process on this machine, or None where it cannot be seen."""
    try:
        if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres"):
            return None  # the server runs elsewhere, and the number means another process here
    except OSError:
        return None
    return process_cpu(pid)
