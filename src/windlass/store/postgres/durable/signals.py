"""Signals on PostgreSQL: those of many callers share a round trip and a commit [W2]."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from windlass.errors import InvalidPayload, StoreForbidden
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.durable.calls import signal_call
from windlass.store.postgres.durable.intake import Intake
from windlass.store.records import Once, WaitRecord

Sent: TypeAlias = tuple[int, str, str, str | None]
"""The job, the name, the value, and the shape that it was found to fit; None: it is not looked at."""
OTHER: Final = "shape "
"""The answer where the job waits for another shape, which follows."""
CALLS: Final = 4
PATIENCE: Final = 0.003
"""Seconds that a signal waits for the call before it: on a busy machine that takes longer, and there another
connection is opened."""


class Signals:
    """Sends signals."""

    def __init__(self, database: Database, waits: Callable[..., Awaitable[list[WaitRecord]]]) -> None:
        self._db = database
        self._waits = waits
        self._sees = True
        """False where our role may send signals and not read who waits for them."""
        self._intake: Intake[None, Sent, str] = Intake(self._send, calls=CALLS, patience=PATIENCE)

    async def signal(
        self,
        job: int,
        name: str,
        value: str,
        *,
        once: Once | None = None,
        connection: Any = None,
        fits: Callable[[str], None] | None = None,
    ) -> str:
        """See Store.signal. A blocking connection is used in this thread, without awaiting anything. A signal
        that may be sent once may have to wait for another transaction, and so it is sent on its own, after a
        look at the wait."""
        if connection is None and once is None:
            return await self._fitting(job, name, value, fits)
        if connection is None and fits is not None:
            try:
                await self._look(job, name, fits)
            except InvalidPayload:
                if not (once and once.lasts is None and await self._was_sent(once)):
                    raise
                return "repeated"  # to a wait that is over
        call = signal_call(self._db.schema, job, name, value, once, own=connection is None)
        if connection is not None:
            from windlass.store.postgres.adapters import run_one

            return str((await run_one(connection, call))[0])
        async with self._db.connection(self._db.deadline) as own:
            return str(await own.fetchval(call.sql, *call.args))

    async def _fitting(self, job: int, name: str, value: str, fits: Callable[[str], None] | None) -> str:
        """Send a signal; again where the job waits for a shape that the value was not looked at for."""
        shape = None if fits is None else ""
        while True:
            answer = await self._intake.add(None, (job, name, value, shape), len(value))
            if fits is None or not answer.startswith(OTHER):
                return answer
            shape = answer.removeprefix(OTHER)
            fits(shape)

    async def _look(self, job: int, name: str, fits: Callable[[str], None]) -> None:
        try:
            for wait in await self._waits(1, job=job, signal=name) if self._sees else ():
                if wait.shape is not None:
                    fits(wait.shape)
        except StoreForbidden:  # a line in the log of the server: it is asked once
            self._sees = False

    async def _was_sent(self, once: Once) -> bool:
        return bool((await self._db.query("signal_sent", once.token))[0]["sent"])

    async def _send(self, _: None, sent: Sequence[Sent]) -> Sequence[str]:
        found: list[str] = await self._db.value("send_signals", *map(list, zip(*sent, strict=True)))
        return found
