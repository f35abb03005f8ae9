"""Server-sent events: a tick every two seconds to each who watches, from one look for all of them. A stream
ends when its client leaves, when the server stops, and by itself after a while; a browser opens it again
then."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from starlette.types import Receive, Scope, Send

from windlass.operations.principal import Principal, Role
from windlass.web.http.answers import encode, problem_body, refuse
from windlass.web.http.guard import PRINCIPAL
from windlass.web.http.problems import Problem, problem_of
from windlass.web.http.queries import read_query
from windlass.web.service.ticker import Ticker

MAX_STREAMS: Final = 200
"""Streams of each kind; one principal may have half of them."""
LONG: Final = 600.0
SHORT: Final = 10.0
"""Seconds that a stream lasts: long where a stopping server closes it, short where it waits for its end."""
QUIET: Final = 15.0
"""Seconds without a tick after which a comment keeps the stream alive."""
PATIENCE: Final = 60.0
"""Seconds that a client may take to read what is sent at once. The server of `windlass web` waits less long
and closes the connection; see `connection_limits`."""
HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Places:
    """The streams that may be open at once. One principal has a share of them, and so locks nobody out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = (most + 1) // 2
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, principal: Principal) -> Iterator[None]:
        """Take a place while the block lasts. Raises a 503 where none is left."""
        mine, name = self._taken[principal.name] >= self._share, principal.name
        if mine or self._taken.total() >= self._most:
            whose = f"{self._share} streams of {name}" if mine else f"{self._most} streams"
            raise Problem(503, "too_many_streams", f"{whose} are open already; close one", retry_after=10.0)
        self._taken[name] += 1
        try:
            yield
        finally:
            self._taken -= Counter({name: 1})  # and forget who has none


class Stream:
    """The endpoint /api/stream."""

    def __init__(self, ticker: Ticker, *, most: int = MAX_STREAMS, longest: float = SHORT) -> None:
        self._ticker = ticker
        self._places = Places(most)
        self._longest = longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as place:
            try:
                scope[PRINCIPAL].require(Role.READ)
                read_query(scope["query_string"], ())
                if self._ticker.closed:
                    raise Problem(503, "stopping", "this server stops; try again", retry_after=2.0)
                place.enter_context(self._places.taken(scope[PRINCIPAL]))
            except Exception as error:  # noqa: BLE001 - it becomes the answer
                await refuse(send, problem_of(error))
                return
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] == "HEAD":
                await end(send)
                return
            self._ticker.join()
            leaving = asyncio.create_task(left(receive))
            try:
                await self._run(leaving, send)
            finally:
                self._ticker.leave()
                leaving.cancel()

    async def _run(self, leaving: asyncio.Task[None], send: Send) -> None:
        until = time.monotonic() + self._longest
        number = self._ticker.number  # what was seen while others watched may be old

        def over() -> bool:
            return leaving.done() or self._ticker.closed or time.monotonic() >= until

        await say(send, b"retry: 2000\n\n")
        while not over():
            change = asyncio.create_task(self._ticker.after(number))
            try:
                await asyncio.wait({leaving, change}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
                changed = change.done()
            finally:
                change.cancel()
            if changed:
                number = self._ticker.number
            if not over():
                await say(send, self._event() if changed else b": alive\n\n")
        if not leaving.done():
            await end(send)

    def _event(self) -> bytes:
        last = self._ticker.last
        if isinstance(last, Problem):
            return b"event: problem\ndata: " + problem_body(last) + b"\n\n"
        return b"event: tick\nid: " + str(self._ticker.number).encode() + b"\ndata: " + encode(last) + b"\n\n"


async def left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def end(send: Send) -> None:
    """End the answer."""
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def say(send: Send, text: bytes) -> None:
    """Send a piece of the answer. Waits for a client that is slow; raises TimeoutError for one that does not
    read at all."""
    async with asyncio.timeout(PATIENCE):
        await send({"type": "http.response.body", "body": text, "more_body": True})
