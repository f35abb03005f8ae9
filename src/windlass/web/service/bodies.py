"""A schedule as a program asks for it over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.operations.bodies import NewJobBody

Span = Annotated[float | str | None, msgspec.Meta(description="Seconds, or a text such as 5m.")]


class ScheduleClock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When a schedule fires, and its policies. A field that is null or left out stays as it is, or is the
    default."""

    cron: str | None = None
    """Five fields, six with seconds first, @daily, or @every 10s."""
    every: Span = None
    """Instead of an expression: fire once in each such span."""
    tz: str | None = None
    missed: Missed | None = None
    overlap: Overlap | None = None
    grace: Span = None
    jitter: Span = None

    def clock(self) -> dict[str, Any]:
        """What was given besides the expression."""
        names = [name for name in ScheduleClock.__struct_fields__ if name != "cron"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class NewScheduleBody(ScheduleClock, kw_only=True, forbid_unknown_fields=True):
    """A schedule to make at run time, and the job that it enqueues."""

    name: str
    job: NewJobBody


class ScheduleChanges(ScheduleClock, kw_only=True, forbid_unknown_fields=True):
    """What to change of a schedule."""

    job: NewJobBody | None = None
    """What it enqueues from now on, with all its options; null: as before."""
