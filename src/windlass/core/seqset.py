"""Sets of seqs as sorted half-open ranges, the Python side of PostgreSQL's int8multirange."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = list[tuple[int, int]]


def compress(seqs: Iterable[int]) -> Ranges:
    """Turn seqs in any order into sorted, disjoint, half-open ranges."""
    ranges: Ranges = []
    ordered = sorted(seqs)
    if not ordered:
        return ranges
    # A claim is nearly always one run of numbers, so look for that before walking.
    if ordered[-1] - ordered[0] == len(ordered) - 1 and len(set(ordered)) == len(ordered):
        return [(ordered[0], ordered[-1] + 1)]
    start = stop = ordered[0]
    for seq in ordered:
        if seq > stop:
            ranges.append((start, stop))
            start = seq
        stop = seq + 1 if seq >= stop else stop
    ranges.append((start, stop))
    return ranges


def literal(ranges: Ranges) -> str:
    """The text form that PostgreSQL reads as int8multirange."""
    return "{" + ",".join(f"[{lower},{upper})" for lower, upper in ranges) + "}"


def parse(text: str) -> Ranges:
    """Read PostgreSQL's text form of an int8multirange without infinite bounds."""
    spans = text.strip("{}").replace("),", ");").split(";") if text != "{}" else []
    return [(int(lower[1:]), int(upper[:-1])) for lower, upper in (span.split(",") for span in spans)]


def contains(ranges: Ranges, seq: int) -> bool:
    """Return whether a seq lies in one of the ranges."""
    return any(lower <= seq < upper for lower, upper in ranges)
