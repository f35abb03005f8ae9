"""The app under test. Its handlers write down what they do: who, which job, under which fence, and when.

Every entry is one line, written with one call to a file that is opened for appending, so that a process
that is killed leaves whole lines and those of many processes never mix. Times are of the machine's monotonic
clock.
"""

import asyncio
import contextlib
import ctypes
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from windlass import Windlass
from windlass.endings import Retry
from windlass.errors import ClaimLost, WorkerLost
from windlass.running.context import Context

LEDGER = "WINDLASS_TEST_LEDGER"
QUEUE = "work"
app = Windlass()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a handler did. `what` is start, effect, or how the run ended: done, stopped, failed."""

    what: str
    job: int = 0
    attempt: int = 0
    deaths: int = 0
    fence: int = 0
    pid: int = 0
    at: float = 0.0
    clock: float = 0.0
    note: str = ""


def write(entry: Entry) -> None:
    """Append one entry."""
    file = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, msgspec.json.encode(entry) + b"\n")
    finally:
        os.close(file)


class Run:
    """One run of one job, for its handler to write about."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def note(self, what: str, note: str = "") -> None:
        ctx = self._ctx
        write(
            Entry(
                what=what,
                job=ctx.id,
                attempt=ctx.attempt,
                deaths=ctx.deaths,
                fence=ctx.fence,
                pid=os.getpid(),
                at=time.monotonic(),
                clock=time.time(),
                note=note,
            )
        )

    def effect(self, note: str = "") -> None:
        self.note("effect", note)


@contextmanager
def run(ctx: Context) -> Iterator[Run]:
    """Write down that the run began and how it ended, however it does."""
    written = Run(ctx)
    written.note("start")
    try:
        yield written
    except asyncio.CancelledError:
        written.note("stopped")
        raise
    except BaseException as error:
        written.note("failed", type(error).__name__)
        raise
    written.note("done")


async def opened(gate: str) -> None:
    """Until a file of this name appears."""
    while not os.access(gate, os.F_OK):  # noqa: ASYNC110 - it is another process that makes it
        await asyncio.sleep(0.01)


@app.task(name="steady", queue=QUEUE)
async def steady(ctx: Context, seconds: float) -> None:
    """Waits, has its effect half-way, waits."""
    with run(ctx) as written:
        await asyncio.sleep(seconds / 2)
        written.effect()
        await asyncio.sleep(seconds / 2)


@app.task(name="tells", queue=QUEUE)
async def tells(ctx: Context, count: int, pause: float) -> None:
    """Counts aloud, in its stream [W3]."""
    with run(ctx):
        for i in range(count):
            await ctx.emit(i)
            await asyncio.sleep(pause)


@app.task(name="plain", queue=QUEUE)
def plain(ctx: Context, seconds: float) -> None:
    """The same in a thread."""
    with run(ctx) as written:
        time.sleep(seconds / 2)
        written.effect()
        time.sleep(seconds / 2)


@app.task(name="gated", queue=QUEUE)
async def gated(ctx: Context, gate: str) -> None:
    """Waits for a file to appear, and has its effect then."""
    with run(ctx) as written:
        await opened(gate)
        written.effect()


@app.task(name="bulky", queue=QUEUE)
async def bulky(ctx: Context, gate: str, size: int) -> str:
    """The same, and returns so many characters that compress badly."""
    with run(ctx) as written:
        await opened(gate)
        written.effect()
        return random.Random(ctx.id).randbytes(size // 2).hex()


@app.task(name="saver", queue=QUEUE)
async def saver(ctx: Context, gate: str) -> None:
    """Saves where it is, waits for a file, and saves again; writes down where that was refused [C5]."""
    with run(ctx) as written:
        written.note("found", repr(await ctx.asaved()))
        await ctx.asave({"fence": ctx.fence})
        written.note("saved")
        await opened(gate)
        try:
            await ctx.asave({"fence": ctx.fence, "late": True})
        except (WorkerLost, ClaimLost) as error:
            written.note("refused", type(error).__name__)
            raise
        written.effect()


@app.task(name="greedy", queue=QUEUE)
def greedy(ctx: Context, seconds: float) -> None:
    """Calls C for so long without letting go of the interpreter, and writes down how long nobody else ran."""
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())
            over.wait(0.01)

    with run(ctx) as written:
        ticker = threading.Thread(target=tick)
        ticker.start()
        time.sleep(0.1)
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # unlike CDLL, it keeps the GIL
        time.sleep(0.1)
        over.set()
        ticker.join()
        written.effect(str(max(later - sooner for sooner, later in itertools.pairwise(ticks))))


@app.task(name="hoards", queue=QUEUE)
async def hoards(ctx: Context, seconds: float) -> None:
    """Sleeps on the loop, and keeps the interpreter."""
    with run(ctx) as written:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # unlike CDLL, it keeps the GIL
        written.effect()


@app.task(name="poison", queue=QUEUE)
async def poison(ctx: Context) -> None:
    """Kills its worker, every time."""
    with run(ctx):
        os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(60)


@app.task(name="flaky", queue=QUEUE)
async def flaky(ctx: Context, wait: float) -> None:
    """Fails the first time and asks for another attempt after so long."""
    with run(ctx) as written:
        if ctx.attempt == 1:
            raise Retry(after=wait)
        written.effect()


@app.task(name="hang.loop", queue=QUEUE)
async def hang_on_loop(ctx: Context) -> None:
    """Waits for what never comes."""
    with run(ctx):
        await asyncio.Event().wait()


@app.task(name="hang.thread", queue=QUEUE)
def hang_in_thread(ctx: Context) -> None:
    """Waits for a lock that nobody lets go of."""
    with run(ctx):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()


@app.task(name="hang.blocking", queue=QUEUE)
async def hang_the_loop(ctx: Context) -> None:
    """Blocks the loop of its worker, and with it everything else there."""
    with run(ctx):
        while True:
            time.sleep(0.05)  # noqa: ASYNC251 - that is the fault


@app.task(name="hang.stubborn", queue=QUEUE)
async def hang_stubbornly(ctx: Context) -> None:
    """Does not heed that it should stop."""
    with run(ctx):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)


@app.task(name="brief.process", queue=QUEUE, mode="process")
def brief_in_process() -> None:
    """Over at once, and leaves a warm process behind."""


@app.task(name="hang.process", queue=QUEUE, mode="process")
def hang_in_process() -> None:
    """Never returns, in a process of its own."""
    write(Entry(what="inside", pid=os.getpid(), at=time.monotonic()))
    while True:
        time.sleep(60)
