"""The audit trail: what operators did, as events of the timeline [M2]. An entry has its text, and the job,
queue or task that it belongs to.

`record` writes entries where one call does one thing: a command, a page of Django's admin. Mission Control,
where calls overtake each other, has `windlass.web.service.audit`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from windlass.presentation.text import one_line
from windlass.store.protocol import Store
from windlass.store.records import Event, Report

_MAX_TEXT: Final = 500
_MAX_NAME: Final = 80


class AuditEntry(msgspec.Struct, frozen=True):
    """One thing that an operator did."""

    text: str
    job: int | None = None
    queue: str = ""
    task: str = ""


def events(entries: Iterable[AuditEntry], at: float, by: str) -> list[Event]:
    """Entries as events at this time, done by the operator of this name."""
    who = one_line(by, _MAX_NAME)
    return [
        Event(
            at=at,
            kind="operator",
            text=one_line(entry.text, _MAX_TEXT),
            job=entry.job,
            queue=entry.queue,
            task=entry.task,
            worker=who,
        )
        for entry in entries
    ]


# -- duties ---------------------------------------------------------------------------------------------


def duty(name: str, text: str) -> AuditEntry:
    """A duty of the coordinator was done by hand."""
    return AuditEntry(f"maintain {name}: {text}")


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Name the settings that were changed, and their values."""
    return ", ".join(f"{name}={value}" for name, value in changes.items()) or "nothing"


# -- writing them ---------------------------------------------------------------------------------------

TIMEOUT: Final = 5.0
"""Seconds that an action waits for the store to take its entries."""


async def record(store: Store, entries: Iterable[AuditEntry], by: str) -> str | None:
    """Write what was done, and by whom. Never raises, since the action is done. Returns the type of the
    error where it could not be written, for the caller's log."""
    if not (done := list(entries)):
        return None
    try:
        async with asyncio.timeout(TIMEOUT):
            report = Report(events=events(done, await store.now(), by))
            await store.report(secrets.randbits(62) | 1, 1, report)
    except Exception as error:  # noqa: BLE001 - the action is done, whether it is recorded or not
        return type(error).__name__
    return None
