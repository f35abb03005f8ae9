"""Server-sent events: what a job emits, as it comes [W3]. A client that lost its connection goes on where it
stopped, by the header `Last-Event-ID` or `?after=`. A slow one holds back only itself, and at most what one
read of the store gives."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from starlette.types import Receive, Scope, Send

from windlass.core.ids import MAX_POSITION
from windlass.errors import WindlassError
from windlass.operations.principal import Principal, Role
from windlass.web.api.stream import HEADERS, MAX_STREAMS, QUIET, SHORT, Places, end, left, say
from windlass.web.http.answers import encode, refuse
from windlass.web.http.guard import PRINCIPAL, path_of
from windlass.web.http.problems import Invalid, Problem, found_id, problem_of
from windlass.web.http.queries import read_query
from windlass.web.service.streams import Piece, Streams
from windlass.web.service.ticker import Ticker

PIECE: Final = 64 * 1024
"""Bytes that are sent at once, or little more."""


class JobStream:
    """The endpoint /api/jobs/{id}/events."""

    def __init__(
        self, streams: Streams, ticker: Ticker, *, most: int = MAX_STREAMS, longest: float = SHORT
    ) -> None:
        self._streams = streams
        self._ticker = ticker
        self._places = Places(most)
        self._longest = longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope[PRINCIPAL]
        with contextlib.ExitStack() as place:
            try:
                principal.require(Role.READ)
                if self._ticker.closed:
                    raise Problem(503, "stopping", "this server stops; try again", retry_after=2.0)
                job = found_id(path_of(scope).split("/")[-2])
                place.enter_context(self._places.taken(principal))
                piece = await self._streams.read(principal, job, _position(scope))
            except Exception as error:  # noqa: BLE001 - it becomes the answer
                await refuse(send, problem_of(error))
                return
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] == "HEAD":
                await end(send)
                return
            leaving = asyncio.create_task(left(receive))
            client = _Client(principal, self._streams, job, piece.position, send)
            try:
                await client.run(piece, leaving, self._ticker, time.monotonic() + self._longest)
            finally:
                client.leave()
                leaving.cancel()


class _Client:
    """One that follows a job."""

    def __init__(self, principal: Principal, streams: Streams, job: int, position: int, send: Send) -> None:
        self._principal = principal
        self._streams = streams
        self._job = job
        self._feed = streams.join(job, position)
        self._send = send

    def leave(self) -> None:
        """Follow it no more."""
        self._streams.leave(self._job, self._feed)

    async def run(self, piece: Piece, leaving: asyncio.Task[None], ticker: Ticker, until: float) -> None:
        await say(self._send, b"retry: 1000\n\n")
        while not leaving.done():
            await self._send_events(piece, leaving)
            if leaving.done():
                return
            if piece.end is not None:
                await say(self._send, b"event: end\ndata: " + encode({"state": piece.end.value}) + b"\n\n")
                break
            if ticker.closed or time.monotonic() >= until:
                break
            position = piece.position
            found = self._feed.since(position)
            if found is not None and not found.events and found.end is None and not self._feed.gone:
                await self._wait(position, leaving, ticker, until)
                found = self._feed.since(position)
            try:
                if found is None or self._feed.gone:
                    behind = found is None
                    found = await self._streams.read(self._principal, self._job, position)
                    if behind and not found.events and found.end is None:
                        self._feed = self._streams.rejoin(self._job, position, self._feed)
            except WindlassError:
                break  # the client comes again, and is told
            piece = found
        if not leaving.done():
            await end(self._send)

    async def _send_events(self, piece: Piece, leaving: asyncio.Task[None]) -> None:
        waiting: list[bytes] = []
        size = 0
        for event in piece.events:
            waiting.append(event.text)
            size += len(event.text)
            if size >= PIECE:
                await say(self._send, b"".join(waiting))
                waiting, size = [], 0
                if leaving.done():
                    return
        if waiting:
            await say(self._send, b"".join(waiting))

    async def _wait(self, position: int, leaving: asyncio.Task[None], ticker: Ticker, until: float) -> None:
        """Wait for something to send; a comment keeps the connection alive meanwhile."""
        news = asyncio.create_task(self._feed.after(position))
        stopping = asyncio.create_task(ticker.ended())
        try:
            limit = min(QUIET, max(until - time.monotonic(), 0.0))
            done, _ = await asyncio.wait(
                {leaving, news, stopping}, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()
            stopping.cancel()
        if not done:
            await say(self._send, b": alive\n\n")


def _position(scope: Scope) -> int:
    """Where the client stopped. The header is of a connection that was lost, and so knows better."""
    query = read_query(scope["query_string"], ("after",))
    header = next((value for name, value in scope["headers"] if name.lower() == b"last-event-id"), None)
    if header:
        return _number(header.decode("latin-1"), "Last-Event-ID")
    return _number(query.get("after", "0"), "after")


def _number(word: str, field: str) -> int:
    with contextlib.suppress(ValueError):
        if word.isascii() and word.isdigit() and len(word) < 20 and (number := int(word)) <= MAX_POSITION:
            return number
    raise Invalid(f"{field} must be the position of an event: a whole number", field)
