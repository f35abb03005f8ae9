"""Caps of budgets: so many tokens in an hour, a day or a month, and when such a period ends [F1]. An hour is
one of UTC; days and months begin at midnight in the time zone of the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

from windlass.core.cron import zone

Period = Literal["hour", "day", "month"]
PERIODS: Final[tuple[str, ...]] = get_args(Period)
_HOUR: Final = 3600.0
LONGEST: Final = {"hour": _HOUR, "day": 27 * _HOUR, "month": 32 * 24 * _HOUR}
"""Seconds that a period takes at most: one that seems to last longer is of before the clock was set back."""

_TIMES: Final = {"": 1, "k": 1000, "M": 1_000_000, "G": 1_000_000_000}
_CAP: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*([kMG]?)\s*/\s*({'|'.join(PERIODS)})")


def cap_of(text: str) -> tuple[int, str]:
    """Read a cap, "2M/day": how many tokens in which period. Raises ValueError."""
    found = _CAP.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"{text!r} is not a cap; write it like 2M/day, 500k/month or 1000/hour")
    return int(float(found[1]) * _TIMES[found[2]]), found[3]


def cap_text(value: int | str) -> int | str:
    """Read a cap that may be a number alone, whose period is given elsewhere. Raises ValueError."""
    text = str(value).strip().replace("_", "")
    if text.isascii() and text.isdigit():
        return int(text)
    cap_of(text)
    return text


def with_period(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings of a budget with a cap such as "2M/day" as the two that a store knows. Raises
    ValueError."""
    cap = changes.get("cap")
    if not isinstance(cap, str):
        return changes
    most, per = cap_of(cap)
    if changes.get("cap_per", per) != per:
        raise ValueError(
            f"cap {cap!r} is per {per}, and cap_per is {changes['cap_per']!r}; say the same, or leave one out"
        )
    return {**changes, "cap": most, "cap_per": per}


def period_end(per: str, tz: str, now: float) -> float:
    """When the period ends that `now` is in."""
    place = zone(tz)
    begin = datetime.fromtimestamp(now, UTC).astimezone(place).replace(tzinfo=None)
    begin = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    match per:
        case "hour":
            return (now // _HOUR + 1) * _HOUR
        case "day":
            end = begin + timedelta(days=1)
        case "month":
            end = (begin.replace(day=1) + timedelta(days=32)).replace(day=1)
        case _:
            raise ValueError(f"{per!r} is not a period of a budget")
    # A midnight that comes twice, or never: the later one, as PostgreSQL has it.
    return max(end.replace(tzinfo=place, fold=fold).timestamp() for fold in (0, 1))
