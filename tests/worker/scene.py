"""A whole worker on a line in the test's hands: a job that waits, who lives, and who is declared dead."""

import asyncio

import pytest

from tests.worker.line import Line
from windlass import Context, Windlass
from windlass.core.retry import Backoff, DeathPolicy
from windlass.store.records import WorkerRecord
from windlass.worker.engine import engine


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assign ten times as often as in earnest, and come back sooner."""
    monkeypatch.setattr("windlass.cluster.member.STEER_EVERY", 0.1)
    monkeypatch.setattr(engine, "RECONNECT", Backoff(0.06, 10.0, jitter=0.5))


class Scene:
    """A task that waits until it is let go, and what became of its runs."""

    def __init__(self, app: Windlass) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.proceed = asyncio.Event()
        self.runs = 0
        self.cancels = 0

        @app.task(name="scene.waits", queue="scene")
        async def waits(ctx: Context) -> str:
            self.runs += 1
            self.started.set()
            try:
                await self.proceed.wait()
            except asyncio.CancelledError:
                self.cancels += 1
                raise
            finally:
                self.stopped.set()
            return f"attempt {ctx.attempt}"

        self.waits = waits


@pytest.fixture
async def scene(wired: Windlass) -> Scene:
    return Scene(wired)


async def living(line: Line) -> list[WorkerRecord]:
    return [worker for worker in await line.real.workers() if worker.alive]


async def declare_dead(line: Line) -> int:
    """Rescue the one living worker, however often its heartbeat moves on while we try."""
    while True:
        (worker,) = await living(line)
        if await line.real.rescue(worker.id, worker.heartbeat, DeathPolicy()) is not None:
            return worker.id


async def heartbeats_since(line: Line, heartbeat: int) -> bool:
    """Return whether the one living worker has sent four heartbeats since."""
    (worker,) = await living(line)
    return worker.heartbeat >= heartbeat + 4
