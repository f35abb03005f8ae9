"""A store with a worker in this process, and `windlass web` in front of it in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tests.browser.shop import QUEUES, Shop
from tests.postgres import free_port
from tests.stopwatch import Stopwatch, within
from windlass.core.states import State
from windlass.handles.job import Job
from windlass.store.protocol import Store

HOST: Final = "127.0.0.1"
PATIENCE: Final = 30.0
LOOK: Final = 0.02


@dataclass(frozen=True)
class Stage:
    """Everything a test needs besides its browser."""

    kind: str
    shop: Shop
    store: Store
    address: str
    """Of Mission Control, without a slash at the end."""

    async def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Make a job."""
        return await self.shop.app.named(task).aenqueue(*args, **kwargs)

    async def reached(self, id: int, *states: State) -> None:
        """Wait until a job is in one of these states."""
        async with within(PATIENCE):
            while (job := await self.store.job(id)) is None or job.state not in states:  # noqa: ASYNC110
                await asyncio.sleep(LOOK)

    async def split(self, id: int) -> None:
        """Wait until a job has become a parent."""
        async with within(PATIENCE):
            while await self.store.parent(id) is None:  # noqa: ASYNC110
                await asyncio.sleep(LOOK)

    def go_on(self, file: str, batches: int) -> None:
        """Let the import of a file do so many batches more."""
        for _ in range(batches):
            self.shop.steps[file].release()


@asynccontextmanager
async def staged(kind: str, url: str) -> AsyncIterator[Stage]:
    """A stage on the database of this URL, which is migrated."""
    shop = Shop()
    shop.at(url)
    async with mission(url) as address, shop.app, shop.app._store_handle().here() as store:
        try:
            async with shop.app.worker(dict(QUEUES)):
                await answering(address)
                yield Stage(kind, shop, store, address)
                shop.slow.set()  # what still runs may end
                for file in list(shop.steps):
                    Stage(kind, shop, store, address).go_on(file, 10_000)
        finally:
            await shop.app.aclose()


@asynccontextmanager
async def mission(url: str) -> AsyncIterator[str]:
    """`windlass web` on a free port; its address."""
    port = free_port()
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    flags = ["--host", HOST, "--port", str(port)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "windlass", "web", "--app", "tests.browser.shop:app", *flags),
        env={**theirs, "WINDLASS_DATABASE_URL": url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://{HOST}:{port}"
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE)


async def answering(address: str) -> None:
    """Wait until the server does."""
    watch = Stopwatch()
    async with httpx.AsyncClient() as client:
        while watch.seconds() < PATIENCE:
            try:
                if (await client.get(f"{address}/healthz")).is_success:
                    return
            except httpx.TransportError:
                pass  # not yet
            await asyncio.sleep(LOOK)
    raise AssertionError(f"{address} did not answer")
