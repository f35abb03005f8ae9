"""Findings of the doctor about any store: queues that nobody serves [K1], and jobs that need more tokens
than their budget can ever hold [F1]; and how far the reports of workers are from what ended [M7]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windlass.core.counts import plural
from windlass.store.records import Finding

CIRCLES: Final = 10
"""Groups that wait for themselves, of which a finding is made."""


def ok(name: str, text: str) -> Finding:
    """Something that is as it should be."""
    return Finding(name=name, text=text)


def warning(name: str, text: str, advice: str) -> Finding:
    """Something to see to soon."""
    return Finding(name=name, level="warning", text=text, advice=advice)


def error(name: str, text: str, advice: str) -> Finding:
    """Something that does not work, or may do harm."""
    return Finding(name=name, level="error", text=text, advice=advice)


def counts(ended: int, reported: int) -> Finding:
    """How many jobs have succeeded by what the store holds, and by the reports of workers [M7]."""
    if reported >= ended:
        return ok("counts", f"{plural(ended, 'job')} succeeded, all of them reported by workers")
    return ok(
        "counts",
        f"{plural(ended, 'job')} succeeded, and workers have reported {reported:,} of them so far; what one "
        "did not report before it died is missing in charts, not in counters",
    )


def unserved(queues: Iterable[tuple[str, int]]) -> list[Finding]:
    """Return findings about queues with ready jobs that no worker serves, from their names, and how many jobs
    wait in each."""
    return [
        warning(
            "queues",
            f"{plural(ready, 'job waits', 'jobs wait')} in queue {queue!r}, which no worker serves",
            f"windlass worker myapp:app -q {queue}",
        )
        for queue, ready in queues
    ] or [ok("queues", "every queue with ready jobs is served")]


def over(budgets: Iterable[tuple[str, int, int]]) -> list[Finding]:
    """Return findings about budgets that can never hold what some job needs, from name, how many such jobs
    wait, the highest need."""
    return [
        warning(
            "budgets",
            f"{plural(waiting, 'job needs', 'jobs need')} up to {plural(need, 'token')} of budget "
            f"{budget!r}, which can never hold as many",
            f"windlass budget set {budget} --burst {need}",
        )
        for budget, waiting, need in budgets
    ] or [ok("budgets", "no job needs more tokens than its budget can hold")]


def circles(found: Iterable[tuple[int, int]]) -> list[Finding]:
    """Return findings about groups that wait for a job which comes after them [W4], from the group and that
    job."""
    return [
        error(
            "groups",
            f"group {group} waits for job {job}, which comes after it, itself or by jobs between them: none "
            "of them ever runs",
            f"windlass job cancel {job}",
        )
        for group, job in found
    ] or [ok("groups", "no group waits for a job that comes after it")]
