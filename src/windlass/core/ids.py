"""Identity is position: a job id packs its lane (19 bits) and seq (44 bits) into a positive bigint.

Lane 0 is reserved for jobs that had no position when they were created (scheduled or keyed ones); they take
their seq from a sequence of their own and carry the id with them when they are offered later.
"""

from __future__ import annotations

from typing import Final

SEQ_BITS: Final = 44
LANE_BITS: Final = 19
MAX_SEQ: Final = (1 << SEQ_BITS) - 1
MAX_LANE: Final = (1 << LANE_BITS) - 1
RESERVED_LANE: Final = 0
MAX_POSITION: Final = (1 << 63) - 1
"""The largest position of an event in a stream that a store can be asked for."""
MAX_ID: Final = (1 << SEQ_BITS + LANE_BITS) - 1


def pack(lane: int, seq: int) -> int:
    """Return the id of the job at this position."""
    if not (0 <= lane <= MAX_LANE and 0 < seq <= MAX_SEQ):
        raise ValueError(f"no such position: lane {lane}, seq {seq}")
    return lane << SEQ_BITS | seq


def read(word: str) -> int | None:
    """An id as it is written in addresses, forms and commands; None for what can be none."""
    if word.isascii() and word.isdecimal() and len(word) < 20 and 0 < int(word) <= MAX_ID:
        return int(word)
    return None
