"""How long a job waits for a worker that knows its task [O4]: during a deploy the next one may."""

from __future__ import annotations

from typing import Final

FIRST_DELAY: Final = 10.0
LAST_DELAY: Final = 300.0
GIVE_UP_AFTER: Final = 86400.0


def unknown_delay(known_to_nobody: float) -> float:
    """Seconds to defer a job whose task nobody has known for so long: twice as long each time, within
    bounds."""
    return min(max(FIRST_DELAY, known_to_nobody), LAST_DELAY)
