"""Steps of a job as people and JSON see them: what is done, and the sleep that is on [W1] [W2]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.presentation.text import iso, kept_line, parsed
from windlass.store.records import Step

MAX_SHOWN: Final = 200
"""The newest steps of a job that are shown: a loop may have made any number."""
MAX_RESULT: Final = 4_000
"""Characters of a result, as JSON text, that are shown as they are; of a longer one so many."""


class StepShape(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is done, or a sleep that has begun."""

    name: str
    attempt: int
    """The attempt that did it."""
    at: str | None
    """When it was kept."""
    code: str
    """The function that made the result; empty for a sleep, "signal" or "timeout" for a wait."""
    result: Any
    """The result; null for a sleep. Of a long one its first characters, as text: see `cut`."""
    cut: bool
    """True if the result was too long to be shown in whole."""
    sleep: bool
    """True if it is a sleep, which has no result."""
    wakes_at: str | None
    """When a sleep that is on is over."""


def step_shapes(steps: Sequence[Step], now: float) -> list[StepShape]:
    """The newest steps, oldest first; `now` is the store's clock."""
    return [
        StepShape(
            name=step.name,
            attempt=step.attempt,
            at=iso(step.at),
            code=step.code,
            result=_result(step),
            cut=len(step.result) > MAX_RESULT,
            sleep=step.left is not None,
            wakes_at=None if step.left is None or step.left <= 0 else iso(now + step.left),
        )
        for step in steps[-MAX_SHOWN:]
    ]


def _result(step: Step) -> Any:
    if step.left is not None:
        return None
    return parsed(step.result) if len(step.result) <= MAX_RESULT else kept_line(step.result, MAX_RESULT)
