"""The endpoints about signals: who waits for what, and sending it [W2]."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from windlass.operations.operation import Limit, Text
from windlass.presentation.signals import WaitShape
from windlass.store.fields import MAX_KEY
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.durable.signals import Sent

Key: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]


class WaitQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which waits, and how many of them."""

    signal: Text | None = None
    limit: Limit = 50
    cursor: Annotated[str, msgspec.Meta(max_length=20)] | None = None


class Waits(msgspec.Struct, frozen=True):
    """What jobs wait for, the newest wait first."""

    waits: list[WaitShape]


class SignalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to send."""

    value: Any = None
    """Anything JSON can carry."""
    idempotency_key: Key | None = None
    """Send nothing where the job was sent a signal with this key."""


signals: Final = Table("signals")


@signals.get("/waits")
async def list_waits(call: Call[WaitQuery, None]) -> Waits:
    """List what jobs wait for, the newest wait first"""
    asked = call.query
    return Waits(await call.service.signals.waits(call.principal, asked.limit, asked.cursor, asked.signal))


@signals.post("/jobs/{id}/signals/{name}")
async def send_signal(call: Call[Nothing, SignalBody]) -> Sent:
    """Send a signal to a job that waits for it, or will"""
    return await call.service.signals.send(
        call.principal, call.id, call.name, call.body.value, call.body.idempotency_key
    )
