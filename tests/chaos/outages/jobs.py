"""The app under test. Its handlers write down what they do, each event one line appended in one call, so that
lines of several processes do not mix and a killed one leaves all but what it was doing.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from windlass import Context, Retry, Snooze, Windlass

LEDGER = "OUTAGE_LEDGER"
What = Literal["began", "ran", "cancelled"]
app = Windlass()


class Effect(msgspec.Struct, frozen=True):
    """One thing that a handler did."""

    what: What
    job: int
    attempt: int
    at: float
    pid: int


def note(what: What, ctx: Context) -> None:
    """Write it down; where no ledger is named, nothing is."""
    path = os.environ.get(LEDGER)
    if path is None:
        return
    line = msgspec.json.encode(Effect(what, ctx.id, ctx.attempt, time.monotonic(), os.getpid()))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line + b"\n")
    finally:
        os.close(fd)


@app.task(name="work.quick", queue="work")
async def quick(ctx: Context) -> None:
    """An effect, and done."""
    note("ran", ctx)


@app.task(name="work.number", queue="work", retry=Retry(2, base=0.01))
async def number(ctx: Context, n: int) -> None:
    """An effect, if the argument is a number."""
    note("ran", ctx)


@app.task(name="work.pause", queue="work")
async def pause(ctx: Context, seconds: float) -> None:
    """An effect after a while."""
    note("began", ctx)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("cancelled", ctx)
        raise
    note("ran", ctx)


@app.task(name="work.busy", queue="work")
async def busy() -> None:
    """A tenth of a millisecond of work."""
    ends = time.perf_counter() + 0.0001
    while time.perf_counter() < ends:
        pass


@app.task(name="work.nothing", queue="work")
async def nothing() -> None:
    """No effect at all: for counting millions."""


def _nested() -> object:
    value: list[object] = []
    value.append(value)
    return value


class Unspeakable(Exception):
    """An exception whose words cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no words")


RAISES: dict[str, Callable[[], BaseException]] = {
    "a NUL": lambda: ValueError("a\0b"),
    "a lone surrogate": lambda: ValueError("\ud800"),
    "fifty megabytes": lambda: ValueError("x" * (50 * 1024 * 1024)),
    "no words": Unspeakable,
    "many at once": lambda: BaseExceptionGroup("all", [ValueError("a\0"), Unspeakable()]),
    "a strange name": type("Ü" * 5000, (Exception,), {}),
    "for ever": lambda: Snooze(1e308),
    "for a century": lambda: Snooze("36500d"),
}
RETURNS: dict[str, Callable[[], object]] = {
    "a NUL": lambda: "a\0b",
    "a lone surrogate": lambda: "\ud800",
    "fifty megabytes": lambda: "x" * (50 * 1024 * 1024),
    "not a number": lambda: float("nan"),
    "no JSON": object,
    "itself": _nested,
}


@app.task(name="work.raises", queue="work", retry=Retry(1))
async def raises(what: str) -> None:
    """Ends in an odd way."""
    raise RAISES[what]()


@app.task(name="work.returns", queue="work", retry=Retry(1))
async def returns(what: str) -> object:
    """Returns an odd thing."""
    return RETURNS[what]()
