"""Times as counts per bucket that can be added up, and percentiles of them.

Each doubling has eight buckets of the same width: a percentile is right to within 6 %, and between a
hundredth of a millisecond and an hour there are some two hundred. They are the exponent and the first three
bits of a floating-point number, so that many times are put into their buckets at once, without any
arithmetic: a worker that runs a hundred thousand jobs a second counts the time of each.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

PER_DOUBLING: Final = 8
_MIN: Final = 0.01
"""Milliseconds; what is shorter counts as that."""

_HIGHEST, _FIRST, _SECOND = (3, 7, 6) if sys.byteorder == "little" else (0, 0, 1)
"""Which 16 bits of a float are its highest, and which bytes these are: sign and 7 bits of the exponent, then
4 more of it and 4 of the fraction."""

_SIGN: Final = 0x8000
_BIAS: Final = 1023 * PER_DOUBLING


def bucket(ms: float) -> int:
    """The bucket of a time."""
    fraction, exponent = math.frexp(max(ms, _MIN))
    return (exponent - 1) * PER_DOUBLING + int((fraction - 0.5) * 2 * PER_DOUBLING)


def buckets(times: Iterable[float]) -> dict[int, int]:
    """How many of these times, in milliseconds, are in which bucket: the same as counting `bucket` of each,
    at a small part of the cost."""
    raw = array("d", times).tobytes()
    first, second = raw[_FIRST::8], raw[_SECOND::8]
    firsts = set(first)
    if len(firsts) == 1:  # all between 1 µs and 2 ms, or between that and two minutes: mostly so
        high = first[0] << 8
        words = {high | low: second.count(low) for low in set(second)}
    else:
        words = Counter(memoryview(raw).cast("H")[_HIGHEST::4])
    counts: dict[int, int] = {}
    for word, n in words.items():
        key = _SHORTEST if word >= _SIGN else max((word >> 1) - _BIAS, _SHORTEST)
        counts[key] = counts.get(key, 0) + n
    return counts


def bounds(key: int) -> tuple[float, float]:
    """From which time on, and up to which, both in milliseconds, a bucket counts."""
    return _lower(key), _lower(key + 1)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The time in milliseconds that this share of all runs did not exceed; None without any run."""
    total = sum(counts.values())
    seen = 0
    for key in sorted(counts):
        seen += counts[key]
        if seen >= share * total > 0:
            low, high = bounds(key)
            return 2 * low * high / (low + high)  # as far from both, in parts of them
    return None


def _lower(key: int) -> float:
    doublings, step = divmod(key, PER_DOUBLING)
    return math.ldexp(1.0 + step / PER_DOUBLING, doublings)


_SHORTEST: Final = bucket(_MIN)
