"""How far a parent is, how fast it goes and how long it will take [P10]. Nothing is asked or shown here.

A parent counts in its splitter's unit (bytes, numbers, items); where its parts have no sizes, in parts. One
look at it gives the rate since it was split; two give the rate between them, which is the better one after a
pause, a redrive or a change of `parallel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

STEADY: Final = 10.0
"""Seconds between two looks from which on "nothing was saved" means that nothing moves; parts save once a
batch, so over less it means nothing."""


class Measured(Protocol):
    """The counts of a parent; `windlass.store.records.ParentRecord` is one."""

    @property
    def total(self) -> int: ...
    @property
    def succeeded(self) -> int: ...
    @property
    def dead(self) -> int: ...
    @property
    def cancelled(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def created_at(self) -> float: ...
    @property
    def finished_at(self) -> float | None: ...


Look = tuple[float, Measured]
"""A parent as it stood, and when that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a parent is. What cannot be told is None."""

    fraction: float
    """From 0 to 1."""
    percent: int
    """The percentage as a whole number; 100 only where every part has succeeded."""
    unit: Literal["size", "parts"]
    rate: float | None
    """Units per second; once it has ended, over all its time."""
    records_rate: float | None
    left: float | None
    """Seconds until its parts have ended, if it goes on like this; None once there is nothing to wait for."""


def progress(looks: Sequence[Look]) -> Progress:
    """How far a parent is, from one look or more, the latest last; the rate is that between the first and the
    last of them."""
    parent = looks[-1][1]
    unit: Literal["size", "parts"] = "size" if parent.size > 0 else "parts"
    done, whole = _amounts(parent, unit)
    fraction = min(max(done / whole, 0.0), 1.0) if whole > 0 else 1.0
    complete = parent.succeeded >= parent.total
    rate, records_rate = _rates(looks, unit)
    return Progress(
        fraction=fraction,
        percent=100 if complete and fraction >= 1 else min(int(fraction * 100), 99),
        unit=unit,
        rate=rate,
        records_rate=records_rate,
        left=_left(parent, whole - done, rate),
    )


def _amounts(parent: Measured, unit: str) -> tuple[int, int]:
    return (parent.done, parent.size) if unit == "size" else (parent.succeeded, parent.total)


def _rates(looks: Sequence[Look], unit: str) -> tuple[float | None, float | None]:
    """Return the rates of the unit and of records."""
    (then, before), (now, parent) = looks[0], looks[-1]
    since_split = _average(parent, now, unit)
    passed = now - then
    if parent.finished_at is not None or passed <= 0:
        return since_split
    done = _amounts(parent, unit)[0] - _amounts(before, unit)[0]
    records = parent.records - before.records
    if done < 0 or records < 0:  # a part began anew in between
        return since_split
    if done == records == 0 and passed < STEADY:
        return since_split
    return done / passed, records / passed


def _average(parent: Measured, now: float, unit: str) -> tuple[float | None, float | None]:
    passed = (now if parent.finished_at is None else parent.finished_at) - parent.created_at
    if passed <= 0:  # just split, or the store's clock is ahead of ours
        return None, None
    return _amounts(parent, unit)[0] / passed, parent.records / passed


def _left(parent: Measured, rest: int, rate: float | None) -> float | None:
    failed = parent.dead + parent.cancelled
    unended = parent.total - parent.succeeded - failed
    if parent.finished_at is not None or parent.cancel_requested or unended <= 0 or not rate:
        return None
    # What failed parts have left undone stays undone; by their number, since nobody adds up their rests.
    return max(rest, 0) * unended / (unended + failed) / rate
