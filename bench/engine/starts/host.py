"""A `windlass worker` whose processes are watched from outside: when each is up, what that has cost, and how
much memory is its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from bench.engine.starts.small import LEDGER, QUEUE
from bench.meters import family_cpu
from bench.servers import ROOT
from windlass.errors import StoreError

UP: Final = re.compile(r"is up, process (\d+)")
PATIENCE: Final = 30.0
PRIVATE: Final = ("Private_Clean:", "Private_Dirty:")


class Host:
    """The processes of one worker, and what its log says of them."""

    def __init__(self, process: asyncio.subprocess.Process, ledger: Path) -> None:
        self._process = process
        self._ledger = ledger
        self._log = ""
        self._news = asyncio.Event()
        self.began = time.monotonic()
        self.up: dict[int, float] = {}
        """When each process was up, by the monotonic clock."""
        self.cost: dict[int, float] = {}
        """The processor seconds that each had used by then."""

    async def read(self) -> None:
        """Hear the log until its end."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode()
            if found := UP.search(text):
                pid = int(found[1])
                self.up[pid], self.cost[pid] = time.monotonic(), spent(pid)
            self._log += text
            self._news.set()

    def cpu(self) -> float:
        """Processor seconds of all of its processes together."""
        return family_cpu(psutil.Process(self._process.pid))

    async def row(self, n: int) -> list[int]:
        """All processes that have been up, once there were so many."""
        await self._until(lambda: len(self.up) >= n)
        return list(self.up)

    async def says(self, text: str, times: int = 1) -> None:
        """Wait until the log has this text so often."""
        await self._until(lambda: self._log.count(text) >= times)

    async def runs(self, process: int) -> float:
        """When the first job began in this process."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for line in self._ledger.read_text("ascii").splitlines():
                pid, at = line.split()
                if int(pid) == process:
                    return float(at)
            await asyncio.sleep(0.001)
        raise StoreError(f"no job began in process {process}; the worker said:\n{self._log}")

    async def _until(self, met: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not met():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise StoreError(f"the worker does not do what it should; it said:\n{self._log}") from None


@asynccontextmanager
async def host(
    app: str, environment: Mapping[str, str], processes: int, flags: Sequence[str]
) -> AsyncIterator[Host]:
    """A worker with so many children of the app of this module, killed when the block ends."""
    words = ["worker", f"{app}:app", "-q", f"{QUEUE}=64", "-p", str(processes), *flags]
    with tempfile.NamedTemporaryFile(prefix="windlass-starts-") as ledger:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "windlass", *words),
            cwd=ROOT,
            env={**os.environ, **environment, LEDGER: ledger.name},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        found = Host(process, Path(ledger.name))
        reading = asyncio.create_task(found.read())
        try:
            yield found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await reading


def spent(process: int) -> float:
    """Processor seconds of all threads of a process; the ticks of other counters are too coarse."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(file.read_text("ascii").split()[0]) for file in files) / 1e9


def private(process: int) -> float:
    """The MiB that no other process shares."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    lines = (line.split() for line in rollup.splitlines())
    return sum(int(words[1]) for words in lines if words[0] in PRIVATE) / 1024
