"""Ordering keys: how far each has come [F6]. Its position is the number of its jobs that have had their turn
and ended; since they come one by one, all up to there have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import apsw

from windlass.core.gates import order_gate
from windlass.store.flow import Watermark
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("order")
FORGET_AFTER: Final = 30 * 86400.0
COUNTED: Final = 10_000


def begin(connection: apsw.Connection, gates: Iterable[str], now: float) -> None:
    """Jobs of these keys have their turn."""
    connection.executemany(_SQL["begin"], ((*_key(gate), now) for gate in gates))


def advance(connection: apsw.Connection, gate: str, now: float) -> None:
    """The job whose turn it was has ended for good."""
    connection.execute(_SQL["advance"], (now, *_key(gate)))


def watermarks(
    connection: apsw.Connection, queue: str, key: str | None, limit: int, now: float
) -> list[Watermark]:
    """The ordering keys of a queue, by key. Reads only."""
    if key is not None:
        rows = fetch(connection, _SQL["of_key"], (queue, key))
    else:
        rows = fetch(connection, _SQL["all"], (queue, max(limit, 0)))
    return [_watermark(connection, found, now) for found in rows]


def forget(connection: apsw.Connection, now: float, limit: int) -> int:
    """Remove keys that nobody has used for long."""
    connection.execute(_SQL["forget"], (now - FORGET_AFTER, limit))
    return connection.changes()


def _watermark(connection: apsw.Connection, found: tuple[Any, ...], now: float) -> Watermark:
    queue, key, position, at = found
    gate = order_gate(queue, key)
    turn = fetch(connection, _SQL["turn"], (gate,))
    born = [row[0] for row in (*turn, *fetch(connection, _SQL["next"], (gate,)))]
    in_line = fetch(connection, _SQL["count"], (gate, COUNTED - len(turn)))[0][0]
    return Watermark(
        queue=queue,
        key=key,
        position=position,
        at=at,
        waiting=in_line + len(turn),
        age=max(0.0, now - min(born)) if born else 0.0,
    )


def _key(gate: str) -> tuple[str, str]:
    """The queue and the key of a gate; no queue has a slash in its name."""
    queue, _, key = gate.removeprefix("order:").partition("/")
    return queue, key
