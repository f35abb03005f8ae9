"""Terms: who coordinates, and that nobody else writes as if he did [K3]."""

from __future__ import annotations

from windlass.core.clock import MOST_TERM, left
from windlass.errors import TermLost
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("terms")


def lead(tx: Transaction, candidate: int, length: float) -> int | None:
    """Begin a term, or go on with one's own; None where another's has not run out."""
    number, holder, until = _term(tx)
    runs = left(until, MOST_TERM, tx.now) > 0
    if runs and holder != candidate:
        return None
    number = number if runs else number + 1
    tx.run(_SQL["lead"], (number, candidate, tx.now + min(length, MOST_TERM)))
    return number


def resign(tx: Transaction, candidate: int) -> None:
    """Give the term up, if it is the candidate's."""
    tx.run(_SQL["resign"], (candidate,))


def must_lead(tx: Transaction, term: int) -> None:
    """The fence of a coordinator's writes. Raises TermLost [K3]."""
    number, _, until = _term(tx)
    if number != term or not left(until, MOST_TERM, tx.now):
        raise TermLost(f"term {term} is over, and another may coordinate now: stand again with lead()")


def _term(tx: Transaction) -> tuple[int, int | None, float]:
    found = tx.one(_SQL["term"])
    assert found is not None, "the migration wrote the one row of this table"
    number, holder, until = found
    return number, holder, until
