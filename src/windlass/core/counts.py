"""How many of something there are, in words: the number with its noun."""

from __future__ import annotations


def plural(count: int, noun: str, many: str | None = None, *, most: int | None = None) -> str:
    """Return a count with its noun: 1 job, 2,000 jobs. `many` is for what takes more than an s, or has a verb
    behind it: "job waits", "jobs wait". A count that has come to `most` was broken off there: 10,000+
    jobs."""
    if count == 1:
        return f"1 {noun}"
    number = f"{count:,}" if most is None or count < most else f"{most:,}+"
    return f"{number} {many or noun + 's'}"
