"""What an operation holds in its hands: the connection inside its savepoint, the time, and the lanes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from windlass.store.settings import StoreSettings
from windlass.store.sqlite.births import Births
from windlass.store.sqlite.budgets import Budgets
from windlass.store.sqlite.gates import Gates
from windlass.store.sqlite.lanes import Lanes
from windlass.store.sqlite.leases import Leases
from windlass.store.sqlite.limits import Limits
from windlass.store.sqlite.rows import Bindings, Ending, fetch


class Transaction:
    """One operation under the write lock. It happens as a whole or not at all."""

    __slots__ = (
        "births", "budgets", "connection", "endings", "gates", "lanes", "leases", "limits", "news", "now",
        "settings",
    )  # fmt: skip

    def __init__(self, connection: apsw.Connection, now: float, settings: StoreSettings) -> None:
        self.connection = connection
        self.now = now
        self.settings = settings
        self.lanes = Lanes(connection)
        self.leases = Leases(connection)
        self.limits = Limits(connection)
        self.gates = Gates(connection, self.limits, now)
        self.budgets = Budgets(connection, now)
        self.births = Births(connection, self.lanes, self.gates, self.limits, now)
        self.endings: list[Ending] = []
        """The jobs that have ended, and what follows from that is still to be done (see `settle`)."""
        self.news = False
        """Whether somebody in this process may be waiting for this: jobs were offered, or have ended."""

    def all(self, sql: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return fetch(self.connection, sql, bindings)

    def one(self, sql: str, bindings: Bindings = ()) -> tuple[Any, ...] | None:
        """Run a statement to its end and return its first row."""
        rows = fetch(self.connection, sql, bindings)
        return rows[0] if rows else None

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        """Run a statement that writes and return how many rows it touched."""
        self.connection.execute(sql, bindings)
        return self.connection.changes()

    def many(self, sql: str, bindings: Iterable[Bindings]) -> None:
        """Run a statement once per tuple of bindings."""
        self.connection.executemany(sql, bindings)

    def save(self) -> None:
        """Write what was changed in memory. The last step of every operation, after `settle`."""
        self.births.write()
        self.news |= self.births.any
        self.budgets.save()
        self.leases.save()
        self.lanes.save()
