"""How the jobs of an app's own tasks (`@get_app().task`) leave a Django project: in the transaction that the
caller is in, or after it, as those of Django's tasks do [E1]. `place` says which.

A job that waits for a commit has no id yet: its handle has the id 0 and the receipt "on_commit". Groups,
their jobs and signals are written at once: they have an answer to give, and a group takes its jobs in
transactions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from windlass.contrib.django.place import Place
from windlass.running.producer import Producer
from windlass.store.records import NewJob, Receipt


class DjangoProducer(Producer):
    """Sends jobs for the app of one backend. `place` returns where they live; None in a test of the kit,
    which has jobs of its own."""

    def __init__(self, *args: Any, place: Callable[[], Place | None]) -> None:
        super().__init__(*args)
        self._place = place

    def send(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        """Add jobs, all or none, from any thread: in its transaction, or once that has committed."""
        if connection is not None or group is not None or _is_group(jobs):
            return super().send(jobs, connection, group=group)
        joins, awaits = self._transactions()
        if awaits is not None:
            send = super().send

            def enqueue_jobs() -> None:  # Django logs the name of one that fails
                send(jobs)

            transaction.on_commit(enqueue_jobs, using=awaits, robust=True)
            return [Receipt(0, "on_commit") for _ in jobs]
        return super().send(jobs, None if joins is None else connections[joins])

    async def asend(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        """Add jobs, all or none, from any loop. The transaction is that of the thread in which Django runs
        the ORM of async code; a worker's loop has none."""
        at_once = connection is not None or group is not None or _is_group(jobs)
        if at_once or self.store_handle.on_a_workers_loop:
            return await super().asend(jobs, connection, group=group)
        if await sync_to_async(self._transactions)() == (None, None):
            return await super().asend(jobs)
        return await sync_to_async(self.send)(jobs)

    def _transactions(self) -> tuple[str | None, str | None]:
        """Return the alias of the transaction to join, and that of the one to wait for; one of them is None,
        and both are where this thread is in neither."""
        place = self._place()
        if place is None:
            return None, None
        if place.joins is not None and self._on_postgres:
            return _begun(place.joins), None
        return None, _begun(place.awaits)


def _is_group(jobs: Sequence[NewJob]) -> bool:
    return any(job.options.group_end for job in jobs)


def _begun(alias: str | None) -> str | None:
    return alias if alias is not None and transaction.get_connection(alias).in_atomic_block else None
