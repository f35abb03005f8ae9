"""Causes of death of dead jobs, for the stores that group them in Python. PostgreSQL groups them in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from windlass.store.records import Cause


class Death(NamedTuple):
    """A dead job, as far as it counts here: its task, the type of its last failure, when it died, and where
    it is found."""

    task: str
    error: str
    at: float
    job: int


def by_cause(deaths: Iterable[Death], last_words: Callable[[int], str]) -> list[Cause]:
    """Dead jobs by task and type of failure, the largest group first; the last words are asked of the job of
    each that died last."""
    counts: dict[tuple[str, str], int] = {}
    latest: dict[tuple[str, str], Death] = {}
    for death in deaths:
        key = (death.task, death.error)
        counts[key] = counts.get(key, 0) + 1
        if key not in latest or death.at > latest[key].at:
            latest[key] = death
    groups = [
        Cause(task=task, error=error, jobs=counts[task, error], last_at=last.at, message=last_words(last.job))
        for (task, error), last in latest.items()
    ]
    return sorted(groups, key=lambda group: (-group.jobs, -group.last_at, group.task, group.error))
