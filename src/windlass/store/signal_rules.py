"""The rules of signals [W2], for SQLite and the oracle; on PostgreSQL they are in sql/durable/signals.sql."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.core.texts import storable
from windlass.errors import InvalidOption, InvalidPayload, JobNotFound, PayloadTooLarge, SignalRefused
from windlass.store.fields import MAX_BYTES, MAX_KEY
from windlass.store.records import Once

MAX_KEPT: Final = 1000
"""Signals that wait to be taken by one job."""
_is_name: Final = re.compile(r"[^#/\x00-\x1f\x7f-\x9f]{1,100}").fullmatch


def check_name(name: object) -> None:
    """Raise InvalidOption for what cannot be the name of a signal."""
    if not isinstance(name, str) or not _is_name(name) or not storable(name):
        raise InvalidOption(
            f"{name!r} cannot be the name of a signal: use 1 to 100 characters without '#' and '/'"
        )


def check(name: str, value: str) -> None:
    """Raise for a signal that no store takes."""
    check_name(name)
    size = len(value.encode())
    if size > MAX_BYTES:
        raise PayloadTooLarge(
            f"the value of signal {name} has {size} bytes, more than 1 MiB; store the data elsewhere and "
            "send a reference to it"
        )
    try:
        msgspec.json.decode(value)
    except READ_ERRORS as error:
        raise InvalidPayload(f"the value of signal {name} is no JSON: {error}") from None


def check_state(job: int, state: str | None) -> None:
    """Raise for a job that takes no signals."""
    if state is None:
        raise JobNotFound(
            f"there is no job {job} to signal: it never existed, was deleted, or its retention has passed"
        )
    if state in ("succeeded", "dead", "cancelled"):
        raise SignalRefused(f"job {job} is {state} and takes no signals", "ended")


def check_kept(job: int, kept: int) -> None:
    """Raise where the job has not taken those that it was sent."""
    if kept >= MAX_KEPT:
        raise SignalRefused(
            f"job {job} has {kept} signals that it has not taken yet; send it more when it has taken some",
            "full",
        )


def keyed(job: int, key: object) -> Once | None:
    """An idempotency key of a signal to a job, as the store knows it. Raises InvalidOption for what is
    none."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY or not storable(key):
        raise InvalidOption(
            f"idempotency_key: {str(key)[:80]!r} is not a string of 1 to {MAX_KEY} characters"
        )
    return Once(f"{job}/{key}")


def used() -> SignalRefused:
    """The refusal of what may be sent once."""
    return SignalRefused("this signal was sent before", "used")


def reason(waits: Iterable[tuple[str, float, float | None]]) -> str | None:
    """Why a job waits, by signal, since when and until when."""
    found = [f"{signal}{_since(at, until)}" for signal, at, until in waits]
    return f"waits for signal {' and '.join(found)}" if found else None


def _since(at: float, until: float | None) -> str:
    rest = "" if until is None else f", until {_moment(until)}"
    return f" since {_moment(at)}{rest}"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
