"""Streams of jobs for many readers: one reader of the store for all who follow the same job [W3].

A feed keeps the last events of its job as they are sent, within bounds. Whoever comes late, or is too slow
for what it keeps, reads the store itself until he has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound
from windlass.operations.principal import Principal, Role
from windlass.presentation.streams import StreamEventShape, stream_shapes
from windlass.store.records import StreamPage
from windlass.web.http.answers import encode
from windlass.web.service.store_access import StoreAccess

WAIT: Final = 15.0
"""Seconds that one call to the store waits for events."""
PAUSE: Final = 1.0
"""Seconds until the store is asked again that did not answer."""
MAX_KEPT: Final = 1_000
MAX_BYTES: Final = 1024 * 1024
"""Events of a job, and bytes, that its feed keeps at most."""


class Sent(NamedTuple):
    """An event as it is sent."""

    before: int
    """The position that a reader must have come to."""
    position: int
    text: bytes


class Piece(NamedTuple):
    """The next piece of a stream."""

    events: list[Sent]
    position: int
    end: State | None
    """How the job has ended, where nothing comes any more."""


class Feed:
    """The end of one job's stream, while somebody follows it."""

    def __init__(self, store: StoreAccess, job: int, position: int) -> None:
        self._store = store
        self._job = job
        self._kept: deque[Sent] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self.position: int = position
        self.end: State | None = None
        self.gone: bool = False
        """True if the job was removed."""
        self.readers = 0
        self._task = asyncio.create_task(self._run(), name=f"stream of job {job}")

    def since(self, position: int) -> Piece | None:
        """Return what comes after this position; None where it does not reach back so far."""
        if position >= self.position:
            return Piece([], position, self.end)
        if not self._kept or self._kept[0].before > position:
            return None
        found = [event for event in self._kept if event.position > position]
        return Piece(found, self.position, self.end)

    async def after(self, position: int) -> None:
        """Wait until there is something after this position, or the stream is over."""
        while self.position <= position and self.end is None and not self.gone:
            await self._changed.wait()

    def close(self) -> None:
        """Nobody follows it any more."""
        self._task.cancel()

    async def _run(self) -> None:
        while self.end is None and not self.gone:
            try:
                page = await self._store.ask(lambda store: store.wait_stream(self._job, self.position, WAIT))
            except Exception:  # noqa: BLE001 - its readers go on when the store does
                await asyncio.sleep(PAUSE)
                continue
            piece = piece_of(page, self.position)
            self.gone = page.state is None and not page.batches
            for event in piece.events:
                self._kept.append(event)
                self._bytes += len(event.text)
            while len(self._kept) > MAX_KEPT or (self._bytes > MAX_BYTES and len(self._kept) > 1):
                self._bytes -= len(self._kept.popleft().text)
            self.position, self.end = piece.position, piece.end
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


class Streams:
    """The streams that are read at the moment."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._feeds: dict[int, Feed] = {}

    async def read(self, principal: Principal, job: int, position: int) -> Piece:
        """Return what the store has after this position. Raises JobNotFound."""
        principal.require(Role.READ)
        page = await self._store.ask(lambda store: store.wait_stream(job, position, 0.0))
        if page.state is None:
            raise JobNotFound(
                f"there is no job {job}: it never existed, was deleted, or its retention has passed"
            )
        return piece_of(page, position)

    def join(self, job: int, position: int) -> Feed:
        """Follow a job from now on; `leave` ends that."""
        feed = self._feeds.get(job)
        if feed is None or feed.gone or feed.end is not None:
            feed = self._begin(job, position)
        feed.readers += 1
        return feed

    def rejoin(self, job: int, position: int, feed: Feed) -> Feed:
        """Follow a job from the end of its stream, which the feed is ahead of: its first reader asked for
        what there is not yet, or a crash of the server has taken events away."""
        self.leave(job, feed)
        other = self._feeds.get(job)
        if other is None or other.since(position) is None:
            self._begin(job, position)
        return self.join(job, position)

    def _begin(self, job: int, position: int) -> Feed:
        feed = self._feeds[job] = Feed(self._store, job, position)
        return feed

    def leave(self, job: int, feed: Feed) -> None:
        """Follow it no more."""
        feed.readers -= 1
        if not feed.readers:
            feed.close()
            if self._feeds.get(job) is feed:
                del self._feeds[job]


def piece_of(page: StreamPage, position: int) -> Piece:
    """A page of the store as it is sent."""
    events = [_sent(event) for event in stream_shapes(page, position)]
    if events:
        position = events[-1].position
    end = page.state if page.state in FINISHED and not page.full else None
    return Piece(events, position, end)


def _sent(event: StreamEventShape) -> Sent:
    text = b"id: %d\ndata: %b\n\n" % (event.position, encode(event))
    return Sent(event.position - event.gone - 1, event.position, text)
