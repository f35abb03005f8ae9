"""Tasks that every app knows without being told [K9]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from windlass.endings import Dead
from windlass.running.context import Context

if TYPE_CHECKING:
    from windlass.app import Windlass

ECHO: Final = "windlass.echo"


async def echo(value: Any = None) -> Any:
    """Return what was passed: enough to see that enqueue, worker and result work together."""
    return value


def group_ender(app: Windlass) -> Callable[..., Any]:
    """The handler of `windlass.group` for this app."""

    async def end_group(ctx: Context, name: str) -> dict[str, int]:
        """Succeed where all jobs of the group have, and return how many ended how."""
        counts = dict(await app._store_handle().acall(lambda store: store.group_counts(ctx.id)))
        total = sum(counts.values())
        failed = total - counts.get("succeeded", 0) - counts.get("gone", 0)
        if failed:
            raise Dead(f"{failed} of the {total} jobs of group {name!r} did not succeed")
        return counts

    return end_group
