"""What the outage tests hold in their hands: a real `windlass worker`, the books of its handlers, and a way
to its store that can be broken.

The worker runs as people run it: a supervisor and its children, started from the command line. A test that
ends, however it ends, leaves no process behind.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import psutil

from tests.chaos.kit import opened, until, worker_children
from tests.chaos.outages.jobs import LEDGER, Effect
from tests.chaos.program import ROOT
from tests.chaos.proxy import Proxy
from tests.postgres import Server, free_port
from windlass.errors import StoreUnavailable
from windlass.store.factory import make_store
from windlass.store.postgres import PostgresStore
from windlass.store.protocol import Store
from windlass.store.records import NewJob

QUEUE = "work"
APP = "tests.chaos.outages.jobs:app"
COMMAND = "from windlass.cli import main; main()"


def work(task: str = "quick", payload: str = "{}", **fields: Any) -> NewJob:
    """A job for the app under test."""
    return NewJob(task=f"work.{task}", payload=payload, queue=QUEUE, **fields)


class Host:
    """A running `windlass worker`. Its log is in `log`, what its handlers did in `books`."""

    def __init__(
        self, folder: Path, url: str, *, lease: float = 2.0, processes: int = 1, slots: int = 8, **more: str
    ) -> None:
        """`more` are further settings, by their names."""
        self.log = folder / "worker.log"
        self.books = folder / "effects"
        self.port = free_port()
        self._environment = {**os.environ, "WINDLASS_DATABASE_URL": url, LEDGER: str(self.books)}
        self._environment |= {f"WINDLASS_{name.upper()}": value for name, value in more.items()}
        flags = {"-q": f"{QUEUE}={slots}", "-p": processes, "--lease": f"{lease:g}s", "--sweep": "0.5s"}
        flags |= {"--shutdown": "10s", "--health": f"127.0.0.1:{self.port}"}
        self._arguments = ["worker", APP, *(str(word) for pair in flags.items() for word in pair)]
        self._processes = processes
        self._supervisor: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        with self.log.open("ab") as log:
            self._supervisor = subprocess.Popen(  # noqa: ASYNC220 - to start it is quick
                [sys.executable, "-c", COMMAND, *self._arguments],
                cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            await until(self.ready, 20.0)
        except BaseException:
            self.kill()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._supervisor is not None
        try:
            if kind is None:
                self._supervisor.send_signal(signal.SIGTERM)
                code = await asyncio.to_thread(self._supervisor.wait, 30.0)
                assert code == 0, f"the worker ended with {code}:\n{self.tail()}"
        finally:
            self.kill()

    def kill(self) -> None:
        """End the whole family, whatever it does."""
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.supervisor)
            family = [top, *top.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        assert self._supervisor is not None
        self._supervisor.wait(10.0)

    @property
    def supervisor(self) -> int:
        """The supervisor's process id."""
        assert self._supervisor is not None
        return self._supervisor.pid

    def family(self) -> list[int]:
        """The process ids of the supervisor and its children."""
        return sorted([self.supervisor, *worker_children(self.supervisor)])

    def cpu_seconds(self) -> float:
        """How much processor time the family has used."""
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.family())

    async def probe(self) -> tuple[int, dict[str, Any]]:
        """What /readyz says: the status code and the body; code 0 where nobody answers."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}/readyz")

    async def ready(self) -> bool:
        """Whether jobs can be run, by its own word. One that has ended fails the test."""
        assert self._supervisor is not None
        assert self._supervisor.poll() is None, f"the worker has ended:\n{self.tail()}"
        return (await self.probe())[0] == 200

    async def not_ready(self) -> bool:
        """Whether it says that no job can be run."""
        return (await self.probe())[0] == 503

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def effects(self) -> list[Effect]:
        """What the handlers did so far."""
        if not self.books.exists():
            return []
        lines = self.books.read_bytes().splitlines(keepends=True)
        return [msgspec.json.decode(line, type=Effect) for line in lines if line.endswith(b"\n")]

    def ran(self) -> Counter[int]:
        """How often each job came to its effect."""
        return Counter(effect.job for effect in self.effects() if effect.what == "ran")

    async def runs(self, jobs: Iterable[int], within: float = 20.0) -> float:
        """Wait until all of these have had their effect; the answer is how long that took."""
        wanted = set(jobs)

        async def all_of_them() -> bool:
            return wanted <= self.ran().keys()

        try:
            return await until(all_of_them, within, pause=0.05)
        except AssertionError:
            missing = wanted - self.ran().keys()
            raise AssertionError(f"{len(missing)} of {len(wanted)} did not run:\n{self.tail()}") from None


def balance(ran: Counter[int], promised: Sequence[int], *, extra: int = 0) -> None:
    """The books: every job that was acknowledged has had its effect, no other has, and no more than `extra`
    of them a second time."""
    lost, phantom = set(promised) - ran.keys(), ran.keys() - set(promised)
    assert not lost, f"{len(lost)} jobs lost, such as {sorted(lost)[:3]}"
    assert not phantom, f"{len(phantom)} jobs ran that nobody was told of, such as {sorted(phantom)[:3]}"
    twice = {job: n for job, n in ran.items() if n > 1}
    assert sum(twice.values()) - len(twice) <= extra, f"ran more than once: {twice}"


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[Store]:
    """The store behind this URL, migrated and open; closed at the end."""
    store = make_store(url)
    if url.startswith("postgresql"):
        await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Midst(NamedTuple):
    """A host behind a proxy in the middle of its work: quick jobs have run, a long one runs."""

    proxy: Proxy
    host: Host
    store: PostgresStore
    family: list[int]
    quick: list[int]
    long: int

    async def seen(self, what: str) -> bool:
        """Whether the long job has had this effect."""
        return any(effect.job == self.long and effect.what == what for effect in self.host.effects())


@asynccontextmanager
async def in_the_midst(server: Server, dsn: str, folder: Path, lease: float) -> AsyncIterator[Midst]:
    """Such a host, with two processes."""
    async with (
        proxied(server, dsn) as (proxy, url),
        Host(folder, url, lease=lease, processes=2) as host,
        opened(dsn) as store,
    ):
        family = host.family()
        *quick, long = [
            receipt.id for receipt in await store.enqueue([*[work()] * 20, work("pause", '{"seconds": 4}')])
        ]
        await host.runs(quick)
        midst = Midst(proxy, host, store, family, quick, long)
        await until(lambda: midst.seen("began"), 10.0)
        await settled(store, but=1)
        yield midst


@asynccontextmanager
async def proxied(server: Server, dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy before the server, and the URL that leads through it."""
    async with Proxy("127.0.0.1", server.port) as proxy:
        yield proxy, dsn.replace(f":{server.port}/", f":{proxy.port}/")


async def settled(store: PostgresStore, within: float = 20.0, *, but: int = 0) -> None:
    """Until nothing waits and nothing runs but so many: every other outcome is written. What has run and is
    not written yet may rightly run again after an outage."""

    async def none_left() -> bool:
        with contextlib.suppress(StoreUnavailable):
            depth = (await store.depth([QUEUE]))[QUEUE]
            return depth.ready + depth.running + depth.scheduled + depth.retrying == but
        return False

    await until(none_left, within, pause=0.05)


async def produce(
    store: PostgresStore, ids: list[int], over: asyncio.Event, *, pause: float = 0.01, batch: int = 5
) -> None:
    """Enqueue until told to stop. Each call bears keys and is sent until it is answered [E7]; `ids` are those
    that were acknowledged."""
    while not over.is_set():
        jobs = [work(idempotency_key=os.urandom(8).hex()) for _ in range(batch)]
        while True:
            try:
                ids += [receipt.id for receipt in await store.enqueue(jobs)]
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await over.wait()


def _get(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own, on loopback
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}
