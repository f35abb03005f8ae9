"""Run times as counts per bucket that can be added up, and percentiles of them.

Buckets grow by a factor of 2^(1/4): a percentile is right to within 10 %, over all that there is in 64 or so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

PER_DOUBLING: Final = 4
_LEAST: Final = 0.01
"""Milliseconds; what is shorter counts as that."""


def bucket(ms: float) -> int:
    """The bucket of a run time."""
    return round(math.log2(max(ms, _LEAST)) * PER_DOUBLING)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The run time in milliseconds that this share of all runs did not exceed; None without any run."""
    total = sum(counts.values())
    seen = 0
    for key in sorted(counts):
        seen += counts[key]
        if seen >= share * total > 0:
            return float(2.0 ** (key / PER_DOUBLING))
    return None
