"""Settings of tasks that live in the store [P6] [F3], and turns: who does a thing that everybody would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from windlass.store.records import TaskRecord
from windlass.store.sqlite import lines
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction
from windlass.store.tasks import changed, is_empty

_SQL = Statements("tasks")


def tasks(connection: apsw.Connection) -> list[TaskRecord]:
    """Every task that has settings here, by name."""
    return [_task(found) for found in fetch(connection, _SQL["all"])]


def set_task(tx: Transaction, name: str, changes: Mapping[str, Any]) -> TaskRecord:
    """Change settings of a task; one without any is not kept."""
    found = tx.one(_SQL["named"], (name,))
    old = _task(found) if found else TaskRecord(name=name)
    new = changed(old, changes)
    if is_empty(new):
        tx.run(_SQL["remove"], (name,))
    else:
        values = (new.batch, new.batch_timeout, new.parallel, new.concurrency, new.key_concurrency)
        tx.run(_SQL["keep"], (new.name, *values))
    if new.concurrency is not None:
        _count_running(tx, name)
    tx.gates.free(f"task:{name}")
    if new.key_concurrency != old.key_concurrency:
        lines.free_keys(tx)
    return new


def _count_running(tx: Transaction, name: str) -> None:
    """Jobs of a task that run take a slot of the limit that it may just have got [F3]."""
    gate = f"task:{name}"
    for pos, job in tx.all(_SQL["running"], (name, gate)):
        tx.gates.let_through(gate)
        tx.gates.give(job, [gate])
        tx.gates.bind(pos)


def turn(tx: Transaction, name: str, every: float) -> bool:
    """Take a turn, if nobody has taken it within the last `every` seconds."""
    return tx.run(_SQL["take_turn"], (name, tx.now, every)) > 0


def _task(found: tuple[Any, ...]) -> TaskRecord:
    name, batch, batch_timeout, parallel, concurrency, key_concurrency = found
    return TaskRecord(
        name=name,
        batch=batch,
        batch_timeout=batch_timeout,
        parallel=parallel,
        concurrency=concurrency,
        key_concurrency=key_concurrency,
    )
