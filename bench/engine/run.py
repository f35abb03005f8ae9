"""The run as a whole: which stores are measured, and how the time is shared between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from bench.engine.figures import Report, StoreReport, Where
from bench.engine.places import Places
from bench.engine.plan import Plan
from bench.engine.rounds import Progress
from bench.machine import machine
from bench.servers import started
from windlass import __version__
from windlass.running.loopthread import prefer_uvloop
from windlass.store.factory import POSTGRES, SQLITE

SHARE_OF_SQLITE: Final = 0.4
"""Of the time, where both are measured; PostgreSQL has the references to run as well."""

P = TypeVar("P", bound=Plan)
Told: TypeAlias = Callable[[Where], StoreReport]
"""The report of one store, once it is known where that was."""
Scene: TypeAlias = Callable[[Places, P, float, Progress], Coroutine[Any, Any, Told]]
"""All that is done to one kind of store, until a time of the monotonic clock."""


def run(scene: Scene[P], plan: P, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores; PostgreSQL is "stock", "wheel" or a URL."""
    began = time.monotonic()
    reports = []
    for store in stores:
        share = SHARE_OF_SQLITE if store == SQLITE and len(stores) > 1 else 1.0
        tell = _within(store, progress)
        # The loop ends before the server does: a run that is broken off removes its databases.
        with _places(store, server, tell) as places, asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
            here = time.monotonic()
            found = runner.run(scene(places, plan, began + plan.budget * share, tell))
            reports.append(found(places.where(time.monotonic() - here)))
    return Report(
        windlass=__version__,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        plan=plan.conditions(),
        stores=reports,
    )


@contextmanager
def _places(store: str, server: str, tell: Progress) -> Iterator[Places]:
    if store != POSTGRES:
        yield Places()
        return
    tell("starting the server")
    with started(server) as servers:
        yield Places(servers)


def _within(store: str, progress: Progress) -> Progress:
    return lambda text: progress(f"{store}: {text}")
