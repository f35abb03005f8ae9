"""How people write rates: "5000/h", "10/s", "10/30s", a number for that many a second."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from windlass.core.durations import HUGE, seconds

Rate: TypeAlias = float | str
"""A number per second, or a text such as "5000/h"."""

_UNITS: Final = (("s", 1), ("m", 60), ("h", 3600), ("d", 86400))
_WHOLE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:\s*/\s*(\d.*|ms|s|m|h|d|w))?")
_HOW: Final = "write it like 10/s, 100/m, 5000/h or 10/30s, or give a number per second"


def per_second(value: Rate) -> float:
    """Read a rate, per second, never negative. ValueError says how to write it."""
    if isinstance(value, str):
        return _parse(value.strip())
    if type(value) not in (int, float) or not 0 <= value < HUGE:
        raise ValueError(f"{value!r} is not a rate; {_HOW}")
    return float(value)


def rate_text(rate: float) -> str:
    """A rate as people write it: by the shortest unit in which it is a plain number, and one at least."""
    for unit, length in _UNITS:
        shown = round(rate * length, 2)
        if shown >= 1 and math.isclose(shown, rate * length, rel_tol=1e-9):
            return f"{_plain(shown)}/{unit}"
    unit, length = next((each for each in _UNITS if rate * each[1] >= 1), _UNITS[-1])
    return f"{_plain(rate * length)}/{unit}" if rate else "0/s"


def _parse(text: str) -> float:
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a rate; {_HOW}")
    try:
        span = seconds(_with_number(found[2])) if found[2] else 1.0
    except ValueError as error:
        raise ValueError(f"{text!r} is not a rate: {error}") from None
    if not span:
        raise ValueError(f"{text!r} is not a rate: its time is zero; {_HOW}")
    rate = float(found[1]) / span
    if rate > HUGE:
        raise ValueError(f"{text!r:.40} is not a rate: it is too high; {_HOW}")
    return rate


def _with_number(span: str) -> str:
    return span if span[0].isdigit() else f"1{span}"


def _plain(number: float) -> str:
    """Without an exponent, and without digits that say nothing."""
    digits = 2 if number >= 1 else 6
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")
