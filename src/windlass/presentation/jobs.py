"""Numbers of a job as texts."""

from __future__ import annotations

from windlass.core.states import Priority


def priority_name(priority: int) -> str:
    """urgent, high, normal or low."""
    return Priority(priority).name.lower()


def id_text(number: int | None) -> str | None:
    """An id as JSON has it."""
    return None if number is None else str(number)
