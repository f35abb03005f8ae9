"""Changes that a coordinator sees during its chores, as events [M2]: each change is noted once."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.counts import plural
from windlass.presentation.text import span
from windlass.store.records import BudgetRecord, Rotation
from windlass.worker.reports.recorder import Recorder


class Notices:
    """The changes that one coordinator has seen."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._breakers: dict[str, str] | None = None
        self._blocked: str | None = None

    def forget(self) -> None:
        """Another host coordinates from now on, and notes what changes."""
        self._breakers, self._blocked = None, None

    def breakers(self, budgets: Iterable[BudgetRecord]) -> None:
        """How breakers stand now. What a first look finds is no change [F7]."""
        before, now = self._breakers, {each.name: each for each in budgets}
        self._breakers = {name: each.state for name, each in now.items()}
        for name, each in now.items() if before is not None else ():
            if before is None or each.state == before.get(name, "closed"):
                continue
            after = f" after {plural(each.failures, 'failure')} in a row, for {span(each.paused_for)}"
            message = f"the breaker of budget {name} is {each.state}{after if each.state == 'open' else ''}"
            self._record.note("breaker", message)

    def rotated(self, rotation: Rotation) -> None:
        """Note what the last turn of the logs found in its way."""
        if rotation.blocked != self._blocked:
            self._blocked = rotation.blocked
            self._record.note("blocked", rotation.blocked or "a segment can be reclaimed again")
