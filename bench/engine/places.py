"""Where the engine is measured: stores with nothing in them, opened, of one kind; each is gone after its
use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import apsw

from bench.engine.figures import Where
from bench.meters import Meter
from bench.servers import POSTGRESQL, Servers, fresh_file
from windlass.settings import Settings
from windlass.store.factory import POSTGRES, SQLITE, make_store, sqlite_path
from windlass.store.protocol import Store
from windlass.store.sqlite.connections.connection import connect

PRAGMAS = ("journal_mode", "synchronous", "page_size", "cache_size", "wal_autocheckpoint")


@dataclass(frozen=True)
class OpenStore:
    """A store with nothing in it, opened; `settings` lead an app there, whatever the environment says."""

    store: Store
    settings: Settings
    meter: Meter

    @property
    def url(self) -> str:
        """Where it is."""
        return self.settings.database_url

    def environment(self) -> dict[str, str]:
        """What leads processes there."""
        return {"WINDLASS_DATABASE_URL": self.url, "WINDLASS_SCHEMA": self.settings.schema}


class Places:
    """Gives empty stores: databases of PostgreSQL, or, without servers, files of SQLite."""

    def __init__(self, servers: Servers | None = None) -> None:
        self._servers = servers
        self.kind = SQLITE if servers is None else POSTGRES

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[OpenStore]:
        """A store that is gone when the block ends."""
        with fresh_file() if self._servers is None else self._servers.fresh(POSTGRESQL) as place:
            settings = Settings(database_url=place.url)
            store = make_store(settings.database_url, schema=settings.schema)
            await store.migrate()
            try:
                await store.open()
                yield OpenStore(store, settings, place.meter)
            finally:
                await store.close()

    def where(self, seconds: float) -> Where:
        """What a report says of them, and how many seconds the run took."""
        seconds = round(seconds, 1)
        if self._servers is not None:
            settings = self._servers.settings()[POSTGRESQL]
            versions = {POSTGRES: settings.pop("version")}
            place = f"server: {settings.pop('server')}"
            return Where(store=POSTGRES, place=place, versions=versions, settings=settings, seconds=seconds)
        return Where(
            store=SQLITE,
            place="temporary files",
            versions={"sqlite": apsw.sqlite_lib_version(), "apsw": apsw.apsw_version()},
            settings=_pragmas(),
            seconds=seconds,
        )


def _pragmas() -> dict[str, str]:
    """What a connection of the store is set to."""
    with fresh_file() as place:
        connection = connect(sqlite_path(place.url), 10.0)
        try:
            return {name: str(connection.pragma(name)) for name in PRAGMAS}
        finally:
            connection.close()
