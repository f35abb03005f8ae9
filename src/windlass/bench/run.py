"""The run as a whole: which stores are measured, where, and how the time is shared between them."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from windlass.bench import server
from windlass.bench.figures import Report, StoreReport
from windlass.bench.machine import machine
from windlass.bench.plan import Plan
from windlass.bench.rounds import Progress
from windlass.errors import ConfigurationError
from windlass.loading import prefer_uvloop
from windlass.store.factory import POSTGRES, SQLITE, kind_of, sqlite_path
from windlass.version import __version__

SHARE_OF_SQLITE: Final = 0.4
"""Of the time, where both are measured; PostgreSQL has the references to run as well."""


class Bench(Protocol):
    """What can be measured: the stores themselves, or worker processes on them."""

    on_sqlite: Callable[..., Coroutine[Any, Any, StoreReport]]
    on_postgres: Callable[..., Coroutine[Any, Any, StoreReport]]


def run(bench: Bench, plan: Plan, url: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL, or, without one, on temporary ones of each kind that this machine
    can run."""
    with asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        stores = (
            _temporary(runner, bench, plan, progress)
            if url is None
            else [_named(runner, bench, plan, url, progress)]
        )
    return Report(
        windlass=__version__,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        plan=msgspec.to_builtins(plan),
        stores=stores,
    )


def _temporary(runner: asyncio.Runner, bench: Bench, plan: Plan, progress: Progress) -> list[StoreReport]:
    began = time.monotonic()
    both = server.available()
    share = plan.budget * SHARE_OF_SQLITE if both else plan.budget
    tell = _within("sqlite", progress)
    stores = [runner.run(_orderly(bench.on_sqlite(None, plan, began + share, tell)))]
    if both:
        progress("postgresql: starting a temporary server")
        with server.temporary_server() as url:
            until, tell = began + plan.budget, _within("postgresql", progress)
            stores.append(runner.run(_orderly(bench.on_postgres(url, plan, until, tell, temporary=True))))
    return stores


def _named(runner: asyncio.Runner, bench: Bench, plan: Plan, url: str, progress: Progress) -> StoreReport:
    kind, until = kind_of(url), time.monotonic() + plan.budget
    if kind == POSTGRES:
        return runner.run(_orderly(bench.on_postgres(url, plan, until, _within(kind, progress))))
    if kind == SQLITE:
        # Beside the file that the URL names, for the sake of its disk; the file itself is never touched.
        directory = Path(sqlite_path(url)).absolute().parent
        if not directory.is_dir():
            raise ConfigurationError(f"{directory} is not there; create it, or name another directory")
        return runner.run(_orderly(bench.on_sqlite(directory, plan, until, _within(kind, progress))))
    raise ConfigurationError("memory:// is not measured; name postgresql://… or sqlite:///path")


async def _orderly(measuring: Coroutine[Any, Any, StoreReport]) -> StoreReport:
    """Measure, and leave nothing behind when told to stop: SIGTERM ends a run as Ctrl-C does."""
    task = asyncio.ensure_future(measuring)
    loop = asyncio.get_running_loop()
    heeds = sys.platform != "win32" and threading.current_thread() is threading.main_thread()
    if heeds:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if (current := asyncio.current_task()) is not None and current.cancelling():
            raise  # Ctrl-C: the runner turns it into KeyboardInterrupt
        raise SystemExit(128 + signal.SIGTERM) from None
    finally:
        if heeds:
            loop.remove_signal_handler(signal.SIGTERM)


def _within(store: str, progress: Progress) -> Progress:
    return lambda text: progress(f"{store}: {text}")
