"""One whole rotation, as a walk of many small write transactions: between two of them others have a turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import apsw

from windlass.store.records import Rotation
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import retention
from windlass.store.sqlite.transaction import Transaction

T = TypeVar("T")
Read = Callable[[Callable[[apsw.Connection], Any]], Coroutine[Any, Any, Any]]


class Write(Protocol):
    """Run an operation in a write transaction."""

    async def __call__(self, work: Callable[[Transaction], T], /) -> T: ...


async def rotate(write: Write, read: Read, settings: StoreSettings, *, force: bool) -> Rotation:
    """Remove what is past its retention (`force`: all that succeeded or was cancelled).

    While the file is over its size limit the retention is halved again and again, so the oldest go first.
    """
    removed = await _sweep(write, read, settings, 0.0 if force else 1.0, force=force)
    share = 0.5
    while not force and await read(retention.used_bytes) > settings.size_limit and share > 0:
        removed += await _sweep(write, read, settings, share, force=False)
        share = share / 2 if share > 0.001 else 0.0
    return Rotation(reclaimed=removed > 0, removed=removed)


async def _sweep(write: Write, read: Read, settings: StoreSettings, share: float, *, force: bool) -> int:
    """One pass over all lanes, with every retention cut down to this share of itself."""
    removed = 0
    for lane, full in await read(lambda connection: retention.retentions(connection, settings)):
        keep = -math.inf if force else full * share
        removed += await _sweep_lane(write, lane, keep)
    keep = -math.inf if force else settings.retention * share
    after: int | None = 0
    while after is not None:
        start = after
        after = await write(lambda tx, start=start: retention.sweep_births(tx, start, keep))  # type: ignore[misc]
    return removed


async def _sweep_lane(write: Write, lane: int, keep: float) -> int:
    removed = 0
    after: int | None = 0
    while after is not None:
        start = after
        count, after = await write(lambda tx, start=start: retention.sweep_claims(tx, lane, start, keep))  # type: ignore[misc]
        removed += count
    more = True
    while more:
        count, more = await write(lambda tx: retention.sweep_cancelled(tx, lane, keep))
        removed += count
    return removed
