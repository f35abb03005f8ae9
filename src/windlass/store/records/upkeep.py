"""Results of upkeep: promotion, the turn of the logs, retention, migrations, the doctor."""

from __future__ import annotations

from typing import Literal

import msgspec


class Promoted(msgspec.Struct, frozen=True):
    """The jobs that one promotion step moved into lanes: due deferred jobs, and keyed jobs admitted in turn
    [C3]."""

    due: int = 0
    admitted: int = 0
    next_in: float | None = None
    """Seconds until there is more to do: when a budget that jobs wait for has its next token [F1], or at once
    where a step was too small."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `windlass doctor` looked at, and what to do about it."""

    name: str
    level: Literal["ok", "warning", "error"] = "ok"
    text: str
    advice: str = ""


class Rotation(msgspec.Struct, frozen=True):
    """The result of one turn of the logs; `blocked` says in words what kept a segment from being
    reclaimed."""

    reclaimed: bool = False
    moved: int = 0
    offered_again: int = 0
    removed: int = 0
    blocked: str | None = None


class Expired(msgspec.Struct, frozen=True):
    """The numbers of rows that retention removed besides the logs."""

    dead: int = 0
    keys: int = 0
    workers: int = 0
    parents: int = 0
    more: bool = False
    """One bounded step was not enough for something, be it counted here or not."""


class Migration(msgspec.Struct, frozen=True):
    """The schema version before and after `migrate`."""

    before: int
    after: int
