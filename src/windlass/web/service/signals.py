"""Waits and signals: who waits for what since when, and the answers of operators [W2]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.core.json_shapes import misfit
from windlass.presentation import audit
from windlass.presentation.signals import WaitShape, wait_shape
from windlass.web.http.principal import Principal, Role
from windlass.web.http.problems import Invalid
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.store_access import StoreAccess

if TYPE_CHECKING:
    from windlass.app import Windlass

MAX_LISTED: Final = 500


class Sent(msgspec.Struct, frozen=True):
    """What became of a signal."""

    answer: str
    """delivered: the job waited for it. kept: for a wait to come."""


class Signals(Actions):
    """What jobs wait for, and sending it."""

    def __init__(self, app: Windlass, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._app = app

    async def waits(
        self,
        principal: Principal,
        limit: int = 50,
        cursor: str | None = None,
        signal: str | None = None,
        job: int | None = None,
    ) -> list[WaitShape]:
        """What jobs wait for now, the newest wait first."""
        principal.require(Role.READ)
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise Invalid("this is not a cursor; take it from a listing", "cursor")
        before = None if cursor is None else int(cursor)
        most = max(1, min(limit, MAX_LISTED))
        found = await self._store.ask(lambda store: store.waits(most, before=before, signal=signal, job=job))
        return [wait_shape(each) for each in found]

    async def send(self, principal: Principal, job: int, name: str, value: Any) -> Sent:
        """Send a signal to a job. Where it waits for one of a type, a value that cannot be of it is refused,
        so that the wait goes on; the handler's own type decides in the end."""
        principal.require(Role.OPERATE)
        for wait in await self._store.ask(lambda store: store.waits(1, job=job, signal=name)):
            shape = None if wait.shape is None else msgspec.json.decode(wait.shape)
            if (wrong := misfit(shape, value)) is not None:
                raise Invalid(f"the value does not fit what the job waits for: {wrong}", "value")
        answer = await self._app.job(job).asignal(name, value)
        await self._audit.done(principal, audit.signalled(job, name, answer))
        return Sent(answer)
