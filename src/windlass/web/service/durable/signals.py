"""Waits and signals: who waits for what since when, and the answers of operators [W2]."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.codec import Purpose, seal
from windlass.core.json_shapes import misfit
from windlass.errors import JobNotFound
from windlass.handles import signal_links
from windlass.handles.signal_links import Link
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.signals import WaitShape, shape_of, wait_shape
from windlass.store.records import Once
from windlass.web.http.problems import Invalid
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.store_access import StoreAccess

if TYPE_CHECKING:
    from windlass.app import Windlass

MAX_LISTED: Final = 500
KEPT_LONGER: Final = 86400.0
"""Seconds for which it is remembered that an address was used after it has expired: clocks differ."""


class Sent(msgspec.Struct, frozen=True):
    """What became of a signal."""

    answer: str
    """delivered: the job waited for it. kept: for a wait to come. repeated: nothing was sent, since one with
    its idempotency key was sent before."""


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

    def link(self, token: str) -> Link | None:
        """What the address of a button sends; None where it is not ours."""
        return signal_links.read(self._app.settings.secret, token)

    async def redeem(self, link: Link) -> None:
        """Send what an address sends, once. The address is the right to do it, so nobody's role is asked."""
        record = await self._store.ask(lambda store: store.job(link.job))
        if record is None:
            raise JobNotFound(f"there is no job {link.job} to signal")
        value = seal(self._app.codec, link.value, Purpose("signal", record.task))
        once = Once(link.nonce, max(link.expires - time.time(), 0.0) + KEPT_LONGER)
        await self._store.ask(lambda store: store.signal(link.job, link.name, value, once=once))

    async def send(
        self, principal: Principal, job: int, name: str, value: Any, key: str | None = None
    ) -> Sent:
        """Send a signal to a job. Where it waits for one of a type, a value that cannot be of it is refused,
        so that the wait goes on; the handler's own type decides in the end."""
        principal.require(Role.OPERATE)
        for wait in await self._store.ask(lambda store: store.waits(1, job=job, signal=name)):
            if (wrong := misfit(shape_of(wait), value)) is not None:
                raise Invalid(f"the value does not fit what the job waits for: {wrong}", "value")
        answer = await self._app.job(job).asignal(name, value, idempotency_key=key)
        await self._audit.done(principal, audit.signalled(job, name, answer))
        return Sent(answer)
