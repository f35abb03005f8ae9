"""How many jobs of each claim are unfinished, within one operation: counted in memory and written once at its
end, since the jobs of a claim mostly end together."""

from __future__ import annotations

from collections import Counter

import apsw

from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("leases")


class Leases:
    """The claims whose jobs an operation ends or takes back."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last = (0, 0, 0, 0)  # the claim found last: its lane, lo, hi and id
        self._left: Counter[int] = Counter()

    def leave(self, lane: int, seq: int) -> None:
        """The job at this place no longer runs."""
        of, lo, hi, _ = self._last
        if of != lane or not lo <= seq <= hi:
            self._last = fetch(self._connection, _SQL["covering"], (lane, seq))[0]
        self._left[self._last[3]] += 1

    def leave_many(self, claim: int, count: int) -> None:
        """So many jobs of this claim no longer run."""
        self._left[claim] += count

    def save(self) -> None:
        """Write what was counted."""
        for claim, count in self._left.items():
            self._connection.execute(_SQL["left"], (count, claim))
        self._left.clear()
