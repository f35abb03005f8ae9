"""How jobs and signals leave an app: into its store, or through the caller's own connection [E1] [W2].

Jobs come in complete and checked. With a connection nothing of the app's store is used: the statements run
where the caller's transaction is, in his thread or on his loop, and vanish with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from windlass.running.hooks import Hooks
from windlass.running.published import PublishedQueues
from windlass.running.sending import NewSignal
from windlass.running.store_handle import StoreHandle
from windlass.store.factory import POSTGRES, kind_of
from windlass.store.records import NewJob, Receipt


class Producer:
    """Sends jobs for one app. A testing kit puts its own in this place."""

    def __init__(
        self,
        store_handle: StoreHandle,
        url: str | None,
        schema: str,
        hooks: Hooks,
        tasks: Collection[str] = (),
    ) -> None:
        self.store_handle = store_handle
        self._url = url
        self._schema = schema
        self._hooks = hooks
        self._queues = PublishedQueues(tasks)

    def send(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        """Add jobs, all or none, from any thread; to a group, where one is given."""
        if not jobs:
            return []
        if not self._hooks.enqueue:
            return self._send(jobs, connection, group)
        with self._hooks.sending(jobs) as sending:
            sending.receipts = receipts = self._send(sending.jobs, connection, group)
        return receipts

    async def asend(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        """Add jobs, all or none, from any loop; to a group, where one is given."""
        if not jobs:
            return []
        if not self._hooks.enqueue:
            return await self._put(jobs, connection, group)
        with self._hooks.sending(jobs) as sending:
            sending.receipts = receipts = await self._put(sending.jobs, connection, group)
        return receipts

    def queue_of(self, task: str, connection: Any = None) -> str:
        """The queue that workers publish for a task whose code is not here, from any thread [E5]."""
        if (kept := self._queues.get(task)) is not None:
            return kept
        found = self._published(task, connection)
        known = self._known() if found is None and connection is None else ()
        return self._queues.keep(task, found, known)

    async def aqueue_of(self, task: str, connection: Any = None) -> str:
        """Return the queue that workers publish for a task, from any loop; see `queue_of`."""
        if (kept := self._queues.get(task)) is not None:
            return kept
        found = await self._apublished(task, connection)
        known = await self._aknown() if found is None and connection is None else ()
        return self._queues.keep(task, found, known)

    def _published(self, task: str, connection: Any) -> str | None:
        if connection is None or not self._on_postgres:
            return self.store_handle.call(lambda store: store.published_queue(task))
        from windlass.store.postgres.adapters import published_queue

        return published_queue(connection, self._schema, task)

    async def _apublished(self, task: str, connection: Any) -> str | None:
        if connection is None or not self._on_postgres:
            return await self.store_handle.acall(lambda store: store.published_queue(task))
        from windlass.store.postgres.adapters import apublished_queue

        return await apublished_queue(connection, self._schema, task)

    def _known(self) -> Collection[str]:
        """The tasks that live workers know."""
        return self.store_handle.call(lambda store: store.published_tasks())

    async def _aknown(self) -> Collection[str]:
        return await self.store_handle.acall(lambda store: store.published_tasks())

    def _send(self, jobs: Sequence[NewJob], connection: Any, group: int | None) -> list[Receipt]:
        if group is not None:
            return self.store_handle.call(lambda store: store.enqueue_in_group(group, jobs))
        if connection is None:
            return self.store_handle.call(lambda store: store.enqueue(jobs))
        if not self._on_postgres:
            return self.store_handle.call(lambda store: store.enqueue(jobs, connection=connection))
        from windlass.store.postgres.adapters import send

        return send(connection, self._schema, jobs)

    async def _put(self, jobs: Sequence[NewJob], connection: Any, group: int | None) -> list[Receipt]:
        if group is not None:
            return await self.store_handle.acall(lambda store: store.enqueue_in_group(group, jobs))
        if connection is None:
            return await self.store_handle.acall(lambda store: store.enqueue(jobs))
        if not self._on_postgres:
            return await self.store_handle.acall(lambda store: store.enqueue(jobs, connection=connection))
        from windlass.store.postgres.adapters import asend

        return await asend(connection, self._schema, jobs)

    # -- signals ----------------------------------------------------------------------------------------

    def signal(self, signal: NewSignal, connection: Any = None) -> str:
        """Send a signal to a job, from any thread [W2]."""
        if connection is None or not self._on_postgres:
            return self.store_handle.call(lambda store: signal.send(store, connection))
        from windlass.store.postgres import adapters

        return adapters.signal(connection, self._schema, signal.job, signal.name, signal.kept, signal.once)

    async def asignal(self, signal: NewSignal, connection: Any = None) -> str:
        """Send a signal to a job, from any loop [W2]."""
        if connection is None or not self._on_postgres:
            return await self.store_handle.acall(lambda store: signal.send(store, connection))
        from windlass.store.postgres import adapters

        return await adapters.asignal(
            connection, self._schema, signal.job, signal.name, signal.kept, signal.once
        )

    @property
    def _on_postgres(self) -> bool:
        """Return whether callers' connections are served by SQL of our own, and not by the store."""
        return self._url is not None and kind_of(self._url) == POSTGRES
