"""The load on a web server, in a process of its own: `python -m bench.engine.web.load`.

It reads one order from its standard input, as JSON on a line, carries it out, and prints its answer as JSON.
Viewers look until the input is closed. `ordered` and `viewing` start such a process.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from bench.engine.web.client import Line, get, post
from bench.servers import ROOT
from windlass.errors import StoreError
from windlass.running.loopthread import prefer_uvloop


class Time(msgspec.Struct, tag=True, kw_only=True):
    """Ask for each of these paths in turn, so many times. They have names, since ids are another each run."""

    host: str
    port: int
    paths: dict[str, str]
    tries: int


class Times(msgspec.Struct):
    """Milliseconds of each path by its name, try by try, and what did not answer 200."""

    ms: dict[str, list[float]]
    refused: dict[str, int] = {}


class View(msgspec.Struct, tag=True, kw_only=True):
    """Look as so many people with a page open do: each has a stream and refreshes its page."""

    host: str
    port: int
    viewers: int
    pages: list[str]
    stream: str
    every: float


class Views(msgspec.Struct):
    """What the viewers saw."""

    pages: int
    messages: int
    refused: int


class Enqueue(msgspec.Struct, tag=True, kw_only=True):
    """Send this body again and again over so many connections."""

    host: str
    port: int
    path: str
    body: str
    jobs: int
    """In one body."""
    clients: int
    seconds: float


class Enqueued(msgspec.Struct):
    """How many jobs were taken, and what did not answer with 2xx."""

    jobs: int
    seconds: float
    refused: dict[int, int]
    """By status."""


Order = Time | View | Enqueue
T = TypeVar("T")


# -- in the benchmark -----------------------------------------------------------------------------------


async def ordered(order: Time | Enqueue, answer: type[T]) -> T:
    """Have it done by another process."""
    process = await _started(order)
    out, _ = await process.communicate()
    if process.returncode:
        raise StoreError("the load on the web server could not be made; its own words are above")
    return msgspec.json.decode(out, type=answer)


@asynccontextmanager
async def viewing(order: View) -> AsyncIterator[list[Views]]:
    """Viewers look while the block lasts; what they saw is in the list then."""
    process = await _started(order)
    seen: list[Views] = []
    assert process.stdout is not None
    try:
        await process.stdout.readline()  # they have come
        yield seen
    finally:
        assert process.stdin is not None
        process.stdin.close()
        out, _ = await process.communicate()
        if out:
            seen.append(msgspec.json.decode(out, type=Views))


async def _started(order: Order) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.engine.web.load",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    await process.stdin.drain()
    return process


# -- in the process of its own --------------------------------------------------------------------------


async def timed(order: Time) -> Times:
    """One connection, one request after the other. The first of each is not counted: it fills caches."""
    line = await Line.open(order.host, order.port)
    answer = Times({name: [] for name in order.paths})
    for turn in range(order.tries + 1):
        for name, path in order.paths.items():
            began = time.perf_counter()
            status = (await line.ask(get(path))).status
            if turn:
                answer.ms[name].append((time.perf_counter() - began) * 1000)
            if status != 200:
                answer.refused[name] = status
    line.close()
    return answer


async def viewed(order: View, until: asyncio.Event) -> Views:
    """Every viewer has a stream, and refreshes a page, each another one in turn. A line says that they have
    come."""
    streams = [await Line.open(order.host, order.port) for _ in range(order.viewers)]
    for stream in streams:
        stream.listen(get(order.stream, "text/event-stream"))
    lines = [await Line.open(order.host, order.port) for _ in range(order.viewers)]
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    statuses = await asyncio.gather(*(_look(line, order, start, until) for start, line in enumerate(lines)))
    seen = [status for each in statuses for status in each]
    return Views(
        pages=len(seen),
        messages=sum(stream.received for stream in streams),
        refused=sum(status != 200 for status in seen),
    )


async def _look(line: Line, order: View, start: int, until: asyncio.Event) -> list[int]:
    statuses: list[int] = []
    while not until.is_set():
        page = order.pages[(start + len(statuses)) % len(order.pages)]
        statuses.append((await line.ask(get(page))).status)
        try:
            await asyncio.wait_for(until.wait(), order.every)
        except TimeoutError:
            continue
    return statuses


async def enqueued(order: Enqueue) -> Enqueued:
    """All clients at once; each waits for its answer before it sends again."""
    lines = [await Line.open(order.host, order.port) for _ in range(order.clients)]
    request = post(order.path, order.body.encode())
    began = time.perf_counter()
    until = began + order.seconds
    statuses = await asyncio.gather(*(_send(line, request, until) for line in lines))
    seconds = time.perf_counter() - began
    seen = [status for each in statuses for status in each]
    refused: dict[int, int] = {}
    for status in seen:
        if not 200 <= status < 300:
            refused[status] = refused.get(status, 0) + 1
    return Enqueued((len(seen) - sum(refused.values())) * order.jobs, seconds, refused)


async def _send(line: Line, request: bytes, until: float) -> Sequence[int]:
    statuses: list[int] = []
    while time.perf_counter() < until:
        statuses.append((await line.ask(request)).status)
    line.close()
    return statuses


async def main() -> None:
    """Carry one order out."""
    loop = asyncio.get_running_loop()
    order = msgspec.json.decode(await loop.run_in_executor(None, sys.stdin.buffer.readline), type=Order)
    answer: Times | Views | Enqueued
    match order:
        case Time():
            answer = await timed(order)
        case Enqueue():
            answer = await enqueued(order)
        case View():
            closed = asyncio.Event()
            reading = loop.run_in_executor(None, sys.stdin.buffer.read)
            reading.add_done_callback(lambda _: closed.set())
            answer = await viewed(order, closed)
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        runner.run(main())
