"""Watching one parent until it has ended: `windlass parent show --watch`, drawn live or a line of JSON a
frame."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from windlass.cli.output import console, print_json, show, watch
from windlass.cli.parents.page import draw
from windlass.core.states import FINISHED
from windlass.operations.operation import Ops
from windlass.operations.parents import NotSplit, ParentView, show_parent
from windlass.presentation.text import iso

EVERY: Final = 1.0
SHARE: Final = 5
"""A parent is read again only after this many times as long as that took the last time: its parts may be
many."""
_REST: Final = 24
"""Lines of a screen that the table of parts leaves to the others."""


class Watched:
    """A parent over some time. It may be one that is not split yet."""

    def __init__(self, ops: Ops, id: int) -> None:
        self._ops = ops
        self._id = id
        self._state = ""
        self._due = 0.0
        self.parent: ParentView | None = None
        """How it stood when it was last looked at; None before it is split."""

    @property
    def ended(self) -> bool:
        return self.parent is not None and self.parent.state in FINISHED

    async def look(self) -> None:
        """Look again. Raises NotFound where it is no parent and will not be one."""
        began = time.monotonic()
        if began < self._due:
            return
        try:
            self.parent = await show_parent(self._ops, self._id)
        except NotSplit as refusal:
            self._state = refusal.state
        ended = time.monotonic()
        self._due = ended + SHARE * (ended - began)

    def frame(self, width: int, height: int | None = None) -> RenderableType:
        """Draw what there is to see."""
        if self.parent is None:
            return Text(f"job {self._id} is {self._state}; a worker will split it into parts")
        return draw(self.parent, width, 20 if height is None else max(height - _REST, 3))

    def as_json(self) -> dict[str, Any]:
        """Return the parent and the time, as one document."""
        waits = {"state": self._state} if self.parent is None else {}
        return {"at": iso(time.time()), "parent": self.parent, **waits}


async def watch_parent(id: int, as_json: bool, ops: Ops) -> ParentView | None:
    """Watch until it has ended, or until q. Return how it stood last, None where it was not even split."""
    watched = Watched(ops, id)
    await watched.look()
    await (_print(watched) if as_json else _draw(watched))
    return watched.parent


async def _print(watched: Watched) -> None:
    print_json(watched.as_json(), indent=None)
    while not watched.ended:
        await asyncio.sleep(EVERY)
        await watched.look()
        print_json(watched.as_json(), indent=None)


async def _draw(watched: Watched) -> None:
    """The last frame stays on the screen."""
    screen = console()
    frame = partial(watched.frame, screen.width)
    await watch(lambda: frame(screen.height), watched.look, EVERY, lambda: watched.ended)
    show(frame())
