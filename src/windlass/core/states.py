"""The words for where a job stands: states, outcomes and priorities. No behaviour."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, Literal, TypeAlias

StateName: TypeAlias = Literal[
    "scheduled", "ready", "running", "retrying", "succeeded", "dead", "cancelled", "splitting", "waiting"
]
PriorityName: TypeAlias = Literal["urgent", "high", "normal", "low"]
"""These as text, for type checkers, which refuse a word that is misspelt."""


class State(StrEnum):
    """Where a job stands, as users see it in Python, SQL, API and pages."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SPLITTING = "splitting"
    """A parent that is being planned into parts."""
    WAITING = "waiting"
    """A parent that waits for its parts; a part that waits to be offered."""


FINISHED: Final = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})


class Kind(StrEnum):
    """How one claimed attempt ended.

    The first five end the job. SPLIT makes it a parent, which waits for its parts. The others offer it
    again: RETRY after a delay, SNOOZE, THROTTLED and UNKNOWN after a delay without charging the attempt,
    RELEASED and LOST at once without charging it. DELETED and REPLACED are written only for waiting jobs
    that an operator or a producer took back.
    """

    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    DELETED = "deleted"
    REPLACED = "replaced"
    SPLIT = "split"
    RETRY = "retry"
    SNOOZE = "snooze"
    THROTTLED = "throttled"
    UNKNOWN = "unknown"
    RELEASED = "released"
    LOST = "lost"


TERMINAL: Final = frozenset({Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED, Kind.DELETED, Kind.REPLACED})
WORKERS_OWN: Final = frozenset(Kind) - {Kind.DELETED, Kind.REPLACED, Kind.LOST, Kind.SPLIT}
"""Outcomes that a worker may report of its own jobs; the others are for operators, producers, rescue and
`Store.split`."""


class Priority(IntEnum):
    """The four priorities of a queue; the smaller number is served first."""

    URGENT = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3

    @classmethod
    def parse(cls, value: Priority | str | int) -> Priority:
        """Accept a member, its number or its lower-case name; anything else is a ValueError."""
        if isinstance(value, str):
            try:
                return cls[value.upper()]
            except KeyError:
                names = ", ".join(member.name.lower() for member in cls)
                raise ValueError(f"unknown priority {value!r}; use one of {names}") from None
        return cls(value)
