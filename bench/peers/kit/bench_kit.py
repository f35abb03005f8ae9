"""What every peer's program shares: the words it is called with, the clock around its calls, the ledger.

A peer is one file, `programs/<name>/peer.py`, run by the interpreter of the peer's own environment. It
subclasses `Peer` and ends with `bench_kit.main(ThePeer)`. This module needs the standard library alone.

    peer.py describe                                          versions and settings, as JSON
    peer.py prepare                                           tables, streams, whatever a fresh store needs
    peer.py enqueue --count N [--bulk] [--clients C] [--first F] [--kind K]               → {"seconds", "cpu"}
    peer.py pace --rate 200 --seconds S                       single jobs at an even pace
    peer.py signals --rate 20 --seconds  S                    workflows that wait, and a signal for each
    peer.py stream --seconds S --window W [--stubborn]        in bulk, W jobs ahead of the workers at most
    peer.py work [--processes P] [--slots S]                  until SIGTERM
    peer.py left                                              → {"left": jobs not finished}

Kinds of jobs: "noop", "long", where the peer has keys "keyed" and "chain", and where it has steps "steps",
"long_steps" and "waiting", which writes into the ledger, waits for a signal, and writes again that it ended.

The environment says where things are: BENCH_DSN (postgresql://…), BENCH_REDIS (redis://…), BENCH_FILE (a path
for SQLite), BENCH_LEDGER (a directory), BENCH_LONG (seconds that a long job takes), BENCH_KIND (the kind of
the jobs ["noop"], for a peer whose worker is set up for them), BENCH_HOSTS (how often `work` runs at the same
time [1], for a peer whose slots are counted over all of them).

**The ledger** is how the harness knows what ran, and nothing else is believed. Handlers call `ran(number)`;
each process appends to a file of its own, mapped into memory, which survives SIGKILL and costs about half a
microsecond a job, the same for every peer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

RECORD = struct.Struct("<dq")
HEADER = struct.Struct("<q")
ROOM = 16_000_000
"""Records that a file has room for. The file is sparse: room costs nothing."""

TEXT = "x" * 100
"""What each job carries besides its number."""

KEYS = 100
"""How many keys jobs of the kinds with keys have; "chain" has one, and "key_each" one for each job."""

STEPS = {"steps": 3, "long_steps": 100}
"""How many steps the workflows have, one after another; each writes into the ledger and returns a number."""

SETTLED = 3.0
"""Seconds after which workflows that have said that they wait are sure to."""

KIND = os.environ.get("BENCH_KIND", "noop")
LONG = float(os.environ.get("BENCH_LONG", "5"))
_pack, _count, _now = RECORD.pack_into, HEADER.pack_into, time.monotonic


class Ledger:
    """A file of (monotonic time, number), appended to by one process and read by any."""

    def __init__(self, kind: str) -> None:
        folder = Path(os.environ["BENCH_LEDGER"])
        with (folder / f"{os.getpid()}.{kind}").open("w+b") as file:
            file.truncate(HEADER.size + ROOM * RECORD.size)
            self._map = mmap.mmap(file.fileno(), 0)
        self._records = 0
        self._lock = threading.Lock()

    def add(self, number: int, at: float | None = None) -> None:
        """Write one record down."""
        with self._lock:
            _pack(self._map, HEADER.size + self._records * RECORD.size, _now() if at is None else at, number)
            self._records += 1
            _count(self._map, 0, self._records)


_runs: Ledger | None = None
_making = threading.Lock()


def ran(number: int) -> None:
    """A job's first line: it runs now, in this process."""
    if _runs is None:
        _begin()
        assert _runs is not None
    _runs.add(number)


def _begin() -> None:
    global _runs  # noqa: PLW0603
    with _making:
        if _runs is None:
            _runs = Ledger("runs")


def key_of(number: int, kind: str) -> str:
    """The key of a job of the kinds that have one."""
    return f"key-{0 if kind == 'chain' else number if kind == 'key_each' else number % KEYS}"


def by_key(numbers: range, kind: str) -> list[tuple[str, range]]:
    """The same numbers for a library that takes many jobs of one key in a call."""
    step = KEYS if kind == "keyed" else 1
    return [(key_of(n, kind), range(n, numbers.stop, step)) for n in numbers[:step]]


def ended(number: int) -> None:
    """The last line of a long job."""
    ran(-number - 1)


def _forked() -> None:
    global _runs, _making
    _runs, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


def counted() -> int:
    """How many records all worker processes have written so far."""
    total = 0
    for path in Path(os.environ["BENCH_LEDGER"]).glob("*.runs"):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            total += HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))[0]
    return total


class Peer:
    """A job library, seen through what everybody does with one. Subclass it.

    Producer methods are coroutines. A library whose calls block sets `blocking`: its methods then block in
    threads of their own and are never awaited side by side in one."""

    packages: Sequence[str] = ()
    """Distributions whose versions are told."""
    settings: dict[str, str] = {}  # noqa: RUF012 - overwritten, never changed
    """What was set, and why, for the page: {"setting": "value, why"}."""
    bulk: str = ""
    """The call that enqueues many, in words; empty where the library has none."""
    batch = 1000
    """How many jobs one bulk call takes."""
    keyed: str = ""
    """How it runs one job of a key at a time, in words; empty where the library does not."""
    blocking = False
    supervises = False
    """Whether `work` starts `processes` processes itself. Otherwise it is run once in each."""

    async def prepare(self) -> None:
        """Make a fresh store usable."""

    async def open(self) -> None:
        """Get ready to produce; not timed."""

    async def close(self) -> None:
        """Done producing."""

    async def send(self, number: int, kind: str) -> None:
        """Enqueue one job, durable when this returns. `kind` is "noop" or "long", and where `keyed` says so
        also "keyed" or "chain". Windlass has more kinds: see `KINDS` in bench/peers/subjects.py."""
        raise NotImplementedError

    async def send_many(self, numbers: range, kind: str) -> None:
        """Enqueue them by the library's own way for many, in one call."""
        raise NotImplementedError

    async def signal(self, number: int) -> None:
        """Send the workflow of this number, which `send` has started, its signal."""
        raise NotImplementedError

    def work(self, processes: int, slots: int | None) -> None:
        """Run jobs until SIGTERM, `slots` at a time in each process (None: what is best for noop jobs)."""
        raise NotImplementedError

    async def left(self) -> int | None:
        """Jobs not finished, as the store counts them; None where it cannot say."""
        return None


async def _enqueue(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    await peer.open()
    numbers = range(options.first, options.first + options.count)
    began, cpu = _now(), _cpu()
    if options.bulk:
        step = peer.batch
        for start in range(numbers.start, numbers.stop, step):
            await peer.send_many(range(start, min(start + step, numbers.stop)), options.kind)
    else:
        await _single(peer, numbers, options)
    took, used = _now() - began, _cpu() - cpu
    await peer.close()
    return {"jobs": options.count, "seconds": took, "cpu": used}


async def _single(peer: Peer, numbers: range, options: argparse.Namespace) -> None:
    """So many clients, each of which waits for its answer before it sends again."""
    upcoming = iter(numbers)

    async def client() -> None:
        for number in upcoming:
            await peer.send(number, options.kind)

    def thread() -> None:
        while (number := _next(upcoming, lock)) is not None:
            asyncio.run(peer.send(number, options.kind))

    lock = threading.Lock()
    if peer.blocking and options.clients > 1:
        with ThreadPoolExecutor(options.clients) as pool:
            for done in [pool.submit(thread) for _ in range(options.clients)]:
                done.result()
    else:
        await asyncio.gather(*(client() for _ in range(options.clients)))


def _next(numbers: Iterator[int], lock: threading.Lock) -> int | None:
    with lock:
        return next(numbers, None)


async def _pace(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    """Send at an even pace, whether or not the last answer has come. The ledger keeps when a call began."""
    await peer.open()
    ledger, tasks = Ledger("sent"), []
    pool = ThreadPoolExecutor(16) if peer.blocking else None
    loop = asyncio.get_running_loop()

    async def send(number: int) -> None:
        began = _now()
        await peer.send(number, "noop")
        ledger.add(number, began)

    def send_blocking(number: int) -> None:
        began = _now()
        asyncio.run(peer.send(number, "noop"))
        ledger.add(number, began)

    began = _now()
    count = int(options.rate * options.seconds)
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / options.rate - _now()))
        tasks.append(
            loop.run_in_executor(pool, send_blocking, number) if pool else loop.create_task(send(number))
        )
    await asyncio.gather(*tasks)
    await peer.close()
    return {"jobs": count, "seconds": _now() - began}


async def _signals(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    """Start workflows, let all of them wait, and send each its signal at an even pace."""
    await peer.open()
    ledger, count = Ledger("sent"), int(options.rate * options.seconds)
    for number in range(count):
        await peer.send(number, "waiting")
    while counted() < count:  # noqa: ASYNC110 - other processes count
        await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLED)
    began, tasks = _now(), []
    pool = ThreadPoolExecutor(16) if peer.blocking else None
    loop = asyncio.get_running_loop()

    async def signal(number: int) -> None:
        ledger.add(number)
        await peer.signal(number)

    def signal_blocking(number: int) -> None:
        asyncio.run(signal(number))

    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / options.rate - _now()))
        tasks.append(
            loop.run_in_executor(pool, signal_blocking, number) if pool else loop.create_task(signal(number))
        )
    await asyncio.gather(*tasks)
    await peer.close()
    return {"jobs": count, "seconds": _now() - began}


async def _stream(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    """Keep the workers busy for so many seconds. A stubborn producer sends a batch again until it is taken,
    and writes down only what was acknowledged."""
    await peer.open()
    ledger = Ledger("sent") if options.stubborn else None
    number, errors, began, cpu = 0, 0, _now(), _cpu()
    step = min(peer.batch, max(1, options.window // 2)) if peer.bulk else 1
    handled, looked = counted(), 0.0
    while _now() - began < options.seconds:
        if (now := _now()) - looked > 0.005:
            handled, looked = counted(), now
        if number - handled >= options.window:
            await asyncio.sleep(0.002)
            continue
        batch = range(number, number + step)
        try:
            if peer.bulk:
                await peer.send_many(batch, "noop")
            else:
                await peer.send(number, "noop")
        except Exception as error:
            if not options.stubborn:
                raise
            errors += 1
            await asyncio.sleep(0.1)
            if errors == 1:
                print(f"producer: {type(error).__name__}: {error}", file=sys.stderr)
            with contextlib.suppress(Exception):
                await peer.close()
            with contextlib.suppress(Exception):
                await peer.open()
            continue
        if ledger is not None:
            for each in batch:
                ledger.add(each)
        number += step
    took, used = _now() - began, _cpu() - cpu
    with contextlib.suppress(Exception):
        await peer.close()
    return {"jobs": number, "seconds": took, "cpu": used, "errors": errors}


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _work(peer: Peer, options: argparse.Namespace) -> None:
    if peer.supervises or options.processes == 1:
        peer.work(options.processes, options.slots)
        return
    command = [sys.executable, sys.argv[0], "work"]
    if options.slots is not None:
        command += ["--slots", str(options.slots)]
    children = [subprocess.Popen(command) for _ in range(options.processes)]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    parent = os.getppid()
    while not stopping.wait(0.2) and os.getppid() == parent:
        # One that ends is started again, as a process manager would.
        children = [subprocess.Popen(command) if each.poll() is not None else each for each in children]
    for child in children:
        child.terminate()
    for child in children:
        child.wait()


def run_until_signal(main: Any) -> None:
    """For workers that are coroutines: run until SIGTERM, then cancel."""

    async def guarded() -> None:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(guarded())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("describe", "prepare", "left"):
        verbs.add_parser(verb)
    enqueue = verbs.add_parser("enqueue")
    enqueue.add_argument("--count", type=int, required=True)
    enqueue.add_argument("--first", type=int, default=0)
    enqueue.add_argument("--bulk", action="store_true")
    enqueue.add_argument("--clients", type=int, default=1)
    enqueue.add_argument("--kind", default="noop")
    pace = verbs.add_parser("pace")
    pace.add_argument("--rate", type=float, default=200)
    pace.add_argument("--seconds", type=float, required=True)
    signals = verbs.add_parser("signals")
    signals.add_argument("--rate", type=float, default=20)
    signals.add_argument("--seconds", type=float, required=True)
    stream = verbs.add_parser("stream")
    stream.add_argument("--seconds", type=float, required=True)
    stream.add_argument("--window", type=int, required=True)
    stream.add_argument("--stubborn", action="store_true")
    work = verbs.add_parser("work")
    work.add_argument("--processes", type=int, default=1)
    work.add_argument("--slots", type=int)
    return parser.parse_args()


async def _left(peer: Peer) -> dict[str, Any]:
    await peer.open()
    try:
        return {"left": await peer.left()}
    finally:
        await peer.close()


def main(peer_class: type[Peer]) -> None:
    """Do what the command line says. The answer is the last line on standard output, as JSON."""
    peer, options = peer_class(), _arguments()
    if options.verb == "work":
        _work(peer, options)
        return
    answer: dict[str, Any] = {}
    if options.verb == "describe":
        versions = {name: metadata.version(name) for name in peer.packages}
        answer = {"versions": versions, "settings": peer.settings, "bulk": peer.bulk, "batch": peer.batch}
        answer |= {"keyed": peer.keyed} if peer.keyed else {}
    elif options.verb == "prepare":
        asyncio.run(peer.prepare())
    else:
        verbs = {"enqueue": _enqueue, "pace": _pace, "signals": _signals, "stream": _stream}
        call = _left(peer) if options.verb == "left" else verbs[options.verb](peer, options)
        answer = asyncio.run(call)
    print(json.dumps(answer))
