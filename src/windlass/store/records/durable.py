"""The waits of a job [W2], and its stream [W3]."""

from __future__ import annotations

import msgspec

from windlass.core.states import State
from windlass.store.records.claim import ClaimedJob
from windlass.store.records.step import Step


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait, as a handler asks for it [W2]."""

    name: str
    """The step that the wait is."""
    signal: str
    timeout: float | None = None
    """Seconds from when it is first asked; None: for ever."""
    attempt: int = 1
    shape: str | None = None
    """The JSON schema of the value, for the form that an operator fills in."""


class Awaited(msgspec.Struct, frozen=True):
    """How a wait stands."""

    step: Step | None = None
    """The end of the wait: the value, or a timeout. None: it goes on."""
    left: float | None = None
    """The seconds that are left of it by the store's clock; None: it waits for ever, or it is over."""


class WaitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits for a signal."""

    job: int
    task: str
    queue: str
    signal: str
    since: float
    until: float | None = None
    shape: str | None = None
    """The JSON schema of the value that it waits for."""
    name: str = ""
    """The step that the wait is."""
    number: int = 0
    """Its place in the list of all."""


class Once(msgspec.Struct, frozen=True):
    """The right to send a signal once."""

    token: str
    lasts: float | None = None
    """The seconds for which the store remembers that it has done so, and refuses another. None: it is an
    idempotency key, kept as long as those of jobs, and another is answered with "repeated" [E7]."""


class Emits(msgspec.Struct, frozen=True, kw_only=True):
    """The events that one run emitted since its last write, on their way to the store."""

    job: ClaimedJob
    after: int | None
    """The position of the last event that this run has written; None: it has written none."""
    n: int
    """How many events these are, at least one."""
    events: str
    """Their values as the JSON text of a list, which a codec may have sealed."""


class Emitted(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a job that were written together."""

    position: int
    """The position of the last of them, from 1 for the first event of the job."""
    n: int
    attempt: int
    """The attempt that emitted them."""
    run: int
    """The run that emitted them, from 1: a run that crashed or was handed back charges no attempt."""
    at: float
    """When they were written, by the store's clock."""
    events: str
    """As in `Emits`."""

    @property
    def first(self) -> int:
        """The position of the first of them."""
        return self.position - self.n + 1


class StreamPage(msgspec.Struct, frozen=True):
    """A piece of a stream, and where its job stood at that very moment, if that was looked up."""

    batches: list[Emitted]
    """In order; the first may begin before the position that was asked for."""
    state: State | None
    """None: there is no such job, or there are batches and nobody asked."""
    full: bool = False
    """True if there may be more at once."""
