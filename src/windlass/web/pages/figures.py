"""Numbers and times as pages write them: with separators, in units that people read, and a dash for what is
not known. Spans and capped counts are those of `windlass.presentation.text`."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from windlass.presentation.text import span

NONE: Final = "–"
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PRETTY: Final = 200_000
"""Characters of a payload that are shown at most."""


def number(value: float | None) -> str:
    """With thousands separators, or few digits where small: 12,345 or 0.25."""
    if value is None:
        return NONE
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """How long something took: 0.4 ms, 85 ms, 1.2 s, 3 min 20 s."""
    if value is None:
        return NONE
    if value < 1000:
        return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"
    return f"{value / 1000:.1f} s" if value < 60_000 else span(value / 1000)


def seconds(value: float | None) -> str:
    """A span of time, or a dash."""
    return NONE if value is None else span(value)


def size(value: float | None) -> str:
    """Bytes: 512 B, 1.4 GiB."""
    if value is None:
        return NONE
    place = 0
    while value >= 1024 and place < len(_SIZES) - 1:
        value, place = value / 1024, place + 1
    return f"{value:.0f} {_SIZES[place]}" if place == 0 or value >= 100 else f"{value:.1f} {_SIZES[place]}"


def percent(part: float, whole: float | None = 1.0) -> str:
    """A share of a whole: 42 %."""
    return NONE if not whole else f"{100 * part / whole:.0f} %"


def pretty(value: Any) -> str:
    """A JSON value laid out for reading, cut where it is very long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    if len(text) <= _PRETTY:
        return text
    return f"{text[:_PRETTY]}\n… and {len(text) - _PRETTY:,} characters more"


def moment(text: str | None) -> float | None:
    """An ISO time in seconds since the epoch."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def utc(text: str) -> str:
    """An ISO time as it reads where no script makes it local."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


def away(text: str | None, now: float) -> str:
    """How far away a time is: 3 min 20 s ago, in 5 s."""
    at = moment(text)
    if at is None:
        return NONE
    return f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
