"""A group of jobs as commands, API and pages show it [W4]."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.core.counts import plural
from windlass.core.read_errors import READ_ERRORS
from windlass.store.protocol import Store
from windlass.store.records import JobRecord


class GroupShape(msgspec.Struct, frozen=True, kw_only=True):
    """A group of jobs, by the job that ends it."""

    id: str
    name: str | None
    """What it was opened as; None where that is sealed."""
    state: str
    """The state of the job that ends it."""
    total: int
    counts: dict[str, int]
    """How many of its jobs are in each state; `deleted`: not there any more, and had not succeeded; `gone`:
    past their retention."""
    reason: str | None


async def group_of(store: Store, end: JobRecord) -> GroupShape | None:
    """The group that a job ends; None: it ends none."""
    if not end.options.group_end:
        return None
    counts = await store.group_counts(end.id)
    return GroupShape(
        id=str(end.id),
        name=_name(end.payload),
        state=str(end.state),
        total=sum(counts.values()),
        counts=dict(counts),
        reason=end.reason,
    )


def _name(payload: str) -> str | None:
    try:
        found = msgspec.json.decode(payload)
    except READ_ERRORS:
        return None
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Such as "9 jobs: 7 succeeded, 2 running"."""
    total = sum(counts.values())
    parts = ", ".join(f"{n:,} {state}" for state, n in sorted(counts.items(), key=lambda each: -each[1]))
    return f"{plural(total, 'job')}: {parts}" if parts else "no jobs"
