"""A supervisor in the test's own process, with real children on an app that the test writes.

Its line to the store can be cut; the children have their own. What supervisor and member say is in the
test's log.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.program import ROOT
from tests.worker.line import Line, until
from windlass.cluster.queues import seed
from windlass.settings import Settings
from windlass.store.factory import make_store
from windlass.store.records import NewJob
from windlass.worker.processes.supervisor import Supervisor

UP = 30.0
HEAD = """
import asyncio, os, sys, time
from pathlib import Path
from windlass import Windlass
app = Windlass()
here = Path(__file__).parent

@app.task(name="gated", queue="work")
async def gated():
    (here / "started").touch()
    while not (here / "gate").exists():
        await asyncio.sleep(0.01)
"""


class Row:
    """One supervisor, its children, and their app in `shop.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder.as_posix()}/jobs.db"
        self.line = Line(make_store(self.url))
        self.write("")
        self._running: asyncio.Task[None] | None = None
        self._supervisor: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        assert self._supervisor is not None
        return self._supervisor

    @property
    def up(self) -> object:
        """How many children are up."""
        return self.supervisor.readiness()[1]["processes"]

    def write(self, code: str) -> None:
        """Give the app this code, besides a task that waits for a file named gate."""
        (self.folder / "shop.py").write_text(HEAD + code)

    async def start(self, *, reloads: bool = False, **settings: Any) -> None:
        """Start the supervisor; the children get the same settings."""
        await self.line.open()
        await seed(self.line.as_store, {"work": 4})
        given: dict[str, Any] = {"lease": 30.0, "queues": {"work": 4}, **settings}
        environment = {
            **os.environ,
            **{f"WINDLASS_{name.upper()}": str(value) for name, value in settings.items()},
            "WINDLASS_DATABASE_URL": self.url,
            "PYTHONPATH": os.pathsep.join(map(str, (self.folder, ROOT, ROOT / "src"))),
            "PYTHONDONTWRITEBYTECODE": "1",  # two versions of a file may be of the same second
        }
        self._supervisor = Supervisor(
            self.line.as_store,
            "shop:app",
            Settings(database_url=self.url, **given),
            environment,
            reloads=reloads,
        )
        self._running = asyncio.create_task(self._supervisor.run(heed_signals=False))

    async def until(self, condition: Callable[[], object], within: float = UP) -> None:
        """Wait until something is so, while the supervisor runs."""
        running = self._running
        assert running is not None
        await until(lambda: running.done() or condition(), within)
        if running.done():
            running.result()
        assert condition(), "the supervisor has left"

    async def enqueue(self) -> int:
        """Enqueue a job that waits, and wait until it runs."""
        (receipt,) = await self.line.enqueue([NewJob(task="gated", payload="[]", queue="work")])
        await self.until((self.folder / "started").exists)
        return int(receipt.id)

    async def left(self, within: float = UP) -> None:
        """Wait for the supervisor's end. Raises what it does."""
        assert self._running is not None
        await asyncio.wait_for(asyncio.shield(self._running), within)

    async def close(self) -> None:
        """End whatever is left."""
        if self._running is not None and not self._running.done():
            children = list(self.supervisor._children)
            self._running.cancel()
            for child in children:
                child.kill()
            await asyncio.gather(self._running, return_exceptions=True)
            living = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.wait(living, timeout=10.0) if living else None
        await self.line.close()
