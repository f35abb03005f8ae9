"""From the fine histograms of `core.histogram`, in milliseconds, to the few fixed bounds that Prometheus is
told, in seconds.

A fine bucket counts below a bound when its middle does, so a bound is right to within 6 %, as percentiles
are. Counts are exact; the sum is made of the middles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from windlass.core.histogram import bounds

BOUNDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip
"""Seconds."""

_NAMES: Final = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")


def coarse(counts: Mapping[int, int]) -> tuple[list[tuple[str, float]], float]:
    """How many took at most so long, for each bound and for ever; and the sum of all in seconds."""
    between = [0] * len(_NAMES)
    total = 0.0
    for key in sorted(counts):
        middle = sum(bounds(key)) / 2 / 1000.0
        between[bisect_left(BOUNDS, middle)] += counts[key]
        total += middle * counts[key]
    return list(zip(_NAMES, accumulate(between), strict=True)), total
