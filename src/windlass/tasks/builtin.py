"""Tasks that every app knows without being told [K9]."""

from __future__ import annotations

from typing import Any, Final

ECHO: Final = "windlass.echo"


async def echo(value: Any = None) -> Any:
    """Return what was passed: enough to see that enqueue, worker and result work together."""
    return value
