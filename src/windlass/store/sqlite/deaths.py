"""How often the jobs of a unique key have died in a row, and whether its automatic enqueues are parked for
that [O7]."""

from __future__ import annotations

from windlass.core.parking import FORGET_AFTER, parked_until
from windlass.store.sqlite.rows import DEAD, SUCCEEDED
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("deaths")


def note(tx: Transaction, key: str, state: int) -> None:
    """A job of this key has ended. A cancelled one says nothing about the key."""
    if state == DEAD:
        tx.run(_SQL["died"], (key, tx.now, tx.now - FORGET_AFTER))
    elif state == SUCCEEDED:
        tx.run(_SQL["went_well"], (key,))


def is_parked(tx: Transaction, key: str) -> bool:
    """Whether an automatic enqueue of this key would be one too many."""
    found = tx.one(_SQL["of_key"], (key, tx.now - FORGET_AFTER))
    if found is None:
        return False
    deaths, last = found
    until = parked_until(deaths, last, tx.settings.park_after)
    return until is not None and tx.now < until


def forget(tx: Transaction, limit: int) -> int:
    """Remove counts that no longer count."""
    return tx.run(_SQL["forget"], (tx.now - FORGET_AFTER, limit))
