"""How the slots of a queue are shared out over the workers that serve it [K1]. Numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST: Final = 64
"""Slots of one queue in one process, whatever the totals say."""

UNSIZED: Final = 16
"""Slots of a queue for which nobody, neither store nor flags, has named a number."""


def split(total: int, workers: Sequence[int]) -> dict[int, int]:
    """Share `total` slots out evenly: 10 over three workers are 4, 3 and 3.

    The workers that come first get what is left over, so pass them in the order in which they joined: then a
    newcomer takes nothing from the oldest but what it must. What a worker cannot use, because it has the most
    already, goes to nobody.
    """
    if not workers:
        return {}
    each, rest = divmod(max(total, 0), len(workers))
    return {worker: min(each + (place < rest), MOST) for place, worker in enumerate(workers)}


def share(total: int, assigned: int | None, serving: int) -> int:
    """The slots of one worker: those assigned to it, or a fair share where nobody has assigned any yet.

    The share is rounded up, and it is never the full total where others serve the queue, too: also not for
    one that it was all assigned to before the others came.
    """
    fair = -(-max(total, 0) // max(serving, 1))
    return max(0, min(fair if assigned is None else assigned, fair, MOST))
