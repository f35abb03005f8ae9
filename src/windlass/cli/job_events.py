"""The output of `windlass job events`: what a job emits, as text that flows or as lines of JSON [W3]."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Final

import click

from windlass.cli.output import print_json
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.core.states import FINISHED, State
from windlass.errors import StoreUnavailable
from windlass.presentation.streams import StreamEventShape, stream_shapes
from windlass.store.protocol import Store

WAIT: Final = 15.0
PATIENCE: Final = 60.0
"""Seconds of an outage of the store that --follow lives through."""
Piece = tuple[list[StreamEventShape], State | None]


async def print_events(store: Store, id: int, after: int, follow: bool, as_json: bool) -> bool:
    """Print what a job has emitted after this position; with `follow`, go on until it has ended. False: there
    is no such job."""
    screen, found = _Screen(), list[StreamEventShape]()
    state: State | None = None
    async for events, standing in _pieces(store, id, after, follow):
        state = standing
        for event in events:
            if as_json and follow:
                print_json(event, indent=None)
            elif as_json:
                found.append(event)
            else:
                screen.show(event)
    screen.end()
    if state is None:
        return False
    if as_json:
        print_json(
            {"state": state} if follow else {"events": found, "state": state}, indent=None if follow else 2
        )
    elif follow:
        click.echo(f"job {id}: {state}", err=True)
    return True


async def _pieces(store: Store, id: int, after: int, follow: bool) -> AsyncIterator[Piece]:
    """Yield what comes after a position, and where the job stood then. The last one has its end, or it has
    all that there is."""
    answered, timeout = time.monotonic(), 0.0
    while True:
        try:
            page = await store.wait_stream(id, after, timeout)
        except StoreUnavailable:
            if not follow or time.monotonic() - answered > PATIENCE:
                raise
            await asyncio.sleep(0.5)
            continue
        answered = time.monotonic()
        events = stream_shapes(page, after)
        after = events[-1].position if events else after
        timeout = WAIT if follow else 0.0
        yield events, page.state
        if not (events or page.state) or (not page.full and (not follow or page.state in FINISHED)):
            return


class _Screen:
    """Text as it flows, other values on lines of their own; what is not of the job goes to stderr."""

    def __init__(self) -> None:
        self._run = 0
        self._inside = False
        """True if the cursor stands behind some text."""

    def show(self, event: StreamEventShape) -> None:
        """Print an event."""
        if event.gone:
            self._note(f"({plural(event.gone, 'event')} before this are gone)")
        if event.run != self._run and (self._run or event.run > 1):
            self._note(f"(run {event.run}, attempt {event.attempt})")
        self._run = event.run
        if isinstance(event.value, str):
            click.echo(harmless(event.value, lines=True), nl=False)
            self._inside = not event.value.endswith("\n")
        else:
            self.end()
            value = json.dumps(event.value, ensure_ascii=False)
            click.echo(event.sealed or harmless(value))

    def end(self) -> None:
        """Nothing comes behind this on the same line."""
        if self._inside:
            click.echo()
        self._inside = False

    def _note(self, words: str) -> None:
        self.end()
        click.echo(words, err=True)
