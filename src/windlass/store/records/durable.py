"""What a job that goes on where it stopped has behind it: its steps [W1]."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job that is done, or a sleep that has begun. Written once and never changed."""

    name: str
    result: str = "null"
    """What it returned, as JSON text."""
    code: str = ""
    """Which code made the result: the name of its function, and a version where one was given."""
    attempt: int = 1
    """The attempt of the job that it belongs to."""
    sleep: float | None = None
    """A sleep: the seconds that it takes from when it is written."""
    left: float | None = None
    """A sleep: the seconds that are left of it, by the store's clock, as it is read."""
    at: float | None = None
    """When it was written, by the store's clock."""
