"""The values a run yields, as they are printed and as they stand in the JSON. Nothing is measured here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec


class Taken(msgspec.Struct, frozen=True):
    """One scenario, once: how many jobs in how many seconds, and per third where it ran by the clock."""

    jobs: int
    seconds: float
    thirds: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Jobs per second; in the last third only, where there are thirds."""
        return self.thirds[-1] if self.thirds else self.jobs / max(self.seconds, 1e-9)


class Figure(msgspec.Struct, frozen=True):
    """A value measured once per round. `median` is the answer; the spread says how far to trust it."""

    median: float
    low: float
    high: float
    unit: str
    rounds: list[float]


class Cpu(msgspec.Struct, frozen=True):
    """CPU seconds per 1,000 jobs. `server` is None where its processes cannot be seen from here."""

    client: float
    server: float | None


class Aim(msgspec.Struct, frozen=True):
    """What a figure should reach, and whether it did in this run."""

    figure: str
    value: float
    aim: str
    met: bool


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says of the store that it is about, and how many seconds the run on it took."""

    store: str
    place: str
    versions: dict[str, str]
    settings: dict[str, Any]
    seconds: float


class StoreReport(Where, frozen=True, kw_only=True):
    """Everything measured on one store."""

    rounds: int
    rates: dict[str, Figure]
    ratios: dict[str, Figure]
    cpu_per_1000_jobs: dict[str, Cpu]
    aims: list[Aim]
    wal_bytes_per_job: dict[str, Figure] = {}
    dead_tuples: dict[str, int] = {}
    others: dict[str, Figure] = {}
    """What is neither a rate nor a ratio: latencies, the cost of standing idle."""
    notes: list[str] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run."""

    windlass: str
    measured_at: str
    machine: dict[str, Any]
    plan: dict[str, Any]
    stores: list[StoreReport]


def figure(values: Sequence[float], unit: str) -> Figure:
    """The median of the rounds, with its spread."""
    kept = [_rounded(value) for value in values]
    return Figure(_rounded(statistics.median(values)), min(kept), max(kept), unit, kept)


def ratio(over: Sequence[float], under: Sequence[float]) -> Figure:
    """Over ÷ under, round by round: the two ran side by side, so what slowed one slowed the other."""
    return figure([a / max(b, 1e-9) for a, b in zip(over, under, strict=True)], "×")


def at_least(name: str, value: float, aim: float) -> Aim:
    """An aim to reach."""
    return Aim(name, value, f">= {aim:,g}", value >= aim)


def at_most(name: str, value: float, aim: float) -> Aim:
    """An aim to stay below."""
    return Aim(name, value, f"<= {aim:,g}", value <= aim)


def _rounded(value: float) -> float:
    return round(value, 1) if value >= 100 else float(f"{value:.4g}")
