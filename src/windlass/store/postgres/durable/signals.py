"""Signals on PostgreSQL: those of many callers share a round trip and a commit [W2]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.durable.calls import signal_call
from windlass.store.postgres.durable.intake import Intake
from windlass.store.records import Once

Sent: TypeAlias = tuple[int, str, str]
"""The job, the name and the value."""
CALLS: Final = 4
PATIENCE: Final = 0.003
"""Seconds that a signal waits for the call before it: on a busy machine that takes longer, and there another
connection is opened."""


class Signals:
    """Sends signals."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._intake: Intake[None, Sent, str] = Intake(self._send, calls=CALLS, patience=PATIENCE)

    async def signal(
        self, job: int, name: str, value: str, *, once: Once | None = None, connection: Any = None
    ) -> str:
        """See Store.signal. A blocking connection is used in this thread, without awaiting anything. A signal
        that may be sent once may have to wait for another transaction, and so it is sent on its own."""
        if connection is None and once is None:
            return await self._intake.add(None, (job, name, value), len(value))
        call = signal_call(self._db.schema, job, name, value, once, own=connection is None)
        if connection is not None:
            from windlass.store.postgres.adapters import run_one

            return str((await run_one(connection, call))[0])
        async with self._db.connection(self._db.deadline) as own:
            return str(await own.fetchval(call.sql, *call.args))

    async def _send(self, _: None, sent: Sequence[Sent]) -> Sequence[str]:
        found: list[str] = await self._db.value(
            "send_signals",
            [job for job, _, _ in sent],
            [name for _, name, _ in sent],
            [value for _, _, value in sent],
        )
        return found
