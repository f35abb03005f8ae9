"""The queues as this process read them last, on PostgreSQL: there may be ten thousand, they are asked for
each second, and they hardly ever change. The server says by a stamp whether one did; see `management.sql`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class KnownRows(msgspec.Struct, Generic[V], frozen=True):
    """Rows by name, and the stamp that they were sent with."""

    stamp: str | None = None
    rows: Mapping[str, V] = {}

    def updated(self, stamp: str, sent: Mapping[str, V]) -> KnownRows[V]:
        """These rows, given what was sent for our stamp: all rows where the answer's is another, else those
        that change by themselves."""
        return KnownRows(stamp, sent if stamp != self.stamp else {**self.rows, **sent})
