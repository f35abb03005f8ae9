"""Signals: what jobs wait for, and sending it to them [W2].

That a value fits what the job waits for is checked where every signal passes, in `windlass.running.sending`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self, TypeAlias

import msgspec

from windlass.errors import InvalidPayload
from windlass.operations.operation import Limit, Ops, Subject, Text
from windlass.operations.refusals import Invalid
from windlass.presentation.text import iso, one_line
from windlass.running.sending import read_shape
from windlass.store.fields import MAX_KEY
from windlass.store.records import WaitRecord

signals: Final = Subject("signals")
Key: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]
Cursor: TypeAlias = Annotated[str, msgspec.Meta(max_length=20)]


class WaitShape(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that a job waits for."""

    job: str
    task: str
    queue: str
    signal: str
    since: str
    until: str | None
    """When it times out; null: never."""
    shape: Any = None
    """The JSON schema of the value, where the handler names its type."""
    cursor: str
    """Names the place in the list, for the next page."""

    @classmethod
    def of(cls, wait: WaitRecord) -> Self:
        """Return the view of a record."""
        return cls(
            job=str(wait.job),
            task=wait.task,
            queue=wait.queue,
            signal=wait.signal,
            since=iso(wait.since) or "",
            until=iso(wait.until),
            shape=read_shape(wait.shape),
            cursor=str(wait.number),
        )


class Waits(msgspec.Struct, frozen=True):
    """Waits of jobs, the newest first."""

    waits: list[WaitShape]


class SignalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A signal to send."""

    value: Any = None
    """Anything JSON can carry."""
    idempotency_key: Key | None = None
    """Send nothing where the job was sent a signal with this key."""


class Sent(msgspec.Struct, frozen=True):
    """The answer to a signal."""

    answer: str
    """delivered: the job waited for it. kept: for a wait to come. repeated: nothing was sent, since one with
    its idempotency key was sent before."""


@signals.get("/waits")
async def list_waits(
    ops: Ops, signal: Text | None = None, limit: Limit = 50, cursor: Cursor | None = None
) -> Waits:
    """List what jobs wait for, the newest wait first"""
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid(f"{one_line(cursor, 40)!r} is not a cursor; take it from a listing", "cursor")
    before = None if cursor is None else int(cursor)
    found = await ops.store.waits(limit, before=before, signal=signal)
    return Waits([WaitShape.of(wait) for wait in found])


@signals.get("")
async def list_waits_of(ops: Ops, id: int, signal: str | None = None) -> Waits:
    """List what a job waits for"""
    return Waits([WaitShape.of(wait) for wait in await ops.store.waits(job=id, signal=signal)])


@signals.post("/jobs/{id}/signals/{name}")
async def send_signal(ops: Ops, id: int, name: str, body: SignalBody) -> Sent:
    """Send a signal to a job that waits for it, or will

    Where the job waits for a value of a type, one that cannot be of it is refused, and the wait goes on; the
    handler's own type decides in the end. The timeline does not show the value: it may be a secret."""
    try:
        answer = await ops.app.job(id).asignal(name, body.value, idempotency_key=body.idempotency_key)
    except InvalidPayload as error:
        raise Invalid(one_line(str(error)), "value") from error
    ops.did(f"signal {name}: {answer}", said=f"{id} {name} {answer}", job=id)
    return Sent(answer)
