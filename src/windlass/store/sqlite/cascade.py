"""What an operator does to a parent reaches its parts, and the other way round: cancel, redrive, and the
retry of a dead part [P9]."""

from __future__ import annotations

from collections.abc import Callable

from windlass.errors import Finalizing
from windlass.store.records import PartOf
from windlass.store.sqlite import moves, parents, parts
from windlass.store.sqlite.parents import Parent
from windlass.store.sqlite.rows import CANCELLED, DEAD, Row
from windlass.store.sqlite.settle import settle
from windlass.store.sqlite.transaction import Transaction


def cancel(tx: Transaction, row: Row, cancel_one: Callable[[Transaction, int], object]) -> None:
    """Stop the releases of a parent and cancel what is out; it ends with the last of these."""
    parent = parents.load(tx, row.id)
    assert parent is not None, "a waiting job is no parent"
    parent.cancelling = 1
    parents.save(tx, parent)
    parents.show_cancel(tx, parent)
    out = parts.out(tx, parent.id)
    if parent.final is not None and parent.final_state is None:
        out.append(parent.final)
    for job in out:
        cancel_one(tx, job)
    settle(tx)
    _advance(tx, row.id)  # where nothing was out, nothing has ended


def set_parallel(tx: Transaction, id: int, parallel: int) -> bool:
    """Change how many parts of a parent are out at a time; whether there is such a parent."""
    if parallel < 1:
        raise ValueError(f"parallel of parent {id} cannot be {parallel}: write 1 or more")
    parent = parents.load(tx, id)
    if parent is None:
        return False
    parent.parallel = parallel
    parents.advance(tx, parent)
    return True


def redrive(tx: Transaction, id: int) -> int:
    """Run the failed parts of a parent again, and release those that a cancel kept from their turn. Answers
    with how many that are."""
    parent = parents.load(tx, id)
    if parent is None:
        return 0
    count = parent.dead + parent.cancelled + (parent.pending if parent.cancelling else 0)
    count += parent.final_state in (DEAD, CANCELLED)
    if not count:
        return 0
    _reopen(tx, parent)
    for state, job in parts.redrive(tx, id):
        if state == DEAD:
            _bury(tx, job)
    parent.dead = parent.cancelled = 0
    parents.advance(tx, parent)
    return count


def bring_back(tx: Transaction, job: int, part: PartOf) -> None:
    """A dead part is about to be offered once more, from its last checkpoint; its parent waits for it. Raises
    AlreadyEnqueued where another holds the parent's unique key by now."""
    parent = parents.load(tx, part.parent)
    if parent is None:
        return  # it was deleted, and this part outlived it
    cancelling = parent.cancelling
    if part.index < 0 and parent.final == job:
        _reopen(tx, parent, but=job)
        parent.final_state = parent.result = None
    elif part.index >= 0 and parts.ended_with(tx, job, part):
        _reopen(tx, parent)  # which may raise, before anything is changed
        parent.note(parts.bring_back(tx, job, part))
    if cancelling:  # one part comes back; the others stay where the cancel left them
        parent.cancelling = cancelling
        parents.show_cancel(tx, parent)
    parents.save(tx, parent)


def delete(tx: Transaction, id: int) -> bool:
    """Remove a parent that has ended, with its parts and its job; whether there is such a parent."""
    parent = parents.load(tx, id)
    if parent is None:
        return False
    parents.remove(tx, parent)
    return True


def _reopen(tx: Transaction, parent: Parent, but: int | None = None) -> None:
    """The parent waits again, with its key, and nobody wishes it cancelled any longer. A finalizer that did
    not succeed will run anew; while one waits or runs, nothing comes back, for it never runs beside parts."""
    if parent.final is not None and parent.final_state is None:
        raise Finalizing.of(parent.id, parent.final)
    parents.reopen(tx, parent)
    if parent.final != but and parent.final_state in (DEAD, CANCELLED):
        assert parent.final is not None
        _bury(tx, parent.final)
        parent.final = parent.final_state = parent.result = None


def _bury(tx: Transaction, job: int) -> None:
    """A dead job that another goes on for leaves the dead letters."""
    row = moves.find(tx, job)
    if row is not None and row.state == DEAD:
        moves.remove(tx, row)


def _advance(tx: Transaction, id: int) -> None:
    parent = parents.load(tx, id)
    if parent is not None and not parent.ended:
        parents.advance(tx, parent)
        settle(tx)
