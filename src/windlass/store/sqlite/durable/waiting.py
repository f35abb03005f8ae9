"""Waits of jobs, on SQLite. Reads only [W2]."""

from __future__ import annotations

import apsw

from windlass.store import signal_rules
from windlass.store.records import WaitRecord
from windlass.store.sqlite.rows import fetch, named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("signals")


def reason(connection: apsw.Connection, job: int) -> str | None:
    """Say in words what a scheduled job waits for."""
    return signal_rules.reason(fetch(connection, _SQL["of_job"], (job,)))


def waits(
    connection: apsw.Connection,
    limit: int = 100,
    *,
    before: int | None = None,
    job: int | None = None,
    signal: str | None = None,
) -> list[WaitRecord]:
    """See Store.waits."""
    found = named(connection, _SQL["waits"], (job, before, signal, limit))
    return [record_of(WaitRecord, row) for row in found]
