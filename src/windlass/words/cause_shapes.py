"""The keys in JSON of what jobs died of; see `windlass.words.job_shapes`."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.store.measures import Causes
from windlass.words.text import iso


class CauseShape(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one task whose last failure was of one type; "" where none is kept: poison, parents."""

    task: str
    error: str
    jobs: int
    last_at: str
    message: str
    """Of the one that died last: what its last failure said, or the reason it died of."""


class CausesShape(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs died of, the largest group first."""

    groups: list[CauseShape]
    looked: int
    """How many dead jobs were looked at: the newest."""
    more: bool
    """There are older ones, which were not."""


def causes_shape(causes: Causes) -> CausesShape:
    """What jobs died of, as JSON has it."""
    groups = [
        CauseShape(
            task=group.task,
            error=group.error,
            jobs=group.jobs,
            last_at=iso(group.last_at) or "",
            message=group.message,
        )
        for group in causes.groups
    ]
    return CausesShape(groups=groups, looked=causes.looked, more=causes.more)


def causes_as_json(causes: Causes) -> dict[str, Any]:
    """What jobs died of, as commands print it."""
    plain: dict[str, Any] = msgspec.to_builtins(causes_shape(causes))
    return plain
