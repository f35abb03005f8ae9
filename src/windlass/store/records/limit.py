"""Gates that jobs wait at [F3], and how far ordering keys have come [F6]."""

from __future__ import annotations

import msgspec


class GateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that jobs wait at; its name says what it is (see `core.flow.gates`)."""

    name: str
    passes: int
    """Jobs beyond it."""
    waiting: int
    """Jobs on its waiting list, counted up to 10,000."""
    oldest: float
    """Seconds for which the first of them has waited."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ordering key has come [F6]. Its jobs are numbered from 1 as their turn comes."""

    queue: str
    key: str
    position: int
    """All up to this number have ended. It never falls."""
    at: float
    """When it last moved."""
    waiting: int
    """Jobs that have not ended, the one whose turn it is included; counted up to 10,000."""
    age: float
    """Seconds since the oldest of those was enqueued; 0 where there is none."""
