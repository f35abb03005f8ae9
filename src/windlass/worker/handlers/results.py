"""The return value of a function, as it is kept with its job [O8], in a worker and in a pool's child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.codec import Purpose, seal
from windlass.endings import Dead
from windlass.errors import EnqueueError
from windlass.running.encoding import encode

if TYPE_CHECKING:
    from windlass.tasks.task import RegisteredTask


def keep(value: Any, task: RegisteredTask[..., Any] | None = None) -> str | None:
    """The value as JSON text, None for None; with its task, as the store keeps it. Raises Dead for one that
    cannot be kept."""
    if value is None:
        return None
    try:
        text = encode(value)
    except EnqueueError as error:
        # It ran to its end: trying again would only repeat what it did.
        raise Dead(f"its return value cannot be kept: it {error}") from error
    if task is None or task.app.codec is None:
        return text
    return seal(task.app.codec, text, Purpose("result", task.name))
