"""Watching one parent until it has ended: `windlass parent show --watch`, drawn live or a line of JSON a
frame."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from functools import partial
from typing import Final

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from windlass.cli.output import console, print_json, show, watch
from windlass.cli.parents.page import Family, draw, is_to_be_split, look_at, not_a_parent
from windlass.core.progress import Look
from windlass.core.states import FINISHED
from windlass.presentation.parents import ParentShape
from windlass.presentation.text import Shape, iso
from windlass.store.protocol import Store

EVERY: Final = 1.0
SPAN: Final = 30.0
"""Seconds over which the rate is measured."""
SHARE: Final = 5
"""Parts are read again only after so many times as long as that took the last time: they may be many."""
_REST: Final = 24
"""Lines of a screen that the table of parts leaves to the others."""


class Watched:
    """A parent over some time. It may be one that is not split yet."""

    def __init__(self, store: Store, id: int) -> None:
        self._store = store
        self._id = id
        self._looks: deque[Look] = deque()
        self._family: Family | None = None
        self._state = ""
        self._due = 0.0

    @property
    def family(self) -> Family | None:
        """How it stood when it was last looked at; None before it is split."""
        return self._family

    @property
    def ended(self) -> bool:
        return self._family is not None and self._family.parent.state in FINISHED

    async def look(self) -> None:
        """Look again. Raises ClickException where it is no parent and will not be one."""
        parent = await self._store.parent(self._id)
        if parent is None:
            job = await self._store.job(self._id)
            if job is None or not is_to_be_split(job):
                raise click.ClickException(not_a_parent(self._id, job))
            self._state = str(job.state)
            return
        self._looks.append((time.time(), parent))
        while self._looks[-1][0] - self._looks[0][0] > SPAN:
            self._looks.popleft()
        before, began = self._family, time.monotonic()
        if before is None or began >= self._due or parent.state in FINISHED:
            self._family = await look_at(self._store, parent)
            self._due = time.monotonic() + SHARE * (time.monotonic() - began)
        else:
            self._family = msgspec.structs.replace(before, parent=parent)

    def frame(self, width: int, height: int | None = None) -> RenderableType:
        """What there is to see."""
        if self._family is None:
            return Text(f"job {self._id} is {self._state}; a worker will split it into parts")
        most = 20 if height is None else max(height - _REST, 3)
        return draw(self._family, list(self._looks), width, most)

    def as_json(self) -> Shape:
        """The same as one document, without the parts."""
        if self._family is None:
            return {"at": iso(time.time()), "parent": None, "state": self._state}
        return {
            "at": iso(self._looks[-1][0]),
            "parent": ParentShape.of(self._family.parent, *self._looks, retrying=self._family.retrying),
            "states": {str(state): count for state, count in Counter(self._family.parts.states).items()},
        }


async def watch_parent(store: Store, id: int, as_json: bool) -> Family | None:
    """Watch until it has ended, or until q; how it stood last, None where it was not even split."""
    watched = Watched(store, id)
    await watched.look()
    await (_print(watched) if as_json else _draw(watched))
    return watched.family


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
