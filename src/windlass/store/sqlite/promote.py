"""Promotion: deferred jobs that are due go to their lanes, those that come after others among them [P12], and
held ones are let in, by gates that have room [F1] [F3] and by fair keys [C3]. Parents need nothing here: they
are never behind their parts [P9]."""

from __future__ import annotations

from windlass.store.records import Promoted
from windlass.store.sqlite import admission, after, lines, moves, turns
from windlass.store.sqlite.rows import Row
from windlass.store.sqlite.settle import settle
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("promote")


def promote(tx: Transaction, limit: int) -> Promoted:
    """One bounded step: first what is due, earliest first, then the admission of held jobs."""
    admission.watch(tx)
    left = after.follow(tx, limit)
    while tx.endings:  # of those that will never run: others may come after them in turn
        settle(tx)
        left = after.follow(tx, left)
    due = [Row(*found) for found in tx.all(_SQL["due"], (tx.now, limit))]
    for row in due:
        moves.come_due(tx, row)
    admitted, again = lines.walk(tx, limit)
    admitted += turns.promote(tx, limit - admitted)
    return Promoted(len(due), admitted, again)
