"""What follows from the end of jobs: parents are brought up to date with their parts [P9], the end is noted
for jobs that come after them [P12], and where passes were given back the next in line go on [F3]. It belongs
to the transaction in which the jobs ended, so that nobody ever sees the one without the other."""

from __future__ import annotations

from windlass.store.sqlite import after, lines, parents, turns
from windlass.store.sqlite.transaction import Transaction


def settle(tx: Transaction) -> None:
    """See to all endings, and to those that follow from them."""
    while tx.endings or tx.gates.freed:
        endings, tx.endings = tx.endings, []
        parents.fold(tx, endings)
        after.note(tx, endings)
        lines.go_on(tx)


def complete(tx: Transaction) -> None:
    """The last step of every operation: settle, let those in for whom their lanes have room [C3], and write
    what was changed in memory."""
    settle(tx)
    turns.admit_new(tx)
    tx.save()
