"""How jobs leave an app: into its store, or through the caller's own connection [E1].

Jobs come in complete and checked. With a connection nothing of the app's store is used: the statements run
where the caller's transaction is, in his thread or on his loop, and vanish with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.errors import ConfigurationError
from windlass.home import StoreHome
from windlass.hooks import Hooks
from windlass.store.factory import POSTGRES, SQLITE, kind_of
from windlass.store.records import NewJob, Receipt


class Producer:
    """Sends jobs for one app. A testing kit puts its own in this place."""

    def __init__(self, home: StoreHome, url: str | None, schema: str, hooks: Hooks) -> None:
        self.home = home
        self._url = url
        self._schema = schema
        self._hooks = hooks

    def send(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        """Add jobs, all or none, from any thread."""
        if not jobs:
            return []
        if not self._hooks.enqueue:
            return self._send(jobs, connection)
        with self._hooks.sending(jobs) as sending:
            sending.receipts = receipts = self._send(sending.jobs, connection)
        return receipts

    async def asend(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        """Add jobs, all or none, from any loop."""
        if not jobs:
            return []
        if not self._hooks.enqueue:
            return await self._put(jobs, connection)
        with self._hooks.sending(jobs) as sending:
            sending.receipts = receipts = await self._put(sending.jobs, connection)
        return receipts

    def _send(self, jobs: Sequence[NewJob], connection: Any) -> list[Receipt]:
        if connection is None:
            return self.home.call(lambda store: store.enqueue(jobs))
        if self._kind == SQLITE:
            return self.home.call(lambda store: store.enqueue(jobs, connection=connection))
        self._check_database()
        from windlass.contrib.adapters import send

        return send(connection, self._schema, jobs)

    async def _put(self, jobs: Sequence[NewJob], connection: Any) -> list[Receipt]:
        if connection is None:
            return await self.home.acall(lambda store: store.enqueue(jobs))
        if self._kind == SQLITE:
            return await self.home.acall(lambda store: store.enqueue(jobs, connection=connection))
        self._check_database()
        from windlass.contrib.adapters import asend

        return await asend(connection, self._schema, jobs)

    @property
    def _kind(self) -> str:
        return kind_of(self._url) if self._url else "memory"

    def _check_database(self) -> None:
        if self._kind != POSTGRES:
            raise ConfigurationError(
                f"connection= needs jobs that live in a database, and this app keeps them in {self._kind}; "
                "leave it out, or point WINDLASS_DATABASE_URL at the database of that connection"
            )
