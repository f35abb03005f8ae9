"""The past of a job: its steps [W1], and the ends of its waits [W2]."""

from __future__ import annotations

from typing import Final

import msgspec

SIGNAL: Final = "signal"
TIMEOUT: Final = "timeout"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job that is done, or a sleep that has begun. Written once and never changed."""

    name: str
    result: str = "null"
    """The returned value, as JSON text."""
    code: str = ""
    """Which code made the result: the name of its function, and a version where one was given. Of a wait
    SIGNAL or TIMEOUT, which no function is called."""
    attempt: int = 1
    """The attempt of the job that it belongs to."""
    sleep: float | None = None
    """A sleep: the seconds that it takes from when it is written."""
    left: float | None = None
    """A sleep: the seconds that are left of it, by the store's clock, as it is read."""
    at: float | None = None
    """When it was written, by the store's clock."""


class KnownSteps(msgspec.Struct, frozen=True):
    """All steps that a job had when it was claimed, so that its handler need not ask for them."""

    steps: tuple[Step, ...]
    at: float
    """When the claim was answered, by the monotonic clock: `left` of a sleep counts from then."""
