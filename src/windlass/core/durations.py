"""How people write spans of time and sizes: "5s", "1h30m", "256MiB", a number, a timedelta.

Readers raise a plain ValueError that shows how to write it; the caller adds which option was wrong.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, TypeAlias

Duration: TypeAlias = float | str | timedelta
"""A span of time: seconds as a number, a text such as "30s" or "1h30m", or a timedelta."""

Size: TypeAlias = int | str
"""A number of bytes, or a text such as "256MiB"."""

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES: Final = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
}
HUGE: Final = 1e300
"""The longest duration. Some larger numbers are no float."""
_TERM: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")
_WHOLE: Final = re.compile(rf"(?:{_TERM.pattern})+")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)?")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


def seconds(value: Duration) -> float:
    """Read a span of time as seconds, never negative."""
    span: float
    if isinstance(value, timedelta):
        span = value.total_seconds()
    elif isinstance(value, str):
        span = _parse_seconds(value.strip())
    elif type(value) in (int, float):
        span = float(value) if -HUGE < value < HUGE else math.inf
    else:
        raise ValueError(f"{value!r} is not a span of time; give seconds, a text like '5m', or a timedelta")
    if not math.isfinite(span) or span < 0:
        raise ValueError(f"{value!r} is not a span of time: it must be finite and not negative")
    return span


def duration_text(span: float) -> str:
    """Seconds as people write them, in the largest unit that needs no fraction: 30d, 1h, 90s."""
    for unit in ("d", "h", "m"):
        if span >= _SECONDS[unit] and span % _SECONDS[unit] == 0:
            return f"{int(span // _SECONDS[unit])}{unit}"
    return f"{span:g}s"


def size(value: Size) -> int:
    """Read a size as bytes. kB, MB, GB count in thousands; KiB, MiB, GiB in 1024s."""
    if type(value) is int and value >= 0:
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = (found[2] or "B").replace("KB", "kB") if found else ""
    if found is None or unit not in _BYTES or float(found[1]) > HUGE:
        raise ValueError(f"{value!r} is not a size; write it like 512kB, 256MiB or 10GiB, or give bytes")
    return int(float(found[1]) * _BYTES[unit])


def _parse_seconds(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a span of time; write it like 500ms, 30s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _TERM.findall(text))
